"""Encoded tables, and ways to deal their rows to silos: functions of their arguments and an explicit generator.

Every function returns one increasing index array per silo; together they hold every row exactly once, and no
silo is empty.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpadmm import checks
from dpadmm.checks import plural, safe_repr
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.silos import Silos

Rows: TypeAlias = NDArray[np.intp]
Partition: TypeAlias = list[Rows]


def iid(n_rows: int, n_silos: int, rng: np.random.Generator) -> Partition:
    """Deal shuffled rows to `n_silos` silos whose sizes differ by at most one.

    >>> parts = iid(7, 3, np.random.default_rng(0))
    >>> [len(part) for part in parts]
    [3, 2, 2]
    """
    rows, silos = checks.count("n_rows", n_rows), checks.count("n_silos", n_silos)
    _check_enough(rows, silos, 1)
    return [np.sort(part) for part in np.array_split(check_generator(rng).permutation(rows), silos)]


def by_sizes(n_rows: int, sizes: Sequence[int], rng: np.random.Generator) -> Partition:
    """Deal shuffled rows to silos of the given sizes, which must add up to `n_rows`."""
    rows = checks.count("n_rows", n_rows)
    counts = [checks.count(f"sizes[{position}]", size) for position, size in enumerate(sizes)]
    if sum(counts) != rows:
        raise InputError(f"sizes must add up to the {rows} rows, got a sum of {sum(counts)}.")
    order = check_generator(rng).permutation(rows)
    return [np.sort(part) for part in np.split(order, np.cumsum(counts)[:-1])]


def by_column(values: Any) -> Partition:
    """Make a silo of each distinct value, in sorted order; `group_names(values)` names them.

    >>> [part.tolist() for part in by_column(["b", "a", "b"])]
    [[1], [0, 2]]
    """
    _, codes = _groups(values)
    order = np.argsort(codes, kind="stable")
    return list(np.split(order, np.cumsum(np.bincount(codes))[:-1]))


def group_names(values: Any) -> tuple[str, ...]:
    """Return the names of the silos that `by_column` makes, in the same order."""
    names, _ = _groups(values)
    return tuple(str(name) for name in names)


def dirichlet_label_skew(
    labels: Any, n_silos: int, alpha: float, rng: np.random.Generator, *, least: int = 1
) -> Partition:
    """Deal each class by its own shares ~ Dirichlet(alpha, ..., alpha): small alpha, strong label skew.

    A silo left with fewer than `least` rows gets random rows of the silo that is largest at that moment, so
    the call always ends and every silo has at least `least` rows.

    Parameters
    ----------
    labels: (n,) one label per row, of any kind that sorts.
    n_silos: number of silos, with `n_silos * least <= n`.
    alpha: concentration > 0; about 0.1 strong skew, 100 nearly none.
    """
    checks.positive("alpha", alpha)
    silos, least = checks.count("n_silos", n_silos), checks.count("least", least)
    generator = check_generator(rng)
    _, codes = _groups(labels)
    _check_enough(len(codes), silos, least)
    owner = np.empty(len(codes), dtype=np.intp)
    for label in range(codes.max() + 1):
        members = generator.permutation(np.flatnonzero(codes == label))
        counts = generator.multinomial(len(members), _shares(alpha, silos, generator))
        owner[members] = np.repeat(np.arange(silos), counts)
    _top_up(owner, silos, least, generator)
    return [np.flatnonzero(owner == silo) for silo in range(silos)]


def check_generator(rng: np.random.Generator) -> np.random.Generator:
    """Return `rng` if it is a generator: a seed or None would hide where the randomness comes from."""
    if not isinstance(rng, np.random.Generator):
        raise InputError(f"rng must be a numpy Generator (numpy.random.default_rng(seed)), got {safe_repr(rng)}.")
    return rng


def _check_enough(rows: int, silos: int, least: int) -> None:
    if silos * least > rows:
        raise InputError(
            f"{rows} rows cannot fill {silos} silos with at least {plural(least, 'row')} each. Use fewer silos."
        )


def _groups(values: Any) -> tuple[NDArray[Any], Rows]:
    array = np.asarray(values)
    if array.ndim != 1 or len(array) == 0:
        raise InputError(f"One value per row is needed, in one column; got shape {array.shape}.")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InputError("The column that names silos or classes has missing values; fill them in or drop these rows.")
    try:
        names, codes = np.unique(array, return_inverse=True)
    except TypeError as problem:
        raise InputError("The column that names silos or classes must hold values of one kind.") from problem
    return names, codes.astype(np.intp)


def _shares(alpha: float, silos: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw Dirichlet shares; for a tiny alpha every gamma draw underflows, and one silo takes all."""
    shares = rng.dirichlet(np.full(silos, alpha))
    if not np.isfinite(shares).all() or shares.sum() <= 0:
        shares = np.zeros(silos)
        shares[rng.integers(silos)] = 1.0
    return np.asarray(shares / shares.sum())


def _top_up(owner: Rows, silos: int, least: int, rng: np.random.Generator) -> None:
    """Move random rows, in place, from the largest silo of the moment to each silo that is too small."""
    counts = np.bincount(owner, minlength=silos)
    for silo in np.flatnonzero(counts < least):
        while counts[silo] < least:
            donor = int(np.argmax(counts))
            # No more than half the surplus at once, so that a donor never becomes too small itself.
            number = max(1, min(least - counts[silo], (counts[donor] - least) // 2))
            moved = rng.choice(np.flatnonzero(owner == donor), size=number, replace=False)
            owner[moved] = silo
            counts[donor] -= number
            counts[silo] += number


@dataclass(frozen=True, kw_only=True)
class EncodedTable:
    """An encoded table with its story.

    Parameters
    ----------
    name, description, origin: what it is, and where it comes from, with its licence.
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
        for number, rows in enumerate(map(np.asarray, partition)):
            if rows.dtype.kind not in "iu" or rows.ndim != 1 or np.any((rows < 0) | (rows >= self.n_rows)):
                most = self.n_rows - 1
                raise InputError(f"Silo {number} of the partition must be a list of row numbers from 0 to {most}.")
        repeated = np.bincount(np.concatenate(partition)) > 1
        if repeated.any():
            raise InputError(f"{repeated.sum()} rows are in more than one silo; every guarantee counts a row once.")
