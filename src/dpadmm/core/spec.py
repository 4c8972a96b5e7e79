"""What a training will release, fixed before any record is touched: an ordered list of steps, and the noise of each.

A step is the rounds of one method (`RunSpec`) or one noisy sum over the silos (`SumQuery`). One reservation pays for
all steps of a `TrainingSpec`, and `dpadmm.core.train.run_training` walks them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any, ClassVar, Protocol

from dpadmm.checks import plural
from dpadmm.errors import InputError
from dpadmm.methods.base import Method, Setting, check_fit
from dpadmm.methods.batches import Batches
from dpadmm.noise.mechanisms import COORDINATOR, AgentReleases, Constant, Family, MechanismSpec, MessageKind, Schedule
from dpadmm.noise.plan import NoisePlan, calibrate, check_grids, check_solvable, vector_on_grid
from dpadmm.noise.sampler import grid_for
from dpadmm.privacy.accounting import Account, PureTarget, Target
from dpadmm.privacy.certificates.local import MOST_PER_NOMINAL
from dpadmm.privacy.certificates.sums import Shares
from dpadmm.privacy.protection import Certificate, Protection, Unit, View
from dpadmm.privacy.releases import CoordinateLaplaceRelease, SampledGaussianRelease
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem, check_declared, declared_by, has_same_parts
from dpadmm.problems.silos import is_small
from dpadmm.solvers.solver import is_large


class FinalModel(Enum):
    """Which model a run ends with."""

    LAST = "the last model"
    TAIL_AVERAGE = "the mean of the models of the last rounds"


@dataclass(frozen=True)
class ReleaseFacts:
    """What every step's certificates share: the silos' public sizes, who is protected, and where the noise is added.

    is_pooled: one noise hides the sum of all silos' values, the coordinator's or the silos' shares of one.
    """

    sizes: tuple[int, ...]
    protection: Protection
    is_pooled: bool
    shares: Shares | None = field(init=False)
    most_records: int = field(init=False)

    def __post_init__(self) -> None:
        """Derive among whom noise is split, where messages are sent under masks, and how many records there can be."""
        summed = self.protection.view is View.AGGREGATE
        shares = Shares(len(self.sizes), self.protection.n_colluders) if summed else None
        # Where their number is secret, many times the nominal one.
        most = sum(self.sizes) * (1 if self.protection.relation.has_public_sizes else MOST_PER_NOMINAL)
        object.__setattr__(self, "shares", shares)
        object.__setattr__(self, "most_records", most)


@dataclass(frozen=True, eq=False)
class RunSpec:
    """The rounds of one method, from public facts alone.

    setting: the problem as far as it is public (`PublicFunctions` will do), rounds, network, tolerance, protection.
    target: the budget of one model. schedule: relative noise over the rounds. output: which model is released.
    facts: what its certificates share with those of other steps. constraint: the method's own set or operator.
    declared: the user's own parts, on whose declared constants the certificates rest.
    n_models: how many problems on the same rows are run, each with fresh noise.
    name: of the step; prefix: of its messages' kinds in the reservation, where several runs share it.
    keeps_sums: whether the noisy sums of all rounds are part of the result.
    """

    method: Method
    setting: Setting
    target: Target | PureTarget
    schedule: Schedule | None = None
    output: FinalModel = FinalModel.LAST
    n_models: int = 1
    name: str = "run"
    prefix: str = ""
    keeps_sums: bool = False
    facts: ReleaseFacts = field(init=False, repr=False)
    constraint: object = field(init=False, repr=False)
    declared: tuple[str, ...] = field(init=False, repr=False)
    _plans: dict[bool, NoisePlan] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        """Derive what follows from the fields; where only sums are seen, the method must read nothing else."""
        problem, method = self.setting.problem, self.method
        is_summed = method.about.trusts_coordinator and problem.n_agents > 1
        facts = ReleaseFacts(tuple(problem.functions.sizes.tolist()), self.setting.protection, is_summed)
        if facts.shares is not None:
            method = method.with_noise_in_sum()
        constraint = getattr(method, "constraint", None)
        object.__setattr__(self, "method", method)
        object.__setattr__(self, "facts", facts)
        object.__setattr__(self, "constraint", constraint)
        object.__setattr__(self, "declared", declared_by(problem, constraint, method))

    def noise_plan(self, is_secure: bool = True) -> NoisePlan:
        """Return every release of one model's rounds; `is_secure` counts the rounding to a grid (C8)."""
        if is_secure in self._plans:
            return self._plans[is_secure]
        setting, facts, size = self.setting, self.facts, self.method.message_size(self.setting.problem.dimension)
        check_fit(self.method, setting.problem, setting.network)
        mechanisms = mechanisms_of(self.method, setting)
        families = {mechanism.family for mechanism in mechanisms}
        # There is no exact sampler for spherical noise, hence no grid; its certificates say so (C8).
        has_grid = facts.shares is not None or (is_secure and not families & {Family.SPHERICAL, Family.OBJECTIVE})
        planned = calibrate(
            mechanisms,
            self.target,
            self.schedule,
            silos_per_person=setting.protection.silos_per_person,
            on_grid=partial(vector_on_grid, dimension=size, shares=facts.shares) if has_grid else None,
            shares=facts.shares,
        )
        if is_secure:
            check_grids(planned, facts.most_records)
            check_solvable(planned, setting.problem.dimension, setting.tolerance)
        self._plans[is_secure] = planned.with_declared(self.declared)
        return self._plans[is_secure]

    def check(self, problems: Sequence[Problem]) -> None:
        """Refuse problems that the certificates are not about; says nothing of sizes, which may be secret."""
        if len(problems) != self.n_models:
            raise InputError(f"The run is for {plural(self.n_models, 'problem')}, got {len(problems)}.")
        for problem in problems:
            if not problem.is_within(self.setting.problem):
                raise InputError(
                    "The problem is not the one for which the noise was planned: numbers of records, weights, "
                    "dimension, or bounds on a record's gradient differ. Make a plan for this problem."
                )
            if not has_same_parts(problem, self.setting.problem):
                raise InputError(
                    "The problem has a loss, functions or a regulariser of your own that the run was not specified "
                    "with. Specify it with the same objects, so that what they declare is checked and stated."
                )
            if (self.setting.protection.unit is Unit.PERSON) is not problem.has_people:
                raise InputError(
                    "Persons are protected with all their rows only where it is known which person each row belongs "
                    "to: give both the unit PERSON and Silos with `people`, or neither."
                )
            if not self.setting.protection.relation.has_public_sizes and not problem.has_nominal_sizes:
                raise InputError(
                    "Where records are added or removed, sums must be divided by nominal numbers of records, and this "
                    "problem divides by the true ones. Use Silos.with_nominal."
                )


def mechanisms_of(method: Method, setting: Setting) -> tuple[MechanismSpec, ...]:
    """Return what the method will release; refuse a method that does not say so, or not for these neighbours."""
    hidden = setting.protection
    if not hidden.relation.has_public_sizes or hidden.unit is not Unit.RECORD:
        problem = method.about.why_not(hidden)
        if problem is not None:
            other = "replace-one neighbours" if not hidden.relation.has_public_sizes else "the unit 'record'"
            raise InputError(
                f"{problem}. Use noisy-gradients, or {other}. Nothing was spent.", setting="unit", code="combination"
            )
    found = method.mechanisms(setting)
    if not found:
        raise InputError(
            f"{type(method).__name__} lists no noisy release, so it protects nobody: a private method lists in "
            "`mechanisms` every value that it releases with noise."
        )
    units = {each.protection.unit for mechanism in found for row in mechanism.rows for each in row.certificates}
    if hidden.unit is not Unit.RECORD and units != {hidden.unit}:
        raise InputError(
            f"{type(method).__name__} is certified per {' and per '.join(sorted(unit.value for unit in units))} as "
            f"it stands, not per {hidden.unit.value}. Nothing was spent. Ask for that unit, or choose another method."
        )
    return found


class SumQuery(Protocol):
    """One noisy sum over the silos; what follows from it is post-processing.

    kind, round: where its noise is drawn; no other release of the kind is in that round. target: what it alone may
    spend. reads: the runs before it that its values are computed from, whose problems its certificate is about.
    """

    name: ClassVar[str]
    kind: ClassVar[MessageKind]

    @property
    def round(self) -> int:
        """The round in which it is sent."""
        ...

    @property
    def reads(self) -> tuple[RunSpec, ...]:
        """The runs that it is computed from."""
        ...

    def noise_plan(self, facts: ReleaseFacts, is_secure: bool) -> NoisePlan:
        """Return its releases, from public facts alone; never from what was released before (C0, C12)."""
        ...

    def values(self, source: Any, released: Mapping[str, Any]) -> Floats:
        """Return every silo's part of the sum, (silos, d)."""
        ...

    def read(self, noisy: Floats, noise_std: float, released: Mapping[str, Any]) -> Any:
        """Return the result of the noisy sum (d,), given the noise in it."""
        ...


Step = RunSpec | SumQuery


@dataclass(frozen=True, eq=False)
class TrainingSpec:
    """All that one reservation pays for: steps in order, on the same rows, for the same protection.

    runs, sums: the steps that are rounds, and those that are single sums.
    """

    steps: tuple[Step, ...]
    facts: ReleaseFacts
    runs: tuple[RunSpec, ...] = field(init=False, repr=False)
    sums: tuple[SumQuery, ...] = field(init=False, repr=False)
    _plans: dict[tuple[str, bool], NoisePlan] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse steps of the same name, or that protect different people or add noise in different places."""
        names, runs, sums = set[str](), list[RunSpec](), list[SumQuery]()
        for step in self.steps:
            names.add(step.name)
            if isinstance(step, RunSpec):
                if step.facts != self.facts:
                    raise InputError(
                        "The runs protect different people, from different observers or with noise in different "
                        f"places: {self.facts.protection} at first. Compare methods that add noise at the same place. "
                        "Nothing was spent."
                    )
                runs.append(step)
                continue
            for read in step.reads:
                if all(read is not run for run in runs):
                    raise InputError(
                        f"The sum {step.name!r} is certified for a run that is not among the steps before it. Give it "
                        "that very run. Nothing was spent."
                    )
            sums.append(step)
        if len(names) != len(self.steps) or not self.steps:
            raise InputError("A training needs at least one step, and every step a name of its own.")
        object.__setattr__(self, "runs", tuple(runs))
        object.__setattr__(self, "sums", tuple(sums))

    @classmethod
    def of(cls, *steps: Step | None) -> "TrainingSpec":
        """Return the training of these steps, the runs among them deciding what is shared; None stands for no step."""
        made = tuple(step for step in steps if step is not None)
        return cls(made, next(step for step in made if isinstance(step, RunSpec)).facts)

    def part(self, step: Step, is_secure: bool = True) -> NoisePlan:
        """Return the releases of one step, of one model where a run has several."""
        if isinstance(step, RunSpec):
            return step.noise_plan(is_secure)
        if (step.name, is_secure) not in self._plans:
            planned = step.noise_plan(self.facts, is_secure)
            if is_secure:
                check_grids(planned, self.facts.most_records)
            self._plans[step.name, is_secure] = planned
        return self._plans[step.name, is_secure]

    def noise_plan(self, is_secure: bool = True) -> NoisePlan:
        """Return every release of all steps."""
        everything: dict[Any, Any] = {}
        for step in self.steps:
            part = self.part(step, is_secure)
            if isinstance(step, RunSpec):
                part = part.repeat(step.n_models).with_prefix(step.prefix)
            if everything.keys() & part.releases.keys():
                raise InputError(
                    f"The step {step.name!r} releases the message kind of another step in the same round, so only one "
                    "of them would be paid for. Give every run a prefix of its own. Nothing was spent."
                )
            everything |= part.releases
        return NoisePlan(everything)

    def checked_plan(self, is_secure: bool) -> NoisePlan:
        """Return every release; whatever can be refused without data is refused here, before a ledger is charged."""
        plan = self.noise_plan(is_secure)
        for run in self.runs:
            check_declared(run.setting.problem, run.constraint)
            if is_secure and any(isinstance(each, SampledGaussianRelease) for each in run.noise_plan()):
                batches = getattr(run.method, "batches", None)
                if not isinstance(batches, Batches) or not batches.is_secret:
                    raise InputError(  # sampling hides nobody from those who know the batch
                        "The plan relies on secret batches, but these have a seed, which can be reused or guessed. For "
                        "a release use Batches.secret(size), which draws new batches for every run; seeds are for "
                        "simulation."
                    )
        if is_secure and any(map(_needs_kernels, self.runs)):  # if they cannot be loaded, that must show now
            from dpadmm.solvers import batch_kernels, column_kernel, kernels  # noqa: F401
        return plan

    def account(self) -> Account:
        """Return what all steps together will cost the worst person."""
        return self.noise_plan(is_secure=False).account()


def _needs_kernels(run: RunSpec) -> bool:
    """Return whether a run may use compiled code."""
    functions = run.setting.problem.functions
    return hasattr(run.method, "batches") or is_large(functions.dimension, False) or not is_small(functions.sizes)


def plan_sum(
    kind: MessageKind,
    k: int,
    target: Target | PureTarget,
    facts: ReleaseFacts,
    certify: Callable[..., Certificate],
    on_grid: Callable[[Certificate, float], Certificate],
    *,
    is_secure: bool,
) -> NoisePlan:
    """Return the releases of one sum, sent in round k, that spend the target.

    certify: the certificate of a silo of `n_records`, or of all of them. on_grid: the same on a grid. Pure epsilon
    gets one discrete Laplace noise on every entry of the sum over all silos.
    """
    sizes = [sum(facts.sizes)] if facts.is_pooled else facts.sizes
    certificates = [certify(n_records=n) for n in sizes]
    if isinstance(target, PureTarget):
        (certificate,) = certificates
        placed = on_grid(certificate, grid_for(certificate.bound / target.epsilon))
        scale = math.nextafter(placed.bound / target.epsilon, math.inf)  # rounding must not spend more than epsilon
        laplace = CoordinateLaplaceRelease(certificate=placed, scale=scale, agent=COORDINATOR, round=k)
        return NoisePlan({(kind, k): {COORDINATOR: laplace}})
    agents = [COORDINATOR] if facts.is_pooled else range(len(sizes))
    is_common = not facts.is_pooled and len(set(certificates)) == 1
    rows = tuple(AgentReleases(agent, (1,), (each,)) for agent, each in zip(agents, certificates, strict=True))
    planned = calibrate(
        [MechanismSpec(kind, Family.GAUSSIAN, rows[:1] if is_common else rows, is_common=is_common)],
        target,
        Constant(),
        silos_per_person=facts.protection.silos_per_person,
        on_grid=on_grid if is_secure or facts.shares is not None else None,
        shares=facts.shares,
    )
    (row,) = planned.releases.values()
    return NoisePlan({(kind, k): {agent: replace(release, round=k) for agent, release in row.items()}})
