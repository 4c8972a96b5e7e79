"""Where verdicts change: the toy tables with the numbers that decide put just inside and just outside."""

import numpy as np
import pytest

from dpadmm_research.comparison.compare import LOSS
from dpadmm_research.papers.consensus import fig2a, fig2d
from dpadmm_research.papers.p_admm import fig1 as p_admm
from dpadmm_research.papers.p_admm.setting import lowest_loss
from dpadmm_research.reproduction.figure import Verdict


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (1.05, Verdict.SAME),
        (1 / 1.05, Verdict.SAME),
        (1.2, Verdict.PARTLY),
        (1 / 1.2, Verdict.PARTLY),
        (2.9, Verdict.PARTLY),
        (3.1, Verdict.DIFFERENT),
        (1 / 3.1, Verdict.DIFFERENT),
    ],
)
def test_the_error_at_the_best_k(toy, ratio, expected):
    table = toy.table("consensus/fig2a")
    rows = (table["metric"] == fig2a.EXACT) & (table["reading"] == "claimed")
    table.loc[rows, "value"] *= ratio * fig2a.PRINTED_ERROR / table.loc[rows, "value"].min()
    (found,) = (f for f in fig2a.findings(table) if f.claim.startswith("the error at the best K"))
    assert found.verdict is expected


@pytest.mark.parametrize(
    ("printed", "expected"),
    [(9, Verdict.DIFFERENT), (11, Verdict.PARTLY), (89, Verdict.PARTLY), (91, Verdict.DIFFERENT)],
)
def test_a_printed_k_is_an_ordinary_draw_in_the_middle_80_percent(monkeypatch, printed, expected):
    monkeypatch.setattr(fig2d, "best_of", lambda *about: np.arange(101))
    assert fig2d._verdict(None, fig2d.METHOD, printed) is expected


@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        (1.009, 2.0, Verdict.SAME),
        (1.011, 2.0, Verdict.PARTLY),
        (1.009, 1.0, Verdict.PARTLY),
        (1.5, 1.4, Verdict.DIFFERENT),
    ],
)
def test_the_lowest_loss_and_nearly_the_non_private_one(toy, own, others, expected):
    table, setting = toy.table("p-admm/fig1"), p_admm.SETTING
    losses = table["metric"] == LOSS
    for is_mine, value in ((table["curve"] == setting.champion, own), (table["curve"] != setting.champion, others)):
        table.loc[losses & is_mine & (table["reading"] == "certified"), "value"] = value
    table.loc[losses & (table["reading"] == "non-private"), "value"] = 1.0
    found = [f for f in lowest_loss(table, setting, setting.epsilons[0]) if "certified" in f.claim]
    assert [f.verdict for f in found] == [expected]
