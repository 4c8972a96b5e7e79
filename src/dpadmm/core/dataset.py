"""The rows of all silos before they are encoded, what is public about them, and what a ledger knows of them.

How rows are encoded may depend on a column profile that the training itself releases, so a `Dataset` is never encoded:
`run_training` asks it for encoded rows when the profile is there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpadmm.data.columns import class_shares, describe_class_weights, name_classes
from dpadmm.data.encoding import LabelUse, RowEncoding
from dpadmm.data.profile import ProfileForm, ReleasedProfile
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError
from dpadmm.privacy.ledger import ProfiledColumns, SiloColumns
from dpadmm.privacy.protection import Protection, Unit
from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.silos import PersonWeights, Silos
from dpadmm.problems.streams import SiloStream
from dpadmm.settings import CellRules

if TYPE_CHECKING:  # they load readers of tables, which arrays do without
    from dpadmm.data.parquet import StreamedTable
    from dpadmm.data.persons import Persons
    from dpadmm.data.tables import SiloTable


class SiloRows(Protocol):
    """The rows of one silo: of an array (`ArrayRows`), a table (`ScreenedCells`) or Parquet files (`StreamedRows`)."""

    @property
    def number(self) -> int:
        """How many there are."""
        ...

    @property
    def labels(self) -> Floats | None:
        """Their encoded labels; None where they stay in files, from which rows are read in passes."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done with awkward cells, for the data's holder alone."""
        ...

    def counts(self, form: ProfileForm, row_weights: Floats | None = None) -> Floats:
        """Return their weighted counts, (size,); row_weights: what each row counts as, 1 where left out."""
        ...

    def rows(self, encoding: RowEncoding) -> Matrix:
        """Return them encoded, (n, d)."""
        ...


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """Rows of an array of numbers, dense or CSR, and their encoded labels."""

    table: Matrix = field(repr=False)
    labels: Floats = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """How many rows there are."""
        return int(self.table.shape[0])

    def counts(self, form: ProfileForm, row_weights: Floats | None = None) -> Floats:
        """Return the rows' counts."""
        return form.counts_of_numbers(self.table, row_weights)

    def rows(self, encoding: RowEncoding) -> Matrix:
        """Return the encoded rows."""
        return encoding.encode(self.table)


def _unknown(is_whole: bool) -> tuple[SiloColumns, ...]:
    """Refuse: not every data set was made for a ledger."""
    raise InputError("These rows are not known to a ledger. Make them from tables or arrays.")


@dataclass(frozen=True, eq=False)
class Dataset:
    """What silos hold, and how it may be encoded.

    schema: what is public about columns and label. rows: of every silo. names: of the silos, where these are public.
    own: how rows are encoded where the user has decided that; None leaves it to the plan.
    columns: what the data shown to a ledger call the columns, in order; none where a profile cannot be kept.
    ledger_columns: the same data as a ledger knows them, for some ledgers all rows as one silo.
    nominal: public numbers that stand for those of the silos' rows where these are secret.
    people: of every silo, what its rows count where a person may have several; None where every row counts one.
    class_shares: how much a row counts by its class, at most 1, in the classes' order; None where all count the same.
    assumed: what the statement of a model says beyond its certificates.
    for_coefficients: whether rows keep their length. scales_target: whether a profile counts the number to predict
        after the columns, and that is centred and scaled by it.
    """

    schema: Schema
    rows: Sequence[SiloRows] = field(repr=False)
    names: Sequence[str] | None = None
    own: RowEncoding | None = None
    columns: tuple[str, ...] = ()
    ledger_columns: Callable[[bool], Sequence[SiloColumns]] = field(default=_unknown, repr=False)
    nominal: tuple[int, ...] | None = None
    people: Sequence[PersonWeights] | None = field(default=None, repr=False)
    class_shares: tuple[float, ...] | None = None
    assumed: tuple[str, ...] = ()
    for_coefficients: bool = False
    scales_target: bool = False

    @classmethod
    def of_tables(
        cls,
        schema: Schema,
        tables: "Mapping[str, SiloTable | StreamedTable]",
        screening: CellRules,
        names: Sequence[str] | None = None,
        persons: "Persons | None" = None,
        *,
        may_be_empty: bool = False,
    ) -> "Dataset":
        """Check every table; faults name file, row and column.

        names: what silos are called, where not as the tables. persons: the person of each row, where a person may have
        several; only the rows that are kept are read. may_be_empty: where nobody may learn how many rows there are.
        """
        if any(hasattr(table, "workers") for table in tables.values()):
            from dpadmm.data.encoded import check_scratch  # late: it reads Parquet

            check_scratch(schema, tables)
        used = None if persons is None else persons.rows()
        kept = [None] * len(tables) if used is None else [own.kept for own in used]
        pairs = zip(tables.values(), kept, strict=True)
        return cls(
            schema,
            [table.screened(schema, screening, own, may_be_empty=may_be_empty) for table, own in pairs],
            list(tables) if names is None else names,
            columns=tuple(f"{name}[0]" for name in schema.column_names),  # as `SiloColumns.of_frame` has them
            ledger_columns=lambda _: ledger_columns(tables, persons),
            people=None if used is None else [own.people for own in used],
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done with awkward cells, for the data's holder alone."""
        return tuple(note for part in self.rows for note in part.notes)

    @property
    def form(self) -> ProfileForm | None:
        """What a profile would count; None where the encoding is the user's own, so that none is needed."""
        target = self.schema.target_columns if self.scales_target else ()
        return None if self.own is not None else ProfileForm((*self.schema.columns, *target))

    @property
    def n_classes(self) -> int:
        """How many classes the label has, 0 for a number."""
        return len(self.schema.label.classes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Records per silo (persons, where rows have weights), public, or the nominal numbers in their place."""
        if self.nominal is not None:
            return self.nominal
        if self.people is not None:
            return tuple(each.persons for each in self.people)
        return tuple(part.number for part in self.rows)

    def weighted(self, class_weight: Mapping[Any, float] | None) -> "Dataset":
        """Return rows of which each counts as much as its class, the heaviest 1.

        class_weight: public weights, 1 for a class that is not named; None where all count the same.
        """
        if class_weight is None:
            return self
        classes, named = self.schema.label.classes, name_classes(self.schema.label, class_weight)
        note = describe_class_weights(classes, [named.get(each, 1.0) for each in classes])
        return replace(self, class_shares=class_shares(classes, named), assumed=(*self.assumed, note))

    def subject(self, protection: Protection) -> ProfiledColumns:
        """Return what a profile of these rows is about; where each silo is a user, users are counted."""
        form = self.form
        assert form is not None
        records = len(self.rows) if protection.unit is Unit.USER else sum(self.sizes)
        return ProfiledColumns(form.digest, self.columns, records, protection)

    def counts(self, *, per_user: bool) -> Floats:
        """Return every silo's counts, (silos, size); those of a user with many rows are divided by their number.

        Where rows have weights, each counts its own: all rows of a person count one together.
        """
        form = self.form
        assert form is not None
        weights = [None] * len(self.rows) if self.people is None else [each.weights for each in self.people]
        parts, columns = list(zip(self.rows, weights, strict=True)), ProfileForm(self.schema.columns)
        found = np.stack([part.counts(columns, own) for part, own in parts])
        if form != columns:  # the number to predict comes last
            found = np.hstack([found, np.stack([self.schema.count_target(part.labels, own) for part, own in parts])])
        return found / np.array(self.sizes)[:, None] if per_user else found

    def encoding(self, clip_radius: float | None, profile: ReleasedProfile | None) -> RowEncoding:
        """Return the user's own encoding, or the planned one."""
        if self.own is not None:
            return replace(self.own, keeps_length=self.for_coefficients)
        assert clip_radius is not None
        if not self.for_coefficients:
            return self.schema.encoding(clip_radius, profile)
        return self.schema.encoding_for_coefficients(clip_radius, profile, scales_target=self.scales_target)

    def silos(self, encoding: RowEncoding, n_models: int = 1) -> list[Silos | SiloStream]:
        """Return the encoded rows of all silos for each model; with several, labels are +1 for its class, else -1."""
        norm = self.schema.row_norm
        centre, scale = encoding.target_centre, encoding.target_scale
        labels = [part.labels for part in self.rows if part.labels is not None]
        if (centre, scale) != (0.0, 1.0):
            labels = [(each - centre) / scale for each in labels]
        uses = [LabelUse(number if n_models > 1 else None, self.class_shares) for number in range(n_models)]
        if len(labels) < len(self.rows):
            from dpadmm.data.encoded import encoded_silos  # late: they read Parquet
            from dpadmm.data.parquet import StreamedRows

            names = tuple(self.names or (f"silo {i}" for i in range(len(self.rows))))
            nominal = None if self.nominal is None else np.array(self.nominal, dtype=np.int64)
            parts = tuple(part for part in self.rows if isinstance(part, StreamedRows))
            return encoded_silos(parts, encoding, norm, names, nominal, uses)
        features = [part.rows(encoding) for part in self.rows]
        facts, long = (self.names, self.nominal, self.people), encoding.keeps_length
        silos = Silos.from_parts(features, labels, norm, *facts, is_copied=False, weighs_long_rows=long)
        return [use.of(silos) for use in uses]


def ledger_columns(
    tables: "Mapping[str, SiloTable | StreamedTable]", persons: "Persons | None" = None
) -> tuple[SiloColumns, ...]:
    """Return the tables as the silos that a ledger is made for: every column, used or not, and the rows' persons."""
    people = [None] * len(tables) if persons is None else persons.numbers
    pairs = zip(tables.items(), people, strict=True)
    return tuple(table.ledger_columns(silo, numbers) for (silo, table), numbers in pairs)
