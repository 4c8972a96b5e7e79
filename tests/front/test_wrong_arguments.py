"""Whatever a stranger passes to run, plan and minimise: a result, or an error of the package, never a bare one."""

import numpy as np
import pytest

import dpadmm
from dpadmm.costs import (
    Allocations,
    Amount,
    Ball,
    Consensus,
    CostFamily,
    Gap,
    General,
    Graph,
    Limits,
    Linear,
    Prox,
    Quadratics,
    Rows,
    Sharing,
    Whole,
)
from dpadmm.costs import plan as plan_costs
from dpadmm.errors import DpadmmError
from dpadmm.networks import ring
from dpadmm.problems.regularisers import Box, Quadratic

X = np.random.default_rng(0).uniform(-0.5, 0.5, (12, 2))
SILOS = [(X[part::2], np.sign(X[part::2, 0])) for part in (0, 1)]
FLEET = Allocations([1.0, 2.0, 3.0], 0.0, [2.0, 2.0], (0.1, 0.0))
QUADRATICS = Quadratics(np.eye(2), [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], (1.0, 1.0))
LOAD = Quadratic(0.1 * np.eye(2), [0.1, 0.2])
WRONG = {
    "none": None, "text": "nonsense", "empty text": "", "bytes": b"a", "true": True, "negative": -1, "zero": 0,
    "half": 0.5, "nan": float("nan"), "infinite": float("inf"), "huge": 10**400, "complex": 1j, "list": [],
    "nested": [[1.0, "a"], [2.0]], "dict": {"a": 1}, "object": object(), "matrix": np.zeros((2, 3)),
    "cube": np.zeros((2, 2, 2)), "nans": np.full((3, 2), np.nan), "texts": np.array(["a", "b"]), "type": int,
    "function": lambda *given: None, "pair": (1, 2), "triple": (1, 2, 3), "set": {1, 2},
}  # fmt: skip


def ran(**changes):
    given = {"method": "p-admm", "silos": SILOS, "epsilon": 1.0, "delta": 1e-5, "rounds": 2, "eta": 0.1, "seed": 1}
    given |= changes
    return dpadmm.run(given.pop("method"), given.pop("silos"), **given)


def minimised(**changes):
    given = {"agents": FLEET, "coupling": Sharing(LOAD), "protect": Amount(1.0), "epsilon": 1.0, "delta": 1e-6}
    given |= {"rounds": 2, "rho": 0.5, "seed": 1, "method": "admm"} | changes
    return dpadmm.minimise(given.pop("agents"), given.pop("coupling"), **given)


def planned_costs(**changes):
    given = {"agents": QUADRATICS, "coupling": Consensus(), "protect": Linear(1.0), "epsilon": 1.0, "delta": 1e-6}
    given |= {"rounds": 2, "gamma": 0.5} | changes
    return plan_costs(given.pop("agents"), given.pop("coupling"), **given)


def planned(**changes):
    given = {"sizes": (20, 20), "dimension": 2, "epsilon": 1.0, "delta": 1e-5, "method": "output-perturbation"}
    return dpadmm.plan(**given | changes)


def value(x, theta):
    return 0.5 * float((x - theta) @ (x - theta))


def slope(x, theta):
    return x - theta


FAMILY = {"value_of": value, "gradient_of": slope, "theta": [[0.1], [0.2]], "domain": (0, 1), "curvature": (1, 1)}
CALLS = {
    "run": (ran, [
        "method", "silos", "epsilon", "delta", "loss", "rounds", "mu", "regulariser", "row_norm", "topology", "unit",
        "view", "gradient_distance", "schedule", "batches", "participation", "constraint", "ledger", "seed", "eta",
        "gamma",
    ]),
    "plan": (planned, ["sizes", "dimension", "epsilon", "delta", "method", "view"]),
    "minimise": (minimised, [
        "agents", "coupling", "protect", "epsilon", "delta", "method", "rounds", "trust", "ledger", "seed", "guess",
        "guess_error", "rho", "strange",
    ]),
    "plan of costs": (planned_costs, [
        "agents", "coupling", "protect", "epsilon", "delta", "method", "rounds", "trust", "guess", "guess_error",
        "gamma", "lam",
    ]),
    "allocations": (
        lambda **given: Allocations(**{"amount": [1.0, 2.0], "lower": 0.0, "upper": [1.0, 2.0]} | given),
        ["amount", "lower", "upper", "costs", "periods"],
    ),
    "quadratics": (
        lambda **given: Quadratics(**{"P": np.eye(2), "q": np.ones((3, 2)), "curvature": (0.5, 2.0)} | given),
        ["P", "q", "curvature", "box"],
    ),
    "family": (
        lambda **given: planned_costs(agents=CostFamily(**FAMILY | {"dimension": 1} | given), protect=Gap(1.0)),
        ["value_of", "gradient_of", "theta", "domain", "curvature", "dimension", "reach"],
    ),
    "prox": (lambda **given: Prox(**{"functions": (slope,), "dimension": 1} | given), ["functions", "dimension"]),
    "sharing": (lambda **given: minimised(coupling=Sharing(**{"g": LOAD} | given)), ["g", "maps", "margin"]),
    "sharing in a box": (
        lambda **given: minimised(coupling=Sharing(**{"g": Box(0.0, 9.0), "margin": 1.0} | given)), ["margin"],
    ),
    "consensus": (lambda **given: planned_costs(coupling=Consensus(**given)), ["g", "metric"]),
    "general": (
        lambda **given: planned_costs(
            coupling=General(**{"A": np.eye(2), "B": -np.eye(2), "c": np.zeros(2)} | given), protect=Gap(1.0)
        ),
        ["A", "B", "c", "g"],
    ),
    "graph": (lambda **given: planned_costs(coupling=Graph(**given), gamma=None), ["network"]),
    "distances": (lambda distance: [kind(distance) for kind in (Amount, Gap, Linear)], ["distance"]),
    "regions": (lambda **given: minimised(protect=Whole(**given)), ["region"]),
    "balls": (lambda **given: Ball(**{"radius": 1.0} | given), ["radius"]),
    "limits": (lambda **given: Limits(**{"lower": 0.0, "upper": 1.0} | given), ["lower", "upper"]),
    "rows": (
        lambda **given: minimised(
            agents=Rows(**{"silos": SILOS} | given), coupling=Graph(ring(3)), protect=dpadmm.costs.Record(), rho=None
        ),
        ["silos", "loss", "row_norm", "mu"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("call", CALLS)
def test_no_bare_error(call, wrong):
    function, names = CALLS[call]
    bare = {}
    for name in names:
        if wrong == "type" and name in FAMILY and call == "family":
            continue  # what own functions raise at public points is their owner's
        try:
            function(**{name: WRONG[wrong]})
        except DpadmmError:
            pass
        except Exception as error:  # noqa: BLE001 - what must not happen is listed
            bare[name] = f"{type(error).__name__}: {error}"
    assert not bare
