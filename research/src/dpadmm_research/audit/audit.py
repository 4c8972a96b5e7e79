"""Attack the library's own code and report the epsilon an attacker demonstrably gets, beside the certified one."""

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import Sampler, SimulatedSampler
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.curves import Curve, GaussianCurve
from dpadmm.privacy.protection import View
from dpadmm.privacy.releases import SampledGaussianRelease
from dpadmm.problems.arrays import Floats
from dpadmm_research.audit.attacks import Attack, Evidence, Scores
from dpadmm_research.audit.catalogue import all_subjects, subjects_of
from dpadmm_research.audit.estimates import (
    Advantage,
    Estimate,
    How,
    advantage_bound,
    checked_confidence,
    clopper_pearson_bound,
    family_bound,
    gdp_bound,
)
from dpadmm_research.audit.subjects import Subject
from dpadmm_research.audit.tradeoff import certified_tradeoff, operating_points
from dpadmm_research.audit.transcripts import OpenNoise, record

DEFAULT_RUNS = 20_000
"""Runs attacked, half of them in each world."""

ALARM_CONFIDENCE = 1 - 1e-6
"""What it takes to call a certificate refuted."""

FEWEST_RUNS = 200
STANDARD = Target(epsilon=1.0, delta=1e-5)


@dataclass(frozen=True)
class AuditResult:
    """What one attack found about one method, pair and view.

    pair: how the two worlds differ, in words. attack: how runs were scored, in words.
    certified_epsilon: what the library states at `delta` (0 for pure guarantees); estimate: what the attacker shows.
    advantage: bound on `tpr - fpr`; certified_advantage: the most the certified curve allows.
    fpr, fnr: the attacker's operating points; certified_fnr: the least fnr that the certificate allows at each fpr.
    is_violation: whether the certificate is refuted at a confidence of 1 - 1e-6 or more. (The estimate itself is wrong
    as often as its own, usually lower, confidence says: among many of them a few lie above the truth by chance.)
    """

    method: str
    view: View
    pair: str
    attack: str
    certified_epsilon: float
    delta: float
    estimate: Estimate
    advantage: Advantage
    certified_advantage: float
    runs: int
    seconds: float
    is_violation: bool
    curve: Curve = field(repr=False)
    fpr: Floats = field(repr=False)
    fnr: Floats = field(repr=False)
    certified_fnr: Floats = field(repr=False)

    @property
    def tightness(self) -> float:
        """The audited lower bound on epsilon over the certified epsilon."""
        return self.estimate.epsilon_lower / self.certified_epsilon


def audit(
    name: str,
    target: Target = STANDARD,
    view: View | None = None,
    runs: int = DEFAULT_RUNS,
    confidence: float = 0.95,
    seed: int = 0,
) -> AuditResult:
    """Attack a method, or the column profile, on its headline pair, as `view` (None: whom its certificate is about).

    Where the headline pair has no attack for the view, the first one that has is taken.

    Parameters: target, the budget its noise is calibrated to (pure methods take the epsilon); runs >= 200, half in
    each world; confidence in [0.76, 1); seed of noise, batches and participation.

    >>> found = audit("p-admm", runs=2000)
    >>> found.view.value, found.is_violation, 0.5 < found.tightness < 1
    ('eavesdropper', False, True)
    """
    subjects = subjects_of(name, seed)
    subject = next((each for each in subjects if view in each.views), subjects[0])
    return examine(subject, target, (view,), runs, confidence, seed)[0]


def audit_all(
    target: Target = STANDARD,
    runs: int = DEFAULT_RUNS,
    confidence: float = 0.95,
    seed: int = 0,
    names: Sequence[str] | None = None,
) -> Iterator[AuditResult]:
    """Attack everything private (or what is named) on every pair and from every view; results come one by one.

    All bounds hold *together* with the stated confidence: each of the R results is given `1 - (1 - confidence)/R`.
    """
    chosen = all_subjects(seed) if names is None else [s for name in names for s in subjects_of(name, seed)]
    each = 1 - (1 - checked_confidence(confidence)) / number_of_results(names)
    for subject in chosen:
        yield from examine(subject, target, tuple(subject.views), runs, each, seed)


def number_of_results(names: Sequence[str] | None = None) -> int:
    """Return how many results `audit_all` will yield, for a progress bar."""
    chosen = all_subjects() if names is None else [s for name in names for s in subjects_of(name)]
    return sum(len(subject.views) for subject in chosen)


def examine(
    subject: Subject,
    target: Target = STANDARD,
    views: Sequence[View | None] = (None,),
    runs: int = DEFAULT_RUNS,
    confidence: float = 0.95,
    seed: int = 0,
    sampler: Sampler | None = None,
    plan: NoisePlan | None = None,
    reserved: Curve | None = None,
    how: How | None = None,
) -> tuple[AuditResult, ...]:
    """Attack one subject from several views with the same runs.

    sampler: where noise comes from (None: seeded). plan: the noise that is used (None: as the library calibrates it).
    reserved: what is put to the test (None: the curve that the plan's own statement certifies). how: the estimator
    (None: GDP where the promise is a Gaussian curve, the plan's own family for releases on random batches,
    Clopper-Pearson elsewhere).
    """
    replicas = checks.count("runs", runs, least=FEWEST_RUNS) // 2
    checked_confidence(confidence)
    attacks = [subject.attack(view) for view in views]
    begin = time.perf_counter()
    plan = subject.plan(target) if plan is None else plan
    curve = plan.account().curve if reserved is None else reserved
    if how is None:
        is_sampled = any(isinstance(release, SampledGaussianRelease) for release in plan)
        how = How.GDP if isinstance(curve, GaussianCurve) else How.FAMILY if is_sampled else How.CLOPPER_PEARSON
    sampler = sampler if sampler is not None else SimulatedSampler(noise_seed(seed, subject))
    evidence = gather(subject, plan, sampler, replicas)
    known: dict[Attack, Scores] = {}  # viewers who see the same have the same scores
    results = []
    for view, attack in attacks:
        if attack not in known:
            known[attack] = attack.scores(evidence)
        spent, begin = time.perf_counter() - begin, time.perf_counter()
        delta = 0.0 if subject.is_pure else target.delta
        case = Case(subject.method, subject.pair, view, attack.title, curve, delta, how, 2 * replicas, spent, plan=plan)
        results.append(judged(case, known[attack], confidence))
    return tuple(results)


def gather(subject: Subject, plan: NoisePlan, sampler: Sampler, replicas: int) -> Evidence:
    """Run the subject in both worlds, replica by replica with the same noise."""
    stage = subject.stage(plan, replicas)
    first, second = (record(stage, world, OpenNoise(plan, sampler, replicas)) for world in subject.worlds)
    return Evidence(stage, subject.worlds, plan, sampler, (first, second))


class Case(NamedTuple):
    """What is judged: who looks at what, the promise, the estimator, and what it took.

    is_paired: run i of one world shares its noise with run i of the other. plan: the noise, where its family is used.
    """

    method: str
    pair: str
    view: View
    attack: str
    curve: Curve
    delta: float
    how: How
    runs: int
    seconds: float
    is_paired: bool = True
    plan: NoisePlan | None = None

    def family(self, factor: float) -> Curve:
        """Return the curve of the same releases with so many times the noise."""
        if self.plan is None:
            raise InputError("A lower bound within a family of noise needs the noise plan.")
        scaled_noise = {
            at: {who: one.scale_noise(factor) for who, one in row.items()} for at, row in self.plan.releases.items()
        }
        return NoisePlan(scaled_noise).account().curve


def judged(case: Case, scores: Scores, confidence: float) -> AuditResult:
    """Return what the scores of all runs say about the promise."""
    curve = case.curve
    certified, allowed = curve.epsilon(case.delta), curve.delta(0.0)
    estimate, advantage = _bounds(case, scores, confidence)
    surely = max(confidence, ALARM_CONFIDENCE)
    if case.how is How.FAMILY:  # an epsilon above the certified one is an advantage above the allowed one
        is_violation = _bounds_advantage(case, scores, surely).advantage_lower > allowed
    else:
        alarm = _bounds(case, scores, surely)
        is_violation = alarm[0].refutes(certified) or alarm[1].advantage_lower > allowed
    fpr, fnr = operating_points(scores.p, scores.q)
    return AuditResult(
        method=case.method,
        view=case.view,
        pair=case.pair,
        attack=case.attack,
        certified_epsilon=certified,
        delta=case.delta,
        estimate=estimate,
        advantage=advantage,
        certified_advantage=allowed,
        is_violation=is_violation,
        runs=case.runs,
        seconds=case.seconds,
        curve=curve,
        fpr=fpr,
        fnr=fnr,
        certified_fnr=certified_tradeoff(curve, fpr),
    )


def _bounds(case: Case, scores: Scores, confidence: float) -> tuple[Estimate, Advantage]:
    """Return both bounds. Where they rest on different counts, each gets half of the error probability."""
    p, q, threshold = scores
    if case.how is How.GDP:
        estimate = gdp_bound(p, q, case.delta, confidence, threshold, is_paired=case.is_paired)
        return estimate, advantage_bound(p, q, confidence, threshold, is_paired=case.is_paired)
    if case.how is How.FAMILY:
        advantage = _bounds_advantage(case, scores, confidence)
        return family_bound(advantage, case.delta, case.family), advantage
    each = (1 + confidence) / 2
    advantage = advantage_bound(p, q, each, threshold, is_paired=case.is_paired)
    return clopper_pearson_bound(p, q, case.delta, each), advantage


def _bounds_advantage(case: Case, scores: Scores, confidence: float) -> Advantage:
    return advantage_bound(*scores[:2], confidence, scores.threshold, is_paired=case.is_paired)


def noise_seed(seed: int, subject: Subject) -> int:
    """Return the seed of a subject's noise: subjects share none of it."""
    text = f"dpadmm audit 1|{seed}|{subject.method}|{subject.pair}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
