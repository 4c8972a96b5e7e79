"""A service's log in files of bounded size, where no service manager keeps one."""

import os
import re
import sys
from functools import partial
from io import TextIOWrapper
from logging import LogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path

from dpadmm.errors import InputError

MOST_BYTES = 10_000_000
"""How large a file of the log becomes before the next is begun."""

FILES = 5
"""How many of them there are: FILE, FILE.1, ..."""

_LINE = re.compile(rb"\d{4}-\d\d-\d\d ")


class LogFile(RotatingFileHandler):
    """Writes a log, readable by its owner alone; the oldest part goes when there is too much of it.

    Where it cannot be written, as on a full disk, that is said once, and the service goes on.
    """

    def __init__(self, path: Path) -> None:
        """Begin a new log, or go on with one; refuse a file that is something else."""
        self._is_told = False
        try:
            _check_log(path)
            super().__init__(path, maxBytes=MOST_BYTES, backupCount=FILES - 1, encoding="utf-8")
        except OSError as problem:
            raise InputError(
                f"The log {path} cannot be written: {problem.strerror}. Choose another location."
            ) from problem

    def _open(self) -> TextIOWrapper:
        opener = partial(os.open, mode=0o600)
        return open(self.baseFilename, "a", encoding="utf-8", opener=opener)

    def handleError(self, record: LogRecord) -> None:
        """Say once that the log has gaps; logging itself would print where it was called, for every line."""
        if not self._is_told:
            sys.stderr.write(f"The log {self.baseFilename} cannot be written at the moment; lines are being lost.\n")
        self._is_told = True


def _check_log(path: Path) -> None:
    """Refuse to write a log behind a table, a ledger or anything else that does not begin like one."""
    if path.exists() and not path.is_file():
        raise InputError(f"The log {path} exists and is not a file. Choose another location.")
    if path.is_file() and path.stat().st_size:
        with path.open("rb") as file:
            if _LINE.match(file.read(16)) is None:
                raise InputError(f"{path} already exists and is not a log of this program. Choose another location.")
