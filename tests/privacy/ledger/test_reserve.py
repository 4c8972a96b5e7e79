"""Spending: recorded first, refused in time, never twice."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.privacy.ledger import tools

from dpadmm.errors import BudgetError, InputError, LedgerError, ResumeError
from dpadmm.privacy.ledger import Budget, Ledger
from dpadmm.privacy.ledger import store as ledger_store
from dpadmm.privacy.protection import Certificate, NeighbouringRelation, Protection, Unit, View
from dpadmm.privacy.releases import Origin


def entries(path):
    with Ledger.open(path) as ledger:
        return [entry.content() for entry in ledger_store.read_entries(ledger._connection)]


def test_exactly_as_many_releases_as_fit(ledger, path):
    fit = tools.most_releases(0.1, tools.budget)
    assert fit > 3
    for k in range(fit):
        tools.reserve(ledger, tools.gaussian(k))
    with pytest.raises(BudgetError, match="is left"):
        tools.reserve(ledger, tools.gaussian(fit))
    statement = ledger.statement()
    assert statement.releases == fit
    assert statement.refusals == 1
    expected = tools.compose([tools.gaussian(count=fit)]).epsilon(tools.budget.delta)
    assert statement.spent_epsilon == pytest.approx(expected, rel=1e-9)
    assert statement.spent_epsilon <= tools.budget.epsilon


def test_refusal_says_spent_asked_left_and_is_logged(ledger, path):
    tools.reserve(ledger, tools.gaussian(0))
    with pytest.raises(BudgetError) as caught:
        tools.reserve(ledger, tools.gaussian(1, ratio=5.0))
    cost = [tools.compose([r]).epsilon(1e-5) for r in (tools.gaussian(), tools.gaussian(ratio=5.0))]
    text = str(caught.value)
    assert all(f"{number:.6g}" in text for number in (cost[0], 1 - cost[0], cost[1]))
    last = entries(path)[-1]
    assert last["event"] == "refusal"
    assert last["detail"] == text
    assert last["run"] == "run"


def test_a_message_is_paid_for_once_whoever_asks_and_whatever_is_left(ledger, path):
    fit = tools.most_releases(0.1, tools.budget)
    asked = [tools.gaussian(k) for k in range(fit)]
    first = tools.reserve(ledger, *asked[:-1])
    again = tools.reserve(ledger, *asked)  # all but one of them are known
    assert again.fresh == (False,) * (fit - 1) + (True,)
    assert again.entries[:-1] == first.entries
    head, spent = ledger.head, ledger.statement().spent_epsilon
    with Ledger.open(path) as other:
        assert tools.reserve(other, *asked) == again
    assert (ledger.head, ledger.statement().spent_epsilon) == (head, spent)


def test_run_round_agent_and_slot_each_make_a_new_key(ledger, path):
    tools.reserve(ledger, tools.gaussian(4, agent=2, ratio=0.01), run="r-1")
    tools.reserve(ledger, tools.gaussian(0, ratio=0.01), run="another")
    tools.reserve(ledger, *(tools.gaussian(k, ratio=0.01) for k in (0, 0, 1)))  # slots are given in order
    written = entries(path)[1:]  # another connection sees them
    keys = [(each["run"], each["release"]["round"], each["release"]["agent"], each["slot"]) for each in written]
    assert keys == [("r-1", 4, 2, 0), ("another", 0, 0, 0), ("run", 0, 0, 0), ("run", 0, 0, 1), ("run", 1, 0, 0)]
    assert all(each["time"].endswith("+00:00") and each["algorithm"] == "p-admm" for each in written)


@pytest.mark.parametrize(
    "change",
    [
        {"noise_std": 2.0},
        {"count": 2},
        {"certificate": Certificate(bound=0.1, protection=Protection(), theorem="C6", assumptions=("a",))},
    ],
)
def test_the_same_key_with_other_content_is_refused_and_logged_once(ledger, path, change):
    """Whoever may ask as often as he likes, as a coordinator, does not make the ledger grow."""
    tools.reserve(ledger, tools.gaussian(0))
    for opened in (ledger, ledger, Ledger.open(path)):
        with pytest.raises(ResumeError):
            tools.reserve(opened, replace(tools.gaussian(0), **change))
    with pytest.raises(ResumeError):
        ledger.confirm(tools.data).reserve([tools.gaussian(0)], run="run", algorithm="other", origin=Origin.SECURE)
    assert ledger.statement().releases == 1
    assert [entry["event"] for entry in entries(path)[2:]] == ["refusal", "refusal"]


REFUSED = {
    "simulated noise": {"origin": Origin.SIMULATED},
    "no run": {"run": ""},
    "unreadable run": {"run": "a\nb"},
    "no algorithm": {"algorithm": " "},
    "nothing": {"releases": []},
    "no release": {"releases": ["x"]},
    "no noise": {"noise_std": 0.0},
    "negative noise": {"noise_std": -1.0},
    "noise that is lost in rounding": {"noise_std": 1e-320},
    "count": {"count": 0},
}


@pytest.mark.parametrize("case", REFUSED)
def test_nothing_is_recorded_of_what_cannot_be(ledger, case):
    change, head = REFUSED[case], ledger.head
    release = replace(tools.gaussian(), **{name: change[name] for name in ("noise_std", "count") if name in change})
    asked = {"releases": [release], "run": "r", "algorithm": "a", "origin": Origin.SECURE}
    with pytest.raises(InputError):
        ledger.confirm(tools.data).reserve(**(asked | {name: change[name] for name in asked.keys() & change.keys()}))
    assert ledger.head == head


class Nan:
    """What a broken accountant returns."""

    def delta(self, epsilon):
        return math.nan

    def epsilon(self, delta):
        return math.nan


@pytest.mark.parametrize(("broken", "error"), [(lambda _: 1 / 0, ZeroDivisionError), (lambda _: Nan(), BudgetError)])
def test_without_a_figure_nothing_is_spent(ledger, path, monkeypatch, broken, error):
    monkeypatch.setattr("dpadmm.privacy.ledger.spending.compose", broken)
    for _ in range(2):
        with pytest.raises(error):
            tools.reserve(ledger, tools.gaussian())
    assert "release" not in [entry["event"] for entry in entries(path)]


def test_nothing_is_reserved_for_other_data(ledger):
    assert not hasattr(ledger, "reserve")  # only what was shown the data can
    with pytest.raises(LedgerError, match="other data"):
        ledger.confirm(tools.silos[:1])
    with pytest.raises(LedgerError, match="were given"):
        ledger.confirm(tools.silos[:2])
    assert ledger.statement().releases == 0


@pytest.mark.parametrize(
    ("changes", "is_covered"),
    [
        ({}, True),
        ({"unit": Unit.USER}, True),
        ({"unit": Unit.FUNCTION}, False),
        ({"relation": NeighbouringRelation.ADD_OR_REMOVE}, False),
        ({"view": View.EAVESDROPPER}, True),
        ({"view": View.PUBLIC}, False),
        ({"view": View.PEER}, False),
        ({"records_per_person": 1}, False),
        ({"records_per_person": 3}, True),
    ],
)
def test_only_certificates_that_cover_the_terms_are_counted(path, changes, is_covered):
    protection = Protection(view=View.COORDINATOR, records_per_person=2)
    asked = tools.gaussian(**({"view": View.COORDINATOR, "records_per_person": 2} | changes))
    with Ledger.create(path, tools.data, tools.budget, protection=protection) as ledger:
        if is_covered:
            tools.reserve(ledger, asked)
        else:
            with pytest.raises(InputError, match="not cover"):
                tools.reserve(ledger, asked)
        assert ledger.statement().releases == is_covered


def test_silos_have_the_budget_to_themselves_unless_people_are_in_several(tmp_path):
    fit = tools.most_releases(0.1, tools.budget)
    silos = tools.silos[:3]
    for person, each in ((1, fit), (2, fit // 2), (3, fit // 3)):
        place, protection = tmp_path / str(person), Protection(silos_per_person=person)
        with Ledger.create(place, silos, tools.budget, protection=protection) as ledger:
            asked = [tools.gaussian(k, agent=agent, silos_per_person=person) for agent in range(3) for k in range(each)]
            tools.reserve(ledger, *asked, data=silos)
            for agent in range(3):
                more = [tools.gaussian(fit + k, agent=agent, silos_per_person=person) for k in range(3)]
                with pytest.raises(BudgetError):
                    tools.reserve(ledger, *more, data=silos)
            statement = ledger.statement()
            expected = tools.compose([tools.gaussian(count=person * each)]).epsilon(1e-5)
            assert statement.spent_epsilon == pytest.approx(expected, rel=1e-9)
            assert [(spending.silo, spending.releases) for spending in statement.silos] == [(n, each) for n in "abc"]


def test_a_ledger_of_one_silo_adds_up_all_agents_and_says_so(path):
    fit = tools.most_releases(0.1, tools.budget)
    with Ledger.create(path, tools.data, tools.budget) as ledger:
        tools.reserve(ledger, *(tools.gaussian(0, agent=agent) for agent in range(fit)))
        with pytest.raises(BudgetError, match="all 2"):
            tools.reserve(ledger, tools.gaussian(1, agent=0), tools.gaussian(1, agent=1))


def test_an_aggregate_must_cover_a_person_whose_records_are_spread_over_the_agents_of_one_silo(path):
    terms = {"view": View.PUBLIC, "records_per_person": 3}
    labels = {"run": "r", "algorithm": "a", "origin": Origin.SECURE}
    with Ledger.create(path, tools.data, Budget(epsilon=9.0, delta=1e-5), protection=Protection(**terms)) as ledger:
        spread = ledger.confirm(tools.data).for_run((2, 1))
        with pytest.raises(InputError, match="3 silos"):
            spread.reserve([tools.gaussian(1, agent=-1, **terms)], **labels)
        spread.reserve([tools.gaussian(1, agent=-1, silos_per_person=3, **terms)], **labels)
        spread.reserve([tools.gaussian(1, agent=2, **terms)], **labels)
        ledger.confirm(tools.data).reserve([tools.gaussian(2, agent=-1, **terms)], **labels)  # one silo: not spread


def test_a_release_over_everyones_data_counts_for_each_silo(path):
    fit = tools.most_releases(0.1, tools.budget)
    with Ledger.create(path, tools.silos, tools.budget) as ledger:
        asked = [tools.gaussian(0, agent=7), *(tools.gaussian(k, agent=-1) for k in range(fit - 1))]
        tools.reserve(ledger, *asked, data=tools.silos)
        for agent in (-1, 7):
            with pytest.raises(BudgetError):
                tools.reserve(ledger, tools.gaussian(fit, agent=agent), data=tools.silos)
        tools.reserve(ledger, tools.gaussian(fit, agent=8), data=tools.silos)
        expected = tools.compose([tools.gaussian(count=fit)]).epsilon(1e-5)
        assert ledger.statement().spent_epsilon == pytest.approx(expected, rel=1e-9)
        with pytest.raises(InputError, match="Agent 9"):
            tools.reserve(ledger, tools.gaussian(0, agent=9, ratio=1e-9), data=tools.silos)


@settings(deadline=None, derandomize=True, max_examples=15)
@given(orders=st.lists(st.permutations(range(3)), min_size=2, max_size=5))
def test_costs_follow_the_silo_whatever_its_place_in_the_list(tmp_path_factory, orders):
    """By position, six runs with the big silo in another place each were all admitted: 1.002 counted, 2.706 true."""
    place = tmp_path_factory.mktemp("orders") / "ledger"
    cost = {"a": 0.05, "b": 0.1, "c": 0.3}
    wide = Budget(epsilon=20.0, delta=1e-5)
    with Ledger.create(place, tools.silos[:3], wide) as ledger:
        for number, order in enumerate(orders):
            silos = [tools.silos[i] for i in order]
            releases = [tools.gaussian(1, agent=i, ratio=cost[silo.name]) for i, silo in enumerate(silos)]
            tools.reserve(ledger, *releases, run=f"run {number}", data=silos)
        for spending in ledger.statement().silos:
            expected = tools.compose([tools.gaussian(ratio=cost[spending.silo], count=len(orders))])
            assert spending.spent_epsilon == pytest.approx(expected.epsilon(1e-5), rel=1e-9)


def test_the_same_message_from_another_silo_is_another_message(path):
    with Ledger.create(path, tools.silos[:2], tools.budget) as ledger:
        tools.reserve(ledger, tools.gaussian(0, agent=0), data=tools.silos[:2])
        with pytest.raises(ResumeError, match="silo"):
            tools.reserve(ledger, tools.gaussian(0, agent=0), data=tools.silos[1::-1])


def test_budget_changes_are_entries_and_never_fall_below_what_is_spent(ledger, path):
    tools.reserve(ledger, tools.gaussian(ratio=0.2))
    spent = ledger.statement().spent_epsilon
    with pytest.raises(BudgetError, match="already spent"):
        ledger.set_budget(Budget(epsilon=0.99 * spent, delta=1e-5), reason="save")
    with pytest.raises(BudgetError):
        ledger.set_budget(Budget(epsilon=1.0, delta=1e-30), reason="stricter delta")
    ledger.set_budget(Budget(epsilon=1.01 * spent, delta=1e-5), reason="close the account")
    with pytest.raises(InputError, match="reason"):
        ledger.set_budget(tools.budget, reason="")
    assert ledger.budget == Budget(epsilon=1.01 * spent, delta=1e-5)
    events = [(entry["event"], entry.get("reason")) for entry in entries(path)[2:]]
    assert events == [("refusal", "save"), ("refusal", "stricter delta"), ("budget", "close the account")]
    with Ledger.open(path) as again:
        assert again.budget.epsilon == 1.01 * spent
        with pytest.raises(BudgetError):
            tools.reserve(again, tools.gaussian(1, ratio=0.2))


def test_pure_budget(path):
    with Ledger.create(path, tools.data, Budget(epsilon=0.35, delta=0.0)) as ledger:
        for k in range(3):
            tools.reserve(ledger, tools.pure(k))
        with pytest.raises(BudgetError):
            tools.reserve(ledger, tools.pure(3))
        with pytest.raises(BudgetError):
            tools.reserve(ledger, tools.gaussian(4, ratio=1e-9))
        assert ledger.statement().holds_adaptively


@settings(deadline=None, derandomize=True, max_examples=8)
@given(st.lists(st.tuples(st.sampled_from("gp"), st.floats(0.01, 0.5)), min_size=1, max_size=12))
def test_never_overspent_and_every_refusal_was_needed(tmp_path_factory, steps):
    """As the accountant of these tests says, whose rule for mixtures is a plain bound: it is asked, and obeyed."""
    place = tmp_path_factory.mktemp("filter") / "ledger"
    kept = []
    with pytest.MonkeyPatch.context() as patch, Ledger.create(place, tools.data, tools.budget) as ledger:
        patch.setattr("dpadmm.privacy.ledger.spending.compose", tools.compose)
        for k, (kind, size) in enumerate(steps):
            asked = tools.gaussian(k, ratio=size) if kind == "g" else tools.pure(k, epsilon=size)
            together = tools.compose([*kept, asked]).delta(tools.budget.epsilon)
            try:
                tools.reserve(ledger, asked)
            except BudgetError:
                assert together > tools.budget.delta * (1 - 1e-9)
            else:
                assert together <= tools.budget.delta * (1 + 1e-9)
                kept.append(asked)
        assert ledger.statement().releases == len(kept)
        ledger.verify()
