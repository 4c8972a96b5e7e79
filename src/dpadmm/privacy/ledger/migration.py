"""A ledger of an earlier format, carried over into a new one so that nobody's spending is undercounted.

Earlier formats recorded the position that a silo had in the list of a run. The same silo may have had another position
in each run, so what the dearest position of a round paid is charged to every silo: no silo paid more, wherever it
stood. Where positions cannot be compared (noise of several kinds), where a person may be in several silos, or where the
data are one silo now, everything is charged.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dpadmm import checks
from dpadmm.checks import plural
from dpadmm.errors import LedgerError
from dpadmm.privacy.ledger import history, store
from dpadmm.privacy.ledger.entries import Ask, Kind
from dpadmm.privacy.ledger.ledger import open_for_reading
from dpadmm.privacy.ledger.silos import SiloColumns
from dpadmm.privacy.ledger.spending import EVERY_SILO, Pile
from dpadmm.privacy.protection import Protection
from dpadmm.privacy.records import (
    CoordinateLaplaceRelease,
    GaussianRelease,
    NoisyRelease,
    Release,
    SphericalLaplaceRelease,
)


def migrate(
    earlier: str | os.PathLike[str],
    path: str | os.PathLike[str],
    data: Sequence[SiloColumns],
    *,
    silos_per_person: int | None = None,
) -> None:
    """Write the new ledger `path` for `data`, with the budget, protection and spending of the ledger `earlier`.

    `silos_per_person`: the most silos with records of the same person, which earlier formats did not keep; if left out,
    1 where they kept people apart, else all silos. The earlier file stays as it is, and a mark beside it (`.migrated`)
    keeps it from being carried over twice. `LedgerError` if it has the current format, or if what it holds cannot be
    charged soundly.
    """
    place, old_place = Path(os.path.realpath(path)), Path(os.path.realpath(earlier))
    with open_for_reading(old_place) as old:
        if not old.is_earlier_format:
            raise LedgerError(f"{earlier} has the current format; it needs no migration.")
        contents = (entry.content() for entry in store.read_entries(old._connection))
        asks = [Ask.of(content) for content in contents if Kind(content["event"]) is Kind.RELEASE]
        silos = max((ask.release.agent + 1 for ask in asks), default=1)
        _check_silos(old.protection, silos, len(data))
        protection = _protection(old.protection, len(data), silos_per_person)
        charged = _charged_to_all(asks, protection, is_all_charged=protection.silos_per_person > 1 or silos > len(data))
        carried = [(Kind.RELEASE, ask.content()) for ask in charged]
        note = (Kind.MIGRATION, {"from": old.head, "releases": len(asks), "budget": asdict(old.budget)})
        mark = old_place.with_name(old_place.name + ".migrated")
        store.write_new(mark, f"{place.name}\n".encode())
        try:
            history.create(place, data, old.budget, protection, (note, *carried))
        except BaseException:
            mark.unlink()
            raise


def _check_silos(protection: Protection, before: int, now: int) -> None:
    """Refuse data with fewer silos than took part before, unless all that they released is charged to one."""
    if before > now and not (now == 1 and protection.silos_per_person == EVERY_SILO):
        raise LedgerError(
            f"{before} silos took part in the runs of the earlier ledger, but the data have {now}. Give all of them, "
            "unchanged."
        )


def _protection(old: Protection, n_silos: int, asked: int | None) -> Protection:
    usual = n_silos if old.silos_per_person == EVERY_SILO else old.silos_per_person
    silos = usual if asked is None else checks.count("silos_per_person", asked)
    asked_for = replace(old, silos_per_person=silos)
    asked_for.check_silos(n_silos)
    return asked_for


def _charged_to_all(asks: Sequence[Ask], protection: Protection, *, is_all_charged: bool) -> Iterator[Ask]:
    """Yield what is carried over, each release charged to every silo (silo None)."""
    groups: dict[tuple[object, ...], list[Ask]] = {}
    for ask in asks:
        groups.setdefault((ask.run, ask.algorithm, ask.release.round, ask.slot, ask.silo is None), []).append(ask)
    for group in groups.values():
        is_common = group[0].silo is None
        for ask in group if is_common or is_all_charged else _dearest(group, protection):
            release = _for_silos(ask.release, protection.silos_per_person) if is_common else ask.release
            yield replace(ask, release=release, silo=None, written=None)


def _dearest(group: Sequence[Ask], protection: Protection) -> Iterable[Ask]:
    """Return the release of the position that paid most in one round, or all where that cannot be said.

    Round by round, since a silo may have had another position whenever something was reserved.
    """
    piles = []
    for ask in group:
        piles.append(Pile(protection))
        piles[-1].add(ask.release)
    for ask, pile in zip(group, piles, strict=True):
        if all(pile.squares >= o.squares and all(pile.others[k] >= o.others[k] for k in o.others) for o in piles):
            return [ask]
    return group


def _for_silos(release: Release, silos: int) -> Release:
    """Return an aggregate's release as certified for a person in so many silos: their changes add up."""
    if not isinstance(release, NoisyRelease) or release.certificate.silos_per_person >= silos:
        return release
    certificate = release.certificate
    if not isinstance(release, GaussianRelease | SphericalLaplaceRelease | CoordinateLaplaceRelease):
        raise LedgerError(
            f"A {type(release).__name__} over all silos was certified for a person in "
            f"{plural(certificate.silos_per_person, 'silo')}; its cost for a person in {silos} is not known. Migrate "
            f"with silos_per_person={certificate.silos_per_person} if that is true of the data."
        )
    factor = -(-silos // certificate.silos_per_person)
    bound: dict[str, Any] = {"bound": factor * certificate.bound, "silos_per_person": silos}
    return replace(release, certificate=replace(certificate, **bound))
