"""Envelopes in Flower's messages, and the coordinator's side of the way."""

import time
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flwr.app import ConfigRecord, Message, RecordDict

if TYPE_CHECKING:
    from flwr.serverapp import Grid

ASKED = "query"
"""Flower's kind of message for a request."""

LIVES_SECONDS = 120.0
"""How long a request waits for its silo; a silo that takes longer has stored its answer when it is asked again."""

LOOK_SECONDS = 0.1
"""How often answers are looked for."""


def content(envelope: bytes) -> RecordDict:
    """Return an envelope as the content of a message."""
    return RecordDict({"dpadmm": ConfigRecord({"envelope": envelope})})


def envelope(message: Message) -> bytes | None:
    """Return the envelope in a message, None where there is none: an error of Flower's, or another app's message."""
    record = message.content.config_records.get("dpadmm") if message.has_content() else None
    found = None if record is None else record.get("envelope")
    return found if isinstance(found, bytes) else None


@dataclass
class FlowerTransport:
    """Carries the envelopes of one run (`federation.transport.Transport`). A node is the number of a SuperNode."""

    grid: "Grid"
    _asked: dict[str, int] = field(default_factory=dict)
    _lost: list[tuple[Hashable, bytes | None]] = field(default_factory=list)

    def nodes(self) -> Iterable[Hashable]:
        """Return the SuperNodes that are there."""
        return list(self.grid.get_node_ids())

    def send(self, node: Hashable, envelope: bytes) -> None:
        """Let Flower hand an envelope to a SuperNode."""
        number = int(str(node))
        message = Message(content(envelope), number, ASKED, ttl=LIVES_SECONDS)
        (name,) = self.grid.push_messages([message]) or ("",)
        if name:
            self._asked[name] = number
        else:  # Flower does not know such a node any more
            self._lost.append((node, None))

    def receive(self) -> Iterable[tuple[Hashable, bytes | None]]:
        """Return what has come; errors do not say from which node, so that each is known by what it answers."""
        time.sleep(LOOK_SECONDS)
        found, self._lost = self._lost, []
        for reply in self.grid.pull_messages(list(self._asked)) if self._asked else ():
            node = self._asked.pop(reply.metadata.reply_to_message_id, None)
            if node is not None:
                found.append((node, envelope(reply)))
        return found
