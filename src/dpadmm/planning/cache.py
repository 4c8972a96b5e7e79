"""Simulations remembered on disk, by the shape of the task; whatever cannot be read is simulated again.

The folder is `dpadmm` in the user's cache folder (`XDG_CACHE_HOME`, by default `~/.cache`). It holds results on
synthetic data only: nothing private, nothing that could not be made again.
"""

import hashlib
import json
import math
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from dpadmm.planning.bench import Bench, try_out
from dpadmm.planning.trial import Trial
from dpadmm.planning.worlds import World

_VERSION = 2
"""Changes whenever worlds, scores or methods do."""


def remembered(bench: Bench, world: World) -> Trial:
    """Return the trial of the bench in the world, from the cache or by simulation."""
    file = folder() / f"{key_of(bench, world)}.json"
    known = _read(file)
    if known is not None:
        return known
    trial = try_out(bench, world)
    _write(file, trial)
    return trial


def folder() -> Path:
    """Return where trials are kept."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "dpadmm" / "plans"


def key_of(bench: Bench, world: World) -> str:
    """Return a name for everything a trial depends on."""
    return hashlib.sha256(f"{_VERSION} {bench!r} {world!r}".encode()).hexdigest()[:32]


def _read(file: Path) -> Trial | None:
    try:
        plain = json.loads(file.read_text())
        trial = Trial(**plain)
        return trial if all(math.isfinite(value) for value in asdict(trial).values()) else None
    except (OSError, ValueError, TypeError):
        return None


def _write(file: Path, trial: Trial) -> None:
    """Write to a new file and move it into place; a cache that cannot be written is no reason to stop."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
        try:
            with os.fdopen(handle, "w") as stream:
                json.dump(asdict(trial), stream)
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
