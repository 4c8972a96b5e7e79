"""What a run spends, reserved in the ledgers of its silos before anything is drawn."""

from collections.abc import Iterator, Sequence

from dpadmm.errors import InputError, ResumeError
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.ledger import ConfirmedLedger, Receipt
from dpadmm.privacy.protection import Protection
from dpadmm.privacy.records import Origin


def books_of(
    ledgers: Sequence[ConfirmedLedger] | ConfirmedLedger | None, sizes: tuple[int, ...], protection: Protection
) -> list[tuple[ConfirmedLedger, range]]:
    """Return each ledger with the silos whose releases it records."""
    if ledgers is None:
        return []
    if isinstance(ledgers, ConfirmedLedger):
        return [(ledgers.for_run(sizes, protection.relation), range(len(sizes)))]
    if len(ledgers) != len(sizes):
        raise InputError(f"Give one ledger for all silos, or one for each of the {len(sizes)}; got {len(ledgers)}.")
    return [
        (ledger.for_run(sizes[i : i + 1], protection.relation), range(i, i + 1)) for i, ledger in enumerate(ledgers)
    ]


def reserve(books: list[tuple[ConfirmedLedger, range]], noise: NoisePlan, label: str, name: str) -> Iterator[Receipt]:
    """Reserve in all ledgers; none is charged if one of them has no room or knows the run already."""
    intents = []
    for ledger, agents in books:
        if ledger.ledger.newest_round(name) is not None:
            raise ResumeError(
                f"The run {name!r} is already recorded. Its messages are not stored here, so they cannot be sent "
                "again, and fresh noise would be a new release: choose another name."
            )
        intents.append(ledger.intend(noise.by(agents), run=name, algorithm=label, origin=Origin.SECURE))
        intents[-1].check_room()
    for intent in intents:
        yield intent.reserve()
