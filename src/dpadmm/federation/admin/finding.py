"""What a doctor finds: one line a check, ok, a warning or a problem, and what to do about it."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from dpadmm.federation.errors import reason_of


class Level(Enum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """One thing that was checked: what was found, and what to do if something is wrong."""

    check: str
    level: Level
    text: str
    advice: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self) | {"level": self.level.value}


def run_checks(checks: dict[str, Callable[[], Iterable[Finding]]]) -> list[Finding]:
    """Return what the checks find; one that fails is a finding itself, with no text but that of our own errors."""
    found: list[Finding] = []
    for name, check in checks.items():
        try:
            found += check()
        except Exception as failure:  # noqa: BLE001 - one check that fails must not hide the others
            found.append(Finding(name, Level.PROBLEM, reason_of(failure)))
    return found
