"""A ledger beside data that are found to be its own: what reserves, and keeps profiles."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpadmm import checks
from dpadmm.checks import plural
from dpadmm.codec import decode
from dpadmm.errors import InputError
from dpadmm.privacy.ledger.entries import Ask, check_text, encode_release
from dpadmm.privacy.ledger.profiles import KeptProfile, ProfiledColumns, as_one_release
from dpadmm.privacy.ledger.silos import SiloMatch
from dpadmm.privacy.ledger.spending import admitted
from dpadmm.privacy.ledger.statement import Receipt
from dpadmm.privacy.protection import Protection, Relation, Unit
from dpadmm.privacy.records import GaussianRelease, NoisyRelease, Origin, Release

if TYPE_CHECKING:
    from dpadmm.privacy.ledger.ledger import Ledger


@dataclass(frozen=True)
class ConfirmedLedger:
    """A ledger together with data confirmed to be its own: the only way to record a release.

    `match` tells which silos came, in their order, and `sizes` their rows: agent i of a run is `names[i]`.
    In a ledger of one silo all agents are that silo, and what they release adds up; `is_pooled` says that there are
    several of them. `version`: which one of the data these are.
    """

    ledger: "Ledger"
    match: SiloMatch
    sizes: tuple[int, ...]
    version: int
    is_pooled: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The silos as the ledger knows them, in the order in which the data came."""
        return self.match.names

    def for_run(self, sizes: Sequence[int], relation: Relation = Relation.REPLACE_ONE) -> "ConfirmedLedger":
        """Return what reserves for a run over agents with so many records; they must be the confirmed silos.

        A single silo may be split between several agents. Where records are added or removed, the sizes are nominal:
        only the number of the agents is compared.
        """
        own = self.ledger.protection.relation
        if relation is not own:
            raise InputError(f"The ledger's budget is for {own.value} neighbours, but the run is for {relation.value}.")
        if not relation.has_public_sizes:
            if len(self.sizes) not in (1, len(sizes)):
                raise InputError(
                    f"The ledger was confirmed with {plural(len(self.sizes), 'silo')}, but the run has {len(sizes)}."
                )
            return replace(self, is_pooled=len(sizes) > len(self.sizes))
        if tuple(sizes) == self.sizes:
            return self
        if len(self.sizes) > 1 or sum(sizes) != self.sizes[0]:
            raise InputError(
                f"The ledger was confirmed with {plural(len(self.sizes), 'silo')} of {plural(sum(self.sizes), 'row')}, "
                f"but the run has {len(sizes)} of {sum(sizes)}, or splits the rows differently. Confirm the ledger "
                "with the data of the run."
            )
        return replace(self, is_pooled=True)

    def check_protection(self, asked: Protection) -> None:
        """Refuse, before anything is planned, a protection for which `reserve` would refuse every release."""
        own = self.ledger.protection
        if not own.is_covered_by(asked):
            raise InputError(
                f"The ledger's budget is {own.words()}; the run asks for protection {asked.words()}, which does not "
                "cover that. Leave out unit, view, colluders, neighbours, records per person and silos per person: the "
                "ledger's are then used."
            )

    def reserve(
        self, releases: Iterable[Release], *, run: str, algorithm: str, origin: Origin, slot: int = 0
    ) -> Receipt:
        """Record `releases` as spent, durably, and return the receipt that lets their messages leave.

        Call it before any noise is drawn. All of the releases are recorded or none. A release is known by (run, round,
        agent, slot); several of one agent and round in one call get the slots `slot`, `slot + 1`, ... in order.
        Asking again for the same returns the same receipt and spends nothing.

        Raises `BudgetError` if the budget would be exceeded, `ResumeError` if something else is recorded under the same
        key, or if the run was started with an earlier version of the data (all logged); `InputError` for simulated
        noise or a certificate for other terms, `LedgerError` if the file cannot be written.
        """
        return self.intend(releases, run=run, algorithm=algorithm, origin=origin, slot=slot).reserve()

    def check_room(self, releases: Iterable[Release], *, run: str, algorithm: str, origin: Origin) -> None:
        """Raise `BudgetError` if `reserve` would refuse these releases now; records nothing.

        To check before the first round whether a whole run fits. Only `reserve` permits sending.
        """
        self.intend(releases, run=run, algorithm=algorithm, origin=origin).check_room()

    def intend(
        self, releases: Iterable[Release], *, run: str, algorithm: str, origin: Origin, slot: int = 0
    ) -> "Intent":
        """Return releases that are checked against the ledger's terms, as `reserve` takes them; records nothing."""
        return Intent(self.ledger, tuple(self._asks(releases, run, algorithm, origin, slot)), self.version)

    def keep_profile(self, subject: ProfiledColumns, run: str, counts: Iterable[float], noise_std: float) -> None:
        """Record the noisy counts of all silos together that `run` has just drawn, for later fits to reuse at no cost.

        Call it before the run continues: what was paid for is then not lost with the run. `InputError` unless the
        ledger has recorded that very release of the run, with this noise.
        """
        mark = self._mark(subject.columns)
        if mark is None:
            raise InputError(
                "The ledger was not given all columns of the profile, so it could not recognise them later."
            )
        self.ledger._keep_profile(
            KeptProfile(
                run=run,
                form=subject.form,
                data=mark,
                columns=len(subject.columns),
                records=subject.records,
                protection=subject.protection,
                noise_std=float(noise_std),
                counts=tuple(float(x) for x in counts),
            ),
            self.version,
        )

    def kept_profile(self, subject: ProfiledColumns) -> KeptProfile | None:
        """Return the profile with the least noise that earlier runs released of these very columns, None without one.

        Public columns, bins, values and protection must all be the same. A profile against a weaker observer would
        make a later statement say too much; other values under the same names are other data.
        """
        mark = self._mark(subject.columns)
        about = [] if mark is None else [kept for kept in self.ledger.profiles() if kept.is_about(subject, mark)]
        found = [kept for kept in about if self._is_cost_known(kept)]
        return min(found, key=lambda kept: kept.noise_std, default=None)

    def release_of(self, kept: KeptProfile) -> GaussianRelease:
        """Return what a profile has cost the worst person, as one release: a model that rests on it counts it in."""
        return as_one_release(self.ledger._profile_releases(kept.run), kept.protection)

    def _is_cost_known(self, kept: KeptProfile) -> bool:
        """Return whether what a profile cost a person does not depend on how the rows were split for it.

        The agents of a ledger of one silo may be other ones in every run. A person's records that lie apart in one run
        may have been together in another, where each agent's noise was meant for fewer of them.
        """
        people = kept.protection
        if len(self.names) > 1 or people.records_per_person * people.silos_per_person == 1:
            return True
        return len(self.ledger._profile_releases(kept.run)) == 1

    def _mark(self, columns: Sequence[str]) -> str | None:
        """Return a mark of the columns' values in this order, None if one of them did not come.

        One for all of them: marks of single columns would tell the reader of the log which of them are equal.
        """
        marks = [self.match.columns.get(name) for name in columns]
        if not marks or None in marks:
            return None
        return hashlib.sha256(" ".join(map(str, marks)).encode()).hexdigest()

    def _admitted(self, release: Release) -> Release:
        """Return a release that the terms cover.

        A pooled silo's person may have each record with another agent. One noise over all agents then hides what they
        do together, so its certificate must be about a person in as many silos.
        """
        records, is_spread = self.ledger.protection.records_per_person, self.is_pooled and release.agent < 0
        if self.is_pooled and self.ledger.protection.unit is Unit.USER:
            raise InputError(
                "The ledger's budget is per user, but the ledger cannot tell users apart: it was created for one silo. "
                "Create it with one silo per user, as in ledger_data(X, y, groups)."
            )
        silos = release.certificate.protection.silos_per_person if isinstance(release, NoisyRelease) else records
        if is_spread and silos < records:
            raise InputError(
                f"A person may have {records} records, each with a different agent, but the aggregate of round "
                f"{release.round} is certified for a person in {plural(silos, 'silo')}. Certify "
                f"it for {records} silos per person, or create the ledger with separate silos."
            )
        return admitted(release, self.ledger.protection)

    def _silo_of(self, agent: int) -> str | None:
        """Return whose data the releases of an agent are about; None, below zero, for those of all."""
        if agent < 0:
            return None
        if len(self.names) == 1:
            return self.names[0]
        if agent >= len(self.names):
            raise InputError(
                f"Agent {agent} releases something, but the data have {plural(len(self.names), 'silo')}. Confirm "
                "all silos."
            )
        return self.names[agent]

    def _asks(self, releases: Iterable[Release], run: str, algorithm: str, origin: Origin, slot: int) -> list[Ask]:
        if Origin(origin) is not Origin.SECURE:
            raise InputError(
                "Simulated noise is reproducible, so it protects nobody and cannot be recorded as a release. Use the "
                "secure sampler for a release, or leave out the ledger for a simulation."
            )
        check_text("run", run)
        check_text("algorithm", algorithm)
        self.ledger._meter()  # imported before the file is locked
        next_slot: Counter[tuple[int, int]] = Counter()
        asks = []
        for given in releases:
            # Through the codec, so that what is compared and composed now is what will be read back.
            release = self._admitted(decode(Release, encode_release(given)))
            place = release.round, release.agent
            nth = checks.count("slot", slot, least=0) + next_slot[place]
            asks.append(Ask(run, algorithm, nth, release, self._silo_of(release.agent)))
            next_slot[place] += 1
        if not asks:
            raise InputError("reserve needs at least one release, got none.")
        return asks


@dataclass(frozen=True)
class Intent:
    """Releases that a run is about to make: checked once, then asked for, `version` of the data being used."""

    ledger: "Ledger"
    asks: tuple[Ask, ...]
    version: int

    def check_room(self) -> None:
        """As `ConfirmedLedger.check_room`."""
        self.ledger._check_room(self.asks, self.version)

    def reserve(self) -> Receipt:
        """As `ConfirmedLedger.reserve`."""
        return self.ledger._reserve(self.asks, self.version)
