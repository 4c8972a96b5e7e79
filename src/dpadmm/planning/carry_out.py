"""Carry a plan out: reserve in the ledger, draw, run, and keep only what may be seen."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dpadmm.engines.local import LocalEngine, Recording, RunInterrupted, Stopping
from dpadmm.errors import InputError, ResumeError
from dpadmm.noise.draws import Sampler
from dpadmm.noise.plan import NoisePlan, PlannedNoise
from dpadmm.noise.secure import SecureSampler
from dpadmm.planning.bench import output_of
from dpadmm.planning.levels import level_of
from dpadmm.planning.plan import Plan
from dpadmm.planning.public_history import PublicRound, Witness
from dpadmm.privacy.accounting import Statement
from dpadmm.privacy.ledger import ConfirmedLedger
from dpadmm.privacy.ledger.statement import Receipt
from dpadmm.privacy.records import ObjectiveRelease, Origin, Release
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem
from dpadmm.problems.silos import Silos


@dataclass(frozen=True, eq=False)
class Outcome:
    """What may leave after a plan was carried out.

    `model` (d,) is the released model. `statement` tells what the run cost; it is about a release only if
    `is_private_release`, that is, if all noise came from the operating system. `public_history` is computed from the
    noisy messages alone; it is empty for methods whose noise is inside the objective.
    """

    model: Floats
    statement: Statement
    origin: Origin
    plan: Plan
    noise_plan: NoisePlan = field(repr=False)
    public_history: tuple[PublicRound, ...] = field(repr=False)
    receipts: tuple[Receipt, ...] = ()
    run_name: str = ""

    @property
    def is_private_release(self) -> bool:
        """Whether the model may leave under the statement."""
        return self.origin is Origin.SECURE


def carry_out(
    plan: Plan,
    silos: Silos,
    sampler: Sampler,
    ledgers: Sequence[ConfirmedLedger] | ConfirmedLedger | None = None,
    progress: bool = True,
    run: str | None = None,
) -> Outcome:
    """Run the plan on the silos.

    Parameters
    ----------
    sampler: `SecureSampler()` for a release, `SimulatedSampler(seed)` for an experiment.
    ledgers: one for all silos, or one per silo, confirmed with the data that the silos were made of, in the same
        order. Everything the run will release is reserved in them before the first draw; it stays recorded if the run
        is interrupted.
    run: name of the run in the ledgers; a fresh one if left out. A name that is already recorded is refused, since
        its messages are not stored here and a second draw would be a second release.

    Raises `InputError` if plan and silos do not fit, `BudgetError` if a ledger refuses; no noise was drawn then. On
    Ctrl-C, `KeyboardInterrupt`: what was reserved stays spent, and the state of the unfinished run is dropped.
    """
    is_secure = isinstance(sampler, SecureSampler)
    if isinstance(sampler, type) or not hasattr(sampler, "perturb"):
        raise InputError(f"sampler must be a sampler such as SecureSampler(), got {sampler!r}.")
    problem, noise_plan = plan.problem(silos), plan.noise_plan(is_secure)
    books = _books(ledgers, plan.task.sizes)
    if books and not is_secure:
        raise InputError("Simulated noise cannot be recorded as a release: use SecureSampler(), or leave ledgers out.")
    name = run if run is not None else f"{plan.method}-{uuid.uuid4()}"
    receipts = tuple(_reserve(books, noise_plan, plan, name))
    planned = PlannedNoise(noise_plan, sampler)
    witness = Witness(planned, _scales(noise_plan))
    engine = LocalEngine(tolerance=plan.tolerance, recording=Recording(every=0), progress=progress)
    model = _model(engine, plan, problem, witness)
    if model is None:  # raised here, not in the handler: the engine's exception holds states without noise
        raise KeyboardInterrupt(
            f"The run {name!r} was interrupted and nothing of it is kept; what was reserved for it stays spent."
        )
    return Outcome(
        model=model,
        statement=noise_plan.statement(),
        origin=planned.origin,
        plan=plan,
        noise_plan=noise_plan,
        public_history=tuple(witness.rounds),
        receipts=receipts,
        run_name=name,
    )


def _model(engine: LocalEngine, plan: Plan, problem: Problem, noise: Witness) -> Floats | None:
    """Run and return the released model (d,) alone; None if Ctrl-C came."""
    try:
        done = engine.run(plan.algorithm, problem, Stopping(rounds=plan.rounds), plan.network, noise)
    except RunInterrupted:
        return None
    return output_of(plan.output, done)[:, 0].copy()


def releases_of(plan: NoisePlan, agents: range) -> Iterator[Release]:
    """Yield what these agents release; a release that stands for all is made by each, a coordinator's once."""
    for row in plan.releases.values():
        for agent, release in row.items():
            if agent is None and release.agent >= 0:
                yield from (replace(release, agent=i) for i in agents)
            elif release.agent < 0 or release.agent in agents:
                yield release


def _books(
    ledgers: Sequence[ConfirmedLedger] | ConfirmedLedger | None, sizes: tuple[int, ...]
) -> list[tuple[ConfirmedLedger, range]]:
    """Return each ledger with the silos whose releases it records."""
    if ledgers is None:
        return []
    if isinstance(ledgers, ConfirmedLedger):
        return [(ledgers.for_run(sizes), range(len(sizes)))]
    if len(ledgers) != len(sizes):
        raise InputError(f"Give one ledger for all silos, or one for each of the {len(sizes)}; got {len(ledgers)}.")
    return [(ledger.for_run(sizes[i : i + 1]), range(i, i + 1)) for i, ledger in enumerate(ledgers)]


def _reserve(books: list[tuple[ConfirmedLedger, range]], noise: NoisePlan, plan: Plan, name: str) -> Iterator[Receipt]:
    """Reserve in all ledgers; none is charged if one of them has no room or knows the run already."""
    labels: dict[str, Any] = {"run": name, "algorithm": plan.method, "origin": Origin.SECURE}
    for ledger, agents in books:
        if ledger.ledger.newest_round(name):
            raise ResumeError(
                f"The run {name!r} is already recorded. Its messages are not stored here, so they cannot be sent "
                "again, and new noise would be a new release: choose another name."
            )
        ledger.check_room(releases_of(noise, agents), **labels)
    for ledger, agents in books:
        yield ledger.reserve(releases_of(noise, agents), **labels)


def _scales(plan: NoisePlan) -> dict[tuple[str, int], float]:
    """Return the largest noise scale of each slot and round in which a noisy value is sent.

    Objective perturbation sends the minimiser; its noise is secret and has no place here.
    """
    scales: dict[tuple[str, int], float] = {}
    for (slot, k), row in plan.releases.items():
        if not any(isinstance(release, ObjectiveRelease) for release in row.values()):
            scales[slot.name, k] = max(level_of(release) for release in row.values())
    return scales
