"""Methods that estimators do not use, end to end with secure noise: attacked, and their noise checked."""

import pytest

from dpadmm.noise.sampler import SecureSampler
from dpadmm_research.audit.attacks import Afresh
from dpadmm_research.audit.audit import STANDARD, examine
from dpadmm_research.audit.catalogue import all_subjects, subjects_of
from dpadmm_research.audit.inspection import broken, inspect

AFRESH = Afresh(SecureSampler)


def check(subject, runs):
    plan = subject.plan(STANDARD, is_secure=True)
    result = examine(subject, runs=2 * runs, confidence=1 - 1e-6, sampler=AFRESH, plan=plan)[0]
    assert not result.is_violation
    assert not broken(inspect(subject, runs=runs, sampler=AFRESH, plan=plan))


@pytest.mark.parametrize(
    "method", [pytest.param("ps-admm", marks=pytest.mark.slow), "dp-cd", "dp-dgd", "fp-walk", "r-admm", "m-admm"]
)
def test_end_to_end(method):
    check(subjects_of(method)[0], runs=100)


@pytest.mark.slow
@pytest.mark.parametrize(
    "subject", [s for s in all_subjects() if "masked" not in s.pair], ids=lambda s: f"{s.method}-{s.pair[:40]}"
)
def test_everything(subject):
    """Shares under masks are drawn for one run at a time."""
    check(subject, runs=600)
