"""Requests are kept until they are answered, once; whatever becomes of the connections that carry them."""

import asyncio
import threading
from dataclasses import replace

import pytest

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

from dpadmm.federation import messages
from dpadmm.federation.coordinator_loop import Interrupted
from dpadmm.federation.https import queue, server
from dpadmm.federation.https.queue import MessageQueue
from dpadmm.federation.keys import SIGNATURE_BYTES
from dpadmm.federation.messages import largest_answer

SOON = 0.05


def envelope(text):
    """Return an envelope; nobody here looks at its signature."""
    return bytes(SIGNATURE_BYTES) + text.encode()


def mark(text):
    """Return the mark of a letter."""
    return messages.mark(text.encode())


@pytest.fixture
def key(template):
    """A silo's key."""
    return template.terms.participants[0].key


@pytest.fixture
def run(template, monkeypatch):
    """Run a scenario in a loop, with a new office and a box of the template's terms."""
    monkeypatch.setattr(queue, "_RECEIVE_SECONDS", 0.01)

    def scenario(of):
        async def whole():
            office = MessageQueue(asyncio.get_running_loop())
            await asyncio.wait_for(of(office, office.open(template.terms)), 20)

        asyncio.run(whole())

    return scenario


# --- over the port ---------------------------------------------------------------------------------------------------


def test_a_request_is_handed_out_until_it_is_answered(ports, port, box):
    """To every connection that asks, also after one that has not read it; in the order in which they were sent."""
    silo = port.keys["s0"]
    first, second = ports.ask(box, silo, b"first"), ports.ask(box, silo, b"second")
    gone = port.connect("s0")
    gone.sendall(b"GET /next HTTP/1.1\r\nhost: x\r\n\r\n")
    gone.close()
    line = port.connect("s0")
    for _ in range(3):
        assert ports.call(line, "GET", "/next") == (200, silo.seal(b"first"))
        assert port.call("s0", "GET", "/next") == (200, silo.seal(b"first"))
    assert ports.call(line, "PUT", f"/answers/{first}", b"an answer")[0] == 204
    assert ports.call(line, "GET", "/next") == (200, silo.seal(b"second"))
    assert ports.call(line, "PUT", f"/answers/{second}", b"another")[0] == 204
    assert list(box.receive()) == [(silo.public, b"an answer"), (silo.public, b"another")]


def test_an_answer_is_taken_once(ports, port, box):
    mark = ports.ask(box, port.keys["s0"])
    assert port.call("s0", "PUT", f"/answers/{mark}", b"an answer")[0] == 204
    assert list(box.receive()) == [(port.keys["s0"].public, b"an answer")]
    for again in (b"an answer", b"another"):
        assert port.call("s0", "PUT", f"/answers/{mark}", again)[0] == 404
    assert list(box.receive()) == []


def test_a_later_poll_takes_the_place_of_an_earlier(ports, port, box):
    """Which ends at once, without a letter; the letter goes to the later one."""
    early, late, got = port.connect("s0"), port.connect("s0"), []
    polls = [threading.Thread(target=lambda x=x: got.append((x, ports.call(x, "GET", "/next")))) for x in (early, late)]
    polls[0].start()
    ports.wait_for(lambda: port.queue._polls, "the earlier")
    polls[1].start()
    polls[0].join()
    assert got == [(early, (204, b""))]
    ports.ask(box, port.keys["s0"])
    polls[1].join()
    assert got[1:] == [(late, (200, port.keys["s0"].seal(b"a letter")))]


def test_a_poll_whose_silo_is_gone_keeps_no_request(ports, port, box):
    line = port.connect("s0")
    line.sendall(b"GET /next HTTP/1.1\r\nhost: x\r\n\r\n")
    ports.wait_for(lambda: port.queue._polls, "the poll")
    line.close()
    port.exchange(box, "s0")


def test_an_empty_poll_ends_after_a_while(ports, port, box, monkeypatch):
    monkeypatch.setattr(server, "POLL_SECONDS", SOON)
    assert port.call("s0", "GET", "/next") == (204, b"")


# --- the office ------------------------------------------------------------------------------------------------------


def test_the_same_request_twice_is_one(run, key):
    async def scenario(office, box):
        for _ in range(3):
            box.send(key, envelope("a"))
        assert office.deliver(key, mark("a"), b"an answer")
        assert await office.next(key, SOON) is None

    run(scenario)


def test_older_requests_than_so_many_were_sent_in_vain(run, key, template, monkeypatch):
    """Of one run; those of another stay."""
    monkeypatch.setattr(queue, "MOST_REQUESTS", 3)

    async def scenario(office, box):
        other = office.open(template.terms)
        other.send(key, envelope("of another run"))
        for text in "abcde":
            box.send(key, envelope(text))
        assert [office.deliver(key, mark(text), b"") for text in "abcde"] == [False, False, True, True, True]
        assert office.deliver(key, mark("of another run"), b"")

    run(scenario)


def test_a_run_that_ends_takes_its_requests_with_it(run, key, template):
    """And nothing can be sent for it any more; those of another run stay."""

    async def scenario(office, box):
        other = office.open(template.terms)
        box.send(key, envelope("a"))
        other.send(key, envelope("b"))
        box.close()
        box.send(key, envelope("c"))
        assert await office.next(key, SOON) == envelope("b")
        assert not office.deliver(key, mark("a"), b"")
        assert not office.deliver(key, mark("c"), b"")
        assert office.deliver(key, mark("b"), b"an answer")
        assert list(other.receive()) == [(key, b"an answer")]
        assert list(box.receive()) == []

    run(scenario)


def test_how_much_is_read_is_for_the_open_runs_to_say(run, key, template):
    async def scenario(office, box):
        assert office.largest(key) == largest_answer(template.terms)
        wide = office.open(replace(template.terms, dimension=10**6))
        assert office.largest(key) == wide.largest > box.largest
        assert office.largest("0" * 64) is None
        wide.close()
        assert office.largest(key) == box.largest
        box.close()
        assert office.largest(key) is None

    run(scenario)


def test_a_coordinator_that_closes_lets_everybody_go(run, key, monkeypatch):
    """Whoever polls, whoever polls later, and whoever waits for answers."""
    monkeypatch.setattr(queue, "_RECEIVE_SECONDS", 20.0)

    async def scenario(office, box):
        poll = asyncio.ensure_future(office.next(key, 20))
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(asyncio.to_thread(box.receive))
        await asyncio.sleep(SOON)
        office.close()
        assert await poll is None
        assert await office.next(key, 20) is None
        assert list(await waiting) == []
        with pytest.raises(Interrupted):
            box.receive()

    run(scenario)
