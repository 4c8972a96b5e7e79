"""What the whole benchmark took, by the clock and in processor time; runs that go on where others stopped add up."""

import json
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Effort:
    """Seconds by the clock and of processor time, of all processes; sittings: how often it was begun or resumed."""

    seconds: float = 0.0
    processor: float = 0.0
    sittings: int = 0


def effort_of(folder: Path) -> Effort:
    """Return what has been spent so far on the scores in this folder."""
    path = _path(folder)
    return Effort(**json.loads(path.read_text())) if path.exists() else Effort()


@contextmanager
def counted(folder: Path) -> Iterator[None]:
    """Add what happens inside, even if it is interrupted."""
    before, begin, busy = effort_of(folder), time.monotonic(), _processor()
    try:
        yield
    finally:
        now = Effort(
            before.seconds + time.monotonic() - begin, before.processor + _processor() - busy, before.sittings + 1
        )
        _path(folder).write_text(json.dumps(asdict(now)))


def _path(folder: Path) -> Path:
    return folder / "effort.json"


def _processor() -> float:
    """Return the processor time of this process and of all that have ended; pip's and the peers' among them."""
    own, ended = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
