"""Slopes against eps, and the verdict on them, by power laws."""

import numpy as np
import pandas as pd
import pytest

from dpadmm_research.papers.consensus import fig2b
from dpadmm_research.papers.consensus.search import CORRECTED_BOUND, EXACT, METHOD, PRINTED_BOUND
from dpadmm_research.reproduction.figure import Verdict
from dpadmm_research.reproduction.table import Reading, Rows

BUDGETS = (0.01, 0.1, 0.5)


def power_laws(error, printed, corrected):
    """Least values eps to these powers, at K = 4 of 3 to 5."""
    rows = Rows("")
    curves = (
        (METHOD, Reading.CLAIMED, EXACT, error),
        (PRINTED_BOUND, Reading.THEORY, fig2b.ERROR, printed),
        (CORRECTED_BOUND, Reading.THEORY, fig2b.ERROR, corrected),
    )
    for curve, reading, metric, power in curves:
        for epsilon in BUDGETS:
            for k in (3, 4, 5):
                value = (1 + abs(k - 4)) * epsilon**power
                rows.fact(panel="b", curve=curve, reading=reading, epsilon=epsilon, x=k, metric=metric, value=value)
    return rows.table()


def test_slopes_of_a_power_law():
    whole, steps = fig2b.slopes(pd.DataFrame({"epsilon": BUDGETS, "value": [3 * e**-1.5 for e in BUDGETS]}))
    assert whole == pytest.approx(-1.5)
    np.testing.assert_allclose(steps, [-1.5, -1.5])


@pytest.mark.parametrize(
    ("powers", "verdict"),
    [
        ((-1.5, -1.45, -1.55), Verdict.SAME),
        ((-1.5, -1.45, -0.4), Verdict.PARTLY),
        ((-1.5, -1.0, -0.4), Verdict.PARTLY),
        ((1.5, 1.5, 1.5), Verdict.DIFFERENT),
    ],
)
def test_verdict_on_slopes(powers, verdict):
    (finding,) = fig2b._slopes_finding(power_laws(*powers))
    assert finding.verdict is verdict
    assert f"the error {powers[0]:.2f}" in finding.seen


def test_no_verdict_on_slopes_without_claimed_noise():
    table = power_laws(-1.0, -1.0, -1.0)
    assert fig2b._slopes_finding(table[table["reading"] == Reading.THEORY.value]) == ()
