"""The one path from tables to a saved model: check everything, plan, find room, reserve, run, save."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from dpadmm import checks
from dpadmm.checks import plural, setting
from dpadmm.core.budget import ReusedProfile, reusable_profile
from dpadmm.data.persons import Persons
from dpadmm.data.raw import RawSilos
from dpadmm.data.schema import Schema, Screening
from dpadmm.data.streamed import StreamedSilos, StreamedTable
from dpadmm.data.tables import SiloTable, check_split, screen_cells
from dpadmm.errors import InputError, LedgerError
from dpadmm.estimators.data import counted_by_class
from dpadmm.estimators.wishes import Books, with_public_sizes
from dpadmm.front.asked import TaskWords, check_person, persons_of
from dpadmm.front.sources import AnyTables, in_files, in_memory
from dpadmm.noise.secure import SecureSampler
from dpadmm.noise.simulated import SimulatedSampler
from dpadmm.planner.carrying import carry_out
from dpadmm.planner.plan import Plan
from dpadmm.planner.planner import UtilityPoint, epsilons_around, utility_curve
from dpadmm.planner.planner import plan as make_plan
from dpadmm.planner.task import Task
from dpadmm.privacy.ledger import SiloColumns
from dpadmm.reporting.facts import NOT_STATED, Accountability
from dpadmm.reporting.files import check_room, check_writable, checked_suffix
from dpadmm.reporting.model import ReleasedModel
from dpadmm.reporting.outcome import public_names, released_model, spending_of

_STRICT, _NO_BOOKS = Screening(), Books()


def ledger_data(tables: AnyTables, persons: Persons | None = None) -> tuple[SiloColumns, ...]:
    """Return the tables as the silos that a ledger is made for: every column, used or not, and whose the rows are."""
    whose = [None] * len(tables) if persons is None else persons.numbers
    pairs = zip(tables.items(), whose, strict=True)
    return tuple(table.ledger_columns(silo, numbers) for (silo, table), numbers in pairs)


def budgets_around(task: Task, method: str | None = None, problems: int | None = 1) -> tuple[UtilityPoint, ...]:
    """Return what the planner expects of usual budgets and of the task's; one that it cannot plan for is left out."""
    found: list[UtilityPoint] = []
    for epsilon in epsilons_around(task.target.epsilon):
        with suppress(InputError):
            found += utility_curve(task, (epsilon,), method, problems)
    return tuple(found)


@dataclass(frozen=True)
class Prepared:
    """The silos' rows as they were read, and notes about awkward cells for the data's holder alone.

    earlier: the profile of these rows that an earlier run released, None without one. data: the tables as a ledger
    knows them, where one is kept. assumed: for the statement.
    """

    rows: RawSilos
    notes: tuple[str, ...]
    earlier: ReusedProfile | None = None
    data: tuple[SiloColumns, ...] = ()
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trained:
    """A model that is paid for, and where it is: elsewhere than wanted, if it could not be written there.

    unread: what kept its ledger from being read after the run.
    """

    model: ReleasedModel
    place: Path | None
    unread: LedgerError | None = None


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


def prepare_streamed(
    schema: Schema,
    tables: Mapping[str, StreamedTable],
    screening: Screening,
    names: Sequence[str] | None = None,
    nominal_records: int | None = None,
) -> Prepared:
    """As `prepare`, in one pass over every table."""
    called = list(tables) if names is None else names
    rows = StreamedSilos.of_tables(schema, list(tables.values()), screening, called)
    notes = [note for part in rows.streamed for note in part.check(may_be_empty=nominal_records is not None)]
    return Prepared(with_public_sizes(rows, nominal_records), tuple(notes))


def check_outputs(out: Path | None, report: Path | None, *, may_replace: bool) -> None:
    """Refuse, before anything is spent, places where a model or its report could not be written."""
    for place in (out, report):
        if place is not None:
            check_writable(place, may_replace=may_replace)
    if out is not None:
        checked_suffix(out)


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
    """Everything a fit was asked for, but its tables: `dpadmm.fit` and `dpadmm fit` are both this.

    split_by, person: columns that tell the silo of a row, and whose it is, where a person may have several. keep: how
    many rows of a person are used in a silo. out, report: where model and report are written, if anywhere. about: who
    answers for the processing, which the model keeps for its reports.
    is_hopeless_allowed: train even if the planner expects nothing, or no intervals that were asked for.
    """

    schema: Schema
    words: TaskWords
    screening: Screening = _STRICT
    books: Books = _NO_BOOKS
    out: Path | None = None
    report: Path | None = None
    about: Accountability = NOT_STATED
    title: str | None = None
    split_by: str | None = None
    person: str | None = None
    keep: int | None = None
    seed: int | None = None
    may_replace: bool = False
    is_hopeless_allowed: bool = False
    has_progress: bool = True

    def check_words(self) -> None:
        """Check all that can be checked before a row is read; that files are apart is checked before."""
        check_split(self.split_by, self.schema.columns, self.schema.label)
        check_person(self.person, self.keep, self.words.protection, self.schema, self.split_by)
        check_outputs(self.out, self.report, may_replace=self.may_replace)
        self.words.class_weights(self.schema)
        self.books.check(self.words.epsilon)
        if self.seed is not None:
            checks.count("seed", self.seed, least=0)
            if self.books.path is not None:
                raise InputError(
                    f"With {setting('seed')} nothing is released, so there is nothing to record. Leave out "
                    f"{setting('ledger')}."
                )

    def check(self, tables: AnyTables) -> Prepared:
        """Check the tables, before planning."""
        persons = None if self.person is None else persons_of(in_memory(tables), self.person, self.keep)
        if persons is not None:
            persons.check_silos(self.words.protection.silos_per_person)
        self._check_texts(tables)
        data = ledger_data(tables, persons)  # hashed when they are asked for
        if self.books.path is not None:
            check_room(self.books.path)
        names = public_names(list(tables), self.words.protection.unit)
        data = data if self.books.path is not None else ()
        if self.books.is_new:  # made when everything is planned
            return replace(self._prepared(tables, names, persons), data=data)
        # Other data or terms are refused before the planning.
        with self.books.open(data, self.words.delta, self.words.protection) as ledger:
            prepared = replace(self._prepared(tables, names, persons), data=data)
            if ledger is None or not self.words.profile.is_wanted:
                return prepared
            earlier = reusable_profile(ledger, prepared.rows, self.words.protection, self.words.target)
            return replace(prepared, earlier=earlier)

    def _prepared(self, tables: AnyTables, names: Sequence[str], persons: Persons | None) -> Prepared:
        streamed, nominal = in_files(tables), self.words.nominal_records
        if streamed:
            made = prepare_streamed(self.schema, streamed, self.screening, names, nominal)
        else:
            made = prepare(self.schema, in_memory(tables), self.screening, names, nominal, persons)
        weights = self.words.class_weights(self.schema)
        if weights is not None:
            rows, note = counted_by_class(made.rows, self.schema.label.classes, weights)
            made = replace(made, rows=rows, assumed=(note,))
        return made

    def _check_texts(self, tables: AnyTables) -> None:
        """Refuse words that the model file, its report or the terminal could not show."""
        words = {
            setting("title"): self.title or "",
            **{setting(name): words for name, words in vars(self.about).items()},
            setting("out"): str(self.out or ""),
            setting("ledger"): str(self.books.path or ""),
            "The schema": self.schema.to_json(),
            "The name of a silo or a file": "".join((*tables, *(table.where for table in tables.values()))),
        }
        for what, text in words.items():
            if not _is_utf8(text):
                raise InputError(f"{what} contains characters that are not UTF-8. Nothing was spent. Rename it.")

    def plan(self, prepared: Prepared) -> Plan:
        """Plan, and refuse a hopeless target unless told otherwise: nothing is spent then."""
        rule = self.words.profile
        if prepared.earlier is not None:
            rule = rule.with_bought(prepared.earlier.counts.run, prepared.earlier.m)
        plan = plan_for(self.schema, prepared.rows.sizes, replace(self.words, profile=rule))
        if (plan.is_hopeless or plan.lacks_intervals) and not self.is_hopeless_allowed:
            raise InputError(
                f"{' '.join(plan.warnings)} Nothing was spent. To train anyway, add {setting('anyway', True)}."
            )
        return plan

    def carry_out(self, prepared: Prepared, plan: Plan) -> Trained:
        """Reserve, run and save."""
        sampler = SecureSampler() if self.seed is None else SimulatedSampler(self.seed)
        plan.spec.noise_plan(self.seed is None)  # noise that cannot be drawn is refused before a ledger is made for it
        rows, earlier, unread = prepared.rows, prepared.earlier, None
        budgets = () if self.report is None else self._budgets(rows, plan)
        with self.books.open(prepared.data, self.words.delta, self.words.protection) as ledger:
            outcome = carry_out(plan, rows, sampler, ledger, progress=self.has_progress, earlier=earlier)
            try:
                spending = None if ledger is None else spending_of(ledger.ledger, self.books.name)
            except LedgerError as problem:  # whatever keeps it from being read, the paid model must be saved
                spending, unread = None, problem
        names = rows.names or ()
        title = self.title if self.title is not None else f"{self.schema.label.name} from {plural(len(names), 'silo')}"
        model = released_model(outcome, self.schema, names, title, spending, prepared.assumed)
        model = replace(model, about=self.about, budgets=tuple(budgets))
        place = None if self.out is None else model.save(self.out)
        if self.report is not None:
            model.report(self.report, name=None if place is None else place.name)
        return Trained(model, place, unread)

    def _budgets(self, rows: RawSilos, plan: Plan) -> tuple[UtilityPoint, ...]:
        words = self.words.settled(plan, self.schema)
        return budgets_around(words.task(rows.sizes, self.schema), words.method_name(), words.problems(self.schema))
