"""What networks and walks refuse: every row of tests/snapshots/refusals/networks.txt."""

import networkx as nx
import numpy as np
from tests.refusals import check_refusals

from dpadmm import networks

EDGE = np.array([(0, 1)])
NONE = np.empty((0, 2), dtype=int)


def generator():
    return np.random.default_rng(0)


def test_refused(snapshot):
    check_refusals(snapshot, "networks", vars(networks), globals())
