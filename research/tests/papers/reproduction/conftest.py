"""One toy-size run of every figure, shared by the tests."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dpadmm_research.reproduction import runner
from dpadmm_research.reproduction.figure import Figure, Order, Size
from dpadmm_research.reproduction.registry import FIGURES
from dpadmm_research.reproduction.runner import Outcome, reproduce

TOY = Order(Size.TOY)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Keep the tests that share the run below in one process, which makes it once."""
    for item in items:
        if "toy" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("figures"))


@dataclass(frozen=True)
class Toy:
    """All figures at toy size: their folder, the outcome of the run that made them, and what it drew, by name."""

    out: Path
    outcome: Outcome
    pictures: dict[str, Any]

    def file(self, name: str, kind: str) -> Path:
        return self.out / name / f"{name.rsplit('/', 1)[-1]}.{kind}"

    def table(self, name: str) -> pd.DataFrame:
        return pd.read_parquet(self.file(name, "parquet"))


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    out, pictures = tmp_path_factory.mktemp("reproduction"), {}
    write = runner.write_figure

    def remember(folder: Path, figure: Figure, *about: Any) -> list[Path]:
        def draw(table: Any, data: str) -> Any:
            return pictures.setdefault(figure.name, figure.draw(table, data))

        return write(folder, replace(figure, draw=draw), *about)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "write_figure", remember)
        return Toy(out, reproduce(list(FIGURES), TOY, out, processes=1), pictures)
