"""One process serves a directory, whatever transport it uses: it holds a lock file there."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from dpadmm.errors import InputError

try:
    import fcntl
except ModuleNotFoundError as lacking:
    raise InputError(
        "Silos and coordinators run on Linux and macOS only. On this system dpadmm can fit, plan, evaluate and predict."
    ) from lacking

_LOOK_SECONDS = 0.5  # whoever only looks whether a lock is held (`is_held`) is gone by then


@contextlib.contextmanager
def sole(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file; `InputError` if another process holds it. It is free again when this process ends."""
    with path.open("a") as file:
        until = time.monotonic() + _LOOK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > until:
                    raise InputError(f"{what} is already running (it holds {path}). Stop it first.") from None
            time.sleep(0.02)
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
