"""One process serves a directory, whatever transport it uses: it holds a lock file there."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from dpadmm.errors import InputError


@contextlib.contextmanager
def sole(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file; `InputError` if another process holds it. It is free again when this process ends."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            raise InputError(f"{what} is running already (it holds {path}). End it first.") from problem
        yield


def is_held(path: Path) -> bool:
    """Return whether a process holds a lock file."""
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
