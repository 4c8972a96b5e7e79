"""Fixtures shared by all rooms."""

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import settings
from tests.builders import instant_plans

from dpadmm_research.datasets.adult import load_adult

settings.register_profile("quick", max_examples=50)  # `make test`; `make test-all` tries twice as many

collect_ignore = ["mutants.py"]  # a script, with the list of broken builds beside it


@pytest.fixture(scope="session")
def adult():
    """UCI Adult, encoded; skipped where the files are not at hand."""
    if not os.environ.get("DPADMM_DATA"):
        pytest.skip("needs UCI Adult: set DPADMM_DATA to the folder that holds adult/")
    return load_adult()


@pytest.fixture
def real_plans() -> None:
    """Let the planner simulate where `instant_forecasts` is used."""


@pytest.fixture
def instant_forecasts(request: pytest.FixtureRequest) -> Iterator[None]:
    """Skip the planner's simulations; `real_plans` asks for them."""
    with nullcontext() if "real_plans" in request.fixturenames else instant_plans():
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-snapshots", action="store_true", help="write tests/snapshots anew, to be read in a diff")


@pytest.fixture
def snapshot(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with that of a file in tests/snapshots, by its name there."""

    def compare(name: str, text: str) -> None:
        place = Path(__file__).parent / "snapshots" / name
        if request.config.getoption("--update-snapshots", default=False):
            place.parent.mkdir(exist_ok=True, parents=True)
            place.write_text(text, encoding="utf-8")
        assert text == place.read_text(encoding="utf-8")

    return compare
