"""The page says what the facts say, holds everything it needs, and shows nothing that may not be shown."""

import math
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from dpadmm.core.model import Accountability, Collusion, DataLocation
from dpadmm.models.measurement import Basis, OtherFigure
from dpadmm.models.statement import merged
from dpadmm.planner.forecast import Forecast, ScoreKind, SignalForecast
from dpadmm.planner.utility import UtilityPoint
from dpadmm.privacy.protection import NeighbouringRelation, Protection, Unit, View
from dpadmm.privacy.releases import Origin
from dpadmm.report.page import best_guess, observers, report_page


def text(page: str) -> str:
    body = re.sub(r"<style>.*?</style>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def test_the_page_needs_nothing_from_outside(model):
    page = report_page(model)
    assert "<script" not in page
    assert "http:" not in page
    assert "https:" not in page
    assert "default-src 'none'" in page
    assert not re.search(r"url\(|@import|src=", page)


def test_the_page_says_the_figures(model):
    said = text(report_page(model, place="study.json"))
    for words in (
        "A study",
        "456 in 3 silos",
        "ε = 1",
        "δ = 1e-05",
        "factor of at most 2.72",
        "1 in 100,000",
        "73.1",
        "ε 1.25 of 3",
        "ε 1.75",
        "accuracy 0.812",
        "data declared public",
        "a published register",
        "age: a number from 0 to 120, typically 50",
        "rounded to 1.25e-08 ... 2.5e-08",
        "dpadmm audit p-admm --epsilon 1 --delta 1e-05",
        "dpadmm report study.json --json",
        f"dpadmm ledger verify study.ledger --expected-head {'ab' * 32}",
    ):
        assert words in said, words
    assert "Not a private release" not in said


def test_the_page_says_where_the_records_were(model):
    """One process that read all tables is not a federation."""
    said = text(report_page(model))
    assert "456 in 3 silos; simulated in one place: all tables were on one machine" in said
    assert "The machine that ran the training all records of all silos in the clear" in said
    assert "the silos were simulated on one machine" in said
    apart = text(report_page(replace(model, custody=DataLocation.FEDERATED)))
    assert "456 in 3 silos; federated: every silo's own process kept its records" in apart
    assert "Records stayed inside the circles" in apart
    assert "The machine that ran the training" not in apart
    alone = text(report_page(replace(model, silos=model.silos[:1])))
    assert "228 in 1 silo; read in one place" in alone
    assert "simulated" not in alone
    for page in (said, apart, alone):
        assert "no record left" not in page


@pytest.mark.parametrize(
    ("facts", "headline", "unit"),
    [
        ({}, "Protected: one record (replace-one)", "differ in one record are hard"),
        (
            {"records_per_person": 40},
            "Protected: every person's up to 40 records (replace-one)",
            "differ in one person's up to 40 records are hard",
        ),
        (
            {"records_per_person": 40, "silos_per_person": 2},
            "Protected: every person's up to 40 records in each of up to 2 silos (replace-one)",
            "differ in one person's up to 40 records in each of up to 2 silos are hard",
        ),
        (
            {"unit": Unit.USER},
            "Protected: all records of one user (replace-one)",
            "differ in all records of one user are hard",
        ),
    ],
)
def test_the_headline_counts_a_persons_records(model, facts, headline, unit):
    said = text(report_page(replace(model, guarantee=replace(model.guarantee, protection=Protection(**facts)))))
    assert headline in said
    assert unit in said
    assert ("all of them together by any others" in said) == bool(facts)
    assert "not earlier steps fitted on these rows" in said


def test_where_records_are_added_or_removed_their_number_is_nominal(model):
    added = replace(
        model, guarantee=replace(model.guarantee, protection=Protection(relation=NeighbouringRelation.ADD_OR_REMOVE))
    )
    said = text(report_page(added))
    assert "Protected: one record (add-or-remove)" in said
    assert "adding or removing it changes its probability" in said
    assert "toss a coin whether it is there" in said
    assert "a secret number of records (nominally 456) in 3 silos" in said
    assert "their nominal number of records" in said


def test_simulated_noise_is_called_by_its_name(model):
    said = text(report_page(replace(model, guarantee=replace(model.guarantee, origin=Origin.SIMULATED))))
    assert "Not a private release" in said
    assert "protects nobody" in said
    assert "Protected:" not in said
    rows = observers(Protection(), has_coordinator=True, is_release=False, location=DataLocation.FEDERATED)
    assert not any(row.is_covered for row in rows)


def test_without_ledger_and_measurements_the_page_says_so(model):
    said = text(report_page(replace(model, spending=None, measurements=(), history=())))
    assert "No ledger was kept" in said
    assert "Nothing was measured" in said
    assert "accuracy 0." not in said
    assert "dpadmm ledger verify" not in said


def test_a_later_ledger_replaces_the_one_of_the_training(model):
    later = replace(model.spending, spent_epsilon=2.5, left_epsilon=0.5)
    assert "ε 2.5 of 3" in text(report_page(model, later))


def test_an_accounted_figure_says_its_cost(model):
    measured = replace(
        model.measurements[0],
        basis=Basis.ACCOUNTED,
        epsilon=0.25,
        delta=1e-6,
        uncertainty=0.01,
        baseline=None,
        is_recorded=True,
    )
    said = text(report_page(replace(model, measurements=(measured,))))
    assert "accounted metric" in said
    assert "cost ε = 0.25 at δ = 1e-06" in said
    assert "data declared public" not in said.replace("shown only for data declared public", "")


def test_a_figure_that_no_ledger_knows_is_not_called_accounted(model):
    paid = replace(model.measurements[0], basis=Basis.ACCOUNTED, epsilon=0.25, on="private records")
    said = text(report_page(replace(model, measurements=(paid,))))
    assert "which no ledger recorded: it is not part of the spending shown" in said
    assert "measured (accounted)" not in said
    assert "accounted metric The" not in said
    persons = replace(paid, on="private persons, the first row of each")
    assert "which no ledger recorded" in text(report_page(replace(model, measurements=(persons,))))
    kept = replace(paid, is_recorded=True)
    assert "which no ledger recorded" not in text(report_page(replace(model, measurements=(kept,))))


def test_what_was_forecast_stands_beside_what_was_reached(model):
    measured = replace(model.measurements[0], others=(OtherFigure("AUC", 0.814), OtherFigure("log-loss", 0.4)))
    page = report_page(replace(model, measurements=(measured,)))
    said = text(page)
    assert "range of 24 runs on synthetic data of the same shape, 0.75 to 0.88 for a stated signal" in said
    assert "(a model without privacy reaches 0.9)" in said
    picture = page[page.index("<title>Expected and measured AUC</title>") :]
    picture = picture[: picture.index("</svg>")]
    assert "expected, stated signal" in picture
    assert re.findall(r">(0\.\d+)</text>", picture) == ["0.814"]  # of the range, no figure is shown
    alone = report_page(replace(model, measurements=(replace(measured, others=()),)))
    assert "Expected and measured AUC" in alone  # accuracy is not put on the scale of an AUC
    assert "0.814" not in alone


def test_what_the_charts_do_not_show_is_said_of_the_charts(model):
    assert "They show no loss or accuracy on the training records" in text(report_page(model))


def test_names_cannot_smuggle_markup(model):
    nasty = "<img src=x onerror=alert(1)>"
    silos = tuple(replace(silo, name=nasty) for silo in model.silos)
    page = report_page(replace(model, title=nasty, run=nasty, silos=silos), place=nasty)
    assert "<img" not in page
    assert page.count("&lt;img") >= 4


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 0.0), (0.1, 0.0), (1.0, 1e-5), (3.0, 0.1), (50.0, 0.2), (0.0, 1.0)]
)
def test_the_best_guess_is_that_of_the_worst_pair(epsilon, delta):
    """The dominating pair of (epsilon, delta): with delta disjoint, else randomised response; (1 + TV)/2."""
    e = math.exp(epsilon)
    p = np.array([delta, (1 - delta) * e / (1 + e), (1 - delta) / (1 + e), 0.0])
    distance = 0.5 * np.abs(p - p[::-1]).sum()
    assert best_guess(epsilon, delta) == pytest.approx((1 + distance) / 2, rel=1e-12)


def test_the_first_page_of_the_site_states_the_best_guesses_of_the_report():
    page = " ".join((Path(__file__).parents[2] / "docs" / "index.md").read_text().split())
    said = re.search(
        r"right at most (\S+) % of the time at epsilon (\S+), (\S+) % at (\S+) and (\S+) % at (\S+);", page
    )
    stated = [(float(epsilon), guess) for guess, epsilon in zip(said.groups()[::2], said.groups()[1::2], strict=True)]
    assert stated == [(epsilon, f"{100 * best_guess(epsilon, 0.0):.1f}") for epsilon in (0.1, 1.0, 3.0)]


def test_assumptions_with_braces_and_no_numbers_stay_as_they_are():
    assert merged(("x in {0, 1}", "plain", "1e-3 and {} 2e-4")) == ("x in {0, 1}", "plain", "0.001 and {} 0.0002")


def test_the_page_names_whom_a_view_covers():
    listed = observers(
        Protection(view=View.PUBLIC), has_coordinator=True, is_release=True, location=DataLocation.FEDERATED
    )
    assert {row.name: row.is_covered for row in listed} == {
        "Someone on the network": False,
        "The coordinator": False,
        "Another silo": False,
        "Whoever receives the model": True,
        "The silo that holds the record": False,
    }


@pytest.mark.parametrize("view", View)
def test_the_picture_shows_who_looks_and_all_silos_are_listed(model, view):
    silos = tuple(replace(model.silos[0], name=f"<b>{k}", records=1000 + k) for k in range(30))
    guarantee = replace(model.guarantee, protection=Protection(view=view))
    page = report_page(replace(model, guarantee=guarantee, silos=silos))
    (figure,) = re.findall(r'<figure class="network">.*?</figure>', page, flags=re.DOTALL)
    assert figure.count('class="eye"') == 1
    assert 'class="look"' in figure
    assert "<b>0" not in figure
    assert re.search(r'<svg [^>]*aria-label="30 silos: [^"]*The guarantee holds against', figure)
    assert all(str(1000 + k) in figure for k in range(24))
    assert "and 6 more" in figure


def covered(colluders: int, n_silos: int) -> dict[str, bool]:
    sums = Protection(view=View.AGGREGATE, colluders=colluders)
    rows = observers(sums, has_coordinator=True, is_release=True, location=DataLocation.FEDERATED, n_silos=n_silos)
    assert all("sum" in row.sees for row in rows if row.name not in ("Whoever receives the model", rows[-1].name))
    return {row.name: row.is_covered for row in rows[:-1]}


def test_of_sums_the_page_names_the_silos_that_are_counted_and_those_that_are_not():
    always = {"Someone on the network": True, "The coordinator": True, "Whoever receives the model": True}
    assert covered(0, 5) == always | {"Another silo": False}
    assert covered(1, 5) == always | {"Another silo": True, "More than 1 other silo together": False}
    assert covered(2, 5) == always | {
        "Up to 2 other silos together": True,
        "More than 2 other silos together": False,
    }


def summed(model, colluders: int, collusion: Collusion, custody: DataLocation):
    sums = Protection(view=View.AGGREGATE, colluders=colluders)
    guarantee = replace(model.guarantee, protection=sums, collusion=collusion)
    return replace(model, guarantee=guarantee, custody=custody)


def test_the_page_has_every_caveat_of_sums(model):
    counted = Collusion(if_all=2.1547)
    said = text(report_page(summed(model, 1, counted, DataLocation.FEDERATED)))
    for words in (
        "from the coordinator with up to 1 silo, who see sums, and from outsiders",
        "up to 1: every curious silo counts",
        "against all other silos and the coordinator together, epsilon would be 2.15",
        "one share from each silo, which add up in the sum",
        "masked messages, each with its silo's share of the noise; only their sum can be read",
        "sees the sum of all messages only",
    ):
        assert words in said, words
    assert "hide nothing from that machine" not in said
    assert "from the aggregate" not in said
    alone = text(report_page(summed(model, 0, Collusion(if_all=2.4, if_one=1.1305), DataLocation.ONE_PLACE)))
    assert "a curious silo knows its own share of the noise, and against it epsilon would be 1.13" in alone
    assert "but not from a curious silo" in alone
    assert "all silos were simulated in one process, which had all records: masks hide nothing" in alone


def test_what_is_said_of_sums_survives_a_file(model, tmp_path):
    made = summed(model, 2, Collusion(if_all=2.4, if_one=None), DataLocation.FEDERATED)
    for suffix in ("json", "npz"):
        read = type(model).load(made.save(tmp_path / f"model.{suffix}"))
        assert read.guarantee == made.guarantee
        assert read.statement == made.statement
    assert "from the coordinator with up to 2 silos, who see sums" in made.statement
    assert "epsilon would be 2.4" in made.statement


def test_the_page_says_who_answers_for_it_and_why_or_that_nobody_said_so(model):
    assert text(report_page(model)).count("not stated") == 3
    said = {"purpose": "asthma <b>2026</b>", "controller": "  St. Mary's & Sons \n Ltd ", "contact": ""}
    page = model.report(**said)
    assert "<dt>Purpose</dt><dd>asthma &lt;b&gt;2026&lt;/b&gt;</dd>" in page
    assert "Controller St. Mary's & Sons Ltd Contact not stated" in text(page)


def test_other_budgets_stand_beside_this_one(model):
    def point(epsilon, learned):
        signal = SignalForecast("stated", non_private=0.8, simulated=0.8, low=0.6, high=0.75, learned=learned)
        return UtilityPoint(epsilon, "p-admm", Forecast(ScoreKind.AUC, (signal,), 24), is_hopeless=False)

    said = text(model.report(budgets=(point(0.3, 0.0), point(1.0, 0.5))))
    assert "AUC, if 0.8 without privacy" in said
    assert "0.3 57.4 % 0.60 to 0.75 0% of what can be learned without noise 0 % P-ADMM" in said
    assert "1 this model 73.1 % 0.60 to 0.75 50% of what can be learned without noise 50 % P-ADMM" in said
    assert "dpadmm plan --plot" in text(report_page(model))


def test_a_model_keeps_what_its_reports_show(model, tmp_path):
    """Words and forecasts that were given once are in every later report, and can be replaced in one."""
    about = Accountability(purpose="asthma", contact="the officer")
    signal = SignalForecast("stated", non_private=0.8, simulated=0.8, low=0.6, high=0.7, learned=0.25)
    forecast = UtilityPoint(0.5, "p-admm", Forecast(ScoreKind.AUC, (signal,), 24), is_hopeless=False)
    kept = replace(model, about=about, budgets=(forecast,))
    for suffix in ("json", "npz"):
        read = type(model).load(kept.save(tmp_path / f"model.{suffix}"))
        assert (read.about, read.budgets, read.digest) == (about, (forecast,), kept.digest)
        said = text(read.report())
        assert "Purpose asthma Controller not stated Contact the officer" in said
        assert "0.5 62.2 % 0.60 to 0.70 25% of what can be learned without noise 25 % P-ADMM" in said
    assert "Purpose asthma Controller us Contact them" in text(kept.report(controller="us", contact="them"))


def test_persons_of_several_silos_are_not_shown_as_different_ones(model):
    both = replace(
        model, guarantee=replace(model.guarantee, protection=Protection(unit=Unit.PERSON, silos_per_person=2))
    )
    once = replace(model, guarantee=replace(model.guarantee, protection=Protection(unit=Unit.PERSON)))
    note = "(counted once per silo)"
    assert f"Persons {both.records} {note} in {len(both.silos)} silos" in text(report_page(both))
    assert f"{both.records} persons {note} in" in both.statement
    assert note not in text(report_page(once)) + once.statement


def test_a_figure_that_noise_leaves_open_is_no_headline(model):
    (measured,) = model.measurements[:1]
    auc, open_auc = OtherFigure("AUC", 0.85, 0.04), OtherFigure("AUC", 0.85, 0.21)
    assert str(auc) == "AUC 0.8500 +- 0.0400"
    assert str(open_auc) == "AUC not determined (noise interval 0.438 to 1)"
    assert str(OtherFigure("log-loss", 0.85, 0.4)) == "log-loss 0.8500 +- 0.4000"
    said = text(report_page(replace(model, measurements=(replace(measured, others=(open_auc,)),))))
    assert "Also: AUC not determined (noise interval 0.438 to 1)." in said
    hidden = replace(measured, value=0.5, uncertainty=0.5)
    said = text(report_page(replace(model, measurements=(hidden,))))
    assert f"accuracy not determined (noise interval 0 to 1) on {hidden.records}" in said
    assert "measured (" not in said  # nor is it drawn as a point
    for figure in (auc, open_auc):
        shown = text(report_page(replace(model, measurements=(replace(measured, others=(figure,)),))))
        assert ("measured (" in shown) == figure.is_determined


def test_a_model_without_an_intercept_says_so(model):
    plain = replace(
        model,
        encoding=replace(model.encoding, constant=None),
        schema=model.schema.with_constant(None),
        coefficients=model.coefficients[:-1],
    )
    for each in (model, plain):
        assert ("no intercept: it cannot follow every base rate" in text(report_page(each))) == (each is plain)


def test_labels_are_words(model):
    said = text(report_page(model))
    assert "Predicts sick: yes, or no" in said
    assert "Method P-ADMM: Gaussian noise on every broadcast" in said
