"""What plans are made from: public facts about silos, columns and persons."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from dpadmm.checks import setting
from dpadmm.data.persons import Persons
from dpadmm.data.schema import Schema
from dpadmm.data.tables import SiloTable, check_present, check_split
from dpadmm.errors import InputError
from dpadmm.estimators.resolved import ResolvedSettings
from dpadmm.front.sources import AnyTables, Streaming, TableSource, in_memory
from dpadmm.planner.planner import Plan
from dpadmm.planner.planner import plan as make_plan
from dpadmm.planner.task import Task, nominal_sizes
from dpadmm.planner.utility import UtilityPoint, epsilons_around, utility_curve
from dpadmm.privacy.protection import Protection, Unit
from dpadmm.settings import FitSettings


def check_person(
    person: str | None, keep: int | None, protection: Protection, schema: Schema | None, split_by: str | None
) -> None:
    """Refuse persons that no column tells apart, and a column of persons that is used for something else as well."""
    column = setting("person", "COLUMN")
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
            f"{setting('person')} and {setting('split_by')} name the same column. If every silo is one person, "
            f"use {setting('unit', 'user')}."
        )
    if schema is not None and person in (*schema.column_names, schema.label.name):
        raise InputError(
            f"{setting('person', person)} is a column of the schema, so the model would learn from it. An "
            "identifier says nothing about other people: take it out of the schema (`dpadmm schema init "
            "--leave-out COLUMN` drafts one without it)."
        )


def persons_of(tables: Mapping[str, SiloTable], column: str, keep: int | None = None) -> Persons:
    """Return whose the rows of all silos are, by a column that every table has."""
    for table in tables.values():
        check_present(table.where, [column], list(table.frame.columns))
    return Persons.of([table.frame[column] for table in tables.values()], [t.where for t in tables.values()], keep)


@dataclass(frozen=True)
class PublicFacts:
    """What a plan is made from: records (or persons) of each silo, and the columns, or how many features they become.

    n_classes: of the label, 0 for a number; where there is no schema, two classes or a number.
    """

    settings: ResolvedSettings
    sizes: tuple[int, ...]
    schema: Schema | None
    dimension: int | None
    n_classes: int

    @classmethod
    def of(
        cls,
        settings: FitSettings,
        source: TableSource | None,
        sizes: Sequence[int] | None,
        dimension: int | None,
        schema: Schema | None,
        *,
        is_real: bool,
        tell: Callable[[AnyTables], None] = lambda tables: None,
    ) -> Self:
        """Check settings and count rows. tell: is shown tables that were read."""
        person, split_by = settings.person, settings.split_by
        resolved = ResolvedSettings.of(settings, has_persons=person is not None)
        if (dimension is None) is (schema is None):
            raise InputError(
                f"Give either the number of encoded features ({setting('dimension')}) or {setting('schema')}, not both."
            )
        if schema is not None:
            schema = schema.with_intercept(settings.training.fit_intercept)
            check_split(split_by, schema)
        if (sizes is None) is (source is None):
            raise InputError(f"Give either the records of each silo ({setting('sizes')}) or the tables, not both.")
        if source is not None:
            check_person(person, None, resolved.protection, schema, split_by)
            streaming = Streaming.of(settings.table, split_by=split_by, person=person)
            tables = source.read(split_by, streaming, resolved.protection)
            tell(tables)
            sizes = counts_of(tables, person, resolved)
        elif person is not None:
            raise InputError(
                f"{setting('person')} names a column of the tables. With {setting('sizes')}, use "
                f"{setting('unit', 'person')} instead."
            )
        nominal = resolved.nominal_records
        if nominal not in (None, sum(sizes or ())):
            raise InputError(
                f"{setting('sizes')} must add up to {setting('nominal_records', nominal)}: with add-remove, sizes are "
                "nominal too."
            )
        n_classes = (0 if is_real else 2) if schema is None else len(schema.label.classes)
        return cls(resolved, tuple(sizes or ()), schema, dimension, n_classes)

    @property
    def task(self) -> Task:
        """The task for these facts."""
        if self.schema is not None:
            return self.settings.table_task(self.sizes, self.schema)
        return self.settings.task(self.settings.loss(self.n_classes), self.sizes, self.dimension or 0)

    def plan(self) -> Plan:
        """Return the plan."""
        return make_plan(self.task, method=self.settings.method, problems=self.settings.problems(self.n_classes))

    def curve(self, made: Plan, *, all_signals: bool) -> tuple[UtilityPoint, ...]:
        """Return what to expect of other budgets, with what the planner chose in this plan."""
        kept = replace(self, settings=self.settings.settled(made, self.n_classes))
        epsilons, problems = epsilons_around(self.settings.target.epsilon), kept.settings.problems(self.n_classes)
        return utility_curve(kept.task, epsilons, self.settings.method, problems, all_signals=all_signals)


def counts_of(tables: AnyTables, person: str | None, settings: ResolvedSettings) -> tuple[int, ...]:
    """Return how many records, or persons, each silo counts for a plan; nominal numbers where the true are secret."""
    if person is not None:
        whose = persons_of(in_memory(tables), person)
        whose.check_silos(settings.protection.silos_per_person)  # a fit would refuse them
        if settings.nominal_records is None:
            return tuple(own.people.persons for own in whose.rows())
    if settings.nominal_records is not None:
        return nominal_sizes(settings.nominal_records, len(tables))
    return tuple(table.rows for table in tables.values())
