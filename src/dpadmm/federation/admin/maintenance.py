"""What the owner of a silo or a coordinator does while it does not serve: new data, a new key.

Every step is durable before the next, in an order that leaves a directory which works as before, works as wanted, or
says which command ends what was begun; each command may be given again. Who calls holds the lock of the directory.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from dpadmm.errors import InputError
from dpadmm.federation import keys
from dpadmm.federation.coordinator import Coordinator
from dpadmm.federation.coordinator_store import NEW, STOPPED, WANTED, CoordinatorFiles
from dpadmm.federation.errors import Refusal
from dpadmm.federation.keys import SigningKey, fingerprint
from dpadmm.federation.policy import Policy, SiloEntry
from dpadmm.federation.silo import Silo
from dpadmm.federation.silo_directory import Records, SiloDirectory, policy_records
from dpadmm.federation.silo_store import open_store
from dpadmm.federation.terms import Terms
from dpadmm.privacy.accounting import compose
from dpadmm.privacy.ledger import LedgerStatement

NEW_DATA, NEW_KEY = "the data have changed", "the identity key has changed"
"""Why runs are closed."""


@dataclass(frozen=True)
class OpenRun:
    """An approved run that is not finished, and what its further rounds cost alone, at the budget's delta."""

    terms: Terms
    epsilon: float


def open_runs(silo: Silo) -> list[OpenRun]:
    """Return the runs that may still spend of a silo's budget; nothing is reserved for them."""
    found, delta = [], silo.ledger.budget.delta
    for terms in silo.store.all_terms():
        agent = terms.agent(silo.policy.name)
        left = [release for k in silo.due_rounds(terms) for release in terms.releases(agent, k)]
        if left and terms.participants[agent].key == silo.public_key:
            found.append(OpenRun(terms, compose(left).epsilon(delta)))
    return found


@dataclass(frozen=True)
class DataChange:
    """What came of new data.

    is_new: whether the ledger has begun a version with them. records: how many; None where that is secret. closed: the
    runs that were ended. unfit: names of approved runs whose terms state another number of records. notes: what was
    done with awkward cells, for the data's holder alone.
    """

    is_new: bool
    records: int | None
    closed: tuple[str, ...]
    unfit: tuple[str, ...]
    statement: LedgerStatement
    notes: tuple[str, ...]


def change_data(files: SiloDirectory, policy: Policy, *, may_close: bool) -> DataChange:
    """Let a silo continue with the table of `policy`, its own but for the table and its reading; budget and key stay.

    First the runs under way are closed, if `may_close`, since no round may mix two tables; then the ledger begins a
    version; then the entry and the policy are written. Killed before the last, the silo refuses the old table and says
    which command to give again.
    """
    records = policy_records(policy, files.schema)
    policy = replace(policy, written=records.written)
    with closing(Silo(files.directory)) as silo:
        ledger = silo.ledger
        is_new = not ledger.is_newest([records.table])
        # The ledger sees whether the file is read to other cells; here it is about what is made of them.
        is_read_otherwise = replace(silo.policy, data=policy.data, written=policy.written) != policy
        closed = _close(silo, NEW_DATA, may_close=may_close) if is_new or is_read_otherwise else ()
        ledger.add_version([records.table])
        files.entry_of(policy, silo.public_key, records.number).save(files.entry)
        if silo.policy != policy:
            policy.save(files.policy)
        number = records.number if policy.protection.relation.has_public_sizes else None
        return DataChange(is_new, number, closed, _unfit(silo, records), ledger.statement(), records.cells.notes)


def _unfit(silo: Silo, records: Records) -> tuple[str, ...]:
    found = []
    for each in silo.store.all_terms():
        try:
            records.check_number(each, each.agent(silo.policy.name))
        except Refusal:
            found += [each.run] if silo.due_rounds(each) else []
    return tuple(found)


@dataclass(frozen=True)
class KeyChange:
    """What came of a new key: it, and the one before; where that is kept, None if destroyed; the runs that were ended.

    unfit: names of approved runs whose terms name the old key.
    """

    key: SigningKey
    before: str
    kept: Path | None
    closed: tuple[str, ...]
    unfit: tuple[str, ...] = ()


def rotate_silo_key(files: SiloDirectory, *, is_old_kept: bool, may_close: bool) -> KeyChange:
    """Give a silo a new identity key; ledger, budget, policy and state stay.

    Its state belongs to the new key first, and the key takes its place last: killed between, the silo does not start
    and says that this command ends it.
    """
    files.check()
    policy, before = Policy.load(files.policy), SigningKey.load(files.key).public
    closed, unfit = tuple[str, ...](), tuple[str, ...]()
    place = keys.next_place(files.key)
    with open_store(files, policy.noise) as store:
        is_begun = place.exists() and store.key() == SigningKey.load(place).public
    if not is_begun:  # or interrupted after the state was given to the next key
        with closing(Silo(files.directory)) as silo:
            closed = _close(silo, NEW_KEY, may_close=may_close)
            unfit = tuple(each.run for each in silo.store.all_terms() if silo.due_rounds(each))
    entry = _entry(files, policy)
    key = keys.next_key(files.key)
    with open_store(files, policy.noise) as store:
        store.change_key(key.public, f"{fingerprint(key.public)} after {fingerprint(before)}")
    replace(entry, key=key.public).save(files.entry)
    kept = keys.put_into_use(files.key, is_old_kept=is_old_kept)
    return KeyChange(key, before, kept, closed, unfit)


def _entry(files: SiloDirectory, policy: Policy) -> SiloEntry:
    """Return a silo's entry, by the number of records that it has stated before; the table need not be there."""
    known = SiloEntry.load(files.entry).records if files.entry.exists() else None
    if known is None and policy.protection.relation.has_public_sizes:
        known = policy_records(policy, files.schema).number
    return files.entry_of(policy, SigningKey.load(files.key).public, known or 0)


def rotate_coordinator_key(files: CoordinatorFiles, *, is_old_kept: bool, may_close: bool) -> KeyChange:
    """Give a coordinator a new identity key; unfinished runs are ended permanently first."""
    before = files.key()
    with closing(files.open_store()) as store:
        runs = [Coordinator(store, digest, before) for digest in store.runs(NEW, WANTED, STOPPED)]
        ended = tuple(run.terms.run for run in runs)
        _check_closing(ended, NEW_KEY, may_close=may_close)
        for run in runs:
            run.end("The coordinator's key has changed, and the terms name the old one.")
    key = keys.next_key(files.key_file)
    kept = keys.put_into_use(files.key_file, is_old_kept=is_old_kept)
    return KeyChange(key, before.public, kept, ended)


def _close(silo: Silo, reason: str, *, may_close: bool) -> tuple[str, ...]:
    runs = silo.unfinished()
    names = [each.run for each in runs]
    _check_closing(names, reason, may_close=may_close)
    if runs:
        silo.close_runs(runs, reason)
    return tuple(names)


def _check_closing(names: Sequence[str], reason: str, *, may_close: bool) -> None:
    if names and not may_close:
        raise InputError(
            f"Unfinished runs: {', '.join(map(repr, names))}. They cannot continue once {reason}. Let them finish "
            "first, or give --abandon, which ends them here permanently; what they have spent stays spent."
        )
