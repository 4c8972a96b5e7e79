"""What `dpadmm silo` and `dpadmm coordinator` share: options, and what is said of a changed key."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from dpadmm.federation.admin.maintenance import KeyChange

SiloDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="The silo's directory.")]
CoordinatorDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="The coordinator's directory.")]
Watch = Annotated[bool, typer.Option("--watch", help="Refresh until Ctrl-C.")]
Abandon = Annotated[
    bool, typer.Option("--abandon", help="End runs that are not finished, for good; what they spent stays spent.")
]
Forget = Annotated[bool, typer.Option("--forget", help="Destroy the old key instead of keeping it aside.")]
Yes = Annotated[bool, typer.Option("--yes", help="Approve the terms without being asked.")]
LeastNoise = Annotated[float, typer.Option(help="Lowest noise/sensitivity allowed in any single release.")]
TrustCoordinator = Annotated[
    bool, typer.Option("--trust-coordinator", help="Allow messages without noise to the coordinator, who adds it.")
]
RecordsPerPerson = Annotated[int, typer.Option(help="Most records that one person has in a silo.")]
Colluders = Annotated[
    int | None,
    typer.Option(help="With --view aggregate: how many silos may collude with the coordinator. Default: 1."),
]
Neighbours = Annotated[
    Literal["replace-one", "add-remove"],
    typer.Option(help="Neighbouring data sets: one record replaced, or one added or removed (sizes are secret)."),
]
Peers = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=FINGERPRINT",
        help="Fingerprint of a participant, as its owner told you (not through the coordinator); may be repeated.",
    ),
]


def key_words(change: "KeyChange") -> str:
    """Say where the old key is, and which runs have ended with it."""
    kept = (
        "The old key is destroyed here; copies of the directory still contain it.\n"
        if change.kept is None
        else f"The old key is kept in {change.kept}, only to show what it has signed.\n"
    )
    return f"{kept}{closed_words(change.closed)}"


def closed_words(runs: tuple[str, ...]) -> str:
    """Say which runs were ended for good."""
    return f"Ended for good: {', '.join(map(repr, runs))}.\n" if runs else ""


def unfit_words(runs: tuple[str, ...], why: str) -> str:
    """Say which approved runs cannot be joined any more."""
    words = f"Approved runs that can no longer be joined, because their terms {why}: {', '.join(map(repr, runs))}.\n"
    return words if runs else ""
