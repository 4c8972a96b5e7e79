"""New data: nothing spent is forgotten, and no run goes on across two tables."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from tests.page_facts import facts_of

from dpadmm.errors import BudgetError, InputError, LedgerError
from dpadmm.federation.admin.maintenance import change_data
from dpadmm.federation.errors import Refusal
from dpadmm.federation.messages import Answer, Joined
from dpadmm.federation.outcome import outcome_of
from dpadmm.federation.policy import Policy, SiloEntry
from dpadmm.federation.terms import NoiseOrigin
from dpadmm.models.federated import federation_model
from dpadmm.privacy.accounting import compose
from dpadmm.privacy.protection import NeighbouringRelation
from dpadmm.settings import CellRules


def change(world, place, *, may_close=False, **rules):
    """Let the first silo go on with another table; return what came of it."""
    world.first.close()
    files = world.first.files
    policy = replace(Policy.load(files.policy), data=str(place), **rules)
    try:
        return change_data(files, policy, may_close=may_close)
    finally:
        world.reopen()


def test_a_silo_goes_on_with_new_data_under_the_same_key_and_budget(setups, star):
    star.drive(star.coordinator())
    before, key = star.statement("s0"), star.first.public_key
    done = change(star, setups.grown(star))
    assert (done.is_new, done.records, done.closed, done.unfit) == (True, 61, (), ())
    assert star.first.records == 61
    assert star.first.public_key == key
    assert (done.statement.version, done.statement.spent_epsilon) == (2, before.spent_epsilon)
    entry = SiloEntry.load(star.first.files.entry)
    assert (entry.records, entry.key) == (61, key)
    later = setups.later_terms(star)
    star.approve(later)
    star.drive(star.coordinator(later, "later.db"))
    after = star.statement("s0")
    both = [each for terms in (star.terms, later) for each in terms.all_releases(0)]
    assert after.releases == 6
    assert after.spent_epsilon == pytest.approx(compose(both).epsilon(1e-5), rel=1e-9)


def test_what_was_spent_on_the_old_table_is_not_there_for_the_new_one(setups, star):
    star.drive(star.coordinator())
    change(star, setups.grown(star))
    with pytest.raises(BudgetError, match=r"epsilon 0\.497846 of 2 is spent"):
        star.first.approve(setups.later_terms(star, epsilon=1.99))


def test_the_old_table_put_back_is_refused_as_such(setups, star):
    setups.answered(star, rounds=3)
    policy = star.first.files.policy
    before = policy.read_text()
    change(star, setups.corrected(star))
    policy.write_text(before)
    later = setups.later_terms(star)
    with pytest.raises(LedgerError, match=r"version 1, not the newest version.*dpadmm silo new-data"):
        star.first.approve(later)
    star.refuses(star.ask(1), "LedgerError", releases=3)


def test_a_table_that_was_overwritten_is_taken_in_place(setups, star):
    place = star.place / "s0.csv"
    shutil.move(setups.grown(star), place)
    with pytest.raises(LedgerError, match="dpadmm silo new-data"):
        star.first.approve(replace(setups.later_terms(star), run="x"))
    before = star.first.files.policy.read_text()
    assert change(star, place).records == 61
    assert star.first.files.policy.read_text() == before
    star.first.approve(setups.later_terms(star))


def test_the_same_table_elsewhere_is_no_new_version_and_ends_nothing(setups, star):
    setups.answered(star)
    place = star.place / "moved.csv"
    shutil.move(star.place / "s0.csv", place)
    done = change(star, place)
    assert (done.is_new, done.closed, done.statement.version) == (False, (), 1)
    assert isinstance(star.reply("s0", star.ask(2, inbox=np.zeros((2, 3)))), Answer)


def test_the_same_table_read_otherwise_ends_runs_too(setups, star):
    setups.answered(star)
    files = star.first.files
    same = star.place / "s0.csv"
    with pytest.raises(InputError, match=r"Unfinished runs: 'test'"):
        change(star, same, screening=CellRules(missing="fill"))
    done = change(star, same, screening=CellRules(missing="fill"), may_close=True)
    assert (done.is_new, done.closed) == (False, ("test",))
    assert Policy.load(files.policy).screening == CellRules(missing="fill")


def test_runs_under_way_keep_the_data(setups, star):
    """Nothing has changed after the refusal: not the ledger, not the policy, not the run."""
    (first,) = setups.answered(star)
    head, policy = star.statement("s0").head, star.first.files.policy.read_text()
    with pytest.raises(InputError, match=r"'test'.*once the data have changed.*--abandon"):
        change(star, setups.grown(star))
    assert (star.statement("s0").head, star.first.files.policy.read_text()) == (head, policy)
    assert star.first.answer(star.ask(1)) == first
    assert isinstance(star.reply("s0", star.ask(2, inbox=np.zeros((2, 3)))), Answer)


@pytest.mark.parametrize("table", ["grown", "corrected"])
def test_an_abandoned_run_is_never_answered_again(star, setups, table):
    """Neither a round that was answered, nor the next, nor by joining again; not after going back to the old table."""
    setups.answered(star)
    done = change(star, getattr(setups, table)(star), may_close=True)
    assert done.closed == ("test",)
    assert star.first.store.rows("SELECT state FROM answer") == [(None,)]
    for _ in range(2):
        for envelope in (star.invite(), star.ask(1), star.ask(2, inbox=np.zeros((2, 3)))):
            star.refuses(envelope, "permanently closed at this silo", releases=1)
        with pytest.raises(Refusal, match="closed at this silo"):
            star.first.approve(star.terms)
        with pytest.raises(Refusal, match="closed at this silo"):
            star.first.store.join(star.terms)  # by a process that had checked before it was closed
        change(star, star.place / "s0.csv")
    assert star.terms.digest not in [each.digest for each in star.first.store.all_terms()]
    assert "closed: run 'test'" in " ".join(f"{each.event}: {each.detail}" for each in star.first.store.log())


def test_a_run_that_was_approved_but_not_joined_goes_on_if_its_terms_fit(setups, star):
    """Corrected cells leave the number as it is; with another number the owner is told which terms are void."""
    assert change(star, setups.corrected(star)).unfit == ()
    assert isinstance(star.reply("s0", star.invite()), Joined)
    done = change(star, setups.grown(star), may_close=True)
    assert (done.closed, done.unfit) == (("test",), ())
    other = replace(star.terms, run="other")
    star.first.store.approve(other)
    assert change(star, setups.corrected(star), may_close=True).unfit == ()
    assert change(star, setups.grown(star)).unfit == ("other",)
    star.refuses(star.invite(other), "which is not the number it holds")


def test_the_keys_of_masks_are_erased_with_an_abandoned_run(setups, masked_world):
    world = masked_world
    world.roster()
    query = "SELECT secret IS NULL FROM mask"
    assert world.first.store.rows(query) == [(0,)]
    change(world, setups.corrected(world), may_close=True)
    assert world.first.store.rows(query) == [(1,)]


def test_a_secret_number_is_not_shown(setups, tmp_path):
    relation = {"policy": {"relation": NeighbouringRelation.ADD_OR_REMOVE, "methods": ("noisy-gradients",)}}
    world = setups.masked(tmp_path, relation=NeighbouringRelation.ADD_OR_REMOVE, nominal=50, **relation)
    done = change(world, setups.grown(world, rows=7))
    assert (done.records, done.unfit) == (None, ())
    assert SiloEntry.load(world.first.files.entry).records is None
    assert isinstance(world.reply("s0", world.invite()), Joined)


def test_a_table_that_does_not_fit_the_schema_changes_nothing(star):
    place = star.place / "odd.csv"
    place.write_text("a,b,c,y\n1,2,secret,1\n")
    head = star.statement("s0").head
    with pytest.raises(InputError, match="column 'c'") as refusal:
        change(star, place)
    assert "secret" not in str(refusal.value)
    assert star.statement("s0").head == head


def test_a_report_says_which_version_the_ledger_is_about_now(star, setups):
    coordinator = star.coordinator()
    star.drive(coordinator)
    model = federation_model(outcome_of(coordinator), setups.SCHEMA)
    ledger = star.first.files.ledger(NoiseOrigin.SECURE)
    assert "data" not in facts_of(model.report(spending=model.spending_now(ledger)))
    change(star, setups.grown(star))
    spending = model.spending_now(ledger)
    assert (spending.data_version, spending.data_since) == (2, star.statement("s0").version_since)
    assert facts_of(model.report(spending=spending))["data"][0].startswith("version 2")
