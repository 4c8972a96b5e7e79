"""Why a message is not answered, by name."""

from dpadmm.errors import DpadmmError


class Refusal(DpadmmError):
    """A request was refused; nothing was computed or spent for it."""


class MessageError(Refusal):
    """A message is malformed, of another version, or wrongly signed."""


class PeerError(DpadmmError):
    """A silo answered with something unusable; the coordinator cannot go on with it."""


class FederationStopped(DpadmmError):
    """The federation cannot continue now; its state is saved."""
