"""New identity keys of silos and coordinators: all else stays, and what is older is nobody under the new key."""

import shutil
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from dpadmm.errors import InputError, LedgerError, ResumeError
from dpadmm.federation import keys, messages
from dpadmm.federation.admin.maintenance import open_runs, rotate_coordinator_key, rotate_silo_key
from dpadmm.federation.coordinator import open_run
from dpadmm.federation.coordinator_store import CoordinatorFiles
from dpadmm.federation.errors import FederationStopped, Refusal
from dpadmm.federation.keys import SigningKey, fingerprint
from dpadmm.federation.messages import Refused, Step, Vector
from dpadmm.federation.policy import SiloEntry
from dpadmm.federation.silo import Silo
from dpadmm.federation.silo_store import SiloStore


def rotate(world, *, may_close=False, is_old_kept=True):
    """Give the first silo another key; return what came of it."""
    world.first.close()
    files = world.first.files
    try:
        return rotate_silo_key(files, is_old_kept=is_old_kept, may_close=may_close)
    finally:
        world.reopen()


def test_a_silo_gets_another_key_and_keeps_all_else(setups, star):
    star.drive(star.coordinator())
    before, old = star.statement("s0"), star.first.public_key
    files = star.first.files
    star.first.entry().save(files.entry)
    policy = files.policy.read_bytes()
    done = rotate(star)
    assert done.before == old
    assert star.first.public_key == done.key.public != old
    assert SigningKey.load(done.kept).public == old
    assert (done.kept.stat().st_mode & 0o777, done.kept.parent) == (0o600, files.directory)
    assert SiloEntry.load(files.entry) == star.first.entry()
    assert SiloEntry.load(files.entry).key == done.key.public
    assert (star.statement("s0"), files.policy.read_bytes()) == (before, policy)
    later = setups.later_terms(star)
    star.approve(later)
    star.drive(star.coordinator(later, "later.db"))
    assert star.statement("s0").releases == 6


def test_the_next_key_would_survive_a_power_cut_before_the_state_names_it(star, monkeypatch):
    order, sync, name = [], keys.sync_directory, SiloStore.change_key
    monkeypatch.setattr(keys, "sync_directory", lambda place: (order.append("sync"), sync(place)))
    monkeypatch.setattr(SiloStore, "change_key", lambda *args: (order.append("state"), name(*args)))
    rotate(star)
    assert order == ["sync", "state", "sync", "sync"]


def test_an_old_key_is_destroyed_on_demand(star):
    star.first.close()
    secret = star.first.files.key.read_bytes()
    with star.first.files.key.open("rb") as held:  # whoever has the file, though it has no name any more
        done = rotate(star, is_old_kept=False)
        assert held.read() == bytes(len(secret))
    assert done.kept is None
    assert not [each for each in star.first.files.directory.iterdir() if secret in each.read_bytes()]


def test_runs_under_way_keep_the_key(setups, star):
    setups.answered(star)
    old = star.first.public_key
    with pytest.raises(InputError, match="once the identity key has changed"):
        rotate(star)
    assert star.first.public_key == old
    done = rotate(star, may_close=True)
    assert (done.closed, done.unfit) == (("test",), ())
    star.refuses(star.ask(2, inbox=np.zeros((2, 3))), "closed at this silo", releases=1)


def test_terms_with_the_old_key_cannot_be_joined_and_cost_nothing_any_more(star):
    assert [each.terms for each in open_runs(star.first)] == [star.terms]
    assert rotate(star).unfit == ("test",)
    star.refuses(star.invite(), "a different key for s0")
    assert open_runs(star.first) == []


def test_other_owners_must_confirm_the_new_fingerprint(setups, masked_world):
    world = masked_world
    rotate(world)
    later = setups.later_terms(world)
    with pytest.raises(Refusal, match="identity keys of s0 are not confirmed"):
        world.silos["s1"].approve(later)
    world.silos["s1"].confirm_peer("s0", fingerprint(world.first.public_key))
    world.silos["s1"].approve(later)
    world.silos["s1"].store.join(world.terms)
    ask = world.key.seal(Step(world.terms.digest, 1, 1, Vector.of(np.zeros((0, 3))), ()).encode())
    world.refuses(ask, "identity keys of s0", name="s1")  # old terms, with the old key, are over there too


def put_back(world, backup):
    """Put a directory back as it was; return the silo in it, as a new process."""
    directory = world.first.files.directory
    world.first.close()
    shutil.rmtree(directory)
    shutil.copytree(backup, directory)
    world.silos["s0"] = Silo(directory)
    return world.first


def backup_of(world, name="backup"):
    """Copy the first silo's directory."""
    world.first.close()
    place = world.place / name
    shutil.copytree(world.first.files.directory, place)
    world.reopen()
    return place


def test_a_copy_from_before_the_change_of_the_key_is_nobody_under_new_terms(setups, star):
    backup = backup_of(star)
    rotate(star)
    later = setups.later_terms(star)
    star.approve(later)
    new, coordinator = star.first.public_key, star.coordinator(later, "later.db")
    old = put_back(star, backup)
    with pytest.raises(Refusal, match="a different key for s0"):
        old.approve(later)
    old.store.approve(later)  # however they came to be approved
    answer = old.answer(coordinator.invitation)
    assert isinstance(messages.read(answer[64:]), Refused)
    assert not coordinator.accept(later.participants[0].key, answer)  # signed by a key that is not in the terms
    assert new != old.public_key
    coordinator.close()


@pytest.mark.parametrize("parts", [("silo.db",), ("silo.db", "silo.db.head", "silo.db.key"), ("silo.key",)])
def test_files_from_before_the_change_of_the_key_beside_the_new_one_are_refused(star, parts):
    """The others know this silo by its new key, and could not tell what a ledger from before has forgotten."""
    backup = backup_of(star)
    star.drive(star.coordinator())
    rotate(star)
    star.first.close()
    directory = star.first.files.directory
    for part in parts:
        shutil.copy2(backup / part, directory / part)
    with pytest.raises((LedgerError, ResumeError), match="older copy"):
        Silo(directory)
    with pytest.raises((LedgerError, ResumeError), match="older copy"):
        rotate_silo_key(star.first.files, is_old_kept=True, may_close=True)
    assert not keys.next_place(star.first.files.key).exists()


def test_a_copy_from_before_under_old_terms_is_shown_of_what_was_seen_under_the_old_key(star):
    """As without a change of the key: here of two rounds of the very run."""
    backup = backup_of(star)
    everyone = list(star.silos)
    for name in everyone:
        star.silos[name].answer(star.invite())
    for k in (1, 2, 3):
        for agent, name in enumerate(everyone):
            star.reply(name, star.ask(k, agent, inbox=None if k == 1 else np.zeros((2, 3))))
    rotate(star)
    old = put_back(star, backup)
    old.answer(star.invite())
    question = old.answer(star.ask(1))
    assert isinstance(messages.read(old.answer(star.handed(star.seen(question)))[64:]), Refused)
    assert "its own files know of none" in old.store.log()[-1].detail


def test_a_copy_from_before_under_old_open_terms_is_not_shown_of_runs_under_the_new_key(setups, star):
    """Documented as unprotected: nobody can know that the two keys are one silo's. So old terms must be finished."""
    other = replace(star.terms, run="other")
    star.approve(other)
    backup = backup_of(star)
    rotate(star)
    later = setups.later_terms(star)
    star.approve(later)
    star.drive(star.coordinator(later, "later.db"))
    old = put_back(star, backup)
    for name in ("s0", "s1"):
        star.silos[name].answer(star.invite(other))
    question = old.answer(star.ask(1, terms=other))
    handed = star.handed(star.seen(question, terms=other), other)
    assert isinstance(messages.read(old.answer(handed)[64:]), messages.Confirmed)


# --- coordinators ----------------------------------------------------------------------------------------------------


@pytest.fixture
def office(star):
    """The directory of the coordinator of a federation."""
    files = CoordinatorFiles(star.place / "coordinator")
    files.create()
    shutil.copy2(star.place / "coordinator.key", files.key_file)
    return files


def test_a_coordinator_gets_another_key_and_shows_finished_runs(star, office):
    run = open_run(office, star.terms)
    star.drive(run)
    run.close()
    done = rotate_coordinator_key(office, is_old_kept=True, may_close=False)
    assert (done.before, done.closed) == (star.key.public, ())
    assert office.key().public == done.key.public != done.before
    assert SigningKey.load(done.kept).public == done.before
    with closing(open_run(office, star.terms)) as run:
        run.ask()
        assert run.stored.state()[0] == "done"
    with pytest.raises(InputError, match="different coordinator's key"):
        open_run(office, replace(star.terms, run="new, with the old key"))
    later = replace(star.terms, run="later", coordinator=done.key.public)
    star.approve(later)
    star.key = office.key()
    with closing(open_run(office, later)) as run:
        run.ask()
        star.drive(run)
        assert run.is_done


def test_a_coordinators_unfinished_runs_are_ended_for_good_or_keep_the_key(star, office):
    with closing(open_run(office, star.terms)) as run:
        run.ask()
    with pytest.raises(InputError, match=r"'test'.*--abandon"):
        rotate_coordinator_key(office, is_old_kept=True, may_close=False)
    assert office.key().public == star.key.public
    with closing(open_run(office, star.terms)) as run:
        assert run.stored.state()[0] == "wanted"
    assert rotate_coordinator_key(office, is_old_kept=True, may_close=True).closed == ("test",)
    with closing(open_run(office, star.terms)) as run:
        run.stop("something else")
        state, reason = run.stored.state()
        assert (state, "key has changed" in reason) == ("ended", True)
        with pytest.raises(FederationStopped, match="key has changed, and the terms name the old one"):
            run.ask()
    assert rotate_coordinator_key(office, is_old_kept=True, may_close=False).closed == ()
