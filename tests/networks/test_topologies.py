"""Topologies: refusals of all."""

import pytest

from dpadmm.errors import InputError
from dpadmm.networks import complete, grid, path, ring, star


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: star(1), "n must be a whole number of at least 2, got 1"),
        (lambda: star(-3), "at least 2, got -3"),
        (lambda: ring(2), "at least 3, got 2"),
        (lambda: ring(4.5), "got 4.5"),
        (lambda: path(1), "at least 2"),
        (lambda: path(True), "got True"),
        (lambda: complete(1), "at least 2"),
        (lambda: complete(0), "at least 2"),
        (lambda: complete(10**6), "edges, more than the 20000000 allowed"),
        (lambda: grid(0, 3), "rows"),
        (lambda: grid(3, -1), "cols"),
        (lambda: grid(1, 1), "got 1 x 1"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InputError, match=message):
        make()
