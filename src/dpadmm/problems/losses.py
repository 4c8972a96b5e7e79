"""Losses of one record, as functions of one number t.

Classification (labels -1/+1): `t = y a'w`, the margin. Regression: `t = a'w - y`, the residual.
A loss declares the bounds of its slope and curvature; a record's gradient is `slope(t) * a` up to sign, so
`G = slope_bound * row_norm`, and its Hessian is at most `curvature_bound * row_norm^2`.
A loss that fits probabilities knows its link: what a score says about them (`LinkedLoss`).
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

import numpy as np
from scipy.special import expit

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats


class LabelKind(Enum):
    """What the labels are."""

    SIGNS = "labels -1 and +1"
    REALS = "real numbers"
    CLASSES = "numbers of classes, from 0"


@dataclass(frozen=True)
class SlopeForm:
    """What the compiled kernels need to know of a slope.

    `v = clip((t - shift) * gain, low, high)` for squared, Huber and smoothed hinge; `-1 / (1 + exp(max(t, low)))` for
    the logistic family (`is_logistic`).
    """

    shift: float = 0.0
    gain: float = 1.0
    low: float = -float("inf")
    high: float = float("inf")
    is_logistic: bool = False

    @property
    def numbers(self) -> Floats:
        """The four numbers as the kernels take them."""
        return np.array((self.shift, self.gain, self.low, self.high))

    @property
    def width(self) -> float:
        """Greatest slope less the least."""
        return float(expit(-self.low)) if self.is_logistic else self.high - self.low

    @property
    def steepest(self) -> float:
        """Greatest absolute slope, inf where there is none."""
        return float(expit(-self.low)) if self.is_logistic else max(abs(self.low), abs(self.high))

    @property
    def sharpest(self) -> float:
        """Greatest curvature."""
        p = min(self.steepest, 0.5)
        return p * (1 - p) if self.is_logistic else self.gain

    @property
    def kinks(self) -> tuple[float, ...]:
        """Where the curvature jumps."""
        if self.is_logistic:
            ends: tuple[float, ...] = (self.low,)
        else:
            ends = (self.shift + self.low / self.gain, self.shift + self.high / self.gain) if self.gain else ()
        return tuple(end for end in ends if np.isfinite(end))

    def slope(self, t: Floats) -> Floats:
        """Return the slope as the kernels compute it."""
        if self.is_logistic:
            return -np.asarray(expit(-np.maximum(t, self.low)))
        return np.clip((t - self.shift) * self.gain, self.low, self.high)

    def value(self, t: Floats) -> Floats:
        """Return an integral of the slope."""
        slope = self.slope(t)
        if self.is_logistic:
            return np.logaddexp(0.0, -np.maximum(t, self.low)) + self.steepest * np.maximum(self.low - t, 0.0)
        return slope * (t - self.shift) - (0.5 * slope * slope / self.gain if self.gain else 0.0)

    def curvature(self, t: Floats) -> Floats:
        """Return the derivative of the slope, a one-sided one at kinks."""
        if self.is_logistic:
            return np.where(t >= self.low, expit(t) * expit(-t), 0.0)
        line = (t - self.shift) * self.gain
        return np.where((self.low <= line) & (line <= self.high), self.gain, 0.0)


class Loss(Protocol):
    """A convex loss of one number; a value, equal to others with the same numbers."""

    def __hash__(self) -> int:
        """Return the same for equal losses."""

    @property
    def target(self) -> LabelKind:
        """What the labels must be."""

    @property
    def slope_bound(self) -> float:
        """Bound on |slope|; inf where there is none."""

    @property
    def curvature_bound(self) -> float:
        """Bound on the second derivative."""

    @property
    def form(self) -> SlopeForm:
        """The slope as the compiled kernels compute it."""

    def value(self, t: Floats) -> Floats:
        """Return the loss."""

    def slope(self, t: Floats) -> Floats:
        """Return the first derivative."""

    def curvature(self, t: Floats) -> Floats:
        """Return the second derivative (a one-sided one at a kink of the slope)."""

    def prox(self, t: Floats, step: Floats) -> Floats:
        """Return argmin_s loss(s) + (s - t)^2 / (2 step)."""


def certified_form(loss: Loss) -> SlopeForm:
    """Return the form of a loss; refuse a loss whose labels or form no certificate is about, whatever it is called."""
    target: Any = getattr(loss, "target", None)
    form: Any = getattr(loss, "form", None)
    found = None
    if target not in (LabelKind.SIGNS, LabelKind.REALS):
        found = f"target {target!r}"
    elif type(form) is not SlopeForm:
        found = f"form {form!r}"
    elif not (form.is_logistic or (np.isfinite(form.shift) and 0 <= form.gain < np.inf)) or not form.low <= form.high:
        found = f"form {form}, which is not the slope of a convex function"
    if found is not None:
        raise InputError(
            f"The loss {type(loss).__name__} has the {found}, for which no certificate exists. Certificates cover "
            "losses of a margin (LabelKind.SIGNS) or a residual (LabelKind.REALS) whose slope is a clipped line, or a "
            "logistic slope with a floor (SlopeForm). Nothing was spent."
        )
    return cast(SlopeForm, form)


@runtime_checkable
class LinkedLoss(Loss, Protocol):
    """A loss of margins whose scores determine probabilities.

    If +1 has probability p, the score t with the least expected loss `p loss(t) + (1 - p) loss(-t)` has

        p / (1 - p) = loss'(-t) / loss'(t)

    so that p can be read off the score that was fitted. Squared and Huber see no margins; a hinge is flat beyond 1, and
    its scores only tell which class is more likely.
    """

    def log_odds(self, t: Floats) -> Floats:
        """Return log(p / (1 - p)), p the probability of +1 at a score of t; odd, and it does not fall as t grows."""


def log_loss_of(loss: LinkedLoss, scores: Floats, labels: Floats) -> Floats:
    """Return -log of the probability that each label -1/+1 has by its score, through the loss's own link.

    labels: as many as scores, or of a shape that NumPy spreads over theirs.

    >>> log_loss_of(Logistic(), np.array([0.0, 2.0]), np.array([1.0, -1.0]))
    array([0.69314718, 2.12692801])
    """
    return np.logaddexp(0.0, -loss.log_odds(scores * labels))


@dataclass(frozen=True)
class Logistic:
    """`log(1 + exp(-t))` of the margin, with its slope held at `-cap` for margins below `floor = log((1 - cap)/cap)`.

    Without a cap (`cap = 1`) the slope lies in (-1, 0) and the curvature is at most 1/4. With one, a record that the
    model gets badly wrong pulls with at most `cap` instead of 1, so every sensitivity, and with it the noise, shrinks
    by that factor; records with margins above the floor are treated as ever. Where noise matters this gains more than
    the bias costs. Scores are then drawn further out than log-odds, since what holds a confident score back is the
    pull of the records that it gets wrong: see `log_odds`.

    cap: in (0, 1]; values from 0.6 to 0.8 serve well under strict budgets. Below 1/2, scores within `floor` of 0 all
    have equal odds.

    >>> Logistic().slope(np.array([-9.0, 0.0])).round(4)
    array([-0.9999, -0.5   ])
    >>> Logistic(cap=0.75).slope(np.array([-9.0, 0.0]))
    array([-0.75, -0.5 ])
    >>> Logistic(cap=0.75).log_odds(np.array([-9.0, 0.5]))
    array([-8.71244133,  0.5       ])
    """

    cap: float = 1.0

    target: ClassVar[LabelKind] = LabelKind.SIGNS

    def __post_init__(self) -> None:
        """Refuse caps outside (0, 1]."""
        object.__setattr__(self, "cap", checks.half_open_unit("cap", self.cap))

    @property
    def floor(self) -> float:
        """The margin below which the slope is constant, -inf without a cap."""
        return float(np.log1p(-self.cap) - np.log(self.cap)) if self.cap < 1 else -float("inf")

    @property
    def slope_bound(self) -> float:
        """The cap."""
        return self.cap

    @property
    def curvature_bound(self) -> float:
        """The greatest `p (1 - p)` over p <= cap."""
        p = min(self.cap, 0.5)
        return p * (1 - p)

    @property
    def form(self) -> SlopeForm:
        """The logistic slope of `max(t, floor)`."""
        return SlopeForm(low=self.floor, is_logistic=True)

    def value(self, t: Floats) -> Floats:
        """Return the logistic loss without overflow, continued by its tangent below the floor."""
        return np.logaddexp(0.0, -np.maximum(t, self.floor)) + self.cap * np.maximum(self.floor - t, 0.0)

    def slope(self, t: Floats) -> Floats:
        """Return -min(sigma(-t), cap)."""
        return -np.minimum(expit(-t), self.cap)

    def curvature(self, t: Floats) -> Floats:
        """Return sigma(t) sigma(-t) above the floor, 0 below."""
        return np.where(t < self.floor, 0.0, expit(t) * expit(-t))

    def log_odds(self, t: Floats) -> Floats:
        """Return log(min(sigma(t), cap) / min(sigma(-t), cap)): t itself without a cap.

        For t > 0 that is t while sigma(t) <= cap, log(cap / sigma(-t)) beyond, and 0 where both slopes are capped.
        """
        size = np.abs(t)
        beyond = np.log(self.cap) + size + np.log1p(np.exp(-size))  # a missing score (NaN) stays one, without a warning
        return np.copysign(np.clip(beyond, 0.0, size), t)

    def prox(self, t: Floats, step: Floats) -> Floats:
        """Return the prox without a cap where it is above the floor, else t + step * cap.

        Without a cap s = t + step * sigma(-s), solved by Newton kept inside the bracket [t, t + step], or else by
        bisection.
        """
        t, step = np.broadcast_arrays(np.asarray(t, dtype=float), np.asarray(step, dtype=float))
        low, high = t.copy(), t + step
        s, move = 0.5 * (low + high), step
        for _ in range(200):
            residual = s - t - step * expit(-s)
            low, high = np.where(residual <= 0, s, low), np.where(residual >= 0, s, high)
            newton = s - residual / (1.0 + step * (expit(s) * expit(-s)))
            # Newton alone can jump from one end of the bracket to the other for ever: each move must halve the last.
            settles = (newton >= low) & (newton <= high) & (np.abs(newton - s) <= 0.5 * move)
            proposal = np.where(settles, newton, 0.5 * (low + high))
            move, size, s = np.abs(proposal - s), np.abs(s), proposal
            if np.all(move <= 4e-16 * np.maximum(1.0, size)):
                break
        return np.where(s >= self.floor, s, t + step * self.cap)


@dataclass(frozen=True)
class Squared:
    """`t^2 / 2` of the residual. Its slope has no bound, so no record-level guarantee exists: use `Huber`."""

    target: ClassVar[LabelKind] = LabelKind.REALS
    slope_bound: ClassVar[float] = float("inf")
    curvature_bound: ClassVar[float] = 1.0
    form: ClassVar[SlopeForm] = SlopeForm()

    def value(self, t: Floats) -> Floats:
        """Return t^2 / 2."""
        return 0.5 * t * t

    def slope(self, t: Floats) -> Floats:
        """Return t."""
        return np.array(t, dtype=float)

    def curvature(self, t: Floats) -> Floats:
        """Return 1."""
        return np.ones_like(t)

    def prox(self, t: Floats, step: Floats) -> Floats:
        """Return t / (1 + step)."""
        return t / (1.0 + step)


@dataclass(frozen=True)
class Huber:
    """`t^2/2` for |t| <= threshold, then linear with slope `threshold`: the squared loss with bounded gradient."""

    threshold: float

    target: ClassVar[LabelKind] = LabelKind.REALS
    curvature_bound: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        """Refuse thresholds that are not positive numbers."""
        object.__setattr__(self, "threshold", checks.positive("threshold", self.threshold))

    @property
    def slope_bound(self) -> float:
        """The threshold."""
        return self.threshold

    @property
    def form(self) -> SlopeForm:
        """`clip(t, -threshold, threshold)`."""
        return SlopeForm(0.0, 1.0, -self.threshold, self.threshold)

    def value(self, t: Floats) -> Floats:
        """Return t^2/2 inside the threshold, threshold * (|t| - threshold/2) outside."""
        clipped = np.clip(t, -self.threshold, self.threshold)
        return clipped * (t - 0.5 * clipped)

    def slope(self, t: Floats) -> Floats:
        """Return t clipped to the threshold."""
        return np.clip(t, -self.threshold, self.threshold)

    def curvature(self, t: Floats) -> Floats:
        """Return 1 inside the threshold, 0 outside."""
        return np.where(np.abs(t) <= self.threshold, 1.0, 0.0)

    def prox(self, t: Floats, step: Floats) -> Floats:
        """Return t / (1 + step) where that is inside the threshold, else t moved by step * threshold towards 0."""
        inside = t / (1.0 + step)
        return np.where(np.abs(inside) <= self.threshold, inside, t - step * np.copysign(self.threshold, t))


@dataclass(frozen=True)
class SmoothedHinge:
    """The hinge `max(0, 1 - t)` of the margin, with its corner rounded by a parabola of width `width`.

    Zero for t >= 1, `(1-t)^2 / (2 width)` for 1 - width <= t <= 1, `1 - t - width/2` below.
    """

    width: float = 0.5

    target: ClassVar[LabelKind] = LabelKind.SIGNS
    slope_bound: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        """Refuse widths that are not positive numbers (the raw hinge has no curvature bound)."""
        object.__setattr__(self, "width", checks.positive("width", self.width))

    @property
    def curvature_bound(self) -> float:
        """One over the width."""
        return 1.0 / self.width

    @property
    def form(self) -> SlopeForm:
        """`clip((t - 1) / width, -1, 0)`."""
        return SlopeForm(1.0, 1.0 / self.width, -1.0, 0.0)

    def value(self, t: Floats) -> Floats:
        """Return the rounded hinge."""
        gap = np.maximum(1.0 - t, 0.0)
        # The part of the gap on the parabola; squaring the whole gap would overflow far out.
        curved = np.minimum(gap, self.width)
        return 0.5 * curved**2 / self.width + (gap - curved)

    def slope(self, t: Floats) -> Floats:
        """Return clip((t - 1) / width, -1, 0)."""
        return np.clip((t - 1.0) / self.width, -1.0, 0.0)

    def curvature(self, t: Floats) -> Floats:
        """Return 1/width on the parabola, 0 elsewhere."""
        return np.where((t <= 1.0) & (t >= 1.0 - self.width), 1.0 / self.width, 0.0)

    def prox(self, t: Floats, step: Floats) -> Floats:
        """Return t above 1, t + step below 1 - width - step, and in between the point on the parabola."""
        slope = (t - 1.0) / (self.width + step)
        return np.where(slope >= 0, t, np.where(slope <= -1, t + step, 1.0 + self.width * slope))
