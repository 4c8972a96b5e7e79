"""A table of coefficients as text, laid out as those of statsmodels are."""

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpadmm.reporting.intervals import CoefficientRow, CoefficientTable

_WIDTH, _CELL, _MOST_NAME = 92, 11, 34


def table_text(table: "CoefficientTable") -> str:
    """Return title, facts, a line for each coefficient, and what they are and are not."""
    names = [_cut(row.title) for row in table.rows]
    wide = max(12, *map(len, names))
    heads = ["coef", "std err", "z", "P>|z|", *table.ends] if table.has_intervals else ["coef"]
    rule = "-" * max(_WIDTH, wide + 6 * _CELL)
    lines = [
        table.title.center(len(rule)).rstrip(),
        rule.replace("-", "="),
        *table.facts,
        rule.replace("-", "="),
        " " * wide + "".join(f"{head:>{_CELL}}" for head in heads),
        rule,
        *(
            f"{name:<{wide}}" + "".join(f"{cell:>{_CELL}}" for cell in _cells(row, table.has_intervals))
            for name, row in zip(names, table.rows, strict=True)
        ),
        rule,
    ]
    for words in (f"No intervals: {table.why_not}" if table.why_not else "", table.estimand, *table.notes):
        lines += textwrap.wrap(words, len(rule), break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def _cut(name: str) -> str:
    return name if len(name) <= _MOST_NAME else f"{name[: _MOST_NAME - 3]}..."


def _cells(row: "CoefficientRow", has_intervals: bool) -> list[str]:
    if not has_intervals or row.std_err is None or row.z is None or row.p_value is None:
        return [_number(row.coef)]
    assert row.low is not None
    assert row.high is not None
    return [
        _number(row.coef),
        _number(row.std_err),
        f"{row.z:.2f}",
        f"{row.p_value:.3f}",
        _number(row.low),
        _number(row.high),
    ]


def _number(value: float) -> str:
    """Return four digits; very small and very large numbers with their power of ten."""
    return "0" if value == 0 else f"{value:.4g}" if 1e-4 <= abs(value) < 1e6 else f"{value:.2e}"
