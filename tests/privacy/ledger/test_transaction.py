"""Payment and a caller's own rows in one commit: both are there afterwards, or neither, whatever happens in between."""

import json
import os
import signal
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from tests.privacy.ledger import tools

from dpadmm.errors import BudgetError, InputError, LedgerError, ResumeError
from dpadmm.privacy.ledger import Ledger, open_for_reading, store
from dpadmm.privacy.releases import Origin

LABELS = {"run": "run", "algorithm": "p-admm", "origin": Origin.SECURE}
MAKE = "CREATE TABLE IF NOT EXISTS answer (round INTEGER PRIMARY KEY, message BLOB)"
STORE, READ = "INSERT INTO answer VALUES (?, ?)", "SELECT round, message FROM answer ORDER BY round"


@pytest.fixture
def with_answers(ledger):
    with ledger.transaction() as work:
        work.execute(MAKE)
    return ledger


def answer(ledger, tools, round_, message=b"words", **changes):
    with ledger.confirm(tools.data).transaction() as work:
        work.execute(STORE, (round_, message))
        return work.reserve([tools.gaussian(round_, **changes)], **LABELS)


def there(ledger):
    """Return the rounds with an answer, and those that are paid for."""
    paid = ledger.select("SELECT round FROM keys ORDER BY round")
    return [row[0] for row in ledger.select(READ)], [row[0] for row in paid]


def test_both_are_there_and_the_log_is_read_as_before(with_answers, path, tmp_path):
    receipt = answer(with_answers, tools, 1)
    assert (receipt.fresh, there(with_answers)) == ((True,), ([1], [1]))
    assert with_answers.statement().releases == 1
    assert with_answers.verify() == with_answers.head
    with_answers.export_json(tmp_path / "export.json")
    assert len(json.loads((tmp_path / "export.json").read_text())["entries"]) == with_answers.statement().entries
    with Ledger.open(path) as again, open_for_reading(path) as read:
        assert again.head == read.head == with_answers.head
        assert there(again) == there(read) == ([1], [1])
        answer(again, tools, 2)
    assert there(with_answers) == ([1, 2], [1, 2])
    assert with_answers.statement().releases == 2


def test_the_same_is_paid_once_and_something_else_under_its_name_is_refused(with_answers):
    first = answer(with_answers, tools, 1)
    confirmed = with_answers.confirm(tools.data)
    with confirmed.transaction() as work:
        again = work.reserve([tools.gaussian(1)], **LABELS)
    assert (again.entries, again.fresh) == (first.entries, (False,))
    with pytest.raises(ResumeError), confirmed.transaction() as work:
        work.reserve([tools.gaussian(1, ratio=0.2)], **LABELS)


def test_several_reservations_of_a_block_count_together(with_answers):
    confirmed = with_answers.confirm(tools.data)
    confirmed.check_budget([tools.gaussian(1, ratio=0.2)], **LABELS)

    def reserve_two() -> None:
        with confirmed.transaction() as work:
            work.reserve([tools.gaussian(1, ratio=0.2)], **LABELS)
            work.reserve([tools.gaussian(2, ratio=0.2)], **LABELS)

    with pytest.raises(BudgetError):
        reserve_two()
    assert there(with_answers) == ([], [])
    with confirmed.transaction() as work:
        work.reserve([tools.gaussian(1, ratio=0.1)], **LABELS)
        work.reserve([tools.gaussian(2, ratio=0.1)], **LABELS)
    assert with_answers.statement().releases == 2
    assert with_answers.verify() == with_answers.head


@pytest.mark.parametrize("is_caught", [False, True])
def test_a_refused_payment_stores_nothing_and_is_logged_once(with_answers, is_caught):
    def reserve_too_much() -> None:
        with with_answers.confirm(tools.data).transaction() as work:
            work.execute(STORE, (1, b"words"))
            with suppress(BudgetError) if is_caught else nullcontext():
                work.reserve([tools.gaussian(1, ratio=50.0)], **LABELS)

    for _ in range(2):
        with pytest.raises(BudgetError):
            reserve_too_much()
    assert there(with_answers) == ([], [])
    assert (with_answers.statement().refusals, with_answers.statement().releases) == (1, 0)
    answer(with_answers, tools, 1)
    assert there(with_answers) == ([1], [1])


@pytest.mark.parametrize("is_caught", [False, True])
def test_an_answer_that_cannot_be_stored_is_not_paid_for(with_answers, is_caught):
    answer(with_answers, tools, 1)

    def store_again() -> None:
        with with_answers.confirm(tools.data).transaction() as work:
            work.reserve([tools.gaussian(2)], **LABELS)
            with suppress(LedgerError) if is_caught else nullcontext():
                work.execute(STORE, (1, b"other"))

    with pytest.raises(LedgerError):
        store_again()
    assert there(with_answers) == ([1], [1])
    assert with_answers.select(READ) == [(1, b"words")]


def test_any_error_of_the_block_undoes_it(with_answers):
    head = with_answers.head

    def fail_elsewhere() -> None:
        with with_answers.confirm(tools.data).transaction() as work:
            work.execute(STORE, (1, b"words"))
            work.reserve([tools.gaussian(1)], **LABELS)
            raise KeyError("elsewhere")

    with pytest.raises(KeyError):
        fail_elsewhere()
    assert (there(with_answers), with_answers.head) == (([], []), head)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO entries VALUES (9, '', '')",
        "UPDATE entries SET body = ''",
        "DELETE FROM Keys",
        "DROP TABLE keys",
        "DROP TRIGGER entries_no_delete",
        "ALTER TABLE entries RENAME TO others",
        "CREATE TRIGGER mine AFTER INSERT ON entries BEGIN SELECT 1; END",
        "CREATE INDEX mine ON entries (body)",
        "CREATE TEMP TABLE entries (seq INTEGER)",
        "PRAGMA writable_schema = ON",
        "PRAGMA user_version = 9",
        "ATTACH ':memory:' AS other",
        "SAVEPOINT mine",
        "COMMIT",
        "ROLLBACK",
    ],
)
def test_the_ledgers_own_tables_and_its_commit_are_out_of_reach(with_answers, sql):
    head = with_answers.head
    with pytest.raises(LedgerError), with_answers.transaction() as work:
        work.execute(sql)
    with pytest.raises(LedgerError):
        with_answers.select(sql)
    assert with_answers.verify() == head


def test_a_block_has_the_ledger_alone_and_ends(with_answers):
    with with_answers.transaction() as work:
        for ask in (lambda: with_answers.head, with_answers.statement, lambda: with_answers.confirm(tools.data)):
            with pytest.raises(LedgerError, match="transaction"):
                ask()
        work.execute(STORE, (1, b"words"))
    with pytest.raises(LedgerError, match="ended"):
        work.execute(STORE, (2, b"words"))
    with pytest.raises(LedgerError):
        with_answers.select("DELETE FROM answer")
    with pytest.raises(InputError, match="confirm"), with_answers.transaction() as work:
        work.reserve([tools.gaussian(1)], **LABELS)
    assert there(with_answers) == ([1], [])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize(
    ("moment", "is_done"), [("stored", False), ("paid", False), ("committed", True), ("anchored", True)]
)
def test_a_kill_leaves_both_or_neither(with_answers, path: Path, monkeypatch, moment, is_done):
    answer(with_answers, tools, 1)
    with_answers.close()
    child = os.fork()
    if child == 0:

        def die(*_):
            os.kill(os.getpid(), signal.SIGKILL)

        if moment == "committed":
            monkeypatch.setattr(store, "write_anchor", die)
        confirmed = Ledger.open(path).confirm(tools.data)
        with confirmed.transaction() as work:
            work.execute(STORE, (2, os.urandom(50_000)))  # more than a page, some of it may be written
            if moment != "stored":
                work.reserve([tools.gaussian(2)], **LABELS)
            if moment in ("stored", "paid"):
                die()
        die()
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    with Ledger.open(path) as ledger:
        assert there(ledger) == (([1, 2], [1, 2]) if is_done else ([1], [1]))
        with ledger.confirm(tools.data).transaction() as work:
            assert work.reserve([tools.gaussian(2)], **LABELS).fresh == (not is_done,)
        assert ledger.statement().releases == 2
        assert ledger.verify() == ledger.head
