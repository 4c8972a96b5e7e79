"""What a doctor finds: one line a check, ok, a warning or a problem, and what to do about it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from dpadmm.errors import without_controls
from dpadmm.federation.refusal import reason_of


class Health(Enum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "PROBLEM"


@dataclass(frozen=True)
class Checkup:
    """One thing that was checked: what was found, and what to do if something is wrong."""

    check: str
    health: Health
    words: str
    advice: str = ""

    @property
    def line(self) -> str:
        """The finding as one text."""
        return without_controls(f"{self.words}{'' if not self.advice else f' -> {self.advice}'}")


def good(check: str, words: str) -> Checkup:
    """Return a check that ended well."""
    return Checkup(check, Health.OK, words)


def warning(check: str, words: str, advice: str) -> Checkup:
    """Return something that may be meant so."""
    return Checkup(check, Health.WARNING, words, advice)


def problem(check: str, words: str, advice: str = "") -> Checkup:
    """Return something that keeps the federation from working."""
    return Checkup(check, Health.PROBLEM, words, advice)


def tried(check: str, look: Callable[[], Iterable[Checkup]]) -> list[Checkup]:
    """Return what a look finds; where it fails, that is the finding, with no text but that of our own errors."""
    try:
        return list(look())
    except Exception as failure:  # noqa: BLE001 - one check that fails must not hide the others
        return [problem(check, reason_of(failure))]


def has_problem(found: Sequence[Checkup]) -> bool:
    """Return whether anything must be done."""
    return any(each.health is Health.PROBLEM for each in found)


def document(found: Sequence[Checkup]) -> dict[str, Any]:
    """Return findings as plain values; these names stay."""
    checks = [asdict(each) | {"health": each.health.value.lower()} for each in found]
    return {"has_problem": has_problem(found), "checks": checks}
