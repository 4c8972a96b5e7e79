"""The ledger of one data set: what was released from it, for good, and a hard stop before the budget is passed."""

import hashlib
import json
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from dpadmm.checks import plural
from dpadmm.codec import decode, encode
from dpadmm.errors import BudgetError, InputError, LedgerError, ResumeError
from dpadmm.privacy.ledger import history, store
from dpadmm.privacy.ledger.entries import Entry, Kind, Reservation, Writer, check_text, encode_release, read_record
from dpadmm.privacy.ledger.fingerprints import SiloColumns, SiloMatch, match_newest
from dpadmm.privacy.ledger.history import BudgetChange, OpenHistory
from dpadmm.privacy.ledger.profiles import KeptProfile, ProfiledColumns, as_one_release, check_paid, released_profile
from dpadmm.privacy.ledger.spending import (
    PROFILE_ROUND,
    Budget,
    LedgerStatement,
    Receipt,
    RunSpending,
    below_spent,
    draw_statement,
    overspend,
)
from dpadmm.privacy.protection import ONE_RECORD, NeighbouringRelation, Protection, Unit
from dpadmm.privacy.releases import GaussianRelease, NoisyRelease, Origin, Release

_OTHER_PERSONS = (
    "The table is the ledger's, but its rows are assigned to different persons than when the ledger was created. "
    "Nothing may be released. Identify persons by the same column as then."
)


class Ledger(OpenHistory):
    """A durable, append-only record of the releases of one data set.

    Made by `Ledger.create` or `Ledger.open`; use it as a context manager. To release, pass the data to `confirm`, every
    time: it returns the `ConfirmedLedger` that reserves. Every method that records commits to disk before it returns.
    One object belongs to one thread of one process; any number of them may open the same file, and a copied or
    pickled ledger opens the file again.

    >>> import tempfile, pathlib
    >>> from dpadmm.privacy.ledger import Budget, Ledger, SiloColumns
    >>> with tempfile.TemporaryDirectory() as place:
    ...     path, data = pathlib.Path(place, "clinic.ledger"), [SiloColumns("clinic", {"x": [0.5, 1.0]})]
    ...     with Ledger.create(path, data, Budget(epsilon=1.0, delta=1e-5)) as ledger:
    ...         ledger.budget
    Budget(epsilon=1.0, delta=1e-05)
    """

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        data: Sequence[SiloColumns],
        budget: Budget,
        *,
        protection: Protection = ONE_RECORD,
    ) -> "Ledger":
        """Start the ledger of the silos in `data` at the new file `path`, with `path.key` and `path.head` beside it.

        `protection` says what the budget is about (`ONE_RECORD` by default). `LedgerError` if any of the files exists.
        """
        place = Path(os.path.realpath(path))
        history.create(place, data, budget, protection)
        return cls.open(place)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, expected_head: str | None = None) -> "Ledger":
        """Open a ledger and check all of it: pages, version, chain, anchor.

        `expected_head` is a head you noted earlier: it must be in the history, or the file is an older or edited copy.
        Raises `LedgerError`, with nothing changed, for a file that is foreign, damaged, unexpected or of another kind.
        """
        place = Path(os.path.realpath(path))
        return cls(place, *history.open_checked(place, expected_head))

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if os.getpid() == self._owner[0]:
            self._connection.close()
            if not self._is_closed:
                history.keep(self.path, self._state)
            self._is_closed = True

    def __enter__(self) -> Self:
        """Return the ledger."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the ledger."""
        self.close()

    def __copy__(self) -> Self:
        """Return the ledger itself: what is spent is on the one file, whoever holds a copy of the object around it."""
        return self

    def __deepcopy__(self, memo: object) -> Self:
        """Return the ledger itself, for the same reason."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the way to the file: another process opens it again, or fails; it never goes on without."""
        return Ledger.open, (str(self.path),)

    def here(self) -> "Ledger":
        """Return the ledger for the running thread and process: itself, or the same file opened again."""
        if self._owner == (os.getpid(), threading.get_ident()):
            return self
        return Ledger.open(self.path)

    @property
    def protection(self) -> Protection:
        """What the budget is about."""
        return self._state.spent.protection

    @property
    def silos(self) -> tuple[str, ...]:
        """The names under which the ledger knows its silos."""
        return tuple(silo.name for silo in self._state.newest.data.silos)

    @property
    def budget(self) -> Budget:
        """The budget in force."""
        self._refresh()
        return self._state.budget

    @property
    def head(self) -> str:
        """The digest of the last entry: note it down, and give it to `open` later."""
        self._refresh()
        return self._state.reader.digest

    def confirm(self, data: Sequence[SiloColumns]) -> "ConfirmedLedger":
        """Check that `data` are the newest version of the ledger's, and return what reserves for them.

        The silos may come in any order; each is recognised by what it holds. `LedgerError` if the data are others.
        """
        self._refresh()
        key = self._key()
        history.check_persons(data, self.protection)
        try:
            match = match_newest(self._state.versions, data, key)
        except LedgerError as problem:
            is_persons = self.protection.unit is Unit.PERSON
            others = is_persons and self._state.newest.is_match([replace(each, persons=None) for each in data], key)
            raise LedgerError(f"{self.path}: {_OTHER_PERSONS if others else problem}") from None
        return ConfirmedLedger(self, match, tuple(each.size for each in data), self._state.newest.number)

    def add_version(self, data: Sequence[SiloColumns]) -> None:
        """Continue with a new version of the data: rows added or removed, cells corrected.

        What was spent on older versions still counts. From now on `confirm` takes this version only; runs that were
        begun and profiles that were kept with earlier ones cannot be used. Data that are the newest version already
        record nothing. `LedgerError` for a ledger that distinguishes silos.
        """
        history.check_persons(data, self.protection)
        for each in data:
            _ = each.digests  # computed before the file is locked
        key = self._key()
        with self._writing() as writer:
            newest = self._state.newest
            if not newest.is_of(data, key):
                store.append(self._connection, [writer.next(Kind.VERSION, newest.next(data, key))])

    def is_newest(self, data: Sequence[SiloColumns]) -> bool:
        """Return whether these tables are the newest version, with all its columns."""
        self._refresh()
        return self._state.newest.is_of(data, self._key())

    def _key(self) -> bytes:
        key = store.read_key(store.key_path(self.path))
        if not store.is_same(store.key_check(key), self._state.key_check):
            raise LedgerError(f"{store.key_path(self.path)} is the key of another ledger. Restore the right one.")
        return key

    def has_head(self, digest: str) -> bool:
        """Return whether a head noted earlier is in the history."""
        return bool(self.select("SELECT 1 FROM entries WHERE digest = ?", (digest,)))

    def is_about(self, data: Sequence[SiloColumns]) -> bool:
        """Return whether any of these tables looks like one of the ledger's: half of its columns, of any version."""
        self._refresh()
        key = store.read_key(store.key_path(self.path))
        return any(each.data.is_like(silo, each.key(key)) for each in self._state.versions for silo in data)

    @contextmanager
    def transaction(self, data: "ConfirmedLedger | None" = None) -> Iterator["Transaction"]:
        """Commit reservations and rows of further tables together, in this file: all of it or none, then the anchor.

        `data` is needed to reserve. Any error inside the block undoes all of it. A refused reservation is logged
        besides, and raised at the end even where the block has caught it. Until the block ends, nothing else can be
        asked of the ledger.
        """
        with self._writing() as writer:
            start, work = (writer.seq, writer.digest), Transaction(self, self._connection, writer, data)
            self._connection.execute("SAVEPOINT block")
            self._is_busy = True
            try:
                yield work
            except BaseException as error:
                work.failure = error
                if work.refused is None:
                    raise
            finally:
                work.is_open = self._is_busy = False
            if work.refused is None:
                if work.failure is not None:  # the block has caught it
                    raise work.failure
            else:
                self._connection.execute("ROLLBACK TO block")
                writer.seq, writer.digest = start
                if history.what_was_refused(work.refused) not in self._state.refused:  # asked in vain, it fills no disk
                    store.append(self._connection, [writer.next(Kind.REFUSAL, work.refused)])
        if work.failure is not None:
            raise work.failure
        for ask, entry in work.recorded:
            self._state.take(entry, ask, writer.time)

    def select(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return rows of further tables of the file, as last committed."""
        self._guard()
        with store.clear_errors(self.path):
            return store.execute_beside(self._connection, sql, parameters, is_reading=True)

    def _look_up(
        self, asks: Sequence[Reservation], version: int, before: Sequence[Reservation] = ()
    ) -> tuple[list[Entry | None], BudgetError | ResumeError | None]:
        """Return what is recorded under the keys of `asks`, and why the rest of them cannot be recorded, if so.

        before: what the same transaction has reserved.
        """
        state, found = self._state, store.find_keys(self._connection, [ask.key for ask in asks])
        new = [*before, *(ask for ask, entry in zip(asks, found, strict=True) if entry is None)]
        return found, (
            history.outdated(self._connection, state.newest, asks[0].run, version)
            or history.conflict(asks, found)
            or overspend(state.spent, new, state.budget, n_silos=len(self.silos))
        )

    def _profile_releases(self, run: str) -> list[GaussianRelease]:
        with store.clear_errors(self.path):
            return released_profile(store.find_round(self._connection, run, PROFILE_ROUND))

    def profiles(self) -> tuple[KeptProfile, ...]:
        """Return the column profiles of the newest version of the data that were released and kept, in order."""
        self._refresh()
        return tuple(self._state.profiles)

    def newest_round(self, run: str) -> int | None:
        """Return the last round of a run that anything was reserved for, None if there is none."""
        self._refresh()
        ((found,),) = self.select("SELECT MAX(round) FROM keys WHERE run = ?", (run,))
        return None if found is None else int(found)

    def set_budget(self, budget: Budget, *, reason: str) -> None:
        """Change the budget, for a stated reason, as an entry of the log.

        `BudgetError` if more than the new budget is already spent (logged). Raising a budget after looking at
        results is a decision that the log shows, not one that it can justify.
        """
        check_text("reason", reason)
        with self._writing() as writer:
            refusal = below_spent(self._state.spent, budget)
            change = BudgetChange(budget, reason)
            if refusal is None:
                entry = writer.next(Kind.BUDGET, change)
            else:
                entry = writer.next(Kind.REFUSAL, encode(change) | {"detail": str(refusal)})
            store.append(self._connection, [entry])
        if refusal is not None:
            raise refusal

    def statement(self) -> LedgerStatement:
        """Return what was spent, what is left and the head of the chain."""
        self._refresh()
        return draw_statement(self._state)

    def runs(self) -> tuple[RunSpending, ...]:
        """Return what each run has spent, in order of their first release.

        Epsilons of runs do not simply add up to the total of the statement, which composes all releases together.
        """
        self._refresh()
        return tuple(run.spending(self._state.budget) for run in self._state.runs.values())

    def dynamic_zcdp(self, run: str) -> dict[int, list[float]]:
        """Return the running rho of zCDP of each agent of a run, round by round, as recorded; -1 reaches everybody."""
        from dpadmm.privacy.accounting import dynamic_zcdp  # late: opening a ledger needs no accountant

        with store.clear_errors(self.path):
            bodies = [entry.content() for entry in store.read_entries(self._connection)]
        own = [body for body in bodies if body["event"] == Kind.RELEASE.value and body["run"] == run]
        spent = dynamic_zcdp(read_record(Reservation, body).release for body in own)
        return {agent: row.tolist() for agent, row in spent.items()}

    def verify(self) -> str:
        """Read everything again from the file, check pages, chain and keys, and return the head."""
        self._guard()
        with store.clear_errors(self.path), store.transaction(self._connection, "BEGIN"):
            return history.read_again(self._connection, self.path).reader.digest

    def export_json(self, path: str | os.PathLike[str]) -> None:
        """Write the statement and every entry to a new, readable JSON file.

        The digest of an entry is SHA-256 of the digest before it, a newline and the entry's `"body"` as canonical
        JSON (sorted keys, no blanks), so the chain can be checked without this package.
        """
        statement = self.statement()
        with store.clear_errors(self.path):
            entries = [
                {"body": entry.content(), "digest": entry.digest}
                for entry in store.read_entries(self._connection)
                if entry.seq <= statement.entries
            ]
        text = json.dumps(statement.document(entries), indent=1, sort_keys=True, allow_nan=False)
        store.write_new(Path(path), text.encode() + b"\n")


def open_for_reading(path: str | os.PathLike[str], *, expected_head: str | None = None) -> Ledger:
    """Open a ledger for reading only, checked like `Ledger.open`; nothing can be reserved and no budget changed.

    For whoever has read permission only, and for commands that promise to change nothing: no lock is left, no side file
    made, nothing written.
    """
    place = Path(os.path.realpath(path))
    return Ledger(place, *history.open_checked(place, expected_head, is_writing=False))


@dataclass(frozen=True)
class ConfirmedLedger:
    """A ledger together with data confirmed to be its own: the only way to record a release.

    `match` states which silos came, in their order, and `sizes` their rows: agent i of a run is `names[i]`.
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

    def for_run(
        self, sizes: Sequence[int], relation: NeighbouringRelation = NeighbouringRelation.REPLACE_ONE
    ) -> "ConfirmedLedger":
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
                f"the run has {len(sizes)} of {sum(sizes)}, or other ones. Confirm the ledger with the run's data."
            )
        return replace(self, is_pooled=True)

    def check_protection(self, asked: Protection) -> None:
        """Refuse, before anything is planned, a protection for which `reserve` would refuse every release."""
        own = self.ledger.protection
        if not own.is_covered_by(asked):
            raise InputError(
                f"The ledger's budget is {own.describe()}; the run asks for protection {asked.describe()}, which "
                "does not "
                "cover that. Leave out what the run says about protection: the ledger's is then used."
            )

    def reserve(self, releases: Iterable[Release], *, run: str, algorithm: str, origin: Origin) -> Receipt:
        """Record `releases` as spent, durably, and return the receipt that lets their messages leave.

        Call it before any noise is drawn. All of the releases are recorded or none. A release is known by (run, round,
        agent, slot); several of one agent and round in one call get the slots 0, 1, ... in order.
        Asking again for the same returns the same receipt and spends nothing.

        Raises `BudgetError` if the budget would be exceeded, `ResumeError` if something else is recorded under the same
        key, or if the run was started with an older version of the data (all logged); `InputError` for simulated
        noise or a certificate for other terms, `LedgerError` if the file cannot be written.
        """
        with self.transaction() as work:
            return work.reserve(releases, run=run, algorithm=algorithm, origin=origin)

    def check_budget(self, releases: Iterable[Release], *, run: str, algorithm: str, origin: Origin) -> None:
        """Raise what `reserve` would raise for these releases now; records nothing.

        To check before the first round whether a whole run fits. Only `reserve` permits sending.
        """
        asks = self._asks(releases, run, algorithm, origin)
        self.ledger._refresh()
        with store.clear_errors(self.ledger.path):
            _, refusal = self.ledger._look_up(asks, self.version)
        if refusal is not None:
            raise refusal

    def transaction(self) -> AbstractContextManager["Transaction"]:
        """Return a transaction that can reserve for these data; see `Ledger.transaction`."""
        return self.ledger.transaction(self)

    def keep_profile(self, subject: ProfiledColumns, run: str, counts: Iterable[float], noise_std: float) -> None:
        """Record the noisy counts of all silos together that `run` has just drawn, for later fits to reuse at no cost.

        Call it before the run continues: what was paid for is then not lost with the run. `InputError` unless the
        ledger has recorded that very release of the run, with this noise.
        """
        mark = self._mark(subject.columns)
        if mark is None:
            raise InputError("The ledger was not given all columns of the profile, so it could not recognise them.")
        check_text("run", run)
        profile = KeptProfile(
            run=run,
            form=subject.form,
            data=mark,
            columns=len(subject.columns),
            records=subject.records,
            protection=subject.protection,
            noise_std=float(noise_std),
            counts=tuple(float(x) for x in counts),
        )
        ledger = self.ledger
        with ledger._writing() as writer:
            refusal = history.outdated(ledger._connection, ledger._state.newest, run, self.version)
            if refusal is not None:
                raise refusal
            check_paid(profile, ledger._profile_releases(run), ledger._state.profiles)
            store.append(ledger._connection, [writer.next(Kind.PROFILE, profile)])

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

        One for all of them: marks of single columns would show the reader of the log which of them are equal.
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
                f"A person may have {records} records, each with a different agent, but the aggregate is certified for "
                f"{plural(silos, 'silo')} per person. Certify it for {records} silos per person, or separate the silos."
            )
        asked = self.ledger.protection
        if isinstance(release, NoisyRelease) and not asked.is_covered_by(release.certificate.protection):
            raise InputError(
                f"The ledger's budget is {asked.describe()}; the release of agent {release.agent} in round "
                f"{release.round} is certified {release.certificate.protection.describe()}, which does not cover that."
            )
        return release

    def _silo_of(self, agent: int) -> str | None:
        """Return whose data the releases of an agent are about; None, below zero, for those of all."""
        if agent < 0:
            return None
        if len(self.names) == 1:
            return self.names[0]
        if agent >= len(self.names):
            raise InputError(f"Agent {agent} is beyond the {plural(len(self.names), 'silo')}. Confirm all silos.")
        return self.names[agent]

    def _asks(self, releases: Iterable[Release], run: str, algorithm: str, origin: Origin) -> list[Reservation]:
        if Origin(origin) is not Origin.SECURE:
            raise InputError(
                "Simulated noise is reproducible, so it protects nobody and cannot be recorded as a release. Use the "
                "secure sampler for a release, or leave out the ledger for a simulation."
            )
        check_text("run", run)
        check_text("algorithm", algorithm)
        next_slot: Counter[tuple[int, int]] = Counter()
        asks = []
        for given in releases:
            # Through the codec, so that what is compared and composed now is what will be read back.
            release = self._admitted(decode(Release, encode_release(given)))
            place = release.round, release.agent
            asks.append(Reservation(run, algorithm, next_slot[place], release, self._silo_of(release.agent)))
            next_slot[place] += 1
        if not asks:
            raise InputError("reserve needs at least one release, got none.")
        return asks


class Transaction:
    """What `Ledger.transaction` lends: reservations and statements that one commit makes durable."""

    def __init__(
        self, ledger: Ledger, connection: sqlite3.Connection, writer: Writer, data: ConfirmedLedger | None
    ) -> None:
        """Not for callers."""
        self._ledger, self._connection, self._writer, self._data = ledger, connection, writer, data
        self.recorded: list[tuple[Reservation, Entry]] = []
        self.refused: dict[str, Any] | None = None
        self.failure: BaseException | None = None
        self.is_open = True

    def reserve(self, releases: Iterable[Release], *, run: str, algorithm: str, origin: Origin) -> Receipt:
        """Record releases as spent, as `ConfirmedLedger.reserve` does; they are when the block has ended."""
        with self._ending_at_errors():
            if self._data is None:
                raise InputError("Only a transaction of confirmed data can reserve: use ledger.confirm(data).")
            asks = self._data._asks(releases, run, algorithm, origin)
            found, refusal = self._ledger._look_up(asks, self._data.version, [ask for ask, _ in self.recorded])
            if refusal is not None:
                self.refused = {"run": run, "algorithm": algorithm, "releases": len(asks), "detail": str(refusal)}
                raise refusal
            fresh = tuple(entry is None for entry in found)
            entries = [entry or self._writer.next(Kind.RELEASE, ask) for ask, entry in zip(asks, found, strict=True)]
            added = [pair for pair, is_new in zip(zip(asks, entries, strict=True), fresh, strict=True) if is_new]
            store.append(self._connection, [entry for _, entry in added])
            self.recorded += added
        numbers, digests = tuple(entry.seq for entry in entries), tuple(entry.digest for entry in entries)
        return Receipt(run=run, entries=numbers, digests=digests, fresh=fresh)

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement on further tables of the file, or make one; the ledger's own tables cannot be changed."""
        with self._ending_at_errors(), store.clear_errors(self._ledger.path):
            return store.execute_beside(self._connection, sql, parameters)

    @contextmanager
    def _ending_at_errors(self) -> Iterator[None]:
        """Refuse to go on after an error, or after the block."""
        if not self.is_open:
            raise LedgerError("This transaction has ended; nothing more can be done in it.")
        try:
            yield
        except BaseException as error:
            self.failure, self.is_open = error, False
            raise
