"""What a user asks for about tables, in the words of `dpadmm.fit` and of the commands, checked before a row is read."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpadmm import checks
from dpadmm.checks import nearest, setting, shown
from dpadmm.data import class_weights
from dpadmm.data.persons import Persons
from dpadmm.data.profile import ProfileForm
from dpadmm.data.schema import Schema
from dpadmm.data.tables import SiloTable, lacks
from dpadmm.errors import InputError
from dpadmm.estimators.wishes import (
    check_class_weight,
    class_weights_of,
    method_name,
    network_of,
    nominal_number,
    penalty_of,
    problems_of,
    protection_from,
    unit_of,
)
from dpadmm.estimators.wishes import protection_of as kept_in
from dpadmm.front.sources import AnyTables, in_memory
from dpadmm.planner.plan import Plan
from dpadmm.planner.task import AUTO, ProfileRule, TableShape, Task, check_signal, nominal_sizes
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.protection import Protection, Unit
from dpadmm.problems.aims import Aim
from dpadmm.problems.losses import Huber, Logistic, Loss, SmoothedHinge
from dpadmm.problems.softmax import Softmax

_LOSSES: dict[str, Loss] = {"logistic": Logistic(), "svm": SmoothedHinge(), "huber": Huber(0.5)}


@dataclass(frozen=True, kw_only=True)
class TaskWords:
    """What words and numbers say about a task, checked before a row is read and the silos are known."""

    epsilon: float
    delta: float
    protection: Protection
    loss: str = "auto"
    method: str = "auto"
    topology: str = "auto"
    alpha: float | None = None
    l1_ratio: float = 0.0
    profile: ProfileRule = AUTO
    nominal_records: int | None = None
    multi_class: str = "auto"
    class_weight: Mapping[Any, float] | None = None
    aim: Aim = Aim.PREDICTION
    prevalence: float | None = None
    expected_auc: float | None = None
    expected_r2: float | None = None

    def __post_init__(self) -> None:
        """Refuse what no silos could make right."""
        checks.positive("epsilon", self.epsilon)
        checks.open_unit("delta", self.delta)
        if self.prevalence is not None:
            checks.open_unit("prevalence", self.prevalence)
        check_signal(self.expected_auc, self.expected_r2)
        penalty_of(self.alpha, self.l1_ratio)
        self.method_name()
        network_of(self.topology, 2)
        check_class_weight(self.aim, self.class_weight)
        nominal_number(self.protection.relation, self.nominal_records)
        if self.loss not in ("auto", *_LOSSES):
            listed = ", ".join(map(repr, ("auto", *_LOSSES)))
            raise InputError(
                f"{setting('loss')} must be one of {listed}, got {shown(self.loss)}.{nearest(self.loss, _LOSSES)}"
            )

    @property
    def target(self) -> Target:
        """The whole budget of the run."""
        return Target(self.epsilon, self.delta)

    def method_name(self) -> str | None:
        """Return the registry's name of the method, None where the planner chooses."""
        return method_name(self.method)

    def task(self, sizes: tuple[int, ...], schema: Schema) -> Task:
        """Return the task for silos of these sizes with tables of this schema."""
        plain = self.plain_task(sizes, schema.dimension, is_real=schema.label.is_real)
        classes = len(schema.label.classes)
        return replace(
            plain,
            loss=plain.loss if (self.problems(schema) or 1) > 1 or classes < 3 else Softmax(classes),
            row_norm=schema.row_norm,
            table=TableShape.of(ProfileForm(schema.columns)),
        )

    def class_weights(self, schema: Schema) -> dict[Any, float] | None:
        """Return the weights of classes of the schema's label by these, None if none is weighted."""
        weights = class_weights_of(self.class_weight, self.method)
        return None if weights is None else class_weights.of_label(schema.label, weights)

    def problems(self, schema: Schema | None) -> int | None:
        """Return how many problems share the budget, see `problems_of`; None lets the planner choose."""
        classes = 0 if schema is None else len(schema.label.classes)
        if classes < 3:
            return 1
        if self.loss == "svm" and self.multi_class == "softmax":
            raise InputError(
                f"{setting('multi_class', 'softmax')} is for {setting('loss', 'logistic')}; svm trains one model "
                "per class. Leave one out."
            )
        return classes if self.loss == "svm" else problems_of(self.multi_class, self.method, classes)

    def settled(self, made: Plan, schema: Schema | None) -> "TaskWords":
        """Return the words for plans at other budgets and sizes: where the planner chose, as it has in this plan."""
        if self.problems(schema) is not None:
            return self
        return replace(self, multi_class="softmax" if made.n_models == 1 else "one-vs-rest")

    def plain_task(self, sizes: tuple[int, ...], dimension: int, *, is_real: bool) -> Task:
        """Return the task for rows of norm 1 about which no more is known; `is_real`: the target is a number."""
        return Task(
            sizes=sizes,
            dimension=dimension,
            loss=loss_of(self.loss, is_real=is_real),
            target=self.target,
            protection=self.protection,
            network=network_of(self.topology, len(sizes)),
            regulariser=penalty_of(self.alpha, self.l1_ratio),
            profile=self.profile,
            aim=self.aim,
            prevalence=self.prevalence,
            expected_auc=self.expected_auc,
            expected_r2=self.expected_r2,
        )


def protection_of(
    ledger: Path | None,
    unit: str | None,
    view: str | None,
    records_per_person: int | None,
    silos_per_person: int | None,
    colluders: int | None = None,
    neighbours: str | None = None,
    *,
    has_persons: bool = False,
) -> Protection:
    """Return what words say about people and observers; what they leave out is the ledger's, if it is there.

    has_persons: a column tells whose each row is, so that persons are protected.
    """
    book, hidden = ledger if ledger is not None and ledger.exists() else None, unit_of(unit, has_persons=has_persons)
    return protection_from(kept_in(book), hidden, view, records_per_person, silos_per_person, colluders, neighbours)


def loss_of(word: str, *, is_real: bool) -> Loss:
    """Return the loss that a word names, if it fits the target."""
    chosen = ("huber" if is_real else "logistic") if word == "auto" else word
    if (chosen == "huber") is not is_real:
        kind, fitting = ("a number", "huber") if is_real else ("classes", "logistic or svm")
        raise InputError(f"{setting('loss', chosen)} does not fit: the schema's label has {kind}. Use {fitting}.")
    return _LOSSES[chosen]


def check_person(
    person: str | None, keep: int | None, protection: Protection, schema: Schema | None, split_by: str | None
) -> None:
    """Refuse persons that no column tells apart, and a column of persons that is used for something else as well."""
    column = setting("persons", "COLUMN")
    if keep is not None:
        checks.count("keep", keep)
    if person is None:
        if keep is not None:
            raise InputError(
                f"{setting('keep')} limits the rows of a person. Say which column names the person: {column}."
            )
        if protection.unit is Unit.PERSON:
            raise InputError(f"To protect persons with all their rows, say which column names the person: {column}.")
        return
    if person == split_by:
        raise InputError(
            f"{setting('persons')} and {setting('split_by')} name the same column. If every silo is one person, "
            f"use {setting('unit', 'user')}."
        )
    if schema is not None and person in (*schema.column_names, schema.label.name):
        raise InputError(
            f"{setting('persons', person)} is a column of the schema, so the model would learn from it. An "
            "identifier says nothing about other people: take it out of the schema (`dpadmm schema init "
            "--leave-out COLUMN` drafts one without it)."
        )


def persons_of(tables: Mapping[str, SiloTable], column: str, keep: int | None = None) -> Persons:
    """Return whose the rows of all silos are, by a column that every table has."""
    for table in tables.values():
        if column not in table.frame.columns:
            problem = lacks(table.where, [column], table.frame.columns)
            raise InputError(f"{problem} Correct {setting('persons')}.")
    return Persons.of([table.frame[column] for table in tables.values()], [t.where for t in tables.values()], keep)


def counts_of(tables: AnyTables, person: str | None, words: TaskWords) -> tuple[int, ...]:
    """Return how many records, or persons, each silo counts for a plan; nominal numbers where the true are secret."""
    if person is not None:
        whose = persons_of(in_memory(tables), person)
        whose.check_silos(words.protection.silos_per_person)  # a fit would refuse them
        if words.nominal_records is None:
            return tuple(own.people.persons for own in whose.rows())
    if words.nominal_records is not None:
        return nominal_sizes(words.nominal_records, len(tables))
    return tuple(table.rows for table in tables.values())


def task_of(
    words: TaskWords, counts: tuple[int, ...], dimension: int | None, schema: Schema | None, *, is_real: bool
) -> Task:
    """Return the task for rows of a schema, or of so many encoded features."""
    if (dimension is None) is (schema is None):
        raise InputError(
            f"Give either the number of encoded features ({setting('dimension')}) or {setting('schema')}, not both."
        )
    return words.plain_task(counts, dimension or 0, is_real=is_real) if schema is None else words.task(counts, schema)
