"""Users' tables as silos: one per file, or one per value of a column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from dpadmm.datasets.tables import read_table, split_table
from dpadmm.errors import InputError
from dpadmm.privacy.ledger import SiloColumns


@dataclass(frozen=True)
class SiloTable:
    """The rows of one silo; their index counts the rows of the file they came from, which `where` names."""

    frame: pd.DataFrame = field(repr=False)
    where: str


def read_silos(files: Sequence[Path], split_by: str | None, *, has_header: bool = True) -> dict[str, SiloTable]:
    """Return one table per silo: a file each, or one file split by the values of a column, which are public names."""
    if not files:
        raise InputError("At least one file is needed: one per silo, or one with --split-by COLUMN.")
    if split_by is None:
        names = _names(files)
        tables = (SiloTable(read_table(file, has_header=has_header), str(file)) for file in files)
        return dict(zip(names, tables, strict=True))
    if len(files) != 1:
        raise InputError(f"--split-by takes one file, got {len(files)}. Without it, each file is a silo.")
    frame = read_table(files[0], has_header=has_header)
    parts = split_table(frame, split_by, str(files[0]), has_header=has_header)
    return {name: SiloTable(part.drop(columns=split_by), str(files[0])) for name, part in parts.items()}


def _names(files: Sequence[Path]) -> list[str]:
    stems = [path.name.split(".")[0] for path in files]
    if len({path.resolve() for path in files}) < len(files):
        raise InputError("The same file is given twice. A record may be counted once only: give each file once.")
    return stems if len(set(stems)) == len(stems) else [str(path) for path in files]


def check_no_copies(tables: Mapping[str, SiloTable]) -> None:
    """Refuse files with the very same rows: a copy under another name holds every person of the first once more."""
    seen: dict[frozenset[bytes], str] = {}
    for silo in ledger_data(tables):
        where = tables[silo.name].where
        first = seen.setdefault(frozenset(silo.digests.values()), where)
        if first != where:
            raise InputError(
                f"The same rows are in two files, {first} and {where}. Give one of them; or, if people really are in "
                "both, say --silos-per-person 2 or more, so that their records are counted together."
            )


def ledger_data(tables: Mapping[str, SiloTable]) -> tuple[SiloColumns, ...]:
    """Return the tables as the silos that a ledger is made for: every column, used or not."""
    return tuple(SiloColumns.of_frame(silo, table.frame) for silo, table in tables.items())
