"""Envelopes in Flower's messages, and the coordinator's side of the way.

Flower knows SuperNodes by numbers, which are new each time one starts; a federation knows silos by their keys. So every
SuperNode that is not known yet is shown the invitation of the run: who signs the answer is there.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flwr.app import ConfigRecord, Message, RecordDict

from dpadmm.federation.errors import MessageError
from dpadmm.federation.keys import open_envelope

if TYPE_CHECKING:
    from flwr.serverapp import Grid

ASKED = "query"
"""Flower's kind of message for a request."""

LIVES_SECONDS = 120.0
"""How long a request waits for its silo; a silo that takes longer has stored its answer when it is asked again."""

RETRY_SECONDS = 2.0
"""How soon a SuperNode that could not answer is shown the invitation again."""

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
    """Carries the envelopes of one run (`federation.transport.Transport`), whose silos have these keys."""

    grid: "Grid"
    invitation: bytes
    keys: tuple[str, ...]
    _nodes: dict[str, int] = field(default_factory=dict)
    _due: dict[str, bytes] = field(default_factory=dict)
    _shown: dict[int, float] = field(default_factory=dict)
    _asked: dict[str, int] = field(default_factory=dict)

    def send(self, key: str, envelope: bytes) -> None:
        """Let Flower hand an envelope to a silo, as soon as it is known where that is."""
        if key not in self._nodes or not self._push(self._nodes[key], envelope):
            self._nodes.pop(key, None)
            self._due[key] = envelope

    def receive(self) -> Iterable[tuple[str, bytes]]:
        """Return what has come; errors do not say from which node, so that each is known by what it answers."""
        time.sleep(LOOK_SECONDS)
        self._show_invitation()
        found = []
        for reply in self.grid.pull_messages(list(self._asked)) if self._asked else ():
            node = self._asked.pop(reply.metadata.reply_to_message_id, None)
            if node is None:
                continue
            answer, key = envelope(reply), self._key_of(node)
            if answer is None:
                self._forget(node, key)
                continue
            key = key or self._signer(answer)
            if key is not None:
                found.append((key, answer))
                self._nodes[key] = node
                if key in self._due:
                    self.send(key, self._due.pop(key))
        return found

    def _push(self, node: int, envelope: bytes) -> bool:
        """Let Flower hand an envelope to a SuperNode; return whether it knows such a node."""
        (name,) = self.grid.push_messages([Message(content(envelope), node, ASKED, ttl=LIVES_SECONDS)]) or ("",)
        if name:
            self._asked[name] = node
        return bool(name)

    def _show_invitation(self) -> None:
        if not self._due:
            return
        now, known = time.monotonic(), set(self._nodes.values())
        for node in self.grid.get_node_ids():
            if node not in known and now >= self._shown.get(node, now):
                self._shown[node] = now + LIVES_SECONDS
                self._push(node, self.invitation)

    def _forget(self, node: int, key: str | None) -> None:
        """Look for a silo whose SuperNode has failed everywhere: it may come back as another."""
        self._shown[node] = time.monotonic() + RETRY_SECONDS
        if key is not None:
            del self._nodes[key]

    def _key_of(self, node: int) -> str | None:
        return next((key for key, place in self._nodes.items() if place == node), None)

    def _signer(self, answer: bytes) -> str | None:
        """Return which silo that was looked for has signed this, None if none has."""
        for key in self.keys:
            if key in self._nodes:
                continue
            try:
                open_envelope(answer, key)
            except MessageError:
                continue
            return key
        return None
