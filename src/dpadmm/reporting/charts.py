"""Small charts as inline SVG: no script, no outside file, colours from the page's style, a title for screen readers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dpadmm.reporting.facts import RoundCurve

WIDTH, HEIGHT = 400, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 14, 40
_LEAST = 1e-300


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic scale from data to pixels, with its ticks."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high, v = (self._scaled(x) for x in (self.low, self.high, value))
        return self.start + (self.end - self.start) * (v - low) / (high - low)

    def _scaled(self, value: float) -> float:
        return math.log10(max(value, _LEAST)) if self.is_log else value

    def ticks(self) -> list[float]:
        """Return a few round values within the scale."""
        return _log_ticks(self.low, self.high) if self.is_log else _linear_ticks(self.low, self.high)


def _linear_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [step * i for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    decades = [10.0**k for k in range(first, last + 1, max(1, (last - first) // 4))]
    if len(decades) > 1:
        return decades
    mantissas = (1, 2, 5)
    powers = range(first - 1, last + 2)
    return [m * 10.0**k for k in powers for m in mantissas if low * (1 - 1e-9) <= m * 10.0**k <= high * (1 + 1e-9)]


def _value_axis(values: Sequence[float]) -> Axis:
    positive = [v for v in values if v > 0] or [1.0]
    low, high = min(positive), max(positive)
    if high / low < 4:
        low, high = low / 2, high * 2
    return Axis(low / 1.15, high * 1.15, HEIGHT - _BOTTOM, _TOP, True)


def line_chart(title: str, curves: Sequence[RoundCurve]) -> Markup:
    """Return lines over the rounds, on a logarithmic scale; each has its own dash and colour, for print and eyes."""
    rounds = [k for curve in curves for k in curve.rounds]
    y = _value_axis([v for curve in curves for v in curve.values])
    span = (min(rounds), max(rounds)) if max(rounds) > min(rounds) else (min(rounds) - 1, max(rounds) + 1)
    x = Axis(float(span[0]), float(span[1]), _LEFT, WIDTH - _RIGHT)
    parts = [_frame(x, y)]
    for number, curve in enumerate(curves):
        points = [(x.place(k), y.place(v)) for k, v in zip(curve.rounds, curve.values, strict=True) if v > 0]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        parts.append(Markup('<polyline class="line line-{}" points="{}"/>').format(number, path))
        if len(points) <= 40:
            dots = (
                Markup('<circle class="dot dot-{}" cx="{:.1f}" cy="{:.1f}" r="2.6"/>').format(number, *p)
                for p in points
            )
            parts.append(Markup("").join(dots))
    return svg(title, WIDTH, HEIGHT, parts)


def _frame(x: Axis, y: Axis) -> Markup:
    lines = [
        Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(_LEFT, WIDTH - _RIGHT, p, p)
        + Markup('<text class="tick" x="{}" y="{:.1f}" text-anchor="end">{}</text>').format(_LEFT - 6, p + 4, short(t))
        for t in y.ticks()
        for p in [y.place(t)]
    ]
    whole = [t for t in x.ticks() if abs(t - round(t)) < 1e-9]
    lines += [
        Markup('<text class="tick" x="{:.1f}" y="{}" text-anchor="middle">{}</text>').format(
            x.place(t), HEIGHT - _BOTTOM + 17, short(t)
        )
        for t in whole
    ]
    base = Markup('<line class="axis" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
        _LEFT, WIDTH - _RIGHT, HEIGHT - _BOTTOM, HEIGHT - _BOTTOM
    )
    label = Markup('<text class="label" x="{}" y="{}" text-anchor="middle">round</text>').format(
        (_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 6
    )
    return Markup("").join([*lines, base, label])


def short(value: float) -> str:
    """Return a number as a tick shows it."""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:.3g}"
    exponent = math.floor(math.log10(abs(value)) + 1e-9)
    mantissa = value / 10.0**exponent
    power = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{power}" if abs(mantissa - 1) < 1e-6 else f"{mantissa:.2g}·10{power}"


def share_bar(title: str, spent: float, whole: float) -> Markup:
    """Return a bar of what is spent of a whole; the rest is what is left."""
    share = min(1.0, spent / whole) if whole > 0 else 1.0
    width = (WIDTH - 2) * share
    parts = [
        Markup('<rect class="bar-left" x="1" y="4" width="{}" height="26" rx="5"/>').format(WIDTH - 2),
        Markup('<rect class="bar-spent" x="1" y="4" width="{:.1f}" height="26" rx="5"/>').format(width),
        Markup('<text class="label" x="2" y="48">spent {:.3g}</text>').format(spent),
        Markup('<text class="label" x="{}" y="48" text-anchor="end">budget {:.3g}</text>').format(WIDTH - 2, whole),
    ]
    return svg(title, WIDTH, 54, parts)


@dataclass(frozen=True)
class Mark:
    """A labelled value on a strip; `kind` names its style: plain, good or measured; span: no value, a range."""

    label: str
    value: float
    kind: str
    spread: float = 0.0


def strip(title: str, marks: Sequence[Mark]) -> Markup:
    """Return values side by side on one scale, one row each, a spread as a thin line."""
    low = min(mark.value - mark.spread for mark in marks)
    high = max(mark.value + mark.spread for mark in marks)
    room = 0.1 * (high - low) or 0.1
    x = Axis(low - room, high + room, 170, WIDTH - 50)
    height = 30 * len(marks) + 6
    rows = []
    for number, mark in enumerate(marks):
        y, p = 30 * number + 20, x.place(mark.value)
        rows.append(Markup('<text class="label" x="0" y="{}">{}</text>').format(y + 4, mark.label))
        rows.append(Markup('<line class="grid" x1="170" x2="{}" y1="{}" y2="{}"/>').format(WIDTH - 50, y, y))
        if mark.spread > 0:
            ends = x.place(mark.value - mark.spread), x.place(mark.value + mark.spread)
            rows.append(Markup('<line class="spread" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"/>').format(*ends, y, y))
        if mark.kind == "span":  # a range has no figure of its own
            continue
        rows.append(Markup('<circle class="mark mark-{}" cx="{:.1f}" cy="{}" r="6"/>').format(mark.kind, p, y))
        rows.append(
            Markup('<text class="figure" x="{}" y="{}" text-anchor="end">{:.3f}</text>').format(
                WIDTH, y + 4, mark.value
            )
        )
    return svg(title, WIDTH, height, rows)


def svg(title: str, width: int, height: int, parts: Sequence[Markup]) -> Markup:
    """Return the parts as one picture, with its title for screen readers."""
    head = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>').format(
        width, height, title, title
    )
    return head + Markup("").join(parts) + Markup("</svg>")
