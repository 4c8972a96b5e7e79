"""The ledgers of a run: which silos' releases each of them records, and how all are charged at once or none."""

import uuid
from collections.abc import Iterator, Sequence

from dpadmm.errors import InputError, ResumeError
from dpadmm.methods.method import Setting
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.ledger import ConfirmedLedger, Receipt
from dpadmm.privacy.protection import Protection
from dpadmm.privacy.records import Origin

Charged = list[tuple[ConfirmedLedger, range]]
"""Each ledger with the silos whose releases it records."""


def reserved(
    everything: NoisePlan,
    setting: Setting,
    ledgers: Sequence[ConfirmedLedger] | ConfirmedLedger | None,
    label: str,
    name: str | None,
    *,
    is_secure: bool,
) -> tuple[str, Charged, tuple[Receipt, ...]]:
    """Reserve all that will be released; return the run's name, its ledgers and their receipts."""
    books = _books(ledgers, tuple(int(size) for size in setting.problem.functions.sizes), setting.protection)
    if books and not is_secure:
        raise InputError(
            "Simulated noise cannot be recorded as a release: use SecureSampler(), or leave out the ledgers."
        )
    name = name if name is not None else f"{label}-{uuid.uuid4()}"
    return name, books, tuple(_reserve(books, everything, label, name))


def _books(
    ledgers: Sequence[ConfirmedLedger] | ConfirmedLedger | None, sizes: tuple[int, ...], protection: Protection
) -> Charged:
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


def _reserve(books: Charged, noise: NoisePlan, label: str, name: str) -> Iterator[Receipt]:
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
