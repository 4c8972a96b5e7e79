"""The model that a federation ends with: released like any other, with what it cost each silo."""

import numpy as np

from dpadmm import __version__
from dpadmm.checks import plural
from dpadmm.core.model import (
    DataLocation,
    Guarantee,
    MethodChoice,
    NoiseSummary,
    ProfileCost,
    ReleasedModel,
    RoundFacts,
    SiloFacts,
)
from dpadmm.data.columns import describe_class_weights
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError
from dpadmm.federation.inbox import encoding_of, released_profile
from dpadmm.federation.outcome import FederationOutcome
from dpadmm.federation.terms import Terms
from dpadmm.methods.base import Topology
from dpadmm.models.build import now
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.accounting import CollusionEpsilon, account_for
from dpadmm.privacy.protection import Strength
from dpadmm.privacy.releases import Origin
from dpadmm.queries.column_profile import PROFILE


def federation_model(
    outcome: FederationOutcome, schema: Schema, location: DataLocation = DataLocation.FEDERATED
) -> ReleasedModel:
    """Return the model: every figure is public, an agreed term or a function of messages.

    Parameters
    ----------
    schema: the public schema that the silos have encoded by; any other is refused.
    location: a rehearsal has all tables on one machine, `DataLocation.ONE_PLACE`.
    """
    terms = outcome.terms
    check_schema(terms, schema)
    return ReleasedModel(
        title=f"Federation {terms.run}",
        created=now(),
        package=f"dpadmm {__version__}",
        run=terms.paid_run,
        loss=terms.loss,
        coefficients=tuple(outcome.tail_average.tolist()),
        schema=schema,
        encoding=encoding_of(terms, schema, outcome.counts),
        profile=released_profile(terms, schema, outcome.counts),
        silos=tuple(
            SiloFacts(name=each.name, records=each.records, cost=cost)
            for each, cost in zip(terms.participants, outcome.costs, strict=True)
        ),
        guarantee=_guarantee(outcome, schema),
        choice=_choice(outcome),
        history=_history(outcome),
        location=location,
    )


def check_schema(terms: Terms, schema: Schema) -> None:
    """Refuse a schema that is not the one whose digest the silos have approved."""
    if schema.digest != terms.schema:
        raise InputError(
            f"This is not the schema that the silos approved: its digest is {schema.digest}, but the terms name "
            f"{terms.schema}. Give the file that the silos were made with."
        )


def _guarantee(outcome: FederationOutcome, schema: Schema) -> Guarantee:
    terms, worst = outcome.terms, max(outcome.costs, key=lambda cost: cost.epsilon)
    plan = terms.plan
    planned = plan.account()
    weighted = (describe_class_weights(schema.label.classes, terms.class_weights),) if terms.class_weights else ()
    return Guarantee(
        epsilon=worst.epsilon,
        delta=terms.delta,
        protection=planned.protection,
        strength=Strength(worst.strength),
        theorems=(worst.certificate,),
        assumptions=(*account_for(plan).assumptions, *weighted),
        noise=NoiseSummary.of(plan),
        origin=Origin.SECURE if terms.is_secure else Origin.SIMULATED,
        profile=_profile_cost(outcome, worst.epsilon),
        collusion=CollusionEpsilon.of(planned, terms.delta),
    )


def _choice(outcome: FederationOutcome) -> MethodChoice:
    terms = outcome.terms
    first = terms.algorithm.first_averaged_round(terms.rounds)
    return MethodChoice(
        method=terms.method,
        rounds=outcome.rounds,
        topology=Topology.GRAPH if terms.is_graph else Topology.STAR,
        edges=terms.edges,
        settings=(
            *((name, f"{value:.6g}") for name, value in terms.settings),
            ("ridge", f"{terms.mu:.3g}"),
            *(
                (("rows are shortened to", f"{terms.clip_radius:g} of a usual row's norm"),)
                if terms.clip_radius
                else ()
            ),
            ("released", f"mean of the estimates of rounds {first} to {terms.rounds}"),
            *(
                (("messages", f"masked, with up to {plural(terms.protection.n_colluders, 'colluding silo')}"),)
                if terms.is_masked
                else ()
            ),
            ("digest of the terms", terms.digest),
        ),
        reasons=("The terms were fixed and approved by every silo before the run.",),
        warnings=(),
        is_hopeless=False,
    )


def _profile_cost(outcome: FederationOutcome, run_epsilon: float) -> ProfileCost | None:
    """Return what the columns' noisy counts cost the worst person, None without any."""
    terms, row = outcome.terms, outcome.terms.plan.releases.get((PROFILE, 0))
    if row is None or terms.profile is None:
        return None
    alone = NoisePlan({(PROFILE, 0): row}).account().curve.epsilon(terms.delta)
    return ProfileCost(columns=terms.profile.n_columns, epsilon=alone, run_epsilon=run_epsilon)


def _history(outcome: FederationOutcome) -> tuple[RoundFacts, ...]:
    estimates = np.array(outcome.estimates)
    if len(estimates) < 2:
        return ()
    averages = np.cumsum(estimates, axis=0) / np.arange(1, len(estimates) + 1)[:, None]
    moved, drifted = (np.linalg.norm(np.diff(path, axis=0), axis=1).tolist() for path in (estimates, averages))
    pairs = enumerate(zip(moved, drifted, strict=True), 2)
    return tuple(RoundFacts(round=k, movement=one, average_movement=mean) for k, (one, mean) in pairs)
