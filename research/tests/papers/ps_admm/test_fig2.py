"""What counts as clearly below DVP, and DVP with its own number of iterations."""

import numpy as np
import pytest

from dpadmm_research.comparison.adult import adult
from dpadmm_research.comparison.compare import CERTIFIED_EPS
from dpadmm_research.papers.ps_admm.fig2 import answers
from dpadmm_research.papers.ps_admm.runs import DVP_NAME, LOSS, MAJORITY, PS, SETTING, TUNED, compute_dvp, compute_tuned
from dpadmm_research.reproduction.figure import Order, Size, Verdict
from dpadmm_research.reproduction.table import Reading, Rows, chosen

TOY = Order(Size.TOY)


def verdict(own: list[float], plain: list[float], tuned: list[float]) -> Verdict:
    """Of certified losses at one budget, with 0.4 the loss without noise."""
    rows = Rows("made up")
    for curve, values in ((PS, own), (DVP_NAME, plain), (TUNED, tuned)):
        rows.add(
            panel="", curve=curve, reading=Reading.CERTIFIED, epsilon=0.5, x=9, metric=LOSS, values=values
        )  # fmt: skip
    rows.add(panel="", curve="", reading=Reading.NON_PRIVATE, epsilon=np.inf, x=9, metric=LOSS, values=[0.4])
    rows.fact(panel="", curve=PS, reading=Reading.CERTIFIED, epsilon=0.5, x=9, metric=CERTIFIED_EPS, value=0.5)
    (finding,) = answers(rows.table(), LOSS, "much less loss")
    return finding.verdict


@pytest.mark.parametrize(
    ("tuned", "expected"),
    [
        # PS-ADMM ends at 0.50; two runs at m - e and m + e have the standard error e.
        ([0.60, 0.60], Verdict.SAME),  # half of the gap to 0.4
        ([0.505, 0.505], Verdict.PARTLY),  # 0.005 of 0.105: less than a tenth
        ([0.54, 0.66], Verdict.PARTLY),  # 0.10 is less than two standard errors of 0.06
        ([0.57, 0.63], Verdict.SAME),  # and more than two of 0.03
        ([0.45, 0.45], Verdict.PARTLY),
    ],
)
def test_clearly_below_by_hand(tuned: list[float], expected: Verdict) -> None:
    assert verdict([0.5, 0.5], [0.7, 0.7], tuned) is expected


def test_below_neither_is_different() -> None:
    assert verdict([0.5, 0.5], [0.5, 0.5], [0.45, 0.45]) is Verdict.DIFFERENT


def test_tuned_dvp_meets_its_budget_and_is_kept_until_the_others_end() -> None:
    table = compute_tuned(TOY)
    assert SETTING.rounds_of(TOY) == 4
    assert set(chosen(table, metric=LOSS)["x"]) == {1.0, 2.0, 3.0, 4.0}
    rows = chosen(table, metric=CERTIFIED_EPS, reading=Reading.CERTIFIED)
    np.testing.assert_allclose(rows["value"], rows["epsilon"], rtol=1e-6)
    for metric in (LOSS, CERTIFIED_EPS):
        rows = chosen(table, metric=metric)
        np.testing.assert_array_equal(rows[rows["x"] == 4]["value"], rows[rows["x"] == 3]["value"])


def test_a_constant_answer_errs_on_the_smaller_class() -> None:
    _, test = adult(TOY).split()
    (value,) = chosen(compute_dvp(TOY), metric=MAJORITY)["value"]
    positive = np.mean(test.data.labels > 0)
    assert value == pytest.approx(min(positive, 1 - positive), rel=1e-12)
