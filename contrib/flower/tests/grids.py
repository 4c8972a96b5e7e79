"""SuperNodes in this process, behind Flower's public interface: real messages, the real ClientApp, no network."""

import copy
from collections.abc import Iterable
from itertools import count
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the extra dpadmm[flower]")

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid

from dpadmm_flower.client import app

SERVER = 1


class SuperNodes(Grid):
    """Each is a directory and what Flower keeps in its memory; its apps answer when somebody looks for answers."""

    def __init__(self, *directories: Path) -> None:
        self.contexts: dict[int, Context] = {}
        self._numbers, self._sent = count(100), {}
        for directory in directories:
            self.start(directory)

    def start(self, directory: Path, number: int | None = None) -> None:
        """Start a SuperNode; it has a new number unless Flower knows it by a key."""
        number = next(self._numbers) if number is None else number
        self.contexts[number] = Context(SERVER, number, {"silo": str(directory)}, RecordDict(), {})

    def kill(self, number: int) -> None:
        """End one; its memory is gone."""
        del self.contexts[number]

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        names = []
        for message in messages:
            known = message.metadata.dst_node_id in self.contexts
            names.append(f"message {len(self._sent)}" if known else "")
            vars(message.metadata)["_message_id"] = names[-1]
            self._sent[names[-1]] = copy.deepcopy(message)
        return names

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self.answered(self._sent[name]) for name in message_ids]

    def answered(self, message: Message) -> Message:
        """Let the app answer, in a process of its own as far as Flower's memory is concerned."""
        kept = self.contexts.get(message.metadata.dst_node_id)
        if kept is None:
            reply = Message(Error(5, "Node Unavailable"), reply_to=message)
            vars(reply.metadata)["_src_node_id"] = SERVER  # as Flower does
            return reply
        context = copy.deepcopy(kept)
        reply = app(message, context)
        self.contexts[context.node_id] = copy.deepcopy(context)
        return reply

    def set_run(self, run) -> None:
        raise NotImplementedError

    @property
    def run(self):
        raise NotImplementedError

    def create_message(self, *_, **__):
        raise NotImplementedError

    def send_and_receive(self, *_, **__):
        raise NotImplementedError
