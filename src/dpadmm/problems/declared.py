"""A user's own losses, regularisers, functions and operators: what they declare is believed, unless it can be refuted.

Certificates are built on declared constants. Those of this package are proved; those of anything else, a subclass of a
built-in loss included, are a user's word. `check_declared` tries to refute them before a run, on public facts alone.
What it does not refute is named by `declared_by`, and the names travel with every certificate of the run: it is
certified *if the declared constants hold*.

A loss is a function of one number, a regulariser one of a vector of a public dimension, so both can be evaluated
anywhere without data. Points are drawn with a fixed seed, so the answer is always the same. What is refuted is false;
what is not refuted is **not** proved: a defect narrower than the grid can hide.

Of a loss the form is known everywhere, so it settles whether the declared bounds hold for every score: nothing has to
be searched for. What is tried on a grid is whether the slope is that form, whether the value rises as its integral
(also over long ways, to which a defect between two points adds), and whether curvature and proximal map fit. The
proximal map of a regulariser must minimise and bring points closer, and chords of all lengths must bend as declared.
"""

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import Constants, Loss, Poisson, Softmax, certified_form, check_not_subclass, constants_of
from dpadmm.problems.problem import EmpiricalRisk, Problem, own_parts
from dpadmm.problems.regularisers import Regulariser

_BOUNDS = ("record_gradient", "record_curvature", "gradient_range", "smoothness")


def refute(problem: Problem, constraint: object = None) -> None:
    """Raise `InputError` if anything that the user's own parts declare is refuted; see `check_declared`.

    Own functions are not evaluated, since they hold private data: only the constants themselves are checked.
    """
    own = own_parts(problem, constraint)
    loss = own.get("loss")
    if isinstance(loss, Softmax | Poisson):
        check_not_subclass(loss)
    elif loss is not None:
        refute_loss(loss)
    if "constraint" in own and not hasattr(constraint, "prox"):
        raise InputError(
            f"The constraint {type(constraint).__name__} is of a kind for which no certificate exists. Use the "
            "constraints of this package, which compute their own constants. Nothing was spent."
        )
    for kind in {"regulariser", "constraint"} & own.keys():  # a set with a projection is a regulariser
        refute_regulariser(own[kind], problem.dimension)
    if "functions" in own:
        _check_constants(problem.functions, problem.functions.constants)


def _check_constants(functions: Any, constants: Constants) -> None:
    """Constants that contradict each other, or the loss and the norm of rows that they follow from."""
    name = f"The functions {type(functions).__name__}"
    for each in (*_BOUNDS, "strong_convexity"):
        value = getattr(constants, each)
        if not isinstance(value, int | float) or not value >= 0:
            raise InputError(f"{name} declare {each} {value!r}. It must be a number, 0 or greater. Nothing was spent.")
    if constants.strong_convexity > constants.smoothness * (1 + SLACK) or math.isinf(constants.strong_convexity):
        raise InputError(
            f"{name} declare strong_convexity {constants.strong_convexity:g} and smoothness {constants.smoothness:g}, "
            "which must be at least as large. Correct them. Nothing was spent."
        )
    if not isinstance(functions, EmpiricalRisk):
        return
    true = constants_of(functions.loss, functions.silos.row_norm, functions.mu)
    too_small = [each for each in _BOUNDS if getattr(constants, each) < getattr(true, each) * (1 - SLACK)]
    if constants.strong_convexity > true.strong_convexity * (1 + SLACK):
        too_small.append("strong_convexity")
    for each in too_small:
        raise InputError(
            f"{name} declare {each} {getattr(constants, each):g}, but their loss on rows of norm up to "
            f"{functions.silos.row_norm:g} has {getattr(true, each):g}. Correct it. Nothing was spent."
        )


SLACK = 1e-9
"""What is off by less, in relative terms, may be rounding."""


class Probe:
    """An object under test: it is called with arguments that it cannot change, twice, and must answer alike."""

    def __init__(self, kind: str, tested: Any) -> None:
        """Take what is tested, and what it is called."""
        self.kind, self.tested, self.name = kind, tested, f"The {kind} {type(tested).__name__}"

    def fail(self, found: str, remedy: str) -> NoReturn:
        """Refuse: what was found, and what to do."""
        raise InputError(f"{self.name} {found} {remedy} Nothing was spent.")

    def number(self, name: str, given: Any = None, *, may_be_infinite: bool = False) -> float:
        """Return a declared constant; refuse what is no number from 0 on."""
        value: Any = getattr(self.tested, name, None) if given is None else given
        is_number = isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
        if not is_number or not value >= 0 or (math.isinf(value) and not may_be_infinite):
            self.fail(f"declares {name} {value!r}.", "It must be a number, 0 or greater.")
        return float(value)

    def ask(self, method: str, *points: Floats) -> Floats:
        """Return the answer of a method at these points; refuse one that is impure or has the wrong shape."""
        call, frozen = self.method(method), [point.copy() for point in points]
        answers: list[Floats] = []
        for each in frozen:
            each.flags.writeable = False
        for _ in range(2):
            try:
                with np.errstate(all="ignore"):
                    answers.append(np.array(call(*frozen), dtype=np.float64))
            except Exception as problem:  # noqa: BLE001 - a user's own code may raise anything
                found = f"fails at public points: its {method} raises {type(problem).__name__} ({problem})."
                if "read-only" in str(problem):
                    found = f"writes into the numbers that its {method} is called with."
                self.fail(found, "Compute the answer in a new array, without an error.")
        if any(not np.array_equal(one, other) for one, other in zip(frozen, points, strict=True)):
            self.fail(f"changes the numbers that its {method} is called with.", "Compute the answer in a new array.")
        if not np.array_equal(answers[0], answers[1], equal_nan=True):
            self.fail(f"answers differently when its {method} is called twice.", "It must depend on nothing else.")
        return answers[0]

    def method(self, name: str) -> Callable[..., Any]:
        """Return a method, refuse if there is none."""
        found = getattr(self.tested, name, None)
        if not callable(found):
            self.fail(f"has no method {name}.", f"See the protocol {self.kind.capitalize()} in dpadmm.problems.")
        return found


REACH = 1e4
"""How far from 0 a loss is evaluated, in units of its scale: the distance of its farthest kink, at least 1."""

_FAR = np.array([1e5, 1e6, 1e9, 1e12])  # slopes alone; values may overflow there
_EVEN, _RANDOM, _FINEST = 8001, 8000, 1e-7
_STRIDES = (1, 27, 729)
_EPS = float(np.finfo(np.float64).eps)


def refute_loss(loss: Loss) -> None:
    """Raise `InputError` if anything that the loss declares is false at one of the points tried.

    >>> from dpadmm.problems.losses import Huber
    >>> refute_loss(Huber(0.5))
    """
    _Loss(loss).refute()


class _Loss(Probe):
    """A loss with its declared constants."""

    def __init__(self, loss: Loss) -> None:
        super().__init__("loss", loss)
        self.form = certified_form(loss)
        self.steepest = self.number("slope_bound", may_be_infinite=True)
        self.sharpest = self.number("curvature_bound")
        self.scale = max(1.0, *map(abs, self.form.kinks), abs(self.form.shift)) if self.form.kinks else 1.0

    def refute(self) -> None:
        for name, declared, found in (
            ("slope_bound", self.steepest, self.form.steepest),
            ("curvature_bound", self.sharpest, self.form.sharpest),
        ):  # against the form, which is known everywhere
            if found > declared * (1 + SLACK):
                what = f"slopes up to {found:g}" if name == "slope_bound" else f"the curvature {found:g}"
                self.fail(
                    f"declares {name} {declared:g}, but its form has {what}.",
                    "Declare a bound that holds for every score, or use a loss that has one, such as Huber.",
                )
        t = self._points()
        self._check_each_number_alone(t)
        self._check_slope(t)
        self._check_slope(np.concatenate([-_FAR[::-1], _FAR]) * self.scale)
        self._check_value(t)
        self._check_curvature(t)
        self._check_prox(t[:: max(1, len(t) // 500)])

    def _points(self) -> Floats:
        """Even, random and geometric points, around 0, the centre and every kink."""
        rng, reach = np.random.default_rng(0), 4 * self.scale
        steps = np.geomspace(_FINEST, REACH, 300)
        centres = {0.0, self.form.shift, *self.form.kinks}
        near = [centre + sign * steps * self.scale for centre in centres for sign in (-1, 1)]
        even = [np.linspace(-reach, reach, _EVEN), rng.uniform(-reach, reach, _RANDOM)]
        unit = np.linspace(-4, 4, _EVEN // 4)  # where the scale is far above 1
        return np.unique(np.concatenate([*near, *even, unit, *([centre] for centre in centres)]))

    def _finite(self, method: str, t: Floats) -> Floats:
        found = self.ask(method, t)
        if found.shape != t.shape:
            self.fail(f"returns the shape {found.shape} for {t.shape} numbers in its {method}.", "Return one for each.")
        self._refute_where(~np.isfinite(found), t, f"its {method} is {{}}", found, remedy="write it without overflow")
        return found

    def _refute_where(self, is_wrong: Any, t: Floats, says: str, *values: Floats, remedy: str = "correct it") -> None:
        """Refuse if any point is wrong, with the values at the one nearest to 0."""
        (where,) = np.nonzero(is_wrong)
        if len(where):
            i = int(where[np.argmin(np.abs(t[where]))])
            found = says.format(*(f"{each[i]:.12g}" for each in values))
            self.fail(f"is refuted at t = {t[i]:.6g}: {found};", f"{remedy}.")

    def _check_each_number_alone(self, t: Floats) -> None:
        """A record's loss must not depend on the other records that it is computed with."""
        some = t[:: max(1, len(t) // 257)]
        for method in ("value", "slope", "curvature"):
            together = self._finite(method, some)
            backwards = self.ask(method, some[::-1].copy())[::-1]
            alone = np.concatenate([self.ask(method, some[i : i + 1].copy()) for i in range(0, len(some), 16)])
            column = self.ask(method, some[:, None].copy())
            headroom = 1e-12 * (1 + np.abs(together))
            is_wrong = np.abs(backwards - together) > headroom
            is_wrong[::16] |= np.abs(alone - together[::16]) > headroom[::16]
            is_wrong |= column.shape != (len(some), 1) or np.abs(column.ravel() - together) > headroom
            self._refute_where(is_wrong, some, f"its {method} depends on the other numbers in the array")

    def _rounding(self, t: Floats, slope: Floats) -> Floats:
        """What rounding may do to a slope."""
        return 16 * _EPS * (np.abs(slope) + self.sharpest * (np.abs(t) + self.scale))

    def _check_slope(self, t: Floats) -> None:
        """The slope must be the form, which compiled kernels run: it is convex and keeps the declared bounds."""
        slope, described = self._finite("slope", t), self.form.slope(t)
        size = self.form.steepest if math.isfinite(self.form.steepest) else np.abs(described)
        says = "the slope is {}, its form says {}: the loss has another form, for which no certificate exists"
        remedy = "certificates cover clipped lines, and logistic slopes with a floor"
        is_wrong = np.abs(described - slope) > SLACK * size + self._rounding(t, slope)
        self._refute_where(is_wrong, t, says, slope, described, remedy=remedy)

    def _check_value(self, t: Floats) -> None:
        """The value must rise as the integral of the form does, from point to point and over longer ways."""
        value, described, slope = self._finite("value", t), self.form.value(t), self.form.slope(t)
        headroom = self._rounding(t, slope) + SLACK * np.abs(slope)
        for stride in _STRIDES:
            a, b = slice(None, -stride), slice(stride, None)
            rise, expected = value[b] - value[a], described[b] - described[a]
            sizes = np.abs(value) + np.abs(described)
            slack = 16 * _EPS * (sizes[a] + sizes[b]) + (t[b] - t[a]) * (headroom[a] + headroom[b])
            says = "the value changes by {} up to {}, its slope makes that {}: the slope is not its derivative"
            self._refute_where(np.abs(rise - expected) > slack, t[a], says, rise, t[b], expected)

    def _check_curvature(self, t: Floats) -> None:
        found, described = self._finite("curvature", t), self.form.curvature(t)
        near = np.min([np.abs(t - kink) for kink in (*self.form.kinks, math.inf)], axis=0)
        is_off = (np.abs(found - described) > 1e-6 * self.sharpest) & (near > 1e-6 * (self.scale + np.abs(t)))
        is_wrong = is_off | (found < 0) | (found > self.sharpest * (1 + SLACK))
        self._refute_where(is_wrong, t, "the curvature is {}, that of its form is {}", found, described)

    def _check_prox(self, t: Floats) -> None:
        """s = prox(t) solves s - t + step slope(s) = 0."""
        for step in (1e-2, 1.0, 1e2):
            steps = np.full_like(t, step / max(self.sharpest, 1e-9))
            s = self.ask("prox", t, steps)
            self._refute_where(~np.isfinite(s), t, "its prox is {}", s)
            slope = self._finite("slope", s)
            slack = 1e-6 * (np.abs(t) + np.abs(s) + steps * np.abs(slope) + self.scale)
            says = "its prox with step {} is {}, which does not minimise loss(s) + (s - t)^2/(2 step)"
            self._refute_where(np.abs(s - t + steps * slope) > slack, t, says, steps, s)


_NUMBERS = 60_000  # that a regulariser is evaluated on at once


def refute_regulariser(regulariser: Regulariser, dimension: int) -> None:
    """Raise `InputError` if anything that the regulariser declares is false at one of the points tried.

    >>> from dpadmm.problems.regularisers import ElasticNet
    >>> refute_regulariser(ElasticNet(1.0, 0.5), dimension=3)
    """
    _Regulariser(regulariser, dimension).refute()


class _Regulariser(Probe):
    """A regulariser with its declared constants, in a dimension."""

    def __init__(self, regulariser: Regulariser, dimension: int) -> None:
        super().__init__("regulariser", regulariser)
        self.modulus = self.number("strong_convexity")
        self.smoothness = self.number("smoothness", may_be_infinite=True)
        self.d = dimension

    def refute(self) -> None:
        steepest = self.number("lipschitz", self.method("lipschitz")(self.d), may_be_infinite=True)
        is_smooth = getattr(self.tested, "is_smooth", None)
        if self.smoothness < self.modulus * (1 - SLACK) or is_smooth is not math.isfinite(self.smoothness):
            self.fail(
                f"declares strong_convexity {self.modulus:g}, smoothness {self.smoothness:g} and is_smooth "
                f"{is_smooth}, which contradict each other.",
                "Correct them.",
            )
        rng = np.random.default_rng(0)
        v, w = self._points(rng)
        inside = []
        for step in (0.01, 1.0, 100.0):
            inside += self._check_prox(v, w, step)
        x, y = (np.concatenate(part, axis=1) for part in (inside[::2], inside[1::2]))
        self._check_chords(x, y, steepest)

    def _points(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Pairs of points of all lengths and at all distances, some along one coordinate or along all alike."""
        count = int(np.clip(_NUMBERS // self.d, 12, 600))
        lengths, distances = 10.0 ** rng.uniform(-3, 3, count), 10.0 ** rng.uniform(-3, 1, count)
        v = rng.standard_normal((self.d, count)) * lengths / math.sqrt(self.d)
        v[rng.random(v.shape) < 0.2] = 0.0
        move = rng.standard_normal((self.d, count)) / math.sqrt(self.d)
        single = np.arange(count) % 3 == 0
        move[:, single] = 0.0
        move[rng.integers(self.d, size=int(single.sum())), single] = 1.0
        alike = np.arange(count) % 3 == 1
        v[:, alike], move[:, alike] = np.abs(v[:, alike]), 1 / math.sqrt(self.d)
        return v, v + move * lengths * distances

    def _prox(self, v: Floats, step: float) -> tuple[Floats, Floats]:
        """Return the proximal points with their values."""
        p = self.ask("prox", v, np.array(step))
        if p.shape != v.shape or not np.isfinite(p).all():
            self.fail("has a prox that is not finite or of another shape than its argument.", "Correct it.")
        value = self.ask("value", p)
        if np.isinf(value).any():  # a projection may miss its set by rounding
            p = np.where(np.isinf(value), p + 1e-9 * (p.mean(axis=1, keepdims=True) - p), p)
            value = self.ask("value", p)
        if value.shape != p.shape[1:] or not np.isfinite(value).all():
            self.fail("is not finite at its own proximal points, or has no value for each column.", "Correct it.")
        return p, value

    def _check_prox(self, v: Floats, w: Floats, step: float) -> list[Floats]:
        """Firm non-expansiveness, and optimality: g(y) >= g(p) + <(v - p)/step, y - p> + (m/2)||y - p||^2."""
        (p, at_p), (q, at_q) = self._prox(v, step), self._prox(w, step)
        factor, far = 1 + step * self.modulus, _norm(v - w)
        size, moved = _norm(v) + _norm(w) + _norm(p) + _norm(q), _norm(p - q)
        gain = (moved * factor) * moved - ((p - q) * (v - w)).sum(axis=0)
        wrong = gain > 1e-8 * size * (far + factor * moved)
        if wrong.any():
            i = int(np.argmax(wrong))
            self.fail(
                f"declares strong_convexity {self.modulus:g}, but with step {step:g} its prox takes two points at "
                f"distance {far[i]:.4g} to distance {moved[i]:.4g}: it is not the prox of such a function.",
                "Correct the prox or the modulus.",
            )
        pull = (v - p) / step
        for y, at_y in ((q, at_q), (np.roll(p, 1, axis=1), np.roll(at_p, 1)), *self._nearby(p)):
            off = _norm(y - p)
            least = at_p + (pull * (y - p)).sum(axis=0) + 0.5 * self.modulus * off**2
            slack = 1e-8 * (np.abs(at_p) + np.abs(np.where(np.isfinite(at_y), at_y, 0.0)) + self.modulus * off**2)
            slack += 1e-8 * (_norm(v) + _norm(p)) * (off / step + _norm(pull))
            if (at_y < least - slack).any():
                i = int(np.argmax(at_y < least - slack))
                self.fail(
                    f"has a prox that does not minimise: with step {step:g}, at a point of norm {_norm(v)[i]:.4g}, a "
                    f"value is {at_y[i]:.6g} where a function of strong_convexity {self.modulus:g} with this prox has "
                    f"at least {least[i]:.6g}.",
                    "Correct the prox, the value or the modulus.",
                )
        left = self.ask("subgradient_residual", p, -pull)
        if not (left <= 1e-6 * (1 + (_norm(v) + _norm(p)) / step)).all():
            self.fail("has a subgradient_residual that is not 0 at proximal points.", "Correct it.")
        return [p, q]

    def _nearby(self, p: Floats) -> list[tuple[Floats, Floats]]:
        moves = np.random.default_rng(1).standard_normal(p.shape) / math.sqrt(self.d)
        found = []
        for share in (1e-3, 1e-1, 1.0):
            y = p + share * moves * (1e-3 + _norm(p))
            value = self.ask("value", y)
            if np.isnan(value).any() or (value == -math.inf).any():
                self.fail("has a value that is NaN or -inf.", "It must be finite, or inf outside the domain.")
            found.append((y, value))
        return found

    def _check_chords(self, x: Floats, y: Floats, steepest: float) -> None:
        """Along chords between points of the domain: convexity with its modulus, smoothness, Lipschitz constant."""
        at_x, at_y, far = self.ask("value", x), self.ask("value", y), _norm(x - y)
        for share in (0.5, 0.1):
            middle = share * x + (1 - share) * y
            between = self.ask("value", middle)
            if np.isinf(between).any():  # rounding may have left the domain: then nothing is shown
                missed = _norm(self.ask("prox", middle, np.array(1e-6)) - middle) <= 1e-8 * (_norm(x) + _norm(y))
                between = np.where(np.isinf(between) & missed, np.nan, between)
            gap, square = share * at_x + (1 - share) * at_y - between, 0.5 * share * (1 - share) * far**2
            headroom = 1e-10 * (np.abs(at_x) + np.abs(at_y)) + 1e-9 * square
            with np.errstate(divide="ignore", invalid="ignore"):  # an infinite bound holds, also at distance 0
                found = gap / square
                too_round = gap > self.smoothness * square * (1 + SLACK) + headroom
            for name, declared, is_wrong in (
                ("strong_convexity", self.modulus, gap < self.modulus * square * (1 - SLACK) - headroom),
                ("smoothness", self.smoothness, too_round),
            ):
                if is_wrong.any():
                    i = int(np.argmax(is_wrong))
                    self.fail(
                        f"declares {name} {declared:g}, but a chord of length {far[i]:.4g} at norm "
                        f"{_norm(x)[i]:.4g} has the curvature {found[i]:.6g}.",
                        "Correct the constant or the value.",
                    )
        headroom = 1e-10 * (np.abs(at_x) + np.abs(at_y))
        if math.isfinite(steepest) and (np.abs(at_x - at_y) > steepest * far * (1 + SLACK) + headroom).any():
            self.fail(f"declares the Lipschitz constant {steepest:g}, and a chord is steeper.", "Correct it.")


def _norm(x: Floats) -> Floats:
    return np.asarray(np.linalg.norm(x, axis=0))
