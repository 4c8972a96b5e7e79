"""The files of a ledger: the log itself, the key of its fingerprint (`.key`) and the anchor of its chain (`.head`)."""

import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any

from dpadmm.errors import LedgerError
from dpadmm.privacy.ledger import chain, store
from dpadmm.privacy.ledger.account import Account, check_history, check_keys, first_content, read_account
from dpadmm.privacy.ledger.chain import GENESIS, Kind, Writer
from dpadmm.privacy.ledger.keys import key_check, new_key, write_new
from dpadmm.privacy.ledger.meter import Budget
from dpadmm.privacy.ledger.silos import KnownData, SiloColumns
from dpadmm.privacy.records import Protection, Unit


def key_path(path: Path) -> Path:
    """Return where the key of the ledger at `path` is."""
    return path.with_name(path.name + ".key")


def anchor_path(path: Path) -> Path:
    """Return where the anchor of the ledger at `path` is."""
    return path.with_name(path.name + ".head")


def create(
    path: Path,
    data: Sequence[SiloColumns],
    budget: Budget,
    protection: Protection,
    carried: Iterable[tuple[Kind, dict[str, Any]]] = (),
) -> None:
    """Write the three files of a new ledger for these silos; `carried` entries follow the first.

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
    protection.check_silos(len(data))
    are_names_public = protection.unit is not Unit.USER  # a user's name is a person's
    KnownData.of(data, bytes(32))  # refuses unusable data before anything is written
    key = new_key(key_path(path))
    made = [key_path(path)]
    try:
        known = KnownData.of(data, key, are_names_public=are_names_public)
        writer = Writer(0, GENESIS)
        first = {**first_content(budget, protection, known), "key_check": key_check(key)}
        entries = [writer.next(kind, content) for kind, content in ((Kind.CREATED, first), *carried)]
        write_new(anchor_path(path), chain.anchor_text(writer.seq, writer.digest))
        made += [anchor_path(path), draft]
        with store.clear_errors(path):
            store.create_file(draft, entries)
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
        with (
            undisturbed(path, anchor, timeout),
            closing(store.connect_for_reading(path, timeout)) as reading,
            store.transaction(reading, "BEGIN"),
        ):
            store.validate(reading, path)
            if store.is_earlier(reading):
                raise LedgerError(
                    f"{path} was written by an earlier version, which counted silos by their position in a list and "
                    "did not keep all it assumed, so nothing can be added to it. It can be read, and carried over into "
                    f"a new ledger in which nothing is undercounted: `dpadmm ledger migrate {path.name} NEW FILE...`, "
                    "or migrate() in Python."
                )
            account = read_account(reading)
            check_keys(reading, path, account)
            check_history(reading, path, anchor, expected_head)
        connection = store.open_for_writing(path, timeout)
        try:
            if anchor is None:
                write_new(anchor_path(path), chain.anchor_text(account.reader.seq, account.reader.digest))
        except BaseException:
            connection.close()
            raise
    return connection, account


def undisturbed(path: Path, anchor: tuple[int, str] | None, timeout: float) -> AbstractContextManager[object]:
    """Keep writers away for a while; without an anchor there is nothing to lock."""
    return chain.locked_anchor(anchor_path(path), timeout, is_writing=False) if anchor is not None else nullcontext()


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
