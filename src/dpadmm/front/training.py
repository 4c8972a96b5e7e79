"""From tables to a saved model: check and read them, train, save."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from dpadmm.checks import setting
from dpadmm.core.dataset import Dataset
from dpadmm.data.schema import Schema
from dpadmm.data.tables import check_split
from dpadmm.errors import InputError, LedgerError, raise_alone
from dpadmm.estimators.ledger_file import LedgerFile
from dpadmm.estimators.resolved import ResolvedSettings
from dpadmm.estimators.train import train
from dpadmm.front.planning import check_person, persons_of
from dpadmm.front.sources import AnyTables, in_memory, public_schema
from dpadmm.planner.planner import Plan
from dpadmm.planner.task import Task
from dpadmm.planner.utility import UtilityPoint, epsilons_around, utility_curve
from dpadmm.reporting.files import check_apart, check_room, check_writable, checked_suffix
from dpadmm.reporting.model import ReleasedModel
from dpadmm.reporting.outcome import public_names
from dpadmm.reporting.statement import Accountability
from dpadmm.settings import FitSettings


def budgets_around(task: Task, method: str | None = None, problems: int | None = 1) -> tuple[UtilityPoint, ...]:
    """Return what the planner expects of usual budgets and of the task's; one that it cannot plan for is left out."""
    found: list[UtilityPoint] = []
    for epsilon in epsilons_around(task.target.epsilon):
        with suppress(InputError):
            found += utility_curve(task, (epsilon,), method, problems)
    return tuple(found)


@dataclass(frozen=True)
class Saved:
    """A model that is paid for, and where it is: elsewhere than wanted, if it could not be written there.

    plan: what it was trained by. unread: what kept its ledger from being read after the run.
    """

    model: ReleasedModel
    place: Path | None
    plan: Plan
    unread: LedgerError | None = None


def check_outputs(out: Path | None, report: Path | None, *, may_replace: bool) -> None:
    """Refuse, before anything is spent, places where a model or its report could not be written."""
    for place in (out, report):
        if place is not None:
            check_writable(place, may_replace=may_replace)
    if out is not None:
        checked_suffix(out)


@dataclass(frozen=True, kw_only=True)
class Training:
    """Everything a fit was asked for, but its tables: `dpadmm.fit` and `dpadmm fit` are both this."""

    schema: Schema
    settings: ResolvedSettings
    ledger: LedgerFile
    has_progress: bool = False

    @classmethod
    def of(cls, said: FitSettings, files: Sequence[Path] = (), *, has_progress: bool = False) -> Self:
        """Check all that can be checked before a row is read; files: those that will be."""
        path = None if said.ledger is None else Path(said.ledger)
        stated = Path(said.schema) if isinstance(said.schema, str | os.PathLike) else None
        out = said.out
        check_apart({"out": out.model, "report": out.report}, [stated, *files], path)
        ledger = LedgerFile(path=path, budget=said.budget)
        settings = ResolvedSettings.of(said, ledger.protection, has_persons=said.person is not None)
        own = said.training.stated("row_norm", "threshold")
        if own:
            instead = " For tables, the schema states it." if own[0] == "row_norm" else ""
            raise InputError(f"{own[0]} is for estimators.{instead} Leave it out.")
        schema = public_schema(said.schema, said.target, is_real=said.training.loss == "huber")
        schema = schema.with_intercept(said.training.fit_intercept)
        check_split(said.split_by, schema)
        check_person(said.person, said.privacy.keep, settings.protection, schema, said.split_by)
        check_outputs(out.model, out.report, may_replace=out.force)
        settings.class_weights(schema)
        ledger.check(said.epsilon)
        if said.seed is not None and path is not None:
            raise InputError(
                f"With {setting('seed')} nothing is released, so there is nothing to record. Leave out "
                f"{setting('ledger')}."
            )
        return cls(schema=schema, settings=settings, ledger=ledger, has_progress=has_progress)

    @property
    def said(self) -> FitSettings:
        """The settings as they were said."""
        return self.settings.settings

    def read(self, tables: AnyTables) -> Dataset:
        """Check and read the tables."""
        persons = (
            None
            if self.said.person is None
            else persons_of(in_memory(tables), self.said.person, self.said.privacy.keep)
        )
        if persons is not None:
            persons.check_silos(self.settings.protection.silos_per_person)
        self._check_texts(tables)
        if self.ledger.path is not None:
            check_room(self.ledger.path)
        is_secret = self.settings.nominal_records is not None
        names = public_names(list(tables), self.settings.protection.unit)
        found = Dataset.of_tables(self.schema, tables, self.settings.screening, names, persons, may_be_empty=is_secret)
        return found.weighted(self.settings.class_weights(self.schema))

    def _check_texts(self, tables: AnyTables) -> None:
        """Refuse words that the model file, its report or the terminal could not show."""
        words = {
            **{
                setting(name): getattr(self.said.out, name) or ""
                for name in ("title", "purpose", "controller", "contact")
            },
            setting("out"): str(self.said.out.model or ""),
            setting("ledger"): str(self.ledger.path or ""),
            "The schema": self.schema.to_json(),
            "The name of a silo or a file": "".join((*tables, *(table.where for table in tables.values()))),
        }
        for what, text in words.items():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise_alone(InputError(f"{what} contains characters that are not UTF-8. Nothing was spent. Rename it."))

    def train(self, dataset: Dataset, tell: Callable[[Plan], None]) -> Saved:
        """Plan, tell, reserve, run and save; refuse a hopeless target unless told otherwise: nothing is spent then."""
        files, budgets = self.said.out, list[UtilityPoint]()

        def on_plan(plan: Plan) -> tuple[str, ...]:
            if (plan.is_hopeless or plan.lacks_intervals) and not self.said.training.anyway:
                raise InputError(
                    f"{' '.join(plan.warnings)} Nothing was spent. To train anyway, add {setting('anyway', True)}."
                )
            tell(plan)
            if files.report is not None:
                budgets.extend(self._budgets(plan))
            return ()

        done = train(
            dataset,
            [self.settings],
            self.ledger,
            on_plan,
            title=files.title,
            progress=self.has_progress,
        )
        about = Accountability(purpose=files.purpose, controller=files.controller, contact=files.contact)
        model = replace(done.model, about=about, budgets=tuple(budgets))
        place = None if files.model is None else model.save(files.model)
        if files.report is not None:
            model.report(files.report, name=None if place is None else place.name)
        return Saved(model, place, done.plan, done.unread)

    def _budgets(self, plan: Plan) -> tuple[UtilityPoint, ...]:
        settings = self.settings.settled(plan, self._n_classes)
        task = settings.table_task(plan.task.sizes, self.schema)
        return budgets_around(task, settings.method, settings.problems(self._n_classes))

    @property
    def _n_classes(self) -> int:
        return len(self.schema.label.classes)
