"""Attempts to refute what a regulariser declares.

Its proximal map must minimise and bring points closer, and chords of all lengths must bend as declared.
"""

import math

import numpy as np

from dpadmm.problems.arrays import Floats
from dpadmm.problems.refutation import SLACK, Probe
from dpadmm.problems.regularisers import Regulariser

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
                f"distance {far[i]:.4g} (norms {_norm(v)[i]:.4g} and {_norm(w)[i]:.4g}) to distance {moved[i]:.4g}: it "
                "is not the prox of such a function.",
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
            room = 1e-10 * (np.abs(at_x) + np.abs(at_y)) + 1e-9 * square
            with np.errstate(divide="ignore", invalid="ignore"):  # an infinite bound holds, also at distance 0
                found = gap / square
                too_round = gap > self.smoothness * square * (1 + SLACK) + room
            for name, declared, is_wrong in (
                ("strong_convexity", self.modulus, gap < self.modulus * square * (1 - SLACK) - room),
                ("smoothness", self.smoothness, too_round),
            ):
                if is_wrong.any():
                    i = int(np.argmax(is_wrong))
                    self.fail(
                        f"declares {name} {declared:g}, but a chord of length {far[i]:.4g} at norm "
                        f"{_norm(x)[i]:.4g} has the curvature {found[i]:.6g}.",
                        "Correct the constant or the value.",
                    )
        room = 1e-10 * (np.abs(at_x) + np.abs(at_y))
        if math.isfinite(steepest) and (np.abs(at_x - at_y) > steepest * far * (1 + SLACK) + room).any():
            self.fail(f"declares the Lipschitz constant {steepest:g}, and a chord is steeper.", "Correct it.")


def _norm(x: Floats) -> Floats:
    return np.asarray(np.linalg.norm(x, axis=0))
