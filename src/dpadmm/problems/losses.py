"""Losses of one record, as functions of one number t.

Classification (labels -1/+1): `t = y a'w`, the margin. Regression: `t = a'w - y`, the residual.
A loss declares the bounds of its slope and curvature; a record's gradient is `slope(t) * a` up to sign, so
`G = slope_bound * row_norm`, and its Hessian is at most `curvature_bound * row_norm^2`.
A loss that fits probabilities knows its link: what a score says about them (`LinkedLoss`).
Several scores of a record, one per class, have one loss: `Softmax` (C13). Counts have a loss of score and count:
`Poisson` (C20).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import exp1, expit, gammainc, gammaincc, log_softmax

from dpadmm import checks
from dpadmm.checks import safe_repr
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

    `v = clip(u * gain, low, high)` for all but the logistic family, u being t - shift brought closer to 0 by `dead`,
    within which it is 0; `-1 / (1 + exp(max(t, low)))` for the logistic family (`is_logistic`).
    """

    shift: float = 0.0
    gain: float = 1.0
    low: float = -float("inf")
    high: float = float("inf")
    is_logistic: bool = False
    dead: float = 0.0

    @property
    def numbers(self) -> Floats:
        """The five numbers as the kernels take them."""
        return np.array((self.shift, self.gain, self.low, self.high, self.dead))

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
            ends = (self.low / self.gain - self.dead, self.high / self.gain + self.dead) if self.gain else ()
            ends = tuple(self.shift + end for end in (*ends, *((-self.dead, self.dead) if self.dead else ())))
        return tuple(end for end in ends if np.isfinite(end))

    def moved(self, t: Floats) -> Floats:
        """Return u: t - shift, brought closer to 0 by `dead`."""
        u = t - self.shift
        return u - np.clip(u, -self.dead, self.dead) if self.dead else u

    def slope(self, t: Floats) -> Floats:
        """Return the slope as the kernels compute it."""
        if self.is_logistic:
            return -np.asarray(expit(-np.maximum(t, self.low)))
        return np.clip(self.moved(t) * self.gain, self.low, self.high)

    def value(self, t: Floats) -> Floats:
        """Return an integral of the slope."""
        if self.is_logistic:
            return np.logaddexp(0.0, -np.maximum(t, self.low)) + self.steepest * np.maximum(self.low - t, 0.0)
        slope = self.slope(t)
        return slope * (self.moved(t) - (0.5 * slope / self.gain if self.gain else 0.0))

    def curvature(self, t: Floats) -> Floats:
        """Return the derivative of the slope, a one-sided one at kinks."""
        if self.is_logistic:
            return np.where(t >= self.low, expit(t) * expit(-t), 0.0)
        line = self.moved(t) * self.gain
        return np.where(
            (self.low <= line) & (line <= self.high) & (np.abs(t - self.shift) >= self.dead), self.gain, 0.0
        )


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


_STEEP = 2.0**26
"""The gain of a slope that jumps, within 1.5e-8 of a corner; its product with any number that occurs is finite."""


class _ClippedLine:
    """A loss whose slope is a clipped line: its form says all."""

    @property
    def form(self) -> SlopeForm:
        """The slope as the compiled kernels compute it."""
        raise NotImplementedError

    @property
    def slope_bound(self) -> float:
        """The greatest slope of the form."""
        return self.form.steepest

    @property
    def curvature_bound(self) -> float:
        """The gain of the form; none where the slope jumps, so that only methods that take gradients can use it."""
        return self.form.gain if self.form.gain < _STEEP else math.inf

    def value(self, t: Floats) -> Floats:
        """Return the loss."""
        return self.form.value(t)

    def slope(self, t: Floats) -> Floats:
        """Return the first derivative."""
        return self.form.slope(t)

    def curvature(self, t: Floats) -> Floats:
        """Return the gain on the line, 0 where the slope is constant."""
        return self.form.curvature(t)

    def prox(self, t: Floats, step: Floats) -> Floats:
        """Return the point on the line, or t moved by the constant slope where that is off the line."""
        form = self.form
        u = form.moved(t) / (1.0 + step * form.gain)
        inside = form.shift + np.clip(t - form.shift, -form.dead, form.dead) + u
        line = u * form.gain
        return np.where(line < form.low, t - step * form.low, np.where(line > form.high, t - step * form.high, inside))


@dataclass(frozen=True)
class Squared(_ClippedLine):
    """`t^2 / 2` of the residual. Its slope has no bound, so no record-level guarantee exists: use `Huber`."""

    target: ClassVar[LabelKind] = LabelKind.REALS
    form: ClassVar[SlopeForm] = SlopeForm()


@dataclass(frozen=True)
class Huber(_ClippedLine):
    """`t^2/2` for |t| <= threshold, then linear with slope `threshold`: the squared loss with bounded gradient."""

    threshold: float

    target: ClassVar[LabelKind] = LabelKind.REALS

    def __post_init__(self) -> None:
        """Refuse thresholds that are not positive numbers."""
        object.__setattr__(self, "threshold", checks.positive("threshold", self.threshold))

    @property
    def form(self) -> SlopeForm:
        """`clip(t, -threshold, threshold)`."""
        return SlopeForm(0.0, 1.0, -self.threshold, self.threshold)


@dataclass(frozen=True)
class SmoothedHinge(_ClippedLine):
    """The hinge `max(0, 1 - t)` of the margin, with its corner rounded by a parabola of width `width`.

    Zero for t >= 1, `(1-t)^2 / (2 width)` for 1 - width <= t <= 1, `1 - t - width/2` below.
    """

    width: float = 0.5

    target: ClassVar[LabelKind] = LabelKind.SIGNS

    def __post_init__(self) -> None:
        """Refuse widths that are not positive numbers (the raw hinge has no curvature bound)."""
        object.__setattr__(self, "width", checks.positive("width", self.width))

    @property
    def form(self) -> SlopeForm:
        """`clip((t - 1) / width, -1, 0)`."""
        return SlopeForm(1.0, 1.0 / self.width, -1.0, 0.0)


@dataclass(frozen=True)
class Quantile(_ClippedLine):
    """The pinball loss, with which a model predicts the `level` quantile of the label.

    `level |t|` for labels above the prediction, `(1 - level) t` for those below; the corner at 0 is a parabola, from
    `-level width` to `(1 - level) width`.

    >>> Quantile(0.9, width=0.0).value(np.array([-2.0, 2.0])).round(6).tolist()
    [1.8, 0.2]
    """

    level: float = 0.5
    width: float = 0.1

    target: ClassVar[LabelKind] = LabelKind.REALS

    def __post_init__(self) -> None:
        """Refuse levels outside (0, 1) and negative widths."""
        object.__setattr__(self, "level", checks.half_open_unit("level", self.level))
        if self.level == 1:
            raise InputError("level must be above 0 and below 1, got 1.")
        object.__setattr__(self, "width", checks.non_negative("width", self.width))

    @property
    def form(self) -> SlopeForm:
        """`clip(t / width, -level, 1 - level)`."""
        return SlopeForm(0.0, 1.0 / max(self.width, 1.0 / _STEEP), -self.level, 1.0 - self.level)


@dataclass(frozen=True)
class EpsilonInsensitive(_ClippedLine):
    """`max(|t| - margin, 0)` of the residual, as in support vector regression; each corner is a parabola over `width`.

    >>> EpsilonInsensitive(0.1, width=0.0).value(np.array([-0.05, 0.3])).round(6).tolist()
    [0.0, 0.2]
    """

    margin: float = 0.1
    width: float = 0.1

    target: ClassVar[LabelKind] = LabelKind.REALS

    def __post_init__(self) -> None:
        """Refuse margins that are not positive and negative widths."""
        object.__setattr__(self, "margin", checks.positive("margin", self.margin))
        object.__setattr__(self, "width", checks.non_negative("width", self.width))

    @property
    def form(self) -> SlopeForm:
        """`clip(u / width, -1, 1)`, u being t brought closer to 0 by the margin."""
        return SlopeForm(0.0, 1.0 / max(self.width, 1.0 / _STEEP), -1.0, 1.0, dead=self.margin)


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Public constants of the functions f_i: true for every data set that keeps the assumption.

    None of them is read off the data: a constant computed from private records would itself be a release.

    record_gradient: `G`, bound on the norm of one record's loss gradient anywhere (inf: no bound exists).
    record_curvature: bound on the largest Hessian eigenvalue of one record's loss.
    gradient_range: bound on how far one record's gradient can move from point to point (never above 2 G).
    smoothness: `L` of f_i. strong_convexity: `mu` of f_i. assumption: as text.
    scores: how many linear scores of a record the loss reads; several for softmax (C13).
    """

    record_gradient: float
    record_curvature: float
    smoothness: float
    strong_convexity: float
    assumption: str
    gradient_range: float = math.inf
    scores: int = 1


def constants_of(loss: "AnyLoss", row_norm: float, mu: float) -> Constants:
    """Return the constants of `mean loss + (mu/2)||w||^2` for all rows of at most this norm (C13, C20)."""
    curvature, gradient = loss.curvature_bound * row_norm**2, loss.slope_bound * row_norm
    return Constants(
        record_gradient=gradient,
        record_curvature=curvature,
        gradient_range=gradient if isinstance(loss, Softmax | Poisson) else certified_form(loss).width * row_norm,
        smoothness=curvature + mu,
        strong_convexity=mu,
        assumption=f"every record's features have Euclidean norm at most {row_norm:g}; {loss.target.value}",
        scores=loss.n_classes if isinstance(loss, Softmax) else 1,
    )


class Margins(NamedTuple):
    """Every record's margin m (R, n), and q (C, R, n), the softmax of the other classes' scores, 0 at its own."""

    margin: Floats
    others: Floats


@dataclass(frozen=True)
class Softmax:
    """`-log softmax(s)_y` of C scores; with a cap below 1, a convex loss whose per-record slope is capped there (C13).

    A record with features a (d,) and class y has one score per class, `s = W a`, W (C, d). With q the softmax of the
    other classes' scores, everything is a loss of one number, the margin `m = s_y - log sum_{k != y} exp(s_k)`:

        loss = h(m),    gradient in s = |h'(m)| (q - e_y),    h = log(1 + e^-m), or the same with its slope capped

    which is `-log softmax(s)_y` without a cap. W is one vector for the methods: the classes' coefficients one after the
    other. Constants are proved in `docs/proofs/c13.md`.

    A record's residual is `min(1, cap/(1 - p_y)) (p - e_y)`, p the softmax of its scores: of norm at most
    `cap sqrt(2)`, where one against the rest adds up to `cap sqrt(C)`. Cutting p - e_y to a norm would not do: that is
    no gradient of a convex loss.

    n_classes: C, at least 2. cap: in (0, 1]; 1 is the softmax itself. Values from 0.5 to 0.7 serve well where noise is
    strong.

    >>> round(Softmax(3).slope_bound, 4), round(Softmax(3, 0.5).slope_bound, 4)
    (1.4142, 0.7071)
    """

    n_classes: int
    cap: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is no number of classes, or no cap."""
        object.__setattr__(self, "n_classes", checks.count("n_classes", self.n_classes, least=2))
        object.__setattr__(self, "cap", checks.positive("cap", self.cap))
        if self.cap > 1:
            raise InputError(f"cap must be above 0 and at most 1 (no cap), got {safe_repr(self.cap)}.")

    @property
    def of_margin(self) -> Loss:
        """The loss h of the margin."""
        return Logistic(self.cap)

    @property
    def target(self) -> LabelKind:
        """Numbers of classes."""
        return LabelKind.CLASSES

    @property
    def slope_bound(self) -> float:
        """Bound on the norm of a record's gradient in its scores: `|h'| ||q - e_y|| <= cap sqrt(2)`."""
        return math.sqrt(2) * self.cap

    @property
    def curvature_bound(self) -> float:
        """Bound on the Hessian in the scores: `2 p (1 - p)` for p <= cap, so 1/2 for caps of 1/2 or more."""
        return 2 * self.of_margin.curvature_bound

    def margins(self, scores: Floats, labels: NDArray[np.intp]) -> Margins:
        """Return margins and what they are made of, for scores (C, R, n) and classes (n,)."""
        place = (labels, slice(None), np.arange(len(labels)))
        others = scores.copy()
        others[place] = -np.inf
        top = others.max(axis=0)
        others -= top
        np.exp(others, out=others)
        total = others.sum(axis=0)
        others /= total
        return Margins(scores[place].T - (top + np.log(total)), others)

    def value(self, scores: Floats, labels: NDArray[np.intp]) -> Floats:
        """Return the losses (R, n)."""
        return self.of_margin.value(self.margins(scores, labels).margin)

    def residual(self, scores: Floats, labels: NDArray[np.intp]) -> Floats:
        """Return the gradients in the scores (C, R, n): `|h'(m)| (q - e_y)`, which sums to 0 over the classes."""
        margin, pulls = self.margins(scores, labels)
        pulls[labels, :, np.arange(len(labels))] = -1.0
        pulls *= -self.of_margin.slope(margin)
        return pulls

    def log_probabilities(self, scores: Floats) -> Floats:
        """Return the logarithms of the classes' probabilities (n, C) that scores (n, C) amount to.

        With the least expected loss at s, `pi_k` is in proportion to `p_k max(1, (1 - p_k)/cap)`, p the softmax of s.

        >>> np.exp(Softmax(2, 0.6).log_probabilities(np.array([[0.0, 1.0]]))).round(4).tolist()
        [[0.3095, 0.6905]]
        """
        logs = log_softmax(scores, axis=1)
        lifted = np.log(np.maximum(-np.expm1(np.minimum(logs, 0.0)) / self.cap, 1.0))
        return np.asarray(log_softmax(logs + lifted, axis=1))


_MOST_LOG = 700.0  # of an expected count; beyond, exp overflows
_SERIES_UP_TO, _SERIES_TERMS = 1.0, 20
_ROUNDED_UP = 1 + 1e-9  # what incomplete gamma functions and the bisection may be off by, and more


@dataclass(frozen=True)
class Poisson:
    """The loss of a count y and a score s, for which `E y = l = exp(s)`: that of Poisson, with bounded slopes (C20).

        slope      mu(l) - min(max(y, 0), C),   mu(l) = E min(Y, C) for Y ~ Poisson(l)
        curvature  l P(Y <= C - 1)

    Both sides are cut at the public ceiling C, so that the slope stays in [-C, C] and its mean is 0 at the true score,
    whatever C is. A linear model plus the logarithm of an exposure makes s.

    ceiling: C, a whole number from 1 on. As low as nearly all counts: noise grows with it.

    >>> loss = Poisson(3)
    >>> loss.slope_bound, round(loss.curvature_bound, 4)
    (3.0, 1.3711)
    >>> loss.slope(np.log([1.5]), np.array([9.0])).round(4).tolist()
    [-1.5898]
    """

    ceiling: int = 5

    target: ClassVar[LabelKind] = LabelKind.REALS

    def __post_init__(self) -> None:
        """Refuse ceilings that are not whole numbers."""
        object.__setattr__(self, "ceiling", checks.count("ceiling", self.ceiling))

    @property
    def slope_bound(self) -> float:
        """The ceiling."""
        return float(self.ceiling)

    @property
    def curvature_bound(self) -> float:
        """The greatest `l P(Y <= C - 1)`, rounded up."""
        return _greatest_curvature(self.ceiling)

    def value(self, scores: Floats, counts: Floats) -> Floats:
        """Return the integral of `mu` up to the score, less count times score."""
        return self._potential(scores) - np.clip(counts, 0, self.ceiling) * scores

    def slope(self, scores: Floats, counts: Floats) -> Floats:
        """Return the derivative in the score."""
        c, rate = self.ceiling, _rates(scores)
        mean = rate * gammaincc(c - 1, rate) + c * gammainc(c, rate)
        return np.clip(mean, 0, c) - np.clip(counts, 0, c)

    def curvature(self, scores: Floats) -> Floats:
        """Return the second derivative in the score; it does not depend on the count."""
        rate = _rates(scores)
        return np.asarray(rate * gammaincc(self.ceiling, rate))

    def _potential(self, scores: Floats) -> Floats:
        """Return the integral of `mu(u)/u` from 0 to l: `C Ein(l) - sum_i (C - i) P(Y >= i)/i`."""
        rate = _rates(scores)
        small = np.minimum(rate, _SERIES_UP_TO)
        series, power = np.zeros_like(rate), np.ones_like(rate)
        for k in range(1, _SERIES_TERMS + 1):  # Ein near 0
            power = power * -small / k
            series -= power / k
        far = exp1(np.maximum(rate, _SERIES_UP_TO)) + np.maximum(scores, 0.0) + np.euler_gamma
        parts = sum((self.ceiling - i) / i * gammainc(i, rate) for i in range(1, self.ceiling))
        return np.asarray(self.ceiling * np.where(rate < _SERIES_UP_TO, series, far) - parts)


def _rates(scores: Floats) -> Floats:
    """Return exp of scores, kept within the numbers that a float holds."""
    return np.asarray(np.exp(np.clip(scores, -_MOST_LOG, _MOST_LOG)))


@lru_cache(maxsize=64)
def _greatest_curvature(ceiling: int) -> float:
    """Return a bound on `k(l) = l Q(C, l)`, Q(C, l) = P(Poisson(l) <= C - 1), from above and hardly larger (C20).

    `k' = e^-l l^C/(C-1)! (h(l) - 1)` with h falling and `h(C) <= 1`: k grows up to one point below C, then falls. On
    an interval [a, b] around that point `k <= b Q(C, a)`, since Q falls in l.
    """
    low, high = 0.0, float(ceiling)
    for _ in range(60):
        middle = (low + high) / 2
        term = total = 1.0 / middle
        for j in range(1, ceiling):
            term *= (ceiling - j) / middle
            total += term
        low, high = (middle, high) if total > 1 else (low, middle)
    low, high = low / _ROUNDED_UP, high * _ROUNDED_UP
    return float(high * gammaincc(ceiling, low)) * _ROUNDED_UP


def check_not_subclass(loss: Softmax | Poisson) -> None:
    """Refuse a subclass, which may be any other loss of several scores, or of a score and a label."""
    if type(loss) not in (Softmax, Poisson):
        raise InputError(
            f"The loss {type(loss).__name__} reads several scores of a record, or its label beside the score, and the "
            "only such losses with a certificate (C13, C20) are Softmax and Poisson themselves. Use one of these, or a "
            "loss of one margin or residual. Nothing was spent."
        )


ScoreLoss: TypeAlias = Loss | Softmax
"""A loss of one margin or residual of a record, or of one score for every class."""

AnyLoss: TypeAlias = ScoreLoss | Poisson
"""Beside them the loss of a score and a count."""


ReleasedLoss: TypeAlias = Logistic | Softmax | SmoothedHinge | Huber | Quantile | EpsilonInsensitive | Poisson
"""The losses that a released model may have been fitted with; every one has a bounded slope."""

LOSS_KINDS: Mapping[str, type[ReleasedLoss]] = {
    "logistic": Logistic,
    "softmax": Softmax,
    "smoothed-hinge": SmoothedHinge,
    "huber": Huber,
    "quantile": Quantile,
    "epsilon-insensitive": EpsilonInsensitive,
    "poisson": Poisson,
}
"""The name of each loss in messages and in the terms of a federation."""


def released_loss(loss: AnyLoss) -> ReleasedLoss:
    """Return the loss if a released model may have it; `InputError` for any other."""
    if type(loss) not in LOSS_KINDS.values():
        raise InputError(f"The loss of a released model must be one of {', '.join(LOSS_KINDS)}, got {safe_repr(loss)}.")
    return cast(ReleasedLoss, loss)


def loss_kind(loss: AnyLoss) -> str:
    """Return what kind of model a loss makes."""
    match loss:
        case Softmax():
            return f"softmax regression of {loss.n_classes} classes"
        case Logistic():
            return "logistic regression"
        case SmoothedHinge():
            return "linear support vector machine"
        case Huber():
            return "linear regression (Huber loss)"
        case Quantile():
            return f"linear regression of the {loss.level:g} quantile"
        case EpsilonInsensitive():
            return "linear support vector regression"
        case Poisson():
            return "Poisson regression"
    return repr(loss)


def loss_description(loss: ReleasedLoss) -> str:
    """Return what kind of model a loss makes, with its parameters, for readers.

    >>> loss_description(Logistic(0.7))
    'logistic regression (per-record loss slope capped at 0.7)'
    """
    match loss:
        case SmoothedHinge():
            return f"{loss_kind(loss)} (smoothed hinge, width {loss.width:g})"
        case Huber():
            return f"linear regression (Huber loss, threshold {loss.threshold:g})"
        case Quantile():
            return f"{loss_kind(loss)} (pinball loss, width {loss.width:g})"
        case EpsilonInsensitive():
            return f"{loss_kind(loss)} (margin {loss.margin:g}, width {loss.width:g})"
        case Poisson():
            return f"{loss_kind(loss)} (counts up to {loss.ceiling})"
    return loss_kind(loss) + (f" (per-record loss slope capped at {loss.cap:g})" if loss.cap < 1 else "")
