"""What tests of several methods share: optima, neighbouring silos, and a transcript that both worlds are fed."""

import numpy as np
from sklearn.linear_model import LogisticRegression

from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.problems.silos import Silos

MU, SIZES = 0.1, (120, 80, 60, 40)


def fitted(features, labels, mu=MU):
    """Return scikit-learn's optimum for these records."""
    fit = LogisticRegression(C=1 / (len(labels) * mu), fit_intercept=False, tol=1e-12, solver="newton-cholesky")
    return fit.fit(features, labels).coef_.T


def check_log_linear(rounds, gaps, least_fit=0.95):
    """Fail unless the logarithm of the gaps is close to a falling straight line (R^2 of the least-squares fit)."""
    kept = gaps > 1e-13
    x, y = rounds[kept].astype(float), np.log(gaps[kept])
    slope, intercept = np.polyfit(x, y, 1)
    assert len(x) >= 5
    assert slope < -0.1
    assert 1 - np.var(y - slope * x - intercept) / np.var(y) > least_fit


class Transcript:
    """Keeps what would leave, before noise, and answers with prescribed values: the same for both data sets."""

    def __init__(self, prescribed, rng, scale):
        self.prescribed, self.rng, self.scale, self.seen = prescribed, rng, scale, {}

    def perturb(self, kind, k, agents, values):
        self.seen[kind, k] = values.copy()
        if (kind, k) not in self.prescribed:
            push = 0.05 * self.rng.standard_normal(values.shape)
            push[:, 0] += self.rng.choice([-1.0, 1.0])
            self.prescribed[kind, k] = self.scale * push
        return self.prescribed[kind, k]


def neighbours(rng, loss, sizes=(4, 3, 3, 3), mu=0.05, weighting=Weighting.EQUAL, changed=(1,)):
    """Two problems that differ in `changed[i]` records of silo i: nearly opposite ones, at odds with the first axis.

    A transcript moves along that axis, so that the slopes of both records go from one end to the other.
    """
    tables = [rng.standard_normal((n, 3)) for n in sizes]
    tables = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in tables]
    labels = [rng.choice([-1.0, 1.0], n) for n in sizes]
    angle = rng.uniform(0, 2 * np.pi)
    across = np.array([0.0, np.cos(angle), np.sin(angle)])
    worlds = []
    for sign in (1, -1):
        mine, said = [part.copy() for part in tables], [part.copy() for part in labels]
        for i, number in enumerate(changed):
            mine[i][:number], said[i][:number] = 0.2 * np.eye(3)[0] + sign * np.sqrt(0.96) * across, 1.0
        silos = Silos.from_parts(mine, said, row_norm=1.0)
        worlds.append(Problem.of(EmpiricalRisk(silos, loss, mu=mu), weighting))
    return worlds
