"""Why a message is not answered, by name."""

import logging
import sqlite3
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpadmm.errors import BudgetError, DpadmmError, without_controls

_log = logging.getLogger("dpadmm")

LONGEST = 500
"""Characters that are kept of text from others."""

MACHINE_FAILURES = (OSError, MemoryError, sqlite3.Error)
"""Not the fault of a message, and may pass: a full disk, no memory, a file that another process holds."""


def printable(text: str) -> str:
    """Return text that others had a hand in, fit for a log and a terminal: no control characters, and not long."""
    short = text if len(text) <= LONGEST else text[:LONGEST] + "..."
    return without_controls(short)


class Refusal(DpadmmError):
    """A request was refused; nothing was computed or spent for it."""


class MessageError(Refusal):
    """A message is malformed, of another version, or wrongly signed."""


class NotApproved(Refusal):
    """The owner has not approved these terms, or not yet."""


class UnexpectedFailure(Refusal):
    """An exception that nobody foresaw, a fault of the program: the message that caused it is refused.

    It states the kind and the line of code; the text of the exception may quote a record.
    """

    def __init__(self, failure: Exception) -> None:
        """Keep what may be shown to others."""
        frames = traceback.extract_tb(failure.__traceback__)
        place = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
        super().__init__(f"{type(failure).__name__}{place}")


class FederationStopped(DpadmmError):
    """The federation cannot continue now, as after an unusable answer of a silo; its state is saved."""


@contextmanager
def refusing_unexpected() -> Iterator[None]:
    """Turn an exception that nobody foresaw into a refusal, and log its kind: no message may end a silo or coordinator.

    Errors of ours and failures of the machine pass.
    """
    try:
        yield
    except (DpadmmError, *MACHINE_FAILURES):
        raise
    except Exception as failure:
        refusal = UnexpectedFailure(failure)
        _log.error("%s: %s", UnexpectedFailure.__name__, refusal)
        raise refusal from failure


def public_reason(refusal: DpadmmError) -> str:
    """Return what may be shown outside: refusals of ours speak of public facts, other errors may not."""
    if isinstance(refusal, Refusal) and not isinstance(refusal, UnexpectedFailure):
        return printable(str(refusal))
    if isinstance(refusal, BudgetError):
        return "The budget of this silo does not allow it."
    return f"{type(refusal).__name__}; the reason is in the silo's own log."


def reason_of(failure: Exception) -> str:
    """Return a failure for the log: errors of ours and of SQLite quote no cell, the text of any other may."""
    kind = type(failure).__name__
    is_known = isinstance(failure, DpadmmError | sqlite3.Error) or isinstance(failure.__cause__, DpadmmError)
    return f"{kind}: {failure}" if is_known else f"{kind}, whose text may quote a record"
