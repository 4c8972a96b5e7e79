"""Attacks on sums under masks: by the coordinator, by colluding silos, by both; each is refused or harmless."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from dpadmm.engines.federation import messages
from dpadmm.engines.federation.agreement import Missing, NoiseOrigin, Participant
from dpadmm.engines.federation.keys import SigningKey, fingerprint, open_envelope
from dpadmm.engines.federation.masking import masks_among, read_summand, total_of
from dpadmm.engines.federation.messages import Join, Joined, Keyed, Masked, Refused, Step, Stepped
from dpadmm.engines.federation.refusal import FederationStopped, PeerError, Refusal
from dpadmm.engines.federation.terms import agreed_run
from dpadmm.noise.masks import MaskKey, PairwiseMasks, pairwise_masks
from dpadmm.noise.planned import PlannedNoise
from dpadmm.noise.secure import SecureSampler
from dpadmm.noise.sums import sum_words

NOTHING = np.zeros((0, 3))
ZERO = np.zeros((2, 3))  # a broadcast of noisy gradients


def make(worlds, place, **terms):
    return worlds.make(place, "noisy-gradients", {"step": 0.5}, **(worlds.MASKED | terms))


@pytest.fixture(scope="module")
def masked_template(worlds, tmp_path_factory):
    """Three silos, one of which may look."""
    made = make(worlds, tmp_path_factory.mktemp("masked"))
    for silo in made.silos.values():
        silo.close()
    return made


@pytest.fixture
def world(worlds, masked_template, tmp_path):
    """A copy of the template."""
    made = worlds.copied(masked_template, tmp_path)
    yield made
    for silo in made.silos.values():
        silo.close()


def told(silo, envelope):
    """Return a silo's answer."""
    return messages.read(open_envelope(silo.answer(envelope), silo.public_key))


def invite(world, agreement=None, parent="", left_in=0):
    """Return an invitation."""
    return world.key.seal(Join((agreement or world.agreement).as_json(), parent, left_in).encode())


def ask(world, k, agent=0, inbox=NOTHING, relay=(), agreement=None):
    """Return a request for a round."""
    terms = agreement or world.agreement
    return world.key.seal(Step(terms.digest, agent, k, np.asarray(inbox), tuple(relay)).encode())


def roster_of(world, agreement=None, parent="", left_in=0):
    """Let all silos join; return the messages by which they do."""
    terms = agreement or world.agreement
    joined = [world.silos[each.name].answer(invite(world, terms, parent, left_in)) for each in terms.participants]
    assert all(isinstance(messages.read(one[64:]), Keyed) for one in joined)
    return joined


def keyed(world, number, key=None, **change):
    """Return what silo `number` might sign to join: its own key unless it is said whose."""
    terms = agreed_run(world.agreement)
    public = MaskKey.create().public
    made = Keyed(
        **({"digest": terms.agreement.digest, "agent": number, "plan": terms.mark, "mask_key": public} | change)
    )
    return (key or world.silos[f"s{number}"]._key).seal(made.encode())


def refused(world, envelope, words, releases=0, name="s0"):
    """Check that a silo refuses for this reason and has spent no more than so many releases."""
    answer = told(world.silos[name], envelope)
    assert isinstance(answer, Refused), answer
    assert words in answer.reason
    assert world.statement(name).releases == releases


def recorded_shares(monkeypatch):
    """Return the list of what each silo's values and share of the noise amount to, before its masks."""
    original, found = PlannedNoise.shares, {}

    def wrapped(self, slot, k, agents, values):
        (words,) = original(self, slot, k, agents, values)
        found[int(agents[0]), k] = words[:, 0]
        return [words]

    monkeypatch.setattr(PlannedNoise, "shares", wrapped)
    return found


def two_rounds(world):
    """Return the words of all silos in rounds 1 and 2, as they are on the wire."""
    roster, found = roster_of(world), {}
    for agent, silo in enumerate(world.silos.values()):
        found[agent, 1] = told(silo, ask(world, 1, agent, relay=roster)).words
        found[agent, 2] = told(silo, ask(world, 2, agent, inbox=ZERO)).words
    return roster, found


def masks_of(silo, world):
    """Return the masks that a silo has made, from its own file."""
    digest = world.agreement.digest
    query = "SELECT secret, roster FROM masks WHERE digest = ?"
    secret, roster = silo._connection.execute(query, (digest,)).fetchone()
    agent = world.agreement.agent(silo.policy.name)
    return masks_among(world.agreement, agent, MaskKey.of(secret), tuple(json.loads(roster)))


# --- what colluders learn --------------------------------------------------------------------------------------------


def test_colluders_and_the_coordinator_learn_the_honest_sum_and_nothing_else(worlds, tmp_path, monkeypatch):
    """Silos 2 and 3 give away all their secrets; what they can take off the words of 0 and 1 leaves the pair's mask."""
    world = make(worlds, tmp_path, sizes=(30, 20, 25, 20), colluders=2)
    bare = recorded_shares(monkeypatch)
    _, wire = two_rounds(world)
    left = {}
    for k in (1, 2):
        for honest in (0, 1):
            known = []
            for insider in (2, 3):
                masks = masks_of(world.silos[f"s{insider}"], world)
                only = tuple(secret if i == honest else None for i, secret in enumerate(masks.secrets))
                known.append(replace(masks, secrets=only).words("broadcast", k, 3))
            left[honest, k] = sum_words([wire[honest, k], *known])
        honest_sum = sum_words([bare[0, k], bare[1, k]])
        np.testing.assert_array_equal(sum_words([left[0, k], left[1, k]]), honest_sum)
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


def test_a_silo_that_shows_anothers_key_as_its_own_cancels_no_masks(world, monkeypatch):
    """s1 would add the stream that it shares with s0, and take it off again for s2, who wrote s0's key otherwise."""
    bare = recorded_shares(monkeypatch)
    roster = roster_of(world)
    victim = messages.read(roster[0][64:]).mask_key
    forged = [roster[0], roster[1], keyed(world, 2, mask_key=mirrored(victim))]
    answer = told(world.silos["s1"], ask(world, 1, 1, relay=forged))
    assert isinstance(answer, Masked)
    assert np.all(np.abs((answer.words - bare[1, 1]).view(np.int64).astype(float)) > 2.0**40)
    masks = masks_of(world.silos["s1"], world)
    assert masks.secrets[0] == masks.secrets[2]  # the same secret, and yet two streams


def test_one_key_for_two_silos_is_refused(world):
    roster = roster_of(world)
    same = messages.read(roster[1][64:]).mask_key
    refused(world, ask(world, 1, relay=[*roster[:2], keyed(world, 2, mask_key=same)]), "mask key of its own")


# --- who takes part --------------------------------------------------------------------------------------------------


def test_invented_silos_are_not_approved(worlds, tmp_path):
    """The coordinator writes two silos of its own into the terms, whose shares of the noise it would know."""
    world = make(worlds, tmp_path)
    people = list(world.agreement.participants)
    invented = [Participant(f"ghost{i}", 50, SigningKey.create(tmp_path / f"{i}.key").public) for i in range(2)]
    terms = replace(world.agreement, participants=(*people, *invented), run="ghosts")
    with pytest.raises(Refusal, match=r"ghost0, ghost1 are not confirmed.*over another channel.*silo approve --peer"):
        world.first.approve(terms)
    refused(world, invite(world, terms), "has approved")
    world.first._connection.execute(  # as if it had been approved before
        "INSERT INTO approved VALUES (?, ?, 'now')", (terms.digest, terms.as_json())
    )
    refused(world, invite(world, terms), "not confirmed")


def test_a_coordinator_in_the_place_of_a_silo_is_not_approved(worlds, tmp_path):
    world = make(worlds, tmp_path, approves=False)
    people, mine = list(world.agreement.participants), SigningKey.create(tmp_path / "mine.key")
    for name in ("s1", "s2"):
        world.first.confirm_peer(name, fingerprint(world.silos[name].public_key))
    world.first.approve(world.agreement)
    people[1] = replace(people[1], key=mine.public)
    with pytest.raises(Refusal, match="s1 are not confirmed"):
        world.first.approve(replace(world.agreement, participants=tuple(people), run="between"))
    swapped = (people[0], *(replace(people[i], key=world.agreement.participants[3 - i].key) for i in (1, 2)))
    with pytest.raises(Refusal, match="s1, s2 are not confirmed"):
        world.first.approve(replace(world.agreement, participants=swapped, run="swapped"))


def test_an_identity_that_turns_out_wrong_stops_a_run_at_once(world):
    roster = roster_of(world)
    assert isinstance(told(world.first, ask(world, 1, relay=roster)), Masked)
    world.first.confirm_peer("s1", "0" * 32)
    refused(world, ask(world, 2, inbox=ZERO), "not confirmed", releases=1)


# --- mask keys on their way ------------------------------------------------------------------------------------------


def test_a_coordinator_in_the_middle_of_the_mask_keys(world):
    roster = roster_of(world)
    own = messages.read(roster[0][64:]).mask_key
    terms = agreed_run(world.agreement)
    other = terms.agreement.digest[::-1]
    low_order = "00" * 32
    for relay, words in (
        ([roster[0], keyed(world, 1, key=world.key), roster[2]], "signature"),  # its own key, signed by itself
        ([roster[0], roster[2], roster[1]], "signature"),
        ([roster[0], roster[1], roster[1]], "signature"),
        (roster[:2], "mask keys of 2 were relayed"),
        ([*roster, roster[2]], "mask keys of 4 were relayed"),
        ([], "mask keys of 0 were relayed"),
        ([roster[0], keyed(world, 1, digest=other), roster[2]], "other terms or another silo"),
        ([roster[0], keyed(world, 1, agent=2), roster[2]], "other terms or another silo"),
        ([roster[0], keyed(world, 1, plan="0" * 64), roster[2]], "another grid"),
        ([keyed(world, 0), *roster[1:]], "is not the one that this silo has made"),
        ([roster[0], keyed(world, 1, mask_key=own), roster[2]], "mask key of its own"),
        ([roster[0], keyed(world, 1, mask_key=low_order), roster[2]], "no usable X25519"),
        ([roster[0], keyed(world, 1, mask_key="ab"), roster[2]], "no usable X25519"),
        ([roster[0], keyed(world, 1, mask_key="words"), roster[2]], "no usable X25519"),
        (
            [roster[0], world.silos["s1"]._key.seal(Joined(terms.agreement.digest, 1, terms.mark).encode()), roster[2]],
            "where a mask key belongs",
        ),
        ([roster[0], roster[1][:-9], roster[2]], "signature"),
    ):
        refused(world, ask(world, 1, relay=relay), words)
    assert isinstance(told(world.first, ask(world, 1, relay=roster)), Masked)


def test_a_silo_takes_one_roster_only(worlds, world, monkeypatch):
    """s1 and the coordinator collude: another key of s1, for the same round, the next, or after a crash."""
    roster = roster_of(world)
    other = [roster[0], keyed(world, 1), roster[2]]
    with monkeypatch.context() as patch:
        patch.setattr(type(world.first), "_compute", lambda *_: (_ for _ in ()).throw(OSError("no space left")))
        with pytest.raises(OSError, match="no space"):
            world.first.answer(ask(world, 1, relay=roster))
    refused(world, ask(world, 1, relay=other), "taken once only", releases=1)
    world = worlds.reopened(world)
    refused(world, ask(world, 1, relay=other), "taken once only", releases=1)
    first = world.first.answer(ask(world, 1, relay=roster))
    assert isinstance(messages.read(first[64:]), Masked)
    refused(world, ask(world, 1, relay=other), "answered to another request", releases=1)
    refused(world, ask(world, 2, inbox=ZERO, relay=other), "no relayed messages", releases=1)
    assert roster_of(world) == roster  # joined again, with the same keys


def test_no_round_begins_without_the_roster(world):
    roster_of(world)
    refused(world, ask(world, 1), "mask keys of 0 were relayed")


# --- one vector under one mask ---------------------------------------------------------------------------------------


def test_a_round_is_answered_to_one_request_only(worlds, world):
    roster, _ = two_rounds(world)
    first = world.first.answer(ask(world, 1, relay=roster))
    second = world.first.answer(ask(world, 2, inbox=ZERO))
    for inbox in (np.ones((2, 3)), np.full((2, 3), 1e-9)):
        refused(world, ask(world, 2, inbox=inbox), "answered to another request", releases=2)
    world = worlds.reopened(world)
    refused(world, ask(world, 2, inbox=np.ones((2, 3))), "answered to another request", releases=2)
    assert world.first.answer(ask(world, 1, relay=roster)) == first
    assert world.first.answer(ask(world, 2, inbox=ZERO)) == second
    refused(world, ask(world, 4, inbox=ZERO), "round 3 is due", releases=2)


def test_an_older_state_answers_nothing_under_masks_that_have_served(worlds, tmp_path, monkeypatch):
    world = make(worlds, tmp_path / "w", noise=NoiseOrigin.SECURE)
    roster = roster_of(world)
    directory, backup = world.first.files.directory, tmp_path / "backup"
    world.first.close()
    shutil.copytree(directory, backup)
    world = worlds.reopened(world)
    assert isinstance(told(world.first, ask(world, 1, relay=roster)), Masked)
    world.first.close()
    for file in directory.glob("state.*"):
        file.unlink()
    for file in backup.glob("state.*"):
        shutil.copy(file, directory)
    world = worlds.reopened(world)
    draws, original = [], SecureSampler.perturb
    monkeypatch.setattr(SecureSampler, "perturb", lambda *args, **more: (draws.append(1), original(*args, **more))[1])
    for _ in range(2):
        assert isinstance(told(world.first, ask(world, 1, relay=roster)), Refused)
    assert "older copy" in world.first.log()[-1].detail
    assert not draws


def test_a_silo_put_back_to_before_it_joined_has_other_masks(worlds, world, tmp_path):
    """Everything from an old backup: what it answers again fits no sum, and the coordinator notices."""
    coordinator = world.coordinator()
    backup = tmp_path / "backup"
    world.first.close()
    shutil.copytree(world.first.files.directory, backup)
    world = worlds.reopened(world)
    for silo in world.silos.values():
        coordinator.accept_joined(silo.answer(coordinator.invitation()))
    roster = roster_of(world)
    world.first.answer(ask(world, 1, relay=roster))
    world.first.close()
    shutil.rmtree(world.first.files.directory)
    shutil.copytree(backup, world.first.files.directory)
    world = worlds.reopened(world)
    refused(world, ask(world, 1, relay=roster), "has not joined")
    with pytest.raises(PeerError, match="another mask key before"):
        coordinator.accept_joined(world.first.answer(coordinator.invitation()))
    refused(world, ask(world, 1, relay=roster), "is not the one that this silo has made")


# --- somebody is missing ---------------------------------------------------------------------------------------------


def four(worlds, place):
    return make(worlds, place, sizes=(30, 20, 25, 20), missing=Missing.WITHOUT, wait_seconds=30.0)


def test_different_dropouts_told_to_different_silos(worlds, tmp_path):
    """s0 is told that s3 left, s1 that s2 did: neither gets a roster, since each joins one heir only."""
    world = four(worlds, tmp_path)
    roster, first = roster_of(world), agreed_run(world.agreement)
    for agent, name in enumerate(world.silos):
        assert isinstance(told(world.silos[name], ask(world, 1, agent, relay=roster)), Masked)
    one, two = first.without(("s3",), 1), first.without(("s2",), 1)
    parent = world.agreement.digest
    of_one = {name: world.silos[name].answer(invite(world, one, parent, 1)) for name in ("s0", "s2")}
    of_two = {name: world.silos[name].answer(invite(world, two, parent, 1)) for name in ("s1", "s3")}
    assert all(isinstance(messages.read(each[64:]), Keyed) for each in (*of_one.values(), *of_two.values()))
    refused(world, invite(world, one, parent, 1), "went on already", releases=1, name="s1")
    refused(world, invite(world, two, parent, 1), "went on already", releases=1, name="s0")
    mixed = [of_one["s0"], of_two["s1"], of_one["s2"]]
    refused(world, ask(world, 1, relay=mixed, agreement=one), "other terms or another silo", releases=1)
    old = [of_one["s0"], roster[1], of_one["s2"]]
    refused(world, ask(world, 1, relay=old, agreement=one), "other terms or another silo", releases=1)
    # The old form of the run is closed, and its masks are gone.
    refused(world, ask(world, 2, inbox=ZERO), "closed", releases=1)
    query = "SELECT secret FROM masks WHERE digest = ?"
    assert world.first._connection.execute(query, (parent,)).fetchone() == (None,)


def test_a_silo_that_is_late_completes_a_sum_that_was_paid_for(worlds, tmp_path, monkeypatch):
    """Its answer to the old terms reaches the coordinator after all: that sum was charged to everybody."""
    world = four(worlds, tmp_path)
    bare, late = recorded_shares(monkeypatch), []

    def fate(carried):
        if carried.node == "s1" and not carried.is_request and len(late) < 1:
            if isinstance(messages.read(carried.envelope[64:]), Masked):
                late.append(carried.envelope)
                return ()
            return (0,)
        return () if carried.node == "s1" and late else (0,)

    coordinator = world.coordinator()
    world.drive(coordinator, world.transport(fate))
    old, new = agreed_run(world.agreement), coordinator.terms
    assert new.agreement.left == ("s1",)
    assert new.agreement.colluders == old.agreement.colluders == 1
    stored = coordinator._connection.execute("SELECT agent, envelope FROM answers WHERE phase = 0 AND round = 1")
    answers = {agent: bytes(envelope) for agent, envelope in stored.fetchall()}
    assert set(answers) == {0, 2, 3}
    parts = [read_summand(answers.get(agent, late[0]), old, agent, 1) for agent in range(4)]
    assert np.isfinite(total_of(old, 1, parts)).all()
    with pytest.raises(Refusal):  # without it the words mean nothing
        total_of(old, 1, [*parts[:1], *parts[2:]])
    left = sum_words([parts[0], parts[2], parts[3]]) - sum_words([bare[a, 1] for a in (0, 2, 3)])
    assert np.all(np.abs(left.view(np.int64).astype(float)) > 2.0**40)
    assert new.agreement.spent_m > 0
    for name in ("s0", "s2", "s3"):
        assert world.statement(name).releases == 1 + 4
        assert world.statement(name).spent_epsilon <= 1.0
    assert coordinator.accept_joined(late[0]) is None
    with pytest.raises(PeerError, match="replayed"):  # nor do answers to the old terms serve the new ones
        world.coordinator(new.agreement, "again.db").accept(0, answers[0])


def test_a_replayed_answer_of_another_run_or_round_is_refused(world):
    roster, _ = two_rounds(world)
    coordinator = world.coordinator()
    first, second = (
        world.first.answer(request) for request in (ask(world, 1, relay=roster), ask(world, 2, inbox=ZERO))
    )
    with pytest.raises(PeerError, match="replayed"):
        coordinator.accept(0, second)
    with pytest.raises(PeerError, match="signature"):
        coordinator.accept(1, first)
    assert coordinator.accept(0, first) is False
    assert coordinator.waiting_for() == [1, 2]


# --- what the coordinator gets ---------------------------------------------------------------------------------------


def answered(world, agent, words, k=1):
    """Return words that a registered but malicious silo signs."""
    made = Masked(world.agreement.digest, agent, k, np.asarray(words, dtype=np.uint64))
    return world.silos[f"s{agent}"]._key.seal(made.encode())


def test_words_that_are_no_part_of_the_sum_are_refused(world):
    roster_of(world)
    coordinator, seal = world.coordinator(), world.silos["s1"]._key.seal
    good = answered(world, 1, [1, 2, 3])
    body = json.loads(good[64:])
    for wrong, words in (
        (answered(world, 1, [1, 2]), "words from s1 are 2, not 3"),
        (answered(world, 1, [1, 2, 3, 4]), "words from s1 are 4, not 3"),
        (answered(world, 1, []), "words from s1 are 0, not 3"),
        (answered(world, 1, [1, 2, 3], k=2), "replayed"),
        (seal(Stepped(world.agreement.digest, 1, 1, np.zeros(3)).encode()), "masked sum belongs"),
        (seal(json.dumps(body | {"words": body["words"][:-4]}).encode()), "cannot be read"),
        (seal(json.dumps(body | {"words": body["words"][:-1]}).encode()), "cannot be read"),
        (seal(json.dumps(body | {"words": [1, 2, 3]}).encode()), "where text belongs"),
        (good[:-5], "signature"),
        (good[:40], "shorter than its signature"),
    ):
        with pytest.raises(PeerError, match=words):
            coordinator.accept(1, wrong)
    assert coordinator.waiting_for() == [0, 1, 2]


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (lambda parts: [0, 0, 0], "masks do not fit each other"),  # its masks stay in the others' words
        (lambda parts: np.zeros(3, dtype=np.uint64) - sum_words(parts) + np.uint64(2**63 - 1), "wrapped around"),
        (lambda parts: np.zeros(3, dtype=np.uint64) - sum_words(parts) + np.uint64(2**53), "norm"),
    ],
    ids=["no masks", "wrap-around", "huge"],
)
def test_a_sum_that_means_nothing_stops_the_run(world, lie, words):
    """Also for whoever opens it again; nothing is broadcast."""
    roster, wire = two_rounds(world)
    coordinator = world.coordinator()
    for agent in (0, 1):
        coordinator.accept(agent, world.silos[f"s{agent}"].answer(ask(world, 1, agent, relay=roster)))
    with pytest.raises(FederationStopped, match=f"{words}.*Nobody can tell"):
        coordinator.accept(2, answered(world, 2, lie([wire[0, 1], wire[1, 1]])))
    again = world.coordinator()
    assert again.round == 0
    with pytest.raises(FederationStopped, match=words):
        again.waiting_for()
    assert [event for _, event, _ in again.log()] == ["refused", "refused"]


def test_a_silo_with_another_grid_is_refused_when_it_joins(world):
    coordinator, terms = world.coordinator(), agreed_run(world.agreement)
    for agent in (0, 2):
        coordinator.accept_joined(world.silos[f"s{agent}"].answer(coordinator.invitation()))
    with pytest.raises(PeerError, match="other noise"):
        coordinator.accept_joined(keyed(world, 1, plan=terms.mark[::-1]))
    plain = Joined(world.agreement.digest, 1, terms.mark)
    with pytest.raises(PeerError, match="without a mask key"):
        coordinator.accept_joined(world.silos["s1"]._key.seal(plain.encode()))
    assert coordinator.absent == [1]


def test_masks_of_different_pairs_rounds_and_slots_have_nothing_in_common():
    one, two, three = pairwise_masks(3, b"run")
    words = [one.words("broadcast", 1, 4), one.words("broadcast", 2, 4), one.words("profile", 1, 4)]
    again = PairwiseMasks(0, one.secrets, b"another context")
    words += [again.words("broadcast", 1, 4), two.words("broadcast", 1, 4), three.words("broadcast", 1, 4)]
    assert len({tuple(each.tolist()) for each in words}) == len(words)
    assert not sum_words([each.words("broadcast", 1, 4) for each in (one, two, three)]).any()
