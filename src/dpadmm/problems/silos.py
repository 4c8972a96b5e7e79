"""Silos: the records of all agents, stacked, with the public promise about their size.

Where a person may have several rows, all of them together count one at most, however many they are. A person's rows get
equal weights, so that all of them together pull as hard as one row at most: whoever replaces a person with all their
rows moves a sum of gradients by at most 2G, and a histogram by one count (`docs/proofs/c1.md`).

The terms of many rows are added up so that a proved part of the sum at most is lost in rounding (C7). Rows are added up
in *runs* of bounded length, in whatever order a kernel takes; the sums of runs are added up in parts of bounded length
or in pairs. So a term takes part in a bounded number of additions, however many rows there are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dpadmm import checks
from dpadmm.errors import InputError, raise_alone
from dpadmm.problems.arrays import Floats, Ints, Matrix
from dpadmm.problems.centred import CentredRows

_FINENESS = 2**26
"""Weights are whole multiples of 1/2^26, so that sums of them over up to 2^27 persons are exact."""


@dataclass(frozen=True, eq=False)
class PersonWeights:
    """The weights (n,) of a silo's rows, those of a person at most 1 in sum, and how many persons there are.

    The number of persons is public, that of the rows is not. codes: (n,) the number of each row's person, if known.
    """

    weights: Floats = field(repr=False)
    persons: int
    codes: Ints | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse weights that are none, and fewer persons than the weights of the rows make."""
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.ndim != 1 or not np.isfinite(weights).all() or not ((weights > 0) & (weights <= 1)).all():
            raise InputError("Row weights must be one number per row, above 0 and at most 1.")
        if weights.sum() > checks.count("persons", self.persons, least=0):
            raise InputError("The weights of a person's rows must sum to at most 1: there are too few persons.")
        object.__setattr__(self, "weights", weights)


@dataclass(frozen=True, eq=False)
class PersonRows:
    """Which rows of a silo are used, by their places in order, and what they count."""

    kept: Ints = field(repr=False)
    people: PersonWeights

    @classmethod
    def of(cls, persons: NDArray[np.intp], keep: int | None = None) -> "PersonRows":
        """Return each person's first `keep` rows (all, if None); `persons` (n,) numbers whose each row is.

        What is kept of a person depends on that person's own rows alone, and so do their weights: 1/k for k rows,
        rounded down to a multiple of 1/2^26. This assumes that the order of the others' rows does not depend on the
        person: a table sorted by something that one person's rows can change would keep other rows of the others.

        >>> rows = PersonRows.of(np.array([7, 3, 7, 7]), keep=2)
        >>> rows.kept.tolist(), rows.people.weights.tolist(), rows.people.persons
        ([0, 1, 2], [0.5, 1.0, 0.5], 2)
        """
        _, codes = np.unique(persons, return_inverse=True)
        order = np.argsort(codes, kind="stable")
        counts = np.bincount(codes)
        place = np.empty(len(codes), dtype=np.int64)  # of a row among those of its person
        place[order] = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
        most = len(codes) if keep is None else checks.count("keep", keep)
        kept = np.flatnonzero(place < most)
        weights = (_FINENESS // np.minimum(counts, most)) / _FINENESS
        return cls(kept, PersonWeights(weights[codes[kept]], len(counts), codes[kept]))


# Rows scaled to a norm bound come out up to a few ulps above it; that is rounding, not a broken promise.
ROW_NORM_SLACK = 1e-12

SMALL = 20_000
"""Up to so many records in all, passes over them go by NumPy: compiled code takes longer to load than it saves."""

_LEAST_WEIGHT = 1e-290  # of a long row: smaller ones have few digits, so that `w ||a||^2` could be too large

# Numbers up to this many times as large as a row cancel in sums over centred rows: the proved bound on what rounding
# costs grows with it (C7). Within the bounds of a column they are seldom larger than rows.
MOST_SHIFT = 8.0


@dataclass(frozen=True)
class Silos:
    """The records of N agents: agent i owns the rows `offsets[i]:offsets[i+1]`.

    Parameters
    ----------
    features: (n, d) float64, dense (C order), CSR or `CentredRows`; every row has Euclidean norm at most `row_norm`.
    labels: (n,) float64.
    offsets: (N+1,) int64, strictly increasing from 0 to n.
    row_norm: the public bound on a row's norm. It is a promise made without looking at the data; data that
        break it are refused, because every privacy constant rests on it.
    names: one name per agent.
    nominal: (N,) public numbers that stand for the numbers of rows wherever these are secret; None where they are not.
        A silo may then have any number of rows, none included.
    people: of each agent, what its rows count where a person may have several; None where every row counts one.
    row_weights: (n,) public weights of the rows or their classes, above 0 and at most 1 (C13); None where all count
        the same.
    base_scores: (n,) what is added to the rows' scores, the logarithms of exposures (C20); None where nothing is.
    weighs_long_rows: rows longer than `row_norm` are not refused, but count `min(1, row_norm^2/||a||^2)`: a row's
        weight follows from its own features, and `w ||a||`, `w ||a||^2` are within what a row of norm `row_norm` has.

    >>> silos = Silos.from_parts([np.eye(2), np.eye(2)[:1]], [np.ones(2), -np.ones(1)], row_norm=1.0)
    >>> silos.n_agents, silos.sizes.tolist(), silos.dimension
    (2, [2, 1], 2)
    """

    features: Matrix = field(repr=False)
    labels: Floats = field(repr=False)
    offsets: Ints = field(repr=False)
    row_norm: float
    names: tuple[str, ...] = field(repr=False)
    nominal: Ints | None = field(default=None, repr=False)
    people: tuple[PersonWeights, ...] | None = field(default=None, repr=False)
    row_weights: Floats | None = field(default=None, repr=False)
    base_scores: Floats | None = field(default=None, repr=False)
    weighs_long_rows: bool = False
    n_agents: int = field(init=False, repr=False, compare=False)
    dimension: int = field(init=False, repr=False, compare=False)
    is_sparse: bool = field(init=False, repr=False, compare=False)
    is_small: bool = field(init=False, repr=False, compare=False)
    sizes: Ints = field(init=False, repr=False, compare=False)
    weights: Floats | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check all that certificates rest on: the norms of rows, the weights and the nominal numbers."""
        row_norm, features = checks.positive("row_norm", self.row_norm), self.features
        if isinstance(features, CentredRows) and features.longest_shift > MOST_SHIFT * row_norm:
            # More could be lost in rounding than certificates count (C7). It follows from public facts alone: if one
            # row decided, it would change how all others are rounded.
            features = features.toarray()
        lengths = [np.zeros(0)]
        for first in range(0, features.shape[0], PART):
            lengths.append(row_norms(row_block(features, slice(first, min(first + PART, features.shape[0])))))
            is_short = lengths[-1] <= row_norm * (1 + ROW_NORM_SLACK)
            if not (is_short.all() or self.weighs_long_rows):
                place = first + int(np.argmin(is_short))
                silo = self.names[int(np.searchsorted(self.offsets, place, side="right")) - 1]
                raise InputError(
                    f"{silo} has a row that is longer than the declared row_norm {row_norm:g}. "
                    "Scale or clip the rows, or declare a larger public bound."
                )
        if isinstance(features, CentredRows) and features.has_larger_factors:
            raise InputError(
                f"A row has a larger factor than most_factor {features.most_factor:g}, the public bound that the "
                "centred rows state. State a larger bound, or none: the rows are then stored dense."
            )
        sizes, weights, nominal = np.diff(self.offsets), self.row_weights, self.nominal
        if self.people is not None:
            if [len(each.weights) for each in self.people] != np.diff(self.offsets).tolist():
                raise InputError("If rows have weights, each silo needs one for every row.")
            sizes = np.array([each.persons for each in self.people], dtype=np.int64)
            own = np.concatenate([each.weights for each in self.people])
            weights = own if self.row_weights is None else own * self.row_weights
        if self.row_weights is not None and not (
            self.row_weights.shape == self.labels.shape and ((self.row_weights > 0) & (self.row_weights <= 1)).all()
        ):
            raise InputError("Row weights must be one number per row, above 0 and at most 1.")
        if self.base_scores is not None and not (
            self.base_scores.shape == self.labels.shape and np.isfinite(self.base_scores).all()
        ):
            raise InputError("Base scores must be one finite number per row.")
        if self.weighs_long_rows:
            own = np.minimum(1.0, row_norm / np.maximum(np.concatenate(lengths), row_norm)) ** 2
            own[own < _LEAST_WEIGHT] = 0.0
            weights = own if weights is None else own * weights
        if nominal is not None:
            if len(nominal) != len(sizes):
                raise InputError(
                    f"Each silo needs one nominal number of records: got {len(sizes)} silos and {len(nominal)} numbers."
                )
            numbers = [checks.count("every nominal number of records", int(number)) for number in nominal]
            sizes = nominal = np.array(numbers, dtype=np.int64)
        vars(self).update(row_norm=row_norm, features=features, nominal=nominal, sizes=sizes, weights=weights)
        is_sparse = not isinstance(features, np.ndarray)
        vars(self).update(n_agents=len(self.offsets) - 1, dimension=int(features.shape[1]), is_sparse=is_sparse)
        vars(self).update(is_small=is_small(sizes))

    @classmethod
    def from_parts(
        cls,
        features: Sequence[Any],
        labels: Sequence[Any],
        row_norm: float,
        names: Sequence[str] | None = None,
        nominal: Sequence[int] | None = None,
        people: Sequence[PersonWeights] | None = None,
        *,
        is_copied: bool = True,
        weighs_long_rows: bool = False,
    ) -> "Silos":
        """Stack one feature matrix and one label vector per agent; refuse anything unusable, naming the silo.

        is_copied: whether a single matrix is copied too, since whoever holds it may change it.
        """
        checks.positive("row_norm", row_norm)
        if len(features) == 0:
            raise InputError("At least one silo is needed; got none.")
        if len(labels) != len(features):
            raise InputError(f"Each silo needs its labels: got {len(features)} tables and {len(labels)} label vectors.")
        names = tuple(names) if names is not None else tuple(f"silo {i}" for i in range(len(features)))
        if len(names) != len(features):
            raise InputError(f"Each silo needs one name: got {len(features)} silos and {len(names)} names.")
        parts, targets, ends = [], [], [0]
        for name, table, own in zip(names, features, labels, strict=True):
            parts.append(_check_features(name, table, may_be_empty=nominal is not None))
            targets.append(_check_labels(name, own, parts[-1].shape[0]))
            ends.append(ends[-1] + parts[-1].shape[0])
            if parts[-1].shape[1] != parts[0].shape[1]:
                widths = sorted([parts[0].shape[1], parts[-1].shape[1]])
                raise InputError(f"All silos must have the same columns; got tables with {widths} columns.")
        return cls(
            as_kernels_need(stack_rows(parts) if is_copied or len(parts) > 1 else parts[0]),
            np.concatenate(targets),
            np.array(ends, dtype=np.int64),
            row_norm,
            names,
            None if nominal is None else np.array(nominal, dtype=np.int64),
            None if people is None else tuple(people),
            weighs_long_rows=weighs_long_rows,
        )

    def with_nominal(self, sizes: Sequence[int]) -> "Silos":
        """Return the same rows with public numbers in the place of their secret ones."""
        return replace(self, nominal=np.array(sizes, dtype=np.int64))

    @classmethod
    def one_record_each(cls, features: Any, labels: Any, row_norm: float) -> "Silos":
        """Make every row its own agent (users who hold a single record); scales to millions of users."""
        checks.positive("row_norm", row_norm)
        table = _check_features("the table", features)
        target = _check_labels("the table", labels, table.shape[0])
        offsets = np.arange(table.shape[0] + 1, dtype=np.int64)
        names: Any = _Numbered("user", table.shape[0])
        return cls(as_kernels_need(table), target, offsets, row_norm, names)

    def part(self, agent: int) -> tuple[Matrix, Floats]:
        """Return the features and labels of one agent."""
        agent = range(self.n_agents)[agent]
        rows = slice(int(self.offsets[agent]), int(self.offsets[agent + 1]))
        return row_block(self.features, rows), self.labels[rows]

    def take(self, agents: Ints) -> "Silos":
        """Return the silos of `agents` only, in that order."""
        agents = np.arange(self.n_agents)[agents]  # counts negative numbers from the end, refuses foreign ones
        if len(agents) == 0:
            raise InputError("At least one silo is needed; got none.")
        index = np.concatenate([np.arange(self.offsets[i], self.offsets[i + 1]) for i in agents])
        offsets = np.concatenate([[0], np.cumsum(np.diff(self.offsets)[agents])]).astype(np.int64)
        features = as_kernels_need(self.features[index])
        names = tuple(self.names[int(i)] for i in agents)
        nominal = None if self.nominal is None else self.nominal[agents]
        people = None if self.people is None else tuple(self.people[int(i)] for i in agents)
        classes = None if self.row_weights is None else self.row_weights[index]
        base = None if self.base_scores is None else self.base_scores[index]
        made = self.row_norm, names, nominal, people, classes, base, self.weighs_long_rows
        silos = Silos(features, self.labels[index], offsets, *made)
        vars(silos).update(is_small=self.is_small)  # so that an agent's sums have the same bits alone and among others
        return silos


class _Numbered(Sequence[str]):
    """Names `stem 0`, `stem 1`, ... made when asked for: a million users need no million strings."""

    def __init__(self, stem: str, number: int) -> None:
        self._stem, self._number = stem, number

    def __len__(self) -> int:
        return self._number

    def __getitem__(self, index: Any) -> Any:
        return f"{self._stem} {range(self._number)[index]}"


def is_small(sizes: Ints) -> bool:
    """Return whether passes go by NumPy, from public numbers: the two ways differ in their rounding (C7).

    >>> is_small(np.array([900, 100])), is_small(np.array([10**6])), is_small(np.ones(50))
    (True, False, False)
    """
    return bool(sizes.sum() <= SMALL and sizes.max(initial=0) > 1)


def row_norms(features: Matrix) -> Floats:
    """Return the Euclidean norm of every row."""
    return np.sqrt(row_squares(features))


def _check_features(name: str, table: Any, *, may_be_empty: bool = False) -> Matrix:
    features = table if isinstance(table, CentredRows) else _as_floats(name, table)
    if features.ndim != 2:
        raise InputError(f"{name}: features must be a table (rows x columns), got {features.ndim} dimensions.")
    if features.shape[0] == 0 and not may_be_empty:
        raise InputError(f"{name} has no records. Leave it out, or give it at least one.")
    if features.shape[1] == 0:
        raise InputError(f"{name} has no columns; at least one feature is needed.")
    values = features if isinstance(features, np.ndarray) else features.data
    # A finite sum has finite terms alone, and takes no memory.
    if not np.isfinite(values.sum()) and not np.isfinite(values).all():
        raise InputError(f"{name}: features hold NaN or infinite values. Fill them with a public constant.")
    return features


def _check_labels(name: str, labels: Any, rows: int) -> Floats:
    y = np.asarray(_as_floats(name, labels))
    if y.shape != (rows,):
        raise InputError(f"{name}: needs one label per row, {rows} in one column; got shape {y.shape}.")
    if not np.isfinite(y).all():
        raise InputError(f"{name}: labels hold NaN or infinite values. Fill them with a public constant.")
    return y


def _as_floats(name: str, values: Any) -> Any:
    """Return 64-bit floats: an array, or CSR of sparse values."""
    is_sparse, is_complex = sparse.issparse(values), False
    try:
        array = values if is_sparse else np.asarray(values)
        is_complex = np.iscomplexobj(array)
        if not is_complex and (not is_sparse or array.dtype.kind in "biuf"):
            return sparse.csr_array(array, dtype=np.float64) if is_sparse else np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        pass  # its text may quote a cell
    if is_complex:
        raise InputError(f"{name}: expected real numbers, got complex ones.")
    raise InputError(f"{name}: expected numbers, got something else. Encode text with public categories.")


def as_kernels_need(table: Matrix) -> Matrix:
    """Return dense rows in C order, CSR with indices of 32 bits, which halves the index traffic of the kernels."""
    if isinstance(table, np.ndarray):
        return np.ascontiguousarray(table)
    if isinstance(table, CentredRows):
        return table.with_stored(as_kernels_need(table.stored))
    table = sparse.csr_array(table)
    table.sum_duplicates()
    if table.nnz >= np.iinfo(np.int32).max:
        raise InputError(f"At most {np.iinfo(np.int32).max} non-zero values fit; got {table.nnz}. Use more silos.")
    table.indices = table.indices.astype(np.int32)
    table.indptr = table.indptr.astype(np.int32)
    return table


UNIT = 2.0**-53
"""The unit roundoff of 64-bit floats."""

RUN = 2048
"""Rows of a run of dense rows, and of any run in a compiled kernel (or as many as there are columns, if more)."""

SPARSE_RUN = 4096
"""Rows of a run of sparse rows outside the compiled kernels (or as many as there are columns, if more)."""

PART = 2**20
"""Rows of a part, whose runs a compiled kernel adds up one after the other (or as many as columns, if more)."""

MOST_RIDGE = 1024.0
"""How many times G the gradient of a ridge may be long where a gradient is released; at an optimum it is G at most."""

_MOST_IN_RUNS = 4096
_OTHERS = 128

# What takes most of a millisecond to read: less is not worth a thread. How many entries sparse rows have is not public.
_DENSE_NUMBERS, _SPARSE_ROWS = 2_000_000, 50_000
_MOST_BLOCKS = 16


def row_bounds(part: slice, dimension: int, is_sparse: bool) -> Ints:
    """Return where the blocks of a part's rows begin, and where the last one ends.

    No block has more rows than a part of a sum may have (C7).

    >>> row_bounds(slice(0, 1_000_000), 20, is_sparse=False).tolist()[:3]
    [0, 100000, 200000]
    >>> row_bounds(slice(30, 99_000), 20, is_sparse=True).tolist()
    [30, 99000]
    """
    n = part.stop - part.start
    number = n // max(_SPARSE_ROWS, dimension) if is_sparse else n * dimension // _DENSE_NUMBERS
    number = max(min(number, _MOST_BLOCKS), -(-n // max(PART, dimension)), 1)
    return part.start + np.arange(number + 1, dtype=np.int64) * n // number


class PairwiseSum:
    """A sum of arrays that come one by one; of K terms, none takes part in more than log2(K) + 1 additions.

    >>> import numpy as np
    >>> total = PairwiseSum()
    >>> for number in (1.0, 2.0, 3.0):
    ...     total.add(np.array([number]))
    >>> total.value().tolist()
    [6.0]
    """

    def __init__(self) -> None:
        """Nothing has been added yet."""
        self._sums: list[Any] = []  # at place k the sum of 2^k terms, or None

    def add(self, term: Floats | float) -> None:
        """Add one more term."""
        for place, known in enumerate(self._sums):
            if known is None:
                self._sums[place] = term
                return
            self._sums[place], term = None, known + term
        self._sums.append(term)

    def value(self) -> Any:
        """Return the sum; 0.0 of no terms."""
        total: Any = None
        for known in self._sums:
            if known is not None:
                total = known if total is None else known + total
        return 0.0 if total is None else total


def most_additions(rows: float, dimension: int) -> float:
    """Bound the operations, each of relative error u, that a term of a sum over at most so many rows goes through.

    A run and the runs of a part have at most `4096 + d` additions; the rest is for parts in pairs, the product of slope
    and row, weights, the centre of sparse rows and the division by n.

    >>> most_additions(100, 10), most_additions(1e9, 10)
    (228, 4234)
    """
    return min(rows, _MOST_IN_RUNS + dimension) + _OTHERS


def rounding_share(operations: float) -> float:
    """Return `m u / (1 - m u)`: the part of the sum of sizes that m operations on every term can lose, in any order.

    >>> round(rounding_share(4224) * 2**53)
    4224
    """
    return operations * UNIT / (1 - operations * UNIT)


def dense(rows: Matrix) -> Floats:
    """Return the rows as an array."""
    return rows if isinstance(rows, np.ndarray) else np.asarray(rows.toarray())


def stack_rows(parts: Sequence[Matrix]) -> Matrix:
    """Return all parts' rows, one after the other: centred if any part is, else CSR if any part is sparse.

    Rows are centred about one point; those that are not centred have factor 0.
    """
    kinds = set(map(type, parts))
    if CentredRows not in kinds:
        is_dense = kinds == {np.ndarray}
        return np.vstack(parts) if is_dense else sparse.csr_array(sparse.vstack(parts, format="csr"))
    centred = [part for part in parts if isinstance(part, CentredRows)]
    centre, most = centred[0].centre, max(part.most_factor for part in centred)
    whole = [
        part if isinstance(part, CentredRows) else CentredRows(part, np.zeros(part.shape[0]), centre) for part in parts
    ]
    if not all(np.array_equal(part.centre, centre) for part in whole):
        raise InputError(
            "The parts of a table are centred at different points. Encode all of them with the same centre."
        )
    return CentredRows.of_stored(sparse.csr_array(sparse.vstack([e.stored for e in whole], format="csr")), centre, most)


def scale_rows(rows: Matrix, weights: Floats) -> Matrix:
    """Return `diag(weights) rows`."""
    if isinstance(rows, np.ndarray):
        return rows * weights[:, None]
    if isinstance(rows, CentredRows):
        return rows.with_stored(scale_rows(rows.stored, weights))
    return _with_data(rows, rows.data * np.repeat(weights, np.diff(rows.indptr)))


def _with_data(rows: Matrix, data: Floats) -> Matrix:
    """Return CSR rows with other numbers in the same places; the indices are shared."""
    return sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)


def row_block(rows: Matrix, part: slice) -> Matrix:
    """Return some consecutive rows without copying what they store."""
    if isinstance(rows, np.ndarray):
        return rows[part]
    if isinstance(rows, CentredRows):
        return rows.with_stored(row_block(rows.stored, part))
    places = rows.indptr[part.start : part.stop + 1]
    stored = slice(int(places[0]), int(places[-1]))
    block = sparse.csr_array((part.stop - part.start, rows.shape[1]))
    # Given to the constructor, they would be copied: it takes a view of much larger arrays for waste.
    block.data, block.indices, block.indptr = rows.data[stored], rows.indices[stored], places - places[0]
    return block


def scores(rows: Matrix, points: Floats) -> Floats:
    """Return `rows points` (n, R), points (d, R); a row's numbers depend on that row alone, not on its place.

    A product of matrices adds up the last rows of a table in another order than the others: a row more or less would
    change the others' numbers in their last digits.
    """
    if not isinstance(rows, np.ndarray):
        return np.asarray(rows @ points)
    return np.asarray(np.vecdot(rows[:, None, :], np.ascontiguousarray(points.T)[None]))


def row_sums(rows: Matrix, values: Floats) -> Floats:
    """Return `rows' values` (d, R), values (n, R), added up in runs (C7)."""
    total = PairwiseSum()
    for run in _runs(rows):
        total.add(np.asarray(row_block(rows, run).T @ values[run]))
    return np.asarray(total.value())


def gram_sum(rows: Matrix, weights: Floats | None) -> Floats:
    """Return `rows' diag(weights) rows` as a dense matrix, added up in runs (C7); weights None: all are 1."""
    total = PairwiseSum()
    for run in _runs(rows):
        total.add(gram(row_block(rows, run), None if weights is None else weights[run]))
    return np.asarray(total.value())


def _runs(rows: Matrix) -> Iterator[slice]:
    """Yield the runs of rows, one without rows where there are none."""
    number, dimension = rows.shape
    length = RUN if isinstance(rows, np.ndarray) else max(SPARSE_RUN, dimension)
    for first in range(0, max(number, 1), length):
        yield slice(first, min(first + length, number))


def gram(rows: Matrix, weights: Floats | None = None) -> Floats:
    """Return `rows' diag(weights) rows` as a dense matrix."""
    if isinstance(rows, CentredRows):
        return rows.fold(rows.fold(gram(rows.stored, weights)).T)
    return dense(rows.T @ (rows if weights is None else scale_rows(rows, weights)))


def row_squares(rows: Matrix) -> Floats:
    """Return the squared Euclidean norm of every row."""
    if isinstance(rows, np.ndarray):
        return np.einsum("ij,ij->i", rows, rows)
    if isinstance(rows, CentredRows):
        return rows.squares()
    return np.asarray(_with_data(rows, rows.data**2) @ np.ones(rows.shape[1]))


def row_products(rows: Matrix, w: Floats) -> Floats:
    """Return `a_i'w_i` (n, R), each row with the points of its own in w (n, d, R)."""
    if isinstance(rows, np.ndarray):
        return np.einsum("id,idr->ir", rows, w)
    if isinstance(rows, CentredRows):
        return row_products(rows.stored, rows.extend(w))
    columns = range(w.shape[2])
    return np.stack([np.asarray(rows.multiply(w[:, :, r]).sum(axis=1)).ravel() for r in columns], 1)


def as_numbers(name: str, values: Any) -> Floats:
    """Return an array of finite numbers, in C order."""
    try:
        array = np.asarray(values, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError):
        raise_alone(InputError(f"{name} must hold numbers, got something else."))
    if not np.isfinite(array).all():
        raise InputError(f"{name} must hold finite numbers, got NaN or infinite values.")
    return array
