"""A version-1 file, which had no table of keys, is brought to the current version with its history untouched."""

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dpadmm.errors import LedgerError, ResumeError
from dpadmm.privacy.ledger import Ledger, store


def create_version_1(path, tools):
    """Write what version 1 wrote, by hand."""
    with Ledger.create(path.with_name("model"), tools.data, tools.budget, compose=tools.compose) as model:
        for k in range(4):
            tools.reserve(model, tools.gaussian(k, agent=k % 2))
        rows = model._connection.execute("SELECT seq, body, digest FROM entries ORDER BY seq").fetchall()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA application_id = 0x6470616C")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(
            """
            CREATE TABLE entries (seq INTEGER PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL);
            CREATE TRIGGER entries_no_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'append-only'); END;
            CREATE TRIGGER entries_no_delete BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'append-only'); END;
            PRAGMA user_version = 1;
            """
        )
        connection.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)
        connection.commit()
    for end in (".key", ".head"):
        Path(f"{path}{end}").write_bytes(path.with_name(f"model{end}").read_bytes())
        Path(f"{path}{end}").chmod(0o600)
    return rows


def schema(path):
    with closing(sqlite3.connect(path)) as connection:
        return set(connection.execute("SELECT type, name, sql FROM sqlite_master"))


def test_version_1_becomes_current(path, tools):
    rows = create_version_1(path, tools)
    with Ledger.open(path, data=tools.data, compose=tools.compose) as ledger:
        assert ledger.statement().releases == 4
        assert ledger.verify() == ledger.head
        entries = list(store.read_entries(ledger._connection))
        assert [(e.seq, e.body, e.digest) for e in entries[:-1]] == rows
        assert {"event": "migration", "from": 1, "to": store.VERSION}.items() <= entries[-1].content().items()
        last = f"{rows[-1][2]}\n{entries[-1].body}".encode()
        assert ledger.head == hashlib.sha256(last).hexdigest()
        assert tools.reserve(ledger, tools.gaussian(1, agent=1)).is_repeat()
        with pytest.raises(ResumeError):
            tools.reserve(ledger, tools.gaussian(1, agent=1, ratio=0.2))
    assert schema(path) == schema(path.with_name("model"))
    with Ledger.open(path) as again:  # once is enough
        kinds = [json.loads(e.body)["event"] for e in store.read_entries(again._connection)]
    assert kinds.count("migration") == 1


def test_a_migration_that_fails_changes_nothing(path, tools, monkeypatch):
    rows = create_version_1(path, tools)
    before = schema(path)

    def half(connection):
        connection.execute("CREATE TABLE keys (run)")
        raise sqlite3.OperationalError("power cut")

    monkeypatch.setattr(store, "MIGRATIONS", (half,))
    with pytest.raises(LedgerError, match="power cut"):
        Ledger.open(path)
    assert schema(path) == before
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM entries").fetchall() == rows
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)


def test_there_is_a_step_for_every_version():
    assert len(store.MIGRATIONS) == store.VERSION - 1
