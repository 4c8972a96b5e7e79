"""A directory of a silo or a coordinator is made whole: after a kill at any point the same command makes it again."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpadmm.errors import InputError
from dpadmm.federation.process_lock import is_held, sole
from dpadmm.files import sync_directory

LOCK = "running.lock"
"""Held by the process that makes a directory, and later by the one that serves it."""

_COMPLETE = ".complete"


class PartyDirectory:
    """The directory of a silo or a coordinator, and what both keep in it.

    lock: held by the process that serves. status: what that tells about itself. certificate: its TLS certificate and
    key.
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
        complete(directory)
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
            with sole(draft / LOCK, f"The command that makes {directory}"):
                yield draft
                for folder, _, names in os.walk(draft):  # all of it reaches the disk before it appears under its name
                    for name in names:
                        with open(os.path.join(folder, name), "rb") as file:
                            os.fsync(file.fileno())
                    sync_directory(Path(folder))
                if directory in draft.parents:
                    draft.rename(directory / _COMPLETE)  # from now on it is finished, not begun again
                    complete(directory)
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


def complete(directory: Path) -> None:
    """Move what was made in a directory to its place, or what is left to move after a kill."""
    draft = directory / _COMPLETE
    if draft.is_dir():
        for file in sorted(draft.iterdir()):
            file.rename(directory / file.name)
        draft.rmdir()
        sync_directory(directory)
