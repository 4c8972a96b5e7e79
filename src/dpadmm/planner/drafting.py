"""Terms of a federation from the entries of its silos, through the planner: no number has to be invented."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpadmm import checks
from dpadmm.core.task import Aim, nominal_sizes
from dpadmm.data.columns import label_shares
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError
from dpadmm.federation.policy import SiloEntry
from dpadmm.federation.terms import CountedColumns, NoiseOrigin, Participant, Terms
from dpadmm.noise.mechanisms import Tail
from dpadmm.planner.planner import Plan
from dpadmm.planner.planner import plan as make_plan
from dpadmm.planner.resolved import ResolvedSettings
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.protection import Protection, Unit, View
from dpadmm.problems.losses import released_loss
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.settings import FitSettings


@dataclass(frozen=True)
class Draft:
    """A plan for these silos, which becomes the terms of a run when it has a name and a coordinator.

    class_weights: what a record of each class counts, the heaviest 1; none where all count the same.
    """

    plan: Plan
    participants: tuple[Participant, ...]
    schema: str
    class_weights: tuple[float, ...] = ()

    def __str__(self) -> str:
        """The plan as text, and what it does not know of."""
        if not self.class_weights:
            return str(self.plan)
        listed = ", ".join(f"{each:g}" for each in self.class_weights)
        return f"{self.plan}\nWeights   {listed}, in the order of the schema's classes; no forecast knows of them"

    def terms(self, run: str, coordinator: str) -> Terms:
        """Return the terms; run: a new name, coordinator: its public key."""
        weights = self.class_weights
        return federation_terms(self.plan, run, self.participants, coordinator, self.schema, class_weights=weights)


def draft(
    entries: Sequence[SiloEntry],
    schema: Schema,
    target: Target,
    *,
    nominal_records: int | None = None,
    class_weight: Mapping[Any, float] | None = None,
) -> Draft:
    """Return what the planner chooses for these silos: view, method, rounds, step, ridge, encoding and masks.

    nominal_records: what all silos together count as, where their numbers are secret. class_weight: public weights by
    which records count, 1 for a class that is not named; the plan and its forecast do not know of them.
    """
    weights = label_shares(schema.label, class_weight)
    protection = _common(entries, schema)
    sizes = _sizes(entries, protection, nominal_records)
    asked = ResolvedSettings(settings=FitSettings(epsilon=target.epsilon, delta=target.delta), protection=protection)
    made = make_plan(asked.table_task(sizes, schema), is_federated=True)
    for entry in entries:
        if made.method not in entry.methods:
            raise InputError(
                f"The planner chose {made.method}, which {entry.name} does not allow. Add it to `methods` in the "
                f"silo's policy.toml, or leave out {entry.name}."
            )
    people = tuple(entry.participant(size) for entry, size in zip(entries, sizes, strict=True))
    return Draft(made, people, schema.digest, weights)


def _common(entries: Sequence[SiloEntry], schema: Schema) -> Protection:
    """Return the protection that all silos' budgets are about; refuse silos that cannot pay for the same releases."""
    checks.count("silos", len(entries), least=2)
    for entry in entries:
        if entry.schema != schema.digest:
            raise InputError(f"{entry.name} was made with another schema. All silos need the same file.")
    views = {entry.name: (entry.protection.view.value, entry.protection.relation.value) for entry in entries}
    if len(set(views.values())) > 1:
        listed = "; ".join(f"{name}: {', '.join(seen)}" for name, seen in views.items())
        raise InputError(f"The silos' budgets are for different views or neighbours ({listed}). Make them equal.")
    first = entries[0].protection
    return Protection(
        view=first.view,
        relation=first.relation,
        records_per_person=max(entry.protection.records_per_person for entry in entries),
        silos_per_person=max(entry.protection.silos_per_person for entry in entries),
        colluders=max(entry.protection.n_colluders for entry in entries),
    )


def _sizes(entries: Sequence[SiloEntry], protection: Protection, nominal: int | None) -> tuple[int, ...]:
    """Return the records of each silo, or equal parts of the nominal number where they are secret."""
    if protection.relation.has_public_sizes:
        missing = [entry.name for entry in entries if entry.records is None]
        if missing or nominal is not None:
            raise InputError(
                f"The silos' numbers of records are public here, so {missing or 'a nominal number'} does not fit."
            )
        return tuple(entry.records or 0 for entry in entries)
    if nominal is None:
        raise InputError("The silos' numbers of records are secret: give one nominal number for all of them.")
    return nominal_sizes(nominal, len(entries))


def federation_terms(
    plan: Plan,
    run: str,
    participants: Sequence[Participant],
    coordinator: str,
    schema: str,
    *,
    class_weights: Sequence[float] = (),
    noise: NoiseOrigin = NoiseOrigin.SECURE,
    seed: int = 0,
) -> Terms:
    """Return the plan as terms of a federation, for `write_federation` and the silos' owners to approve.

    run: a new name. participants: the silos planned for, in their order. coordinator: its public key. schema: the
    schema's digest. class_weights: what records of each class count; forecasts do not know. What is done about
    silos that do not answer can be chosen with `dataclasses.replace`.
    """
    task, made, method = plan.task, plan.run, plan.run.method
    setting, shares, usual = made.setting, plan.spec.facts.shares, plan.candidate.method.numbers()
    if tuple(participant.records for participant in participants) != task.sizes:
        raise InputError(
            f"The plan is for silos of {task.sizes} records, but the participants have other sizes. Plan again."
        )
    if made.n_models != 1 or task.protection.unit is not Unit.RECORD:
        raise InputError(
            "A federation trains one model and protects records, not persons with several rows. Plan for two "
            "classes, or softmax, with unit 'record'."
        )
    if task.aim is Aim.INFERENCE:
        raise InputError("Silos of a federation release no curvature, so no intervals (C14). Plan to predict.")
    if task.profile.earlier_run is not None:
        raise InputError("A federation releases its own column profile. Plan without an earlier one.")
    penalty, counted, delta = setting.problem.regulariser, plan.profile, plan.whole.delta
    if type(penalty) is not ElasticNet:  # a subclass may be another function
        raise InputError(f"Terms cannot describe the penalty {penalty}; they can describe l1 and ridge weights.")
    hidden = task.protection if shares else replace(task.protection, view=View.EAVESDROPPER, colluders=None)
    terms = Terms(
        run=run,
        method=plan.method,
        settings=tuple((name, x) for name, x in vars(method).items() if x != usual.get(name, x)),
        rounds=setting.rounds,
        epsilon=plan.whole.epsilon,
        delta=made.target.delta if isinstance(made.target, Target) else 0.0,
        participants=tuple(participants),
        coordinator=coordinator,
        schema=schema,
        dimension=task.n_classes * task.dimension,
        protection=hidden,
        class_weights=tuple(class_weights),
        edges=() if setting.network is None else tuple((int(i), int(j)) for i, j in setting.network.edges),
        row_norm=task.row_norm,
        loss=released_loss(task.loss),
        mu=plan.candidate.mu,
        penalty=penalty,
        tolerance=setting.tolerance,
        tail_power=made.schedule.power if isinstance(made.schedule, Tail) else 0.0,
        noise=noise,
        seed=seed,
        clip_radius=plan.clip_radius or 0.0,
        profile=None
        if counted is None
        else CountedColumns(
            share=(m_of(counted.target.epsilon, delta) / m_of(plan.whole.epsilon, delta)) ** 2,
            n_numeric=counted.n_numeric,
            n_categorical=counted.n_categorical,
            size=counted.size,
        ),
    )
    agreed = terms.spec.runs[0]
    if agreed.method != method:
        raise InputError(f"The terms of a federation cannot express {method}. Choose another method.")
    if not math.isclose(agreed.target.epsilon, made.target.epsilon, rel_tol=1e-8):
        raise InputError(
            "The terms of a federation split the budget in squares (C0), but this plan does not. Plan without a "
            "column profile."
        )
    return terms
