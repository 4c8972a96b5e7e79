"""A plan: everything that is fixed before the data are touched, with its reasons; and carrying it out."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpadmm.engines.history import PublicRound
from dpadmm.engines.local import LocalEngine
from dpadmm.engines.private import Course, RunSetting, run_course
from dpadmm.networks.graph import Network
from dpadmm.noise.draws import Sampler
from dpadmm.noise.plan import NoisePlan
from dpadmm.planning.forecast import Forecast
from dpadmm.planning.settings import (
    Settings,
    budget_of,
    left_regulariser,
    network_for,
    output_for,
    solver_tolerance,
)
from dpadmm.planning.task import Task
from dpadmm.privacy.accounting import Statement
from dpadmm.privacy.ledger import ConfirmedLedger, Receipt
from dpadmm.privacy.records import Origin
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem
from dpadmm.problems.silos import Silos


def course_of(task: Task, settings: Settings, times: int = 1) -> Course:
    """Return what running the task with these settings means; `times` problems share its rows."""
    method, (output, schedule) = settings.method, output_for(settings.method)
    problem = Problem.of(task.functions(settings.mu), regulariser=left_regulariser(task))
    network, tolerance = network_for(task, method), solver_tolerance(task)
    setting = RunSetting(problem, settings.rounds, tolerance, network, task.protection)
    algorithm: Any = method.at_step(setting, settings.step)
    return Course(algorithm, setting, budget_of(task, method), schedule, output, times)


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan(Course):
    """A course, with the task it serves, what to expect, and why.

    expected: the utility that simulations on synthetic data show. signal: norm of the models learned there, against
    which `noise_std` can be held. is_hopeless: in simulations it was hardly better than a model that
    learned nothing.
    """

    task: Task
    settings: Settings
    expected: Forecast
    signal: float
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_hopeless: bool = False

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.settings.method.about.name

    @property
    def rounds(self) -> int:
        """Number of rounds K."""
        return self.setting.rounds

    @property
    def network(self) -> Network | None:
        """The graph that it runs on, None for a coordinator."""
        return self.setting.network

    @property
    def mu(self) -> float:
        """Weight of the ridge inside every silo's function: the user's, or the planner's own."""
        return self.settings.mu

    @cached_property
    def _levels(self) -> tuple[Floats, Floats]:
        """Sensitivity and noise per silo, means over the releases (a coordinator's noise counts for each)."""
        n = self.task.n_silos
        totals, counts = np.zeros((2, n)), np.zeros(n)
        for row in self.noise_plan(is_secure=False).releases.values():
            for agent, release in row.items():
                own = slice(None) if agent is None or agent < 0 else agent
                totals[0, own] += release.bound
                totals[1, own] += release.level
                counts[own] += 1
        return totals[0] / counts, totals[1] / counts

    @property
    def sensitivity(self) -> Floats:
        """How far one unit can move a message, per silo."""
        return self._levels[0]

    @property
    def noise_std(self) -> Floats:
        """Noise per coordinate of a message (spherical Laplace: scale), per silo."""
        return self._levels[1]

    def problem(self, silos: Silos) -> Problem:
        """Return the problem on these silos; refuse silos that are not the ones planned for."""
        return replace(self.setting.problem, functions=self.task.risk(silos, self.mu))

    def describe(self) -> str:
        """Return the plan as text."""
        task = self.task
        hidden = task.protection
        lines = [
            f"Task      {task.n_silos} silo(s), {task.n_records} records, d = {task.dimension}, {task.loss}",
            f"Budget    epsilon {task.target.epsilon:g}, delta {task.target.delta:g}, for {hidden}, against the "
            f"{hidden.view.value}",
            f"Method    {self.method}, {self.rounds} rounds, ridge {self.mu:.3g}; the result is {self.output.value}",
            f"Noise     {self.noise_std.mean():.3g} per coordinate of a message; replacing "
            f"{hidden.change_in_one_silo} moves it by at most {self.sensitivity.mean():.3g}; "
            f"models have a norm of about {self.signal:.3g}",
            f"Expect    {self.expected}",
            *(f"Because   {reason}" for reason in self.reasons),
            *(f"Warning   {warning}" for warning in self.warnings),
        ]
        return "\n".join(lines)

    def __str__(self) -> str:
        """As `describe`."""
        return self.describe()

    def as_json(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        return {
            "task": task_json(self.task),
            "method": self.method,
            "algorithm": repr(self.algorithm),
            "rounds": self.rounds,
            "step": self.settings.step,
            "schedule": repr(self.schedule),
            "output": self.output.name.lower(),
            "edges": None if self.network is None else self.network.edges.tolist(),
            "mu": self.mu,
            "weights": "pooled",
            "tolerance": self.setting.tolerance,
            "noise_std": self.noise_std.tolist(),
            "sensitivity": self.sensitivity.tolist(),
            "signal": self.signal,
            "expected": self.expected.as_json(),
            "reasons": list(self.reasons),
            "warnings": list(self.warnings),
            "is_hopeless": self.is_hopeless,
        }


def task_json(task: Task) -> dict[str, Any]:
    """Return the task as plain values; loss and regulariser as they are written in Python."""
    return {
        "sizes": list(task.sizes),
        "dimension": task.dimension,
        "loss": repr(task.loss),
        "epsilon": task.target.epsilon,
        "delta": task.target.delta,
        "unit": task.protection.unit.value,
        "view": task.protection.view.value,
        "edges": None if task.network is None else task.network.edges.tolist(),
        "regulariser": None if task.regulariser is None else repr(task.regulariser),
        "row_norm": task.row_norm,
        "records_per_person": task.protection.records_per_person,
        "silos_per_person": task.protection.silos_per_person,
    }


@dataclass(frozen=True, eq=False)
class Outcome:
    """What may leave after a plan was carried out.

    `models` (problems, d) are the released models. `statement` tells what all of them cost; it is about a release only
    if `is_private_release`, that is, if all noise came from the operating system. `histories` are computed from the
    noisy messages alone; they are empty for methods whose noise is inside the objective.
    """

    models: Floats
    statement: Statement
    origin: Origin
    plan: Plan
    noise_plan: NoisePlan = field(repr=False)
    histories: tuple[tuple[PublicRound, ...], ...] = field(repr=False)
    receipts: tuple[Receipt, ...] = ()
    run_name: str = ""

    @property
    def model(self) -> Floats:
        """The released model (d,) of the only problem, or of the first."""
        return self.models[0]

    @property
    def public_history(self) -> tuple[PublicRound, ...]:
        """What its messages show."""
        return self.histories[0]

    @property
    def is_private_release(self) -> bool:
        """Whether the models may leave under the statement."""
        return self.origin is Origin.SECURE


def carry_out(
    plan: Plan,
    silos: Silos | Sequence[Silos],
    sampler: Sampler,
    ledgers: Sequence[ConfirmedLedger] | ConfirmedLedger | None = None,
    progress: bool = True,
    run: str | None = None,
) -> Outcome:
    """Run the plan on the silos, or on the same rows with the labels of each of its problems; see `run_course`.

    Nothing but what may be seen is kept.
    """
    parts = [silos] if isinstance(silos, Silos) else silos
    problems = [plan.problem(part) for part in parts]
    engine = LocalEngine(progress=progress)
    done = run_course(plan, problems, sampler, label=plan.method, ledgers=ledgers, engine=engine, name=run)
    return Outcome(
        models=np.array([each.run.model(plan.output)[:, 0] for each in done]),
        statement=done[0].statement,
        origin=next((each.origin for each in done if not each.is_private_release), Origin.SECURE),
        plan=plan,
        noise_plan=done[0].plan,
        histories=tuple(each.history for each in done),
        receipts=done[0].receipts,
        run_name=done[0].name,
    )
