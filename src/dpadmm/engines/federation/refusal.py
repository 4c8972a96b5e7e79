"""Why a message is not answered, by name."""

import sqlite3

from dpadmm.errors import BudgetError, DpadmmError, without_controls

LONGEST = 500
"""Characters of a stranger's words that are kept."""


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


class PeerError(DpadmmError):
    """A silo answered with something unusable; the coordinator cannot go on with it."""


class AwaitsApproval(PeerError):
    """The owner of a silo has not approved the terms, or not yet: it is waited for, like one that is not there."""


class FederationStopped(DpadmmError):
    """The federation cannot continue now; its state is saved."""


def public_reason(refusal: DpadmmError) -> str:
    """Return what may be told outside: refusals of ours speak of public facts, other errors may not."""
    if isinstance(refusal, Refusal):
        return printable(str(refusal))
    if isinstance(refusal, BudgetError):
        return "The budget of this silo does not allow it."
    return f"{type(refusal).__name__}; the reason is in the silo's own log."


def reason_of(failure: Exception) -> str:
    """Return a failure for the log: errors of ours and of SQLite quote no cell, the text of any other may."""
    kind = type(failure).__name__
    is_known = isinstance(failure, DpadmmError | sqlite3.Error) or isinstance(failure.__cause__, DpadmmError)
    return f"{kind}: {failure}" if is_known else f"{kind}, whose text may quote a record"
