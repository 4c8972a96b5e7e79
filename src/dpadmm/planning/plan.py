"""A plan: everything that is fixed before the data are touched, with its reasons."""

from dataclasses import dataclass
from typing import Any

from dpadmm.planning.blueprint import Blueprint
from dpadmm.planning.forecast import Forecast
from dpadmm.planning.settings import Output
from dpadmm.planning.task import Task

__all__ = ["Output", "Plan"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan(Blueprint):
    """What will be run, how much noise it carries, what to expect, and why.

    expected: the utility that simulations on synthetic data show. signal: norm of the models learned there, against
    which `noise_std` can be held. is_hopeless: in simulations it was hardly better than a model that
    learned nothing.
    """

    expected: Forecast
    signal: float
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_hopeless: bool = False

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
            "weights": self.weights.name.lower(),
            "tolerance": self.tolerance,
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
