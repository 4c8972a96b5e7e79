"""Damaged ledgers, anchors and keys: opened and used, or refused by an error of ours."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.contracts import damage

from dpadmm.errors import LedgerError
from dpadmm.privacy.ledger import Ledger, history, open_for_reading
from dpadmm.privacy.ledger.entries import GENESIS, link
from dpadmm.privacy.ledger.store import anchor_text

NUMBER = [25, pytest.param(1000, marks=pytest.mark.slow)]


@pytest.fixture
def closed(path, tools):
    """A closed ledger with three releases."""
    with Ledger.create(path, tools.data, tools.budget) as ledger:
        for k in range(3):
            tools.reserve(ledger, tools.gaussian(k))
    return path


def use(path, tools):
    """Open the ledger in both ways and read all that is in it."""
    history._KEPT.clear()  # accounts that this process remembers
    for opened in (Ledger.open, open_for_reading):
        with opened(path) as ledger:
            ledger.statement()
            ledger.runs()
            ledger.verify()
            ledger.profiles()
            ledger.confirm(tools.data)


def chained(path):
    """Return a damage of one entry in a chain that fits, anchor included: whoever edits a ledger can compute it."""

    def change(chance, content):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            connection.deserialize(content)
            connection.execute("DROP TRIGGER entries_no_update")
            bodies = [body for (body,) in connection.execute("SELECT body FROM entries ORDER BY seq")]
            place, digest = chance.randrange(len(bodies)), GENESIS
            bodies[place] = damage.of_json(chance, bodies[place].encode()).decode()
            for seq, body in enumerate(bodies, start=1):
                digest = link(digest, body)
                connection.execute("UPDATE entries SET body = ?, digest = ? WHERE seq = ?", (body, digest, seq))
            Path(f"{path}.head").write_bytes(anchor_text(len(bodies), digest))
            return connection.serialize()

    return change


@pytest.mark.parametrize("number", NUMBER)
@pytest.mark.parametrize("kind", ["bytes", "cells", "chained"])
def test_logs(closed, tools, kind, number):
    kinds = {"bytes": damage.of_bytes, "cells": damage.of_cells, "chained": chained(closed)}
    copies = damage.attempts(1, number, closed.read_bytes(), kinds[kind])
    assert damage.check(lambda path: use(path, tools), closed, copies) > number / 2


@pytest.mark.parametrize("number", NUMBER)
@pytest.mark.parametrize("end", [".head", ".key"])
def test_anchors_and_keys(closed, tools, end, number):
    path = Path(f"{closed}{end}")
    copies = damage.attempts(2, number, path.read_bytes(), damage.of_bytes)
    assert damage.check(lambda _: use(closed, tools), path, copies) > number / 2


def test_a_release_that_counts_less_than_once_is_refused(closed, tools):
    """It would take from what is spent."""

    def change(_, content):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            connection.deserialize(content)
            connection.execute("DROP TRIGGER entries_no_update")
            rows = connection.execute("SELECT seq, body FROM entries ORDER BY seq").fetchall()
            digest = GENESIS
            for seq, body in rows:
                body = body.replace('"count":1', '"count":-1')
                digest = link(digest, body)
                connection.execute("UPDATE entries SET body = ?, digest = ? WHERE seq = ?", (body, digest, seq))
            Path(f"{closed}.head").write_bytes(anchor_text(len(rows), digest))
            return connection.serialize()

    damage.written(closed, change(None, closed.read_bytes()))
    with pytest.raises(LedgerError, match="Entry 2 cannot be understood"):
        use(closed, tools)
