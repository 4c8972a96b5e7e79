"""The numbers a method runs with, brought to one scale: how far the common model can move per round.

Every method here is, for the mean of its models, a descent on the pooled objective `F = sum_i w_i f_i` with steps of
some size t: explicit for gradients, implicit for ADMM. A method says itself what t makes of its settings (`at_step`).

One record moves the gradient of F by `2G/n`, so whatever the method, K rounds with total time `T = K t` and a budget m
(GDP) leave a noise of about `2 G T/(m n)` times sqrt(N) in each coordinate of the model when every silo adds its own.
"""

from dataclasses import dataclass

import numpy as np

from dpadmm.algorithms.decentralised import is_ridge
from dpadmm.algorithms.method import Method, Topology, plannable
from dpadmm.checks import shown
from dpadmm.engines.local import FinalModel
from dpadmm.errors import InputError
from dpadmm.networks.graph import Network
from dpadmm.networks.topologies import complete
from dpadmm.noise.schedules import Constant, Schedule, Tail
from dpadmm.planning.task import Task
from dpadmm.privacy.calibration import PureTarget, Target
from dpadmm.problems.regularisers import Regulariser


@dataclass(frozen=True)
class Settings:
    """A candidate: the method, rounds K, time per round t, ridge weight mu."""

    method: type[Method]
    rounds: int
    step: float
    mu: float = 0.0


def network_for(task: Task, method: type[Method]) -> Network | None:
    """Return the graph the method runs on: the user's, else a complete one; None for a coordinator."""
    if method.about.topology is not Topology.GRAPH:
        return None
    return task.network if task.network is not None else complete(task.n_silos)


def output_for(method: type[Method]) -> tuple[FinalModel, Schedule]:
    """Return which model is released, and the shape of the noise over the rounds."""
    return (FinalModel.LAST, Constant()) if method.about.is_one_shot else (FinalModel.TAIL_AVERAGE, Tail())


def method_named(name: str) -> type[Method]:
    """Return the method, or say which ones can be planned."""
    known = plannable()
    if name not in known:
        raise InputError(f"No plan can be made for the method {shown(name)}; choose one of {', '.join(known)}.")
    return known[name]


def why_not(task: Task, method: type[Method]) -> str | None:
    """Return why the method cannot serve the task, None if it can."""
    about = method.about
    if task.n_silos < about.least_silos:
        return f"{about.name} needs at least {about.least_silos} silos, got {task.n_silos}"
    if task.protection.view not in about.views:
        return f"{about.name} is not certified against the {task.protection.view.value}"
    if task.protection.unit not in about.units:
        return f"{about.name} is not certified for the unit {task.protection.unit.value}"
    if about.needs_ridge and own_ridge(task) == 0:
        return f"{about.name} needs a ridge, a weight alpha above 0"
    penalty = left_regulariser(task)
    if penalty is not None and not about.takes_any_regulariser:
        return f"{about.name} has no proximal step for {type(penalty).__name__}"
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


def budget_of(task: Task, method: type[Method]) -> Target | PureTarget:
    """Return the task's budget in the form the method's noise takes; pure epsilon is stronger than (epsilon, delta)."""
    return PureTarget(task.target.epsilon) if method.about.is_pure else task.target


def solver_tolerance(task: Task) -> float:
    """Return the gradient norm to solve to: 1e-4 of what one record can move, so that it costs no noise (C7).

    Never less than 64-bit numbers of the gradients' size can reach: that would fail after the run was paid for.
    """
    constants = task.functions().constants
    one_record = 2.0 * constants.record_gradient / task.n_records
    size = max(1.0, constants.record_gradient)
    return float(np.clip(1e-4 * one_record, 1e-12 * size, 1e-7 * size))
