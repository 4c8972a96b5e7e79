"""Why a message is not answered, by name."""

from dpadmm.errors import DpadmmError, without_controls

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


class PeerError(DpadmmError):
    """A silo answered with something unusable; the coordinator cannot go on with it."""


class FederationStopped(DpadmmError):
    """The federation cannot continue now; its state is saved."""
