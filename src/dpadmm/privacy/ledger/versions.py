"""The versions of a ledger's data: the table it was made for, and those that came after it.

A version is an entry of the log, with marks of the new table. From then on the ledger knows that table alone, and what
was spent on all versions counts together: the same people may be in each of them. Marks of each version have a key of
their own, so that the log does not tell which columns have changed between two of them.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dpadmm.checks import plural
from dpadmm.errors import LedgerError
from dpadmm.privacy.ledger.silos import KnownData, KnownSilo, SiloColumns, SiloMatch


@dataclass(frozen=True)
class NewVersion:
    """What the log keeps of a version after the first: its number, and what is known of its table."""

    version: int
    data: KnownData


@dataclass(frozen=True)
class DataVersion:
    """One version of the data: its number from 1, the entry that began it, when, and what is known of its tables."""

    number: int
    entry: int
    since: str
    data: KnownData = field(repr=False)

    @property
    def when(self) -> str:
        """When it began, for people."""
        return f"{self.since[:19]} UTC"

    def followed_by(self, version: "NewVersion", entry: int, since: str) -> "DataVersion":
        """Return the version that an entry begins after this one."""
        if version.version != self.number + 1:
            raise ValueError(f"version {version.version} follows version {self.number}")
        return DataVersion(version.version, entry, since, version.data)

    def next(self, data: Sequence[SiloColumns], key: bytes) -> "NewVersion":
        """Return what the log keeps of the next version; its one silo keeps the name under which spending is counted.

        `LedgerError` where silos are told apart: a person's records may be with another silo than before, whose
        spending does not count there.
        """
        if len(self.data.silos) != 1 or len(data) != 1:
            raise LedgerError(
                f"Only a ledger of one silo can move to new data: this one has {plural(len(self.data.silos), 'silo')}, "
                f"and {len(data)} were given. With separate silos, a person may be in a different silo in the new "
                "version, where earlier spending would not be counted. Keep one ledger for each silo, or create a new "
                "one and count in its budget what has already been spent on people who are in both."
            )
        known = KnownData.of(data, _key_of(key, self.number + 1), tells_copies_apart=self.data.tells_copies_apart)
        silos = (replace(known.silos[0], name=self.data.silos[0].name),)
        return NewVersion(self.number + 1, replace(known, silos=silos))

    def is_of(self, data: Sequence[SiloColumns], key: bytes) -> bool:
        """Return whether these tables, of a single silo, have this version's columns: all of them, and no others."""
        found = [self._marked(each, key).columns for each in data]
        return found == [silo.columns for silo in self.data.silos]

    def match(self, data: Sequence[SiloColumns], key: bytes) -> SiloMatch:
        """Return which silos came; `LedgerError` if the data are not those of this version."""
        return self.data.match(data, _key_of(key, self.number))

    def is_like(self, data: SiloColumns, key: bytes) -> bool:
        """Return whether half of a table's columns or more are those of one of this version's silos."""
        return self.data.is_like(data, _key_of(key, self.number))

    def _marked(self, data: SiloColumns, key: bytes) -> KnownSilo:
        apart = self.data.tells_copies_apart
        return KnownSilo.of(data, _key_of(key, self.number), tells_copies_apart=apart)


def match_newest(versions: Sequence[DataVersion], data: Sequence[SiloColumns], key: bytes) -> SiloMatch:
    """Return which silos came; `LedgerError` if the data are not the newest version, saying so if they are another."""
    *earlier, newest = versions
    try:
        return newest.match(data, key)
    except LedgerError:
        found = next((version for version in reversed(earlier) if _is_match(version, data, key)), None)
        if found is None:
            raise
    raise LedgerError(
        f"These data are version {found.number}, not the newest version: the ledger has used version {newest.number} "
        f"since {newest.when}. Nothing may be released from an earlier one. Use the newest table; to use this one from "
        "now on, make it the next version (`dpadmm silo new-data`, or Ledger.add_version)."
    )


def _is_match(version: DataVersion, data: Sequence[SiloColumns], key: bytes) -> bool:
    try:
        version.match(data, key)
    except LedgerError:
        return False
    return True


def _key_of(key: bytes, number: int) -> bytes:
    """Return the key of a version's marks; the first version's is the ledger's own."""
    if number == 1:
        return key
    return hashlib.blake2b(b"version %d" % number, key=key, digest_size=32, person=b"dpadmm version").digest()
