"""Terms of a federation from the entries of its silos, through the planner: no number has to be invented."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpadmm import checks
from dpadmm.data import class_weights
from dpadmm.data.profile import ProfileForm
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError
from dpadmm.federation.agreement import Agreement, Participant
from dpadmm.federation.policy import SiloEntry
from dpadmm.planner.plan import Plan
from dpadmm.planner.planner import plan
from dpadmm.planner.task import TableShape, Task
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import Protection
from dpadmm.problems.losses import AnyLoss, Huber, Logistic, Softmax


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
        """The plan in words, and what it does not know of."""
        if not self.class_weights:
            return str(self.plan)
        told = ", ".join(f"{each:g}" for each in self.class_weights)
        return f"{self.plan}\nWeights   {told}, in the order of the schema's classes; no forecast knows of them"

    def terms(self, run: str, coordinator: str) -> Agreement:
        """Return the terms; run: a new name, coordinator: its public key."""
        return self.plan.terms(run, self.participants, coordinator, self.schema, class_weights=self.class_weights)


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
    weights = class_weights.shares_of(schema.label, class_weight)
    protection = _common(entries, schema)
    sizes = _sizes(entries, protection, nominal_records)
    task = Task(
        sizes=sizes,
        dimension=schema.dimension,
        loss=_loss(schema),
        target=target,
        protection=protection,
        row_norm=schema.row_norm,
        table=TableShape.of(ProfileForm(schema.columns)),
    )
    made = plan(task)
    for entry in entries:
        if made.method not in entry.methods:
            raise InputError(
                f"The planner chose {made.method}, which {entry.name} does not allow. Add it to `methods` in the "
                f"silo's policy.toml, or leave out {entry.name}."
            )
    people = tuple(entry.participant(size) for entry, size in zip(entries, sizes, strict=True))
    return Draft(made, people, schema.digest, weights)


def _loss(schema: Schema) -> AnyLoss:
    """Return what is fitted for the schema's label."""
    if schema.label.is_real:
        return Huber(0.5)
    return Logistic() if len(schema.label.classes) == 2 else Softmax(len(schema.label.classes))


def _common(entries: Sequence[SiloEntry], schema: Schema) -> Protection:
    """Return the protection that all silos' budgets are about; refuse silos that cannot pay for the same releases."""
    checks.count("silos", len(entries), least=2)
    for entry in entries:
        if entry.schema != schema.digest:
            raise InputError(f"{entry.name} was made with another schema. All silos need the same file.")
    views = {entry.name: (entry.protection.view.value, entry.protection.relation.value) for entry in entries}
    if len(set(views.values())) > 1:
        told = "; ".join(f"{name}: {', '.join(words)}" for name, words in views.items())
        raise InputError(f"The silos' budgets are for different views or neighbours ({told}). Make them equal.")
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
    whole = checks.count("nominal_records", nominal, least=len(entries)) if nominal is not None else 0
    if not whole:
        raise InputError("The silos' numbers of records are secret: give one nominal number for all of them.")
    return tuple(whole // len(entries) + (place < whole % len(entries)) for place in range(len(entries)))
