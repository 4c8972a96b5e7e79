"""Pictures of a column profile: one small chart per column, inline SVG, with the noise as error bars.

Numbers are drawn in bins of equal width on a scale that shows where the records are: ten even steps over the public
range, or, where most records crowd in the step next to the finest bins, halvings of the range (a logarithmic scale).
Finer bins are added up, so every bar's area is fair to its count.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from markupsafe import Markup

from dpadmm.data.column_statistics import DEVIATIONS, ColumnStatistics, NoisyFigure
from dpadmm.data.profile import HALVINGS, STEPS, ReleasedProfile
from dpadmm.reporting.charts import Axis, svg

WIDTH, HEIGHT = 310, 160
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 4, 14, 26
_APART, _GAP = 40, 10  # pixels for a bar that stands apart, and between those and the others
_CUT = 2.5  # a bar that is apart and so many times higher than all others is cut
_CROWDED = 0.6  # share of all steps that one must hold for the scale to become finer there
_MOST_ROWS, _ROW, _NAMES = 8, 19, 118
_LONGEST_NAME = 16

FIRST_SHOWN = 12
"""Columns that are shown at once; the rest can be unfolded."""


@dataclass(frozen=True)
class Bar:
    """A share of the records with the noise in it; `low`, `high` are the ends of its bin, where it has any.

    Shares are added up as they were released; what is shown of them, and of their errors, lies between 0 and 1.
    """

    share: float
    error: float
    low: float = math.nan
    high: float = math.nan
    name: str = ""

    @property
    def shown(self) -> float:
        """The share as it is drawn and written."""
        return min(max(self.share, 0.0), 1.0)

    @property
    def ends(self) -> tuple[float, float]:
        """Two deviations of noise around the share, as they are drawn."""
        low, high = (self.share + side * DEVIATIONS * self.error for side in (-1, 1))
        return min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)


@dataclass(frozen=True)
class ColumnPanel:
    """A column's chart and what its counts say in words."""

    name: str
    words: str
    picture: Markup


def column_panels(profile: ReleasedProfile) -> tuple[ColumnPanel, ...]:
    """Return a chart and a line of words for every column."""
    return tuple(_panel(profile[column.name]) for column in profile.columns)


def _panel(column: ColumnStatistics) -> ColumnPanel:
    empty = _empty_words(column.empty_share())
    if not column.is_number:
        return ColumnPanel(column.name, empty, category_chart(column))
    mean, median = column.mean(), column.quantile(0.5)
    words = f"mean {_from_to(mean)}, median {_from_to(median)}"
    if not mean.is_visible and not median.is_visible:
        words = "nothing is visible above the noise"
    scale = "each bar twice as wide as the one before" if _is_crowded(column) else ""
    return ColumnPanel(column.name, "; ".join(filter(None, (words, empty, scale))), number_chart(column))


def _from_to(figure: NoisyFigure) -> str:
    if not figure.is_visible:
        return "not visible"
    if figure.low == figure.high:
        return plain_words(figure.low)
    return f"{plain_words(figure.low)} to {plain_words(figure.high)}"


def plain_words(value: float, digits: int = 3) -> str:
    """Return a number as a sentence has it.

    >>> plain_words(192_410.0), plain_words(0.0625), plain_words(370.2, 2), plain_words(2e-7)
    ('192,000', '0.0625', '370', '2e-07')
    """
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.10g}" if rounded == 0 or 1e-4 <= abs(rounded) < 1e9 else f"{rounded:g}"


def tick_words(value: float) -> str:
    """Return a number as it stands under a bar.

    >>> tick_words(0.25), tick_words(1200.0), tick_words(164_000.0), tick_words(2.5e6)
    ('0.25', '1,200', '164k', '2.5M')
    """
    if 1e6 <= abs(value) < 1e9:
        return f"{value / 1e6:.3g}M"
    return f"{value / 1e3:.3g}k" if 1e4 <= abs(value) < 1e6 else plain_words(value)


def _empty_words(figure: NoisyFigure) -> str:
    return f"{100 * figure.value:.2g} % empty" if figure.is_visible and figure.low > 0 else ""


def number_chart(column: ColumnStatistics) -> Markup:
    """Return upright bars: the bins of a number, and apart from them its finest bin and the empty cells."""
    bars, apart = number_bars(column)
    highest = _CUT * max(bar.ends[1] for bar in bars)
    y = _share_axis([*bars, *(bar for bar in apart if bar.shown <= highest)])
    end = WIDTH - _RIGHT - _APART * len(apart) - _GAP
    step = (end - _LEFT) / len(bars)
    parts = [_levels(y)]
    parts += [_bar(bar, _LEFT + step * place + 1, step - 2, y, "bin") for place, bar in enumerate(bars)]
    parts += [_edges(bars, step)]
    for place, bar in enumerate(apart):
        x = end + _GAP + _APART * place
        parts += [_bar(bar, x + 10, _APART - 20, y, "bin apart"), _under(bar.name, x + _APART / 2)]
    parts.append(_base(y))
    return svg(_title(column, bars, apart), WIDTH, HEIGHT, parts)


def number_bars(column: ColumnStatistics) -> tuple[list[Bar], list[Bar]]:
    """Return the bins from left to right on the scale that suits, and the bars that stand apart.

    Halvings suit where the step next to the finest bins is the highest and holds most of what is in any step.
    """
    inside, anchor = _inside(column), _anchor(column)
    groups = _halvings(inside, anchor.low) if _is_crowded(column) else _even_steps(inside)
    error = column.noise_std / column.records
    empty = Bar(float(column.counts[-1] / column.records), error, name="empty")
    return _merged(inside, groups), [replace(anchor, name=f"={tick_words(anchor.low)}"), empty]


def _bins(column: ColumnStatistics) -> list[Bar]:
    error = column.noise_std / column.records
    ends = zip(column.counts[:-1] / column.records, column.left, column.right, strict=True)
    return [Bar(float(share), error, float(low), float(high)) for share, low, high in ends]


def _inside(column: ColumnStatistics) -> list[Bar]:
    return [bar for bar in _bins(column) if bar.low < bar.high]


def _anchor(column: ColumnStatistics) -> Bar:
    """Return the bin of the one value next to which bins are finest."""
    return next(bar for bar in _bins(column) if bar.low == bar.high)


def _is_crowded(column: ColumnStatistics) -> bool:
    steps, anchor = _merged(_inside(column), _even_steps(_inside(column))), _anchor(column).low
    highest = max(steps, key=lambda bar: bar.share)
    holds = highest.share > _CROWDED * math.fsum(bar.share for bar in steps)
    return holds and highest.low <= anchor <= highest.high


def _even_steps(bins: Sequence[Bar]) -> list[int]:
    """Return which of the even steps over the range every bin is in."""
    low, high = bins[0].low, bins[-1].high
    return [math.floor(((bar.low + bar.high) / 2 - low) / (high - low) * STEPS) for bar in bins]


def _halvings(bins: Sequence[Bar], anchor: float) -> list[int]:
    """Return which halving of its side of the anchor every bin is in, rising from left to right."""
    sides = {-1: anchor - bins[0].low, 1: bins[-1].high - anchor}
    groups = []
    for bar in bins:
        side = -1 if bar.high <= anchor else 1
        halved = math.floor(-math.log2(abs((bar.low + bar.high) / 2 - anchor) / sides[side]))
        groups.append(side * (HALVINGS + 1 - min(halved, HALVINGS)))
    return groups


def _merged(bins: Sequence[Bar], groups: Sequence[int]) -> list[Bar]:
    """Return one bar for every run of bins of the same group."""
    bars = []
    for _, run in groupby(zip(groups, bins, strict=True), key=lambda pair: pair[0]):
        parts = [bar for _, bar in run]
        error = math.hypot(*(bar.error for bar in parts))
        bars.append(Bar(math.fsum(bar.share for bar in parts), error, parts[0].low, parts[-1].high))
    return bars


def category_chart(column: ColumnStatistics) -> Markup:
    """Return lying bars: the categories with the highest counts, all others together, cells that are none of them."""
    bars = category_bars(column)
    x = Axis(0.0, max(1e-9, *(bar.ends[1] for bar in bars)), _NAMES, WIDTH - 42)
    parts = []
    for place, bar in enumerate(bars):
        y, ends = _ROW * place + 3, (x.place(0.0), x.place(bar.shown))
        kind = "bin apart" if bar.name == "empty" else "bin"
        parts += [
            Markup('<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>').format(
                _NAMES - 6, y + 11, _shortened(bar.name)
            ),
            Markup('<rect class="{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}"/>').format(
                kind, ends[0], y, ends[1] - ends[0], _ROW - 5
            ),
            _whisker(x.place(bar.ends[0]), x.place(bar.ends[1]), y + 7),
            Markup('<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>').format(
                WIDTH, y + 11, _percent(bar.shown)
            ),
        ]
    height = _ROW * len(bars) + 4
    zero = x.place(0.0)
    parts.append(
        Markup('<line class="axis" x1="{0:.1f}" x2="{0:.1f}" y1="0" y2="{1}"/>').format(zero, height - 2),
    )
    return svg(_title(column, bars, ()), WIDTH, height, parts)


def category_bars(column: ColumnStatistics) -> list[Bar]:
    """Return the bars from top to bottom."""
    shares, error = column.counts / column.records, column.noise_std / column.records
    order = np.argsort(-shares[:-1], kind="stable").tolist()
    first = order if len(order) <= _MOST_ROWS else order[: _MOST_ROWS - 1]
    bars = [Bar(float(shares[place]), error, name=str(column.categories[place])) for place in first]
    rest = order[len(first) :]
    if rest:
        bars.append(Bar(float(shares[rest].sum()), error * math.sqrt(len(rest)), name=f"{len(rest)} others"))
    return [*bars, Bar(float(shares[-1]), error, name="empty")]


def _share_axis(bars: Sequence[Bar]) -> Axis:
    return Axis(0.0, max(1e-9, *(bar.ends[1] for bar in bars)), HEIGHT - _BOTTOM, _TOP)


def _levels(y: Axis) -> Markup:
    ticks = [tick for tick in y.ticks() if tick >= 0]
    ticks = ticks[:: max(1, math.ceil(len(ticks) / 4))]
    return Markup("").join(
        Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(_LEFT, WIDTH - _RIGHT, p, p)
        + Markup('<text class="tick" x="{}" y="{:.1f}" text-anchor="end">{}</text>').format(
            _LEFT - 5, p + 4, _percent(t)
        )
        for t in ticks
        for p in [y.place(t)]
    )


def _base(y: Axis) -> Markup:
    zero = y.place(0.0)
    return Markup('<line class="axis" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(
        _LEFT, WIDTH - _RIGHT, zero, zero
    )


def _bar(bar: Bar, x: float, width: float, y: Axis, kind: str) -> Markup:
    """Return an upright bar with its error; one that is too high for the axis is cut, and its share written on it."""
    if bar.shown > y.high:
        return Markup('<rect class="{}" x="{:.1f}" y="{}" width="{:.1f}" height="{:.1f}"/>').format(
            kind, x, _TOP + 4, width, y.place(0.0) - _TOP - 4
        ) + Markup(
            '<path class="cut" d="M{0:.1f} {1}l{2:.1f} -7"/>'
            '<text class="tick" x="{3:.1f}" y="{4}" text-anchor="middle">{5}</text>'
        ).format(x - 3, _TOP + 18, width + 6, x + width / 2, _TOP - 2, _percent(bar.shown))
    ends = sorted((y.place(0.0), y.place(bar.shown)))
    middle, (low, high) = x + width / 2, map(y.place, bar.ends)
    return Markup(
        '<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>'
        '<line class="error" x1="{m:.1f}" x2="{m:.1f}" y1="{:.1f}" y2="{:.1f}"/>'
    ).format(kind, x, ends[0], width, ends[1] - ends[0], low, high, m=middle)


def _whisker(low: float, high: float, y: float) -> Markup:
    return Markup('<line class="error" x1="{:.1f}" x2="{:.1f}" y1="{y}" y2="{y}"/>').format(low, high, y=y)


def _edges(bars: Sequence[Bar], step: float) -> Markup:
    """Return the ends of the bins under the axis, as many as there is room for."""
    values = [bar.low for bar in bars] + [bars[-1].high]
    longest = max(len(tick_words(value)) for value in values)
    every = max(1, math.ceil((longest * 6.2 + 8) / step))
    return Markup("").join(
        _under(tick_words(values[place]), _LEFT + step * place) for place in range(0, len(values), every)
    )


def _under(words: str, x: float) -> Markup:
    return Markup('<text class="tick" x="{:.1f}" y="{}" text-anchor="middle">{}</text>').format(
        x, HEIGHT - _BOTTOM + 16, words
    )


def _percent(share: float) -> str:
    """Return a share as a chart shows it.

    >>> _percent(0.25), _percent(0.0042), _percent(-0.0001)
    ('25 %', '0.42 %', '0 %')
    """
    text = f"{100 * share:.2g}" if abs(share) < 0.1 else f"{100 * share:.0f}"
    return "0 %" if abs(share) < 5e-4 else f"{text} %".replace("-", "−")


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _title(column: ColumnStatistics, bars: Sequence[Bar], apart: Sequence[Bar]) -> str:
    """Return what the chart shows, for whoever cannot see it."""
    where = [
        f"{plain_words(bar.low)} to {plain_words(bar.high)}" if not bar.name else bar.name for bar in (*bars, *apart)
    ]
    said = ", ".join(f"{name}: {_percent(bar.shown)}" for name, bar in zip(where, (*bars, *apart), strict=True))
    error = DEVIATIONS * column.noise_std / column.records
    return f"{column.name}: shares of the records, each ± {_percent(error)} or a little more. {said}"
