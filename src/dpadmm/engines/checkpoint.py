"""Save a run and continue it later on the same trajectory."""

import hashlib
import json
import os
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm.errors import ResumeError
from dpadmm.problems.arrays import Floats

FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """The whole state of a run after `round` rounds; the arrays of `state` in the order of its fields.

    tail: sum of the estimates of rounds `tail_from`.. up to `round` (zeros before).
    """

    round: int
    state: tuple[Floats, ...] = field(repr=False)
    inbox: Floats = field(repr=False)
    tail: Floats = field(repr=False)
    tail_from: int
    passport: str

    def save(self, path: Path) -> None:
        """Write the file atomically: a crash or a full disk leaves the older file as it was."""
        arrays: dict[str, Any] = {f"state_{i}": part for i, part in enumerate(self.state)}
        arrays["inbox"], arrays["tail"] = self.inbox, self.tail
        header = {"format": FORMAT, "round": self.round, "tail_from": self.tail_from, "passport": self.passport}
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(scratch, path)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: Path, passport: str) -> "Checkpoint":
        """Read a file written by `save` for the same run; anything else is refused by name."""
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                header = json.loads(bytes(file["header"]).decode())
                state = tuple(file[f"state_{i}"] for i in range(sum(n.startswith("state_") for n in file.files)))
                inbox, tail = file["inbox"], file["tail"]
            version, owner = header["format"], header["passport"]
            if version == FORMAT:
                done, tail_from = int(header["round"]), int(header["tail_from"])
        except FileNotFoundError as problem:
            raise ResumeError(f"There is no checkpoint at {path}.") from problem
        except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile) as problem:
            raise ResumeError(f"{path} is not a usable checkpoint ({problem}). Start the run again.") from problem
        if version != FORMAT:
            raise ResumeError(f"{path} has checkpoint format {version}; this version reads {FORMAT}.")
        if owner != passport:
            raise ResumeError(
                f"{path} belongs to another run (algorithm, problem, network or replicas differ). "
                "Use the settings of the saved run, or another file."
            )
        return cls(done, state, inbox, tail, tail_from, passport)


def passport(*parts: object) -> str:
    """Return a short fingerprint of what makes two runs the same run."""
    return hashlib.sha256("\n".join(repr(part) for part in parts).encode()).hexdigest()[:32]
