"""More than two classes as one model: the softmax loss, its convex cap, and the empirical risk of both (C13).

A record with features a (d,) and class y has one score per class, `s = W a`, W (C, d). With q the softmax of the other
classes' scores, everything is a loss of one number, the margin `m = s_y - log sum_{k != y} exp(s_k)`:

    loss = h(m),        gradient in s = |h'(m)| (q - e_y),        h = log(1 + e^-m), or the same with its slope capped

which is `-log softmax(s)_y` without a cap. W is one vector for the methods: the classes' coefficients one after the
other. Constants are proved in `docs/proofs/c13.md`.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.functions import Constants, MeanLosses
from dpadmm.problems.losses import LabelKind, Logistic, Loss
from dpadmm.problems.rows import row_block, row_sums, scores
from dpadmm.problems.silos import Silos


class Margins(NamedTuple):
    """Of every record its margin m (R, n), and q (C, R, n), the softmax of the other classes' scores, 0 at its own."""

    margin: Floats
    others: Floats


@dataclass(frozen=True)
class Softmax:
    """`-log softmax(s)_y` of C scores; with a cap below 1, a convex loss whose per-record slope is capped there.

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
            raise InputError(f"cap must be above 0 and at most 1 (no cap), got {shown(self.cap)}.")

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

    def constants(self, row_norm: float, mu: float) -> Constants:
        """Return the constants of `mean loss(W a) + (mu/2)||W||^2` for all rows of at most this norm (C13)."""
        curvature, gradient = self.curvature_bound * row_norm**2, self.slope_bound * row_norm
        return Constants(
            record_gradient=gradient,
            record_curvature=curvature,
            gradient_range=gradient,
            smoothness=curvature + mu,
            strong_convexity=mu,
            assumption=f"every record's features have Euclidean norm at most {row_norm:g}; {self.target.value}",
            scores=self.n_classes,
        )

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


def check_softmax(loss: Softmax) -> None:
    """Refuse a subclass, which may be any other loss of several scores."""
    if type(loss) is not Softmax:
        raise InputError(
            f"The loss {type(loss).__name__} reads several scores of a record, and the only such loss with a "
            "certificate (C13) is Softmax itself. Use Softmax, or a loss of one score. Nothing was spent."
        )


AnyLoss: TypeAlias = Loss | Softmax
"""A loss of one score of a record, or of one for every class."""


@dataclass(frozen=True)
class SoftmaxRisk(MeanLosses):
    """The mean softmax loss over each silo's records plus `(mu/2) ||W||^2`; labels are the classes' numbers 0..C-1.

    >>> silos = Silos.from_parts([np.eye(2)], [np.array([0.0, 2.0])], row_norm=1.0)
    >>> risk = SoftmaxRisk(silos, Softmax(3), mu=0.1)
    >>> risk.dimension, risk.value(np.zeros((1, 6, 1))).round(4).tolist()
    (6, [[1.0986]])
    """

    silos: Silos
    loss: Softmax
    mu: float = 0.0

    def __post_init__(self) -> None:
        """Check the labels against the loss."""
        object.__setattr__(self, "mu", checks.non_negative("mu", self.mu))
        if not np.isin(self.silos.labels, np.arange(self.loss.n_classes)).all():
            raise InputError(f"Labels must be class numbers from 0 to {self.loss.n_classes - 1}.")

    @cached_property
    def labels(self) -> NDArray[np.intp]:
        """The records' classes (n,)."""
        return self.silos.labels.astype(np.intp)

    @property
    def constants(self) -> Constants:
        """Constants from the loss and the public row norm alone."""
        return self.loss.constants(self.silos.row_norm, self.mu)

    @property
    def dimension(self) -> int:
        """Numbers of a model: C d."""
        return self.loss.n_classes * self.silos.dimension

    def value(self, w: Floats) -> Floats:
        """Return f_i(w_i)."""
        out = np.empty((self.n_agents, w.shape[2]))
        for i in range(self.n_agents):
            part = self.part(i)
            values = self.loss.value(self.scores(part, w[i if len(w) > 1 else 0]), self.labels[part])
            out[i] = self.weighted(values, part).sum(axis=-1) / self.sizes[i]
        return out + 0.5 * self.mu * (w * w).sum(axis=1)

    def gradient(self, w: Floats) -> Floats:
        """Return grad f_i(w_i)."""
        out = np.empty((self.n_agents, self.dimension, w.shape[2]))
        for i in range(self.n_agents):
            out[i] = self.gradient_sum(self.part(i), w[i if len(w) > 1 else 0]) / self.sizes[i]
        return out + self.mu * w

    def gradient_sum(self, part: slice, w: Floats) -> Floats:
        """Return the sum of the gradients of a part's records, (C d, R), at models (C d, R)."""
        pulls = self.loss.residual(self.scores(part, w), self.labels[part])
        return self.pulled(part, self.weighted(pulls, part))

    def scores(self, part: slice, w: Floats) -> Floats:
        """Return the scores (C, R, n) of a part's records by models (C d, R)."""
        classes, (_, replicas) = self.loss.n_classes, w.shape
        columns = w.reshape(classes, -1, replicas).transpose(1, 0, 2).reshape(-1, classes * replicas)
        found = np.ascontiguousarray(scores(row_block(self.silos.features, part), columns).T)
        return found.reshape(classes, replicas, -1)

    def pulled(self, part: slice, pulls: Floats) -> Floats:
        """Return `sum_m (pull_m outer a_m)` over a part's records, (C d, R), for pulls (C, R, n)."""
        classes, replicas, number = pulls.shape
        columns = row_sums(row_block(self.silos.features, part), pulls.reshape(classes * replicas, number).T)
        return columns.reshape(-1, classes, replicas).transpose(1, 0, 2).reshape(self.dimension, replicas)

    def weighted(self, values: Floats, part: slice) -> Floats:
        """Return one value or pull for each row of a part (the last axis), times what the row counts."""
        weights = self.silos.weights
        return values if weights is None else values * weights[part]

    def take(self, agents: Ints) -> "SoftmaxRisk":
        """Return the functions of `agents` only."""
        return SoftmaxRisk(self.silos.take(agents), self.loss, self.mu)
