"""One toy-size run of every figure, shared by the tests."""

import pytest

from dpadmm.experiments.figure import Order, Size
from dpadmm.experiments.registry import FIGURES
from dpadmm.experiments.runner import reproduce

TOY = Order(Size.TOY)


@pytest.fixture(scope="session")
def toy_order():
    return TOY


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    """The folder with all figures at toy size, and the outcome of the run that made them."""
    out = tmp_path_factory.mktemp("reproduction")
    return out, reproduce(list(FIGURES), TOY, out, processes=1)
