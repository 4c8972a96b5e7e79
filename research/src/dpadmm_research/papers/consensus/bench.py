"""A consensus problem ready to be measured: plans by both readings, errors by both measures, the paper's bounds.

The paper's K iterations end with x(K), computed from the (K-1)-th private broadcast: K rounds of the engine of which
the first K - 1 release anything. Its relative error is that of x_i(K), which must not be published; the error of the
last noisy broadcast, which may be, is recorded beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dpadmm.methods.base import Setting
from dpadmm.methods.consensus_dp import ConsensusDPADMM, FunctionsDiffer
from dpadmm.noise.mechanisms import CaoOptimal, MechanismSpec
from dpadmm.noise.plan import NoisePlan, calibrate
from dpadmm.privacy.accounting import PureTarget
from dpadmm.privacy.releases import SphericalLaplaceRelease
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem
from dpadmm_research.claims.base import ClaimedSensitivity
from dpadmm_research.claims.bounds import Bound, Version
from dpadmm_research.levels import at_levels
from dpadmm_research.papers.consensus import claims
from dpadmm_research.papers.consensus.theory import (
    Star,
    laplace_energy,
    papers_relative_error,
    theorem_2_in_squares,
    theorem_3,
)
from dpadmm_research.reproduction.table import Reading, Rows
from dpadmm_research.reproduction.trials import Trial, run_trials

ERROR, RELEASED, EPSILON = "relative error", "relative error of the release", "certified epsilon"
TOLERANCE = 1e-8


@dataclass(frozen=True)
class Bench:
    """A problem on a star with everything the paper's formulas need.

    optimum: x* (d,). claimed: Lemma 3's H. gradient_distance: delta of Definition 1.
    """

    problem: Problem = field(repr=False)
    optimum: Floats = field(repr=False)
    star: Star
    claimed: ClaimedSensitivity
    gradient_distance: float

    @property
    def method(self) -> ConsensusDPADMM:
        """Algorithm 1, which hides one agent's function."""
        return ConsensusDPADMM(self.star.rho, FunctionsDiffer(self.gradient_distance))

    @property
    def beta(self) -> float:
        """The paper's largest beta."""
        return self.star.largest_beta

    @cached_property
    def radius(self) -> float:
        """||x*||."""
        return float(np.linalg.norm(self.optimum))

    @cached_property
    def potential(self) -> float:
        """pi(0), from the data as the paper does it."""
        slopes = self.problem.functions.gradient(self.optimum[None, :, None])[:, :, 0]
        return self.star.initial_potential(self.radius, float(np.sqrt(np.square(slopes).sum(axis=1).mean())))

    def mechanisms(self, iterations: int) -> tuple[MechanismSpec, ...]:
        """Return the releases of K iterations: K - 1 broadcasts (C3)."""
        return self.method.mechanisms(Setting(self.problem, iterations - 1, TOLERANCE))

    def plan(self, reading: Reading, epsilon: float, iterations: int) -> NoisePlan:
        """Return the noise for pure epsilon: by (21) and Lemma 3, or the same shape by certificate C3."""
        mechanisms = self.mechanisms(iterations)
        if reading is Reading.CERTIFIED:
            return calibrate(mechanisms, PureTarget(epsilon), CaoOptimal(self.beta))
        rates = claims.theorem_3_schedule(self.claimed, epsilon=epsilon, rounds=iterations, beta=self.beta)
        return at_levels(mechanisms, [rates.values])

    def rates(self, reading: Reading, epsilon: float, iterations: int) -> Floats:
        """Return the K - 1 rates of `plan`; in both readings they are proportional to epsilon, so one plan does."""
        return epsilon * self._unit(reading, iterations)[0]

    def cost(self, reading: Reading, epsilon: float, iterations: int) -> float:
        """Return what the noise of `plan` costs by the certificates: pure, hence proportional to epsilon too."""
        return epsilon * self._unit(reading, iterations)[1]

    def _unit(self, reading: Reading, iterations: int) -> tuple[Floats, float]:
        """Return rates and certified cost at epsilon = 1."""
        key = (reading, iterations)
        if key not in self._units:
            plan = self.plan(reading, 1.0, iterations)
            rates = [release.rate for release in plan if isinstance(release, SphericalLaplaceRelease)]
            self._units[key] = np.array(rates), plan.account().curve.epsilon(0.0)
        return self._units[key]

    @cached_property
    def _units(self) -> dict[tuple[Reading, int], tuple[Floats, float]]:
        return {}

    def trial(self, reading: Reading, epsilon: float, iterations: int) -> Trial:
        """Return one curve's trial at this K."""
        return Trial("DP-ADMM", reading, epsilon, self.plan(reading, epsilon, iterations))

    def measure(
        self, rows: Rows, panel: str, iterations: int, trials: Sequence[Trial], runs: int, seed: int, x: float
    ) -> None:
        """Run K iterations of all trials at once; add both errors."""
        batch = run_trials(
            self.method, self.problem, iterations, trials, runs=runs, seed=seed, every=0, tolerance=TOLERANCE
        )
        target, size = self.optimum[:, None], self.radius**2
        models = batch.run.state[0]
        papers = np.square(models - target).sum(axis=1).mean(axis=0) / size
        released = next(iter(batch.noise.last.values()), models.mean(axis=0, keepdims=True))
        errors = np.square(released[0] - target).sum(axis=0) / size
        for trial, columns in batch:
            for metric, values in ((ERROR, papers[columns]), (RELEASED, errors[columns])):
                rows.add(
                    panel=panel, curve=trial.curve, reading=trial.reading, epsilon=trial.epsilon, x=x, metric=metric,
                    values=values,
                )  # fmt: skip

    def printed_bound(self, epsilon: float, iterations: int, version: Version) -> float:
        """Return (20) with (22), as printed or corrected; NaN where the theorem does not apply."""
        root = theorem_3(self.star, self.potential, self.claimed.value, epsilon, iterations, self.beta, version)
        return papers_relative_error(self.star, root.value**2, self.radius) if isinstance(root, Bound) else np.nan

    def squared_bound(self, rates: Floats) -> float:
        """Return (20) with noise of these rates added in squares."""
        energies = [laplace_energy(rate, self.star.dimension) for rate in rates]
        bound = theorem_2_in_squares(self.star, self.potential, energies, self.beta)
        return papers_relative_error(self.star, bound.value, self.radius)
