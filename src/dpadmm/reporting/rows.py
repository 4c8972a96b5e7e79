"""How the rows of a table, or of an array, become scores and predictions."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from dpadmm.data.columns import RealLabel
from dpadmm.data.encoding import RowEncoding
from dpadmm.data.schema import Schema, Screening
from dpadmm.data.tables import Screened, encode_table, screen_cells
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, Matrix


@dataclass(frozen=True)
class ModelRows:
    """How rows become scores and answers; encoded labels are -1 or +1, the number of a class, or a number in [-1, 1].

    Weights are (problems, d), encoded rows (n, d), scores (n, problems), those of a number in [-1, 1].
    """

    schema: Schema
    encoding: RowEncoding

    @property
    def problems(self) -> int:
        """Vectors of coefficients: one, or one per class if there are more than two."""
        return len(self.schema.label.classes) if len(self.schema.label.classes) > 2 else 1

    def read(self, table: Any, where: str, screening: Screening, *, is_labelled: bool) -> Screened:
        """Return the encoded rows of a table by the columns' names, their encoded labels, and which were blanked.

        Of a model that was fitted on an array, rows may also be an array, and are encoded as one, to the bits.
        """
        schema = self.schema
        if not schema.is_array:
            return encode_table(schema, table, where, screening, is_labelled=is_labelled, encoding=self.encoding)
        if not isinstance(table, pd.DataFrame):
            rows = self._array(table, where)
            return Screened(self.encoding.encode(rows), np.empty(0), np.zeros(rows.shape[0], dtype=bool), ())
        found = screen_cells(schema, table, where, screening, is_labelled=is_labelled)
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
        label = self.schema.label
        if isinstance(label, RealLabel):
            return coef * label.half_width, intercept * label.half_width + label.middle
        return coef, intercept

    def scores(self, weights: Floats, features: Matrix) -> Floats:
        """Return features times weights."""
        return np.asarray(features @ weights.T)

    def answers(self, scores: Floats) -> NDArray[Any]:
        """Return the predictions: a number in its own units, of a table within its bounds; or a class."""
        label = self.schema.label
        if isinstance(label, RealLabel):
            return label.decode(scores[:, 0], is_clipped=not self.schema.is_array)
        which = scores.argmax(axis=1) if self.problems > 1 else (scores[:, 0] > 0).astype(np.intp)
        return np.array(label.classes, dtype=None if self.schema.is_array else object)[which]

    def encoded_answers(self, scores: Floats) -> Floats:
        """Return the predictions as labels are encoded by `read`."""
        if self.schema.label.is_real:
            return np.clip(scores[:, 0], -1.0, 1.0)
        if self.problems > 1:
            return scores.argmax(axis=1).astype(np.float64)
        return np.where(scores[:, 0] > 0, 1.0, -1.0)
