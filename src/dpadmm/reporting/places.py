"""Where results may be written: never over a ledger, and never over what a command reads or writes elsewhere."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from dpadmm.errors import InputError

_LEDGER_START = b"SQLite format 3\0"
_COMPANIONS = (".key", ".head", "-journal", "-wal", "-shm", ".new", ".migrated")


def ledger_files(path: Path) -> tuple[Path, ...]:
    """Return the ledger and all files that belong to it, there or not, beside its name and beside what that links to.

    >>> [each.name for each in ledger_files(Path("/none/a"))][:4]
    ['a', 'a.key', 'a.head', 'a-journal']
    """
    ledgers = dict.fromkeys((path, Path(os.path.realpath(path))))
    return tuple(ledger.with_name(ledger.name + end) for ledger in ledgers for end in ("", *_COMPANIONS))


def check_apart(outputs: Mapping[str, Path | None], inputs: Iterable[Path | None], ledger: Path | None = None) -> None:
    """Refuse outputs that are the same file as another output, an input, or a file of the ledger.

    No file of the ledger may be an input either. Links are followed. `outputs` are paths by the names of their options,
    None where nothing is written.
    """
    wanted = {name: path for name, path in outputs.items() if path is not None}
    kept = [path for path in inputs if path is not None]
    books = ledger_files(ledger) if ledger is not None else ()
    for place, (name, path) in enumerate(wanted.items()):
        for other, another in list(wanted.items())[:place]:
            if _is_same(path, another):
                raise InputError(f"{other} and {name} are the same file, {path}: one would replace the other. {_APART}")
        if any(_is_same(path, each) for each in kept):
            raise InputError(f"{name} {path} is a file that this command reads, and it would be replaced. {_APART}")
        if any(_is_same(path, each) for each in books):
            raise InputError(f"{name} {path} belongs to the ledger {ledger}, which must not be replaced. {_APART}")
    if any(_is_same(book, each) for book in books for each in kept):
        raise InputError(f"--ledger {ledger} is, or would lie beside, a file that this command reads. {_APART}")


_APART = "Nothing was read or spent; give another name."


def _is_same(one: Path, other: Path) -> bool:
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there
        return False


def check_no_ledger(path: Path) -> None:
    """Refuse to replace a ledger or its key or anchor, whatever the command: what it remembers cannot be had again."""
    for place in dict.fromkeys((path, Path(os.path.realpath(path)))):
        owners = [place, *(place.with_name(place.name.removesuffix(end)) for end in _COMPANIONS if _has(place, end))]
        if any(_is_ledger(owner) for owner in owners):
            raise InputError(f"{path} is a ledger or belongs to one, and is never replaced. Give another name.")


def _has(place: Path, end: str) -> bool:
    return place.name.endswith(end) and place.name != end


def _is_ledger(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_LEDGER_START)) == _LEDGER_START
    except OSError:
        return False
