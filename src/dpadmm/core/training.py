"""From a training's specification and its rows to what was released: `run_training`.

Here the rows and the noise of a training meet: one step after the other, each with the noise reserved for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from dpadmm.core.budget import keep_profile
from dpadmm.core.loop import Run, run_rounds
from dpadmm.core.release import PlannedNoise, open_release
from dpadmm.core.spec import RunSpec, TrainingSpec
from dpadmm.errors import InputError
from dpadmm.methods.batches import Batches
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import Sampler, SimulatedSampler
from dpadmm.privacy.ledger import ConfirmedLedger, ProfiledColumns, Receipt
from dpadmm.privacy.releases import Origin, SampledGaussianRelease
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem, check_declared


class Source(Protocol):
    """What a training reads: rows that are encoded by what it has released so far, or problems as they stand."""

    def problems(self, run: RunSpec, released: Mapping[str, Any]) -> Sequence[Problem]:
        """Return the run's problems, one for each of its models."""
        ...

    def counts(self) -> Floats:
        """Return every silo's counts of its columns, (silos, size)."""
        ...

    def subject(self) -> ProfiledColumns | None:
        """Return what a profile of the columns is about, for a ledger to keep it; None where it cannot be kept."""
        ...


@dataclass(frozen=True, eq=False)
class Problems:
    """Problems that are encoded already: the same for every run."""

    given: Sequence[Problem]

    def problems(self, run: RunSpec, released: Mapping[str, Any]) -> Sequence[Problem]:
        """Return them."""
        return self.given

    def counts(self) -> Floats:
        """Refuse: there are no columns to count."""
        raise InputError("The plan counts columns before training, but the rows are already encoded.")

    def subject(self) -> None:
        """There are no columns."""
        return


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a training released, and how it was paid for.

    released: by step, what a sum has told, and the runs of a method, one for each model. plan: every release of all
    steps. origin: where the noise came from; only with secure noise may anything leave, for what `plan.account()`
    says. receipts: of the ledger. name: of the run in it.
    """

    spec: TrainingSpec
    released: Mapping[str, Any] = field(repr=False)
    plan: NoisePlan = field(repr=False)
    origin: Origin
    receipts: tuple[Receipt, ...]
    name: str

    @property
    def is_private_release(self) -> bool:
        """Whether what was released may leave."""
        return self.origin is Origin.SECURE

    def runs(self, step: RunSpec) -> Sequence[Run]:
        """Return the runs of one step."""
        found: Sequence[Run] = self.released[step.name]
        return found


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
    elif spec.steps[0].name == "profile" and isinstance(source, Problems):
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
                if ledger is not None and step.name == "profile":
                    keep_profile(ledger, source.subject(), release.run, noisy, noise_std)
    return Outcome(spec, released, plan, release.origin, release.receipts, release.run)


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
