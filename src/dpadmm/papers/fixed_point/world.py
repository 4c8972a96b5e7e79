"""The LASSO of the figure: data, cross-validated kappa, test objective, and who takes part when."""

import math
from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LassoCV

from dpadmm.algorithms.fixed_point.participation import Participation
from dpadmm.datasets import Planted, sparse_regression
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import Huber, Squared
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.problems.regularisers import L1


@dataclass(frozen=True)
class LassoSetting:
    """n, p, support, sampling, delta, runs: printed. The rest is chosen; tuples that follow tuning_runs are grids."""

    users: int = 1000
    dimension: int = 64
    support: int = 8
    sampled_share: float = 0.1
    delta: float = 1e-6
    epsilons: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0)
    rounds: int = 100
    runs: int = 10
    tuning_runs: int = 3
    gammas: tuple[float, ...] = (1.0, 4.0, 16.0, 64.0)
    lambdas: tuple[float, ...] = (0.5, 1.0)
    claimed_clips: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0)
    certified_clips: tuple[float, ...] = (0.003, 0.03, 0.3)
    thresholds: tuple[float, ...] = (0.003, 0.03, 0.1, 0.3, 1.0)
    steps: tuple[float, ...] = (0.25, 1.0, 4.0, 16.0, 64.0)
    sgd_clips: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    data_seed: int = 0
    sampling_seed: int = 1


SETTING = LassoSetting()
TOY = LassoSetting(
    users=60, dimension=6, support=2, epsilons=(0.5, 5.0), rounds=5, gammas=(4.0,), claimed_clips=(0.1,),
    certified_clips=(0.1,), thresholds=(0.1,), steps=(4.0,), sgd_clips=(0.1,),
)  # fmt: skip


@dataclass(frozen=True)
class World:
    """Training and test data, the cross-validated kappa, and the test objective."""

    setting: LassoSetting
    train: Planted
    test: Planted
    kappa: float
    optimum: Floats

    @classmethod
    def of(cls, setting: LassoSetting) -> "World":
        """Draw the data; kappa by cross-validation as in the paper."""
        whole = sparse_regression(
            2 * setting.users, setting.dimension, rng=np.random.default_rng(setting.data_seed), support=setting.support
        )
        half = np.arange(setting.users)
        train, test = (Planted(whole.data.take(rows), whole.truth) for rows in (half, half + setting.users))
        fit = LassoCV(fit_intercept=False, cv=5, alphas=50).fit(train.data.features, train.data.labels)
        return cls(setting, train, test, float(fit.alpha_), np.asarray(fit.coef_))

    def problem(self, threshold: float = math.inf) -> Problem:
        """Return (34) with every record a user; a finite threshold takes the Huber loss instead of the squared one."""
        loss = Squared() if math.isinf(threshold) else Huber(threshold)
        return Problem.of(EmpiricalRisk(self.train.users(), loss), Weighting.AVERAGE, L1(self.kappa))

    def objective(self, models: Floats, planted: Planted | None = None) -> Floats:
        """Return `||Ax - b||^2/(2n) + kappa ||x||_1` of models (d, R), on the test set unless told otherwise."""
        data = (planted or self.test).data
        residual = np.asarray(data.features @ models) - data.labels[:, None]
        return np.square(residual).mean(axis=0) / 2 + self.kappa * np.abs(models).sum(axis=0)

    @property
    def sampled(self) -> int:
        """How many users take part in a round."""
        return max(1, int(self.setting.users * self.setting.sampled_share))

    def participation(self) -> Participation:
        """Return who takes part in which round."""
        rng = np.random.default_rng(self.setting.sampling_seed)
        return Participation.subsets(self.setting.users, self.sampled, self.setting.rounds, rng)
