"""The rows of all silos as they were read: before a plan, and perhaps a profile, say how they are encoded."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from dpadmm.data.columns import weights_by_class
from dpadmm.data.encoding import RowEncoding
from dpadmm.data.profile import ProfileForm, ReleasedProfile
from dpadmm.privacy.ledger import ProfiledColumns
from dpadmm.privacy.protection import Protection, Unit
from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.silos import PersonWeights, Silos
from dpadmm.problems.streams import SiloStream


class Encoder(Protocol):
    """Public knowledge about columns, from which rows can be encoded: a schema, or the plain columns of an array."""

    @property
    def row_norm(self) -> float:
        """Bound on the norm of an encoded row."""
        ...

    @property
    def columns(self) -> Any:
        """The columns, in order."""
        ...

    @property
    def label(self) -> Any:
        """What is predicted."""
        ...

    @property
    def dimension(self) -> int:
        """Number of features of an encoded row."""
        ...

    def encoding(self, reach: float, profile: ReleasedProfile | None = None) -> RowEncoding:
        """Return how rows are encoded, by public knowledge alone or by a profile."""
        ...


class RawRows(Protocol):
    """The rows of one silo."""

    @property
    def number(self) -> int:
        """How many there are."""
        ...

    def counts(self, form: ProfileForm, row_weights: Floats | None = None) -> Floats:
        """Return their weighted counts, (size,); row_weights: what each row counts as, 1 where left out."""
        ...

    def rows(self, encoding: RowEncoding) -> Matrix:
        """Return them encoded, (n, d)."""
        ...


@dataclass(frozen=True, eq=False)
class NumberRows:
    """Rows of an array of numbers, dense or CSR."""

    table: Matrix = field(repr=False)

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


@dataclass(frozen=True, eq=False)
class RawSilos:
    """What silos hold, and how it may be encoded.

    parts: one per silo. labels: for every problem on these rows, the encoded labels of every silo.
    own: how rows are encoded where the user has decided that; None leaves it to the plan.
    sources: what the data shown to a ledger call the columns, in order; none where a profile cannot be kept.
    nominal: public numbers that stand for those of the silos' rows where these are secret.
    people: of every silo, what its rows count where a person may have several; None where every row counts one.
    class_weights: of every silo, public weights of its rows' classes, at most 1; None where all count the same.
    """

    encoder: Encoder
    parts: Sequence[RawRows] = field(repr=False)
    labels: Sequence[Sequence[Floats]] = field(repr=False)
    names: Sequence[str] | None = None
    own: RowEncoding | None = None
    sources: tuple[str, ...] = ()
    nominal: tuple[int, ...] | None = None
    people: Sequence[PersonWeights] | None = field(default=None, repr=False)
    class_weights: Sequence[Floats] | None = field(default=None, repr=False)

    @property
    def form(self) -> ProfileForm | None:
        """What a profile would count; None where the encoding is the user's own, so that none is needed."""
        return None if self.own is not None else ProfileForm(tuple(self.encoder.columns))

    @property
    def n_classes(self) -> int:
        """How many classes the label has, 0 for a number."""
        return len(self.encoder.label.classes)

    @property
    def n_problems(self) -> int:
        """How many problems there are on these rows."""
        return len(self.labels)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Records per silo (persons, where rows have weights), public, or the nominal numbers in their place."""
        if self.nominal is not None:
            return self.nominal
        if self.people is not None:
            return tuple(each.persons for each in self.people)
        return tuple(part.number for part in self.parts)

    def subject(self, protection: Protection) -> ProfiledColumns:
        """Return what a profile of these rows is about; where each silo is a user, users are counted."""
        form = self.form
        assert form is not None
        records = len(self.parts) if protection.unit is Unit.USER else sum(self.sizes)
        return ProfiledColumns(form.digest, self.sources, records, protection)

    def counts(self, *, per_user: bool) -> Floats:
        """Return every silo's counts, (silos, size); those of a user with many rows are divided by their number.

        Where rows have weights, each counts its own: all rows of a person count one together.
        """
        form = self.form
        assert form is not None
        weights = [None] * len(self.parts) if self.people is None else [each.weights for each in self.people]
        found = np.stack([part.counts(form, own) for part, own in zip(self.parts, weights, strict=True)])
        return found / np.array(self.sizes)[:, None] if per_user else found

    def encoding(self, reach: float | None, profile: ReleasedProfile | None) -> RowEncoding:
        """Return the user's own encoding, or the planned one."""
        if self.own is not None:
            return self.own
        assert reach is not None
        return self.encoder.encoding(reach, profile)

    def against_rest(self, n_classes: int) -> "RawSilos":
        """Return the same rows with a problem of -1/+1 for each class, from one of their classes' numbers."""
        (codes,) = self.labels
        signs = [[np.where(each == number, 1.0, -1.0) for each in codes] for number in range(n_classes)]
        return replace(self, labels=signs)

    def weighted_by_class(self, shares: Sequence[float]) -> "RawSilos":
        """Return rows of which each counts as much as its class, at most 1, in the classes' order."""
        return replace(self, class_weights=[weights_by_class(each, shares) for each in self.labels[0]])

    def silos(self, encoding: RowEncoding) -> Sequence[Silos | SiloStream]:
        """Return the encoded rows of all silos, with the labels of each problem."""
        features = [part.rows(encoding) for part in self.parts]
        norm = self.encoder.row_norm
        made = [Silos.from_parts(features, each, norm, self.names, self.nominal, self.people) for each in self.labels]
        if self.class_weights is None:
            return made
        weights = np.concatenate(self.class_weights)
        return [replace(each, class_weights=weights) for each in made]
