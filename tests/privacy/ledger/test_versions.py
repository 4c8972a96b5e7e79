"""Data that change: one ledger, one budget, whatever versions there are; nothing of an earlier one goes on."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.privacy.ledger import tools

from dpadmm.errors import BudgetError, LedgerError, ResumeError
from dpadmm.privacy.certificates.sums import column_profile, profile_on_grid
from dpadmm.privacy.ledger import Budget, Ledger, ProfiledColumns, SiloColumns, entries, open_for_reading, store
from dpadmm.privacy.protection import ONE_RECORD, NeighbouringRelation, Protection, Unit
from dpadmm.privacy.releases import GaussianRelease, Origin

GROWN = (SiloColumns("clinic", {"x": np.arange(8.0).reshape(4, 2), "y": np.array([1, -1, 1, 1])}),)
CORRECTED = (SiloColumns("clinic", {"x": np.arange(6.0).reshape(3, 2), "y": np.array([1, -1, -1])}),)


def versions(path) -> list[dict]:
    """Return the entries that begin a version, the first included."""
    with open_for_reading(path) as ledger:
        found = [entry.content() for entry in store.read_entries(ledger._connection)]
    return [each for each in found if each["event"] in ("created", "version")]


def test_a_silo_under_another_name_spends_the_same_budget(ledger):
    tools.reserve(ledger, tools.gaussian(ratio=0.1), run="one")
    ledger.add_version([SiloColumns("another name", GROWN[0].columns)])
    tools.reserve(ledger, tools.gaussian(ratio=0.1), run="two", data=GROWN)
    (silo,) = ledger.statement().silos
    assert (silo.silo, silo.releases) == ("clinic", 2)
    assert [(run.run, run.version) for run in ledger.runs()] == [("one", 1), ("two", 2)]
    assert silo.spent_epsilon == ledger.statement().spent_epsilon


def test_only_the_newest_version_is_confirmed(ledger):
    ledger.add_version(GROWN)
    ledger.confirm(GROWN)
    with pytest.raises(LedgerError, match="version 1"):
        ledger.confirm(tools.data)
    with pytest.raises(LedgerError, match="other data"):
        ledger.confirm(CORRECTED)


@pytest.mark.parametrize("recorded", [1, 2])
def test_a_run_that_was_begun_with_an_earlier_version_cannot_go_on(ledger, recorded):
    """Neither a round that is paid for, which would be drawn again from other records, nor a later one."""
    rounds = [tools.gaussian(k) for k in range(3)]
    tools.reserve(ledger, *rounds[:recorded])
    ledger.add_version(GROWN)
    with pytest.raises(ResumeError, match="entry 2"):
        tools.reserve(ledger, rounds[0], data=GROWN)
    with pytest.raises(ResumeError, match="older version"):
        tools.reserve(ledger, rounds[2], data=GROWN)
    with pytest.raises(ResumeError, match="older version"):
        ledger.confirm(GROWN).check_budget(rounds, run="run", algorithm="p-admm", origin=Origin.SECURE)
    assert (ledger.statement().releases, ledger.statement().refusals) == (recorded, 1)  # the same twice is one entry


def test_data_that_were_confirmed_before_the_change_reserve_nothing_after_it(ledger, path):
    mine = ledger.confirm(tools.data)
    with Ledger.open(path) as other:
        other.add_version(GROWN)
    labels = {"run": "run", "algorithm": "p-admm", "origin": Origin.SECURE}
    with pytest.raises(ResumeError, match="version 1"):
        mine.check_budget([tools.gaussian()], **labels)
    with pytest.raises(ResumeError, match="version 1"):
        mine.reserve([tools.gaussian()], **labels)
    with pytest.raises(LedgerError, match="the newest"):
        ledger.confirm(tools.data)
    assert ledger.statement().releases == 0


def test_tables_of_every_version_are_recognised(ledger):
    """So that none of them is declared public afterwards."""
    ledger.add_version(GROWN)
    assert ledger.is_about(tools.data)
    assert ledger.is_about(GROWN)
    assert not ledger.is_about([SiloColumns("s", {"x": [[9.0, 9.5]]})])


def test_a_ledger_that_tells_silos_apart_keeps_its_data(path):
    with Ledger.create(path, tools.silos, tools.budget) as ledger:
        head = ledger.head
        for data in (tools.silos[:-1], GROWN, [replace(tools.silos[0], columns={"x": [5.0]}), *tools.silos[1:]]):
            with pytest.raises(LedgerError, match="one silo"):
                ledger.add_version(data)
        assert ledger.head == head
        ledger.confirm(tools.silos)


def test_the_log_does_not_tell_which_columns_have_changed(ledger, path):
    """One column of three has another value; the marks have nothing in common, nor has a table that comes back."""
    ledger.add_version(CORRECTED)
    ledger.add_version(tools.data)
    known = [each["data"] for each in versions(path)]
    marks = [set(each["silos"][0]["columns"]) | set(each["common"]) for each in known]
    assert len(set.union(*marks)) == sum(map(len, marks)) == 3 * 6


def test_a_secret_size_stays_secret(path):
    """Where records may come and go, a version without rows has as many marks as any other."""
    protection = Protection(relation=NeighbouringRelation.ADD_OR_REMOVE)
    empty = [SiloColumns("clinic", {"x": np.zeros((0, 2)), "y": np.zeros(0)})]
    with Ledger.create(path, tools.data, tools.budget, protection=protection) as ledger:
        ledger.add_version(empty)
        ledger.confirm(empty)
        ledger.add_version(GROWN)
        ledger.confirm(GROWN)
        ledger.add_version(empty)
    known = [each["data"] for each in versions(path)]
    lengths = {(len(each["silos"][0]["columns"]), len(each["common"])) for each in known}
    assert lengths == {(3, 3)}
    assert {frozenset(each) for each in versions(path)[1:]} == {frozenset({"seq", "time", "event", "version", "data"})}


def test_a_users_name_is_not_kept(path):
    with Ledger.create(path, tools.data, tools.budget, protection=Protection(unit=Unit.USER)) as ledger:
        ledger.add_version(GROWN)
        assert ledger.silos == ("user 1",)
    assert b"clinic" not in path.read_bytes()


# --- what it says ----------------------------------------------------------------------------------------------------


def test_statement_and_export_say_which_version_and_since_when(ledger, path, tmp_path):
    assert "Data " not in str(ledger.statement())
    ledger.add_version(GROWN)
    said = ledger.statement()
    since = versions(path)[-1]["time"]
    assert (said.version, said.version_since) == (2, since)
    assert f"version 2, since {since[:19]}" in str(said)
    ledger.add_version(tools.data)
    assert "the 2 before" in str(ledger.statement())
    ledger.export_json(tmp_path / "export.json")
    export = json.loads((tmp_path / "export.json").read_text())
    assert [each["body"]["version"] for each in export["entries"] if each["body"]["event"] == "version"] == [2, 3]
    assert any("version 3" in line for line in export["statement"])


def test_a_package_that_does_not_know_versions_refuses_the_ledger(ledger, path, monkeypatch):
    """It would go on with the table of the first entry."""
    ledger.add_version(GROWN)
    ledger.close()
    known = {kind.name: kind.value for kind in entries.Kind if kind is not entries.Kind.VERSION}
    monkeypatch.setattr(entries, "Kind", entries.Enum("Kind", known))
    for way in (Ledger.open, open_for_reading):
        with pytest.raises(LedgerError, match="newer version"):
            way(path)


def test_versions_come_one_after_the_other(ledger, path):
    """An entry with another number was written by somebody else's code: it is not understood."""
    with ledger._writing() as writer:
        strange = replace(ledger._state.newest.next(GROWN, ledger._key()), version=3)
        store.append(ledger._connection, [writer.next(entries.Kind.VERSION, strange)])
    with pytest.raises(LedgerError, match="be understood"):
        _ = ledger.head


# --- profiles --------------------------------------------------------------------------------------------------------

SUBJECT = ProfiledColumns("form", ("x[0]", "x[1]"), 3, ONE_RECORD)
NOISE = 3.0


def counted(ledger, data, run):
    """Buy a profile."""
    counts = column_profile(n_numeric=2, n_categorical=0, n_records=3, protection=ONE_RECORD)
    certificate = profile_on_grid(counts, grid=2.0**-20, n_bins=5)
    release = GaussianRelease(certificate=certificate, noise_std=NOISE, agent=0, round=0)
    confirmed = ledger.confirm(data)
    confirmed.reserve([release], run=run, algorithm="p-admm", origin=Origin.SECURE)
    return confirmed


def test_a_profile_of_an_earlier_version_is_not_used(path):
    """Though the columns that it counted are the same in both: another one of the table has changed."""
    with Ledger.create(path, tools.data, Budget(epsilon=30.0, delta=1e-5)) as ledger:
        counted(ledger, tools.data, "one").keep_profile(SUBJECT, "one", (1.0, 2.0), NOISE)
        assert ledger.confirm(tools.data).kept_profile(SUBJECT).run == "one"
        ledger.add_version(CORRECTED)
        assert ledger.confirm(CORRECTED).kept_profile(SUBJECT) is None
        assert (ledger.profiles(), ledger.statement().profiles) == ((), 0)
        counted(ledger, CORRECTED, "two").keep_profile(SUBJECT, "two", (3.0, 4.0), NOISE)
        assert ledger.confirm(CORRECTED).kept_profile(SUBJECT).counts == (3.0, 4.0)
        ledger.add_version(tools.data)
        assert ledger.confirm(tools.data).kept_profile(SUBJECT) is None


def test_counts_that_an_earlier_version_paid_for_are_not_kept_as_the_new_ones(path):
    with Ledger.create(path, tools.data, Budget(epsilon=30.0, delta=1e-5)) as ledger:
        before = counted(ledger, tools.data, "one")
        ledger.add_version(CORRECTED)
        for confirmed in (before, ledger.confirm(CORRECTED)):
            with pytest.raises(ResumeError, match=r"older|version 1"):
                confirmed.keep_profile(SUBJECT, "one", (1.0, 2.0), NOISE)
        assert not ledger.profiles()


# --- whatever is done ------------------------------------------------------------------------------------------------

TABLES = [(SiloColumns("clinic", {"x": [float(i), 1.0], "y": [1.0, float(i)]}),) for i in range(3)]
STEPS = st.lists(st.tuples(st.sampled_from(["release", "version", "again", "open"]), st.integers(0, 2)), max_size=25)


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_spending_never_falls_and_never_passes_the_budget(tmp_path_factory, steps):
    """Versions back and forth, releases on each table, run names used again: an independent sum of squares agrees."""
    path = tmp_path_factory.mktemp("versions") / "ledger"
    ledger = Ledger.create(path, TABLES[0], tools.budget)
    ratio, newest, begun, spent = 0.05, 0, dict[str, int](), 0.0
    version, releases = 1, 0
    for number, (what, which) in enumerate(steps):
        if what == "version":
            ledger.add_version(TABLES[which])
            version += which != newest
            newest = which
        elif what == "open":
            ledger.close()
            ledger = Ledger.open(path)
        else:
            run = f"run {number if what == 'release' else which}"
            allowed = which == newest and begun.get(run, version) == version
            try:
                receipt = tools.reserve(ledger, tools.gaussian(number, ratio=ratio), run=run, data=TABLES[which])
                assert allowed
                assert receipt.fresh == (True,)
                begun[run] = version
                releases += 1
            except (LedgerError, ResumeError):
                assert not allowed
            except BudgetError:
                assert tools.gdp_delta(np.sqrt(releases + 1) * ratio, 1.0) > tools.budget.delta
        said = ledger.statement()
        assert said.spent_epsilon >= spent
        assert (said.releases, said.version) == (releases, version)
        assert said.spent_epsilon <= tools.budget.epsilon
        expected = tools.compose([tools.gaussian(ratio=ratio, count=releases)]).epsilon(1e-5) if releases else 0.0
        assert said.spent_epsilon == pytest.approx(expected, rel=1e-9)
        spent = said.spent_epsilon
    ledger.verify()
    ledger.close()
