"""Several courses on the same rows, of which one is chosen by noisy scores: reserved as one run, before anything else.

All models that are compared are made of reserved releases, and so are the scores; the choice follows from these alone
(`docs/proofs/c15.md`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dpadmm.checks import plural
from dpadmm.core.local import LocalEngine
from dpadmm.core.private import (
    INTERRUPTED,
    Course,
    PreparedCourse,
    PrivateRun,
    after_round_zero,
    check_problems,
    masks_of,
)
from dpadmm.core.reserving import reserved
from dpadmm.core.round_zero import OneSum, Unencoded
from dpadmm.errors import InputError, raise_alone
from dpadmm.noise.draws import Sampler, Slot
from dpadmm.noise.plan import NoisePlan, check_reach
from dpadmm.noise.planned import PlannedNoise
from dpadmm.noise.secure import SecureSampler
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.certificates.sums import score_differences, scores_on_grid
from dpadmm.privacy.ledger import ConfirmedLedger
from dpadmm.privacy.protection import Certificate
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem

SCORES = Slot("scores")
"""Where the scores get their noise."""

Scorer = Callable[[Sequence[Floats]], Floats]
"""From each course's models (problems, d) to every silo's sums of shortened differences (silos, courses), see C15."""


@dataclass(frozen=True, kw_only=True)
class ScoreRound:
    """What the comparison releases: sums of vectors of norm at most `reach`, one number for each candidate."""

    reach: float
    target: Target


@dataclass(frozen=True, eq=False)
class CourseSearch:
    """Courses that share rows and budget, and the round in which their models are compared.

    courses: at least two, of the same silos and protection; the first alone may have a profile, which serves all.
    """

    courses: tuple[Course, ...]
    scores: ScoreRound

    def __post_init__(self) -> None:
        """Refuse courses that cannot be added up or compared."""
        first = self.courses[0]
        if len(self.courses) < 2:
            raise InputError(f"A comparison needs at least 2 courses, got {len(self.courses)}.")
        if any(course.profile is not None for course in self.courses[1:]):
            raise InputError("One profile serves all courses of a search: only the first may have one.")
        if any(course.curvature is not None for course in self.courses):
            raise InputError(
                "Candidates are compared by how well they predict; intervals (C14) are for one model without a choice. "
                "Nothing was spent. Leave out one of the two."
            )
        facts = {(course.is_pooled, course.setting.protection, course.times) for course in self.courses}
        sizes = {tuple(course.setting.problem.functions.sizes.tolist()) for course in self.courses}
        if len(facts) > 1 or len(sizes) > 1:
            raise InputError(
                "The candidates protect different people, from different observers or with noise in different places: "
                f"{first.setting.protection} at first. Compare methods that add noise at the same place. Nothing was "
                "spent."
            )

    @property
    def _sum(self) -> OneSum:
        return OneSum(SCORES, 1 + max(course.setting.rounds for course in self.courses))

    def score_plan(self, is_secure: bool = True) -> NoisePlan:
        """Return the releases of the scores."""
        first = self.courses[0]
        is_pooled, shares, number = first.is_pooled, first.shares, len(self.courses)

        def certified(n_records: int) -> Certificate:
            return score_differences(
                reach=self.scores.reach,
                n_records=n_records,
                protection=first.setting.protection,
                is_noise_shared=is_pooled,
            )

        def placed(certificate: Certificate, grid: float) -> Certificate:
            return scores_on_grid(certificate, grid=grid, scores=number, shares=shares)

        planned = self._sum.plan(
            self.scores.target,
            first.setting,
            certified,
            placed,
            is_pooled=is_pooled,
            is_secure=is_secure,
            shares=shares,
        )
        if is_secure:
            check_reach(planned, first.most_records)
        return planned

    def whole_plan(self, is_secure: bool = True) -> NoisePlan:
        """Return every release of the search: the profile, all candidates' training, the scores."""
        return self.beside([course.noise_plan(is_secure) for course in self.courses], is_secure)

    def beside(self, planned: Sequence[NoisePlan], is_secure: bool) -> NoisePlan:
        """Return every release, given those of one problem of each course."""
        everything = dict(self.courses[0].profile_plan(is_secure).releases)
        for number, (course, own) in enumerate(zip(self.courses, planned, strict=True)):
            for (slot, k), row in own.repeated(course.times).releases.items():
                everything[replace(slot, name=f"candidate {number}: {slot.name}"), k] = row
        return NoisePlan({**everything, **self.score_plan(is_secure).releases})

    def draw(self, sums: Floats, sampler: Sampler, run: str) -> tuple[Floats, float]:
        """Return the noisy sums (courses,) of all silos together, and the noise in them."""
        is_secure = isinstance(sampler, SecureSampler)
        planned = self.score_plan(is_secure)
        masks = masks_of(self.courses[0].shares, f"{run}, scores") if is_secure else None
        hook = PlannedNoise(planned, sampler, masks=masks)
        noisy = self._sum.noisy(planned, sums[:, :, None], hook)[:, :, 0].sum(axis=0)
        hook.check_drawn()
        return noisy, self._sum.pooled_noise(planned, len(sums))


@dataclass(frozen=True, eq=False)
class Comparison:
    """The noisy scores (courses,) by which a course was chosen, the lowest being the best, and the noise in them.

    own: the noise of the chosen course alone.
    """

    chosen: int
    scores: Floats
    noise_std: float
    own: NoisePlan = field(repr=False)


@dataclass(frozen=True, eq=False)
class SearchRun:
    """The runs of the course that was chosen, with the plan and the statement of the whole search, and how it was."""

    runs: list[PrivateRun] = field(repr=False)
    found: Comparison


def run_search(
    search: CourseSearch,
    problems: Sequence[Problem] | Unencoded,
    scorer: Scorer,
    sampler: Sampler,
    *,
    label: str,
    ledgers: Sequence[ConfirmedLedger] | ConfirmedLedger | None = None,
    engine: LocalEngine | None = None,
    name: str | None = None,
) -> SearchRun:
    """Reserve all that the search releases, run every course, and choose by noisy scores.

    problems: those of all courses, one course after the other; or what makes them by the profile. Others as in
    `run_course`, which says what is raised. The models that were not chosen are dropped.
    """
    prepared = [PreparedCourse.of(course, sampler, engine) for course in search.courses]
    is_secure, first = prepared[0].is_secure, search.courses[0]
    everything = search.beside([each.planned for each in prepared], is_secure)
    if isinstance(problems, Sequence):
        _check(search, problems)
    name, books, receipts = reserved(everything, first.setting, ledgers, label, name, is_secure=is_secure)
    if not isinstance(problems, Sequence):
        problems = after_round_zero(first, problems, sampler, name, books)
        _check(search, problems)
    done = []
    for number, each in enumerate(prepared):
        part = slice(number * first.times, (number + 1) * first.times)
        done.append(each.run(problems[part], name, first=part.start))
    outputs = [course.output for course in search.courses]
    models = [
        np.array([each.run.model(which)[:, 0] for each in runs]) for runs, which in zip(done, outputs, strict=True)
    ]
    try:
        scores, noise_std = search.draw(scorer(models), sampler, name)
    except KeyboardInterrupt:
        raise_alone(KeyboardInterrupt(INTERRUPTED.format(name)))
    chosen, statement = int(np.argmin(scores)), everything.statement()
    return SearchRun(
        [each.accounted(everything, statement, receipts, name) for each in done[chosen]],
        Comparison(chosen, scores, noise_std, prepared[chosen].planned),
    )


def _check(search: CourseSearch, problems: Sequence[Problem]) -> None:
    """Refuse problems that the courses are not for."""
    times = search.courses[0].times
    if len(problems) != times * len(search.courses):
        raise InputError(f"The search is for {plural(times * len(search.courses), 'problem')}, got {len(problems)}.")
    for number, course in enumerate(search.courses):
        check_problems(course, problems[number * times : (number + 1) * times])
