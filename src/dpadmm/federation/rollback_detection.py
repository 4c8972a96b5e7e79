"""Is this silo an older copy of itself? Its files cannot show it: the others are asked what they have seen of it.

A directory that was put back as a whole from a backup agrees with itself, ledger and all, and would draw fresh noise
for rounds that were answered before. So a silo draws nothing for terms until more silos than may collude have signed,
over a nonce of this session, the last rounds they have seen of it, and none has seen more than its files know, in this
run or any other that they share. A silo that was asked for round k has seen that everybody asked for round
k - 1 has answered it. Who is asked is up to the coordinator: where it lies, a round is safe that all others but t have
seen.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from dpadmm.errors import ResumeError
from dpadmm.federation import messages
from dpadmm.federation.errors import MessageError
from dpadmm.federation.keys import body_of, open_envelope
from dpadmm.federation.messages import (
    Confirmation,
    ConfirmationRequest,
    Confirmations,
    ConfirmPeers,
    Message,
    PeersConfirmed,
)
from dpadmm.federation.terms import Terms, stored_terms

Reported = TypeVar("Reported", ConfirmationRequest, Confirmation)

PATIENCE_SECONDS = 10.0
"""How long the coordinator waits for all confirmations, once it has enough; at most half of its whole wait."""

MOST_RUNS = 64
"""Runs that a silo confirms to another: a confirmation is no longer than that."""


@dataclass
class Session:
    """What a silo remembers while it is served, in memory alone: no copy of its files has it.

    nonce: over which others confirm. confirmed: the terms, by digest, for which they have. head: of its ledger after
    the last answer; files without it are an older copy.
    """

    nonce: str = field(default_factory=lambda: secrets.token_hex(16))
    confirmed: set[str] = field(default_factory=set)
    head: str | None = None


def least_confirmations(terms: Terms) -> int:
    """Return how many others must confirm: more than may collude."""
    return terms.protection.n_colluders + 1


def seen_of(terms: Terms, about: int, last: int | None) -> int:
    """Return what a silo that has answered round `last` has seen of another: one more than its last answered round."""
    before = range(terms.first_round, terms.first_round if last is None else last)
    return max((k + 1 for k in before if about in terms.agents_of(k)), default=0)


def make_confirmation(terms: Terms, agent: int, answered: Mapping[str, int], envelope: bytes) -> Confirmation:
    """Return what silo `agent` has to say to another's question: about this run, and the latest others of both.

    answered: by their terms, as JSON, the last answered rounds of all its runs, the latest first.
    """
    asked = _signed(terms, envelope, ConfirmationRequest)
    key, this = terms.participants[asked.agent].key, terms.as_json()
    seen: dict[str, int] = {}
    for text, last in sorted(answered.items(), key=lambda each: each[0] != this):
        number = _seen_in(text, key, last) if len(seen) < MOST_RUNS else 0
        if number:
            seen[hashlib.sha256(text.encode()).hexdigest()] = number
    return Confirmation(terms.digest, agent, asked.agent, asked.nonce, seen)


def _seen_in(text: str, key: str, last: int) -> int:
    """Return what was seen of the silo with this key in a run with these terms; nothing if it took no part."""
    terms = stored_terms(text)
    them = [number for number, person in enumerate(terms.participants) if person.key == key]
    return seen_of(terms, them[0], last) if them else 0


def is_confirmed(
    terms: Terms, agent: int, nonce: str, last: Callable[[str], int | None], relay: Iterable[bytes]
) -> bool:
    """Return whether enough others have confirmed silo `agent`, over this nonce; not those over an earlier one.

    last: from the digest of terms to the last round that was answered by its files. `ResumeError` if these are behind
    what any of the others has seen.
    """
    found = {}
    for envelope in relay:
        reported = _signed(terms, envelope, Confirmation)
        if reported.agent != agent and (reported.about, reported.nonce) == (agent, nonce):
            found[reported.agent] = reported.seen.items()
    for digest, seen in {pair for reported in found.values() for pair in reported}:
        known = last(digest)
        if seen > (0 if known is None else known + 1):
            names = [terms.participants[who].name for who, reported in found.items() if (digest, seen) in reported]
            raise ResumeError(
                f"Other silos have seen this one answer round {seen - 1} of the run {digest[:16]}..., as "
                f"{', '.join(sorted(names))} say; its own files know of "
                f"{'none' if known is None else f'no round after {known}'}. They are an older copy, perhaps a backup: "
                "restore the newest files. If there are none, later spending is missing from the ledger, and nothing "
                "more should be released from these data."
            )
    return len(found) >= least_confirmations(terms)


def _signed(terms: Terms, envelope: bytes, kind: type[Reported]) -> Reported:
    """Return a message about these terms, signed by the silo that it says it is from, without anything around it."""
    body = body_of(envelope)
    reported = messages.read(body)
    people = terms.participants
    if not isinstance(reported, kind) or reported.digest != terms.digest or reported.agent >= len(people):
        raise MessageError(f"A relayed message is not of the kind {kind.__name__} about these terms.")
    if reported.encode() != body:
        raise MessageError(f"A relayed {kind.__name__} message is not in its canonical form.")
    open_envelope(envelope, people[reported.agent].key)
    return reported


@dataclass
class RollbackQuestion:
    """A silo's question, since when it is there, and who has answered it."""

    envelope: bytes
    since: float
    confirmations: dict[int, bytes] = field(default_factory=dict)


@dataclass
class RollbackQuestions:
    """The coordinator's part: who asks, and who has confirmed. Nothing of it is kept: a silo asks again."""

    terms: Terms
    clock: Callable[[], float]
    _open: dict[int, RollbackQuestion] = field(default_factory=dict)

    def take(self, agent: int, envelope: bytes, reported: Message) -> bool:
        """Take a message of silo `agent`, whose signature is checked; say whether it is about confirmations."""
        if getattr(reported, "digest", None) != self.terms.digest or getattr(reported, "agent", None) != agent:
            return False
        match reported:
            case ConfirmationRequest():
                _signed(self.terms, envelope, ConfirmationRequest)
                if agent not in self._open or self._open[agent].envelope != envelope:
                    self._open[agent] = RollbackQuestion(envelope, self.clock())
            case PeersConfirmed():
                for each in reported.relay:
                    self._keep(agent, each)
            case messages.Confirmed():
                self._open.pop(agent, None)
            case _:
                return False
        return True

    def _keep(self, agent: int, envelope: bytes) -> None:
        reported = _signed(self.terms, envelope, Confirmation)
        question = self._open.get(reported.about) if reported.agent == agent else None
        asked = None if question is None else messages.read(body_of(question.envelope))
        if question is not None and isinstance(asked, ConfirmationRequest) and asked.nonce == reported.nonce:
            question.confirmations[agent] = envelope

    def due(self, waiting: list[int]) -> list[tuple[int, Message]]:
        """Return what must be sent, to whom, before the round can go on; nothing unless all who are waited for ask.

        Together, so that silos which begin together ask each of the others once.
        """
        if not waiting or any(agent not in self._open for agent in waiting):
            return []
        digest, n = self.terms.digest, len(self.terms.participants)
        sent: list[tuple[int, Message]] = []
        for peer in range(n):
            asks = [
                self._open[who].envelope for who in waiting if who != peer and peer not in self._open[who].confirmations
            ]
            if asks:
                sent.append((peer, ConfirmPeers(digest, peer, tuple(asks))))
        for who in waiting:
            question = self._open[who]
            is_patient = 0 <= self.clock() - question.since < min(PATIENCE_SECONDS, self.terms.wait_seconds / 2)
            if len(question.confirmations) >= (n - 1 if is_patient else least_confirmations(self.terms)):
                sent.append((who, Confirmations(digest, who, tuple(question.confirmations.values()))))
        return sent

    def is_asking(self, agent: int) -> bool:
        """Return whether a silo waits for confirmations."""
        return agent in self._open
