"""Everything that silos and coordinators make durable, counted, so that a process can be ended around any of it."""

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps

import pytest
from tests.contracts.in_memory import Crashed

from dpadmm.federation import keys, sqlite_file
from dpadmm.privacy.ledger import store


@dataclass
class DurableSteps:
    """Counts the steps of every process, and ends one of them just before or just after one of its steps."""

    point: tuple[str, int, str] | None = None
    actor: str = ""
    seen: list[tuple[str, str]] = field(default_factory=list)
    crashes: int = 0

    @contextmanager
    def watched(self):
        """Watch both kinds of transactions, and all small files."""
        with pytest.MonkeyPatch.context() as patch:
            for owner, name in ((sqlite_file, "exclusive"), (store, "transaction")):
                patch.setattr(owner, name, self._transaction(getattr(owner, name), name))
            writes = ((store, "write_anchor"), (sqlite_file, "save_toml"), (keys, "write_private"), (os, "link"))
            for owner, name in (*writes, (os, "replace")):
                patch.setattr(owner, name, self._write(getattr(owner, name), name))
            yield self

    def points(self, actors) -> list[tuple[str, int, str]]:
        """Return every step of these processes, each cut short and each not followed up."""
        return [(who, n + 1, when) for who in actors for n in range(self.number(who)) for when in ("before", "after")]

    def number(self, actor: str) -> int:
        """Return how many steps a process has made."""
        return sum(who == actor for who, _ in self.seen)

    def _transaction(self, original, name):
        @contextmanager
        def watched(connection, *reading):
            with original(connection, *reading):
                yield
                if reading:
                    return
                number = self._begin(name)
            self._at(number, "after")

        return watched

    def _write(self, original, name):
        @wraps(original)
        def watched(*args, **kwargs):
            number = self._begin(name)
            original(*args, **kwargs)
            self._at(number, "after")

        return watched

    def _begin(self, name) -> int:
        self.seen.append((self.actor, name))
        self._at(self.number(self.actor), "before")
        return self.number(self.actor)

    def _at(self, number: int, when: str) -> None:
        if (self.actor, number, when) == self.point:
            self.point, self.crashes = None, self.crashes + 1
            raise Crashed(f"{self.actor} {when} its durable step {number}, {self.seen[-1][1]}")
