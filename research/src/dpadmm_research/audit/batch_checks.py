"""Are batches drawn as the certificate says? Sampling amplifies only where every batch is random by itself (C4)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from dpadmm.methods.base import Agents
from dpadmm.methods.batches import Batches, Moment, batch_gradients
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import Huber
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import Silos
from dpadmm_research.audit.findings import FALSE_ALARM, Check, CheckOutcome
from dpadmm_research.audit.neighbours import FAR
from dpadmm_research.audit.subjects import MethodSubject

ROUNDS, STEPS = 800, 2
_FARTHEST = 6  # batches that are compared with each other


def check_sampling(subject: MethodSubject) -> CheckOutcome | None:
    """Return whether batches of the method are random, None if it has none; they are drawn as the engine draws them."""
    algorithm: Any = subject.algorithm.with_drawn_batches()
    batches = getattr(algorithm, "batches", None)
    if not isinstance(batches, Batches):
        return None
    records = int(subject.worlds[0].functions.sizes[0])
    p, where = smallest_p(memberships(batches, records), batches.size / records)
    return CheckOutcome(Check.SAMPLING, subject.method, subject.pair, p, where, p < FALSE_ALARM)


def memberships(batches: Batches, records: int) -> NDArray[np.bool_]:
    """Return (moments, records): who is in which batch. Every record pulls along an axis of its own, and so shows."""
    silos = Silos.from_parts([np.eye(records)], [np.full(records, FAR)], row_norm=1.0)
    problem = Problem.of(EmpiricalRisk(silos, Huber(1.0)))
    agents, zero = Agents.of(problem, None, tolerance=1e-9, threads=1), np.zeros((1, records, 1))
    moments = [Moment(k, step) for k in range(1, ROUNDS + 1) for step in range(STEPS)]
    return np.array([batch_gradients(batches, moment, agents, zero)[0, :, 0] != 0 for moment in moments])


def smallest_p(is_in: NDArray[np.bool_], rate: float) -> tuple[float, str]:
    """Return the smallest p-value times the number of tests: how often records come, and how often in two batches."""
    tests = {"in batches": _binomial(is_in.sum(axis=0), len(is_in), rate)}
    for lag in range(1, _FARTHEST + 1):
        for begin in (0, lag):
            places = np.arange(begin, len(is_in) - lag)
            places = places[(places - begin) % (2 * lag) < lag]  # each batch once, so that counts are binomial
            both = (is_in[places] & is_in[places + lag]).sum(axis=0)
            tests[f"in batches {lag} apart, from {begin}"] = _binomial(both, len(places), rate**2)
    number = sum(p.size for p in tests.values())
    where = min(tests, key=lambda name: tests[name].min())
    return min(1.0, number * float(tests[where].min())), f"record {int(np.argmin(tests[where]))}, {where}"


def _binomial(counts: NDArray[np.int64], number: int, rate: float) -> Floats:
    tails = np.minimum(binom.cdf(counts, number, rate), binom.sf(counts - 1, number, rate))
    return np.minimum(1.0, 2 * tails)
