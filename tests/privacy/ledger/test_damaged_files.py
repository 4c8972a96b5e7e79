"""Damaged ledgers, anchors and keys: opened and used, or refused by an error of ours."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.contracts import damage
from tests.privacy.ledger import tools

from dpadmm.errors import LedgerError
from dpadmm.privacy.ledger import Ledger, history, open_for_reading
from dpadmm.privacy.ledger.entries import GENESIS, link
from dpadmm.privacy.ledger.store import anchor_text

NUMBER = [25, pytest.param(1000, marks=pytest.mark.slow)]


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


def one_entry(chance, bodies):
    place = chance.randrange(len(bodies))
    bodies[place] = damage.of_json(chance, bodies[place].encode()).decode()
    return bodies


def chained(path, changed=one_entry):
    """Return a damage of entries in a chain that fits, anchor included: whoever edits a ledger can compute it."""

    def change(chance, content):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            connection.deserialize(content)
            connection.execute("DROP TRIGGER entries_no_update")
            found = [body for (body,) in connection.execute("SELECT body FROM entries ORDER BY seq")]
            bodies, digest = changed(chance, found), GENESIS
            for seq, body in enumerate(bodies, start=1):
                digest = link(digest, body)
                connection.execute("UPDATE entries SET body = ?, digest = ? WHERE seq = ?", (body, digest, seq))
            Path(f"{path}.head").write_bytes(anchor_text(len(bodies), digest))
            return connection.serialize()

    return change


@pytest.mark.parametrize("number", NUMBER)
@pytest.mark.parametrize("kind", ["bytes", "cells", "chained"])
def test_logs(closed, kind, number):
    kinds = {"bytes": damage.of_bytes, "cells": damage.of_cells, "chained": chained(closed)}
    copies = damage.attempts(1, number, closed.read_bytes(), kinds[kind])
    assert damage.check(lambda path: use(path, tools), closed, copies) > number / 2


@pytest.mark.parametrize("number", NUMBER)
@pytest.mark.parametrize("end", [".head", ".key"])
def test_anchors_and_keys(closed, end, number):
    path = Path(f"{closed}{end}")
    copies = damage.attempts(2, number, path.read_bytes(), damage.of_bytes)
    assert damage.check(lambda _: use(closed, tools), path, copies) > number / 2


def test_a_release_that_counts_less_than_once_is_refused(closed):
    """It would take from what is spent."""
    change = chained(closed, lambda _, bodies: [body.replace('"count":1', '"count":-1') for body in bodies])
    damage.written(closed, change(None, closed.read_bytes()))
    with pytest.raises(LedgerError, match="Entry 2"):
        use(closed, tools)
