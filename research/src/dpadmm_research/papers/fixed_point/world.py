"""The LASSO of the figure as the authors' public code sets it up: data, cross-validated kappa, test objective.

The paper prints rows on the unit sphere and noise N(0, 0.01). Their code draws standard Gaussian entries, standardises
the columns (rows are then about sqrt(64) = 8 long), draws the non-zero entries of the truth from [0, 1], adds noise of
standard deviation 0.1, and trains on 800 of the 1000 rows.
"""

import math
from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LassoCV
from sklearn.model_selection import train_test_split

from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import Huber, Squared
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.problems.silos import Silos
from dpadmm_research.claims.base import linear_renyi_of_epsilon


@dataclass(frozen=True)
class LassoSetting:
    """rows, dimension, support, delta, runs: printed. Up to iterations: the authors' code. The rest: ours.

    relaxation is lambda; row_bound is the public bound on a row that noise at the coordinator needs (the longest is
    9.95 long).
    """

    rows: int = 1000
    dimension: int = 64
    support: int = 8
    delta: float = 1e-6
    runs: int = 10
    train_share: float = 0.8
    noise_std: float = 0.1
    data_seed: int = 18
    split_seed: int = 42
    epsilons: tuple[float, ...] = tuple(np.geomspace(0.01, 5.0, 7).tolist())
    gamma: float = 1.584893
    relaxation: float = 0.464159
    admm_clip: float = 1.6
    sgd_clip: float = 13.0
    sgd_step: float = 0.31
    start: float = 10.0
    sampled: int = 100
    iterations: int = 1000
    row_bound: float = 10.0
    certified_rounds: int = 100
    certified_sampled: int = 80


SETTING = LassoSetting()
TOY = LassoSetting(
    rows=60, dimension=6, support=2, epsilons=(0.5, 5.0), sampled=6, iterations=6, certified_rounds=4,
    certified_sampled=5, row_bound=20.0,
)  # fmt: skip


@dataclass(frozen=True)
class World:
    """Training and test data, the cross-validated kappa, and the model that scikit-learn finds with it."""

    setting: LassoSetting
    rows: Floats
    targets: Floats
    test_rows: Floats
    test_targets: Floats
    kappa: float
    optimum: Floats

    @classmethod
    def of(cls, setting: LassoSetting) -> "World":
        """Draw the data from the authors' seeds, in their order."""
        rng = np.random.default_rng(setting.data_seed)
        rows = rng.normal(size=(setting.rows, setting.dimension))
        rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
        entries = rng.uniform(size=setting.support)
        truth = np.zeros(setting.dimension)
        truth[rng.choice(setting.dimension, size=setting.support, replace=False)] = entries
        targets = rows @ truth + setting.noise_std * rng.normal(size=setting.rows)
        train, test, train_targets, test_targets = train_test_split(
            rows, targets, train_size=setting.train_share, random_state=setting.split_seed
        )
        fit = LassoCV().fit(train, train_targets)
        return cls(setting, train, train_targets, test, test_targets, float(fit.alpha_), np.asarray(fit.coef_))

    @property
    def users(self) -> int:
        """How many rows are trained on, each of them a user."""
        return len(self.rows)

    def objective(self, models: Floats) -> Floats:
        """Return `||Ax - b||^2/n + kappa ||x||_1` of models (d, R) on the test rows.

        Their code leaves out the 1/2 of (34), which kappa was cross-validated for.
        """
        return self._objective(models, self.test_rows, self.test_targets)

    def training_objective(self, models: Floats) -> Floats:
        """Return the same on the training rows."""
        return self._objective(models, self.rows, self.targets)

    def _objective(self, models: Floats, rows: Floats, targets: Floats) -> Floats:
        residual = rows @ models - targets[:, None]
        return np.asarray(np.square(residual).mean(axis=0) + self.kappa * np.abs(models).sum(axis=0))

    def noise_scale(self, epsilon: float, clip: float) -> float:
        """Return the code's `scale_noise = 2 C^2 K/(rho n^2)` with `rho + 2 sqrt(rho ln(1/delta)) = eps`.

        n counts the test rows too. Theorem 2 has 8 C^2 K/(rho n^2) for the *variance* in the blocks, Theorem 3 has 16.
        """
        rho = linear_renyi_of_epsilon(epsilon, self.setting.delta)
        return 2 * clip**2 * self.setting.iterations / (rho * self.setting.rows**2)

    def problem(self, threshold: float = math.inf) -> Problem:
        """Return (34) with every row a user; a finite threshold takes the Huber loss instead of the squared one."""
        loss = Squared() if math.isinf(threshold) else Huber(threshold)
        users = Silos.one_record_each(self.rows, self.targets, self.setting.row_bound)
        return Problem.of(EmpiricalRisk(users, loss), Weighting.AVERAGE, ElasticNet(l1=self.kappa))
