"""The directory of a silo or a coordinator: made whole, and served by one process at a time.

After a kill at any point the same command makes the directory again. Whoever makes or serves one holds a lock file.
"""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpadmm.errors import InputError
from dpadmm.files import sync_directory

try:
    import fcntl
except ModuleNotFoundError as lacking:
    raise InputError(
        "Silos and coordinators run on Linux and macOS only. On this system dpadmm can fit, plan, evaluate and predict."
    ) from lacking

_LOOK_SECONDS = 0.5  # whoever only looks whether a lock is held (`is_held`) is gone by then


@contextlib.contextmanager
def exclusive_lock(path: Path, what: str) -> Iterator[None]:
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


LOCK = "running.lock"
"""Held by the process that makes a directory, and later by the one that serves it."""

_COMPLETE = ".complete"


class PartyDirectory:
    """The directory of a silo or a coordinator, and what both keep in it.

    lock: held by the process that serves. status: what that process reports about itself. certificate: its TLS
    certificate and key.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory)
        self.lock, self.status = self.directory / LOCK, self.directory / "status.json"
        self.certificate = self.directory / "tls.pem"


@contextmanager
def new_directory(directory: Path, what: str) -> Iterator[Path]:
    """Yield an empty folder for the files of `directory`; they are there when the block ends, or nothing is.

    One that is there already must be empty, and stays: it may be a volume, onto which no folder can be moved.
    what: a silo or a coordinator, for messages.
    """
    try:
        finish_creation(directory)
        if directory.exists():
            drafts = directory, ".new-"
            _clear(*drafts)
            if any(directory.iterdir()):
                raise InputError(f"{directory} exists and is not empty. A {what} needs its own directory.")
        else:
            directory.parent.mkdir(parents=True, exist_ok=True)
            drafts = directory.parent, f".{directory.name}.new-"
            _clear(*drafts)
        draft = Path(tempfile.mkdtemp(dir=drafts[0], prefix=drafts[1]))
        try:
            with exclusive_lock(draft / LOCK, f"The command that makes {directory}"):
                yield draft
                for folder, _, names in os.walk(draft):  # all of it reaches the disk before it appears under its name
                    for name in names:
                        with open(os.path.join(folder, name), "rb") as file:
                            os.fsync(file.fileno())
                    sync_directory(Path(folder))
                if directory in draft.parents:
                    draft.rename(directory / _COMPLETE)  # from now on it is finished, not begun again
                    finish_creation(directory)
                    directory.chmod(0o700)  # whatever it was before
                else:
                    draft.rename(directory)  # fails if another command was quicker
                    sync_directory(directory.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as problem:
        raise InputError(f"{directory} cannot be created: {problem.strerror}.") from problem


def _clear(parent: Path, prefix: str) -> None:
    """Remove what commands that were killed have left."""
    for draft in parent.iterdir():
        if draft.name.startswith(prefix) and not is_held(draft / LOCK):
            shutil.rmtree(draft, ignore_errors=True)


def finish_creation(directory: Path) -> None:
    """Move what was made in a directory to its place, or what is left to move after a kill."""
    draft = directory / _COMPLETE
    if draft.is_dir():
        for file in sorted(draft.iterdir()):
            file.rename(directory / file.name)
        draft.rmdir()
        sync_directory(directory)
