"""Pairs of neighbouring data sets chosen to hurt: one agent's data differ, everybody else's are the same.

It is agent 0, or one behind silos that hold more records: what is true of the first silo only then shows.

Where a bound `2G/n_i` is to be reached, the two records' gradients must be opposite and both at full length, at every
point the run visits. A record against its own opposite will not do for a margin loss: only one of the two is
misclassified at any point, and the gradient moves by G.
"""

import math
from dataclasses import replace

import numpy as np

from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import Huber, Logistic, Loss, Poisson, SmoothedHinge, Softmax, Squared
from dpadmm.problems.problem import CountRisk, EmpiricalRisk, Problem, SoftmaxRisk, Weighting
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.problems.regularisers import ElasticNet, Quadratic, Regulariser
from dpadmm.problems.silos import PersonRows, Silos

Pair = tuple[Problem, Problem]

PULLED = "one record, pulled to opposite sides (saturated Huber)"
SMALLEST = "the only record of a silo, pulled to opposite sides (saturated Huber)"
NEARLY_OPPOSITE = "two badly misclassified records, nearly opposite (logistic)"
HINGE = "two records below the margin, nearly opposite (smoothed hinge)"
HIDDEN = "high curvature, hidden state (smoothed hinge)"
USER = "a user who pulls the other way"
PERSON = "a person with three rows, with one row in the other world, pulled to opposite sides (saturated Huber)"
SOFTMAX = "two badly misclassified records of three classes, nearly opposite (capped softmax)"
ADDED = "the only record of a silo, there or not (saturated Huber; add-or-remove)"
COUNTS = "a count far above the ceiling where none is expected, or the other way round (Poisson)"
TURNED = "one record, its row at a right angle to the one that replaces it (saturated Huber)"

FAR = 1e4
"""A label no run comes near: the Huber slope stays at its bound. Small enough for rounding not to matter."""

TILT = 0.2
"""How far nearly opposite records are from opposite."""

_LOGISTIC, _SOFTMAX = Logistic(), Softmax(3, 0.7)


def saturated(
    n_agents: int = 2,
    records: int = 1,
    changed: int = 1,
    mu: float = 0.0,
    weighting: Weighting = Weighting.EQUAL,
    at: int = 0,
) -> Pair:
    """Return Huber regressions in one dimension whose first `changed` records pull to +FAR in P, to -FAR in Q.

    The gradient moves by exactly 2G times `changed/records`, everywhere. The other records of agent `at` are silent
    (zero features); agents behind it hold as many ordinary ones, those before it more, the first one the most.
    `changed = records` replaces a whole user.
    """
    sizes = [records + max(at - i, 0) for i in range(n_agents)]
    rows, labels = [np.ones((size, 1)) for size in sizes], [_ordinary(size) for size in sizes]
    rows[at] = rows[at] * (np.arange(records) < changed)[:, None]

    def world(sign: float) -> Problem:
        pulled = [*labels[:at], sign * FAR * rows[at][:, 0], *labels[at + 1 :]]
        silos = Silos.from_parts(rows, pulled, row_norm=1.0)
        return Problem.of(EmpiricalRisk(silos, Huber(1.0), mu=mu), weighting)

    return world(1.0), world(-1.0)


def counts(ceiling: int = 3) -> Pair:
    """Return Poisson regressions in one dimension: agent 0's record counts far above the ceiling in P, below 0 in Q.

    Its exposure is next to nothing in P and huge in Q, so that its gradient is -C in P and C in Q, everywhere.
    """

    def world(sign: float) -> Problem:
        rows = [np.array([[1.0], [0.0]]), np.ones((2, 1))]
        silos = Silos.from_parts(rows, [np.array([sign * FAR, 0.0]), _ordinary(2)], row_norm=1.0)
        exposures = np.array([-300.0 * sign, 0.0, 0.0, 0.0])
        return Problem.of(CountRisk(replace(silos, base_scores=exposures), Poisson(ceiling)), Weighting.EQUAL)

    return world(1.0), world(-1.0)


def turned(n_agents: int = 2, records: int = 2, at: int = 0) -> Pair:
    """Return Huber regressions in the plane: one record's row is along one axis in P, along the other in Q.

    The sum of `a a'/n` moves by `sqrt(2)/n`, which is as far as it can. The other records of agent `at` are silent;
    agents before it hold more.
    """
    sizes = [records + max(at - i, 0) for i in range(n_agents)]

    def world(axis: int) -> Problem:
        rows = [np.full((size, 2), 0.5) for size in sizes]
        rows[at] = np.zeros((records, 2))
        rows[at][0, axis] = 1.0
        labels = [np.full(size, FAR) if i == at else _ordinary(size) for i, size in enumerate(sizes)]
        return Problem.of(EmpiricalRisk(Silos.from_parts(rows, labels, row_norm=1.0), Huber(1.0)), Weighting.EQUAL)

    return world(0), world(1)


def person(n_agents: int = 2, others: int = 1, rows: int = 3) -> Pair:
    """Return Huber regressions in one dimension: agent 0's first person has `rows` rows that pull to FAR in P.

    In Q the person has one, which pulls to -FAR. All rows of a person count one together, so the gradient moves by
    exactly `2G/(others + 1)`, everywhere: a weight of 1 for each of them would move it further. Agent 0 has `others`
    silent persons beside this one, the other agents ordinary ones, two rows each.
    """

    def world(sign: float, number: int) -> Problem:
        mine = np.concatenate([np.ones((number, 1)), np.zeros((others, 1))])
        theirs, pulls = np.ones((2 * others + 2, 1)), np.linspace(-1.0, 1.0, 2 * others + 2)
        whose = np.concatenate([np.zeros(number), 1 + np.arange(others)]).astype(np.intp)
        silos = Silos.from_parts(
            [mine, *[theirs] * (n_agents - 1)],
            [sign * FAR * mine[:, 0], *[pulls] * (n_agents - 1)],
            row_norm=1.0,
            people=[PersonRows.of(each).people for each in (whose, *[np.arange(len(pulls)) // 2] * (n_agents - 1))],
        )
        return Problem.of(EmpiricalRisk(silos, Huber(1.0)), Weighting.EQUAL)

    return world(1.0, rows), world(-1.0, 1)


def _ordinary(size: int) -> Floats:
    return np.linspace(-1.0, 1.0, size) if size > 1 else np.zeros(1)


def changed_agent(pair: Pair) -> int:
    """Return whose function differs most, by the gradients at 0."""
    first, second = (world.functions.gradient(np.zeros((1, world.dimension, 1))) for world in pair)
    return int(np.abs(first - second).sum(axis=(1, 2)).argmax())


def added(nominal: int = 2) -> Pair:
    """Return Huber regressions in one dimension: agent 0 holds a record that pulls to FAR in P, and none in Q.

    Sums are divided by the nominal number of records in both, so the gradient moves by exactly `G/nominal`, everywhere.
    """
    others, labels = np.ones((3, 1)), np.linspace(-1.0, 1.0, 3)

    def world(number: int) -> Problem:
        mine, pulled = np.ones((number, 1)), np.full(number, FAR)
        silos = Silos.from_parts([mine, others], [pulled, labels], row_norm=1.0, nominal=(nominal, nominal))
        return Problem.of(EmpiricalRisk(silos, Huber(1.0)))

    return world(1), world(0)


def crossing(like: Problem, changed: int = 1, at: int = 0) -> Pair:
    """Return Huber regressions in the plane, with the sizes, weights and ridge of another problem in one dimension.

    The first `changed` records of agent `at` are one of two rows that are nearly parallel. Beside the axis between them
    one row pulls ahead and the other back, so the gradients differ by `2 cos(TILT/2) G`, and by its opposite on the
    other side: whatever remembers one side shows on the other. Another record of that agent bends its function; all
    else is silent.
    """
    sizes = [int(size) for size in like.functions.sizes]
    ridge = like.functions.mu if isinstance(like.functions, EmpiricalRisk) else 0.0

    def world(sign: float) -> Problem:
        rows = [np.zeros((size, 2)) for size in sizes]
        rows[at][changed : changed + 1] = (0.0, 1.0)
        rows[at][:changed] = (math.cos(TILT / 2), sign * math.sin(TILT / 2))
        silos = Silos.from_parts(rows, [np.zeros(size) for size in sizes], row_norm=1.0)
        return replace(like, functions=EmpiricalRisk(silos, Huber(1.0), mu=ridge))

    return world(1.0), world(-1.0)


def misclassified(loss: Loss = _LOGISTIC, records: int = 1, weight: float = 1.0) -> Pair:
    """Return margin losses in the plane; agent 0's record is nearly opposite in the two worlds.

    Record: `y a = (-TILT, +-sqrt(1 - TILT^2))`. At `x = (X, 0)` with `TILT X` large both are badly misclassified, and
    their gradients differ by `2 sqrt(1 - TILT^2) G`. Agent 1 drags all models that way, harder if its function has a
    large weight; its features are short, so that its model goes out to about ten before its loss is content.
    """
    return _nearly_opposite(loss, records, np.array([1.0, weight]), ElasticNet())


def dragged(loss: Loss = _LOGISTIC, records: int = 1, step: float = 1.0) -> Pair:
    """Return the same for methods with a coordinator: a public linear regulariser drags the model, from round 1 on.

    Its proximal map with step `step` moves the model by 40 along axis 0.
    """
    return _nearly_opposite(loss, records, np.full(2, 0.5), Quadratic(np.zeros((2, 2)), [-40.0 / step, 0.0]))


def _nearly_opposite(loss: Loss, records: int, weights: Floats, regulariser: Regulariser) -> Pair:
    others = np.zeros((records, 2))
    others[:, 0] = 0.1

    def world(sign: float) -> Problem:
        mine = np.zeros((records, 2))
        mine[0] = (-TILT, sign * math.sqrt(1 - TILT**2))
        silos = Silos.from_parts([mine, others], [np.ones(records)] * 2, row_norm=1.0)
        return Problem(EmpiricalRisk(silos, loss), weights, regulariser)

    return world(1.0), world(-1.0)


def dragged_classes(loss: Softmax = _SOFTMAX, records: int = 1, step: float = 1.0) -> Pair:
    """Return softmax losses in the plane; agent 0's record, of the first class, is nearly opposite in the two worlds.

    A public linear regulariser drags the first class's coefficients one way along axis 0 and the second's the other
    way. Both records are then taken for the second class, beyond doubt, and their gradients differ by
    `2 sqrt(2) sqrt(1 - TILT^2) cap`.
    """
    linear = np.zeros((loss.n_classes, 2))
    linear[:2, 0] = -40.0 / step, 40.0 / step
    drag = Quadratic(np.zeros((linear.size, linear.size)), linear.ravel().tolist())

    def world(sign: float) -> Problem:
        mine = np.zeros((records, 2))
        mine[0] = (-TILT, sign * math.sqrt(1 - TILT**2))
        silos = Silos.from_parts([mine, np.full((records, 2), 0.1)], [np.zeros(records)] * 2, row_norm=1.0)
        return Problem(SoftmaxRisk(silos, loss), np.full(2, 0.5), drag)

    return world(1.0), world(-1.0)


def bent(n_agents: int = 2) -> Pair:
    """Return smoothed hinges in the plane whose curvature is high and changes from point to point.

    Agent 0 holds a record that differs and one that is common, both near the bend of the loss: what the first round
    left in its hidden state is turned and kept by the curvature of the following ones.
    """
    common, others = np.array([[0.6, 0.8]]), np.array([[0.0, 1.0], [1.0, 0.0]])

    def world(sign: float) -> Problem:
        mine = np.concatenate([[[-0.3, sign * math.sqrt(0.91)]], common])
        silos = Silos.from_parts([mine, *([others] * (n_agents - 1))], [np.ones(2)] * n_agents, row_norm=1.0)
        return Problem.of(EmpiricalRisk(silos, SmoothedHinge(0.1)), Weighting.AVERAGE)

    return world(1.0), world(-1.0)


def pulled_lasso(n_agents: int = 3) -> Pair:
    """Return LASSO problems of users with one record each; user 0's residual is clipped to opposite sides."""

    def world(sign: float) -> Problem:
        labels = np.concatenate([[sign * FAR], np.zeros(n_agents - 1)])
        silos = Silos.one_record_each(np.ones((n_agents, 1)), labels, row_norm=1.0)
        return Problem.of(EmpiricalRisk(silos, Squared()), Weighting.AVERAGE, ElasticNet(l1=1e-6))

    return world(1.0), world(-1.0)


def shifted_quadratics(distance: float = 1.0, n_agents: int = 3) -> Pair:
    """Return quadratics; agent 0's linear term differs by `distance`, in a direction where its function is flat."""
    bends = np.stack([np.diag([0.5, 2.0])] * n_agents)

    def world(sign: float) -> Problem:
        slopes = np.ones((n_agents, 2))
        slopes[0] = (0.5 * sign * distance, 1.0)
        return Problem.of(QuadraticAgents(bends, slopes, bounds=(0.5, 2.0)), Weighting.EQUAL)

    return world(1.0), world(-1.0)
