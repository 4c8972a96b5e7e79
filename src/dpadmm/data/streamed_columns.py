"""A streamed table as a ledger knows it: the digests of all its columns, used or not, each column read by itself."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from dpadmm.data.parquet import ParquetTable
from dpadmm.data.workers import Workers
from dpadmm.privacy.ledger import SiloColumns
from dpadmm.privacy.ledger.column_digests import column_digest


@dataclass(frozen=True)
class DigestColumn:
    """Hash one column of a table; columns are independent of each other, parts of a column are not."""

    table: ParquetTable

    def __call__(self, stored: str) -> bytes:
        """Return the digest of the column that the files call so."""

        def pieces() -> Iterator[NDArray[Any]]:
            for part in self.table.parts:
                for frame in part.frames([stored], is_plain=False):
                    yield frame[stored].to_numpy()

        return column_digest(pieces, self.table.rows)


@dataclass(frozen=True, eq=False, repr=False)
class StreamedColumns(SiloColumns):
    """The private table of one silo, in Parquet; `columns` are the names that the files have for the ledger's."""

    table: ParquetTable = field(kw_only=True)
    workers: Workers = field(kw_only=True)

    @classmethod
    def of_table(cls, name: str, table: ParquetTable, workers: Workers) -> "StreamedColumns":
        """Return a table as a silo: every column, used or not."""
        columns = dict(zip(table.names, table.stored, strict=True))
        return cls(name, columns, table=table, workers=workers)

    def __post_init__(self) -> None:
        """Every column has all rows."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.table.rows

    def _hash_columns(self) -> Mapping[str, bytes]:
        """Return what the same table in memory has."""
        found = self.workers.results(DigestColumn(self.table), list(self.columns.values()))
        return {f"{name}[0]": digest for name, digest in zip(self.columns, found, strict=True)}
