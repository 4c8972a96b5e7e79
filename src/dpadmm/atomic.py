"""Files that are there whole, as they were or as they are now, whatever interrupts who writes them."""

import os
import threading
from pathlib import Path


def write_atomic(path: Path, content: bytes, mode: int = 0o666, *, may_replace: bool = True) -> None:
    """Write a file, durably and all or nothing; mode: its permissions, less those that the umask takes away.

    `FileExistsError` where there is one that may not be replaced.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_native_id()}")
    try:
        draft.unlink(missing_ok=True)  # of a process that had this number and was killed
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if may_replace:
            draft.replace(path)
        else:
            os.link(draft, path)  # fails if there is one, and never shows half of one
        sync_directory(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Make what was created or renamed in it durable."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows, where a directory cannot be opened
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
