"""The numbers a method runs with, brought to one scale: how far the common model can move per round.

Every method here is, for the mean of its models, a descent on the pooled objective `F = sum_i w_i f_i` with steps of
some size t: explicit for gradients, implicit for ADMM. From the optimality of the local steps,

    P-ADMM on a graph    t = 1 / (2 eta sum_i deg_i)             (sum the local conditions; duals and edges cancel)
    fixed-point ADMM     t = gamma                               (u_i = z - gamma N w_i grad f_i, z their mean)
    gradient descent     t = step.

One record moves the gradient of F by `2G/n`, so whatever the method, K rounds with total time `T = K t` and a budget m
(GDP) leave a noise of about `2 G T/(m n)` times sqrt(N) in each coordinate of the model when every silo adds its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from dpadmm.algorithms.graph_method import is_ridge
from dpadmm.algorithms.method import Topology
from dpadmm.algorithms.registry import BY_NAME
from dpadmm.checks import shown
from dpadmm.errors import InputError
from dpadmm.networks.graph import Network
from dpadmm.networks.topologies import complete
from dpadmm.noise.schedules import Constant, Schedule, Tail
from dpadmm.planning.task import Task
from dpadmm.privacy.calibration import PureTarget, Target
from dpadmm.privacy.records import Unit, View
from dpadmm.problems.regularisers import Regulariser


class Output(Enum):
    """Which model is released."""

    LAST = "the last model"
    TAIL_AVERAGE = "the mean of the models of the second half of the rounds"


@dataclass(frozen=True)
class Settings:
    """A candidate: method by its registry name, rounds K, time per round t, ridge weight mu."""

    method: str
    rounds: int
    step: float
    mu: float = 0.0


@dataclass(frozen=True)
class Recipe:
    """How to make a method from settings, and what it can be used for."""

    build: Callable[[Task, Settings], Any]
    is_pure: bool = False
    output: Output = Output.TAIL_AVERAGE
    schedule: Schedule = Tail()  # noqa: RUF009 (frozen)
    least_silos: int = 1
    takes_any_regulariser: bool = False
    views: frozenset[View] = frozenset(View)
    units: frozenset[Unit] = frozenset({Unit.RECORD})


def network_for(task: Task, method: str) -> Network | None:
    """Return the graph the method runs on: the user's, else a complete one; None for a coordinator."""
    if BY_NAME[method].about.topology is not Topology.GRAPH:
        return None
    return task.network if task.network is not None else complete(task.n_silos)


def edge_penalty(task: Task, settings: Settings) -> float:
    """Return eta of a graph method whose mean model moves by `step` a round."""
    network = task.network if task.network is not None else complete(task.n_silos)
    return 1.0 / (2.0 * settings.step * float(network.degrees.sum()))


def _class_of(settings: Settings) -> Any:
    return BY_NAME[settings.method]


def _on_edges(task: Task, settings: Settings) -> Any:
    return _class_of(settings)(eta=edge_penalty(task, settings))


def _with_gamma(task: Task, settings: Settings) -> Any:
    return _class_of(settings)(gamma=settings.step, unit=task.protection.unit)


def _gradient(task: Task, settings: Settings) -> Any:
    return _class_of(settings)(step=min(settings.step, longest_gradient_step(task, settings.mu)))


def _linearised(task: Task, settings: Settings) -> Any:
    largest = max(task.sizes) / task.n_records * task.functions(settings.mu).constants.smoothness
    return _class_of(settings)(rho=1.0 / (task.n_silos * settings.step), step=1.0 / largest)


def _alone(task: Task, settings: Settings) -> Any:
    return _class_of(settings)()


def longest_gradient_step(task: Task, mu: float) -> float:
    """Return the longest explicit step that is safe for every data set, 1.9/L."""
    return 1.9 / task.functions(mu).constants.smoothness


_BOTH = frozenset({Unit.RECORD, Unit.USER})
_BLOCKS = {"takes_any_regulariser": True, "units": _BOTH}

RECIPES: dict[str, Recipe] = {
    "p-admm": Recipe(_on_edges, least_silos=2),
    "p-admm-recycled": Recipe(_on_edges, least_silos=2),
    "dvp": Recipe(_on_edges, is_pure=True, least_silos=2),
    "m-admm": Recipe(_on_edges, is_pure=True, least_silos=2),
    "r-admm": Recipe(_on_edges, is_pure=True, least_silos=2),
    "fp-centralised": Recipe(_with_gamma, takes_any_regulariser=True, units=_BOTH),
    "fp-federated": Recipe(_with_gamma, takes_any_regulariser=True, units=_BOTH),
    "fp-coordinator": Recipe(_with_gamma, takes_any_regulariser=True, units=_BOTH, views=frozenset({View.PUBLIC})),
    "dp-gd": Recipe(_gradient, takes_any_regulariser=True),
    "linearised-admm": Recipe(_linearised, takes_any_regulariser=True),
    "output-perturbation": Recipe(_alone, output=Output.LAST, schedule=Constant()),
}
"""The methods that can be planned; the others of the registry need choices that no public fact settles."""


def recipe_of(method: str) -> Recipe:
    """Return the recipe, or say which methods can be planned."""
    if method not in RECIPES:
        raise InputError(
            f"No plan can be made for the method {shown(method)}; choose one of {', '.join(sorted(RECIPES))}."
        )
    return RECIPES[method]


def why_not(task: Task, method: str) -> str | None:
    """Return why the method cannot serve the task, None if it can."""
    recipe = recipe_of(method)
    if task.n_silos < recipe.least_silos:
        return f"{method} needs at least {recipe.least_silos} silos, got {task.n_silos}"
    if task.protection.view not in recipe.views:
        return f"{method} is not certified against the {task.protection.view.value}"
    if task.protection.unit not in recipe.units:
        return f"{method} is not certified for the unit {task.protection.unit.value}"
    if method == "output-perturbation" and own_ridge(task) == 0:
        return f"{method} needs a ridge, a weight alpha above 0"
    penalty = left_regulariser(task)
    if penalty is not None and not recipe.takes_any_regulariser:
        return f"{method} has no proximal step for {type(penalty).__name__}"
    return None


def own_ridge(task: Task) -> float | None:
    """Return the user's ridge weight, None if the penalty is something else or was left to the planner."""
    if task.regulariser is None or not is_ridge(task.regulariser, task.dimension):
        return None
    return float(task.regulariser.strong_convexity)


def left_regulariser(task: Task) -> Regulariser | None:
    """Return the part of the user's penalty that is no ridge: it needs a proximal step."""
    if task.regulariser is None or is_ridge(task.regulariser, task.dimension):
        return None
    return task.regulariser


def budget_of(task: Task, method: str) -> Target | PureTarget:
    """Return the task's budget in the form the method's noise takes; pure epsilon is stronger than (epsilon, delta)."""
    return PureTarget(task.target.epsilon) if recipe_of(method).is_pure else task.target


def solver_tolerance(task: Task) -> float:
    """Return the gradient norm to solve to: 1e-4 of what one record can move, so that it costs no noise (C7).

    Never less than 64-bit numbers of the gradients' size can reach: that would fail after the run was paid for.
    """
    constants = task.functions().constants
    one_record = 2.0 * constants.record_gradient / task.n_records
    size = max(1.0, constants.record_gradient)
    return float(np.clip(1e-4 * one_record, 1e-12 * size, 1e-7 * size))
