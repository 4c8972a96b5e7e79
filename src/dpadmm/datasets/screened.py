"""What screening a table leaves: its cells, ready to be encoded or counted, and what was done with awkward ones."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dpadmm.datasets.cells import Cells, Mask
from dpadmm.datasets.columns import Column
from dpadmm.datasets.encoding import RowEncoding
from dpadmm.datasets.profile import ProfileForm
from dpadmm.problems.arrays import Floats, Matrix


@dataclass(frozen=True)
class Screened:
    """Encoded rows (n, d), their labels (empty without), which rows were blanked, and notes for the data's holder."""

    features: Matrix = field(repr=False)
    labels: Floats = field(repr=False)
    blank: Mask = field(repr=False)
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ScreenedCells:
    """The columns as they were read, the labels (empty without), which rows are to be blanked, and notes."""

    columns: tuple[Column, ...]
    cells: Sequence[Cells] = field(repr=False)
    labels: Floats = field(repr=False)
    blank: Mask = field(repr=False)
    notes: tuple[str, ...]

    @property
    def number(self) -> int:
        """How many rows there are."""
        return len(self.blank)

    def counts(self, form: ProfileForm) -> Floats:
        """Return the rows' counts, see `ProfileForm.counts`."""
        return form.counts(self.cells, self.blank)

    def rows(self, encoding: RowEncoding) -> Matrix:
        """Return the encoded rows."""
        return encoding.encode_cells(self.columns, self.cells, self.blank)

    def encoded(self, encoding: RowEncoding) -> Screened:
        """Return the encoded rows with all that is known about them."""
        return Screened(self.rows(encoding), self.labels, self.blank, self.notes)
