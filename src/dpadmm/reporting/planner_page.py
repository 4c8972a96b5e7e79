"""The planner as one HTML page: sliders over plans that were made beforehand; no network, no library, no data."""

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from dpadmm import __version__
from dpadmm.algorithms.method import by_name
from dpadmm.errors import InputError
from dpadmm.planning.plan import Plan
from dpadmm.planning.planner import plan as make_plan
from dpadmm.planning.task import Task
from dpadmm.privacy.calibration import Target
from dpadmm.problems.losses import LabelKind
from dpadmm.reporting.budgets import best_guess
from dpadmm.reporting.labels import method_words
from dpadmm.reporting.views import from_whom

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_SILOS = (0.5, 1.0, 2.0, 4.0)
_RECORDS = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Axes:
    """What the sliders offer; `sizes` are those of the task itself, which stands in the middle of the others."""

    sizes: tuple[int, ...]
    epsilon: float
    epsilons: tuple[float, ...]
    silos: tuple[int, ...]
    records: tuple[int, ...]

    @classmethod
    def around(cls, task: Task) -> "Axes":
        """Return usual budgets, half to four times as many silos, and a quarter to four times as many records.

        >>> from dpadmm.problems.losses import Logistic
        >>> found = Axes.around(Task(sizes=(300, 200), dimension=4, loss=Logistic(), target=Target(2.0, 1e-5)))
        >>> found.epsilons, found.silos, found.records
        ((0.1, 0.3, 1.0, 2.0, 3.0, 10.0, 30.0), (1, 2, 4, 8), (62, 125, 250, 500, 1000))
        """
        each = max(1, task.n_records // task.n_silos)
        return cls(
            sizes=task.sizes,
            epsilon=task.target.epsilon,
            epsilons=tuple(sorted({*EPSILONS, task.target.epsilon})),
            silos=tuple(sorted({max(1, int(part * task.n_silos)) for part in _SILOS})),
            records=tuple(sorted({max(1, int(part * each)) for part in _RECORDS})),
        )

    @property
    def own_records(self) -> int:
        """Records of each silo of the task itself, in the mean."""
        return max(1, sum(self.sizes) // len(self.sizes))

    def sizes_of(self, silos: int, records: int) -> tuple[int, ...]:
        """Return the sizes of silos: the task's own where they are asked for, else all the same."""
        is_own = silos == len(self.sizes) and records == self.own_records
        return self.sizes if is_own else (records,) * silos

    @property
    def number(self) -> int:
        """How many plans there are."""
        return len(self.epsilons) * len(self.silos) * len(self.records)


@dataclass(frozen=True)
class Cell:
    """What is expected of one plan, on synthetic data."""

    method: str
    rounds: int
    mean: float
    spread: float
    loss: float
    learned: float
    is_hopeless: bool


@dataclass(frozen=True)
class PlannedSilos:
    """One number of silos with one number of records: plans for all budgets (None: there is none), and references."""

    silos: int
    records: int
    cells: tuple[Cell | None, ...]
    without: float
    simplest: float
    loss_without: float
    loss_simplest: float


@dataclass(frozen=True)
class Planner:
    """How plans for other sizes and budgets are made: as the one that was asked for.

    task_of: returns the task for these sizes, with any budget. problems: how many share it.
    """

    task_of: Callable[[tuple[int, ...]], Task]
    method: str | None = None
    problems: int | None = 1

    def plan(self, sizes: tuple[int, ...], epsilon: float) -> Plan:
        """Return the plan for silos of these sizes."""
        task = self.task_of(sizes)
        wanted = replace(task, target=Target(epsilon, task.target.delta))
        return make_plan(wanted, method=self.method, problems=self.problems)


def settings(axes: Axes, planner: Planner, tick: Callable[[], None]) -> Iterator[PlannedSilos]:
    """Make all plans; a setting for which none can be made is left out. tick: called after each plan."""
    for silos in axes.silos:
        for records in axes.records:
            found = _setting(axes, silos, records, planner, tick)
            if found is not None:
                yield found


def _setting(axes: Axes, silos: int, records: int, planner: Planner, tick: Callable[[], None]) -> PlannedSilos | None:
    cells: list[Cell | None] = []
    expected = None
    for epsilon in axes.epsilons:
        try:
            made = planner.plan(axes.sizes_of(silos, records), epsilon)
        except InputError:  # no such silos, or no method for them
            cells.append(None)
        else:
            expected = made.world_means
            cells.append(
                Cell(
                    method=made.method,
                    rounds=made.rounds,
                    mean=expected.mean,
                    spread=expected.spread,
                    loss=expected.loss,
                    learned=min(1.0, max(0.0, expected.kept)),
                    is_hopeless=made.is_hopeless,
                )
            )
        tick()
    if expected is None:
        return None
    return PlannedSilos(
        silos=silos,
        records=records,
        cells=tuple(cells),
        without=expected.non_private,
        simplest=expected.trivial,
        loss_without=expected.loss_non_private,
        loss_simplest=expected.loss_trivial,
    )


def planner_page(axes: Axes, found: Sequence[PlannedSilos], task: Task, title: str) -> str:
    """Return the page. task: whose protection, loss and delta all plans share. title: what the page is about."""
    if not found:
        raise InputError("No plan can be made for any of these budgets and silos, so there is nothing to show.")
    environment = Environment(
        loader=PackageLoader("dpadmm.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script, _, _ = environment.loader.get_source(environment, "planner.js")  # type: ignore[union-attr]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    hidden = task.protection
    return environment.get_template("planner.html").render(
        title=title,
        version=__version__,
        script=script,
        digest=digest,
        data=_data(axes, found, task),
        protected=str(hidden),
        from_whom=from_whom(hidden),
        counted=hidden.counted,
        delta=f"{task.target.delta:g}",
        plans=sum(cell is not None for each in found for cell in each.cells),
    )


def _data(axes: Axes, found: Sequence[PlannedSilos], task: Task) -> dict[str, Any]:
    """Return what the page's script reads: numbers and names of methods alone."""
    known = {cell.method for each in found for cell in each.cells if cell is not None}
    is_accuracy = task.loss.target is not LabelKind.REALS
    silos, records = sorted({each.silos for each in found}), sorted({each.records for each in found})
    return {
        "epsilons": axes.epsilons,
        "guesses": [best_guess(epsilon, task.target.delta) for epsilon in axes.epsilons],
        "silos": silos,
        "records": records,
        "own": [axes.epsilons.index(axes.epsilon), _near(silos, len(axes.sizes)), _near(records, axes.own_records)],
        "score": "accuracy" if is_accuracy else "R²",
        "simplest": "always the majority class" if is_accuracy else "always the mean",
        "counted": task.protection.counted,
        "delta": f"{task.target.delta:g}",
        "methods": {name: [method_words(name), by_name()[name].about.summary] for name in sorted(known)},
        "settings": {f"{each.silos} {each.records}": _plain(each) for each in found},
    }


def _near(values: Sequence[int], wanted: int) -> int:
    return min(range(len(values)), key=lambda i: abs(values[i] - wanted))


def _plain(each: PlannedSilos) -> dict[str, Any]:
    return {
        "cells": [None if cell is None else _rounded(vars(cell)) for cell in each.cells],
        **_rounded({key: value for key, value in vars(each).items() if isinstance(value, float)}),
    }


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in values.items()}
