"""Charts of a column profile, one per column, with the noise as error bars: what they show, `charts.html` draws.

Numbers are drawn in bins of equal width on a scale that shows where the records are: ten even steps over the public
range, or, where most records crowd in the step next to the finest bins, halvings of the range (a logarithmic scale).
Finer bins are added up, so every bar's area is fair to its count.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from dpadmm.data.profile import DEVIATIONS, HALVINGS, STEPS, ColumnStatistics, NoisyFigure

_WIDTH = 176  # pixels for the bins of a number; the template draws them
_CUT = 2.5  # a bar that is apart and so many times higher than all others is cut
_CROWDED = 0.6  # share of all steps that one must hold for the scale to become finer there
_MOST_ROWS = 8


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
    """What the chart of a column shows, and what its counts say.

    bars: upright ones of a number, lying ones of categories. apart: those that stand apart. top: the highest share that
    is drawn whole. ends: of the bins of a number, those that are named.
    """

    name: str
    caption: str
    title: str
    is_number: bool
    bars: Sequence[Bar]
    apart: Sequence[Bar]
    top: float
    ends: Sequence[tuple[int, str]] = ()

    @property
    def levels(self) -> list[float]:
        """Shares that are marked on the axis of a number."""
        return _levels(self.top)


def column_panel(column: ColumnStatistics) -> ColumnPanel:
    """Return the chart of a column and its caption."""
    empty = column.empty_share()
    parts = [f"{100 * empty.value:.2g} % empty" if empty.is_visible and empty.low > 0 else ""]
    if not column.is_number:
        bars = category_bars(column)
        top = max(1e-9, *(bar.ends[1] for bar in bars))
        return ColumnPanel(column.name, parts[0], _title(column, bars), False, bars, (), top)
    mean, median = column.mean(), column.quantile(0.5)
    is_visible = mean.is_visible or median.is_visible
    parts.insert(
        0,
        f"mean {_from_to(mean)}, median {_from_to(median)}" if is_visible else "nothing is visible above the noise",
    )
    if _is_crowded(column):
        parts.append("each bar twice as wide as the one before")
    bars, apart = number_bars(column)
    highest = _CUT * max(bar.ends[1] for bar in bars)
    top = max(1e-9, *(bar.ends[1] for bar in (*bars, *(bar for bar in apart if bar.shown <= highest))))
    caption = "; ".join(filter(None, parts))
    return ColumnPanel(column.name, caption, _title(column, [*bars, *apart]), True, bars, apart, top, _ends(bars))


def _from_to(figure: NoisyFigure) -> str:
    if not figure.is_visible:
        return "not visible"
    if figure.low == figure.high:
        return format_number(figure.low)
    return f"{format_number(figure.low)} to {format_number(figure.high)}"


def format_number(value: float) -> str:
    """Return a number as a sentence has it.

    >>> format_number(192_410.0), format_number(0.0625), format_number(370.2), format_number(2e-7)
    ('192,000', '0.0625', '370', '2e-07')
    """
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.10g}" if rounded == 0 or 1e-4 <= abs(rounded) < 1e9 else f"{rounded:g}"


def tick_text(value: float) -> str:
    """Return a number as it stands under a bar.

    >>> tick_text(0.25), tick_text(1200.0), tick_text(164_000.0), tick_text(2.5e6)
    ('0.25', '1,200', '164k', '2.5M')
    """
    if 1e6 <= abs(value) < 1e9:
        return f"{value / 1e6:.3g}M"
    return f"{value / 1e3:.3g}k" if 1e4 <= abs(value) < 1e6 else format_number(value)


def number_bars(column: ColumnStatistics) -> tuple[list[Bar], list[Bar]]:
    """Return the bins from left to right on the scale that suits, and the bars that stand apart.

    Halvings suit where the step next to the finest bins is the highest and holds most of what is in any step.
    """
    inside, anchor = _inside(column), _anchor(column)
    groups = _halvings(inside, anchor.low) if _is_crowded(column) else _even_steps(inside)
    error = column.noise_std / column.records
    empty = Bar(float(column.counts[-1] / column.records), error, name="empty")
    return _merged(inside, groups), [replace(anchor, name=f"={tick_text(anchor.low)}"), empty]


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


def _levels(top: float) -> list[float]:
    """Return a few round shares up to the highest that is drawn."""
    power = 10.0 ** math.floor(math.log10(top / 4))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= top / 4 * (1 - 1e-9))
    return [step * i for i in range(math.floor(top / step + 1e-9) + 1)]


def _ends(bars: Sequence[Bar]) -> list[tuple[int, str]]:
    """Return the ends of the bins that are named under the axis, as many as there is room for."""
    texts = [tick_text(value) for value in (*(bar.low for bar in bars), bars[-1].high)]
    spacing = (max(map(len, texts)) * 6.2 + 8) * len(bars) / _WIDTH
    return [(place, texts[place]) for place in range(0, len(texts), max(1, math.ceil(spacing)))]


def percent(share: float) -> str:
    """Return a share as a chart shows it.

    >>> percent(0.25), percent(0.0042), percent(-0.0001)
    ('25 %', '0.42 %', '0 %')
    """
    text = f"{100 * share:.2g}" if abs(share) < 0.1 else f"{100 * share:.0f}"
    return "0 %" if abs(share) < 5e-4 else f"{text} %".replace("-", "−")


def _title(column: ColumnStatistics, bars: Sequence[Bar]) -> str:
    """Return what the chart shows, for whoever cannot see it."""
    shares = ", ".join(
        f"{bar.name or f'{format_number(bar.low)} to {format_number(bar.high)}'}: {percent(bar.shown)}" for bar in bars
    )
    error = DEVIATIONS * column.noise_std / column.records
    return f"{column.name}: shares of the records, each ± {percent(error)} or a little more. {shares}"
