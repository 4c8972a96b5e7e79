"""What `dpadmm silo` and `dpadmm coordinator` share: options, and the text about a changed key."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpadmm.settings import Privacy

if TYPE_CHECKING:
    from dpadmm.federation.admin.maintenance import KeyChange
    from dpadmm.privacy.protection import Protection

SiloDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="The silo's directory.")]
CoordinatorDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="The coordinator's directory.")]
Watch = Annotated[bool, typer.Option("--watch", help="Refresh until Ctrl-C.")]
Abandon = Annotated[bool, typer.Option("--abandon", help="End unfinished runs for good; what they spent stays spent.")]
Forget = Annotated[bool, typer.Option("--forget", help="Destroy the old key instead of keeping it aside.")]
Yes = Annotated[bool, typer.Option("--yes", help="Approve the terms without being asked.")]
LeastNoise = Annotated[float, typer.Option(help="Lowest noise/sensitivity allowed in any single release.")]
TrustCoordinator = Annotated[bool, typer.Option("--trust-coordinator", help="Let the coordinator add the noise.")]
Peers = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=FINGERPRINT",
        help="Fingerprint of a participant, as its owner sent it (not through the coordinator); may be repeated.",
    ),
]


PEOPLE = (Privacy, "neighbours records_per_person colluders")
"""Settings of the protection that a silo or a study states, beside its view."""


def protection_of(view: str, privacy: Privacy) -> "Protection":
    """Return the protection that a silo or a study states."""
    from dpadmm.planner.resolved import protection_from
    from dpadmm.privacy.protection import ONE_RECORD

    counts = (privacy.records_per_person, privacy.silos_per_person, privacy.colluders)
    return protection_from(ONE_RECORD, None, view, *counts, privacy.neighbours)


def key_change_text(change: "KeyChange") -> str:
    """Say where the old key is, and which runs have ended with it."""
    kept = (
        "The old key is destroyed here; copies of the directory still contain it.\n"
        if change.kept is None
        else f"The old key is kept in {change.kept}, only to show what it has signed.\n"
    )
    return f"{kept}{closed_runs_text(change.closed)}"


def closed_runs_text(runs: tuple[str, ...]) -> str:
    """Say which runs were ended for good."""
    return f"Ended for good: {', '.join(map(repr, runs))}.\n" if runs else ""


def lost_runs_text(runs: tuple[str, ...], why: str) -> str:
    """Say which approved runs cannot be joined any more."""
    text = f"Approved runs that can no longer be joined, because their terms {why}: {', '.join(map(repr, runs))}.\n"
    return text if runs else ""
