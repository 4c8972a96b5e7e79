"""Does a run fail, stop or warn because of what the records are? Every method, on extreme records within the bounds."""

from dataclasses import replace

import numpy as np
import pytest

from dpadmm.core.release import PlannedNoise
from dpadmm.errors import SolverError
from dpadmm.noise.sampler import SecureSampler
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import View
from dpadmm.privacy.releases import CoordinateLaplaceRelease
from dpadmm.problems.losses import LabelKind
from dpadmm.problems.problem import EmpiricalRisk, SoftmaxRisk
from dpadmm.testing import LocalEngine, Recording, Stopping
from dpadmm_research.audit.audit import STANDARD
from dpadmm_research.audit.catalogue import all_subjects
from dpadmm_research.audit.subjects import MethodSubject
from dpadmm_research.audit.transcripts import TOLERANCE

RISKS = (EmpiricalRisk, SoftmaxRisk)
SIZES = (0.0, 5e-324, 1e-160, 1e-8, 1.0)
ENGINE = LocalEngine(tolerance=TOLERANCE, threads=1, recording=Recording(every=0), progress=False, is_release=True)


def can_be_released(subject):
    """Methods on records, with weights as users have them; coordinate Laplace noise is refused."""
    if not isinstance(subject, MethodSubject) or not isinstance(subject.worlds[0].functions, RISKS):
        return False
    if subject.worlds[0].weights.max() > 1:
        return False
    is_laplace = any(isinstance(release, CoordinateLaplaceRelease) for release in subject.plan(STANDARD))
    return not is_laplace and subject.protection.view is not View.AGGREGATE


SUBJECTS = [subject for subject in all_subjects() if can_be_released(subject)]


def extreme(problem):
    """Yield problems with the same public facts: rows along one axis of one size, equal or opposite, and a mixture."""
    risk = problem.functions
    n, d, number = len(risk.silos.labels), risk.silos.dimension, np.arange(len(risk.silos.labels))
    sizes = (*(np.full(n, size) for size in SIZES), np.array(SIZES)[number % len(SIZES)])
    for size in sizes:
        for sign in (np.ones(n), np.where(number % 2, 1.0, -1.0)):
            features = np.zeros((n, d))
            features[:, 0] = size * sign * risk.silos.row_norm
            labels = 1e6 * sign if risk.loss.target is LabelKind.REALS else np.ones(n)
            silos = replace(risk.silos, features=features, labels=labels)
            yield replace(problem, functions=replace(risk, silos=silos))


def outcome(subject, plan, problem):
    noise = PlannedNoise(plan, SecureSampler())
    try:
        run = ENGINE.run(subject.algorithm, problem, Stopping(subject.rounds), subject.network, noise)
    except SolverError as failure:
        return str(failure)
    return "done" if np.isfinite(run.models).all() else "not finite"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: f"{s.method}-{s.pair[:30]}")
def test_no_run_fails(subject):
    plan = subject.plan(STANDARD, is_secure=True)
    assert {outcome(subject, plan, problem) for problem in extreme(subject.worlds[0])} == {"done"}


def test_methods_are_many():
    assert len({subject.method for subject in SUBJECTS}) >= 18


def test_noise_beyond_64_bit_numbers_ends_every_run_alike():
    """Whatever the records are, since it follows from the messages."""
    subject = next(s for s in SUBJECTS if s.method == "p-admm" and s.rounds > 1)
    plan = subject.plan(Target(1e-7, 1e-12), is_secure=True)
    reported = {outcome(subject, plan, problem) for problem in extreme(subject.worlds[0])}
    assert len(reported) == 1
    assert "public numbers" in reported.pop()
