"""The page shows the facts of its model, holds everything it needs, and nothing that may not be shown."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.page_facts import facts_of, text_of

from dpadmm.core.model import DataLocation, ProcessingDetails, ProfileCost
from dpadmm.models.measurement import Basis, OtherFigure
from dpadmm.models.statement import best_guess, merge_numbers
from dpadmm.planner.forecast import Forecast, ScoreKind, SignalForecast
from dpadmm.planner.utility import UtilityPoint
from dpadmm.privacy.accounting import CollusionEpsilon
from dpadmm.privacy.protection import NeighbouringRelation, Protection, Unit, View
from dpadmm.privacy.releases import Origin
from dpadmm.report.observers import observers
from dpadmm.report.page import page_facts, report_page

ADDED = NeighbouringRelation.ADD_OR_REMOVE
FEDERATED = DataLocation.FEDERATED
SUMS = Protection(view=View.AGGREGATE, colluders=1)


def protected(model, protection=None, **others):
    """Return the model under another protection, with other fields of its guarantee."""
    guarantee = replace(model.guarantee, protection=protection or model.guarantee.protection, **others)
    return replace(model, guarantee=guarantee)


def shown(model, **others) -> dict[str, list[str]]:
    return facts_of(report_page(model, **others))


def silos_with_costs(model):
    from dpadmm.privacy.accounting import SiloCost

    cost = SiloCost(
        releases=20,
        epsilon=0.9,
        delta=1e-5,
        least_noise=3.0,
        noise_level=2.0,
        sensitivity=0.5,
        certificate="C1",
        strength="certified",
        view="eavesdropper",
    )
    return tuple(replace(silo, cost=cost) for silo in model.silos)


VARIANTS = {
    "one-machine": lambda model: model,
    "persons-in-two-silos": lambda model: protected(
        model,
        Protection(unit=Unit.PERSON, silos_per_person=2),
        profile=ProfileCost(columns=3, epsilon=0.125, run_epsilon=1.0),
    ),
    "nominal-records": lambda model: replace(
        protected(model, Protection(relation=ADDED, records_per_person=40)), spending=None, measurements=(), history=()
    ),
    "simulated-noise": lambda model: replace(protected(model, origin=Origin.SIMULATED), silos=model.silos[:1]),
    "masked-federation": lambda model: replace(
        protected(model, SUMS, collusion=CollusionEpsilon(if_all=2.1547)),
        location=FEDERATED,
        spending=None,
        silos=silos_with_costs(model),
    ),
    "no-colluders": lambda model: protected(
        model, Protection(view=View.AGGREGATE, colluders=0), collusion=CollusionEpsilon(if_all=2.4, if_one=1.1305)
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_what_the_page_says(model, snapshot, name):
    page = report_page(VARIANTS[name](model), place="study.json")
    snapshot(f"page/{name}.txt", text_of(page))
    for outside in ("<script", "http:", "https:", "url(", "@import", "src="):
        assert outside not in page
    assert "default-src 'none'" in page


def test_facts_stand_under_their_names(model):
    found = shown(model, place="study.json")
    assert found["epsilon"] == ["1"]
    assert found["delta"] == ["1e-05"]
    assert found["factor"] == ["a factor of at most 2.72"]
    assert found["guess"] == ["73.1 %"]
    assert found["head"] == ["ab" * 32]
    assert found["measured"] == ["accuracy 0.812"]
    assert len(found["command"]) == 3
    assert "not-private" not in found
    assert "<span" not in shown(protected(model, epsilon=math.inf))["epsilon"][0] == "infinite"


def test_only_secure_noise_is_called_a_release(model):
    page = report_page(protected(model, origin=Origin.SIMULATED))
    assert "not-private" in facts_of(page)
    assert {"epsilon", "meaning", "protected"}.isdisjoint(facts_of(page))
    assert 'class="yes"' not in page
    assert 'class="yes"' in report_page(model)


def test_the_ledger_of_the_page_is_the_latest_one_or_none(model):
    later = replace(model.spending, spent_epsilon=2.5, left_epsilon=0.5)
    assert shown(model, spending=later)["left"] == ["ε 0.5"]
    without = shown(replace(model, spending=None))
    assert "no-ledger" in without
    assert {"spent", "left", "head"}.isdisjoint(without)
    assert "ledgers-of-silos" in shown(replace(model, spending=None, location=FEDERATED))
    assert "rehearsal" in shown(replace(model, spending=None, silos=silos_with_costs(model)))


def test_a_figure_of_private_records_names_its_cost_and_whether_a_ledger_has_it(model):
    (public,) = model.measurements
    paid = replace(public, basis=Basis.ACCOUNTED, epsilon=0.25, delta=1e-6, uncertainty=0.01)
    reasons = {}
    for name, each in (("public", public), ("kept", replace(paid, is_recorded=True)), ("paid", paid)):
        (reasons[name],) = shown(replace(model, measurements=(each,)))["reason-to-show"]
    assert "ε" not in reasons["public"]
    for name in ("kept", "paid"):
        assert "ε = 0.25 at δ = 1e-06" in reasons[name]
    assert reasons["kept"].startswith("Accounted metric")
    assert reasons["paid"].startswith("Not recorded")


def test_what_was_forecast_stands_beside_what_was_reached_of_the_same_score(model):
    (measured,) = model.measurements
    known = replace(model, measurements=(replace(measured, others=(OtherFigure("AUC", 0.814),)),))
    marks = page_facts(known, None, None).scores.marks
    assert [(mark.low, mark.high, mark.value) for mark in marks] == [(0.75, 0.88, None), (0.814, 0.814, 0.814)]
    assert len(page_facts(model, None, None).scores.marks) == 1  # accuracy is not put on the scale of an AUC
    assert page_facts(replace(model, choice=replace(model.choice, expected=None)), None, None).scores.marks


@pytest.mark.parametrize(("error", "is_shown"), [(0.04, True), (0.21, False)])
def test_a_figure_that_noise_leaves_open_is_not_drawn(model, error, is_shown):
    (measured,) = model.measurements
    figure = OtherFigure("AUC", 0.85, error)
    assert figure.is_determined is is_shown
    marks = page_facts(replace(model, measurements=(replace(measured, others=(figure,)),)), None, None).scores.marks
    assert len(marks) == 1 + is_shown
    hidden = replace(measured, value=0.5, uncertainty=0.5)
    (headline,) = shown(replace(model, measurements=(hidden,)))["measured"]
    assert "0.500" not in headline
    assert "0 to 1" in headline
    assert OtherFigure("log-loss", 0.85, 0.4).is_determined


def test_names_cannot_smuggle_markup(model):
    nasty = "<img src=x onerror=alert(1)>"
    silos = tuple(replace(silo, name=nasty) for silo in model.silos)
    page = report_page(replace(model, title=nasty, run=nasty, silos=silos), place=nasty)
    assert "<img" not in page
    assert page.count("&lt;img") >= 4
    assert facts_of(model.report(purpose=nasty))["purpose"] == [nasty]


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
    assert merge_numbers(("x in {0, 1}", "plain", "1e-3 and {} 2e-4")) == (
        "x in {0, 1}",
        "plain",
        "0.001 and {} 0.0002",
    )


def verdicts(protection, **others):
    said = {"has_coordinator": True, "is_release": True, "location": FEDERATED, "n_silos": 5} | others
    return {row.name: row.verdict == "protected" for row in observers(protection, **said)}


def test_observers_are_protected_from_as_the_view_says():
    everybody = ["Someone on the network", "The coordinator", "Another silo", "Whoever receives the model"]
    holder = "The silo that holds the record"
    assert verdicts(Protection(view=View.PUBLIC)) == dict.fromkeys([*everybody[:3], holder], False) | {
        everybody[3]: True
    }
    assert verdicts(Protection()) == dict.fromkeys(everybody, True) | {holder: False}
    assert not any(verdicts(Protection(), is_release=False).values())
    assert "Another silo" not in verdicts(Protection(), n_silos=1)
    assert "The coordinator" not in verdicts(Protection(), has_coordinator=False)
    assert verdicts(Protection(), location=DataLocation.ONE_PLACE)["The machine that ran the training"] is False


@pytest.mark.parametrize(
    ("colluders", "silos"),
    [
        (0, {"Another silo": False}),
        (1, {"Another silo": True, "More than 1 other silo together": False}),
        (2, {"Up to 2 other silos together": True, "More than 2 other silos together": False}),
    ],
)
def test_of_sums_silos_are_named_that_are_counted_and_those_that_are_not(colluders, silos):
    always = {"Someone on the network": True, "The coordinator": True, "Whoever receives the model": True}
    found = verdicts(Protection(view=View.AGGREGATE, colluders=colluders))
    assert found == always | silos | {"The silo that holds the record": False}


@pytest.mark.parametrize("view", View)
def test_the_picture_shows_who_looks_and_all_silos_are_listed(model, view):
    silos = tuple(replace(model.silos[0], name=f"<b>{k}", records=1000 + k) for k in range(30))
    page = report_page(replace(protected(model, Protection(view=view)), silos=silos))
    (figure,) = re.findall(r'<figure class="network">.*?</figure>', page, flags=re.DOTALL)
    assert figure.count('class="eye"') == 1
    assert 'class="look"' in figure
    assert "<b>0" not in figure
    assert all(str(1000 + k) in figure for k in range(24))
    assert "1024" not in figure


def test_guarantees_of_sums_survive_a_file(model, tmp_path):
    made = VARIANTS["masked-federation"](model)
    for suffix in ("json", "npz"):
        read = type(model).load(made.save(tmp_path / f"model.{suffix}"))
        assert (read.guarantee, read.statement) == (made.guarantee, made.statement)


def test_a_model_keeps_what_its_reports_show(model, tmp_path):
    """What was given once is in every later report, and can be replaced in one."""
    about = ProcessingDetails(purpose="asthma", contact="the officer")
    signal = SignalForecast("stated", non_private=0.8, simulated=0.8, low=0.6, high=0.7, learned=0.25)
    points = tuple(UtilityPoint(e, "p-admm", Forecast(ScoreKind.AUC, (signal,), 24), False) for e in (0.5, 1.0))
    kept = replace(model, about=about, budgets=points)
    for suffix in ("json", "npz"):
        read = type(model).load(kept.save(tmp_path / f"model.{suffix}"))
        assert (read.about, read.budgets, read.digest) == (about, points, kept.digest)
    found = facts_of(read.report())
    assert (found["purpose"], found["controller"], found["contact"]) == (["asthma"], ["not stated"], ["the officer"])
    assert ["62.2 %" in found["budget"][0], "73.1 %" in found["budget"][1]] == [True, True]
    assert facts_of(kept.report(controller="  us \n Ltd ", contact="them"))["controller"] == ["us Ltd"]
    assert "budget" not in shown(model)


def test_persons_of_several_silos_are_not_shown_as_different_ones(model):
    both, once = (protected(model, Protection(unit=Unit.PERSON, silos_per_person=n)) for n in (2, 1))
    note = both.guarantee.protection.counting_note
    assert note in shown(both)["records"][0]
    assert note in both.statement
    assert not once.guarantee.protection.counting_note


def test_a_model_without_an_intercept_says_so(model):
    plain = replace(
        model,
        encoding=replace(model.encoding, constant=None),
        schema=model.schema.with_constant(None),
        coefficients=model.coefficients[:-1],
    )
    assert ["no intercept" in shown(each)["model"][0] for each in (model, plain)] == [False, True]
