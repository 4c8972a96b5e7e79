"""What reaches a silo or the coordinator from others: checked before anything is computed from it; and round 0.

In round 0 every silo counts its columns on public bins and answers with the noisy counts (certificate C11); what they
add up to comes with its first round of training. Where silos add the noise, that request relays the signed answers of
all of them, and each silo adds them up itself: nobody between them can change or invent counts, and all silos that
answered once use the same. Where the coordinator adds the noise, or counts leave under masks, it sends the noisy sum.
A silo keeps the counts with its state and takes no others later. For any fixed counts the rows keep the agreed norm, so
the certificates of the training hold whatever the counts are.
"""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpadmm.core.release import noisy_values
from dpadmm.federation import messages
from dpadmm.federation.errors import MessageError, Refusal
from dpadmm.federation.keys import open_envelope
from dpadmm.federation.messages import Answer, Step, Vector
from dpadmm.federation.terms import Terms
from dpadmm.noise.mechanisms import COORDINATOR
from dpadmm.privacy.certificates.local import MOST_PER_NOMINAL
from dpadmm.privacy.ledger.spending import PROFILE_ROUND
from dpadmm.problems.arrays import Floats
from dpadmm.queries.column_profile import PROFILE

if TYPE_CHECKING:
    from dpadmm.data.encoding import RowEncoding
    from dpadmm.data.profile import ReleasedProfile
    from dpadmm.data.schema import Schema


def checked(vector: Floats, terms: Terms, k: int, source: str, agent: int | None = None) -> Floats:
    """Return a vector of round k of the agreed length, finite and of at most the agreed norm; refuse any other.

    Of counts, beyond what the records of this silo, or of all, amount to: a record is counted once in each column, so
    bare counts have at most the norm `records sqrt(columns)`. Where records are a nominal number, there may be many
    times as many.
    """
    length, largest = terms.dimension, terms.largest
    if k == PROFILE_ROUND and terms.profile is not None:
        records = terms.records if agent is None else terms.participants[agent].records
        most = records * (1 if terms.has_public_sizes else MOST_PER_NOMINAL)
        length, largest = terms.n_counts, largest + most * math.sqrt(terms.profile.n_columns)
    if vector.shape != (length,) or vector.dtype.kind != "f":
        raise Refusal(f"The vector from {source} has shape {vector.shape}, not ({length},).")
    if not np.isfinite(vector).all():
        raise Refusal(f"The vector from {source} has values that are not finite.")
    with np.errstate(over="ignore"):
        norm = float(np.linalg.norm(vector))
    if not norm <= largest:
        raise Refusal(f"The vector from {source} has norm {norm:.3g}; at most {largest:g} was agreed.")
    return vector


def read_answer(envelope: bytes, terms: Terms, agent: int, k: int) -> Any:
    """Return what a silo has answered to round k, signed by that silo and of the agreed size: floats, or masked words.

    Anything else in its place is refused.
    """
    person, dtype = terms.participants[agent], "u8" if terms.is_masked else "f8"
    answer = messages.read(open_envelope(envelope, person.key))
    if not isinstance(answer, Answer) or answer.values.dtype != dtype:
        raise MessageError(f"{person.name} sent a {type(answer).__name__} message that is not an answer in {dtype}.")
    if (answer.digest, answer.agent, answer.round) != (terms.digest, agent, k):
        raise Refusal(
            f"A message of {person.name} is about round {answer.round} of silo {answer.agent}, terms "
            f"{answer.digest[:16]}...; round {k} of silo {agent} was expected: the message is replayed, reordered or "
            "misdirected."
        )
    values = answer.values.array
    if not terms.is_masked:
        return checked(values, terms, k, person.name, agent)
    length = terms.n_counts if k == PROFILE_ROUND else terms.dimension
    if values.shape != (length,):
        raise Refusal(f"{person.name} sent {values.size} words, not {length}.")
    return values


def neighbour_inbox(terms: Terms, request: Step) -> Floats | None:
    """Return the sum of the neighbours' messages of the round before (1, d, 1), each with its own signature.

    The relay can drop messages but neither change nor invent them. Added in increasing order of the neighbours, so
    that the sum is bit for bit that of a run in one process. None in round 1: everyone starts at zero.
    """
    if request.inbox.data:
        raise MessageError("A method on a graph takes relayed messages, not a coordinator's vector.")
    if request.round == 1:
        if request.relay:
            raise MessageError("Round 1 starts from public values, so its request must be empty.")
        return None
    if terms.network is None:
        raise MessageError("The terms have no graph.")
    near = terms.network.neighbours(request.agent)
    if len(request.relay) != len(near):
        raise Refusal(f"Silo {request.agent} has {len(near)} neighbours; {len(request.relay)} messages were relayed.")
    total = np.zeros(terms.dimension)
    for neighbour, envelope in zip(near, request.relay, strict=True):
        total = total + read_answer(envelope, terms, int(neighbour), request.round - 1)
    return total[None, :, None]


def taken_inbox(terms: Terms, request: Step) -> Floats | None:
    """Return what a silo's round starts from, checked; None where the method's own first one is meant."""
    if terms.is_graph:
        return neighbour_inbox(terms, request)
    if request.relay:
        raise MessageError("A method with a coordinator takes no relayed messages.")
    if request.round == 1:
        if request.inbox.data:
            raise MessageError("Round 1 starts from public values, so its request must be empty.")
        return None
    return _coordinators(request, terms, request.round, terms.algorithm.inbox_rows)[:, :, None]


def _coordinators(request: Step, terms: Terms, k: int, rows: int) -> Floats:
    """Return the vectors that the coordinator sends, checked."""
    inbox: Floats = request.inbox.array
    if inbox.ndim != 2 or len(inbox) != rows:
        raise Refusal(f"The inbox has shape {inbox.shape}, not {rows} rows.")
    for row in inbox:
        checked(row, terms, k, "the coordinator")
    return inbox


def released_profile(terms: Terms, schema: "Schema", counts: Floats | None) -> "ReleasedProfile | None":
    """Return the profile that the pooled noisy counts of round 0 amount to; None where there was no round 0."""
    from dpadmm.data.profile import ProfileForm, ReleasedProfile

    if counts is None:
        return None
    noise_std = terms.plan.noise_in_sum(PROFILE, PROFILE_ROUND, len(terms.participants))
    form, is_nominal = ProfileForm(schema.columns), not terms.has_public_sizes
    return ReleasedProfile.of(form, counts, noise_std, terms.records, terms.paid_run, is_nominal)


def encoding_of(terms: Terms, schema: "Schema", counts: Floats | None) -> "RowEncoding":
    """Return how rows are encoded under these terms; `counts`: pooled and noisy, where there was a round 0."""
    if terms.clip_radius == 0:
        return schema.by_bounds()
    return schema.encoding(terms.clip_radius, released_profile(terms, schema, counts))


def counts_to_send(terms: Terms, agent: int, counts: Floats) -> Floats:
    """Return a silo's answer to round 0: its counts with its own noise, bare where the coordinator adds the noise.

    Under masks they are still bare: `masked_sums.answer_of` adds this silo's share of the noise.
    """
    if terms.is_masked:
        return counts
    noise = terms.planned_noise()
    if not terms.sends_bare:
        counts = noise.perturb(PROFILE, PROFILE_ROUND, np.array([agent]), counts[None, :, None])[0, :, 0]
    noise.check_drawn(PROFILE_ROUND, agent)
    return checked(counts, terms, PROFILE_ROUND, "this silo's own columns", agent)


def pooled_counts(terms: Terms, vectors: Floats) -> Floats:
    """Return what all silos' answers to round 0 (silos, size) add up to, with the coordinator's noise if it has any."""
    if terms.sends_bare:
        noise = terms.planned_noise()
        vectors = noisy_values(terms.spec.sums[0], terms.plan, vectors[:, :, None], noise)[:, :, 0]
        noise.check_drawn(PROFILE_ROUND, COORDINATOR)
    total: Floats = vectors.sum(axis=0)
    return total


def take_counts(terms: Terms, request: Step) -> tuple[Floats, Step]:
    """Return the pooled counts that come with a silo's first round of training, and the request without them."""
    if terms.spec.facts.is_pooled:
        (counts,) = _coordinators(request, terms, PROFILE_ROUND, 1)
        return counts, replace(request, inbox=Vector.of(np.zeros((0, terms.dimension))))
    if len(request.relay) != len(terms.participants):
        raise Refusal(f"There are {len(terms.participants)} silos; the counts of {len(request.relay)} were relayed.")
    found = [read_answer(envelope, terms, agent, PROFILE_ROUND) for agent, envelope in enumerate(request.relay)]
    return pooled_counts(terms, np.stack(found)), replace(request, relay=())
