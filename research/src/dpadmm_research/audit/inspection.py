"""All checks of one subject: what attacks that look at everything together may miss."""

from collections.abc import Sequence

from dpadmm import checks
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import Sampler, SimulatedSampler
from dpadmm.privacy.accounting import Target
from dpadmm_research.audit.audit import STANDARD, gather, noise_seed
from dpadmm_research.audit.batch_checks import check_sampling
from dpadmm_research.audit.findings import CheckOutcome
from dpadmm_research.audit.noise_checks import check_noise
from dpadmm_research.audit.sensitivity import check_sensitivity
from dpadmm_research.audit.subjects import MethodSubject, Subject

INSPECTED_RUNS = 2000
"""Noise that is a fifth too small in a single release, in one coordinate, shows in so many."""


def inspect(
    subject: Subject,
    target: Target = STANDARD,
    runs: int = INSPECTED_RUNS,
    seed: int = 0,
    sampler: Sampler | None = None,
    plan: NoisePlan | None = None,
) -> tuple[CheckOutcome, ...]:
    """Return what the checks find: sensitivity, scale and independence of the noise, and of batches, if there are any.

    >>> from dpadmm_research.audit.catalogue import subjects_of
    >>> [found.is_broken for found in inspect(subjects_of("p-admm")[0], runs=400)]
    [False, False, False]
    """
    plan = subject.plan(target) if plan is None else plan
    source = sampler if sampler is not None else SimulatedSampler(noise_seed(seed, subject))
    evidence = gather(subject, plan, source, checks.count("runs", runs, least=20))
    noise = check_noise(evidence.runs[0], plan, subject.method, subject.pair)
    sampling = check_sampling(subject) if isinstance(subject, MethodSubject) else None
    return (check_sensitivity(subject, target, seed), *noise, *(() if sampling is None else (sampling,)))


def broken(findings: Sequence[CheckOutcome]) -> list[CheckOutcome]:
    """Return those that found something."""
    return [finding for finding in findings if finding.is_broken]
