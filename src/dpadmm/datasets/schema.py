"""A schema: what a table may hold, stated in public before anybody looks at the private rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.datasets import schema_json
from dpadmm.datasets.columns import Cells, Column
from dpadmm.datasets.labels import Label
from dpadmm.datasets.policies import EncodingReport, Layout, Missing, OutOfRange, Unknown
from dpadmm.datasets.tables import lacks
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.silos import row_norms

# AUTO stores as CSR from this width on, if at most this share of the cells is non-zero.
SPARSE_WIDTH = 32
SPARSE_SHARE = 0.25


@dataclass(frozen=True)
class EncodedFeatures:
    """Encoded rows: `features` (n, d), the positions `kept` of these rows in the table, and a report."""

    features: Matrix = field(repr=False)
    kept: NDArray[np.intp] = field(repr=False)
    report: EncodingReport


@dataclass(frozen=True)
class Encoded(EncodedFeatures):
    """Encoded rows with their labels (n,)."""

    labels: Floats = field(repr=False)


@dataclass(frozen=True)
class Schema:
    """Ordered columns, a label and the norm bound that every encoded row keeps.

    A row `v` of scaled numbers and one-hot categories becomes `v / max(1, ||v|| / R)`, `R = row_norm`: long rows
    are shortened to the bound, short rows stay. With `constant = k` a last feature of value k is added for an
    intercept, and the other features keep `sqrt(R^2 - k^2)` instead of R, so the whole row still keeps R.
    Nothing here depends on the data: bounds, categories and norm are stated, not fitted, so encoding one row
    does not depend on another and needs no privacy budget.

    Parameters
    ----------
    columns: one or more `Numeric` or `Categorical` columns, with distinct names.
    label: `BinaryLabel`, `ThresholdLabel` or `RealLabel`; not one of the columns.
    row_norm: the bound R > 0 on the Euclidean norm of an encoded row.
    constant: None (no intercept feature) or a value in (0, row_norm).

    >>> from dpadmm.datasets.columns import Categorical, Numeric
    >>> from dpadmm.datasets.labels import ThresholdLabel
    >>> schema = Schema((Numeric("age", 0, 100), Categorical("sex", ("F", "M"))), ThresholdLabel("pay", 1000))
    >>> table = pd.DataFrame({"age": [0, 75], "sex": ["M", "F"], "pay": [900, 1100]})
    >>> schema.feature_names
    ('age', 'sex=F', 'sex=M')
    >>> encoded = schema.encode(table)
    >>> encoded.features.tolist(), encoded.labels.tolist()
    ([[0.0, 0.0, 1.0], [0.6, 0.8, 0.0]], [-1.0, 1.0])
    """

    columns: tuple[Column, ...]
    label: Label
    row_norm: float = 1.0
    constant: float | None = None

    def __post_init__(self) -> None:
        """Refuse schemas that contradict themselves."""
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "row_norm", checks.positive("row_norm", self.row_norm))
        if not self.columns:
            raise InputError("A schema needs at least one column; got none.")
        names = [column.name for column in self.columns] + [self.label.name]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise InputError(f"Column and label names must be distinct; repeated: {', '.join(repeated)}.")
        if self.constant is not None and not 0 < checks.finite("constant", self.constant) < self.row_norm:
            raise InputError(
                f"constant must lie strictly between 0 and row_norm {self.row_norm:g}, got {shown(self.constant)}."
            )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded features, in order."""
        names = tuple(name for column in self.columns for name in column.feature_names)
        return names if self.constant is None else (*names, "constant")

    @property
    def dimension(self) -> int:
        """Number of encoded features d."""
        return len(self.feature_names)

    def describe(self) -> str:
        """Say in words, line by line, what the schema allows."""
        lines = [column.describe() for column in self.columns]
        return "\n".join([*lines, f"label {self.label.describe()}", f"row norm at most {self.row_norm:g}"])

    def with_constant(self, constant: float | None) -> "Schema":
        """Return the same schema with (or, for None, without) an intercept feature."""
        return replace(self, constant=constant)

    def encode(
        self,
        frame: pd.DataFrame,
        *,
        missing: Missing = Missing.ERROR,
        unknown: Unknown = Unknown.ERROR,
        out_of_range: OutOfRange = OutOfRange.CLIP,
        layout: Layout = Layout.AUTO,
    ) -> Encoded:
        """Encode a labelled table; rows with missing cells are judged first, then unlisted categories."""
        found = self._features(frame, (self.label.name,), missing, unknown, out_of_range, layout)
        labels, clipped = self.label.encode(frame[self.label.name].iloc[found.kept], out_of_range)
        counts = found.report.clipped + (((self.label.name, clipped),) if clipped else ())
        return Encoded(found.features, found.kept, replace(found.report, clipped=counts), labels)

    def encode_features(
        self,
        frame: pd.DataFrame,
        *,
        missing: Missing = Missing.ERROR,
        unknown: Unknown = Unknown.ERROR,
        out_of_range: OutOfRange = OutOfRange.CLIP,
        layout: Layout = Layout.AUTO,
    ) -> EncodedFeatures:
        """Encode a table without looking at labels, to predict them."""
        return self._features(frame, (), missing, unknown, out_of_range, layout)

    def _features(
        self,
        frame: pd.DataFrame,
        also: tuple[str, ...],
        missing: Missing,
        unknown: Unknown,
        out_of_range: OutOfRange,
        layout: Layout,
    ) -> EncodedFeatures:
        needed = (*(column.name for column in self.columns), *also)
        _check_frame(frame, needed)
        complete = _complete_rows(frame, needed, missing)
        table = frame.iloc[complete]
        cells = [column.encode(table[column.name], out_of_range) for column in self.columns]
        listed = np.ones(len(complete), dtype=bool)
        for column, cell in zip(self.columns, cells, strict=True):
            listed &= _judge_unlisted(column, cell, unknown)
        kept = complete[listed]
        if len(kept) == 0:
            raise InputError(f"No row of {len(frame)} is left after dropping incomplete and unlisted ones.")
        cells = [cell.take(listed) for cell in cells]
        named = list(zip(self.columns, cells, strict=True))
        report = EncodingReport(
            rows_given=len(frame),
            rows_kept=len(kept),
            dropped_missing=len(frame) - len(complete),
            dropped_unknown=len(complete) - len(kept),
            clipped=tuple((c.name, int(cell.clipped.sum())) for c, cell in named if cell.clipped.any()),
            zeroed=tuple((c.name, int((cell.codes < 0).sum())) for c, cell in named if (cell.codes < 0).any()),
        )
        return EncodedFeatures(self._assemble(cells, layout), kept, report)

    def _assemble(self, cells: Sequence[Cells], layout: Layout) -> Matrix:
        """Lay the encoded columns side by side, shorten the rows, add the constant."""
        rows, widths = len(cells[0].values), [len(column.feature_names) for column in self.columns]
        starts = np.concatenate([[0], np.cumsum(widths)])
        # One slot per row and column, in column order: already sorted CSR, with zeros to remove.
        indices = np.stack([s + np.maximum(c.codes, 0) for s, c in zip(starts, cells, strict=False)], axis=1)
        values = np.stack([np.where(c.codes < 0, 0.0, c.values) for c in cells], axis=1)
        room = self.row_norm
        if self.constant is not None:
            room = float(np.sqrt(self.row_norm**2 - self.constant**2))
            indices = np.column_stack([indices, np.full(rows, starts[-1])])
        norms = np.sqrt((values * values).sum(axis=1))
        values /= np.maximum(1.0, norms / room)[:, None]
        if self.constant is not None:
            values = np.column_stack([values, np.full(rows, self.constant)])
        pointers = np.arange(0, indices.size + 1, indices.shape[1])
        table = sparse.csr_array((values.ravel(), indices.ravel(), pointers), shape=(rows, self.dimension))
        table.eliminate_zeros()
        wide = self.dimension >= SPARSE_WIDTH and indices.shape[1] <= SPARSE_SHARE * self.dimension
        if layout is Layout.SPARSE or (layout is Layout.AUTO and wide):
            return table
        return np.ascontiguousarray(table.toarray())

    def to_json(self) -> str:
        """Return the schema as JSON text."""
        return schema_json.dumps(self.columns, self.label, self.row_norm, self.constant)

    @classmethod
    def from_json(cls, text: str, *, origin: str = "the schema") -> "Schema":
        """Read a schema from JSON text; `origin` names it in messages."""
        return cls(*schema_json.loads(text, origin))

    def save(self, path: str | Path) -> None:
        """Write the schema as a JSON file."""
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Schema":
        """Read a schema from a JSON file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise InputError(f"Cannot read the schema file {str(path)!r}: {problem}.") from problem
        return cls.from_json(text, origin=str(path))


def shorten_rows(features: Matrix, row_norm: float) -> Matrix:
    """Return every row `v` as `v / max(1, ||v|| / row_norm)`.

    >>> shorten_rows(np.array([[3.0, 4.0], [0.1, 0.0]]), 1.0).tolist()
    [[0.6, 0.8], [0.1, 0.0]]
    """
    excess = np.maximum(1.0, row_norms(features) / checks.positive("row_norm", row_norm))
    if sparse.issparse(features):
        return sparse.csr_array(sparse.diags_array(1.0 / excess) @ features)
    return features / excess[:, None]


def _check_frame(frame: pd.DataFrame, needed: tuple[str, ...]) -> None:
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"The table must be a pandas DataFrame, got {type(frame).__name__}.")
    if len(frame) == 0:
        raise InputError("The table has no rows; at least one is needed.")
    if any(name not in frame.columns for name in needed):
        raise InputError(f"{lacks('The table', needed, frame.columns)} Rename its columns, or correct the schema.")
    twice = [name for name in needed if (frame.columns == name).sum() > 1]
    if twice:
        raise InputError(f"The table has more than one column named {', '.join(map(repr, twice))}.")


def _complete_rows(frame: pd.DataFrame, needed: tuple[str, ...], missing: Missing) -> NDArray[np.intp]:
    absent = frame[list(needed)].isna()
    incomplete = absent.any(axis=1).to_numpy()
    if incomplete.any() and missing is Missing.ERROR:
        where = ", ".join(f"{name} ({count})" for name, count in absent.sum().items() if count)
        raise InputError(
            f"{incomplete.sum()} of {len(frame)} rows have missing values, in: {where}. "
            "Fill them, or drop those rows (Missing.DROP)."
        )
    if incomplete.all():
        raise InputError(f"Every one of the {len(frame)} rows has a missing value; no row is left.")
    return np.flatnonzero(~incomplete)


def _judge_unlisted(column: Column, cell: Cells, unknown: Unknown) -> NDArray[np.bool_]:
    """Return which rows stay, as the policy says."""
    listed = cell.codes >= 0
    if unknown is Unknown.ERROR and not listed.all():
        raise InputError(
            f"Column {column.name!r}: {(~listed).sum()} of {len(listed)} rows hold an unlisted category. "
            f"Allowed is {column.describe()}. List it from public knowledge, drop those rows (Unknown.DROP) "
            "or encode it as all zeros (Unknown.ZERO)."
        )
    return listed if unknown is Unknown.DROP else np.ones(len(listed), dtype=bool)
