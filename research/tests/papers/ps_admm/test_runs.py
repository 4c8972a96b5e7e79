"""The runs behind PS-ADMM's figures: eq. (1), one record a step, and what that costs beside Poisson batches."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpadmm.methods.batches import BatchKind
from dpadmm.privacy.releases import FixedSizeSampling
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import Problem, PublicFunctions
from dpadmm.problems.regularisers import ElasticNet
from dpadmm_research.comparison.adult import adult
from dpadmm_research.papers.ps_admm.runs import PS, SETTING, eq_1, split_plan
from dpadmm_research.reproduction.figure import Order, Size
from dpadmm_research.reproduction.table import Reading
from dpadmm_research.reproduction.trials import Trial

TOY, FULL = Order(Size.TOY), Order()
RECORDS = 6331
"""Adult 70/30 over five providers."""

# Budget, then the standard deviations of the full gradient and of the correction that `calibrated` found for it.
ONE_RECORD = [(0.1, 0.5983, 1.34751), (0.2, 0.33164, 1.13323), (0.5, 0.18055, 0.94834)]
POISSON = [(0.1, 0.53067, 0.75295), (0.2, 0.30087, 0.59227), (0.5, 0.14081, 0.48827)]


def test_the_objective_is_equation_1() -> None:
    """Sum over providers of mean losses, and `R ||x||^2` once."""
    problem = eq_1(adult(TOY))
    x = np.random.default_rng(0).standard_normal(problem.dimension)
    losses = []
    silos = adult(TOY).silos(SETTING.agents)
    for i in range(SETTING.agents):
        part = slice(int(silos.offsets[i]), int(silos.offsets[i + 1]))
        features = silos.features[part]
        losses.append(np.log1p(np.exp(-silos.labels[part] * (features @ x))).mean())
    expected = math.fsum(losses) + 1e-4 * float(x @ x)
    here = problem.weights @ problem.functions.value(np.broadcast_to(x[None, :, None], (SETTING.agents, len(x), 1)))
    assert float(here[0] + problem.regulariser.value(x[:, None])[0]) == pytest.approx(expected, rel=1e-12)


def test_every_inner_step_reads_exactly_one_record() -> None:
    for reading in (Reading.CLAIMED, Reading.CERTIFIED):
        sampling = SETTING.method(FULL, reading).batches.sampling(RECORDS)
        assert sampling == FixedSizeSampling(size=1, population=RECORDS)


def certified(kind: BatchKind, full: float, correction: float) -> float:
    """The certified epsilon of the experiment's steps with these standard deviations."""
    method = SETTING.method(FULL, Reading.CERTIFIED)
    method = replace(method, batches=replace(method.batches, kind=kind))
    functions = PublicFunctions.of_loss(np.full(SETTING.agents, RECORDS), 104, Logistic(), 1.0)
    problem = Problem(functions, np.ones(SETTING.agents), ElasticNet(l2=2 * SETTING.ridge))
    variance = full**2 + correction**2
    plan = split_plan(method, problem, SETTING.rounds, math.sqrt(variance), full**2 / variance)
    return Trial(PS, Reading.CERTIFIED, 0.0, plan).certified_epsilon(SETTING.delta)


@pytest.mark.parametrize(("kind", "levels"), [(BatchKind.FIXED, ONE_RECORD), (BatchKind.POISSON, POISSON)])
def test_noise_that_meets_each_budget(kind: BatchKind, levels: list[tuple[float, float, float]]) -> None:
    """The standard deviations an inner step that the figures' page names: 1.47, 1.18, 0.97 and 0.92, 0.66, 0.51."""
    for epsilon, full, correction in levels:
        assert certified(kind, full, correction) == pytest.approx(epsilon, rel=2e-3)
    totals = [round(math.hypot(full, correction), 2) for _, full, correction in levels]
    assert totals == ([1.47, 1.18, 0.97] if kind is BatchKind.FIXED else [0.92, 0.66, 0.51])


def test_one_record_costs_more_than_poisson_batches_at_the_same_noise() -> None:
    _, full, correction = POISSON[0]
    assert certified(BatchKind.FIXED, full, correction) > 5 * certified(BatchKind.POISSON, full, correction)
