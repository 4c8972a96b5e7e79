"""Sums under masks between silos (C12): who owns the mask keys, what leaves a silo, what all of it adds up to.

Every silo makes one X25519 key for a run and puts its public part into the message by which it joins, signed with its
identity key, with the digest of the terms. The coordinator relays all of these messages, the *roster*, with a silo's
first request; it can neither change nor invent one, since the identity keys are in the terms and their fingerprints
were compared by the owners. Masks are bound to the digest, and so to everybody who takes part.
"""

from collections.abc import Sequence

import numpy as np

from dpadmm.errors import InputError
from dpadmm.federation import messages
from dpadmm.federation.errors import MessageError, Refusal
from dpadmm.federation.inbox import checked
from dpadmm.federation.keys import open_envelope
from dpadmm.federation.messages import Answer, Joined, Vector
from dpadmm.federation.terms import Terms
from dpadmm.noise.masks import MOST_MULTIPLE, MaskKey, Masks, PairwiseMasks, Uint64s, add_masks, from_uint64, sum_uint64
from dpadmm.noise.mechanisms import MessageKind
from dpadmm.problems.arrays import Floats, Ints

Roster = tuple[str, ...]
"""The public parts of all silos' mask keys, in the order of their numbers."""


def read_roster(terms: Terms, relay: Sequence[bytes], agent: int, own: str) -> Roster:
    """Return the mask keys of all silos, each signed by its silo for these terms; refuse anything else.

    own: the key that silo `agent` has made for itself.
    """
    people = terms.participants
    if len(relay) != len(people):
        raise Refusal(f"There are {len(people)} silos; the mask keys of {len(relay)} were relayed.")
    found = tuple(_mask_key(terms, envelope, number) for number, envelope in enumerate(relay))
    if found[agent] != own:
        raise Refusal(f"The mask key relayed for {people[agent].name} is not the one that this silo made.")
    return found


def _mask_key(terms: Terms, envelope: bytes, number: int) -> str:
    person = terms.participants[number]
    reported = messages.read(open_envelope(envelope, person.key))
    if not isinstance(reported, Joined) or reported.mask_key is None:
        raise MessageError(f"{person.name} signed a {type(reported).__name__} message without a mask key.")
    if (reported.digest, reported.agent) != (terms.digest, number):
        raise Refusal(f"The mask key of {person.name} is for different terms or a different silo: it is replayed.")
    if reported.plan != terms.plan_mark:
        raise Refusal(
            f"{person.name} computes different noise, or a different grid, from the same terms. Does it run a "
            "different version of dpadmm?"
        )
    return reported.mask_key


def masks_among(terms: Terms, agent: int, key: MaskKey, roster: Roster) -> PairwiseMasks:
    """Return a silo's masks with all others; refuse keys that make them predictable."""
    try:
        return PairwiseMasks.of(agent, key, roster, terms.digest.encode())
    except InputError as problem:
        raise Refusal(f"The relayed mask keys cannot be used: {problem}") from problem


def answer_of(terms: Terms, agent: int, k: int, vector: Floats, masks: Masks | None) -> Answer:
    """Return what leaves a silo: the vector (d,) as it is, or under masks with this silo's share of the noise."""
    if not terms.is_masked:
        return Answer(terms.digest, agent, k, Vector.of(vector))
    if masks is None:
        raise InputError("There are no masks for this message, so it was not sent.")
    (kind, _), noise = terms.summed(k), terms.planned_noise()
    (share,) = noise.shares(kind, k, np.array([agent]), vector[None, :, None])
    noise.check_drawn(k, agent)
    return Answer(terms.digest, agent, k, Vector.of(add_masks(share[:, 0], masks, kind.name, k)))


def total_of(terms: Terms, k: int, parts: Sequence[Uint64s]) -> Floats:
    """Return the noisy sum (d,) of all silos' values in round k; refuse one whose masks have not vanished.

    Each silo's part is at most 2^52 grids, so a sum beyond N times that is none, and neither is one beyond the agreed
    norm. The silo at fault cannot be identified.
    """
    n = len(terms.participants)
    if len(parts) != n:
        raise Refusal(f"The masks of {n} silos cancel only in the sum of all of them; {len(parts)} have answered.")
    text, grid = sum_uint64(parts), terms.summed(k)[1].certificate.grid
    assert grid is not None
    if np.any(np.abs(text.view(np.int64).astype(np.float64)) > n * MOST_MULTIPLE):
        raise Refusal(
            "The words of all silos do not add up to a valid sum: the masks do not match, or the sum overflowed."
        )
    total = from_uint64(text, grid)
    return checked(total, terms, k, "all silos")


class TakenSum:
    """The noise hook of a coordinator that has nothing but the noisy sum: all noise is in it."""

    def __init__(self, kind: MessageKind, k: int, total: Floats) -> None:
        self._place, self._total = (kind, k), total
        self._is_read = False

    def perturb(self, kind: MessageKind, k: int, agents: Ints, values: Floats) -> Floats:
        """Nothing is left to add noise to."""
        raise InputError(f"Under masks the silos add the noise of {kind} themselves; the coordinator adds none (C12).")

    def total(self, kind: MessageKind, k: int, messages: Floats) -> Floats:
        """Return the sum."""
        if (kind, k) != self._place:
            raise InputError(f"The silos sent the sum of {self._place}, not that of {(kind, k)}.")
        self._is_read = True
        return self._total

    def check_drawn(self, *_: object) -> None:
        """Refuse an exchange that made something else of the messages than their noisy sum."""
        if not self._is_read:
            raise InputError("The method did not read the sum of its messages through noise.total (C12).")
