"""Attacks on sums under masks: by the coordinator, by colluding silos, by both; each is refused or harmless."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from dpadmm.core.release import PlannedNoise
from dpadmm.federation import messages
from dpadmm.federation.errors import FederationStopped, Refusal
from dpadmm.federation.keys import SigningKey, fingerprint
from dpadmm.federation.masked_sums import masks_among
from dpadmm.federation.messages import Answer, Joined, Refused
from dpadmm.federation.silo import ENDED
from dpadmm.federation.terms import Participant
from dpadmm.noise.masks import MaskKey, PairwiseMasks, pairwise_masks, sum_uint64, to_uint64

ZERO = np.zeros((2, 3))  # a broadcast of noisy gradients


@pytest.fixture
def world(masked_world):
    """Three silos under masks, one of which may look."""
    return masked_world


def masks_of(silo, world):
    """Return the masks that a silo has made, from its own file."""
    digest = world.terms.digest
    query = "SELECT secret, roster FROM mask WHERE digest = ?"
    ((secret, roster),) = silo.store.rows(query, digest)
    agent = world.terms.agent(silo.policy.name)
    return masks_among(world.terms, agent, MaskKey.of(secret), tuple(json.loads(roster)))


# --- what colluders learn --------------------------------------------------------------------------------------------


def test_colluders_and_the_coordinator_learn_the_honest_sum_and_nothing_else(setups, tmp_path, monkeypatch):
    """Silos 2 and 3 give away all their secrets; what they can take off the words of 0 and 1 leaves the pair's mask."""
    world = setups.masked(tmp_path, sizes=(30, 20, 25, 20), colluders=2)
    bare = setups.recorded_shares(monkeypatch)
    _, wire = world.two_rounds()
    left = {}
    for k in (1, 2):
        for honest in (0, 1):
            known = []
            for insider in (2, 3):
                masks = masks_of(world.silos[f"s{insider}"], world)
                only = tuple(secret if i == honest else None for i, secret in enumerate(masks.secrets))
                known.append(replace(masks, secrets=only).values("broadcast", k, 3))
            left[honest, k] = sum_uint64([wire[honest, k], *known])
        honest_sum = sum_uint64([bare[0, k], bare[1, k]])
        np.testing.assert_array_equal(sum_uint64([left[0, k], left[1, k]]), honest_sum)
    for honest in (0, 1):
        for k in (1, 2):
            hidden = (left[honest, k] - bare[honest, k]).view(np.int64)
            assert np.all(np.abs(hidden.astype(float)) > 2.0**40)
        # Nor does a mask serve twice: the difference of two rounds would show the difference of two vectors.
        moved = (left[honest, 1] - left[honest, 2]) - (bare[honest, 1] - bare[honest, 2])
        assert np.all(np.abs(moved.view(np.int64).astype(float)) > 2.0**40)


def mirrored(public):
    """Return another writing of the same X25519 key: the highest bit does not count."""
    raw = bytearray.fromhex(public)
    raw[-1] ^= 0x80
    return raw.hex()


def test_a_silo_that_shows_anothers_key_as_its_own_is_refused(world):
    """s1 would add the stream that it shares with s0, and take it off again for s2, who wrote s0's key otherwise."""
    roster = world.roster()
    victim = messages.read(roster[0][64:]).mask_key
    for spelling in (mirrored(victim), victim.upper()):
        forged = [roster[0], roster[1], world.keyed(2, mask_key=spelling)]
        answer = world.reply("s1", world.ask(1, 1, relay=forged))
        assert isinstance(answer, Refused)
        assert "lower-case hex digits of a little-endian number below" in answer.reason


def test_one_key_for_two_silos_is_refused(world):
    roster = world.roster()
    same = messages.read(roster[1][64:]).mask_key
    world.refuses(world.ask(1, relay=[*roster[:2], world.keyed(2, mask_key=same)]), "its own mask key")


# --- who takes part --------------------------------------------------------------------------------------------------


def test_invented_silos_are_not_approved(setups, tmp_path):
    """The coordinator writes two silos of its own into the terms, whose shares of the noise it would know."""
    world = setups.masked(tmp_path)
    people = list(world.terms.participants)
    invented = [Participant(f"ghost{i}", 50, SigningKey.create(tmp_path / f"{i}.key").public) for i in range(2)]
    terms = replace(world.terms, participants=(*people, *invented), run="ghosts")
    with pytest.raises(
        Refusal, match=r"ghost0, ghost1 are not confirmed.*over a channel other than.*silo approve --peer"
    ):
        world.first.approve(terms)
    world.refuses(world.invite(terms), "not been approved")
    world.first.store.approve(terms)  # as if it had been approved before
    world.refuses(world.invite(terms), "not confirmed")


def test_a_coordinator_in_the_place_of_a_silo_is_not_approved(setups, tmp_path):
    world = setups.masked(tmp_path, approves=False)
    people, mine = list(world.terms.participants), SigningKey.create(tmp_path / "mine.key")
    for name in ("s1", "s2"):
        world.first.confirm_peer(name, fingerprint(world.silos[name].public_key))
    world.first.approve(world.terms)
    people[1] = replace(people[1], key=mine.public)
    with pytest.raises(Refusal, match="s1 are not confirmed"):
        world.first.approve(replace(world.terms, participants=tuple(people), run="between"))
    swapped = (people[0], *(replace(people[i], key=world.terms.participants[3 - i].key) for i in (1, 2)))
    with pytest.raises(Refusal, match="s1, s2 are not confirmed"):
        world.first.approve(replace(world.terms, participants=swapped, run="swapped"))


def test_an_identity_that_turns_out_wrong_stops_a_run_at_once(world):
    roster = world.roster()
    assert isinstance(world.reply("s0", world.ask(1, relay=roster)), Answer)
    world.first.confirm_peer("s1", "0" * 32)
    world.refuses(world.ask(2, inbox=ZERO), "not confirmed", releases=1)


# --- mask keys on their way ------------------------------------------------------------------------------------------


def test_a_coordinator_in_the_middle_of_the_mask_keys(world):
    roster = world.roster()
    own = messages.read(roster[0][64:]).mask_key
    terms = world.terms
    other = terms.digest[::-1]
    low_order = "00" * 32
    for relay, args in (
        ([roster[0], world.keyed(1, key=world.key), roster[2]], "signature"),  # its own key, signed by itself
        ([roster[0], roster[2], roster[1]], "signature"),
        ([roster[0], roster[1], roster[1]], "signature"),
        (roster[:2], "mask keys of 2 were relayed"),
        ([*roster, roster[2]], "mask keys of 4 were relayed"),
        ([], "mask keys of 0 were relayed"),
        ([roster[0], world.keyed(1, digest=other), roster[2]], "different terms or a different silo"),
        ([roster[0], world.keyed(1, agent=2), roster[2]], "different terms or a different silo"),
        ([roster[0], world.keyed(1, plan="0" * 64), roster[2]], "a different grid"),
        ([world.keyed(0), *roster[1:]], "is not the one that this silo made"),
        ([roster[0], world.keyed(1, mask_key=own), roster[2]], "its own mask key"),
        ([roster[0], world.keyed(1, mask_key=low_order), roster[2]], "not a usable X25519"),
        ([roster[0], world.keyed(1, mask_key="ab"), roster[2]], "64 lower-case hex"),
        ([roster[0], world.keyed(1, mask_key="words"), roster[2]], "64 lower-case hex"),
        (
            [roster[0], world.silos["s1"].key.seal(Joined(terms.digest, 1, terms.plan_mark).encode()), roster[2]],
            "without a mask key",
        ),
        ([roster[0], roster[1][:-9], roster[2]], "signature"),
    ):
        world.refuses(world.ask(1, relay=relay), args)
    assert isinstance(world.reply("s0", world.ask(1, relay=roster)), Answer)


def test_a_silo_takes_one_roster_only(setups, world, monkeypatch):
    """s1 and the coordinator collude: another key of s1, for the same round, the next, or after a crash."""
    roster = world.roster()
    other = [roster[0], world.keyed(1), roster[2]]
    with monkeypatch.context() as patch:
        patch.setattr(type(world.first), "_compute", lambda *_: (_ for _ in ()).throw(OSError("no space left")))
        with pytest.raises(OSError, match="no space"):
            world.first.answer(world.ask(1, relay=roster))
    world.refuses(world.ask(1, relay=other), "accepted only once")
    world = setups.reopened(world)
    world.refuses(world.ask(1, relay=other), "accepted only once")
    first = world.first.answer(world.ask(1, relay=roster))
    assert isinstance(messages.read(first[64:]), Answer)
    world.refuses(world.ask(1, relay=other), "already answered, to a different request", releases=1)
    world.refuses(world.ask(2, inbox=ZERO, relay=other), "no relayed messages", releases=1)
    assert world.roster() == roster  # joined again, with the same keys


def test_other_keys_shown_to_other_silos_hide_even_the_sum(setups, world, monkeypatch):
    """s2 signs two keys, one for s0 and one for s1: their masks are bound to the whole roster, and do not vanish."""
    bare, roster, keys = setups.recorded_shares(monkeypatch), world.roster(), [MaskKey.create(), MaskKey.create()]
    left = []
    for agent, key in enumerate(keys):
        shown = [*roster[:2], world.keyed(2, mask_key=key.public)]
        args = world.reply(f"s{agent}", world.ask(1, agent, relay=shown)).values.array
        publics = tuple(messages.read(one[64:]).mask_key for one in shown)
        masks = masks_among(world.terms, 2, key, publics)
        only = tuple(secret if i == agent else None for i, secret in enumerate(masks.secrets))
        left.append(sum_uint64([args, replace(masks, secrets=only).values("broadcast", 1, 3)]))
    hidden = sum_uint64(left) - sum_uint64([bare[0, 1], bare[1, 1]])
    assert np.all(np.abs(hidden.view(np.int64).astype(float)) > 2.0**40)


def test_no_round_begins_without_the_roster(world):
    world.roster()
    world.refuses(world.ask(1), "mask keys of 0 were relayed")


# --- one vector under one mask ---------------------------------------------------------------------------------------


def test_a_round_is_answered_to_one_request_only(setups, world):
    roster, _ = world.two_rounds()
    first = world.first.answer(world.ask(1, relay=roster))
    second = world.first.answer(world.ask(2, inbox=ZERO))
    for inbox in (np.ones((2, 3)), np.full((2, 3), 1e-9)):
        world.refuses(world.ask(2, inbox=inbox), "already answered, to a different request", releases=2)
    world = setups.reopened(world)
    world.refuses(world.ask(2, inbox=np.ones((2, 3))), "already answered, to a different request", releases=2)
    assert world.first.answer(world.ask(1, relay=roster)) == first
    assert world.first.answer(world.ask(2, inbox=ZERO)) == second
    world.refuses(world.ask(4, inbox=ZERO), "round 3 is due", releases=2)


def test_a_silo_put_back_to_before_it_joined_has_other_masks(setups, world, tmp_path):
    """Everything from an old backup: what it answers again fits no sum, and the coordinator notices."""
    coordinator = world.coordinator()
    backup = tmp_path / "backup"
    world.first.close()
    shutil.copytree(world.first.files.directory, backup)
    world = setups.reopened(world)
    world.join(coordinator)
    roster = world.roster()
    world.first.answer(world.ask(1, relay=roster))
    world.first.close()
    shutil.rmtree(world.first.files.directory)
    shutil.copytree(backup, world.first.files.directory)
    world = setups.reopened(world)
    world.refuses(world.ask(1, relay=roster), "has not joined")
    with pytest.raises(FederationStopped, match="a different mask key before"):
        world.join(world.coordinator())  # driven again
    world.refuses(world.ask(1, relay=roster), "is not the one that this silo made")


def test_masks_of_different_pairs_rounds_and_slots_have_nothing_in_common():
    one, two, three = pairwise_masks(3, b"run")
    args = [one.values("broadcast", 1, 4), one.values("broadcast", 2, 4), one.values("profile", 1, 4)]
    again = PairwiseMasks(0, one.secrets, b"another context")
    args += [again.values("broadcast", 1, 4), two.values("broadcast", 1, 4), three.values("broadcast", 1, 4)]
    assert len({tuple(each.tolist()) for each in args}) == len(args)
    assert not sum_uint64([each.values("broadcast", 1, 4) for each in (one, two, three)]).any()


# --- bare values -----------------------------------------------------------------------------------------------------


def test_a_part_without_its_share_of_the_noise_does_not_leave(world, monkeypatch):
    roster = world.roster()
    monkeypatch.setattr(PlannedNoise, "shares", lambda self, kind, k, agents, values: [to_uint64(values[0], 2.0**-20)])
    world.refuses(world.ask(1, relay=roster), ENDED, releases=1)
    monkeypatch.undo()
    world.refuses(world.ask(2, inbox=ZERO), ENDED, releases=1)
