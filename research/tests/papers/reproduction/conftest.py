"""One toy-size run of every figure, shared by the tests."""

from functools import cache

import pandas as pd
import pytest

from dpadmm_research.reproduction.figure import Order, Size
from dpadmm_research.reproduction.registry import FIGURES
from dpadmm_research.reproduction.runner import reproduce

TOY = Order(Size.TOY)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Keep the tests that share the run below in one process, which makes it once."""
    for item in items:
        if "toy" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("figures"))


@pytest.fixture(scope="session")
def toy_order():
    return TOY


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    """The folder with all figures at toy size, and the outcome of the run that made them."""
    out = tmp_path_factory.mktemp("reproduction")
    return out, reproduce(list(FIGURES), TOY, out, processes=1)


@pytest.fixture(scope="session")
def pictures(toy):
    """Every figure at toy size as it is drawn, by name; each is drawn once for all tests that look at it."""

    @cache
    def drawn(name):
        table = pd.read_parquet(toy[0] / name / f"{name.rsplit('/', 1)[-1]}.parquet")
        picture = FIGURES[name].draw(table, table["data"].iloc[0])
        picture.draw_without_rendering()
        return picture

    return drawn
