"""A ledger of an earlier format, carried over into a new one so that nobody's spending is undercounted.

Earlier formats recorded the position that a silo had in the list of a run. The same silo may have had another position
in each run, so what a run's dearest position paid is charged to every silo: no silo paid more, wherever it stood. Where
positions cannot be compared (noise of several kinds), or a person may be in several silos, all of the run is charged.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dpadmm import checks
from dpadmm.errors import LedgerError
from dpadmm.privacy.ledger import files, store
from dpadmm.privacy.ledger.account import Ask
from dpadmm.privacy.ledger.chain import Kind
from dpadmm.privacy.ledger.reading import open_for_reading
from dpadmm.privacy.ledger.silos import SiloColumns
from dpadmm.privacy.ledger.tally import EVERY_SILO, Pile, Terms, certificate_of
from dpadmm.privacy.records import CoordinateLaplaceRelease, GaussianRelease, Release, SphericalLaplaceRelease


def migrate(
    earlier: str | os.PathLike[str],
    path: str | os.PathLike[str],
    data: Sequence[SiloColumns],
    *,
    silos_per_person: int | None = None,
) -> None:
    """Write the new ledger `path` for `data`, with the budget, terms and spending of the ledger `earlier`.

    `silos_per_person`: the most silos with records of the same person, which earlier formats did not keep; if left out,
    1 where they kept people apart, else all silos. The earlier file stays as it is: put it away, and never spend from
    it again. `LedgerError` if it has the current format, or if what it holds cannot be charged soundly.
    """
    place = Path(os.path.realpath(path))
    with open_for_reading(earlier) as old:
        if not store.is_earlier(old._connection):
            raise LedgerError(f"{earlier} has the current format; it needs no migration.")
        terms = _terms(old.terms, len(data), silos_per_person)
        asks = [
            Ask.of(entry.content())
            for entry in store.read_entries(old._connection)
            if Kind(entry.content()["event"]) is Kind.RELEASE
        ]
        carried = [(Kind.RELEASE, ask.content()) for ask in _charged_to_all(asks, old.terms, terms)]
        note = (Kind.MIGRATION, {"from": old.head, "releases": len(asks), "budget": asdict(old.budget)})
        files.create(place, data, old.budget, terms, (note, *carried))


def _terms(old: Terms, n_silos: int, asked: int | None) -> Terms:
    usual = n_silos if old.silos_per_person == EVERY_SILO else old.silos_per_person
    silos = usual if asked is None else checks.count("silos_per_person", asked)
    files.check_silos(silos, n_silos)
    return replace(old, silos_per_person=silos)


def _charged_to_all(asks: Sequence[Ask], old: Terms, terms: Terms) -> Iterator[Ask]:
    """Yield what is carried over, each release charged to every silo (silo None)."""
    for run in dict.fromkeys(ask.run for ask in asks):
        of_run = [ask for ask in asks if ask.run == run]
        common = [ask for ask in of_run if ask.silo is None]
        own = [ask for ask in of_run if ask.silo is not None]
        dearest = own if terms.silos_per_person > 1 else _dearest(own, old)
        for ask in (*common, *dearest):
            release = _for_silos(ask.release, terms.silos_per_person) if ask.silo is None else ask.release
            yield replace(ask, release=release, silo=None)


def _dearest(own: Sequence[Ask], terms: Terms) -> Iterable[Ask]:
    """Return the releases of the position that paid most, or all where that cannot be said."""
    piles = {silo: Pile(terms) for silo in dict.fromkeys(ask.silo for ask in own)}
    for ask in own:
        piles[ask.silo].add(ask.release)
    for silo, pile in piles.items():
        others = piles.values()
        if all(pile.squares >= o.squares and all(pile.others[k] >= o.others[k] for k in o.others) for o in others):
            return [ask for ask in own if ask.silo == silo]
    return own


def _for_silos(release: Release, silos: int) -> Release:
    """Return an aggregate's release as certified for a person in so many silos: their changes add up."""
    certificate = certificate_of(release)
    if certificate is None or certificate.silos_per_person >= silos:
        return release
    if not isinstance(release, GaussianRelease | SphericalLaplaceRelease | CoordinateLaplaceRelease):
        raise LedgerError(
            f"A {type(release).__name__} over all silos was certified for a person in {certificate.silos_per_person} "
            f"silo(s); what it costs a person in {silos} is not known. Migrate with silos_per_person="
            f"{certificate.silos_per_person} if that is true of the data."
        )
    factor = -(-silos // certificate.silos_per_person)
    bound: dict[str, Any] = {"bound": factor * certificate.bound, "silos_per_person": silos}
    return replace(release, certificate=replace(certificate, **bound))
