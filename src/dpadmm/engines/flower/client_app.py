"""The Flower ClientApp: hands an envelope to the silo in `DPADMM_SILO` and its answer back. Imports nothing heavy."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

if TYPE_CHECKING:
    from dpadmm.engines.federation.silo import Silo

SILO = "DPADMM_SILO"
"""Environment variable with the directory of the silo, set by `dpadmm silo run`."""

RECORD, FIELD = "dpadmm", "envelope"
"""Where the envelope is in Flower's record."""

app = ClientApp()
_open: dict[str, "Silo"] = {}


@app.query()
def answer(message: Message, context: Context) -> Message:
    """Answer a request; what is not ours gets an empty envelope, which the silo refuses by name."""
    envelope = envelope_in(message)
    reply = _silo().answer(envelope)
    return Message(content=content_of(reply), reply_to=message)


def envelope_in(message: Message) -> bytes:
    """Return the envelope in a Flower message, empty if there is none."""
    if not message.has_content():
        return b""
    record = message.content.get(RECORD)
    found = record.get(FIELD) if isinstance(record, ConfigRecord) else None
    return found if isinstance(found, bytes) else b""


def content_of(envelope: bytes) -> RecordDict:
    """Return an envelope as the content of a Flower message."""
    return RecordDict({RECORD: ConfigRecord({FIELD: envelope})})


def _silo() -> "Silo":
    from dpadmm.engines.federation.silo import Silo

    directory = os.environ.get(SILO)
    if not directory:
        raise RuntimeError(f"{SILO} is not set: start the silo with `dpadmm silo run`.")
    if directory not in _open:
        _open[directory] = Silo(Path(directory))
    return _open[directory]
