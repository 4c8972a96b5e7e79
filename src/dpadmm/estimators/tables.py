"""Fits and plans of tables, as `dpadmm.fit`, `dpadmm.plan` and the commands of these names ask for them.

Settings are checked before a row is read. `TableFit` goes from tables to a saved model; `PublicFacts` is what a plan is
made from.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from dpadmm.checks import count, option_name, refuse
from dpadmm.core.budget import LedgerFile
from dpadmm.core.dataset import Dataset
from dpadmm.core.model import ProcessingDetails, ReleasedModel
from dpadmm.core.task import Task, nominal_sizes
from dpadmm.core.train import train
from dpadmm.data.columns import name_classes
from dpadmm.data.persons import Persons
from dpadmm.data.schema import Schema
from dpadmm.data.sources import AnyTables, in_memory, public_schema, read_tables
from dpadmm.data.tables import SiloTable, check_present, check_split
from dpadmm.errors import InputError, LedgerError, raise_alone
from dpadmm.estimators.exposure import count_dataset, without_exposure
from dpadmm.models.build import public_names
from dpadmm.models.files import check_apart, check_space, check_suffix, check_writable
from dpadmm.planner.planner import Plan
from dpadmm.planner.planner import plan as make_plan
from dpadmm.planner.resolved import REAL_LOSSES, ResolvedSettings
from dpadmm.planner.utility import UtilityPoint, epsilons_around, utility_curve
from dpadmm.privacy.protection import Protection, Unit
from dpadmm.settings import FitSettings


def check_person(
    person: str | None, keep: int | None, protection: Protection, schema: Schema | None, split_by: str | None
) -> None:
    """Refuse persons without a column that identifies them, and one that is used for something else as well."""
    column = option_name("person", "COLUMN")
    if person is None:
        if keep is not None:
            raise InputError(
                f"{option_name('keep')} limits the rows of a person. Say which column names the person: {column}."
            )
        if protection.unit is Unit.PERSON:
            raise InputError(f"To protect persons with all their rows, say which column names the person: {column}.")
        return
    if person == split_by:
        raise InputError(
            f"{option_name('person')} and {option_name('split_by')} name the same column. If every silo is one person, "
            f"use {option_name('unit', 'user')}."
        )
    if schema is not None and person in (*schema.column_names, schema.label.name):
        raise InputError(
            f"{option_name('person', person)} is a column of the schema, so the model would learn from it. An "
            "identifier says nothing about other people: take it out of the schema (`dpadmm schema init "
            "--leave-out COLUMN` drafts one without it)."
        )


def persons_of(tables: Mapping[str, SiloTable], column: str, keep: int | None = None) -> Persons:
    """Return the persons of the rows of all silos, by a column that every table has."""
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
        data: Any,
        sizes: Sequence[int] | None,
        dimension: int | None,
        schema: Schema | None,
        *,
        is_real: bool,
        on_tables: Callable[[AnyTables], None] = lambda tables: None,
    ) -> Self:
        """Check settings and count rows. on_tables: is shown tables that were read."""
        person, split_by = settings.person, settings.split_by
        resolved = ResolvedSettings.of(settings, has_persons=person is not None)
        if (dimension is None) is (schema is None):
            raise InputError(
                f"Give either the number of encoded features ({option_name('dimension')}) or "
                f"{option_name('schema')}; got {'neither' if schema is None else 'both'}."
            )
        if schema is not None:
            schema = without_exposure(schema.with_intercept(settings.training.fit_intercept), settings.training)
            check_split(split_by, schema)
        if (sizes is None) is (data is None):
            raise InputError(
                f"Give either the records of each silo ({option_name('sizes')}) or the tables; "
                f"got {'neither' if data is None else 'both'}."
            )
        if sizes is not None:
            if not isinstance(sizes, Iterable):
                refuse("sizes", "list the records of each silo", sizes)
            sizes = [count("every size", size) for size in sizes]
        if dimension is not None:
            count("dimension", dimension)
        if data is not None:
            check_person(person, None, resolved.protection, schema, split_by)
            tables = read_tables(data, settings.table, resolved.protection, split_by=split_by, person=person)
            on_tables(tables)
            sizes = counts_of(tables, person, resolved)
        elif person is not None:
            raise InputError(
                f"{option_name('person')} names a column of the tables. With {option_name('sizes')}, use "
                f"{option_name('unit', 'person')} instead."
            )
        nominal = resolved.nominal_records
        if nominal not in (None, sum(sizes or ())):
            raise InputError(
                f"{option_name('sizes')} must add up to {option_name('nominal_records', nominal)}: with "
                "add-remove, sizes are "
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
        return make_plan(self.task, method=self.settings.method, n_models=self.settings.n_models(self.n_classes))

    def curve(self, made: Plan, *, all_signals: bool) -> tuple[UtilityPoint, ...]:
        """Return what to expect of other budgets, with what the planner chose in this plan."""
        kept = replace(self, settings=self.settings.with_choices_of(made, self.n_classes))
        epsilons, n_models = epsilons_around(self.settings.target.epsilon), kept.settings.n_models(self.n_classes)
        return utility_curve(kept.task, epsilons, self.settings.method, n_models, all_signals=all_signals)


def counts_of(tables: AnyTables, person: str | None, settings: ResolvedSettings) -> tuple[int, ...]:
    """Return how many records, or persons, each silo counts for a plan; nominal numbers where the true are secret."""
    if person is not None:
        people = persons_of(in_memory(tables), person)
        people.check_silos(settings.protection.silos_per_person)  # a fit would refuse them
        if settings.nominal_records is None:
            return tuple(own.people.persons for own in people.rows())
    if settings.nominal_records is not None:
        return nominal_sizes(settings.nominal_records, len(tables))
    return tuple(table.rows for table in tables.values())


def budgets_around(task: Task, method: str | None = None, n_models: int | None = 1) -> tuple[UtilityPoint, ...]:
    """Return what the planner expects of usual budgets and of the task's; one that it cannot plan for is left out."""
    found: list[UtilityPoint] = []
    for epsilon in epsilons_around(task.target.epsilon):
        with suppress(InputError):
            found += utility_curve(task, (epsilon,), method, n_models)
    return tuple(found)


_SHOWN = ("title", "purpose", "controller", "contact")  # on the page


@dataclass(frozen=True)
class SavedModel:
    """A model that is paid for, and where it is: elsewhere than wanted, if it could not be written there.

    plan: what it was trained by. unread: what kept its ledger from being read after the run.
    """

    model: ReleasedModel
    place: Path | None
    plan: Plan
    unread: LedgerError | None = None


@dataclass(frozen=True, kw_only=True)
class TableFit:
    """Everything a fit was asked for, but its tables: `dpadmm.fit` and `dpadmm fit` are both this."""

    schema: Schema
    settings: ResolvedSettings
    ledger: LedgerFile
    has_progress: bool = False

    @classmethod
    def of(cls, given: FitSettings, files: Sequence[Path] = (), *, has_progress: bool = False) -> Self:
        """Check all that can be checked before a row is read; files: those that will be."""
        path = None if given.ledger is None else Path(given.ledger)
        stated = Path(given.schema) if isinstance(given.schema, str | os.PathLike) else None
        out = given.out
        check_apart({"out": out.model, "report": out.report}, [stated, *files], path)
        ledger = LedgerFile(path=path, budget=given.budget)
        settings = ResolvedSettings.of(given, ledger.protection, has_persons=given.person is not None)
        own = given.training.stated("row_norm", "threshold")
        if own:
            instead = " For tables, the schema states it." if own[0] == "row_norm" else ""
            raise InputError(f"{own[0]} is for estimators.{instead} Leave it out.")
        schema = public_schema(given.schema, given.target, is_real=given.training.loss in REAL_LOSSES)
        schema = schema.with_intercept(given.training.fit_intercept)
        without_exposure(schema, given.training)  # refuses what is none
        settings.loss(len(schema.label.classes), schema.label)  # refuses one that does not fit
        check_split(given.split_by, schema)
        check_person(given.person, given.privacy.keep, settings.protection, schema, given.split_by)
        for place in (out.model, out.report):  # where it could not be written is known before anything is spent
            if place is not None:
                check_writable(place, may_replace=out.force)
        if out.model is not None:
            check_suffix(out.model)
        if given.class_weight is not None:
            name_classes(schema.label, given.class_weight)  # refuses those that are none
        ledger.check(given.epsilon)
        if given.seed is not None and path is not None:
            raise InputError(
                f"With {option_name('seed')} nothing is released, so there is nothing to record. Leave out "
                f"{option_name('ledger')}."
            )
        return cls(schema=schema, settings=settings, ledger=ledger, has_progress=has_progress)

    @property
    def options(self) -> FitSettings:
        """The settings as they were given."""
        return self.settings.settings

    def read(self, tables: AnyTables) -> Dataset:
        """Check and read the tables."""
        persons = None
        if self.options.person is not None:
            persons = persons_of(in_memory(tables), self.options.person, self.options.privacy.keep)
            persons.check_silos(self.settings.protection.silos_per_person)
        self._check_texts(tables)
        if self.ledger.path is not None:
            check_space(self.ledger.path)
        is_secret = self.settings.nominal_records is not None
        names = public_names(list(tables), self.settings.protection.unit)
        found = Dataset.of_tables(self.schema, tables, self.settings.screening, names, persons, may_be_empty=is_secret)
        if self.options.training.loss == "poisson":
            return count_dataset(found, self.options.training)
        return found.weighted(self.options.class_weight)

    def _check_texts(self, tables: AnyTables) -> None:
        """Refuse text that the model file, its report or the terminal could not show."""
        texts = {
            **{option_name(each): getattr(self.options.out, each) or "" for each in _SHOWN},
            option_name("out"): str(self.options.out.model or ""),
            option_name("ledger"): str(self.ledger.path or ""),
            "The schema": self.schema.to_json(),
            "The name of a silo or a file": "".join((*tables, *(table.where for table in tables.values()))),
        }
        for what, text in texts.items():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise_alone(InputError(f"{what} contains characters that are not UTF-8. Nothing was spent. Rename it."))

    def train(self, dataset: Dataset, show: Callable[[Plan], None]) -> SavedModel:
        """Plan, show the plan, reserve, run and save; a hopeless target is refused unless asked otherwise."""
        files, budgets = self.options.out, list[UtilityPoint]()

        def on_plan(plan: Plan) -> tuple[str, ...]:
            if (plan.is_hopeless or plan.lacks_intervals) and not self.options.training.anyway:
                raise InputError(
                    f"{' '.join(plan.warnings)} Nothing was spent. To train anyway, add {option_name('anyway', True)}."
                )
            show(plan)
            if files.report is not None:
                budgets.extend(self._budgets(plan))
            return ()

        done = train(dataset, [self.settings], self.ledger, on_plan, title=files.title, progress=self.has_progress)
        about = ProcessingDetails(purpose=files.purpose, controller=files.controller, contact=files.contact)
        model = replace(done.model, about=about, budgets=tuple(budgets))
        place = None if files.model is None else model.save(files.model)
        if files.report is not None:
            model.report(files.report, name=None if place is None else place.name)
        return SavedModel(model, place, done.plan, done.unread)

    def _budgets(self, plan: Plan) -> tuple[UtilityPoint, ...]:
        settings = self.settings.with_choices_of(plan, self._n_classes)
        task = settings.table_task(plan.task.sizes, without_exposure(self.schema, self.options.training))
        return budgets_around(task, settings.method, settings.n_models(self._n_classes))

    @property
    def _n_classes(self) -> int:
        return len(self.schema.label.classes)
