"""Attempts to refute what a loss declares.

Its form is known everywhere, so it settles whether the declared bounds hold for every score: nothing has to be searched
for. What is tried on a grid is whether the slope is that form, and the derivative of a convex value (differences along
chords of all lengths, to which also a defect between two points adds), and whether curvature and proximal map fit.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import Loss, certified_form
from dpadmm.problems.refutation import SLACK, Probe

REACH = 1e4
"""How far from 0 a loss is evaluated, in units of its scale: the distance of its farthest kink, at least 1."""

_FAR = np.array([1e5, 1e6, 1e9, 1e12])  # slopes alone; values may overflow there
_EVEN, _RANDOM, _FINEST = 8001, 8000, 1e-7
_STRIDES = (1, 3, 9, 27, 81, 243, 729, 2187)
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
        self._check_declared_form()
        t = self._points()
        self._check_each_number_alone(t)
        value, slope = self._finite("value", t), self._finite("slope", t)
        self._check_slope_bound(t, slope)
        self._check_rise(t, slope)
        self._check_chords(t, value, slope)
        self._check_form(t, slope)
        far = np.concatenate([-_FAR[::-1], _FAR]) * self.scale
        self._check_slope_bound(far, self._finite("slope", far))
        self._check_form(far, self._finite("slope", far))
        self._check_curvature(t)
        self._check_prox(t[:: max(1, len(t) // 500)])

    def _check_declared_form(self) -> None:
        """The constants against the form, which is known everywhere."""
        if self.form.steepest > self.steepest * (1 + SLACK):
            self.fail(
                f"declares slope_bound {self.steepest:g}, but its form has slopes up to {self.form.steepest:g}.",
                "Declare a bound that holds for every score, or use a loss with a bounded slope such as Huber.",
            )
        sharpest = self.form.sharpest
        if sharpest > self.sharpest * (1 + SLACK):
            self.fail(
                f"declares curvature_bound {self.sharpest:g}, but its form has the curvature {sharpest:g}.",
                "Declare a bound that holds for every score.",
            )

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
        self._no(~np.isfinite(found), t, lambda i: f"its {method} is {found[i]}", "write it without overflow")
        return found

    def _no(self, is_wrong: Any, t: Floats, says: Callable[[int], str], remedy: str = "correct it") -> None:
        """Refuse if any point is wrong, naming the one nearest to 0."""
        (where,) = np.nonzero(is_wrong)
        if len(where):
            i = int(where[np.argmin(np.abs(t[where]))])
            self.fail(f"is refuted at t = {t[i]:.6g}: {says(i)};", f"{remedy}.")

    def _check_each_number_alone(self, t: Floats) -> None:
        """A record's loss must not depend on the other records that it is computed with."""
        some = t[:: max(1, len(t) // 257)]
        for method in ("value", "slope", "curvature"):
            together = self._finite(method, some)
            backwards = self.ask(method, some[::-1].copy())[::-1]
            alone = np.concatenate([self.ask(method, some[i : i + 1].copy()) for i in range(0, len(some), 16)])
            column = self.ask(method, some[:, None].copy())
            room = 1e-12 * (1 + np.abs(together))
            is_wrong = np.abs(backwards - together) > room
            is_wrong[::16] |= np.abs(alone - together[::16]) > room[::16]
            is_wrong |= column.shape != (len(some), 1) or np.abs(column.ravel() - together) > room
            self._no(is_wrong, some, lambda i, m=method: f"its {m} depends on the other numbers in the array")  # type: ignore[misc]

    def _rounding(self, t: Floats, slope: Floats) -> Floats:
        """What rounding may do to a slope."""
        return 16 * _EPS * (np.abs(slope) + self.sharpest * (np.abs(t) + self.scale))

    def _check_slope_bound(self, t: Floats, slope: Floats) -> None:
        self._no(
            np.abs(slope) > self.steepest * (1 + SLACK),
            t,
            lambda i: f"the slope is {slope[i]:.6g}, slope_bound is declared {self.steepest:g}",
            "declare a bound that holds for every score",
        )

    def _check_rise(self, t: Floats, slope: Floats) -> None:
        """Slopes must not fall (convexity), nor rise faster than the curvature bound."""
        room = self._rounding(t, slope)
        gap, rise, room = np.diff(t), np.diff(slope), room[1:] + room[:-1]
        self._no(
            rise < -room - SLACK * np.abs(slope[1:]),
            t[:-1],
            lambda i: f"the slope falls from {slope[i]:.6g} to {slope[i + 1]:.6g} at {t[i + 1]:.6g}: it is not convex",
        )
        self._no(
            rise > self.sharpest * gap * (1 + 1e-6) + room,
            t[:-1],
            lambda i: (
                f"the slope rises by {rise[i] / gap[i]:.6g} a unit, curvature_bound is declared {self.sharpest:g}"
            ),
            "declare a bound that holds for every score",
        )

    def _check_chords(self, t: Floats, value: Floats, slope: Floats) -> None:
        """Every chord of a convex value rises at least by the slope at its start and at most by that at its end."""
        room = self._rounding(t, slope)
        for stride in _STRIDES:
            a, b = slice(None, -stride), slice(stride, None)
            gap, rise = t[b] - t[a], value[b] - value[a]
            slack = 16 * _EPS * (np.abs(value[a]) + np.abs(value[b])) + gap * (room[a] + room[b])
            slack += SLACK * gap * np.maximum(np.abs(slope[a]), np.abs(slope[b]))
            self._no(
                (rise < slope[a] * gap - slack) | (rise > slope[b] * gap + slack),
                t[a],
                lambda i, rise=rise, gap=gap, stride=stride: (  # type: ignore[misc]
                    f"the value changes by {rise[i]:.6g} up to {t[i + stride]:.6g}, the slopes at both ends allow "
                    f"{slope[i] * gap[i]:.6g} to {slope[i + stride] * gap[i]:.6g}: it is not convex, or the slope is "
                    "not its derivative"
                ),
            )

    def _check_form(self, t: Floats, slope: Floats) -> None:
        """Compiled kernels run the form, so it must be the slope."""
        described = self.form.slope(t)
        size = self.form.steepest if math.isfinite(self.form.steepest) else np.abs(described)
        self._no(
            np.abs(described - slope) > SLACK * size + self._rounding(t, slope),
            t,
            lambda i: (
                f"the slope is {slope[i]:.6g}, its form says {described[i]:.6g}: the loss has another form, for which "
                "no certificate exists"
            ),
            "certificates cover clipped lines, and logistic slopes with a floor",
        )

    def _check_curvature(self, t: Floats) -> None:
        found = self._finite("curvature", t)
        self._no(
            (found < 0) | (found > self.sharpest * (1 + SLACK)),
            t,
            lambda i: f"the curvature is {found[i]:.6g}, declared from 0 to curvature_bound {self.sharpest:g}",
        )
        described = self.form.curvature(t)
        near = np.min([np.abs(t - kink) for kink in (*self.form.kinks, math.inf)], axis=0)
        self._no(
            (np.abs(found - described) > 1e-6 * self.sharpest) & (near > 1e-6 * (self.scale + np.abs(t))),
            t,
            lambda i: f"the curvature is {found[i]:.6g}, that of its form is {described[i]:.6g}",
        )

    def _check_prox(self, t: Floats) -> None:
        """s = prox(t) solves s - t + step slope(s) = 0."""
        for step in (1e-2, 1.0, 1e2):
            steps = np.full_like(t, step / max(self.sharpest, 1e-9))
            s = self.ask("prox", t, steps)
            self._no(~np.isfinite(s), t, lambda i, s=s: f"its prox is {s[i]}")  # type: ignore[misc]
            slope = self._finite("slope", s)
            miss = np.abs(s - t + steps * slope)
            slack = 1e-6 * (np.abs(t) + np.abs(s) + steps * np.abs(slope) + self.scale)
            self._no(
                miss > slack,
                t,
                lambda i, s=s, steps=steps: (  # type: ignore[misc]
                    f"its prox with step {steps[i]:.3g} is {s[i]:.6g}, which does not minimise loss(s) + (s - t)^2/(2 "
                    "step)"
                ),
            )
