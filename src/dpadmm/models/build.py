"""From an outcome to the released model: every public fact about it."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType
from typing import cast

from dpadmm import __version__
from dpadmm.core.loop import Outcome
from dpadmm.core.model import (
    DataLocation,
    Guarantee,
    MethodChoice,
    Place,
    ProfileCost,
    ReleasedModel,
    RoundFacts,
    SearchCost,
    SiloFacts,
)
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError, LedgerError
from dpadmm.inference.intervals import contrasts, estimate, label_of_units
from dpadmm.methods.base import Topology
from dpadmm.methods.preconditioned import SECOND_MOMENTS
from dpadmm.models.statement import search_text
from dpadmm.noise.mechanisms import CaoOptimal, Constant, Geometric, Tail
from dpadmm.planner.planner import Plan
from dpadmm.privacy.ledger import Ledger, Spending, open_for_reading
from dpadmm.privacy.protection import Unit
from dpadmm.problems.losses import Poisson, ReleasedLoss
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.queries.column_profile import ColumnProfile
from dpadmm.queries.curvature import Curvature, CurvatureFacts, ScoreProducts

_NUMBERS = {
    "eta": "penalty between neighbours (eta)",
    "rho": "penalty to the common model (rho)",
    "gamma": "proximal step (gamma)",
    "lam": "relaxation (lambda)",
    "step": "step length",
    "momentum": "momentum",
    "share": "second moments' part of the squared budget (share)",
    "smoothing": "smoothing",
    "clip": "clipping",
    "unit": "protected unit",
    "power": "decay of the step (power)",
}
_SCHEDULES = {
    NoneType: "set by the method",
    Constant: "the same in every round",
    Tail: "constant in the first half of the rounds, then growing slowly: late rounds count less",
    Geometric: "falling from round to round",
    CaoOptimal: "falling from round to round",
}


def released_model(
    plan: Plan,
    outcome: Outcome,
    schema: Schema,
    names: Sequence[str],
    title: str,
    spending: Spending | None = None,
    notes: Sequence[str] = (),
    search: SearchCost | None = None,
) -> ReleasedModel:
    """Return the model of an outcome with every public fact about it.

    Parameters
    ----------
    schema: how rows are encoded. names: of the silos. title: of the report.
    spending: what the ledger says after the run, see `spending_of`. notes: what is assumed beyond the certificates.
    search: how the plan was chosen among candidates, if it was.
    """
    encoding = outcome.encoding
    if encoding is None:
        raise InputError("A model is made from rows that were encoded by the plan; these came encoded.")
    centre, scale = encoding.target_centre_weights, encoding.target_scale  # of the number that was trained on
    coefficients, curvature = (centre + scale * outcome.models.reshape(-1, encoding.dimension)).ravel(), None
    if Curvature.name in outcome.released:
        alone = outcome.cost(Curvature.name, plan.whole.delta)
        products = outcome.released.get(ScoreProducts.name)
        curvature = CurvatureFacts.of(outcome.released[Curvature.name], alone, products, target=(centre, scale))
        if isinstance(plan.task.loss, Poisson) and encoding.constant is not None:
            curvature = curvature.without_scatter(outcome.released[Curvature.name].scatter, encoding.constant)
        found = estimate(curvature, contrasts(schema.columns, encoding, label_of_units(schema.label, plan.task.loss)))
        if found.has_intervals:  # the centre of the intervals, so that a model has one coefficient
            coefficients = found.centre
    pairs = zip(public_names(names, plan.task.protection.unit), plan.task.sizes, strict=True)
    return ReleasedModel(
        title=title,
        created=now(),
        package=f"dpadmm {__version__}",
        run=outcome.name,
        loss=cast(ReleasedLoss, plan.task.loss),
        coefficients=tuple(coefficients.tolist()),
        schema=schema,
        encoding=encoding,
        profile=outcome.profile,
        silos=tuple(SiloFacts(name=name, records=size) for name, size in pairs),
        guarantee=guarantee_of(plan, outcome, notes, search),
        choice=choice_of(plan, search),
        history=history_of(outcome),
        location=DataLocation.ONE_PLACE,
        spending=spending,
        aim=plan.task.aim,
        curvature=curvature,
    )


def public_names(names: Sequence[str], unit: Unit) -> Sequence[str]:
    """Return the names under which silos are shown: where each is a person, their numbers.

    >>> public_names(["Meier", "Roth"], Unit.USER)
    ['user 1', 'user 2']
    """
    return [f"user {i}" for i in range(1, len(names) + 1)] if unit is Unit.USER else names


def now() -> str:
    """Return the time as the files and the page show it."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def guarantee_of(
    plan: Plan, outcome: Outcome, notes: Sequence[str] = (), search: SearchCost | None = None
) -> Guarantee:
    """Return what the run's account certifies at the task's delta."""
    delta, profile = plan.whole.delta, None
    run = plan.task.profile.earlier_run
    earlier = f"rows are encoded by the column profile that run {run!r} released earlier; the epsilon includes it"
    if outcome.profile is not None:
        profile = ProfileCost(
            columns=len(outcome.profile.columns),
            epsilon=outcome.cost(ColumnProfile.name, delta),
            run_epsilon=outcome.plan.account().curve.epsilon(delta),
            earlier_run=run,
        )
    return Guarantee.of(
        outcome.account,
        outcome.plan.by(range(plan.task.n_silos)),
        delta=delta,
        origin=outcome.origin,
        assumptions=(*([] if run is None else [earlier]), *notes),
        n_models=plan.run.n_models,
        profile=profile,
        search=search,
        subject="the model" if search is None else search.subject,
    )


def choice_of(plan: Plan, search: SearchCost | None = None) -> MethodChoice:
    """Return the plan as readers see it."""
    run, numbers = plan.run, vars(plan.run.method).items()
    network, penalty = run.setting.network, run.setting.problem.regulariser
    is_alone = plan.candidate.method.about.is_one_shot or plan.task.n_silos == 1
    topology = Topology.GRAPH if network is not None else Topology.ALONE if is_alone else Topology.STAR
    return MethodChoice(
        method=plan.method,
        rounds=run.setting.rounds,
        topology=topology,
        edges=() if network is None else tuple((int(a), int(b)) for a, b in network.edges),
        settings=(
            *((_NUMBERS[name], f"{x:.4g}") for name, x in numbers if name in _NUMBERS and isinstance(x, int | float)),
            ("ridge", f"{plan.candidate.mu:.3g}"),
            ("further penalty", "none" if penalty == ElasticNet() else repr(penalty)),
            ("noise", _SCHEDULES.get(type(run.schedule), "as given, round by round")),
            ("released", run.output.value),
        ),
        reasons=(*plan.reasons, *([] if search is None else [f"settings: {search_text(search)}"])),
        warnings=plan.warnings,
        is_hopeless=plan.is_hopeless,
        expected=plan.expected,
    )


def history_of(outcome: Outcome) -> tuple[RoundFacts, ...]:
    """Return what the messages of the first model show, round by round; bounds are certified sensitivities."""
    bounds: dict[int, float] = {}
    for release in outcome.runs()[0].plan:
        bounds[release.round] = max(bounds.get(release.round, 0.0), release.bound)
    found: dict[int, RoundFacts] = {}
    for each in outcome.runs()[0].history:
        if each.round not in found and each.kind != SECOND_MOMENTS.name:  # a matrix, no model or gradient
            found[each.round] = RoundFacts(
                round=each.round,
                movement=each.movement,
                average_movement=each.average_movement,
                messages=len(each.norms),
                size=math.fsum(each.norms) / len(each.norms),
                noise=each.noise_norm,
                bound=bounds.get(each.round),
            )
    return tuple(found.values())


def spending_of(ledger: Ledger, name: str) -> Spending:
    """Return what a ledger says now."""
    statement = ledger.statement()
    return Spending(
        ledger=name,
        budget_epsilon=statement.budget.epsilon,
        budget_delta=statement.budget.delta,
        spent_epsilon=statement.spent_epsilon,
        # What rounding leaves is not a budget.
        left_epsilon=statement.left_epsilon if statement.left_epsilon > 1e-6 * statement.budget.epsilon else 0.0,
        releases=statement.releases,
        head=statement.head,
        runs=tuple((run.run, run.alone_epsilon) for run in ledger.runs()),
        time=now(),
        data_version=statement.version,
        data_since=statement.version_since,
    )


def current_spending(model: ReleasedModel, ledger: Place) -> Spending:
    """Return what the ledger says now; refuse one that does not know this training, or is of other data."""
    head = None if model.spending is None else model.spending.head
    with open_for_reading(ledger) as opened:  # its own faults come first
        is_known = model.run in {run.run for run in opened.runs()}
        parts = 2 if model.location is DataLocation.FEDERATED else 1  # with its directory, which names the silo
        found = spending_of(opened, str(Path(*Path(ledger).resolve().parts[-parts:])))
    try:
        with open_for_reading(ledger, expected_head=head):
            pass
    except LedgerError:
        is_known = False
    if not is_known:
        raise InputError(
            f"This is not the ledger the model was trained with, or an older copy of it: {ledger} does not contain "
            "what was recorded then. Give that ledger, or none."
        )
    return found
