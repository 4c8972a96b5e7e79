"""From a plan that was carried out to the facts that may be told about it."""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from dpadmm import __version__
from dpadmm.core.release import PublicRound
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError
from dpadmm.methods.base import Topology, by_name
from dpadmm.noise.mechanisms import CaoOptimal, Constant, Geometric, Schedule, Tail
from dpadmm.planner.carrying import PlanOutcome
from dpadmm.planner.planner import Plan
from dpadmm.privacy.ledger import Ledger
from dpadmm.privacy.protection import Protection, Unit, View
from dpadmm.problems.losses import ReleasedLoss
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.queries.column_profile import ColumnProfile
from dpadmm.queries.curvature import Curvature
from dpadmm.reporting.intervals import CurvatureFacts, contrasts, estimate
from dpadmm.reporting.model import ReleasedModel
from dpadmm.reporting.statement import (
    Custody,
    Guarantee,
    MethodChoice,
    ProfileCost,
    RoundCurve,
    SearchCost,
    SiloFacts,
    Spending,
    Wiring,
)

_NUMBERS = {
    "eta": "penalty between neighbours (eta)",
    "rho": "penalty to the common model (rho)",
    "gamma": "proximal step (gamma)",
    "lam": "relaxation (lambda)",
    "step": "step length",
    "momentum": "momentum",
    "smoothing": "smoothing",
    "clip": "clipping",
    "unit": "protected unit",
    "power": "decay of the step (power)",
}


def released_model(
    outcome: PlanOutcome,
    schema: Schema,
    names: Sequence[str],
    title: str,
    spending: Spending | None = None,
    notes: Sequence[str] = (),
    search: SearchCost | None = None,
) -> ReleasedModel:
    """Return the model of an outcome with everything that may be told about it.

    Parameters
    ----------
    schema: how rows are encoded. names: of the silos. title: of the report.
    spending: what the ledger says after the run, see `spending_of`. notes: what is assumed beyond the certificates.
    search: how the plan was chosen among candidates, if it was.
    """
    plan, guarantee = outcome.plan, guarantee_of(outcome, notes, search)
    choice = choice_of(plan)
    if search is not None:
        choice = dataclasses.replace(choice, reasons=(*choice.reasons, f"settings: {search}"))
    if outcome.encoding is None:
        raise InputError("A model is made from rows that were encoded by the plan; these came encoded.")
    pairs = zip(public_names(names, plan.task.protection.unit), plan.task.sizes, strict=True)
    curvature = None
    if Curvature.name in outcome.costs:
        curvature = CurvatureFacts.of(outcome.done.released[Curvature.name], outcome.costs[Curvature.name])
    return ReleasedModel(
        title=title,
        created=now(),
        package=f"dpadmm {__version__}",
        run=outcome.done.name,
        loss=cast(ReleasedLoss, plan.task.loss),
        coefficients=_coefficients(outcome, schema, curvature),
        schema=schema,
        encoding=outcome.encoding,
        profile=outcome.profile,
        silos=tuple(SiloFacts(name=name, records=size) for name, size in pairs),
        wiring=wiring_of(plan),
        guarantee=guarantee,
        choice=choice,
        noise=_noise_curves(outcome, guarantee.protection),
        history=_history_curves(outcome.public_history),
        custody=Custody.ONE_PLACE,
        spending=spending,
        aim=plan.task.aim,
        curvature=curvature,
    )


def _coefficients(outcome: PlanOutcome, schema: Schema, curvature: CurvatureFacts | None) -> tuple[float, ...]:
    """Return the released models; where intervals can be told, their centre, so that a model has one coefficient."""
    if curvature is not None and outcome.encoding is not None:
        found = estimate(curvature, contrasts(schema.columns, outcome.encoding).basis)
        if found.is_told:
            return tuple(found.centre.tolist())
    return tuple(outcome.models.ravel().tolist())


def public_names(names: Sequence[str], unit: Unit) -> Sequence[str]:
    """Return the names under which silos are told: where each is a person, their numbers.

    >>> public_names(["Meier", "Roth"], Unit.USER)
    ['user 1', 'user 2']
    """
    return [f"user {i}" for i in range(1, len(names) + 1)] if unit is Unit.USER else names


def now() -> str:
    """Return the time as the files and the page show it."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def guarantee_of(outcome: PlanOutcome, notes: Sequence[str] = (), search: SearchCost | None = None) -> Guarantee:
    """Return what the run's statement certifies at the task's delta."""
    plan, run = outcome.plan, outcome.plan.task.profile.earlier_run
    earlier = f"rows are encoded by the column profile that run {run!r} released earlier; the epsilon includes it"
    return Guarantee.of(
        outcome.account,
        outcome.done.plan.by(range(plan.task.n_silos)),
        delta=plan.whole.delta,
        origin=outcome.origin,
        assumptions=(*([] if run is None else [earlier]), *notes),
        problems=plan.n_models,
        profile=_profile_cost(outcome),
        search=search,
        subject="the model" if search is None else search.subject,
    )


def _profile_cost(outcome: PlanOutcome) -> ProfileCost | None:
    if outcome.profile is None:
        return None
    return ProfileCost(
        columns=len(outcome.profile.columns),
        epsilon=outcome.costs[ColumnProfile.name],
        run_epsilon=outcome.done.plan.account().curve.epsilon(outcome.plan.whole.delta),
        earlier_run=outcome.plan.task.profile.earlier_run,
    )


def wiring_of(plan: Plan) -> Wiring:
    """Return who talks to whom."""
    topology = by_name()[plan.method].about.topology
    network = plan.run.setting.network
    if network is not None:
        edges = tuple((int(a), int(b)) for a, b in network.edges)
        full = plan.task.n_silos * (plan.task.n_silos - 1) // 2
        words = "every silo with every other" if len(edges) == full else f"{len(edges)} pairs of silos talk"
        return Wiring(words=words, edges=edges)
    if topology is Topology.ALONE or plan.task.n_silos == 1:
        return Wiring(words="each silo speaks once" if plan.rounds == 1 else "one silo releases on its own")
    return Wiring(words="every silo with a coordinator", has_coordinator=True)


def choice_of(plan: Plan) -> MethodChoice:
    """Return the plan in words."""
    penalty = plan.run.setting.problem.regulariser
    return MethodChoice(
        method=plan.method,
        summary=by_name()[plan.method].about.summary,
        rounds=plan.rounds,
        settings=(
            *numbers_of(plan.run.method),
            ("ridge", f"{plan.candidate.mu:.3g}"),
            ("further penalty", "none" if penalty == ElasticNet() else repr(penalty)),
            ("noise", schedule_words(plan.run.schedule)),
            ("released", plan.run.output.value),
        ),
        reasons=plan.reasons,
        warnings=plan.warnings,
        is_hopeless=plan.is_hopeless,
        expected=plan.expected,
    )


def numbers_of(algorithm: Any) -> tuple[tuple[str, str], ...]:
    """Return the numbers of a method with what they are; what it leaves open, or was not set, is not listed."""
    found = ((each.name, getattr(algorithm, each.name)) for each in dataclasses.fields(algorithm))
    return tuple((_NUMBERS[name], f"{value:.4g}") for name, value in found if name in _NUMBERS and _is_number(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def schedule_words(schedule: Schedule | None) -> str:
    """Return how the noise runs over the rounds.

    >>> schedule_words(Tail())
    'constant in the first half of the rounds, then growing slowly: late rounds count less'
    """
    match schedule:
        case None:
            return "set by the method"
        case Constant():
            return "the same in every round"
        case Tail():
            return "constant in the first half of the rounds, then growing slowly: late rounds count less"
        case Geometric() | CaoOptimal():
            return "falling from round to round"
    return "as given, round by round"


def _noise_curves(outcome: PlanOutcome, protected: Protection) -> tuple[RoundCurve, ...]:
    rounds = _first_kind(outcome.public_history)
    bounds: dict[int, float] = {}
    for release in outcome.runs[0].plan:
        bounds[release.round] = max(bounds.get(release.round, 0.0), release.bound)
    ks = tuple(each.round for each in rounds)
    is_sum = protected.view is View.AGGREGATE
    change, what = (protected.change, "the sum") if is_sum else (protected.change_in_one_silo, "a message")
    return (
        RoundCurve(
            name="message",
            meaning="size of the sum, noise included" if is_sum else "mean size of what was sent, noise included",
            rounds=ks,
            values=tuple(math.fsum(each.norms) / len(each.norms) for each in rounds),
        ),
        RoundCurve(
            name="noise",
            meaning=f"expected size of the noise in {what}" + (", the shares of all silos" if is_sum else ""),
            rounds=ks,
            values=tuple(each.noise_norm for each in rounds),
        ),
        RoundCurve(
            name="protected change",
            meaning=f"the most that {protected.relation.changing} {change} can move {what} (certified sensitivity)",
            rounds=tuple(k for k in ks if k in bounds),
            values=tuple(bounds[k] for k in ks if k in bounds),
        ),
    )


def _history_curves(history: Iterable[PublicRound]) -> tuple[RoundCurve, ...]:
    rounds = _first_kind(history)
    ks = tuple(each.round for each in rounds)
    return (
        RoundCurve(
            name="average so far",
            meaning="how far the mean of all messages so far moved in this round",
            rounds=ks,
            values=tuple(each.average_movement for each in rounds),
        ),
        RoundCurve(
            name="one round",
            meaning="how far the mean message of a round is from that of the previous round, noise included",
            rounds=ks,
            values=tuple(each.movement for each in rounds),
        ),
        RoundCurve(
            name="noise",
            meaning="expected size of the noise in the mean message of a round",
            rounds=ks,
            values=tuple(each.noise_norm / math.sqrt(len(each.norms)) for each in rounds),
        ),
    )


def _first_kind(history: Iterable[PublicRound]) -> list[PublicRound]:
    """Return one entry per round: methods with several messages a round are shown by their first."""
    seen: dict[int, PublicRound] = {}
    for each in history:
        seen.setdefault(each.round, each)
    return list(seen.values())


def spending_of(ledger: Ledger, name: str) -> Spending:
    """Return what a ledger says now."""
    said = ledger.statement()
    return Spending(
        ledger=name,
        budget_epsilon=said.budget.epsilon,
        budget_delta=said.budget.delta,
        spent_epsilon=said.spent_epsilon,
        # A hair of rounding is not a budget.
        left_epsilon=said.left_epsilon if said.left_epsilon > 1e-6 * said.budget.epsilon else 0.0,
        releases=said.releases,
        head=said.head,
        runs=tuple((run.run, run.alone_epsilon) for run in ledger.runs()),
        time=now(),
        data_version=said.version,
        data_since=said.version_since,
    )
