"""The ClientApp: one request in, one answer out. Flower starts a process for each, beside the silo's data.

The silo is in the directory that the SuperNode's owner names: `flower-supernode --node-config "silo='/srv/clinic'"`.
"""

import logging
from contextlib import closing
from pathlib import Path

from flwr.app import ConfigRecord, Context, Error, Message
from flwr.clientapp import ClientApp

from dpadmm.errors import InputError
from dpadmm.federation.errors import reason_of
from dpadmm.federation.party_directory import exclusive_lock
from dpadmm.federation.rollback_detection import Session
from dpadmm.federation.silo import Silo
from dpadmm.federation.silo_directory import SiloDirectory
from dpadmm_flower.transport import ASKED, content, envelope

FAILED = Error(0, "This silo cannot answer now; the reason is in the log of its SuperNode.")
_SESSION = "dpadmm"
_log = logging.getLogger("dpadmm.silo")

app = ClientApp()


@app.query()
def answer(message: Message, context: Context) -> Message:
    """Answer a request, or say that it cannot be answered now; Flower would tell the text of an exception outside."""
    try:
        return Message(content(_answer(message, context)), reply_to=message)
    except Exception as failure:  # noqa: BLE001 - whatever it is, its text may quote a record
        _log.error("no answer: %s", reason_of(failure))
        return Message(FAILED, reply_to=message)


def _answer(message: Message, context: Context) -> bytes:
    place, asked = context.node_config.get("silo"), envelope(message)
    if not isinstance(place, str):
        raise InputError("This SuperNode names no silo: start it with --node-config \"silo='DIR'\".")
    if asked is None:
        raise InputError(f"A {ASKED} message has no envelope: is it from another app?")
    files = SiloDirectory(Path(place))
    files.check()
    with exclusive_lock(files.lock, "This silo"):
        session = _session(context)
        with closing(Silo(files.directory, session=session)) as silo:
            reply = silo.answer(asked)
            kept = context.state[_SESSION] = ConfigRecord()
            kept["nonce"], kept["head"] = silo.session.nonce, silo.session.head or ""
            kept["confirmed"] = sorted(silo.session.confirmed)
    return reply


def _session(context: Context) -> Session | None:
    """Return what earlier processes for this run remember: it is in the SuperNode's memory, and gone when that ends."""
    kept = context.state.config_records.get(_SESSION)
    if kept is None:
        return None
    confirmed = kept["confirmed"]
    assert isinstance(confirmed, list)
    return Session(str(kept["nonce"]), set(map(str, confirmed)), str(kept["head"]) or None)
