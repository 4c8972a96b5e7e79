"""Losses and regularisers as users write them: those that keep what they declare, and those that do not.

`ClippedLine` is a whole loss whose parts can be exchanged one by one, so that each wrong declaration is wrong in one.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.special import expit

from dpadmm.problems.losses import Constants, Huber, LabelKind, Logistic, SlopeForm, SmoothedHinge, Squared
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.problems.regularisers import Box, ElasticNet


@dataclass(frozen=True)
class ClippedLine:
    """`slope = clip((t - shift) gain, low, high)`, its integral from the shift, and all that follows."""

    low: float = -0.5
    high: float = 0.5
    shift: float = 0.0
    gain: float = 1.0
    target: LabelKind = LabelKind.REALS

    @property
    def form(self):
        return SlopeForm(self.shift, self.gain, self.low, self.high)

    @property
    def slope_bound(self):
        return max(abs(self.low), abs(self.high))

    @property
    def curvature_bound(self):
        return self.gain

    def slope(self, t):
        return np.clip((t - self.shift) * self.gain, self.low, self.high)

    def value(self, t):
        s = self.slope(t)
        return s * (t - self.shift) - 0.5 * s * s / self.gain + 2.0

    def curvature(self, t):
        line = (t - self.shift) * self.gain
        return np.where((self.low <= line) & (line <= self.high), self.gain, 0.0)

    def prox(self, t, step):
        line = np.clip((t - self.shift) * self.gain / (1 + step * self.gain), self.low, self.high)
        return t - step * line


def smooth_pinball(quantile, width):
    """The quantile loss with its corner rounded."""
    return ClippedLine(low=quantile - 1, high=quantile, gain=1 / width)


@dataclass(frozen=True)
class OwnHinge(SmoothedHinge):
    """A subclass that changes nothing."""


@dataclass(frozen=True)
class NaiveLogistic(Logistic):
    """The logistic loss written in another way."""

    def value(self, t):
        return np.maximum(-t, 0.0) + np.log1p(np.exp(-np.abs(t)))

    def slope(self, t):
        return 0.5 * (np.tanh(t / 2) - 1)


HONEST_LOSSES = {
    "Huber with its own threshold": ClippedLine(-0.3, 0.3),
    "Huber of incomes": ClippedLine(-5e4, 5e4),
    "tiny threshold": ClippedLine(-1e-3, 1e-3),
    "pinball, smoothed": smooth_pinball(0.9, 0.1),
    "pinball, hardly smoothed": smooth_pinball(0.5, 1e-3),
    "squared hinge, clipped": ClippedLine(-2.0, 0.0, shift=1.0, target=LabelKind.SIGNS),
    "hinge of another width": ClippedLine(-1.0, 0.0, shift=1.0, gain=1 / 0.05, target=LabelKind.SIGNS),
    "centred far away": ClippedLine(-1.0, 1.0, shift=300.0),
    "subclass of a hinge": OwnHinge(0.3),
    "logistic by tanh": NaiveLogistic(),
}


class Believed(Squared):
    """The squared loss that declares a small slope."""

    slope_bound = 0.01


class BelievedWithin(Believed):
    """The same, with the form of a loss that keeps the bound."""

    form = SlopeForm(low=-0.01, high=0.01)

    def slope(self, t):
        return np.array(t, dtype=float)


class Poisson(ClippedLine):
    """`exp(t) - t`, cut at t = 3, said to be a clipped line."""

    slope_bound, curvature_bound = np.exp(3.0), np.exp(3.0)
    form = SlopeForm(low=-1.0, high=np.exp(3.0))

    def value(self, t):
        return np.exp(np.minimum(t, 3.0)) + np.exp(3.0) * np.maximum(t - 3.0, 0.0) - t

    def slope(self, t):
        return np.exp(np.minimum(t, 3.0)) - 1

    def curvature(self, t):
        return np.where(t <= 3, np.exp(np.minimum(t, 3.0)), 0.0)


class PoissonForm:
    """A form of a user's own."""


class PoissonOfItsForm(Poisson):
    """The same with a form that says what it is."""

    form = PoissonForm()


class OfCounts(ClippedLine):
    """A loss of labels that no theorem is about."""


class SlopeTooSteep(ClippedLine):
    """Declares half its slope, its form the truth."""

    slope_bound = 0.25


class SlopeAndFormTooSteep(ClippedLine):
    """Declares half its slope, its form as well."""

    slope_bound = 0.25
    form = SlopeForm(low=-0.25, high=0.25)


class SteepAtTheEdge(ClippedLine):
    """Grows again far from 0."""

    def slope(self, t):
        return super().slope(t) + np.maximum(np.abs(t) - 9000.0, 0.0) * np.sign(t) * 1e-3

    def value(self, t):
        return super().value(t) + 0.5e-3 * np.maximum(np.abs(t) - 9000.0, 0.0) ** 2


class SteepBeyond(ClippedLine):
    """Grows again where values are no longer computed."""

    def slope(self, t):
        return super().slope(t) + np.sign(t) * np.maximum(np.abs(t) - 1e7, 0.0)


class CurvatureTooSmall(ClippedLine):
    """Declares a fifth of its curvature."""

    curvature_bound = 0.2


class WrongCurvature(ClippedLine):
    """Its curvature is not the derivative of its slope."""

    def curvature(self, t):
        return 0.5 * super().curvature(t)


class ConcaveDent(ClippedLine):
    """The slope falls for a short way."""

    def slope(self, t):
        return super().slope(t) - 0.05 * np.exp(-((t - 1.37) ** 2) / 2e-4)

    def value(self, t):
        from scipy.special import erf

        return super().value(t) - 0.05 * np.sqrt(np.pi * 2e-4) / 2 * (1 + erf((t - 1.37) / np.sqrt(2e-4)))


class HiddenKink(ClippedLine):
    """The value jumps within a cell of any grid; the slope does not know."""

    def value(self, t):
        return super().value(t) + 1e-3 * (t > 0.123456789)


class SharpSpot(ClippedLine):
    """A ramp of a thousandth, three times as steep as declared."""

    slope_bound = 1.0

    def slope(self, t):
        return super().slope(t) + 2.0 * np.clip(t - 0.2345, 0.0, 1e-3)

    def value(self, t):
        on = np.clip(t - 0.2345, 0.0, 1e-3)
        return super().value(t) + on**2 + 2e-3 * np.maximum(t - 0.2355, 0.0)


class WrongSlope(ClippedLine):
    """The slope is not the derivative of the value."""

    def slope(self, t):
        return 0.9 * super().slope(t)

    form = SlopeForm(gain=0.9, low=-0.45, high=0.45)


class WrongForm(ClippedLine):
    """The kernels would run another loss."""

    form = SlopeForm(gain=0.5, low=-0.5, high=0.5)


class ShiftedLogistic(Logistic):
    """A subclass of a built-in loss that changes the slope alone."""

    def slope(self, t):
        return -np.asarray(expit(1 - t))


class LyingLogistic(Logistic):
    """A subclass of a built-in loss that changes a constant alone."""

    slope_bound = 0.1


class NotFinite(ClippedLine):
    """Overflows."""

    def slope(self, t):
        return np.where(np.abs(t) > 700, np.nan, super().slope(t))


class Forgetful(ClippedLine):
    """Never answers the same twice."""

    def slope(self, t):
        return super().slope(t) * (1 - 1e-3 * np.random.default_rng().random())


class Overwriting(ClippedLine):
    """Computes in its argument."""

    def slope(self, t):
        t -= self.shift
        return np.clip(t, self.low, self.high)


class Normalised(ClippedLine):
    """One record's loss depends on the others."""

    def slope(self, t):
        return super().slope(t - t.mean())


class WrongProx(ClippedLine):
    """The proximal map takes half a step."""

    def prox(self, t, step):
        return super().prox(t, step / 2)


WRONG_LOSSES = (
    *(Believed(), BelievedWithin(), Poisson(), PoissonOfItsForm(), OfCounts(target="counts"), SlopeTooSteep()),
    *(SlopeAndFormTooSteep(), SteepAtTheEdge(), SteepBeyond(), CurvatureTooSmall(), WrongCurvature(), ConcaveDent()),
    *(HiddenKink(), SharpSpot(), WrongSlope(), WrongForm(), ShiftedLogistic(), LyingLogistic(), NotFinite()),
    *(Forgetful(), Overwriting(), Normalised(), WrongProx()),
)


@dataclass(frozen=True)
class OwnRidge(ElasticNet):
    """A subclass that changes nothing."""


@dataclass(frozen=True)
class GroupNorm:
    """The Euclidean norm, not squared."""

    weight: float = 0.7
    strong_convexity: float = field(default=0.0, init=False)
    smoothness: float = field(default=float("inf"), init=False)
    is_smooth: bool = field(default=False, init=False)

    def lipschitz(self, d):
        return self.weight

    def value(self, x):
        return self.weight * np.linalg.norm(x, axis=-2)

    def prox(self, v, step):
        norm = np.linalg.norm(v, axis=-2, keepdims=True)
        return v * np.maximum(1 - step * self.weight / np.maximum(norm, 1e-300), 0.0)

    def subgradient_residual(self, x, g):
        norm = np.linalg.norm(x, axis=-2, keepdims=True)
        inside = np.maximum(np.linalg.norm(g, axis=-2) - self.weight, 0.0)
        outside = np.linalg.norm(g + self.weight * x / np.maximum(norm, 1e-300), axis=-2)
        return np.where(norm[..., 0, :] == 0, inside, outside)


@dataclass(frozen=True)
class Ball(GroupNorm):
    """All points of norm at most the weight; the boundary is hit up to rounding."""

    def lipschitz(self, d):
        return float("inf")

    def value(self, x):
        return np.where(np.linalg.norm(x, axis=-2) <= self.weight, 0.0, np.inf)

    def prox(self, v, step):
        norm = np.linalg.norm(v, axis=-2, keepdims=True)
        return v * np.minimum(1.0, self.weight / np.maximum(norm, 1e-300))

    def subgradient_residual(self, x, g):
        norm = np.linalg.norm(x, axis=-2, keepdims=True)
        unit = x / np.maximum(norm, 1e-300)
        outward = np.maximum(-(g * unit).sum(axis=-2, keepdims=True), 0.0)
        on_edge = np.linalg.norm(g + outward * unit, axis=-2)
        return np.where(norm[..., 0, :] >= self.weight * (1 - 1e-6), on_edge, np.linalg.norm(g, axis=-2))


HONEST_REGULARISERS = {"ridge": OwnRidge(l2=0.3), "group norm": GroupNorm(), "ball": Ball(2.0)}


class TooConvex(ElasticNet):
    """Declares ten times its modulus."""

    strong_convexity = property(lambda self: 10 * self.l2)
    smoothness = property(lambda self: 10 * self.l2)


class NotConvex(ElasticNet):
    """Bends downwards."""

    strong_convexity = 0.0
    smoothness = 10.0

    def value(self, x):
        return -super().value(x)


class ProxOfAnother(ElasticNet):
    """Thresholds twice as far."""

    def prox(self, v, step):
        return super().prox(v, 2 * np.asarray(step))


class Expanding(Box):
    """Projects beyond the box."""

    def prox(self, v, step):
        return 1.5 * np.asarray(v)

    def value(self, x):
        return np.zeros(np.asarray(x).shape[1:])


class TooFlat(ElasticNet):
    """Declares half its Lipschitz constant."""

    def lipschitz(self, d):
        return 0.5 * super().lipschitz(d) / np.sqrt(d)


class TooSmooth(ElasticNet):
    """Declares less smoothness than it has."""

    smoothness = property(lambda self: 0.5 * self.l2)
    strong_convexity = 0.0


class Dithered(ElasticNet):
    """Never answers the same twice."""

    def prox(self, v, step):
        return super().prox(v, step) + 1e-3 * np.random.default_rng().random()


class InPlace(ElasticNet):
    """Computes in its argument."""

    def prox(self, v, step):
        v /= 1 + step * self.l2
        return v


WRONG_REGULARISERS = (
    *(TooConvex(l2=0.1), NotConvex(l2=0.1), ProxOfAnother(0.5), Expanding(-1.0, 1.0), TooFlat(1.0)),
    *(TooSmooth(l2=1.0), Dithered(l2=0.1), InPlace(l2=0.1)),
)


@dataclass(frozen=True)
class OwnRisk(EmpiricalRisk):
    """A subclass that changes nothing."""


@dataclass(frozen=True)
class QuietRisk(EmpiricalRisk):
    """Declares less than its loss has."""

    @cached_property
    def _less(self) -> Constants:
        true = super().constants
        return Constants(
            record_gradient=0.01,
            record_curvature=true.record_curvature,
            smoothness=true.smoothness,
            strong_convexity=true.strong_convexity,
            assumption=true.assumption,
        )

    @property
    def constants(self):
        return self._less


BUILT_IN = (Huber(0.5), Squared(), Logistic(), SmoothedHinge())
