"""Ledgers of earlier formats are read, never written, and carried over so that nobody's spending is undercounted."""

import sqlite3
from contextlib import closing
from dataclasses import asdict
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.errors import InputError, LedgerError
from dpadmm.privacy.ledger import Budget, Ledger, migrate, open_for_reading, store
from dpadmm.privacy.ledger.entries import GENESIS, Kind, Writer, encode_release
from dpadmm.privacy.ledger.store import anchor_text, write_new
from dpadmm.privacy.records import PoissonSampling, SampledGaussianRelease

WIDE = Budget(epsilon=50.0, delta=1e-5)


def write_earlier(path, runs, *, holding="APART", version=2, budget=WIDE):
    """Write what versions 1 and 2 wrote: no names of silos, only the agent's position."""
    writer = Writer(0, GENESIS)
    terms = {"unit": "record", "relation": "replace-one", "view": "eavesdropper", "records_per_person": 1}
    first = {"budget": asdict(budget), **terms, "holding": holding, "fingerprint": "0" * 64, "key_check": "0" * 32}
    entries = [writer.next(Kind.CREATED, first)]
    for run, releases in enumerate(runs):
        for release in releases:
            content = {"run": f"run {run}", "algorithm": "p-admm", "slot": 0, "release": encode_release(release)}
            entries.append(writer.next(Kind.RELEASE, content))
    store.create_file(path, entries)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
        if version == 1:
            connection.execute("DROP TABLE keys")
        connection.commit()
    write_new(path.with_name(path.name + ".head"), anchor_text(writer.seq, writer.digest))


@pytest.mark.parametrize("version", [1, 2])
def test_an_earlier_ledger_is_read_but_takes_nothing_more(path, tools, version):
    write_earlier(path, [[tools.gaussian(0, agent=0), tools.gaussian(0, agent=1)]], version=version)
    before = path.read_bytes()
    with open_for_reading(path) as ledger:
        assert ledger.statement().releases == 2
        assert [spending.silo for spending in ledger.statement().silos] == ["position 0", "position 1"]
        assert [(run.run, run.silos) for run in ledger.runs()] == [("run 0", 2)]
        assert ledger.verify() == ledger.head
    with pytest.raises(LedgerError, match="dpadmm ledger migrate"):
        Ledger.open(path)
    assert path.read_bytes() == before


def test_a_later_format_is_refused(path, tools):
    write_earlier(path, [], version=store.VERSION + 1)
    for opened in (Ledger.open, open_for_reading):
        with pytest.raises(LedgerError, match="newer dpadmm"):
            opened(path)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.lists(st.lists(st.floats(0.01, 0.4), min_size=3, max_size=3), min_size=1, max_size=4))
def test_no_silo_is_undercounted_whatever_its_places_were(tmp_path_factory, tools, costs):
    """Every way in which three silos may have stood in the runs: none of them spent more than the new ledger says."""
    path = tmp_path_factory.mktemp("old") / "old"
    runs = [[tools.gaussian(0, agent=i, ratio=cost) for i, cost in enumerate(row)] for row in costs]
    write_earlier(path, runs)
    migrate(path, path.with_name("new"), tools.silos[:3])
    worst = max(
        tools.compose([tools.gaussian(ratio=row[i]) for row, i in zip(costs, places, strict=True)]).m
        for places in product(range(3), repeat=len(costs))
    )
    with Ledger.open(path.with_name("new"), compose=tools.compose) as ledger:
        spent = ledger.statement().spent_epsilon
        assert spent >= tools.compose([tools.gaussian(ratio=worst)]).epsilon(1e-5) * (1 - 1e-9)
        assert spent == pytest.approx(tools.compose([tools.gaussian(ratio=worst)]).epsilon(1e-5), rel=1e-6)


def test_positions_that_cannot_be_compared_are_all_charged(path, tools):
    write_earlier(path, [[tools.gaussian(0, agent=0), tools.pure(0, agent=1)]])
    migrate(path, path.with_name("new"), tools.silos[:2])
    with Ledger.open(path.with_name("new"), compose=tools.compose) as ledger:
        both = tools.compose([tools.gaussian(), tools.pure()]).epsilon(1e-5)
        assert ledger.statement().spent_epsilon == pytest.approx(both, rel=1e-9)


def test_people_in_several_silos_are_charged_for_all(path, tools):
    """A noisy sum over two silos, certified for a person in one of them, moves twice as far for one in both."""
    own, everyone = [tools.gaussian(0, agent=i) for i in range(2)], tools.gaussian(0, agent=-1)
    write_earlier(path, [[*own, everyone]], holding="TOGETHER")
    migrate(path, path.with_name("new"), tools.silos[:2])
    with Ledger.open(path.with_name("new"), compose=tools.compose) as ledger:
        assert ledger.protection.silos_per_person == 2
        truth = tools.compose([*own, tools.gaussian(ratio=0.2)]).epsilon(1e-5)
        assert ledger.statement().spent_epsilon == pytest.approx(truth, rel=1e-9)
    Path(f"{path}.migrated").unlink()
    migrate(path, path.with_name("one"), tools.silos[:2], silos_per_person=1)
    with Ledger.open(path.with_name("one"), compose=tools.compose) as ledger:
        truth = tools.compose([own[0], everyone]).epsilon(1e-5)
        assert ledger.statement().spent_epsilon == pytest.approx(truth, rel=1e-9)


def test_what_cannot_be_charged_soundly_is_refused_and_leaves_nothing(path, tools):
    sampled = SampledGaussianRelease(
        certificate=tools.certificate(0.1), noise_std=1.0, sampling=PoissonSampling(rate=0.1), agent=-1, round=0
    )
    write_earlier(path, [[sampled]], holding="TOGETHER")
    with pytest.raises(LedgerError, match="silos_per_person=1"):
        migrate(path, path.with_name("new"), tools.silos[:2])
    with pytest.raises(InputError, match="at most the number of silos, 2"):
        migrate(path, path.with_name("new"), tools.silos[:2], silos_per_person=3)
    assert not list(path.parent.glob("new*"))
    migrate(path, path.with_name("new"), tools.silos[:2], silos_per_person=1)


def test_the_new_ledger_goes_on_with_the_budget(path, tools):
    write_earlier(path, [[tools.gaussian(0, agent=0, ratio=0.2)]], budget=tools.budget)
    new = path.with_name("new")
    migrate(path, new, tools.silos[:2])
    with Ledger.open(new, compose=tools.compose) as ledger:
        assert ledger.budget == tools.budget
        assert ledger.verify() == ledger.head
        left = tools.most_releases(0.1, tools.budget) - 4
        tools.reserve(ledger, *(tools.gaussian(k, agent=1) for k in range(left)), data=tools.silos[:2])
        kinds = [entry.content()["event"] for entry in store.read_entries(ledger._connection)]
        assert kinds[:3] == ["created", "migration", "release"]
    with pytest.raises(LedgerError, match="needs no migration"):
        migrate(new, path.with_name("newer"), tools.silos[:2])
    with pytest.raises(LedgerError, match=r"\.migrated cannot be created"):  # each copy would have the whole rest
        migrate(path, path.with_name("again"), tools.silos[:2])
    Path(f"{path}.migrated").unlink()
    with pytest.raises(LedgerError, match="never overwritten"):
        migrate(path, new, tools.silos[:2])
    assert not Path(f"{path}.migrated").exists()


def test_one_silo_now_pays_for_all_that_were(path, tools):
    own = [tools.gaussian(0, agent=i, ratio=0.4) for i in range(4)]
    write_earlier(path, [own], holding="TOGETHER")
    migrate(path, path.with_name("new"), tools.silos[:1])
    with Ledger.open(path.with_name("new"), compose=tools.compose) as ledger:
        assert ledger.statement().spent_epsilon == pytest.approx(tools.compose(own).epsilon(1e-5), rel=1e-9)


@pytest.mark.parametrize(("holding", "now"), [("TOGETHER", 2), ("APART", 2), ("APART", 1)])
def test_fewer_silos_than_took_part_are_refused(path, tools, holding, now):
    releases = [tools.gaussian(0, agent=-1, ratio=0.4), *(tools.gaussian(0, agent=i) for i in range(4))]
    write_earlier(path, [releases], holding=holding)
    with pytest.raises(LedgerError, match="4 silos took part"):
        migrate(path, path.with_name("new"), tools.silos[:now])


def test_a_run_that_was_reserved_in_parts_is_charged_part_by_part(path, tools):
    """The files may have come in another order for the second part: the small silo paid the dear share twice."""
    parts = [tools.gaussian(k, agent=i, ratio=1.0 if i == k else 0.1) for k in (0, 1) for i in (0, 1)]
    write_earlier(path, [parts])
    migrate(path, path.with_name("new"), tools.silos[:2])
    with Ledger.open(path.with_name("new"), compose=tools.compose) as ledger:
        truth = tools.compose([parts[0], parts[3]]).epsilon(1e-5)
        assert ledger.statement().spent_epsilon == pytest.approx(truth, rel=1e-9)
