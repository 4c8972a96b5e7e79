"""What runs on the workers of a cluster: tasks on some of their items, with answers that quote no cell; no Dask here.

Whatever a task raises is an answer too. Raised to Dask, it would be logged on the worker with its text, and sent with
its traceback; the texts of other packages' errors may quote the cells that they stumble over.
"""

import hashlib
import platform
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import dpadmm
from dpadmm.data.parquet import FileStamp
from dpadmm.errors import ClusterError, DpadmmError

SAME_VERSIONS = "Install the same versions of all of them on every machine of the cluster."
SPENT = "If the run had begun, what was reserved for it stays spent."

_DECISIVE = ("numba", "numpy", "pandas", "pyarrow", "scipy")

Versions: TypeAlias = tuple[tuple[str, str], ...]
"""Of dpadmm, of Python, and of the packages that decide what cells say and how sums are rounded."""


@cache
def versions() -> Versions:
    """Return what is installed here."""
    python = ".".join(platform.python_version_tuple()[:2])
    own = (("dpadmm", f"{dpadmm.__version__} (code {_code()})"), ("Python", python))
    return (*own, *((name, _version(name)) for name in _DECISIVE))


def _code() -> str:
    """Return a digest of this package: two checkouts of one version may clip rows differently, and noise is for one."""
    home, digest = Path(dpadmm.__file__).parent, hashlib.blake2b(digest_size=4)
    for file in sorted(home.rglob("*.py")):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(home).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def differing(here: Versions, there: Versions) -> str:
    """Return in words what is not the same there, '' if everything is."""
    found = dict(there)
    pairs = [(name, own, found.get(name, "missing")) for name, own in here]
    return ", ".join(f"{name} {other} instead of {own}" for name, own, other in pairs if own != other)


def unlike(files: Sequence[tuple[Path, FileStamp]]) -> list[str]:
    """Return in words which of these files are not here, or not the same here."""
    found = []
    for path, stamp in files:
        try:
            own = FileStamp.of(path)
        except OSError:
            found.append(f"cannot read {path}")
            continue
        if own != stamp:
            found.append(f"has another file at {path} (size, time of change or footer differ)")
    return found


@dataclass(frozen=True, eq=False, repr=False)
class Answers:
    """What a task returned for its items, in their order."""

    found: tuple[Any, ...]

    def get(self) -> tuple[Any, ...]:
        """Return them."""
        return self.found


@dataclass(frozen=True, eq=False, repr=False)
class Complaint:
    """An error of ours, by its kind and its words alone: no traceback, and nothing that it came from."""

    kind: type[DpadmmError]
    words: tuple[Any, ...]

    def get(self) -> NoReturn:
        """Raise it here."""
        raise self.kind(*self.words)


@dataclass(frozen=True, eq=False, repr=False)
class Errand:
    """A task to be called on some items, by those who have the same versions.

    It has no words for what it carries, since Dask logs those of a task that fails: a point of a local solve is not
    noisy.
    """

    task: Callable[[Any], Any]
    items: tuple[Any, ...]
    known: Versions

    def __repr__(self) -> str:
        """Say how many items there are."""
        return f"<Errand, {len(self.items)} items>"


def perform(errand: Errand) -> Answers | Complaint:
    """Call the task on all items; the first that fails ends it."""
    other = differing(errand.known, versions())
    if other:
        return Complaint(ClusterError, (f"A worker on {platform.node()} has {other}. {SAME_VERSIONS}",))
    try:
        return Answers(tuple(errand.task(item) for item in errand.items))
    except DpadmmError as error:
        return Complaint(type(error), error.args)
    except Exception as fault:  # noqa: BLE001 - whatever it is, its text may quote a cell
        place = traceback.extract_tb(sys.exc_info()[2])[-1]
        return Complaint(
            ClusterError,
            (
                f"A worker on {platform.node()} failed with a {type(fault).__name__} at line {place.lineno} of "
                f"{Path(place.filename).name}. Its message stays there, because it may quote a cell. {SPENT} If it "
                "happens again, try the same without the cluster.",
            ),
        )
