"""How the silos of a federation encode rows: plainly by bounds, by public knowledge, or by what round 0 has shown.

In round 0 every silo counts its columns on public bins and answers with the noisy counts (certificate C11); what they
add up to comes with its first round of training. Where silos add the noise, that request relays the signed answers of
all of them, and each silo adds them up itself: nobody between them can change or invent counts, and all silos that
answered once use the same. Where the coordinator adds the noise, or counts leave under masks, it sends the noisy sum.
A silo keeps the counts with its state and takes no others later. For any fixed counts the rows keep the agreed norm, so
the certificates of the training hold whatever the counts are.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpadmm.core.release import noisy_values
from dpadmm.federation.errors import Refusal
from dpadmm.federation.inbox import checked_counts, read_step
from dpadmm.federation.messages import Step, Vector
from dpadmm.federation.terms import PROFILE_ROUND, AgreedRun
from dpadmm.noise.mechanisms import COORDINATOR
from dpadmm.problems.arrays import Floats
from dpadmm.queries.column_profile import PROFILE

if TYPE_CHECKING:
    from dpadmm.data.encoding import RowEncoding
    from dpadmm.data.profile import ReleasedProfile
    from dpadmm.data.schema import Schema


def released_profile(terms: AgreedRun, schema: "Schema", counts: Floats | None) -> "ReleasedProfile | None":
    """Return the profile that the pooled noisy counts of round 0 amount to; None where there was no round 0."""
    from dpadmm.data.profile import ProfileForm, ReleasedProfile

    if counts is None:
        return None
    people, run = terms.agreement.participants, terms.agreement.paid_run
    noise_std, records = (
        terms.plan.noise_in_sum(PROFILE, PROFILE_ROUND, len(people)),
        sum(each.records for each in people),
    )
    is_nominal = not terms.agreement.has_public_sizes
    return ReleasedProfile.of(ProfileForm(schema.columns), counts, noise_std, records, run, is_nominal)


def encoding_of(terms: AgreedRun, schema: "Schema", counts: Floats | None) -> "RowEncoding":
    """Return how rows are encoded under these terms; `counts`: pooled and noisy, where there was a round 0."""
    if terms.agreement.clip_radius == 0:
        return schema.by_bounds()
    return schema.encoding(terms.agreement.clip_radius, released_profile(terms, schema, counts))


def counts_to_send(terms: AgreedRun, agent: int, counts: Floats) -> Floats:
    """Return a silo's answer to round 0: its counts with its own noise, bare where the coordinator adds the noise.

    Under masks they are still bare: `masked_sums.summand` adds this silo's share of the noise.
    """
    if terms.is_masked:
        return counts
    noise = terms.noise()
    if not terms.sends_bare:
        counts = noise.perturb(PROFILE, PROFILE_ROUND, np.array([agent]), counts[None, :, None])[0, :, 0]
    noise.check_drawn(PROFILE_ROUND, agent)
    records = terms.agreement.participants[agent].records
    return checked_counts(counts, terms.agreement, records, "this silo's own columns")


def pooled_counts(terms: AgreedRun, vectors: Floats) -> Floats:
    """Return what all silos' answers to round 0 (silos, size) add up to, with the coordinator's noise if it has any."""
    if terms.sends_bare:
        noise = terms.noise()
        assert terms.profile is not None
        vectors = noisy_values(terms.profile, terms.plan, vectors[:, :, None], noise)[:, :, 0]
        noise.check_drawn(PROFILE_ROUND, COORDINATOR)
    total: Floats = vectors.sum(axis=0)
    return total


def take_counts(terms: AgreedRun, request: Step) -> tuple[Floats, Step]:
    """Return the pooled counts that come with a silo's first round of training, and the request without them."""
    agreement = terms.agreement
    if terms.spec.facts.is_pooled:
        inbox = request.inbox.array
        if inbox.shape != (1, agreement.n_counts) or inbox.dtype.kind != "f":
            raise Refusal(f"The counts have shape {inbox.shape}, not (1, {agreement.n_counts}).")
        everybody = sum(each.records for each in agreement.participants)
        counts = checked_counts(inbox[0], agreement, everybody, "the coordinator")
        return counts, replace(request, inbox=Vector.of(np.zeros((0, agreement.dimension))))
    if len(request.relay) != len(agreement.participants):
        raise Refusal(
            f"There are {len(agreement.participants)} silos; the counts of {len(request.relay)} were relayed."
        )
    found = [read_step(envelope, agreement, agent, PROFILE_ROUND) for agent, envelope in enumerate(request.relay)]
    return pooled_counts(terms, np.stack(found)), replace(request, relay=())
