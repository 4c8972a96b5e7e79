"""The one path of a private run: public facts -> promises -> calibrated noise -> ledger -> draw -> run -> outcome.

A `Course` is everything that is fixed before the data are touched; its noise plan lists every release. `run_course`
reserves them in the ledgers, and only then draws and runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from dpadmm.checks import plural, shown
from dpadmm.core.bought import keep_profile
from dpadmm.core.curvature import CurvatureRound, ReleasedCurvature, SettledRounds, release_curvature
from dpadmm.core.local import FinalModel, LocalEngine, Recording, Run, RunInterrupted, Stopping
from dpadmm.core.reserving import Charged, reserved
from dpadmm.core.round_zero import ProfileRound, Unencoded, draw_profile
from dpadmm.core.witness import PublicRound, Witness, message_scales
from dpadmm.errors import InputError, raise_alone
from dpadmm.methods.anatomy import NoiseHook
from dpadmm.methods.batches import Batches
from dpadmm.methods.method import Method, Setting, check_fit
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.networks.graph import Network
from dpadmm.noise.draws import Sampler
from dpadmm.noise.plan import NoisePlan, calibrated, check_reach, check_solvable
from dpadmm.noise.planned import PlannedNoise
from dpadmm.noise.promises import Family, Promise, Schedule
from dpadmm.noise.secure import SecureSampler
from dpadmm.noise.simulated import SimulatedSampler
from dpadmm.noise.sums import Masks
from dpadmm.privacy.accounting import Statement
from dpadmm.privacy.calibration import PureTarget, Target
from dpadmm.privacy.certificates.local import MOST_PER_NOMINAL
from dpadmm.privacy.certificates.sums import Shares
from dpadmm.privacy.ledger import ConfirmedLedger, Receipt
from dpadmm.privacy.protection import ONE_RECORD, Protection, Unit, View
from dpadmm.privacy.records import Origin, SampledGaussianRelease
from dpadmm.problems.arrays import Floats
from dpadmm.problems.declared import check_declared, declared_by, has_same_parts
from dpadmm.problems.problem import Problem
from dpadmm.solvers.solution import DEFAULT_TOLERANCE

INTERRUPTED = "The run {!r} was interrupted and none of its results are kept; what was reserved for it stays spent."
_MOST_MASKED = 50  # silos
_SEED_STEP = 2**64  # seeds of problems that are run together, apart from each other and from other users' seeds


@dataclass(frozen=True)
class RunSetting(Setting):
    """A setting that can be run: there is a network to send over, and a tolerance to solve to."""

    tolerance: float = DEFAULT_TOLERANCE
    network: Network | None = None


@dataclass(frozen=True, eq=False)
class Course:
    """What will be run and released, from public facts alone.

    setting: the problem as far as it is public (`PublicFunctions` will do), rounds, network, tolerance, whom it hides.
    target: the budget of one problem. schedule: relative noise over the rounds. output: which model is released.
    times: how many problems on the same rows are run, each with fresh noise.
    profile: what is released once before the first round, for all problems; None for nothing.
    curvature: what is released once after the last, for intervals; None for nothing.
    """

    algorithm: Method
    setting: RunSetting
    target: Target | PureTarget
    schedule: Schedule | None = None
    output: FinalModel = FinalModel.LAST
    times: int = 1
    profile: ProfileRound | None = None
    curvature: CurvatureRound | None = None

    def __post_init__(self) -> None:
        """Where only sums are seen, the method must read nothing else; intervals need gradients (C14)."""
        if self.curvature is not None and (self.times != 1 or not isinstance(self.algorithm, NoisyGradients)):
            raise InputError("The curvature is released after noisy-gradients, for one model of two classes (C14).")
        if self.shares is not None:
            if not isinstance(self.algorithm, Method):
                raise InputError(f"{type(self.algorithm).__name__} does not say whether it reads only sums (C12).")
            object.__setattr__(self, "algorithm", self.algorithm.summed())

    @property
    def is_pooled(self) -> bool:
        """Whether one noise hides the sum of all silos' values: the coordinator's, or the silos' shares of one."""
        is_summed = isinstance(self.algorithm, Method) and self.algorithm.about.trusts_coordinator
        return is_summed and self.setting.problem.n_agents > 1

    @property
    def shares(self) -> Shares | None:
        """Among whom the noise is split, where messages are sent under masks; None where they are not."""
        protection = self.setting.protection
        if protection.view is not View.AGGREGATE:
            return None
        return Shares(self.setting.problem.n_agents, protection.n_colluders)

    def profile_plan(self, is_secure: bool = True) -> NoisePlan:
        """Return the releases of round 0; none without a profile."""
        if self.profile is None:
            return NoisePlan({})
        planned = self.profile.noise_plan(
            self.setting, is_pooled=self.is_pooled, is_secure=is_secure, shares=self.shares
        )
        if is_secure:
            check_reach(planned, self.most_records)
        return planned

    @property
    def most_records(self) -> int:
        """How many records there can be, as a public fact: where their number is secret, many times the nominal one."""
        known = int(self.setting.problem.functions.sizes.sum())
        return known if self.setting.protection.relation.has_public_sizes else MOST_PER_NOMINAL * known

    def whole_plan(self, is_secure: bool = True) -> NoisePlan:
        """Return every release of all problems, round 0 and the curvature included."""
        return self.beside_profile(self.noise_plan(is_secure), is_secure)

    def beside_profile(self, one_problem: NoisePlan, is_secure: bool = True) -> NoisePlan:
        """Return every release of all problems, given those of one: round 0 and the curvature are among them."""
        rounds = one_problem.repeated(self.times).releases
        before, after = self.profile_plan(is_secure).releases, self.curvature_plan(is_secure).releases
        return NoisePlan({**before, **rounds, **after})

    def curvature_plan(self, is_secure: bool = True) -> NoisePlan:
        """Return the release after the last round; none without intervals."""
        if self.curvature is None:
            return NoisePlan({})
        planned = self.curvature.noise_plan(self.setting, is_secure=is_secure, shares=self.shares)
        if is_secure:
            check_reach(planned, self.most_records)
        return planned.resting_on(self.declared)

    def noise_plan(self, is_secure: bool = True) -> NoisePlan:
        """Return every release of one problem's rounds; `is_secure` counts the rounding to a grid (C8)."""
        setting = self.setting
        check_fit(self.algorithm, setting.problem, setting.network)
        promises = promises_of(self.algorithm, setting)
        if is_secure and Family.COORDINATE in {promise.family for promise in promises}:
            raise InputError(
                f"{type(self.algorithm).__name__} adds Laplace noise to every coordinate, for which no grid is planned "
                "(C8): it can be simulated, but not released. Nothing was spent; choose another method."
            )
        # There is no exact sampler for spherical noise, hence no grid; its certificates say so (C8).
        has_grid = is_secure and {promise.family for promise in promises} <= {Family.GAUSSIAN, Family.SAMPLED}
        has_grid |= self.shares is not None
        planned = calibrated(
            promises,
            self.target,
            self.schedule,
            silos_per_person=setting.protection.silos_per_person,
            secure_dimension=setting.problem.dimension if has_grid else None,
            shares=self.shares,
        )
        if is_secure:
            check_reach(planned, self.most_records)
            check_solvable(planned, setting.problem.dimension, setting.tolerance)
        return planned.resting_on(self.declared)

    @property
    def constraint(self) -> object:
        """The method's own set or operator, None without one."""
        return getattr(self.algorithm, "constraint", None)

    @property
    def declared(self) -> tuple[str, ...]:
        """The user's own parts, on whose declared constants the certificates rest."""
        return declared_by(self.setting.problem, self.constraint, self.algorithm)

    def statement(self) -> Statement:
        """Return what all problems together will cost the worst person."""
        return self.whole_plan(is_secure=False).statement()


def promises_of(algorithm: Method, setting: Setting) -> tuple[Promise, ...]:
    """Return what the method will release; refuse a method that does not say so, or not for these neighbours."""
    hidden = setting.protection
    if not hidden.relation.has_public_sizes or hidden.unit is Unit.PERSON:
        about = algorithm.about if isinstance(algorithm, Method) else None
        problem = f"{type(algorithm).__name__} does not say" if about is None else about.why_not(hidden)
        if problem is not None:
            other = "replace-one neighbours" if not hidden.relation.has_public_sizes else "one record per person"
            raise InputError(f"{problem}. Use noisy-gradients, or {other}. Nothing was spent.")
    found = algorithm.promises(setting)
    if not found:
        raise InputError(
            f"{type(algorithm).__name__} promises no noisy release, so it protects nobody: a private method lists in "
            "`promises` every value that it releases with noise."
        )
    units = {each.protection.unit for promise in found for row in promise.rows for each in row.certificates}
    if hidden.unit is not Unit.RECORD and units != {hidden.unit}:
        raise InputError(
            f"{type(algorithm).__name__} is certified per {' and per '.join(sorted(unit.value for unit in units))} as "
            f"it stands, not per {hidden.unit.value}. Nothing was spent. Ask for that unit, or choose another method."
        )
    return found


@dataclass(frozen=True, eq=False)
class PrivateRun:
    """A run with the plan of its noise and the statement of what it cost, all problems of its course together.

    `origin` says where the noise came from: the statement is about a release only if that was secure. With seeded noise
    it tells what such a run would cost; whoever knows the seed sees everything.

    What may leave is `run.models`, `run.estimate`, `run.tail_average`, `curvature`, and `history`, which is computed
    from the noisy messages alone. The checkpoint holds the agents' own states and stays with them; a secure run keeps
    no other history, since losses and residuals read the data without noise.
    """

    run: Run = field(repr=False)
    plan: NoisePlan = field(repr=False)
    statement: Statement
    origin: Origin = Origin.SIMULATED
    history: tuple[PublicRound, ...] = field(default=(), repr=False)
    receipts: tuple[Receipt, ...] = ()
    name: str = ""
    curvature: ReleasedCurvature | None = field(default=None, repr=False)

    @property
    def is_private_release(self) -> bool:
        """Whether the run's models, estimate and tail average may leave under its statement."""
        return self.origin is Origin.SECURE


def run_course(
    course: Course,
    problems: Sequence[Problem] | Unencoded,
    sampler: Sampler,
    *,
    label: str,
    ledgers: Sequence[ConfirmedLedger] | ConfirmedLedger | None = None,
    engine: LocalEngine | None = None,
    name: str | None = None,
) -> list[PrivateRun]:
    """Reserve all that the course releases, then run it on each of its problems.

    Parameters
    ----------
    problems: as many as the course says, with the data behind its public problem; where the course has a profile, what
        makes them by it.
    sampler: `SecureSampler()` for a release, `SimulatedSampler(seed)` for an experiment.
    label: what the ledgers call the algorithm.
    ledgers: one for all silos, or one per silo, confirmed with the data that the silos were made of, in the same
        order. Everything is reserved in them before the first draw; it stays recorded if the run is interrupted. One
        for all silos keeps the profile as soon as it is drawn.
    name: of the run in the ledgers; a fresh one if left out. A name that is already recorded is refused, since its
        messages are not stored here and a second draw would be a second release.

    Raises `InputError` if the parts do not fit, `BudgetError` if a ledger refuses; no noise was drawn then. On Ctrl-C
    a simulation raises `RunInterrupted`, a secure run `KeyboardInterrupt`: what was reserved stays spent, and the state
    of the unfinished run is dropped.
    """
    if isinstance(sampler, type) or not hasattr(sampler, "perturb"):
        raise InputError(f"sampler must be a sampler such as SecureSampler(), got {shown(sampler)}.")
    if isinstance(problems, Sequence) is (course.profile is not None):
        raise InputError("A course with a profile encodes rows itself: give it unencoded rows, and no second course.")
    if isinstance(problems, Sequence):
        check_problems(course, problems)
    prepared, setting = PreparedCourse.of(course, sampler, engine), course.setting
    everything = course.beside_profile(prepared.planned, prepared.is_secure)
    name, books, receipts = reserved(everything, setting, ledgers, label, name, is_secure=prepared.is_secure)
    statement = everything.statement()
    if not isinstance(problems, Sequence):
        problems = after_round_zero(course, problems, sampler, name, books)
        check_problems(course, problems)
    return [done.accounted(everything, statement, receipts, name) for done in prepared.run(problems, name)]


class FinishedProblem(NamedTuple):
    """One problem's run, where its noise came from, what its messages show, and its curvature if one was released."""

    run: Run
    origin: Origin
    history: tuple[PublicRound, ...]
    curvature: ReleasedCurvature | None

    def accounted(self, plan: NoisePlan, cost: Statement, receipts: tuple[Receipt, ...], name: str) -> PrivateRun:
        """Return it with what all that was released beside it costs."""
        return PrivateRun(self.run, plan, cost, self.origin, self.history, receipts, name, self.curvature)


@dataclass(frozen=True, eq=False)
class PreparedCourse:
    """A course with the noise of one of its problems, and the engine that will run it."""

    course: Course
    planned: NoisePlan
    sampler: Sampler
    engine: LocalEngine

    @classmethod
    def of(cls, course: Course, sampler: Sampler, engine: LocalEngine | None = None) -> "PreparedCourse":
        """Plan the noise; whatever can fail without data fails here, before a ledger is charged."""
        check_declared(course.setting.problem, course.constraint)
        engine = replace(engine if engine is not None else LocalEngine(), tolerance=course.setting.tolerance)
        is_secure = isinstance(sampler, SecureSampler)
        planned = course.noise_plan(is_secure)
        if is_secure:
            _check_batches(course.algorithm, planned)
            _load_kernels()
            engine = replace(engine, recording=Recording(every=0), is_release=True)
        return cls(course, planned, sampler, engine)

    @property
    def is_secure(self) -> bool:
        """Whether the noise is that of a release."""
        return isinstance(self.sampler, SecureSampler)

    def run(self, problems: Sequence[Problem], name: str, first: int = 0) -> list[FinishedProblem]:
        """Run all problems; first: the number of the first one among all of the run's, so that seeded noise differs."""
        done, engine, course = [], self.engine, self.course
        for number, problem in enumerate(problems, start=first):
            masks = masks_of(course.shares, f"{name}, problem {number}") if self.is_secure else None
            drawn = NoisePlan({**self.planned.releases, **course.curvature_plan(self.is_secure).releases})
            hook = PlannedNoise(drawn, _apart(self.sampler, number), engine.replicas, masks)
            witness = Witness(hook, message_scales(self.planned))
            try:
                run, curvature = _run_and_look(engine, course, problem, witness, hook)
            except RunInterrupted:
                if not self.is_secure:
                    raise
                run = None
            if run is None:  # raised here, not in the handler: the engine's exception holds states without noise
                raise KeyboardInterrupt(INTERRUPTED.format(name))
            hook.check_drawn()
            done.append(FinishedProblem(run, hook.origin, tuple(witness.rounds), curvature))
        return done


def _run_and_look(
    engine: LocalEngine, course: Course, problem: Problem, witness: Witness, hook: PlannedNoise
) -> tuple[Run, ReleasedCurvature | None]:
    """Run, and release the curvature where that is planned; the witness sees the rounds alone."""
    if course.curvature is None:
        return _run(engine, course, problem, witness if engine.replicas == 1 else hook), None
    assert isinstance(course.algorithm, NoisyGradients)  # a course with a curvature has no other
    settled = SettledRounds(witness, course.algorithm, course.setting)
    run = _run(engine, course, problem, settled)
    try:
        return run, release_curvature(settled, course.setting, problem, hook.plan, hook)
    except KeyboardInterrupt:
        raise RunInterrupted(run) from None


def after_round_zero(course: Course, rows: Unencoded, sampler: Sampler, name: str, books: Charged) -> Sequence[Problem]:
    """Release the profile, have it kept, and return the problems on rows that are encoded by it."""
    try:
        is_secure = isinstance(sampler, SecureSampler)
        masks = masks_of(course.shares, f"{name}, profile") if is_secure else None
        drawn = draw_profile(course.profile_plan(is_secure), rows.counts(), sampler, masks)
        if len(books) == 1:  # ledgers of single silos cannot tell whether the others' data are still the same
            keep_profile(books[0][0], rows.subject(), name, *drawn)
        problems = rows.problems(*drawn)
    except KeyboardInterrupt:
        raise_alone(KeyboardInterrupt(INTERRUPTED.format(name)))
    return problems


def masks_of(shares: Shares | None, run: str) -> Sequence[Masks] | None:
    """Return masks for the silos of a run in which only sums are seen; None without, and for very many silos.

    All silos are in this process, from which masks hide nothing: they are there so that what runs here is what runs in
    a federation. Every silo has a mask with every other one, so that more than `_MOST_MASKED` would take too long.
    """
    if shares is None or shares.silos > _MOST_MASKED:
        return None
    from dpadmm.noise.masks import pairwise_masks

    return pairwise_masks(shares.silos, run.encode())


def check_problems(course: Course, problems: Sequence[Problem]) -> None:
    """Refuse problems that the course's certificates are not about; says nothing of sizes, which may be secret."""
    if len(problems) != course.times:
        raise InputError(f"The course is for {plural(course.times, 'problem')}, got {len(problems)}.")
    for problem in problems:
        if not problem.is_within(course.setting.problem):
            raise InputError(
                "The problem is not the one for which the noise was planned: numbers of records, weights, dimension, "
                "or bounds on a record's gradient differ. Make a plan for this problem."
            )
        if not has_same_parts(problem, course.setting.problem):
            raise InputError(
                "The problem has a loss, functions or a regulariser of your own that the course was not made with. "
                "Make the course with the same objects, so that what they declare is checked and stated."
            )
        if (course.setting.protection.unit is Unit.PERSON) is not problem.has_people:
            raise InputError(
                "Persons are protected with all their rows only where it is known which person each row belongs to: "
                "give both the unit PERSON and Silos with `people`, or neither."
            )
        if not course.setting.protection.relation.has_public_sizes and not problem.has_nominal_sizes:
            raise InputError(
                "Where records are added or removed, sums must be divided by nominal numbers of records, and this "
                "problem divides by the true ones. Use Silos.with_nominal."
            )


def simulate(course: Course, problem: Problem, runs: int, seed: int, noise: NoisePlan | None = None) -> Floats:
    """Return the models (d, runs) of independent runs with seeded noise: an experiment, not a private release.

    `noise` replaces the course's own.
    """
    hook = PlannedNoise(
        noise if noise is not None else course.noise_plan(is_secure=False), SimulatedSampler(seed), runs
    )
    engine = LocalEngine(runs, course.setting.tolerance, threads=1, recording=Recording(every=0), progress=False)
    run = _run(engine, course, problem, hook)
    hook.check_drawn()
    return run.model(course.output)


def run_private(
    algorithm: Method,
    problem: Problem,
    rounds: int,
    target: Target | PureTarget,
    sampler: Sampler,
    network: Network | None = None,
    schedule: Schedule | None = None,
    engine: LocalEngine | None = None,
    protection: Protection = ONE_RECORD,
    ledgers: Sequence[ConfirmedLedger] | ConfirmedLedger | None = None,
) -> PrivateRun:
    """Plan the noise for the target, record it in the ledgers if there are any, run, and state the cost.

    >>> import numpy as np
    >>> from dpadmm.methods.p_admm import PADMM
    >>> from dpadmm.data import load_breast_cancer
    >>> from dpadmm.networks import ring
    >>> from dpadmm.noise import SimulatedSampler
    >>> from dpadmm.problems.losses import Logistic
    >>> from dpadmm.problems.problem import EmpiricalRisk
    >>> problem = Problem.of(EmpiricalRisk(load_breast_cancer().silos(), Logistic(), mu=0.01))
    >>> target = Target(epsilon=1.0, delta=1e-5)
    >>> done = run_private(PADMM(eta=0.01), problem, 10, target, SimulatedSampler(seed=0), ring(4))
    >>> round(done.statement.curve.epsilon(1e-5), 6), done.statement.theorems
    (1.0, ('C1',))
    """
    tolerance = engine.tolerance if engine is not None else DEFAULT_TOLERANCE
    course = Course(algorithm, RunSetting(problem, rounds, tolerance, network, protection), target, schedule)
    label = type(algorithm).__name__
    return run_course(course, [problem], sampler, label=label, ledgers=ledgers, engine=engine)[0]


def plan_noise(
    algorithm: Method,
    problem: Problem,
    rounds: int,
    target: Target | PureTarget,
    network: Network | None = None,
    schedule: Schedule | None = None,
    engine: LocalEngine | None = None,
    protection: Protection = ONE_RECORD,
    is_secure: bool = False,
) -> NoisePlan:
    """Return the noise that spends exactly the target; looks at public facts only."""
    tolerance = engine.tolerance if engine is not None else DEFAULT_TOLERANCE
    setting = RunSetting(problem, rounds, tolerance, network, protection)
    return Course(algorithm, setting, target, schedule).noise_plan(is_secure)


def _run(engine: LocalEngine, course: Course, problem: Problem, noise: NoiseHook) -> Run:
    setting = course.setting
    return engine.run(course.algorithm, problem, Stopping(rounds=setting.rounds), setting.network, noise)


def _apart(sampler: Sampler, number: int) -> Sampler:
    """Return the source of noise for one of several problems; seeded ones differ."""
    if number == 0 or not isinstance(sampler, SimulatedSampler):
        return sampler
    return replace(sampler, seed=sampler.seed + number * _SEED_STEP)


def _load_kernels() -> None:
    """Load the compiled kernels now: if they cannot be loaded, that must show before a ledger is charged."""
    from dpadmm.solvers import batch_kernels, column_kernel, kernels  # noqa: F401


def _check_batches(algorithm: Method, plan: NoisePlan) -> None:
    """Refuse a release whose batches anyone could draw again: sampling hides nobody from those who know the batch."""
    if not any(isinstance(release, SampledGaussianRelease) for release in plan):
        return
    batches = getattr(algorithm, "batches", None)
    if not isinstance(batches, Batches) or not batches.is_secret:
        raise InputError(
            "The plan relies on secret batches, but these have a seed, which can be reused or guessed. For a release "
            "use Batches.secret(size), which draws new batches for every run; seeds are for simulation."
        )
