"""From a training's specification and its rows to what was released: `run_training` on `TrainingRows`.

Here the rows and the noise of a training meet: one step after the other, each with the noise reserved for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

import numpy as np

from dpadmm.core.budget import ReusedProfile, account_with, keep_profile
from dpadmm.core.dataset import Dataset
from dpadmm.core.loop import Run, run_rounds
from dpadmm.core.release import PlannedNoise, PublicRound, open_release
from dpadmm.core.spec import ReleaseFacts, RunSpec, TrainingSpec
from dpadmm.data.encoding import RowEncoding
from dpadmm.data.profile import ReleasedProfile
from dpadmm.errors import InputError
from dpadmm.methods.batches import Batches
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import Sampler, SimulatedSampler
from dpadmm.privacy.accounting import Account
from dpadmm.privacy.ledger import ConfirmedLedger, ProfiledColumns, Receipt
from dpadmm.privacy.protection import Unit
from dpadmm.privacy.releases import Origin, SampledGaussianRelease
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem, check_declared
from dpadmm.problems.silos import Silos
from dpadmm.problems.streams import SiloStream

_PROFILE = "profile"  # the step that rows are encoded by


class Source(Protocol):
    """What a training reads: rows that are encoded by what it has released so far, or problems as they stand."""

    profile: ReleasedProfile | None
    encoding: RowEncoding | None
    earlier: ReusedProfile | None

    def problems(self, run: RunSpec, released: Mapping[str, Any]) -> Sequence[Problem]:
        """Return the run's problems, one for each of its models."""
        ...

    def counts(self) -> Floats:
        """Return every silo's counts of its columns, (silos, size)."""
        ...

    def subject(self) -> ProfiledColumns | None:
        """Return what a profile of the columns is about, for a ledger to keep it; None where it cannot be kept."""
        ...


class RunPlan(Protocol):
    """How a run reads rows: shortened to the radius `clip_radius`, as the problem of its functions."""

    @property
    def clip_radius(self) -> float | None:
        """The radius, in units of a usual row; None where the user has decided how rows are encoded."""
        ...

    def problem(self, silos: Silos | SiloStream) -> Problem:
        """Return the problem on these silos; refuse silos that are not the ones planned for."""
        ...


@dataclass(eq=False)
class Problems:
    """Problems that are encoded already: the same for every run."""

    given: Sequence[Problem]
    profile: ReleasedProfile | None = None
    encoding: RowEncoding | None = None
    earlier: ReusedProfile | None = None

    def problems(self, run: RunSpec, released: Mapping[str, Any]) -> Sequence[Problem]:
        """Return them."""
        return self.given

    def counts(self) -> Floats:
        """Refuse: there are no columns to count."""
        raise InputError("The plan counts columns before training, but the rows are already encoded.")

    def subject(self) -> None:
        """There are no columns."""
        return


@dataclass(eq=False)
class TrainingRows:
    """A dataset as one training reads it: encoded once, by what was released before the first run.

    plans: by the name of their run; all of them encode rows alike. earlier: the profile of an earlier run.
    profile, encoding, silos: what rows are encoded by, and what became of them, as soon as they are.
    """

    dataset: Dataset
    facts: ReleaseFacts
    plans: Mapping[str, RunPlan]
    earlier: ReusedProfile | None = None
    profile: ReleasedProfile | None = None
    encoding: RowEncoding | None = None
    silos: Sequence[Silos | SiloStream] = ()

    @classmethod
    def of(
        cls, dataset: Dataset, spec: TrainingSpec, plans: Mapping[str, RunPlan], earlier: ReusedProfile | None
    ) -> "TrainingRows":
        """Return the rows of a training; refuse those that it is not for, from public facts alone."""
        step: Any
        for step in spec.sums:
            if step.name == _PROFILE:
                step.check(dataset.form, dataset.sizes, spec.facts)
        return cls(dataset, spec.facts, plans, earlier, None if earlier is None else earlier.counts)

    def counts(self) -> Floats:
        """Return every silo's counts."""
        return self.dataset.counts(per_user=self.facts.protection.unit is Unit.USER)

    def subject(self) -> ProfiledColumns:
        """Return what a profile is about."""
        return self.dataset.subject(self.facts.protection)

    def problems(self, run: RunSpec, released: Mapping[str, Any]) -> Sequence[Problem]:
        """Return the problems of a run, on rows that are encoded by the counts released before it."""
        plan = self.plans[run.name]
        if self.encoding is None:
            if _PROFILE in released:
                form, (pooled, noise_std) = self.dataset.form, released[_PROFILE]
                assert form is not None
                is_nominal = not self.facts.protection.relation.has_public_sizes
                self.profile = ReleasedProfile.of(form, pooled, noise_std, self.subject().records, "", is_nominal)
            self.encoding = self.dataset.encoding(plan.clip_radius, self.profile)
            self.silos = self.dataset.silos(self.encoding, run.n_models)
        return [plan.problem(silos) for silos in self.silos]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a training released, and how it was paid for.

    released: by step, what a sum has told, and the runs of a method, one for each model. plan: every release of all
    steps. origin: where the noise came from; only with secure noise may anything leave, for what `account` says.
    receipts: of the ledger. name: of the run in it. profile: the column profile that rows were encoded by, this run's
    or an `earlier` one's. encoding: of the rows; None where they came encoded.
    """

    spec: TrainingSpec
    released: Mapping[str, Any] = field(repr=False)
    plan: NoisePlan = field(repr=False)
    origin: Origin
    receipts: tuple[Receipt, ...]
    name: str
    profile: ReleasedProfile | None = field(default=None, repr=False)
    encoding: RowEncoding | None = field(default=None, repr=False)
    earlier: ReusedProfile | None = field(default=None, repr=False)

    @property
    def is_private_release(self) -> bool:
        """Whether what was released may leave."""
        return self.origin is Origin.SECURE

    @property
    def kept(self) -> RunSpec:
        """The run whose models are kept: the one that noisy scores have chosen, or the only one."""
        scores = self.released.get("scores")
        return self.spec.runs[0 if scores is None else scores.chosen]

    def runs(self, step: RunSpec | None = None) -> Sequence[Run]:
        """Return the runs of one step, or of the one that is kept: one for each model."""
        found: Sequence[Run] = self.released[(step or self.kept).name]
        return found

    @property
    def models(self) -> Floats:
        """The models that are kept, (n_models, d)."""
        return np.array([each.model(self.kept.output)[:, 0] for each in self.runs()])

    @property
    def model(self) -> Floats:
        """The only model (d,), or the first."""
        return np.asarray(self.models[0])

    @property
    def histories(self) -> tuple[tuple[PublicRound, ...], ...]:
        """What each model's noisy messages show, and nothing else; empty where the noise is inside the objective."""
        return tuple(each.history for each in self.runs())

    @property
    def account(self) -> Account:
        """What everything cost, with the profile that the models rest on, whoever paid for it."""
        return self.plan.account() if self.earlier is None else account_with(self.plan, self.earlier.release)

    def cost(self, name: str, delta: float) -> float:
        """Return the epsilon of one sum by itself, whoever paid for it."""
        if name == _PROFILE and self.earlier is not None:
            return self.earlier.epsilon(delta)
        (step,) = (each for each in self.spec.sums if each.name == name)
        return self.spec.part(step, self.is_private_release).account().curve.epsilon(delta)


def run_training(
    spec: TrainingSpec,
    source: Source,
    sampler: Sampler,
    ledger: ConfirmedLedger | None = None,
    *,
    label: str,
    run: str | None = None,
    progress: bool = False,
) -> Outcome:
    """Reserve all that the training releases, then take its steps.

    label: what the ledger calls the work; run: its name there. Raises `InputError` if the parts do not fit,
    `BudgetError` if the ledger refuses; no noise was drawn then. Only rows that a profile encodes are checked after it
    was drawn. Whatever happens afterwards, Ctrl-C included, what was reserved stays spent.
    """
    secure, released, number = sampler.is_secure, dict[str, Any](), count()
    plan = check_spec(spec, secure)
    ledger = ledger and ledger.for_run(spec.facts.sizes, spec.facts.protection.relation)
    ready: dict[str, Sequence[Problem]] = {}
    if isinstance(spec.steps[0], RunSpec):  # rows that no release encodes are checked before anything is reserved
        for each in spec.runs:
            ready[each.name] = source.problems(each, released)
            each.check(ready[each.name])
    elif spec.steps[0].name == _PROFILE and isinstance(source, Problems):
        source.counts()  # refused: nothing is left to count
    with open_release(plan, sampler, ledger, label=label, n_agents=len(spec.facts.sizes), run=run) as release:
        for step in spec.steps:
            part = spec.part(step, secure)
            if isinstance(step, RunSpec):
                if step.name not in ready:  # rows are encoded here, by what was released before
                    ready[step.name] = source.problems(step, released)
                    step.check(ready[step.name])
                problems = ready.pop(step.name)
                hooks = (
                    release.noise(part, number=next(number), prefix=step.prefix, keeps_sums=bool(spec.sums))
                    for _ in problems
                )
                released[step.name] = [
                    run_rounds(step, problem, hook, is_release=secure, progress=progress)
                    for problem, hook in zip(problems, hooks, strict=True)
                ]
            else:
                noisy, noise_std = release.total(step, part, step.values(source, released))
                released[step.name] = step.read(noisy, noise_std, released)
                if ledger is not None and step.name == _PROFILE:
                    keep_profile(ledger, source.subject(), release.run, noisy, noise_std)
    profile, paid = source.profile and source.profile.by(release.run), (release.origin, release.receipts, release.run)
    return Outcome(spec, released, plan, *paid, profile, source.encoding, source.earlier)


def check_spec(spec: TrainingSpec, is_secure: bool) -> NoisePlan:
    """Return every release; whatever can be refused without data is refused here, before a ledger is charged."""
    plan = spec.noise_plan(is_secure)
    for run in spec.runs:
        check_declared(run.setting.problem, run.constraint)
        if is_secure and any(isinstance(each, SampledGaussianRelease) for each in run.noise_plan()):
            batches = getattr(run.method, "batches", None)
            if not isinstance(batches, Batches) or not batches.is_secret:
                raise InputError(  # sampling hides nobody from those who know the batch
                    "The plan relies on secret batches, but these have a seed, which can be reused or guessed. For a "
                    "release use Batches.secret(size), which draws new batches for every run; seeds are for simulation."
                )
    if is_secure:  # if the compiled kernels cannot be loaded, that must show now
        from dpadmm.solvers import batch_kernels, column_kernel, kernels  # noqa: F401
    return plan


def simulate(run: RunSpec, problem: Problem, runs: int, seed: int, noise: NoisePlan | None = None) -> Floats:
    """Return the models (d, runs) of independent runs with seeded noise: an experiment, not a private release.

    `noise` replaces the run's own.
    """
    planned = noise if noise is not None else run.noise_plan(is_secure=False)
    hook = PlannedNoise(planned, SimulatedSampler(seed), runs)
    done = run_rounds(run, problem, hook, replicas=runs, threads=1)
    hook.check_drawn()
    return done.model(run.output)
