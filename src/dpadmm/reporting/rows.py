"""How the rows of a table become scores: by a schema, or by columns of numbers as the estimators take them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from dpadmm.datasets.columns import Cells, RealLabel, listed_cells, number_cells
from dpadmm.datasets.encoding import RowEncoding, TargetScale
from dpadmm.datasets.schema import Schema, Screening
from dpadmm.datasets.tables import Screened, encode_table, screen_cells
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, Matrix

ClassName: TypeAlias = str | bool | int | float


class RowScores(Protocol):
    """What a model must know about its rows; `weights` (problems, d) and features of (n, ...) give scores."""

    @property
    def problems(self) -> int:
        """Vectors of coefficients: one, or one per class if there are more than two."""
        ...

    def read(self, table: Any, where: str, screening: Screening, *, is_labelled: bool) -> Screened:
        """Return the rows as `scores` takes them, their encoded labels, and which were blanked."""
        ...

    def coefficients(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return (coef, intercept), (problems, features) and (problems,)."""
        ...

    def scores(self, weights: Floats, features: Matrix) -> Floats:
        """Return (n, problems)."""
        ...

    def answers(self, scores: Floats) -> NDArray[Any]:
        """Return the predictions, in the words or units of the table."""
        ...

    def encoded_answers(self, scores: Floats) -> Floats:
        """Return the predictions as labels are encoded by `read`."""
        ...


@dataclass(frozen=True)
class SchemaRows:
    """Rows of a table with a schema; labels are -1 or +1, or a number in [-1, 1]."""

    schema: Schema
    problems: ClassVar[int] = 1

    def read(self, table: Any, where: str, screening: Screening, *, is_labelled: bool) -> Screened:
        """Encode by the schema."""
        return encode_table(self.schema, table, where, screening, is_labelled=is_labelled)

    def coefficients(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the weights of the encoded features and of the constant; for a number, in its own units."""
        constant, label = self.schema.constant, self.schema.label
        coef = weights if constant is None else weights[:, :-1]
        intercept = np.zeros(len(weights)) if constant is None else constant * weights[:, -1]
        if isinstance(label, RealLabel):
            half = (label.upper - label.lower) / 2
            return coef * half, intercept * half + label.lower + half
        return coef, intercept

    def scores(self, weights: Floats, features: Matrix) -> Floats:
        """Return features times weights."""
        return np.asarray(features @ weights[0])[:, None]

    def answers(self, scores: Floats) -> NDArray[Any]:
        """Return a number within the label's bounds, or the first word of the class."""
        label = self.schema.label
        if isinstance(label, RealLabel):
            return label.decode(scores[:, 0])
        return np.array(label.classes, dtype=object)[(scores[:, 0] > 0).astype(np.intp)]

    def encoded_answers(self, scores: Floats) -> Floats:
        """Return -1 or +1, or a number in [-1, 1]."""
        if self.schema.label.is_real:
            return np.clip(scores[:, 0], -1.0, 1.0)
        return np.where(scores[:, 0] > 0, 1.0, -1.0)


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


@dataclass(frozen=True, kw_only=True)
class PlainColumn:
    """One column of numbers; without bounds (None) any number is taken."""

    name: str
    bounds: tuple[float, float] | None
    usual: float

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One feature, named as the column."""
        return (self.name,)

    @property
    def allowed(self) -> str:
        """The range."""
        return "any number" if self.bounds is None else f"{self.bounds[0]:g} to {self.bounds[1]:g}"

    def read(self, cells: pd.Series) -> Cells:
        """Return the numbers as they are, within their bounds."""
        low, high = (-np.inf, np.inf) if self.bounds is None else self.bounds
        return number_cells(cells, self.usual, low, high)

    def describe(self) -> str:
        """Say the range."""
        return f"{self.name}: {self.allowed}" if self.bounds is None else f"{self.name}: a number from {self.allowed}"


@dataclass(frozen=True, kw_only=True)
class PlainColumns:
    """Columns of numbers and a label, as the estimators take arrays; what a schema is for tables with categories.

    names: of the columns, from left to right; `numbered_names` where there are none. The others as in `RowEncoding`:
    features are clipped to `centre +- half_width` if there is a box, long rows are shortened.
    """

    names: tuple[str, ...]
    label: PlainLabel
    centre: tuple[float, ...]
    half_width: tuple[float, ...]
    norm_bound: float
    has_box: bool
    has_intercept: bool
    is_assumed: bool

    def __post_init__(self) -> None:
        """Refuse columns without a name, and names without a column."""
        if not len(self.names) == len(self.centre) == len(self.half_width) > 0:
            raise InputError(f"{len(self.names)} names do not fit the bounds of {len(self.centre)} columns.")

    @classmethod
    def of(cls, encoding: RowEncoding, names: Sequence[str], label: PlainLabel) -> "PlainColumns":
        """Return the columns that an estimator's encoding is about."""
        return cls(
            names=tuple(names),
            label=label,
            centre=tuple(encoding.centre.tolist()),
            half_width=tuple(encoding.half_width.tolist()),
            norm_bound=encoding.norm_bound,
            has_box=encoding.has_box,
            has_intercept=encoding.has_intercept,
            is_assumed=encoding.is_assumed,
        )

    @cached_property
    def encoding(self) -> RowEncoding:
        """The public map from rows to rows of norm at most 1."""
        return RowEncoding(
            np.array(self.centre),
            np.array(self.half_width),
            self.norm_bound,
            has_box=self.has_box,
            has_intercept=self.has_intercept,
            is_assumed=self.is_assumed,
        )

    @property
    def columns(self) -> tuple[PlainColumn, ...]:
        """Each column with its bounds."""
        sides = zip(self.names, self.centre, self.half_width, strict=True)
        return tuple(
            PlainColumn(name=name, bounds=(c - h, c + h) if self.has_box else None, usual=c) for name, c, h in sides
        )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded features of one problem."""
        return (*self.names, "intercept") if self.has_intercept else self.names

    @property
    def dimension(self) -> int:
        """Number of encoded features d."""
        return len(self.feature_names)

    @property
    def row_norm(self) -> float:
        """Bound on the norm of an encoded row."""
        return 1.0

    @property
    def problems(self) -> int:
        """One, or one per class if there are more than two."""
        return len(self.label.classes) if len(self.label.classes) > 2 else 1

    def read(self, table: Any, where: str, screening: Screening, *, is_labelled: bool) -> Screened:
        """Return the rows in their own units, within the bounds: of an array, or of a table by the columns' names."""
        if not isinstance(table, pd.DataFrame):
            rows = self._array(table, where)
            return Screened(self.encoding.admit(rows), np.empty(0), np.zeros(rows.shape[0], dtype=bool), ())
        found = screen_cells(self.columns, self.label if is_labelled else None, table, where, screening)
        rows = np.column_stack([cells.values for cells in found.cells])
        return Screened(self.encoding.admit(rows), found.labels, found.blank, found.notes)

    def _array(self, table: Any, where: str) -> Matrix:
        rows = sparse.csr_array(table, dtype=np.float64) if sparse.issparse(table) else np.asarray(table)
        if rows.dtype.kind not in "biuf":
            raise InputError(f"{where} must hold numbers, or be a DataFrame with columns {', '.join(self.names)}.")
        if rows.ndim != 2 or rows.shape[1] != len(self.names):
            raise InputError(f"{where} must have {len(self.names)} columns, got an array of shape {rows.shape}.")
        if not np.all(np.isfinite(rows.data if sparse.issparse(rows) else rows)):
            raise InputError(f"{where} holds cells that are not finite numbers. Fill them in.")
        return rows

    def coefficients(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return (coef, intercept), (problems, columns) and (problems,): the model in the units of the table."""
        decoded = [self.encoding.decode(vector) for vector in weights]
        if self.label.scale is not None:
            decoded = [self.label.scale.decode(coef, intercept) for coef, intercept in decoded]
        return np.array([coef for coef, _ in decoded]), np.array([intercept for _, intercept in decoded])

    def scores(self, weights: Floats, features: Matrix) -> Floats:
        """Return `rows coef' + intercept`, for a number in its own units."""
        coef, intercept = self.coefficients(weights)
        return np.asarray(features @ coef.T) + intercept

    def answers(self, scores: Floats) -> NDArray[Any]:
        """Return the number, or the class with the highest score."""
        if self.label.is_real:
            return scores[:, 0]
        return np.array(self.label.classes)[self._which(scores)]

    def encoded_answers(self, scores: Floats) -> Floats:
        """Return a number in [-1, 1], -1 or +1, or the number of the class."""
        if self.label.scale is not None:
            return self.label.scale.encode(scores[:, 0])
        which = self._which(scores).astype(np.float64)
        return which if self.problems > 1 else 2 * which - 1

    def _which(self, scores: Floats) -> NDArray[np.intp]:
        return np.asarray(scores.argmax(axis=1) if self.problems > 1 else scores[:, 0] > 0, dtype=np.intp)
