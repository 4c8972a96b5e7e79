"""The problem that all methods solve: minimise `sum_i w_i f_i(x) + g(x)`.

For records `f_i` is an empirical risk, `f_i(w) = (1/n_i) sum_m loss(w; a_m, y_m) + (mu/2) ||w||^2`. Where the number
of records is secret, n_i is a nominal number, and the sum goes over the records there are. Where a person may have
several rows, n_i is the number of persons, and each row's loss counts its weight (`dpadmm.problems.silos`).
"""

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, singledispatch
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, Ints, Matrix
from dpadmm.problems.losses import (
    AnyLoss,
    Constants,
    LabelKind,
    Loss,
    Poisson,
    Softmax,
    check_not_subclass,
    constants_of,
)
from dpadmm.problems.regularisers import ElasticNet, Regulariser
from dpadmm.problems.silos import (
    ROW_NORM_SLACK,
    Silos,
    as_numbers,
    dense,
    gram_sum,
    row_block,
    row_products,
    row_squares,
    row_sums,
    scale_rows,
    scores,
)

_NONE = np.empty(0)


class MeanLosses:
    """What functions `f_i = mean loss over a silo's records + (mu/2) ||w||^2` share, however the rows are had.

    n_agents: N. dimension: d, numbers of a model. sizes: records per agent, n_i, or persons where rows have weights.
    has_people: whether rows have weights, those of a person at most 1 in sum, and sums are divided by numbers of
    persons. has_nominal_sizes: whether sums are divided by nominal numbers, so that a record more or less changes
    nothing else. linear_loss: the loss of a linear predictor that f_i is made of, with Hessians of rank one (C2); None
    for several scores of a record, and for counts.
    """

    silos: Any
    loss: Any
    mu: float
    n_agents: int
    dimension: int
    sizes: Ints
    has_people: bool
    has_nominal_sizes: bool
    linear_loss: Loss | None

    def __post_init__(self) -> None:
        """Check the number; read off what is public about the silos."""
        silos, is_softmax = self.silos, isinstance(self.loss, Softmax)
        if getattr(silos, "base_scores", None) is not None and not isinstance(self.loss, Poisson):
            raise InputError(
                f"Base scores are for counts, not for the loss {type(self.loss).__name__}. Leave them out."
            )
        vars(self).update(
            mu=checks.non_negative("mu", self.mu),
            n_agents=silos.n_agents,
            dimension=silos.dimension * (self.loss.n_classes if is_softmax else 1),
            sizes=silos.sizes,
            has_people=getattr(silos, "people", None) is not None,
            has_nominal_sizes=silos.nominal is not None,
            linear_loss=None if isinstance(self.loss, Softmax | Poisson) else self.loss,
        )

    @property
    def constants(self) -> Constants:
        """Constants from the loss and the public row norm alone."""
        return constants_of(self.loss, self.silos.row_norm, self.mu)

    def part(self, agent: int) -> slice:
        """Return where an agent's rows are."""
        return slice(int(self.silos.offsets[agent]), int(self.silos.offsets[agent + 1]))

    def take(self, agents: Ints) -> Self:
        """Return the functions of `agents` only."""
        return replace(self, silos=self.silos.take(agents))  # type: ignore[type-var]

    def value(self, w: Floats) -> Floats:
        """Return f_i(w_i)."""
        out = np.empty((self.n_agents, w.shape[2]))
        for i, n in enumerate(self.sizes):
            out[i] = self.value_sum(self.part(i), w[i if len(w) > 1 else 0]) / n
        return out + 0.5 * self.mu * (w * w).sum(axis=1)

    def gradient(self, w: Floats) -> Floats:
        """Return grad f_i(w_i)."""
        out = np.empty((self.n_agents, *w.shape[1:]))
        for i, n in enumerate(self.sizes):
            out[i] = self.gradient_sum(self.part(i), w[i if len(w) > 1 else 0]) / n
        return out + self.mu * w

    def value_sum(self, part: slice, w: Floats) -> Floats:
        """Return the sum of the losses of a part's records, (R,), at models (d, R)."""
        raise NotImplementedError

    def gradient_sum(self, part: slice, w: Floats) -> Floats:
        """Return the sum of the gradients of a part's records, (d, R), at models (d, R)."""
        raise NotImplementedError

    def weigh(self, values: Floats, part: slice) -> Floats:
        """Return one value, slope or curvature for each row of a part, times what the row counts."""
        weights = self.silos.weights
        return values if weights is None else values * weights[part].reshape(-1, *[1] * (values.ndim - 1))


class LocalFunctions(Protocol):
    """The private convex functions f_1..f_N, evaluated for all agents and all replicas at once."""

    @property
    def n_agents(self) -> int:
        """Number of agents N."""

    @property
    def dimension(self) -> int:
        """Dimension d."""

    @property
    def sizes(self) -> Ints:
        """Records behind each function, n_i."""

    @property
    def constants(self) -> Constants:
        """The public constants."""

    def value(self, w: Floats) -> Floats:
        """Return f_i(w_i), (N, R), for w of shape (N, d, R), or (1, d, R) for one common point."""

    def gradient(self, w: Floats) -> Floats:
        """Return grad f_i(w_i), (N, d, R), for w as in `value`."""

    def take(self, agents: Ints) -> Self:
        """Return the functions of `agents` only; what one silo holds is `take([i])`."""


_OF_SCORES_AND_LABELS: tuple[type, ...] = (Poisson, Softmax)
_SLACK = 4 * ROW_NORM_SLACK  # constants grow with the row norm, or its square


@dataclass(frozen=True)
class EmpiricalRisk(MeanLosses):
    """The mean loss over each silo's records plus `(mu/2) ||w||^2`.

    `t = sign (a'w - shift)` brings both kinds of loss to one form: labels are the signs of classification, and the
    shifts of regression.

    >>> from dpadmm.problems.losses import Logistic
    >>> silos = Silos.from_parts([np.eye(2)] * 2, [np.array([1.0, -1.0])] * 2, row_norm=1.0)
    >>> EmpiricalRisk(silos, Logistic(), mu=0.1).value(np.zeros((1, 2, 1))).round(4).tolist()
    [[0.6931], [0.6931]]
    """

    silos: Silos
    loss: Loss
    mu: float = 0.0

    def __post_init__(self) -> None:
        """Check the labels against the loss."""
        if not isinstance(self.silos, Silos):
            raise InputError(f"silos must be Silos, got {type(self.silos).__name__}; see Silos.from_parts.")
        if isinstance(self.loss, type):
            raise InputError(f"loss must be a loss, got the class; write {self.loss.__name__}().")
        if isinstance(self.loss, _OF_SCORES_AND_LABELS):
            raise InputError(f"{type(self.loss).__name__} has functions of its own; use risk_of(silos, loss).")
        if self.loss.target is LabelKind.SIGNS and not (np.abs(self.silos.labels) == 1.0).all():
            raise InputError(f"Labels must be -1 or +1 for {type(self.loss).__name__}, and some are neither.")
        super().__post_init__()

    def folded(self, part: slice) -> Matrix:
        """Return an agent's rows with their signs, `y a` for classification; a copy."""
        rows = row_block(self.silos.features, part)
        return scale_rows(rows, self.signs[part]) if self.signs.size else rows

    @cached_property
    def squares(self) -> Floats:
        """The squared norms of the rows (n,)."""
        return row_squares(self.silos.features)

    @property
    def signs(self) -> Floats:
        """The labels of classification (n,), +1 or -1; none at all for regression."""
        return self.silos.labels if self.loss.target is LabelKind.SIGNS else _NONE

    @property
    def shifts(self) -> Floats:
        """The labels of regression (n,); none at all for classification."""
        return self.silos.labels if self.loss.target is LabelKind.REALS else _NONE

    def margins(self, products: Floats, part: slice) -> Floats:
        """Return `sign (a'w - shift)` (n, R) of a part's rows, from their products with w."""
        labels = self.silos.labels[part].reshape(-1, *[1] * (products.ndim - 1))
        return labels * products if self.signs.size else products - labels

    def pulls(self, products: Floats, part: slice) -> Floats:
        """Return what each row of a part counts, times its loss's derivative by the product with w; (n, R)."""
        slopes = self.weigh(self.loss.slope(self.margins(products, part)), part)
        return self.signs[part, None] * slopes if self.signs.size else slopes

    @property
    def is_one_record_each(self) -> bool:
        """Whether every agent holds one record, as a public fact."""
        silos = self.silos
        return silos.nominal is None and silos.weights is None and self.n_agents == silos.features.shape[0]

    def value(self, w: Floats) -> Floats:
        """Return f_i(w_i)."""
        if self.is_one_record_each:
            return self.loss.value(self._one_each(w)) + 0.5 * self.mu * (w * w).sum(axis=1)
        return super().value(w)

    def gradient(self, w: Floats) -> Floats:
        """Return grad f_i(w_i)."""
        if self.is_one_record_each and not self.silos.is_sparse:
            rows = self.folded(slice(0, self.n_agents))
            return rows[:, :, None] * self.loss.slope(self._one_each(w))[:, None, :] + self.mu * w
        return super().gradient(w)

    def value_sum(self, part: slice, w: Floats) -> Floats:
        """Return the sum of the losses of a part's records, (R,), at models (d, R)."""
        margins = self.margins(np.asarray(row_block(self.silos.features, part) @ w), part)
        return self.weigh(self.loss.value(margins), part).sum(axis=0)

    def gradient_sum(self, part: slice, w: Floats) -> Floats:
        """Return the sum of the gradients of a part's records, (d, R), at models (d, R)."""
        rows = row_block(self.silos.features, part)
        return row_sums(rows, self.pulls(scores(rows, w), part))

    def hessian(self, agent: int, w: Floats) -> Floats:
        """Return the Hessian of one agent's function at one point w (d,)."""
        part = self.part(agent)
        rows = row_block(self.silos.features, part)
        weight = self.weigh(self.loss.curvature(self.margins(scores(rows, w[:, None])[:, 0], part)), part)
        return gram_sum(rows, weight) / self.sizes[agent] + self.mu * np.eye(self.dimension)

    def score_products(self, agent: int, w: Floats) -> Floats:
        """Return the mean of the products `g g'` of gradients at one point w (d,), no ridge in them.

        g is that of a record, or the sum over all rows of a person.
        """
        part, people = self.part(agent), self.silos.people
        codes = None if people is None else people[agent].codes
        rows = row_block(self.silos.features, part)
        pulls = self.pulls(scores(rows, w[:, None]), part)[:, 0]
        if codes is None:
            return gram_sum(rows, pulls**2) / self.sizes[agent]
        persons = sparse.csr_array(
            (pulls, (codes, np.arange(len(pulls)))), shape=(codes.max(initial=-1) + 1, len(pulls))
        )
        sums = dense(persons @ dense(rows))
        return gram_sum(sums, np.ones(len(sums))) / self.sizes[agent]

    def _one_each(self, w: Floats) -> Floats:
        """Return `sign_i (a_i'w_i - shift_i)` (N, R) of agents with one record each, without a loop over a million."""
        rows, everybody = self.silos.features, slice(0, self.n_agents)
        is_common = len(w) == 1 or w.strides[0] == 0
        return self.margins(np.asarray(rows @ w[0]) if is_common else row_products(rows, w), everybody)


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
        super().__post_init__()
        if not np.isin(self.silos.labels, np.arange(self.loss.n_classes)).all():
            raise InputError(f"Labels must be class numbers from 0 to {self.loss.n_classes - 1}.")

    @cached_property
    def labels(self) -> NDArray[np.intp]:
        """The records' classes (n,)."""
        return self.silos.labels.astype(np.intp)

    def value_sum(self, part: slice, w: Floats) -> Floats:
        """Return the sum of the losses of a part's records, (R,), at models (C d, R)."""
        return self.weigh(self.loss.value(self.scores(part, w), self.labels[part]), part).sum(axis=-1)

    def gradient_sum(self, part: slice, w: Floats) -> Floats:
        """Return the sum of the gradients of a part's records, (C d, R), at models (C d, R)."""
        pulls = self.loss.residual(self.scores(part, w), self.labels[part])
        return self.sum_outer(part, self.weigh(pulls, part))

    def scores(self, part: slice, w: Floats) -> Floats:
        """Return the scores (C, R, n) of a part's records by models (C d, R)."""
        classes, (_, replicas) = self.loss.n_classes, w.shape
        columns = w.reshape(classes, -1, replicas).transpose(1, 0, 2).reshape(-1, classes * replicas)
        found = np.ascontiguousarray(scores(row_block(self.silos.features, part), columns).T)
        return found.reshape(classes, replicas, -1)

    def sum_outer(self, part: slice, pulls: Floats) -> Floats:
        """Return `sum_m (pull_m outer a_m)` over a part's records, (C d, R), for pulls (C, R, n)."""
        classes, replicas, number = pulls.shape
        columns = row_sums(row_block(self.silos.features, part), pulls.reshape(classes * replicas, number).T)
        return columns.reshape(-1, classes, replicas).transpose(1, 0, 2).reshape(self.dimension, replicas)

    def weigh(self, values: Floats, part: slice) -> Floats:
        """Return one value or pull for each row of a part (the last axis), times what the row counts."""
        weights = self.silos.weights
        return values if weights is None else values * weights[part]


@dataclass(frozen=True)
class CountRisk(MeanLosses):
    """The mean Poisson loss over each silo's records plus `(mu/2) ||w||^2` (C20).

    A record's score is `a'w + o`, o its entry of `Silos.base_scores`. Labels are encoded counts, in [-1, 1].

    >>> silos = Silos.from_parts([np.eye(2)], [np.array([-1.0, 1.0])], row_norm=1.0)
    >>> risk = CountRisk(silos, Poisson(4))
    >>> risk.counts.tolist(), risk.gradient(np.zeros((1, 2, 1)))[0, :, 0].round(3).tolist()
    ([0.0, 4.0], [0.498, -1.502])
    """

    silos: Silos
    loss: Poisson
    mu: float = 0.0

    @cached_property
    def counts(self) -> Floats:
        """The records' counts (n,), at most the ceiling."""
        return (self.silos.labels + 1.0) * (self.loss.ceiling / 2)

    def value_sum(self, part: slice, w: Floats) -> Floats:
        """Return the sum of the losses of a part's records, (R,), at models (d, R)."""
        return self.weigh(self.loss.value(self._scores(part, w), self.counts[part, None]), part).sum(axis=0)

    def gradient_sum(self, part: slice, w: Floats) -> Floats:
        """Return the sum of the gradients of a part's records, (d, R), at models (d, R)."""
        slopes = self.loss.slope(self._scores(part, w), self.counts[part, None])
        return row_sums(row_block(self.silos.features, part), self.weigh(slopes, part))

    def hessian(self, agent: int, w: Floats) -> Floats:
        """Return the Hessian of one agent's function at one point w (d,)."""
        part = self.part(agent)
        curvature = self.weigh(self.loss.curvature(self._scores(part, w[:, None])[:, 0]), part)
        bare = gram_sum(row_block(self.silos.features, part), curvature) / self.sizes[agent]
        return bare + self.mu * np.eye(self.dimension)

    def _scores(self, part: slice, w: Floats) -> Floats:
        found, base = scores(row_block(self.silos.features, part), w), self.silos.base_scores
        return found if base is None else found + base[part, None]


@dataclass(frozen=True, eq=False)
class PublicFunctions:
    """Sizes, dimension and constants of the silos' functions `f_i`; the records behind them are not here.

    Noise is planned on these, so that a plan cannot depend on data even by mistake.

    linear_loss: the loss of a linear predictor, as in `EmpiricalRisk`; None if only the constants are known of it.
    declared: what certificates take as declared of functions that are a user's code.
    """

    sizes: Ints
    dimension: int
    constants: Constants
    linear_loss: Loss | None = None
    declared: tuple[str, ...] = ()

    @classmethod
    def of_loss(cls, sizes: Ints, dimension: int, loss: AnyLoss, row_norm: float, mu: float = 0.0) -> "PublicFunctions":
        """Return those of `f_i = mean loss + (mu/2)||w||^2` on rows of `dimension` features and at most this norm."""
        if isinstance(loss, Softmax | Poisson):
            check_not_subclass(loss)
            vectors = loss.n_classes if isinstance(loss, Softmax) else 1
            return cls(sizes, vectors * dimension, constants_of(loss, row_norm, mu))
        return cls(sizes, dimension, constants_of(loss, row_norm, mu), loss)

    @property
    def n_agents(self) -> int:
        """Number of silos N."""
        return len(self.sizes)

    def value(self, w: Floats) -> Floats:
        """Refuse: there are no data."""
        raise InputError("A plan has no data to evaluate; run it on silos.")

    gradient = value

    def take(self, agents: Ints) -> "PublicFunctions":
        """Return the public side of these silos only."""
        return replace(self, sizes=self.sizes[agents])


@singledispatch
def risk_of(silos: Any, loss: AnyLoss, mu: float = 0.0) -> Any:
    """Return the silos' functions with this loss, of one score a record or of one for every class.

    Silos of a new kind register their functions here (`@risk_of.register`).
    """
    raise InputError(f"No functions are known for silos of the kind {type(silos).__name__}.")


@risk_of.register
def _(silos: Silos, loss: AnyLoss, mu: float = 0.0) -> EmpiricalRisk | SoftmaxRisk | CountRisk:
    if isinstance(loss, Poisson):
        return CountRisk(silos, loss, mu)
    return SoftmaxRisk(silos, loss, mu) if isinstance(loss, Softmax) else EmpiricalRisk(silos, loss, mu)


class Weighting(Enum):
    """How much each agent's function counts."""

    EQUAL = "w_i = 1"
    AVERAGE = "w_i = 1/N"
    POOLED = "w_i = n_i/n, as if all records were pooled"

    def weights(self, sizes: Ints) -> Floats:
        """Return the weights for agents of these sizes."""
        rules = {
            Weighting.EQUAL: np.ones(len(sizes)),
            Weighting.AVERAGE: np.full(len(sizes), 1.0 / len(sizes)),
            Weighting.POOLED: sizes / sizes.sum(),
        }
        return np.asarray(rules[self], dtype=np.float64)


@dataclass(frozen=True)
class Problem:
    """Minimise `sum_i w_i f_i(x) + g(x)` over x in R^d.

    n_agents: N. has_people, has_nominal_sizes: as of the functions (`MeanLosses`), False where they do not say.

    >>> from dpadmm.problems.quadratics import QuadraticAgents
    >>> problem = Problem.of(QuadraticAgents(np.ones((2, 1, 1)), np.array([[1.0], [3.0]])), Weighting.AVERAGE)
    >>> problem.objective(np.array([[-2.0]])).tolist()
    [-2.0]
    """

    functions: LocalFunctions
    weights: Floats
    regulariser: Regulariser
    n_agents: int = field(init=False, repr=False, compare=False)
    dimension: int = field(init=False, repr=False, compare=False)
    has_people: bool = field(init=False, repr=False, compare=False)
    has_nominal_sizes: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the functions and the weights."""
        _check_functions(self.functions)
        functions, weights = self.functions, as_numbers("weights", self.weights)
        if weights.shape != (functions.n_agents,):
            raise InputError(f"weights must hold one number per agent ({functions.n_agents}), got {weights.shape}.")
        if not (weights > 0).all():
            raise InputError("weights must be finite and greater than 0.")
        vars(self).update(
            weights=weights,
            n_agents=functions.n_agents,
            dimension=functions.dimension,
            has_people=bool(getattr(functions, "has_people", False)),
            has_nominal_sizes=bool(getattr(functions, "has_nominal_sizes", False)),
        )

    @classmethod
    def of(
        cls,
        functions: LocalFunctions,
        weighting: Weighting = Weighting.POOLED,
        regulariser: Regulariser | None = None,
    ) -> "Problem":
        """Build a problem with weights by rule and, unless given, no regulariser."""
        _check_functions(functions)
        chosen = regulariser if regulariser is not None else ElasticNet()
        return cls(functions, weighting.weights(functions.sizes), chosen)

    def is_within(self, public: "Problem") -> bool:
        """Return whether what is certified for a public problem holds for this one: equal sizes, constants no worse.

        And the same loss where that is public: some certificates use more of it than its constants (C2, logistic).
        """
        if self is public:
            return True
        mine, theirs = self.functions.constants, public.functions.constants
        mine_loss, public_loss = (
            getattr(self.functions, "linear_loss", None),
            getattr(public.functions, "linear_loss", None),
        )
        more = 1 + _SLACK
        return (
            self.dimension == public.dimension
            and np.array_equal(self.functions.sizes, public.functions.sizes)
            and np.array_equal(self.weights, public.weights)
            and mine.record_gradient <= theirs.record_gradient * more
            and mine.record_curvature <= theirs.record_curvature * more
            and mine.gradient_range <= theirs.gradient_range * more
            and mine.smoothness <= theirs.smoothness * more
            and mine.strong_convexity * more >= theirs.strong_convexity
            and public_loss in (None, mine_loss)
            and self.regulariser.strong_convexity * more >= public.regulariser.strong_convexity
        )

    def objective(self, x: Floats) -> Floats:
        """Return the objective at common points x (d, R)."""
        return self.weights @ self.functions.value(x[None]) + self.regulariser.value(x)

    def gradient(self, x: Floats) -> Floats:
        """Return the gradient of the smooth part, sum_i w_i grad f_i, at common points x (d, R)."""
        return np.einsum("i,idr->dr", self.weights, self.functions.gradient(x[None]))

    def optimality(self, x: Floats) -> Floats:
        """Return, per column, the distance of 0 from the subdifferential of the objective: 0 at the optimum."""
        return self.regulariser.subgradient_residual(x, self.gradient(x))


def _check_functions(functions: object) -> None:
    if isinstance(functions, type) or not (hasattr(functions, "gradient") and hasattr(functions, "constants")):
        raise InputError(
            "A problem takes the agents' functions, such as EmpiricalRisk(silos, Logistic()), got "
            f"{type(functions).__name__}."
        )


def is_own(part: object) -> bool:
    """Return whether a part is a user's own: of a class that this package does not define."""
    return type(part).__module__.partition(".")[0] != __name__.partition(".")[0]


def own_parts(problem: Problem, constraint: object = None, method: object = None) -> dict[str, Any]:
    """Return the user's own parts of a problem, by what they are; constraint: that of the method, where it has one."""
    functions = problem.functions
    loss = getattr(functions, "linear_loss", None) or getattr(functions, "loss", None)
    parts = {"functions": functions, "loss": loss, "regulariser": problem.regulariser}
    parts |= {"constraint": constraint, "method": method}
    return {kind: part for kind, part in parts.items() if part is not None and is_own(part)}


def declared_by(problem: Problem, constraint: object = None, method: object = None) -> tuple[str, ...]:
    """Return the names of the user's own parts, on whose constants or certificates the run's rest."""
    own = own_parts(problem, constraint, method)
    declared = getattr(problem.functions, "declared", ())  # of agents' own costs, which are code
    return (*(f"{kind} {type(part).__name__}" for kind, part in own.items()), *declared)


def has_same_parts(problem: Problem, public: Problem) -> bool:
    """Return whether the user's own parts of a problem are those of the public one that was planned and checked."""
    own, planned = own_parts(problem), own_parts(public)
    functions = type(own.pop("functions", None)), type(planned.pop("functions", None))  # the data may differ
    return functions[0] is functions[1] and own == planned


def check_declared(problem: Problem, constraint: object = None) -> None:
    """Raise `InputError` if anything that the user's own parts declare is refuted; reads no record."""
    if own_parts(problem, constraint):
        from dpadmm.problems.declared import refute  # only a user's own parts need it

        refute(problem, constraint)
