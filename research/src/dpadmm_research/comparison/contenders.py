"""The methods on a graph that race on Adult: how each is built, and its noise by the papers' own formulas.

`ComparisonSetting` says what is compared. A contender gives, for a budget, the claimed noise levels (one row per agent,
one column per iteration) and how the claimed epsilon accumulates; the certified counterparts come from the method's
mechanisms.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from dpadmm.methods.base import Setting
from dpadmm.methods.dvp import DVP
from dpadmm.methods.m_admm import MADMM
from dpadmm.methods.p_admm import PADMM
from dpadmm.methods.r_admm import RADMM
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import Constant, Geometric, Schedule
from dpadmm.noise.plan import calibrate
from dpadmm.privacy.accounting import PureTarget, Target
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem
from dpadmm_research.levels import at_levels
from dpadmm_research.papers.p_admm import claims as p_admm
from dpadmm_research.papers.r_admm import claims as r_admm
from dpadmm_research.papers.r_admm import dvp_claims as dvp
from dpadmm_research.papers.r_admm import m_admm_claims as m_admm
from dpadmm_research.papers.r_admm.claims import PerturbedObjective
from dpadmm_research.reproduction.table import Reading
from dpadmm_research.reproduction.trials import TOLERANCE, Trial


@dataclass(frozen=True)
class ComparisonSetting:
    """The problem, who talks to whom, for how many iterations, and the delta of Gaussian methods."""

    problem: Problem = field(repr=False)
    network: Network
    rounds: int
    delta: float

    @property
    def ridge_share(self) -> float:
        """The strong convexity that the regulariser gives each agent."""
        return self.problem.regulariser.strong_convexity / self.problem.n_agents

    def objectives(self, eta: float) -> list[PerturbedObjective]:
        """Return every agent's objective as the objective-perturbation theorems see it."""
        return [
            PerturbedObjective(
                records=int(size), degree=int(degree), eta=eta, ridge=self.ridge_share, loss_weight=float(weight)
            )
            for size, degree, weight in zip(
                self.problem.functions.sizes, self.network.degrees, self.problem.weights, strict=True
            )
        ]


class Contender(Protocol):
    """One method in the race."""

    @property
    def label(self) -> str:
        """Its name in plots."""
        ...

    @property
    def method(self) -> Any:
        """The algorithm."""
        ...

    @property
    def schedule(self) -> Schedule:
        """The shape of its noise."""
        ...

    def target(self, comparison: ComparisonSetting, epsilon: float) -> Target | PureTarget:
        """The budget in the form the noise needs."""
        ...

    def claimed_levels(self, comparison: ComparisonSetting, epsilon: float) -> Floats:
        """The noise by the paper's formula, (agents, iterations)."""
        ...

    def claimed_curve(self, comparison: ComparisonSetting, epsilon: float) -> list[float]:
        """The claimed epsilon after every iteration: the largest over the agents."""
        ...


def trial(contender: Contender, comparison: ComparisonSetting, reading: Reading, epsilon: float) -> Trial:
    """Return the contender's trial with the noise of this reading."""
    mechanisms = contender.method.mechanisms(
        Setting(comparison.problem, comparison.rounds, TOLERANCE, comparison.network)
    )
    if reading is Reading.CLAIMED:
        last = max(row.rounds[-1] for row in mechanisms[0].rows)
        plan = at_levels(mechanisms, [contender.claimed_levels(comparison, epsilon)[:, :last]])
    else:
        plan = calibrate(mechanisms, contender.target(comparison, epsilon), contender.schedule)
    return Trial(contender.label, reading, epsilon, plan)


@dataclass(frozen=True)
class PAdmmContender:
    """P-ADMM: Gaussian noise whose variance falls by `decay` R a round; noise by Theorem 3 with V = 1."""

    eta: float
    decay: float

    @property
    def label(self) -> str:
        """With its R."""
        return f"P-ADMM, R = {self.decay:g}"

    @property
    def method(self) -> PADMM:
        """The library's P-ADMM."""
        return PADMM(self.eta)

    @property
    def schedule(self) -> Schedule:
        """Geometric."""
        return Geometric(self.decay)

    def target(self, comparison: ComparisonSetting, epsilon: float) -> Target:
        """(epsilon, delta)."""
        return Target(epsilon, comparison.delta)

    def claimed_levels(self, comparison: ComparisonSetting, epsilon: float) -> Floats:
        """s_{i,1} by Theorem 3, then the decay."""
        first = [
            p_admm.theorem_3_noise(
                epsilon=epsilon,
                delta=comparison.delta,
                decay=self.decay,
                rounds=comparison.rounds,
                gradient_bound=1.0,
                eta=self.eta,
                degree=int(degree),
                l2_weight=comparison.ridge_share / 2,
            ).value
            for degree in comparison.network.degrees
        ]
        return np.outer(first, self.schedule.shape(comparison.rounds))

    def claimed_curve(self, comparison: ComparisonSetting, epsilon: float) -> list[float]:
        """Theorem 3 for the first k rounds; every agent spends the same."""
        degree = int(comparison.network.degrees[0])
        std = float(self.claimed_levels(comparison, epsilon)[0, 0])
        rho = p_admm.theorem_2_rho(gradient_bound=1.0, eta=self.eta, degree=degree, noise_std=std)
        rounds = range(1, comparison.rounds + 1)
        return [p_admm.theorem_3_epsilon(rho, decay=self.decay, rounds=k, delta=comparison.delta).value for k in rounds]


class _Objective:
    """What the objective-perturbation methods share: pure epsilon and constant rates."""

    @property
    def schedule(self) -> Schedule:
        """The same noise in every noisy iteration."""
        return Constant()

    def target(self, comparison: ComparisonSetting, epsilon: float) -> PureTarget:
        """Pure epsilon."""
        return PureTarget(epsilon)


@dataclass(frozen=True)
class DvpContender(_Objective):
    """DVP; noise by eq. (30) of R-ADMM on every iteration."""

    eta: float
    label: str = "DVP"

    @property
    def method(self) -> DVP:
        """The library's DVP."""
        return DVP(self.eta)

    def claimed_levels(self, comparison: ComparisonSetting, epsilon: float) -> Floats:
        """One rate for all iterations."""
        rates = [
            dvp.total_epsilon_noise(objective, epsilon=epsilon, iterations=comparison.rounds).value
            for objective in comparison.objectives(self.eta)
        ]
        return np.repeat(np.array(rates)[:, None], comparison.rounds, axis=1)

    def claimed_curve(self, comparison: ComparisonSetting, epsilon: float) -> list[float]:
        """Linear."""
        return (epsilon * np.arange(1, comparison.rounds + 1) / comparison.rounds).tolist()


@dataclass(frozen=True)
class MAdmmContender(_Objective):
    """M-ADMM with penalties `eta growth^t`; noise by its total privacy loss, the same rate of e in every iteration."""

    eta: float
    growth: float
    label: str = "M-ADMM"

    @property
    def method(self) -> MADMM:
        """The library's M-ADMM."""
        return MADMM(self.eta, self.growth)

    def _objectives(self, comparison: ComparisonSetting) -> list[list[PerturbedObjective]]:
        etas = [self.eta * self.growth**t for t in range(1, comparison.rounds + 1)]
        return [[replace(agent, eta=eta) for eta in etas] for agent in comparison.objectives(self.eta)]

    def _rates(self, comparison: ComparisonSetting, epsilon: float) -> list[float]:
        return [m_admm.total_epsilon_noise(agent, epsilon=epsilon).value for agent in self._objectives(comparison)]

    def claimed_levels(self, comparison: ComparisonSetting, epsilon: float) -> Floats:
        """The rate of the linear term is `alpha/(2 eta(t) deg)`."""
        rates = np.array(self._rates(comparison, epsilon))[:, None]
        etas = self.eta * self.growth ** np.arange(1, comparison.rounds + 1)
        return np.asarray(rates / (2 * etas[None, :] * comparison.network.degrees[:, None]))

    def claimed_curve(self, comparison: ComparisonSetting, epsilon: float) -> list[float]:
        """Partial sums; every agent spends the same."""
        agent, rate = self._objectives(comparison)[0], self._rates(comparison, epsilon)[0]
        rounds = range(1, comparison.rounds + 1)
        return [m_admm.total_epsilon(agent[:k], [rate] * k).value for k in rounds]


@dataclass(frozen=True)
class RAdmmContender(_Objective):
    """R-ADMM with penalties `eta growth^t`, `gamma growth^t`; noise by eq. (30), odd iterations only.

    With growing penalties eq. (30) is evaluated at the first, smallest one: the claimed noise is a little larger.
    """

    eta: float
    gamma: float
    growth: float = 1.0
    label: str = "R-ADMM"

    @property
    def method(self) -> RADMM:
        """The library's R-ADMM."""
        return RADMM(self.eta, self.gamma, self.growth)

    def claimed_levels(self, comparison: ComparisonSetting, epsilon: float) -> Floats:
        """One rate for all odd iterations."""
        noisy = (comparison.rounds + 1) // 2
        rates = [
            r_admm.theorem_iv_1_noise(objective, epsilon=epsilon, noisy_iterations=noisy).value
            for objective in comparison.objectives(self.eta * self.growth)
        ]
        return np.repeat(np.array(rates)[:, None], comparison.rounds, axis=1)

    def claimed_curve(self, comparison: ComparisonSetting, epsilon: float) -> list[float]:
        """A step at every odd iteration."""
        noisy = (np.arange(1, comparison.rounds + 1) + 1) // 2
        return (epsilon * noisy / noisy[-1]).tolist()
