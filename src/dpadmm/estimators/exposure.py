"""Counts as data: exposures, over which each was counted, and public weights of records."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np

from dpadmm.checks import option_name
from dpadmm.core.dataset import Dataset
from dpadmm.data.columns import Numeric
from dpadmm.data.encoding import RowEncoding
from dpadmm.data.schema import Schema
from dpadmm.data.tables import ScreenedCells
from dpadmm.errors import InputError, raise_alone
from dpadmm.problems.arrays import Floats
from dpadmm.problems.silos import Silos
from dpadmm.problems.streams import SiloStream
from dpadmm.settings import TrainingOptions

_WEIGHTED = (
    "every record counts by a weight that the user stated; the weights are assumed to be public, and the noise is that "
    "of the heaviest record"
)


@dataclass(frozen=True, eq=False)
class CountDataset(Dataset):
    """Rows with counts as labels.

    base_scores: logarithms of the rows' exposures, of every silo; None where all are 1. row_weights: (rows,) public,
    the heaviest 1; None where all count the same.
    """

    base_scores: Sequence[Floats] | None = field(default=None, repr=False)
    row_weights: Floats | None = field(default=None, repr=False)

    @classmethod
    def of(cls, dataset: Dataset, base_scores: Sequence[Floats] | None = None, weights: Floats | None = None) -> Self:
        """Return the same rows with these. weights: above 0, of all rows in the order of the silos."""
        own = {each.name: getattr(dataset, each.name) for each in fields(Dataset)}
        if weights is not None:
            own["assumed"] = (*dataset.assumed, _WEIGHTED)
            weights = weights / weights.max()
        return cls(**own, base_scores=base_scores, row_weights=weights)

    def silos(self, encoding: RowEncoding, n_models: int = 1) -> list[Silos | SiloStream]:
        """Return the encoded rows of all silos with their exposures and weights."""
        base = None if self.base_scores is None else np.concatenate(self.base_scores)
        return [
            replace(each, base_scores=base, row_weights=self.row_weights) if isinstance(each, Silos) else each
            for each in super().silos(encoding, n_models)
        ]


def without_exposure(schema: Schema, training: TrainingOptions) -> Schema:
    """Return the columns that a model is fitted on; refuse an exposure that is no number above 0."""
    name = training.exposure
    if name is None:
        return schema
    if training.loss != "poisson":
        raise InputError(f"{option_name('exposure')} is for {option_name('loss', 'poisson')}. Leave it out.")
    found = next((column for column in schema.columns if column.name == name), None)
    if not isinstance(found, Numeric) or found.lower <= 0:
        raise InputError(
            f"{option_name('exposure', name)} must name a numeric column of the schema with a lower bound above 0, "
            "because its logarithm is added to scores."
        )
    return replace(schema, columns=tuple(column for column in schema.columns if column is not found))


def count_dataset(dataset: Dataset, training: TrainingOptions, weights: Floats | None = None) -> CountDataset:
    """Return a table with counts; the column of exposures is no feature any more."""
    schema, name = without_exposure(dataset.schema, training), training.exposure
    if name is None:
        return CountDataset.of(dataset, weights=weights)
    place, rows, base = dataset.schema.column_names.index(name), list[ScreenedCells](), list[Floats]()
    for part in dataset.rows:
        if not isinstance(part, ScreenedCells):
            raise InputError(
                f"{option_name('exposure')} needs rows in memory, and these are read in passes. Use "
                f"{option_name('stream', False)}."
            )
        base.append(np.log(part.cells[place].values))  # within the column's bounds, so above 0
        cells = [*part.cells[:place], *part.cells[place + 1 :]]
        rows.append(replace(part, columns=schema.columns, cells=cells))
    names = tuple(each for number, each in enumerate(dataset.columns) if number != place)
    return CountDataset.of(replace(dataset, schema=schema, rows=rows, columns=names), base, weights)


def positive_numbers(name: str, given: Any, number: int) -> Floats:
    """Return one finite number above 0 for each row."""
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise_alone(InputError(f"{name} must be numbers, got something else."))
    if found.shape != (number,) or not np.isfinite(found).all() or not (found > 0).all():
        raise InputError(f"{name} must be one finite number above zero for each of the {number} rows.")
    return found
