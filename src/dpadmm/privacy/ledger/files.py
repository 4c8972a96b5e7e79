"""The files of a ledger: the log itself, the key of its fingerprint (`.key`) and the anchor of its chain (`.head`)."""

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from dpadmm.errors import LedgerError
from dpadmm.privacy.ledger import chain, store
from dpadmm.privacy.ledger.account import Account, check_history, read_account
from dpadmm.privacy.ledger.chain import GENESIS, Kind, Writer
from dpadmm.privacy.ledger.fingerprint import fingerprint, key_check, new_key, write_new


def key_path(path: Path) -> Path:
    """Return where the key of the ledger at `path` is."""
    return path.with_name(path.name + ".key")


def anchor_path(path: Path) -> Path:
    """Return where the anchor of the ledger at `path` is."""
    return path.with_name(path.name + ".head")


def create(path: Path, data: Mapping[str, ArrayLike], content: Mapping[str, Any]) -> None:
    """Write the three files of a new ledger whose first entry is `content` and the fingerprint of `data`.

    The log appears under its name only when it is complete; if anything fails, nothing stays behind. If the process is
    killed here, a key without a log stays behind, and the name is refused until somebody removes it.
    """
    draft = path.with_name(path.name + ".new")
    leftovers = [path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal")]
    there = [str(file) for file in (path, key_path(path), anchor_path(path), draft, *leftovers) if file.exists()]
    if there:
        raise LedgerError(
            f"{', '.join(there)} already there: a ledger is never overwritten. Open it, choose another name, or "
            "move all of its files away if you are sure that nothing was ever released from these data."
        )
    fingerprint(data, bytes(32))  # refuses unusable data before anything is written
    key = new_key(key_path(path))
    made = [key_path(path)]
    try:
        prints = {"fingerprint": fingerprint(data, key), "key_check": key_check(key)}
        first = Writer(0, GENESIS).next(Kind.CREATED, {**content, **prints})
        write_new(anchor_path(path), chain.anchor_text(first.seq, first.digest))
        made += [anchor_path(path), draft]
        with store.clear_errors(path):
            store.create_file(draft, first)
        os.rename(draft, path)
        _sync_directory(path.parent)
    except BaseException:
        for file in made:
            file.unlink(missing_ok=True)
        raise


def open_checked(path: Path, expected_head: str | None, timeout: float) -> tuple[sqlite3.Connection, Account]:
    """Return a connection for writing and the account, once the file, its chain and its anchor are found sound."""
    store.inspect(path, timeout)
    anchor = chain.read_anchor(anchor_path(path))  # before the log, which can only be ahead of it
    if anchor is None and expected_head is None:
        raise LedgerError(
            f"The anchor file {anchor_path(path)} is missing, so an older copy of the ledger could not be told from "
            "the true one. Restore it, or pass expected_head from the last statement."
        )
    with store.clear_errors(path):
        with closing(store.connect(path, "mode=ro", timeout)) as reading:
            store.validate(reading, path)
            account = read_account(reading)
            check_history(reading, path, anchor, expected_head)
        connection = store.open_for_writing(path, timeout)
        try:
            store.migrate(connection)
            if anchor is None:
                write_new(anchor_path(path), chain.anchor_text(account.reader.seq, account.reader.digest))
        except BaseException:
            connection.close()
            raise
    return connection, account


def identity(path: Path) -> tuple[int, int] | None:
    """Return what tells this file from another at the same path, None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
