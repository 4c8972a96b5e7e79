"""A blueprint: task and settings turned into a method with its noise, all of it public."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpadmm.algorithms.setting import Setting
from dpadmm.errors import InputError
from dpadmm.networks.graph import Network
from dpadmm.noise.plan import NoisePlan, calibrated, check_reach, check_solvable
from dpadmm.noise.schedules import Schedule
from dpadmm.planning.levels import bound_of, level_of
from dpadmm.planning.settings import (
    Output,
    Settings,
    budget_of,
    left_regulariser,
    network_for,
    output_for,
    solver_tolerance,
)
from dpadmm.planning.task import Task
from dpadmm.privacy.accounting import Statement
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem, Weighting
from dpadmm.problems.regularisers import NoRegulariser, Regulariser
from dpadmm.problems.risk import EmpiricalRisk
from dpadmm.problems.silos import ROW_NORM_SLACK, Silos


@dataclass(frozen=True, eq=False, kw_only=True)
class Blueprint:
    """What will be run: the task, the numbers, and the method made of them.

    `weights` is how much each silo counts (pooled: by its records). `tolerance` is the gradient norm to which the silos
    solve; it is counted in the noise (C7).
    """

    task: Task
    settings: Settings
    algorithm: Any
    schedule: Schedule
    output: Output
    network: Network | None
    tolerance: float
    weights: Weighting = Weighting.POOLED

    @classmethod
    def of(cls, task: Task, settings: Settings) -> "Blueprint":
        """Return the blueprint of these settings."""
        method, (output, schedule) = settings.method, output_for(settings.method)
        network, tolerance = network_for(task, method), solver_tolerance(task)
        problem = Problem.of(task.functions(settings.mu), cls.weights, left_regulariser(task) or NoRegulariser())
        setting = Setting(problem, settings.rounds, tolerance, network, task.protection)
        return Blueprint(
            task=task,
            settings=settings,
            algorithm=method.at_step(setting, settings.step),
            schedule=schedule,
            output=output,
            network=network,
            tolerance=tolerance,
        )

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.settings.method.about.name

    @property
    def rounds(self) -> int:
        """Number of rounds K."""
        return self.settings.rounds

    @property
    def mu(self) -> float:
        """Weight of the ridge inside every silo's function: the user's, or the planner's own."""
        return self.settings.mu

    @property
    def regulariser(self) -> Regulariser:
        """The part of the user's penalty that is no ridge."""
        return left_regulariser(self.task) or NoRegulariser()

    @property
    def setting(self) -> Setting:
        """The public facts its certificates rest on."""
        task = self.task
        problem = Problem.of(task.functions(self.mu), self.weights, self.regulariser)
        return Setting(problem, self.rounds, self.tolerance, self.network, task.protection)

    def noise_plan(self, is_secure: bool = True) -> NoisePlan:
        """Return every release with its noise, from public facts alone; `is_secure` counts the rounding to a grid."""
        task = self.task
        # There is no exact sampler for spherical noise, hence no grid; its certificates say so (C8).
        has_grid = is_secure and not self.settings.method.about.is_pure
        planned = calibrated(
            self.algorithm.promises(self.setting),
            budget_of(task, self.settings.method),
            self.schedule,
            silos_per_person=task.protection.silos_per_person,
            secure_dimension=task.dimension if has_grid else None,
        )
        check_reach(planned, task.n_records)
        if is_secure:
            check_solvable(planned, task.dimension, self.tolerance)
        return planned

    def statement(self) -> Statement:
        """Return what carrying it out will cost."""
        return self.noise_plan(is_secure=False).statement()

    @cached_property
    def _levels(self) -> tuple[Floats, Floats]:
        """Sensitivity and noise per silo, means over the releases (a coordinator's noise counts for each)."""
        n = self.task.n_silos
        totals, counts = np.zeros((2, n)), np.zeros(n)
        for row in self.noise_plan(is_secure=False).releases.values():
            for agent, release in row.items():
                own = slice(None) if agent is None or agent < 0 else agent
                totals[0, own] += bound_of(release)
                totals[1, own] += level_of(release)
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
        sizes = tuple(int(size) for size in silos.sizes)
        if sizes != self.task.sizes:
            raise InputError(f"The plan is for silos of {self.task.sizes} records, got {sizes}. Plan again.")
        if silos.dimension != self.task.dimension:
            raise InputError(f"The plan is for dimension {self.task.dimension}, got {silos.dimension}. Plan again.")
        if silos.row_norm > self.task.row_norm * (1 + ROW_NORM_SLACK):
            raise InputError(
                f"The plan is for rows of norm {self.task.row_norm:g}, the silos allow {silos.row_norm:g}. Plan again."
            )
        return Problem.of(EmpiricalRisk(silos, self.task.loss, self.mu), self.weights, self.regulariser)
