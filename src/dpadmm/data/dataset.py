"""A data set ready to be dealt to silos."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm import checks
from dpadmm.data.partition import Partition, by_column, group_names
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.silos import Silos


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """An encoded table with its story.

    Parameters
    ----------
    name, description, origin: what it is, in words, and where it comes from, with its licence.
    features: (n, d) dense or CSR, rows of norm at most `row_norm`; labels: (n,).
    row_norm: the public bound the rows keep.
    schema: the public schema that encoded the rows, without an intercept; None for synthetic features.
    groups: (n,) the silo each row really belongs to (a hospital, a region); None if the data have none.
    notes: what encoding did to awkward cells; none for synthetic features.
    """

    name: str
    features: Matrix = field(repr=False)
    labels: Floats = field(repr=False)
    row_norm: float
    description: str
    origin: str
    schema: Schema | None = None
    groups: NDArray[Any] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that the parts fit together."""
        checks.positive("row_norm", self.row_norm)
        for what, part in (("labels", self.labels), ("groups", self.groups)):
            if part is not None and len(part) != self.n_rows:
                raise InputError(f"{self.name}: {self.n_rows} rows but {len(part)} {what}; one per row is needed.")

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return int(self.features.shape[0])

    @property
    def dimension(self) -> int:
        """Number of features d."""
        return int(self.features.shape[1])

    def silos(self, partition: Partition | None = None, names: Sequence[str] | None = None) -> Silos:
        """Deal the rows to silos by `partition` (see `dpadmm.data.partition`), by default by their groups."""
        if partition is None:
            if self.groups is None:
                raise InputError(
                    f"{self.name} has no natural silos: pass a partition, such as partition.iid(n_rows, n_silos, rng)."
                )
            partition = by_column(self.groups)
            names = names if names is not None else group_names(self.groups)
        self._check_partition(partition)
        features = [self.features[rows] for rows in partition]
        return Silos.from_parts(features, [self.labels[rows] for rows in partition], self.row_norm, names)

    def _check_partition(self, partition: Partition) -> None:
        seen = np.zeros(self.n_rows, dtype=np.int64)
        for number, rows in enumerate(partition):
            array = np.asarray(rows)
            if array.dtype.kind not in "iu" or array.ndim != 1:
                raise InputError(f"Silo {number} of the partition must be a list of row numbers.")
            if len(array) and (array.min() < 0 or array.max() >= self.n_rows):
                raise InputError(f"Silo {number} of the partition names rows outside 0..{self.n_rows - 1}.")
            np.add.at(seen, array, 1)
        if (seen > 1).any():
            raise InputError(f"{(seen > 1).sum()} rows are in more than one silo; every guarantee counts a row once.")
