"""What a process remembers of a ledger it closed, and of runs: quicker, and never other than what the file says."""

import pytest
from tests.privacy.ledger import tools

from dpadmm.errors import LedgerError
from dpadmm.privacy.ledger import Ledger, history, open_for_reading
from dpadmm.privacy.ledger.entries import Reservation


@pytest.fixture
def closed(path):
    """A ledger with two runs, closed by this process, so that its account is remembered."""
    with Ledger.create(path, tools.data, tools.budget) as ledger:
        tools.reserve(ledger, *(tools.gaussian(k) for k in range(3)), run="first")
        tools.reserve(ledger, tools.gaussian(0), tools.pure(1, epsilon=0.01), run="second")
    return path


@pytest.fixture
def decoded(monkeypatch):
    """The entries of releases that were decoded, one by one."""
    found, original = [], history.read_record

    def read_record(kind, content):
        if kind is Reservation:
            found.append(content["seq"])
        return original(kind, content)

    monkeypatch.setattr(history, "read_record", read_record)
    return found


def said(path, tools, *, is_remembered=True):
    """Return all that the ledger says when it is opened again, as in this process or in a new one."""
    if not is_remembered:
        history._KEPT.clear()
    with Ledger.open(path) as ledger:
        return ledger.statement(), ledger.runs()


def write_elsewhere(path, tools, run):
    """Reserve as another process would: what this one remembers stays as it is."""
    remembered = dict(history._KEPT)
    history._KEPT.clear()
    with Ledger.open(path) as ledger:
        tools.reserve(ledger, tools.gaussian(7), run=run)
    history._KEPT.clear()
    history._KEPT.update(remembered)


def test_known_entries_are_not_decoded_again_and_later_ones_are(closed, decoded):
    before = said(closed, tools)
    with open_for_reading(closed) as again:
        assert again.statement().head == before[0].head
    assert decoded == []
    write_elsewhere(closed, tools, "third")
    decoded.clear()
    after = said(closed, tools)
    assert decoded == [before[0].entries + 1]
    assert [run.run for run in after[1]] == ["first", "second", "third"]
    assert after == said(closed, tools, is_remembered=False)


def test_what_is_reserved_is_counted_as_it_is_read_back(closed, decoded):
    with Ledger.open(closed) as ledger:
        ledger.runs()  # figures that are drawn now are out of date with the next release
        tools.reserve(ledger, tools.gaussian(2), tools.pure(3, epsilon=0.02), run="second")
        tools.reserve(ledger, tools.gaussian(2), run="second")  # known, so it is not counted again
        decoded.clear()
        now = ledger.statement(), ledger.runs()
        assert decoded == []
    assert [run.releases for run in now[1]] == [3, 4]
    assert now == said(closed, tools, is_remembered=False)


def test_a_changed_entry_is_found_although_it_is_remembered(closed):
    tools.edit(closed, "UPDATE entries SET body = replace(body, '\"noise_std\":1.0', '\"noise_std\":9.0')")
    with pytest.raises(LedgerError, match="chain"):
        Ledger.open(closed)


def test_an_account_that_was_interrupted_is_not_remembered(closed, monkeypatch):
    with Ledger.open(closed) as ledger, monkeypatch.context() as patch:
        patch.setattr("dpadmm.privacy.ledger.spending.RunAccount.add", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            tools.reserve(ledger, tools.gaussian(6), run="third")  # committed, and half counted
    assert said(closed, tools) == said(closed, tools, is_remembered=False)


def test_what_was_recorded_and_not_counted_is_counted_by_the_same_ledger_later(closed, monkeypatch):
    with Ledger.open(closed) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(history, "share_of", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                tools.reserve(ledger, tools.gaussian(6), run="third")
        counted = ledger.statement(), ledger.runs()
    assert counted == said(closed, tools, is_remembered=False)


def test_two_open_ledgers_never_share_an_account(closed):
    first = Ledger.open(closed)
    first.close()
    with Ledger.open(closed) as second:
        first.close()  # safe to call twice, and hands nothing over a second time
        with Ledger.open(closed) as third:
            tools.reserve(second, tools.gaussian(8), run="third")
            assert third.runs() == second.runs()
            assert third._state is not second._state


def test_few_ledgers_are_remembered(tmp_path):
    for i in range(12):
        Ledger.create(tmp_path / f"{i}.ledger", tools.data, tools.budget).close()
    assert len(history._KEPT) == 8
    assert tmp_path.resolve() / "11.ledger" in history._KEPT
