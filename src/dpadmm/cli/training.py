"""The one path from tables to a saved model: check everything, plan, find room, reserve, run, save."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from dpadmm import checks
from dpadmm.datasets.persons import Persons
from dpadmm.datasets.profile import ProfileForm
from dpadmm.datasets.raw import RawSilos
from dpadmm.datasets.schema import Schema, Screening
from dpadmm.datasets.tables import SiloTable, screen_cells
from dpadmm.engines.bought import BoughtProfile, bought_profile
from dpadmm.errors import InputError, LedgerError, raise_alone
from dpadmm.estimators.data import counted_by_class
from dpadmm.estimators.wishes import (
    class_weights_of,
    is_softmax,
    method_name,
    network_of,
    nominal_number,
    penalty_of,
    protection_from,
    with_public_sizes,
)
from dpadmm.estimators.wishes import protection_of as kept_in
from dpadmm.networks.graph import Network
from dpadmm.noise.secure import SecureSampler
from dpadmm.noise.simulated import SimulatedSampler
from dpadmm.planning.plan import Plan, carry_out
from dpadmm.planning.planner import plan as make_plan
from dpadmm.planning.task import AUTO, ProfileRule, TableShape, Task
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.ledger import Budget, ConfirmedLedger, Ledger, SiloColumns
from dpadmm.privacy.protection import Protection, Unit
from dpadmm.problems.losses import Huber, Logistic, Loss, SmoothedHinge
from dpadmm.problems.softmax import Softmax
from dpadmm.reporting.facts import Spending
from dpadmm.reporting.files import check_room, check_writable, checked_suffix
from dpadmm.reporting.model import ReleasedModel
from dpadmm.reporting.outcome import public_names, released_model, spending_of


def check_no_copies(tables: Mapping[str, SiloTable]) -> None:
    """Refuse files with the very same rows: a copy under another name holds every person of the first once more."""
    seen: dict[frozenset[bytes], str] = {}
    for silo in ledger_data(tables):
        if silo.rows == 0:
            continue  # holds nobody
        where = tables[silo.name].where
        first = seen.setdefault(frozenset(silo.digests.values()), where)
        if first != where:
            raise InputError(
                f"The same rows are in two files, {first} and {where}. Give one of them; or, if people really are in "
                "both, say --silos-per-person 2 or more, so that their records are counted together."
            )


def ledger_data(tables: Mapping[str, SiloTable], persons: Persons | None = None) -> tuple[SiloColumns, ...]:
    """Return the tables as the silos that a ledger is made for: every column, used or not, and whose the rows are."""
    whose = [None] * len(tables) if persons is None else persons.numbers
    pairs = zip(tables.items(), whose, strict=True)
    return tuple(SiloColumns.of_frame(silo, table.known, numbers) for (silo, table), numbers in pairs)


@dataclass(frozen=True, kw_only=True)
class TaskWords:
    """What the options say about a task, checked before a row is read and the silos are known."""

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
    class_weight: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no silos could make right."""
        checks.positive("--epsilon", self.epsilon)
        checks.open_unit("--delta", self.delta)
        penalty_of(self.alpha, self.l1_ratio)
        self.method_name()
        nominal_number(self.protection.relation, self.nominal_records)

    def method_name(self) -> str | None:
        """Return the registry's name of the method, None where the planner chooses."""
        return method_name(self.method)

    def task(self, sizes: tuple[int, ...], schema: Schema) -> Task:
        """Return the task for silos of these sizes with tables of this schema."""
        plain = self.plain_task(sizes, schema.dimension, is_real=schema.label.is_real)
        classes = len(schema.label.classes)
        return replace(
            plain,
            loss=plain.loss if self.problems(schema) > 1 or classes < 3 else Softmax(classes),
            row_norm=schema.row_norm,
            table=TableShape.of(ProfileForm(schema.columns)),
        )

    def class_weights(self, schema: Schema) -> dict[Any, float] | None:
        """Return the weight of each class of the schema's label that the options name, None if they name none."""
        if not self.class_weight:
            return None
        known = {str(each): each for each in schema.label.classes}
        found = {}
        for word in self.class_weight:
            name, _, number = word.rpartition("=")
            try:
                found[known[name.strip()]] = float(number)
            except (KeyError, ValueError):
                listed = ", ".join(known) or "none, since the label is a number"
                raise_alone(InputError(f"--class-weight takes CLASS=NUMBER, got {word!r}; classes are {listed}."))
        return class_weights_of(found, self.method)

    def problems(self, schema: Schema) -> int:
        """Return how many problems share the budget: one for each class where these are not one softmax model."""
        classes = len(schema.label.classes)
        if classes < 3:
            return 1
        if self.loss == "svm" and self.multi_class == "softmax":
            raise InputError("--multi-class softmax is for --loss logistic; svm has a model for each class.")
        is_one = self.loss != "svm" and is_softmax(self.multi_class, self.method, classes)
        return 1 if is_one else classes

    def plain_task(self, sizes: tuple[int, ...], dimension: int, *, is_real: bool) -> Task:
        """Return the task for rows of norm 1 about which no more is known; `is_real`: the target is a number."""
        return Task(
            sizes=sizes,
            dimension=dimension,
            loss=loss_of(self.loss, is_real=is_real),
            target=Target(self.epsilon, self.delta),
            protection=self.protection,
            network=self._network(len(sizes)),
            regulariser=penalty_of(self.alpha, self.l1_ratio),
            profile=self.profile,
        )

    def _network(self, n_silos: int) -> Network | None:
        if self.topology != "auto" and n_silos < 2:
            raise InputError(f"--topology {self.topology} needs at least 2 silos, got 1. Leave it out.")
        return network_of(self.topology, n_silos)


def protection_of(
    ledger: Path | None,
    unit: str | None,
    view: str | None,
    records_per_person: int | None,
    silos_per_person: int | None,
    colluders: int | None = None,
    neighbours: str | None = None,
) -> Protection:
    """Return what the options say about people and observers; what they leave out is the ledger's, if it is there."""
    book = ledger if ledger is not None and ledger.exists() else None
    return protection_from(kept_in(book), unit, view, records_per_person, silos_per_person, colluders, neighbours)


def loss_of(word: str, *, is_real: bool) -> Loss:
    """Return the loss that a word names, if it fits the target."""
    losses: dict[str, Loss] = {"logistic": Logistic(), "svm": SmoothedHinge(), "huber": Huber(0.5)}
    chosen = ("huber" if is_real else "logistic") if word == "auto" else word
    if (chosen == "huber") is not is_real:
        kind, fitting = ("a number", "huber") if is_real else ("classes", "logistic or svm")
        raise InputError(f"--loss {chosen} does not fit: the schema's label has {kind}. Use {fitting}.")
    return losses[chosen]


@dataclass(frozen=True)
class Prepared:
    """The silos' rows as they were read, and notes about awkward cells for the data's holder alone.

    bought: the profile of these rows that an earlier run released, None without one. assumed: for the statement.
    """

    rows: RawSilos
    notes: tuple[str, ...]
    bought: BoughtProfile | None = None
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Books:
    """The ledger to record in: an existing file, or a new one with a budget; None keeps no record."""

    path: Path | None = None
    budget: float | None = None

    @property
    def name(self) -> str:
        """The ledger's file name, as reports show it."""
        return "" if self.path is None else self.path.name

    def check(self) -> None:
        """Refuse a new ledger without a budget, and a budget for one that has its own."""
        if self.path is None:
            if self.budget is not None:
                raise InputError("--budget is for a new ledger: name it with --ledger FILE.")
            return
        if not self.path.exists() and self.budget is None:
            raise InputError(
                f"{self.path} does not exist yet. To start it, say what these data may spend in all, now and later: "
                "--budget EPSILON (at the same --delta)."
            )
        if self.path.exists() and self.budget is not None:
            raise InputError(
                f"{self.path} has a budget already. Leave --budget out, or change it with `dpadmm ledger budget`."
            )

    @contextmanager
    def open(
        self, tables: Mapping[str, SiloTable], words: TaskWords, persons: Persons | None = None
    ) -> Iterator[ConfirmedLedger | None]:
        """Yield the ledger, found to be that of these tables; a new one is created first."""
        if self.path is None:
            yield None
            return
        data = ledger_data(tables, persons)
        if self.budget is not None:
            Ledger.create(
                self.path, data, Budget(epsilon=self.budget, delta=words.delta), protection=words.protection
            ).close()
        with Ledger.open(self.path) as ledger:
            confirmed = ledger.confirm(data)
            confirmed.check_protection(words.protection)
            yield confirmed


def prepare(
    schema: Schema,
    tables: Mapping[str, SiloTable],
    screening: Screening,
    names: Sequence[str] | None = None,
    nominal_records: int | None = None,
    persons: Persons | None = None,
) -> Prepared:
    """Read every table; faults name file, row and column. `names`: what silos are called, where not as the tables.

    persons: whose the rows are, where a person may have several; only the rows that are kept are read.
    """
    may_be_empty, used = nominal_records is not None, None if persons is None else persons.rows()
    frames = [table.frame for table in tables.values()]
    if used is not None:
        frames = [frame.iloc[own.kept] for frame, own in zip(frames, used, strict=True)]
    parts = [
        screen_cells(schema.columns, schema.label, frame, table.where, screening, may_be_empty=may_be_empty)
        for frame, table in zip(frames, tables.values(), strict=True)
    ]
    names = list(tables) if names is None else names
    sources = tuple(f"{name}[0]" for name in schema.column_names)  # as `SiloColumns.of_frame` has them
    people = None if used is None else [own.people for own in used]
    rows = RawSilos(schema, parts, [[part.labels for part in parts]], names, sources=sources, people=people)
    rows = with_public_sizes(rows, nominal_records)
    return Prepared(rows, tuple(note for part in parts for note in part.notes))


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def plan_for(schema: Schema, sizes: tuple[int, ...], words: TaskWords) -> Plan:
    """Plan from public facts: the schema's width and norm, the sizes and the options."""
    return make_plan(words.task(sizes, schema), method=words.method_name(), problems=words.problems(schema))


@dataclass(frozen=True, kw_only=True)
class Training:
    """Everything `fit` was asked for. persons: whose the rows are, where a person may have several."""

    schema: Schema
    tables: Mapping[str, SiloTable]
    words: TaskWords
    screening: Screening
    books: Books
    out: Path
    title: str
    seed: int | None = None
    may_replace: bool = False
    is_hopeless_allowed: bool = False
    has_progress: bool = True
    persons: Persons | None = None

    def check(self) -> Prepared:
        """Check all that can be checked before planning: files, cells, places."""
        checked_suffix(self.out)
        if self.persons is not None:
            self.persons.check_silos(self.words.protection.silos_per_person)
        self._check_words()
        self.books.check()
        if self.books.budget is not None and self.books.budget < self.words.epsilon:
            raise InputError(
                f"--budget {self.books.budget:g} is less than this run's --epsilon {self.words.epsilon:g}. Nothing was "
                "written or spent; say what these data may spend in all, this run included."
            )
        if self.seed is not None and self.books.path is not None:
            raise InputError("--simulate makes no release, so it cannot be recorded. Leave --ledger out.")
        if self.words.protection.unit is Unit.RECORD and self.words.protection.silos_per_person < 2:
            check_no_copies(self.tables)
        check_writable(self.out, may_replace=self.may_replace)
        if self.books.path is not None:
            check_room(self.books.path)
        if self.books.budget is not None:  # a new ledger, made when everything is planned
            return self._prepared()
        # Other data or terms are refused before the planning.
        with self.books.open(self.tables, self.words, self.persons) as ledger:
            prepared = self._prepared()
            if ledger is None or not self.words.profile.is_wanted:
                return prepared
            target = Target(self.words.epsilon, self.words.delta)
            return replace(prepared, bought=bought_profile(ledger, prepared.rows, self.words.protection, target))

    def _prepared(self) -> Prepared:
        names = public_names(list(self.tables), self.words.protection.unit)
        made = prepare(self.schema, self.tables, self.screening, names, self.words.nominal_records, self.persons)
        problems, weights = self.words.problems(self.schema), self.words.class_weights(self.schema)
        if weights is not None:
            rows, note = counted_by_class(made.rows, self.schema.label.classes, weights)
            made = replace(made, rows=rows, assumed=(note,))
        return made if problems == 1 else replace(made, rows=made.rows.against_rest(problems))

    def _check_words(self) -> None:
        """Refuse words that the model file, its report or the terminal could not show."""
        words = {
            "--title": self.title,
            "--out": str(self.out),
            "--ledger": str(self.books.path or ""),
            "The schema": self.schema.to_json(),
            "The name of a silo or a file": "".join((*self.tables, *(table.where for table in self.tables.values()))),
        }
        for what, text in words.items():
            if not _is_utf8(text):
                raise InputError(f"{what} holds characters that are not UTF-8 text. Nothing was spent; write it anew.")

    def plan(self, prepared: Prepared) -> Plan:
        """Plan, and refuse a hopeless target unless told otherwise: nothing is spent then."""
        rule = self.words.profile
        if prepared.bought is not None:
            rule = rule.with_bought(prepared.bought.counts.run, prepared.bought.m)
        plan = plan_for(self.schema, prepared.rows.sizes, replace(self.words, profile=rule))
        if plan.is_hopeless and not self.is_hopeless_allowed:
            raise InputError(f"{' '.join(plan.warnings)} Nothing was spent. To train nevertheless, say --anyway.")
        return plan

    def _spending(self, ledger: ConfirmedLedger) -> Spending | None:
        """Return what the ledger says after the run; whatever keeps it from saying so, the paid model must be saved."""
        try:
            return spending_of(ledger.ledger, self.books.name)
        except LedgerError as problem:
            typer.echo(f"Warning: the model is paid for and saved, but its ledger cannot be read: {problem}", err=True)
            return None

    def carry_out(self, prepared: Prepared, plan: Plan) -> tuple[ReleasedModel, Path]:
        """Reserve, run and save; return the model and where it is."""
        sampler = SecureSampler() if self.seed is None else SimulatedSampler(self.seed)
        plan.whole_plan(self.seed is None)  # noise that cannot be drawn is refused before a ledger is made for it
        with self.books.open(self.tables, self.words, self.persons) as ledger:
            rows, bought = prepared.rows, prepared.bought
            outcome = carry_out(plan, rows, sampler, ledgers=ledger, progress=self.has_progress, bought=bought)
            spending = None if ledger is None else self._spending(ledger)
        names = prepared.rows.names or ()
        model = released_model(outcome, self.schema, names, self.title, spending, prepared.assumed)
        return model, model.save(self.out)
