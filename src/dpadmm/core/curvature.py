"""The last release of a run that tells intervals: the curvature of the loss where the run has settled (C14).

Gradients tell where the optimum is, the curvature how sharply it is known. It is taken at the mean of the points at
which the last rounds asked for gradients, and released with noise of its own, as one more sum over all silos.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from dpadmm.errors import InputError
from dpadmm.methods.anatomy import NoiseHook
from dpadmm.methods.method import Setting
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.methods.rounding import added_up, evaluated
from dpadmm.noise.draws import COORDINATOR, Slot
from dpadmm.noise.plan import NoisePlan, calibrated
from dpadmm.noise.promises import Constant, Family, Promise, Row
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.certificates.sums import Shares, curvature_sum
from dpadmm.privacy.records import seen_noise
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.streams import StreamedRisk

CURVATURE = Slot("curvature")
"""Where the matrix gets its noise."""


@dataclass(frozen=True)
class CurvatureRound:
    """The round after the last: the noisy sum of all records' curvature. target: what it alone may spend."""

    target: Target

    def noise_plan(self, setting: Setting, *, is_secure: bool, shares: Shares | None = None) -> NoisePlan:
        """Return its one release: with one noise on the sum, the silos' shares of one, or that of the only silo."""
        silos = range(setting.problem.n_agents)
        dimension, size = setting.problem.dimension, setting.problem.functions.constants.record_curvature
        locals_ = [evaluated(setting.local(i), dimension=dimension, size=size, order=2) for i in silos]
        certificate = curvature_sum(added_up(locals_, size=size), record_curvature=size)
        promise = Promise(CURVATURE, Family.GAUSSIAN, (Row(COORDINATOR, (1,), (certificate,)),))
        planned = calibrated(
            [promise],
            self.target,
            Constant(),
            secure_dimension=packed_size(setting.problem.dimension) if is_secure or shares is not None else None,
            shares=shares,
        )
        (row,) = planned.releases.values()
        last = setting.rounds + 1
        return NoisePlan({(CURVATURE, last): {agent: replace(each, round=last) for agent, each in row.items()}})


@dataclass(frozen=True, eq=False)
class ReleasedCurvature:
    """What intervals are made of; all of it released with noise, in the scale of sums over records.

    point: p, mean of the points at which the last rounds asked for gradients. gradient: g, mean of the noisy sums of
    gradients that they got, the ridge taken off; matrix: the noisy curvature at p. gradient_std: of the noise in every
    number of g. matrix_std: tau, of the noise on the diagonal; beside it there is `tau/sqrt(2)`.
    """

    point: Floats
    gradient: Floats
    matrix: Floats
    gradient_std: float
    matrix_std: float


class SettledRounds:
    """A noise hook that hands everything on and keeps means of what the last rounds released; it sees nothing else.

    The points at which gradients are asked for follow from the noisy sums, so the descent is followed here.
    """

    def __init__(self, hook: NoiseHook, algorithm: NoisyGradients, setting: Setting) -> None:
        problem = setting.problem
        self._hook, self._algorithm, self._penalty = hook, algorithm, problem.regulariser
        self._inbox = algorithm.origin(problem.regulariser, problem.dimension, 1)
        self._first = algorithm.tail_from(setting.rounds)
        self.number = setting.rounds + 1 - self._first
        self.point, self.gradient = np.zeros(problem.dimension), np.zeros(problem.dimension)

    def perturb(self, slot: Slot, k: int, agents: Ints, values: Floats) -> Floats:
        """Return what the hook returns."""
        return self._hook.perturb(slot, k, agents, values)

    def total(self, slot: Slot, k: int, messages: Floats) -> Floats:
        """Return what the hook returns: the noisy sum, which is all that is read."""
        if messages.shape[2] != 1:
            raise InputError("The curvature is released in single runs, not in many replicas at once (C14).")
        noisy = self._hook.total(slot, k, messages)
        if k >= self._first:
            self.point += self._inbox[1, :, 0] / self.number
            self.gradient += noisy[0, :, 0] / self.number
        self._inbox = self._algorithm.descended(self._penalty, self._inbox, noisy)
        return noisy


def release_curvature(
    settled: SettledRounds, setting: Setting, problem: Problem, plan: NoisePlan, noise: NoiseHook
) -> ReleasedCurvature:
    """Release the curvature of a problem where its run has settled; `plan` has its noise, and that of the rounds."""
    last, n = setting.rounds + 1, int(setting.problem.functions.sizes.sum())
    noisy = noise.total(CURVATURE, last, curvature_messages(problem, settled.point[:, None]))[0, :, 0]
    rounds = [
        seen_noise(each) for (slot, k), row in plan.releases.items() if slot != CURVATURE for each in row.values()
    ]
    (own,) = plan.releases[CURVATURE, last].values()
    ridge = setting.problem.functions.constants.strong_convexity
    return ReleasedCurvature(
        point=settled.point,
        gradient=n * (settled.gradient - ridge * settled.point),
        matrix=n * unpacked(noisy, setting.problem.dimension),
        gradient_std=n * max(rounds) / math.sqrt(settled.number),
        matrix_std=n * seen_noise(own),
    )


def curvature_messages(problem: Problem, points: Floats) -> Floats:
    """Return every silo's part of the sum at public points (d, R), packed, (silos, d(d + 1)/2, R); no ridge in it."""
    risk = problem.functions
    if not isinstance(risk, EmpiricalRisk | StreamedRisk):
        raise InputError("The curvature is released for losses of one score a record (C14).")
    bare = replace(risk, mu=0.0)
    silos = range(problem.n_agents)
    return np.stack(
        [np.stack([problem.weights[i] * packed(bare.hessian(i, point)) for point in points.T], axis=1) for i in silos]
    )


def packed_size(dimension: int) -> int:
    """Return how many numbers a symmetric matrix has."""
    return dimension * (dimension + 1) // 2


def packed(matrix: Floats) -> Floats:
    """Return a symmetric matrix as a vector of the same (Frobenius) norm: the diagonal, sqrt(2) times what is above.

    >>> packed(np.array([[1.0, 2.0], [2.0, 3.0]])).round(4).tolist()
    [1.0, 3.0, 2.8284]
    """
    above = np.triu_indices(len(matrix), 1)
    return np.concatenate([np.diag(matrix), math.sqrt(2) * matrix[above]])


def unpacked(vector: Floats, dimension: int) -> Floats:
    """Return the matrix that `packed` made a vector of."""
    matrix = np.zeros((dimension, dimension))
    matrix[np.triu_indices(dimension, 1)] = vector[dimension:] / math.sqrt(2)
    return matrix + matrix.T + np.diag(vector[:dimension])
