"""Foreign, damaged, old, edited, locked, replaced and full: a clear error, and nothing changed."""

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from tests.privacy.ledger import tools

from dpadmm.errors import LedgerError
from dpadmm.privacy.ledger import Ledger, open_for_reading, spending, store
from dpadmm.privacy.ledger.store import anchor_text, locked_anchor, write_anchor


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def refused(path, match, **arguments):
    before = digest(path)
    with pytest.raises(LedgerError, match=match):
        Ledger.open(path, **arguments)
    assert digest(path) == before


def test_not_there(tmp_path):
    for place in (tmp_path / "none", tmp_path):
        with pytest.raises(LedgerError, match="not exist"):
            Ledger.open(place)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"hello", b"x" * 5000, b"SQLite format 3\0" + bytes(200)])
def test_not_a_ledger(path, content):
    path.write_bytes(content)
    refused(path, "a ledger|a database|malformed")
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_another_applications_database(path, mode):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("CREATE TABLE entries (seq, body, digest)")
        connection.commit()
    refused(path, "application id")
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("version", [0, 1, 2, 4, 99])
def test_another_version(closed, version):
    with closing(sqlite3.connect(closed)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    refused(closed, f"version {version},")


@pytest.mark.parametrize("keep", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_truncated(closed, keep):
    os.truncate(closed, int(closed.stat().st_size * keep))
    refused(closed, "damaged|malformed|a ledger|such table|a database")


def test_every_flipped_page_is_noticed(closed, tmp_path):
    whole = closed.read_bytes()
    size = int.from_bytes(whole[16:18], "big")
    for page in range(len(whole) // size):
        start = page * size
        used = [i for i in range(start, start + size) if whole[i] != 0]
        if not used:
            continue
        spoilt = bytearray(whole)
        for i in used[len(used) // 4 :]:
            spoilt[i] ^= 0x55
        closed.write_bytes(bytes(spoilt))
        with pytest.raises(LedgerError), Ledger.open(closed) as ledger:
            ledger.verify()
    closed.write_bytes(whole)
    Ledger.open(closed).close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET body = replace(body, '\"noise_std\":1.0', '\"noise_std\":9.0') WHERE seq = 3",
        'UPDATE entries SET body = replace(body, \'"time":"2\', \'"time":"1\') WHERE seq = 2',
        "DELETE FROM entries WHERE seq = 3",
        "DELETE FROM entries WHERE seq = 1",
        "DELETE FROM entries WHERE seq = 4",
        "UPDATE entries SET seq = 9 WHERE seq = 4",
        "UPDATE entries SET body = x'00' WHERE seq = 2",
        "DELETE FROM entries",
    ],
)
def test_an_edited_entry_is_noticed(closed, statement):
    tools.edit(closed, statement)
    refused(closed, "chain|older copy|first entry|be read|of keys")


def test_a_history_rewritten_with_good_digests_is_noticed(closed):
    """Cutting off the last entry leaves a sound chain: only the anchor or a noted head can tell."""
    with Ledger.open(closed) as ledger:
        head = ledger.head
    tools.edit(closed, "DELETE FROM entries WHERE seq = 4", "DELETE FROM keys WHERE seq = 4")
    refused(closed, "older copy")
    Path(f"{closed}.head").unlink()
    refused(closed, "is missing")
    refused(closed, "expected head", expected_head=head)


def test_entries_cannot_be_changed_through_sql(closed):
    with closing(sqlite3.connect(closed)) as connection:
        for statement in ("DELETE FROM entries", "UPDATE entries SET body = ''"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(statement)


def test_verify_notices_a_lost_key(closed):
    with Ledger.open(closed) as ledger:
        tools.edit(closed, "DELETE FROM keys WHERE round = 1")
        with pytest.raises(LedgerError, match="keys"):
            ledger.verify()
    refused(closed, "keys")


def test_an_old_copy_is_noticed(closed, tmp_path):
    backup = tmp_path / "backup"
    shutil.copytree(closed.parent, backup, ignore=shutil.ignore_patterns("backup"))
    old_head = Path(f"{closed}.head").read_text().split()[1]
    with Ledger.open(closed) as ledger:
        tools.reserve(ledger, tools.gaussian(3))
        head = ledger.head
    Ledger.open(closed, expected_head=old_head).close()  # a noted head may be an ancestor
    refused(closed, "expected head", expected_head="f" * 64)
    shutil.copy(backup / closed.name, closed)
    refused(closed, "older copy")
    shutil.copy(backup / f"{closed.name}.head", f"{closed}.head")  # the anchor put back too
    refused(closed, "expected head", expected_head=head)
    with Ledger.open(closed, expected_head=old_head) as ledger:
        assert ledger.head == old_head


def test_an_expected_head_replaces_a_lost_anchor(closed):
    with Ledger.open(closed) as ledger:
        head = ledger.head
    anchor = Path(f"{closed}.head")
    saved = anchor.read_bytes()
    anchor.unlink()
    Ledger.open(closed, expected_head=head).close()
    assert anchor.read_bytes() == saved
    anchor.write_bytes(b"nonsense")
    refused(closed, "anchor file", expected_head=head)


def script(body, path):
    """Run `body` in a fresh process that has `path`, `Ledger`, the tools as `c` and an open `ledger`."""
    head = f"""
    import os, resource, runpy, sys
    from dpadmm.errors import LedgerError
    from dpadmm.privacy.ledger import Ledger
    c = runpy.run_path({str(Path(__file__).with_name("tools.py"))!r})
    path = {str(path)!r}
    def opened():
        return Ledger.open(path)
    def reserve(ledger, k):
        return c["reserve"](ledger, c["gaussian"](k, ratio=0.001))
    ledger = opened()
    """
    code = textwrap.dedent(head) + textwrap.dedent(body)
    quiet = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=quiet)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_waits_in_a_side_file(closed):
    """What is recorded is in the one file, also after a kill: no log beside it that could be lost."""
    script("for k in range(3, 6):\n    reserve(ledger, k)\nos._exit(0)", closed)
    assert {each.name for each in closed.parent.iterdir()} == {closed.name, f"{closed.name}.key", f"{closed.name}.head"}
    with Ledger.open(closed) as ledger:
        assert ledger.statement().releases == 6


def test_a_ledger_with_several_names_is_refused(closed):
    os.link(closed, closed.with_name("other"))
    refused(closed, "several names")


def test_reading_the_file_meanwhile_loses_nothing(closed):
    """Closing a plain descriptor drops a process's locks; with a lock held all the time, entries were lost."""
    with Ledger.open(closed) as ledger:
        closed.read_bytes()
        script("reserve(ledger, 9)", closed)
        closed.read_bytes()
        tools.reserve(ledger, tools.gaussian(10))
        assert ledger.statement().releases == 5
    with Ledger.open(closed) as again:
        assert again.statement().releases == 5


def test_a_fork_beside_an_open_ledger_loses_nothing(closed):
    """A child inherits what SQLite knows of locks, not the locks; both released, and one run was missing on file."""
    body = """
    child = os.fork()
    if child == 0:
        with opened() as mine:
            reserve(mine, 20)
            os.read(0, 0)
            reserve(mine, 21)
        os._exit(0)
    ledger.close()
    opened().close()
    with opened() as again:
        reserve(again, 30)
    assert os.waitpid(child, 0)[1] == 0
    with opened() as again:
        reserve(again, 31)
        assert again.statement().releases == 7, again.statement().releases
    """
    script(body, closed)


def test_reading_the_file_within_a_reservation_lets_nobody_else_write(closed, monkeypatch):
    """Closing any descriptor of the file drops SQLite's locks of the process; two reservations became one entry."""

    refusals, compose = [], spending.compose

    def meddling(releases):
        closed.read_bytes()
        try:
            with Ledger.open(closed) as another:
                tools.reserve(another, tools.gaussian(30))
        except LedgerError as refusal:
            refusals.append(str(refusal))
        return compose(releases)

    with Ledger.open(closed) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(spending, "compose", meddling)
            patch.setattr(store, "TIMEOUT", 0.05)
            tools.reserve(ledger, tools.gaussian(20), tools.gaussian(21))
        assert refusals
        assert ledger.statement().releases == 5


def test_an_anchor_that_cannot_be_written_costs_nothing(closed):
    with Ledger.open(closed) as ledger:
        anchor = Path(f"{closed}.head")
        anchor.rename(closed.with_name("away"))
        with pytest.raises(LedgerError, match="was recorded"):
            tools.reserve(ledger, tools.gaussian(20))
        closed.with_name("away").rename(anchor)
        assert ledger.statement().releases == 3


def test_a_journal_left_by_a_crash_is_played_back_by_readers_too(closed, tmp_path):
    """A writer that died in the middle of its pages: the file is torn until its journal is played back."""
    body = """
    from dpadmm.privacy.ledger import store
    connection = ledger._connection
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN IMMEDIATE")
    for k in range(2000):
        connection.execute("INSERT INTO keys VALUES (?, ?, 0, 0, 1)", (f"run {k}", k))
    os._exit(0)
    """
    script(body, closed)
    assert closed.with_name(f"{closed.name}-journal").exists()
    with open_for_reading(closed) as ledger:
        assert ledger.statement().releases == 3
    with Ledger.open(closed) as ledger:
        tools.reserve(ledger, tools.gaussian(20))


def test_a_log_behind_its_anchor_is_not_written_to(closed):
    with Ledger.open(closed) as ledger:
        Path(f"{closed}.head").write_bytes(anchor_text(99, "a" * 64))
        with pytest.raises(LedgerError, match="entry 99"):
            tools.reserve(ledger, tools.gaussian(10))
        assert ledger.statement().releases == 3


def test_create_never_overwrites(path):
    for name in (path, *(Path(f"{path}{end}") for end in (".key", ".head", "-wal", "-journal"))):
        name.write_text("precious")
        with pytest.raises(LedgerError, match="never overwritten"):
            Ledger.create(path, tools.data, tools.budget)
        assert name.read_text() == "precious"
        assert list(path.parent.iterdir()) == [name]
        name.unlink()


def test_a_failed_creation_leaves_nothing(path, monkeypatch):
    monkeypatch.setattr("dpadmm.privacy.ledger.store.append", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Ledger.create(path, tools.data, tools.budget)
    assert list(path.parent.iterdir()) == []
    with pytest.raises(LedgerError, match="be created"):
        Ledger.create(path.parent / "no" / "such", tools.data, tools.budget)


def test_files_are_private(closed):
    for end in ("", ".key", ".head"):
        assert Path(f"{closed}{end}").stat().st_mode & 0o777 == 0o600


def test_a_locked_file_gives_a_clear_error(closed, monkeypatch):
    monkeypatch.setattr(store, "TIMEOUT", 0.05)
    with Ledger.open(closed) as ledger, closing(sqlite3.connect(closed, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="Another process"):
            tools.reserve(ledger, tools.gaussian(9))
        other.execute("ROLLBACK")
        assert ledger.statement().releases == 3
        tools.reserve(ledger, tools.gaussian(9))
        assert ledger.statement().releases == 4


def test_an_anchor_that_another_process_holds_gives_a_clear_error(closed, monkeypatch):
    anchor = Path(f"{closed}.head")
    monkeypatch.setattr(store, "TIMEOUT", 0.05)
    with Ledger.open(closed) as ledger:
        with locked_anchor(anchor, is_writing=False):
            with pytest.raises(LedgerError, match="Another process"):
                tools.reserve(ledger, tools.gaussian(9))
            with pytest.raises(LedgerError, match="Another process"):
                Ledger.open(closed)
        tools.reserve(ledger, tools.gaussian(9))


def test_an_anchor_replaced_while_its_lock_is_awaited(closed):
    """Whoever waits for the lock of a file that is gone does not get that file, but the one that is there."""
    anchor, copy, text = Path(f"{closed}.head"), closed.with_name("copy"), anchor_text(9, "9" * 64)

    def write():
        with locked_anchor(anchor, is_writing=True) as file:
            write_anchor(file, 9, "9" * 64)

    with ThreadPoolExecutor(1) as pool:
        with locked_anchor(anchor, is_writing=True):
            waiting = pool.submit(write)
            time.sleep(0.1)
            shutil.copy(anchor, copy)
            os.replace(copy, anchor)
        waiting.result()
    assert anchor.read_bytes() == text


@pytest.mark.parametrize(("action", "said"), [("unlink", "removed"), ("replace", "replaced"), ("close", "is closed")])
def test_a_file_taken_away_while_open_or_a_closed_ledger(closed, action, said):
    ledger, copy = Ledger.open(closed), closed.with_name("copy")
    copy.write_bytes(b"another file")
    {"unlink": closed.unlink, "replace": lambda: os.replace(copy, closed), "close": ledger.close}[action]()
    with pytest.raises(LedgerError, match=said):
        tools.reserve(ledger, tools.gaussian(9))
    ledger.close()


def test_a_full_disk_records_nothing_half(closed):
    """A limit on the size of files stands for the full disk: writes fail in the middle of a transaction."""
    body = """
    done = 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
    try:
        for k in range(10, 500):
            reserve(ledger, k)
            done += 1
    except LedgerError as error:
        assert "full" in str(error) or "Make room" in str(error), error
        print(done)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert ledger.statement().releases == 3 + done
    reserve(ledger, 10 + done)  # with room again it goes on where it was
    ledger.verify()
    """
    done = int(script(body, closed))
    assert done > 0
    with Ledger.open(closed) as ledger:
        ledger.verify()
        assert ledger.statement().releases == 3 + done + 1


def test_a_ledger_does_not_cross_a_fork(closed):
    body = """
    child = os.fork()
    if child == 0:
        try:
            reserve(ledger, 9)
        except LedgerError as error:
            os._exit(0 if "open it again" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    reserve(ledger, 9)
    assert ledger.statement().releases == 4
    """
    script(body, closed)
