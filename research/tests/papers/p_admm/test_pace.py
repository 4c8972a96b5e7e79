"""How much is spent after half of K iterations: against the closed forms, and where R = 0.995 becomes the slowest."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dpadmm_research.comparison.adult import adult
from dpadmm_research.comparison.contenders import PAdmmContender
from dpadmm_research.papers.p_admm import pace
from dpadmm_research.papers.p_admm.fig1 import SETTING
from dpadmm_research.papers.p_admm.setting import comparison_setting_of
from dpadmm_research.reproduction.figure import Accounting, Order, Size, Verdict
from dpadmm_research.reproduction.table import Reading, Rows, chosen

EPSILON, DELTA, R = 5.0, 1e-4, 0.995
TOY = Order(Size.TOY)


def share(k, rounds):
    """Of the squared losses `1/s_k^2 = R^(1-k)/s_1^2`, those of the first k rounds."""
    losses = R ** -np.arange(rounds)
    return losses[:k].sum() / losses.sum()


def claimed_halfway(rounds, epsilon):
    """eps = rho + 2 sqrt(rho ln(1/delta)), solved for the total rho by the quadratic formula."""
    log = np.log(1 / DELTA)
    rho = (np.sqrt(log + epsilon) - np.sqrt(log)) ** 2 * share(rounds // 2, rounds)
    return rho + 2 * np.sqrt(rho * log)


def gaussian_delta(mu, epsilon):
    """The exact delta of a Gaussian mechanism whose sensitivity is mu standard deviations."""
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def certified_halfway(rounds, epsilon):
    """Gaussian mechanisms compose exactly: mu^2 adds."""
    total = brentq(lambda mu: gaussian_delta(mu, epsilon) - DELTA, 0.1, 10)
    mu = total * np.sqrt(share(rounds // 2, rounds))
    return brentq(lambda spent: gaussian_delta(mu, spent) - DELTA, 1e-6, epsilon)


@pytest.fixture(scope="module")
def compared_setting():
    return comparison_setting_of(SETTING, adult(TOY), TOY)


@pytest.mark.parametrize("rounds", [50, 300, 400])
def test_p_admm_spends_halfway_what_the_closed_forms_say(compared_setting, rounds):
    contender, here = PAdmmContender(SETTING.eta, R), replace(compared_setting, rounds=rounds)
    seen = {
        reading: pace._halfway(contender, here, reading, EPSILON) for reading in (Reading.CLAIMED, Reading.CERTIFIED)
    }
    assert seen[Reading.CLAIMED] == pytest.approx(claimed_halfway(rounds, EPSILON), rel=1e-9)
    assert seen[Reading.CERTIFIED] == pytest.approx(certified_halfway(rounds, EPSILON), rel=1e-4)


@pytest.mark.parametrize(
    ("spent", "epsilon", "first"),
    [
        (claimed_halfway, 5.0, 382),
        (certified_halfway, 5.0, 320),
        (claimed_halfway, 10.0, 344),
        (certified_halfway, 10.0, 288),
    ],
)
def test_from_which_k_on_half_the_iterations_spend_less_than_half_of_epsilon(spent, epsilon, first):
    """Pure methods with constant noise spend half by then: R = 0.995 is slower from these K on."""
    assert next(k for k in range(2, 1000, 2) if spent(k, epsilon) < epsilon / 2) == first


def table_of(own, others):
    """A table in which the champion and all others have spent so much halfway, by K."""
    rows = Rows("")
    for curve, spent in ((SETTING.champion, own), *((contender.label, others) for contender in SETTING.baselines)):
        for k, value in spent.items():
            rows.fact(
                panel="pace", curve=curve, reading=Reading.CLAIMED, epsilon=EPSILON, x=k, metric=pace.HALFWAY,
                value=value,
            )  # fmt: skip
    return rows.table()


@pytest.mark.parametrize(
    ("own", "verdict", "texts"),
    [
        ({50: 3.0, 300: 2.4, 400: 2.0}, Verdict.PARTLY, "from K = 300 on"),
        ({50: 2.0, 300: 2.6, 400: 2.0}, Verdict.PARTLY, "from K = 400 on"),
        ({50: 2.4, 300: 2.3, 400: 2.0}, Verdict.SAME, "from K = 50 on"),
        ({50: 3.0, 300: 2.7, 400: 2.6}, Verdict.DIFFERENT, "Gaussian losses"),
    ],
)
def test_the_verdict_depends_on_the_k_from_which_it_holds(own, verdict, texts):
    found = pace.finding(SETTING, table_of(own, dict.fromkeys(own, 2.5)), Reading.CLAIMED)
    assert found.verdict is verdict
    assert texts in found.why
    assert "K" in found.ground.guessed


def test_one_accounting_leaves_out_the_other():
    table = pace.compute(SETTING, replace(TOY, accounting=Accounting.CERTIFIED))
    assert set(table["reading"]) == {"certified"}
    assert set(chosen(table, metric=pace.HALFWAY)["curve"]) == set(SETTING.compared)
