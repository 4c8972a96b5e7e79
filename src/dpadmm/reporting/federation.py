"""The model that a federation ends with: released like any other, with what it cost each silo."""

from dataclasses import asdict

import numpy as np

from dpadmm import __version__
from dpadmm.checks import plural
from dpadmm.data.columns import describe_class_weights
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError
from dpadmm.federation.agreement import Agreement
from dpadmm.federation.columns import encoding_of, released_profile
from dpadmm.federation.outcome import FederationOutcome, SiloOutcome
from dpadmm.federation.terms import agreed_run, loss_of
from dpadmm.methods.base import by_name
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.protection import Strength
from dpadmm.privacy.releases import Origin
from dpadmm.problems.losses import released_loss
from dpadmm.queries.column_profile import PROFILE
from dpadmm.reporting.model import ReleasedModel
from dpadmm.reporting.outcome import now
from dpadmm.reporting.statement import (
    Collusion,
    Custody,
    Guarantee,
    MethodChoice,
    NoiseSummary,
    ProfileCost,
    RoundCurve,
    SiloCost,
    SiloFacts,
    Wiring,
)


def federation_model(outcome: FederationOutcome, schema: Schema, custody: Custody = Custody.FEDERATED) -> ReleasedModel:
    """Return the model: every figure is public, an agreed term or a function of messages.

    Parameters
    ----------
    schema: the public schema that the silos have encoded by; any other is refused.
    custody: a rehearsal has all tables on one machine, `Custody.ONE_PLACE`.
    """
    terms, run = outcome.agreement, agreed_run(outcome.agreement)
    check_schema(terms, schema)
    return ReleasedModel(
        title=f"Federation {terms.run}",
        created=now(),
        package=f"dpadmm {__version__}",
        run=terms.paid_run,
        loss=released_loss(loss_of(terms)),
        coefficients=tuple(outcome.tail_average.tolist()),
        schema=schema,
        encoding=encoding_of(run, schema, outcome.counts),
        profile=released_profile(run, schema, outcome.counts),
        silos=tuple(_silo(silo) for silo in outcome.silos),
        wiring=_wiring(outcome),
        guarantee=_guarantee(outcome, schema),
        choice=_choice(outcome),
        noise=(),
        history=_history(outcome),
        custody=custody,
    )


def check_schema(terms: Agreement, schema: Schema) -> None:
    """Refuse a schema that is not the one whose digest the silos have approved."""
    if schema.digest != terms.schema:
        raise InputError(
            f"This is not the schema that the silos approved: its digest is {schema.digest}, but the terms name "
            f"{terms.schema}. Give the file that the silos were made with."
        )


def _silo(silo: SiloOutcome) -> SiloFacts:
    cost = asdict(silo)
    return SiloFacts(name=cost.pop("name"), records=cost.pop("records"), cost=SiloCost(**cost))


def _guarantee(outcome: FederationOutcome, schema: Schema) -> Guarantee:
    terms, worst = outcome.agreement, max(outcome.silos, key=lambda silo: silo.epsilon)
    plan = agreed_run(terms).plan
    planned = plan.account()
    weighted = (describe_class_weights(schema.label.classes, terms.class_weights),) if terms.class_weights else ()
    return Guarantee(
        epsilon=worst.epsilon,
        delta=terms.delta,
        protection=planned.protection,
        strength=Strength(worst.strength),
        theorems=(worst.certificate,),
        assumptions=(*outcome.assumptions, *weighted),
        noise=NoiseSummary.of(plan),
        origin=Origin.SECURE if outcome.is_private_release else Origin.SIMULATED,
        profile=_profile_cost(outcome, worst.epsilon),
        collusion=Collusion.of(planned, terms.delta),
    )


def _choice(outcome: FederationOutcome) -> MethodChoice:
    terms = outcome.agreement
    first = agreed_run(terms).algorithm.first_averaged_round(terms.rounds)
    return MethodChoice(
        method=terms.method,
        summary=by_name()[terms.method].about.summary,
        rounds=outcome.rounds,
        settings=(
            *((name, f"{value:.6g}") for name, value in terms.settings),
            ("ridge", f"{terms.mu:.3g}"),
            *((("rows are shortened to", f"{terms.reach:g} of a usual row's norm"),) if terms.reach else ()),
            ("released", f"mean of the estimates of rounds {first} to {terms.rounds}"),
            *(
                (("messages", f"masked, with up to {plural(terms.colluders or 0, 'colluding silo')}"),)
                if terms.is_masked
                else ()
            ),
            ("digest of the terms", terms.digest),
        ),
        reasons=("The terms were fixed and approved by every silo before the run.",),
        warnings=(),
        is_hopeless=False,
    )


def _profile_epsilon(outcome: FederationOutcome) -> float | None:
    """Return what the columns' noisy counts cost the worst person by themselves, None without any."""
    row = agreed_run(outcome.agreement).plan.releases.get((PROFILE, 0))
    return None if row is None else NoisePlan({(PROFILE, 0): row}).account().curve.epsilon(outcome.agreement.delta)


def _profile_cost(outcome: FederationOutcome, run_epsilon: float) -> ProfileCost | None:
    terms, epsilon = outcome.agreement, _profile_epsilon(outcome)
    if epsilon is None:
        return None
    return ProfileCost(columns=terms.n_numeric + terms.n_categorical, epsilon=epsilon, run_epsilon=run_epsilon)


def _wiring(outcome: FederationOutcome) -> Wiring:
    terms = outcome.agreement
    if outcome.is_graph:
        return Wiring(words=f"{len(terms.edges)} pairs of silos talk, through a relay", edges=terms.edges)
    return Wiring(words="every silo with a coordinator", has_coordinator=True)


def _history(outcome: FederationOutcome) -> tuple[RoundCurve, ...]:
    if len(outcome.estimates) < 2:
        return ()
    rounds = np.arange(1, len(outcome.estimates) + 1)
    averages = np.cumsum(outcome.estimates, axis=0) / rounds[:, None]
    curves = (
        ("average so far", "how far the mean of all public estimates so far moved in this round", averages),
        ("one round", "how far the public estimate of a round is from that of the previous round", outcome.estimates),
    )
    return tuple(
        RoundCurve(
            name=name,
            meaning=meaning,
            rounds=tuple(rounds[1:].tolist()),
            values=tuple(np.linalg.norm(np.diff(path, axis=0), axis=1).tolist()),
        )
        for name, meaning, path in curves
    )
