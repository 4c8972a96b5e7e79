"""How the rows of a table become scores: by a schema, or by columns of numbers as the estimators take them."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from dpadmm.data.cells import Cells, Screened, listed_cells, number_cells
from dpadmm.data.columns import Column, Numeric, RealLabel
from dpadmm.data.encoding import CONSTANT, RowEncoding, TargetScale
from dpadmm.data.profile import ReleasedProfile
from dpadmm.data.schema import Schema, Screening
from dpadmm.data.tables import encode_table, screen_cells
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, Matrix

ClassName: TypeAlias = str | bool | int | float


@dataclass(frozen=True, kw_only=True)
class PlainLabel:
    """What an estimator predicts: one of its classes (none: a number, clipped and scaled by `scale` for training)."""

    name: str = "label"
    classes: tuple[ClassName, ...] = ()
    scale: TargetScale | None = None

    def __post_init__(self) -> None:
        """Refuse what is neither."""
        if (self.scale is None) == (len(self.classes) < 2):
            raise InputError("A label has at least 2 classes or, for a number, a scale; got neither or both.")

    @property
    def is_real(self) -> bool:
        """Whether it is a number."""
        return self.scale is not None

    @property
    def allowed(self) -> str:
        """The classes, or any number."""
        return "a number" if self.is_real else ", ".join(map(repr, self.classes))

    def read(self, cells: pd.Series) -> Cells:
        """Return the encoded labels: -1 or +1, the number of the class, or a number in [-1, 1]."""
        if self.scale is not None:
            low, high = self.scale.middle - self.scale.half_width, self.scale.middle + self.scale.half_width
            found = number_cells(cells, self.scale.middle, low, high)
            return replace(found, values=self.scale.encode(found.values))
        found = listed_cells(cells, self.classes)
        numbers = found.codes.astype(np.float64)
        return replace(found, values=2 * numbers - 1 if len(self.classes) == 2 else numbers)

    def describe(self) -> str:
        """Say the classes or the bounds."""
        if self.scale is None:
            return f"{self.name}: one of {self.allowed}"
        low, high = self.scale.middle - self.scale.half_width, self.scale.middle + self.scale.half_width
        return f"{self.name}: a number, clipped to {low:g} to {high:g} for training"


@dataclass(frozen=True)
class AnyNumber:
    """One column of numbers without bounds."""

    name: str

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One feature, named as the column."""
        return (self.name,)

    @property
    def allowed(self) -> str:
        """Any number."""
        return "any number"

    def read(self, cells: pd.Series) -> Cells:
        """Return the numbers as they are."""
        return number_cells(cells, 0.0, -np.inf, np.inf)

    def describe(self) -> str:
        """Say that every number will do."""
        return f"{self.name}: {self.allowed}"


@dataclass(frozen=True, kw_only=True)
class PlainColumns:
    """Columns of numbers and a label, as the estimators take arrays; what a schema is for tables with categories.

    names: of the columns, from left to right; `numbered_names` where there are none. lower, upper: their public bounds,
    None where there are none. is_assumed: nothing was stated about the rows, so their norm is a convention.
    """

    names: tuple[str, ...]
    label: PlainLabel
    lower: tuple[float, ...] | None = None
    upper: tuple[float, ...] | None = None
    has_intercept: bool = True
    is_assumed: bool = False
    row_norm: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        """Refuse columns without a name, and names without a column."""
        sides = [side for side in (self.lower, self.upper) if side is not None]
        if not self.names or len(sides) == 1 or any(len(side) != len(self.names) for side in sides):
            raise InputError(f"The {len(self.names)} column names do not match their bounds.")

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Each column with its bounds."""
        if self.lower is None or self.upper is None:
            return tuple(AnyNumber(name) for name in self.names)  # type: ignore[misc]
        return tuple(Numeric(*each) for each in zip(self.names, self.lower, self.upper, strict=True))

    @property
    def constant(self) -> float | None:
        """The constant feature that stands for the intercept."""
        return CONSTANT if self.has_intercept else None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded features of one problem."""
        return (*self.names, "intercept") if self.has_intercept else self.names

    @property
    def dimension(self) -> int:
        """Number of encoded features d."""
        return len(self.feature_names)

    def encoding(self, reach: float, profile: ReleasedProfile | None = None) -> RowEncoding:
        """Return how rows are encoded, see `Schema.encoding`; only for columns with bounds."""
        scales = [each.usual_scale() for each in self.columns] if profile is None else profile.scales(self.columns)
        return RowEncoding.of(scales, reach=reach, row_norm=self.row_norm, constant=self.constant)


def target_scale(label: Any) -> TargetScale | None:
    """Return how a number is mapped into [-1, 1]; None for classes."""
    if isinstance(label, RealLabel):
        half = (label.upper - label.lower) / 2
        return TargetScale(label.lower + half, half)
    return label.scale if isinstance(label, PlainLabel) else None


@dataclass(frozen=True)
class ModelRows:
    """How rows become scores and answers; encoded labels are -1 or +1, the number of a class, or a number in [-1, 1].

    Weights are (problems, d), encoded rows (n, d), scores (n, problems), those of a number in [-1, 1].
    """

    schema: Schema | PlainColumns
    encoding: RowEncoding

    @property
    def problems(self) -> int:
        """Vectors of coefficients: one, or one per class if there are more than two."""
        return len(self.schema.label.classes) if len(self.schema.label.classes) > 2 else 1

    def read(self, table: Any, where: str, screening: Screening, *, is_labelled: bool) -> Screened:
        """Return the encoded rows of a table by the columns' names, their encoded labels, and which were blanked.

        Of plain columns, rows may also be an array.
        """
        columns = self.schema
        if isinstance(columns, Schema):
            return encode_table(columns, table, where, screening, is_labelled=is_labelled, encoding=self.encoding)
        if not isinstance(table, pd.DataFrame):
            rows = self._array(table, where)
            return Screened(self.encoding.encode(rows), np.empty(0), np.zeros(rows.shape[0], dtype=bool), ())
        found = screen_cells(columns.columns, columns.label if is_labelled else None, table, where, screening)
        empty = zip(found.cells, self.encoding.empty, strict=True)
        rows = self.encoding.encode(np.column_stack([np.where(c.missing, usual, c.values) for c, usual in empty]))
        rows[found.blank] = 0.0
        return Screened(rows, found.labels, found.blank, found.notes)

    def _array(self, table: Any, where: str) -> Matrix:
        names = [column.name for column in self.schema.columns]
        rows = sparse.csr_array(table, dtype=np.float64) if sparse.issparse(table) else np.asarray(table)
        if rows.dtype.kind not in "biuf":
            raise InputError(f"{where} must contain numbers, or be a DataFrame with columns {', '.join(names)}.")
        if rows.ndim != 2 or rows.shape[1] != len(names):
            raise InputError(f"{where} must have {len(names)} columns, got an array of shape {rows.shape}.")
        if not np.all(np.isfinite(rows.data if sparse.issparse(rows) else rows)):
            raise InputError(f"{where} contains cells that are not finite numbers. Fill them in.")
        return rows

    def coefficients(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return (coef, intercept), (problems, features) and (problems,), in the units of the table."""
        coef, intercept = map(np.array, zip(*(self.encoding.decode(vector) for vector in weights), strict=True))
        scale = target_scale(self.schema.label)
        return (coef, intercept) if scale is None else scale.decode(coef, intercept)

    def scores(self, weights: Floats, features: Matrix) -> Floats:
        """Return features times weights."""
        return np.asarray(features @ weights.T)

    def answers(self, scores: Floats) -> NDArray[Any]:
        """Return the predictions: a number in its own units, by a schema within its bounds; or a class."""
        label = self.schema.label
        if isinstance(label, RealLabel):
            return label.decode(scores[:, 0])
        scale = target_scale(label)
        if scale is not None:
            return scores[:, 0] * scale.half_width + scale.middle
        which = scores.argmax(axis=1) if self.problems > 1 else (scores[:, 0] > 0).astype(np.intp)
        return np.array(label.classes, dtype=object if isinstance(self.schema, Schema) else None)[which]

    def encoded_answers(self, scores: Floats) -> Floats:
        """Return the predictions as labels are encoded by `read`."""
        if self.schema.label.is_real:
            return np.clip(scores[:, 0], -1.0, 1.0)
        if self.problems > 1:
            return scores.argmax(axis=1).astype(np.float64)
        return np.where(scores[:, 0] > 0, 1.0, -1.0)
