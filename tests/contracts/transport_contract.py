"""What every transport has to keep. A test class inherits `TransportContract` and provides a fixture `carry`.

`carry(world)` serves the silos of a world, each as its own service would, and yields the transport to them. The silos
are real ones; where only bits matter, what they answer is replaced.
"""

import time
from collections import Counter, defaultdict

import pytest

from dpadmm.federation.coordinator_loop import drive
from dpadmm.federation.keys import SIGNATURE_BYTES, open_envelope
from dpadmm.federation.messages import largest_answer, largest_request
from dpadmm.federation.silo import Silo

SECONDS = 60.0
"""How long anything here may take before a test fails; nothing does."""


def message(number: int, size: int) -> bytes:
    """Return an envelope of so many bytes, with all bytes there are; nobody here looks at its signature."""
    pattern = bytes(range(256)) * (size // 256 + 1)
    return (bytes(SIGNATURE_BYTES) + number.to_bytes(4) + pattern)[:size]


def exchange(transport, sent: dict) -> dict:
    """Send envelopes, and return the answers by the silos' keys; what a transport asks by itself is answered, too."""
    end, found = time.monotonic() + SECONDS, {}
    for key, envelope in sent.items():
        transport.send(key, envelope)
    while len(found) < len(sent):
        assert time.monotonic() < end, f"only {len(found)} have answered"
        for key, envelope in transport.receive():
            if key in sent and answers(envelope, key, sent[key]):
                assert found.setdefault(key, envelope) == envelope
    return found


def answers(envelope: bytes, key: str, sent: bytes) -> bool:
    """Return whether this is what `heard` answers to an envelope of that size."""
    return int.from_bytes(open_envelope(envelope, key)[SIGNATURE_BYTES:][:4]) == len(sent)


def driven(run, transport, **settings) -> list:
    """Drive a run to its end; return all its estimates."""
    end = time.monotonic() + SECONDS

    def clock() -> float:
        assert time.monotonic() < end, f"the run is still at round {run.round}"
        return time.monotonic()

    drive(run, transport, clock, **settings)
    return run.estimates().tolist()


def releases(world) -> list[int]:
    return [world.statement(name).releases for name in world.silos]


class TransportContract:
    @pytest.fixture
    def heard(self, monkeypatch):
        """By silo, what has reached it; each answers, signed, with as many bytes as an answer may have."""
        heard = defaultdict(list)

        def answer(silo, envelope):
            heard[silo.public_key].append(envelope)
            return silo.key.seal(message(len(envelope), largest_answer(silo.store.all_terms()[0]) - SIGNATURE_BYTES))

        monkeypatch.setattr(Silo, "answer", answer)
        return heard

    def test_all_bits_arrive_and_come_back(self, carry, world, heard):
        """From the smallest envelope to the largest that the terms allow, to each silo its own."""
        sizes = (SIGNATURE_BYTES + 4, 1000, largest_request(world.terms))
        with carry(world) as transport:
            for size in sizes:
                sent = {silo.public_key: message(number, size) for number, silo in enumerate(world.silos.values())}
                for key, answer in exchange(transport, sent).items():
                    assert open_envelope(answer, key) == message(size, largest_answer(world.terms) - SIGNATURE_BYTES)
                    assert heard[key][-1] == sent[key]

    def test_a_repeated_envelope_is_harmless(self, carry, world, heard):
        """It is answered as often as the transport likes, in the same way."""
        with carry(world) as transport:
            sent, key = message(1, 500), world.first.public_key
            for _ in range(3):
                transport.send(key, sent)
            exchange(transport, {key: sent})
        assert sent in heard[key]
        assert all(sent not in found for other, found in heard.items() if other != key)

    def test_a_run_over_it_is_the_run_in_memory_to_the_last_bit(self, carry, world, calm):
        with carry(world) as transport:
            assert driven(world.coordinator(), transport) == calm
        assert releases(world) == [world.terms.rounds] * 3

    def test_machines_that_fail_and_requests_that_are_repeated_change_nothing(self, carry, world, calm, monkeypatch):
        """Every silo fails again and again, before it has answered and after; and everything is sent many times."""
        asked, failed, original = Counter(), [], Silo.answer

        def answer(silo, envelope):
            asked[silo.policy.name] += 1
            place = asked[silo.policy.name] % 5
            reply = b"" if place == 2 else original(silo, envelope)
            if place in (2, 4):
                failed.append(silo.policy.name)
                raise OSError("no room on the disk")
            return reply

        monkeypatch.setattr(Silo, "answer", answer)
        with carry(world) as transport:
            assert driven(world.coordinator(), transport, resend_seconds=0.0) == calm
        assert set(failed) == set(world.silos)
        assert releases(world) == [world.terms.rounds] * 3
