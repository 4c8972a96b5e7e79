"""A silo's own log, in its state file, for its owner alone."""

import logging
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime

from dpadmm.federation.refusal import printable

MOST_REFUSALS = 10_000
"""Refusals that a silo's log keeps, the latest ones."""

_log = logging.getLogger("dpadmm.silo")


def now() -> str:
    """Return the time as the state file has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class LogEntry:
    """One line of a silo's own log."""

    time: str
    event: str
    detail: str


class SiloLog:
    """The log in a silo's state file; who calls holds the file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def note(self, event: str, detail: str) -> None:
        """Write one line, here and for whoever watches the process."""
        _log.log(logging.WARNING if event == "refused" else logging.INFO, "%s: %s", event, printable(detail))
        self._connection.execute("INSERT INTO log VALUES (?, ?, ?)", (now(), event, printable(detail)))
        if event == "refused":  # whoever asks in vain as often as he likes fills no disk
            oldest = "SELECT rowid FROM log WHERE event = 'refused' ORDER BY rowid DESC LIMIT 1 OFFSET ?"
            self._connection.execute(f"DELETE FROM log WHERE rowid = ({oldest})", (MOST_REFUSALS,))

    def entries(self) -> list[LogEntry]:
        """Return all lines, oldest first."""
        rows = self._connection.execute("SELECT time, event, detail FROM log ORDER BY rowid").fetchall()
        return [LogEntry(*row) for row in rows]
