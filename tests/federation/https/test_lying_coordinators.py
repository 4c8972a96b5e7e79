"""Whoever answers a silo's line: strangers are told from the coordinator, and a coordinator that lies does no harm."""

import contextlib
import gzip
import json
import logging
import socket
import ssl
import threading
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

from dpadmm.errors import InputError
from dpadmm.federation import messages
from dpadmm.federation.errors import FederationStopped, MessageError
from dpadmm.federation.https import client, tls
from dpadmm.federation.https.client import SiloClient
from dpadmm.federation.keys import open_envelope
from dpadmm.federation.terms import stored_terms

MEGABYTE = 2**20
BOMB = gzip.compress(bytes(64 * MEGABYTE), 1)


@pytest.fixture(scope="module")
def silo(setups, template, tmp_path_factory):
    """A silo that has approved terms; nothing here lets it spend."""
    made = setups.copied(template, tmp_path_factory.mktemp("silo"))
    yield made.first
    assert made.statement("s0").releases == 0
    for each in made.silos.values():
        each.close()


@pytest.fixture
def answering(ports, silo, template, tmp_path):
    """Let the coordinator answer as a script says; return it, and run the silo's line until it pauses."""
    open_ones = []

    def start(script, context=None):
        if context is None:
            context = tls.server_context(template.key, tmp_path / "coordinator.pem")
            tls.trust(context, [silo.public_key])
        open_ones.append(ports.Liar(context, script))
        return open_ones[-1]

    yield start
    for each in open_ones:
        each.close()


@pytest.fixture
def serve(ports, silo, monkeypatch, caplog):
    """Run the silo's line against a server until it pauses so many times; return what it tells."""
    monkeypatch.setattr(client, "READ_SECONDS", 5.0, raising=False)
    caplog.set_level(logging.INFO, "dpadmm.silo")

    def run(liar, pauses=1):
        caplog.clear()
        SiloClient(silo, f"127.0.0.1:{liar.number}", ports.Tries(pauses)).serve()
        return caplog.text

    return run


def says(*parts, slow=0.0):
    """Return a script that says this to any request, and then nothing more on this connection."""

    def script(line):
        for part in parts:
            line.sendall(part)
            time.sleep(slow)
        raise OSError("hangs up")

    return script


def head(status="200 OK", **fields):
    """Return the head of a response."""
    reported = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{reported}\r\n".encode()


# --- strangers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["a stranger", "another silo", "a certificate for clients", "an expired certificate"])
def test_who_is_not_the_coordinator_hears_nothing(ports, answering, serve, parties, tmp_path, kind):
    """TLS ends before the silo has shown who it is; its owner is told why."""
    place, key = tmp_path / "shown.pem", parties["coordinator"]
    args = "not the coordinator of any approved terms"
    if kind == "a stranger":
        ports.issued(parties["stranger"], key.public, place, usage="server")
    elif kind == "another silo":
        ports.issued(parties["s1"], parties["s1"].public, place, named=parties["s1"], usage="server")
    elif kind == "a certificate for clients":
        ports.issued(key, key.public, place, named=key, usage="client")
    else:
        ports.issued(key, key.public, place, named=key, usage="server", days=(-2, -1))
        args = "clock"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place)
    liar = answering(says(head("204 No Content")), context)
    assert args in serve(liar)
    ports.wait_for(lambda: liar.failures, "the end of the line")
    assert isinstance(liar.failures[0], ssl.SSLError)
    assert liar.heard == liar.shown == []


def test_who_speaks_no_tls_hears_nothing(ports, serve):
    """Only the first words of TLS, which name nobody, are sent."""
    got = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            plain, _ = listener.accept()
            with plain:
                got.append(plain.recv(65536))
                plain.sendall(head("204 No Content"))
                with contextlib.suppress(ConnectionError):
                    got.append(plain.recv(65536))

        answering = threading.Thread(target=answer)
        answering.start()
        reported = serve(SimpleNamespace(number=listener.getsockname()[1]))
        answering.join()
    assert "does not speak TLS" in reported
    assert got[0][0] == 22  # a handshake
    assert b"GET" not in b"".join(got)
    assert b"dpadmm" not in b"".join(got)


# --- answers to a poll -----------------------------------------------------------------------------------------------


def endless(line):
    """Send much more than anybody asked for."""
    for _ in range(64):
        line.sendall(bytes(MEGABYTE))
    raise OSError("hangs up")


def chunks(line):
    """The same, in chunks."""
    for _ in range(64):
        line.sendall(b"100000\r\n" + bytes(MEGABYTE) + b"\r\n")
    raise OSError("hangs up")


def after(said, rest=None):
    """Return a script that says something, and goes on with another."""

    def script(line):
        line.sendall(said)
        (rest or (lambda _: None))(line)

    return script


TOO_MUCH = {
    "packed": (says(head(content_encoding="gzip", content_length=len(BOMB)) + BOMB), "not one of a dpadmm coordinator"),
    "packed without a length": (says(head(content_encoding="deflate, gzip") + BOMB), "not one of a dpadmm coordinator"),
    "packed on the way": (says(head(transfer_encoding="gzip, chunked") + BOMB), "closed the connection"),
    "endless": (after(head(), endless), "not read"),
    "endless chunks": (after(head(transfer_encoding="chunked"), chunks), "not read"),
    "of a great length": (after(head(content_length=10**15), endless), "not read"),
    "of an impossible length": (says(head(content_length="9" * 5000)), "closed the connection"),
    "with an endless head": (after(b"HTTP/1.1 200 OK\r\nx: ", endless), "closed the connection"),
    "no http": (endless, "closed the connection"),
    "an endless refusal": (after(head("500 Oh"), endless), "HTTP 500"),
    "packed refusal": (says(head("403 No", content_encoding="gzip") + BOMB), "no open run"),
    "packed nothing": (says(head("204 No Content", content_encoding="gzip") + BOMB), "connected"),
}


@pytest.mark.parametrize("kind", TOO_MUCH)
def test_what_is_too_much_is_not_read(ports, answering, serve, kind):
    script, args = TOO_MUCH[kind]
    liar = answering(script)
    with ports.grown() as memory:
        reported = serve(liar)
    assert args in reported
    assert memory.peak < 8 * MEGABYTE
    assert [each.path for each in liar.heard] == ["/next"]


@pytest.mark.parametrize("kind", ["packed", "endless", "endless chunks", "of a great length", "an endless refusal"])
def test_what_is_said_to_an_answer_is_not_read(ports, answering, serve, template, kind):
    """A letter that a silo refuses is answered all the same."""
    envelope = template.key.seal(b"no message of ours")

    def script(line):
        if liar.heard[-1].method == "GET":
            line.sendall(head(content_length=len(envelope)) + envelope)
        else:
            TOO_MUCH[kind][0](line)

    liar = answering(script)
    with ports.grown() as memory:
        reported = serve(liar)
    assert "did not take an answer" in reported
    assert memory.peak < 8 * MEGABYTE
    assert [each.path for each in liar.heard] == ["/next", f"/answers/{messages.mark(envelope[64:])}"]


def test_a_request_in_drops_is_given_up(ports, answering, serve, monkeypatch):
    """Each drop comes in time; all of them together do not."""
    monkeypatch.setattr(client, "REQUEST_SECONDS", 0.2)

    def drip(line):
        line.sendall(head(content_length=10000))
        for _ in range(1500):
            line.sendall(b"x")
            time.sleep(0.01)
        pytest.fail("the silo reads on")

    liar = answering(drip)
    assert "not read" in serve(liar)
    ports.wait_for(lambda: liar.failures, "the end of the line")


def test_who_says_nothing_is_given_up(answering, serve, monkeypatch):
    monkeypatch.setattr(client, "READ_SECONDS", 0.2)
    assert "did not answer in time" in serve(answering(lambda line: line.recv(1)))


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See", "307 Temporary", "308 Permanent"])
@pytest.mark.parametrize("request_of", ["GET", "PUT"])
def test_nobody_is_sent_elsewhere(answering, serve, template, status, request_of):
    """Neither to another server nor to another path of this one."""
    envelope = template.key.seal(b"no message of ours")
    elsewhere = answering(says(head("204 No Content")))

    def script(line):
        if liar.heard[-1].method == request_of:
            line.sendall(head(status, location=f"https://127.0.0.1:{elsewhere.number}/next", content_length=0))
        else:
            line.sendall(head(content_length=len(envelope)) + envelope)

    liar = answering(script)
    assert f"HTTP {status[:3]}" in serve(liar)
    assert len(liar.heard) == (1 if request_of == "GET" else 2)
    assert elsewhere.heard == []


def test_a_redirect_to_nowhere_is_no_fault_of_the_silo(answering, serve):
    for place in ("", "//", "https://[", "file:///etc/passwd", "https://x:99999/", "é", "https://xn--0/"):
        assert "HTTP 302" in serve(answering(after(head("302 Found", location=place, content_length=0))))


def test_polls_that_come_back_at_once_are_not_repeated_at_once(answering, serve):
    """One connection, one pause for each."""
    liar = answering(after(head("204 No Content")))
    serve(liar, pauses=5)
    assert len(liar.heard) == 5
    assert len(liar.shown) == 1


def test_nothing_is_kept_for_the_coordinator(answering, serve):
    """It could fill the silo's memory with cookies, poll by poll."""
    liar = answering(after(head("204 No Content", set_cookie="x=y; Max-Age=999999; Path=/")))
    serve(liar, pauses=3)
    assert len(liar.heard) == 3
    assert all(b"cookie" not in each.head.lower() for each in liar.heard)


@pytest.mark.parametrize(
    "date",
    [
        "Mon, 16 Nov 2009 13:32:02 -0000",  # of no zone
        "Mon, 16 Nov 2009 13:32:02 +9999",
        "Mon, 99 Nov 99999 99:99:99 GMT",
        "Sun, 01 Jan 0001 00:00:00 +2359",
        "x" * 10000,
        "",
    ],
)
def test_the_coordinators_clock_may_say_anything(answering, serve, date):
    assert "connected" in serve(answering(after(head("204 No Content", date=date))))


def test_texts_before_an_answer_are_passed_over(answering, serve):
    liar = answering(after(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000 + head("204 No Content")))
    assert "connected" in serve(liar)


# --- letters and answers that are none -------------------------------------------------------------------------------


def step(**change):
    """Return a request as anybody might write it; `RAW` stands for text that is put in as it is."""
    raw = change.pop("raw", "")
    usual = {"kind": "Step", "version": messages.VERSION, "digest": "0" * 64, "agent": 0, "round": 1, "relay": []}
    body = json.dumps(usual | {"inbox": {"dtype": "f8", "shape": [0, 3], "data": ""}} | change)
    return body.replace('"RAW"', raw).encode()


def join(terms, raw=""):
    """Return an invitation to these terms."""
    body = json.dumps({"kind": "Join", "version": messages.VERSION, "terms": terms})
    return body.replace("RAW", raw).encode()


NONE_OF_OURS = {
    "nothing": b"",
    "no JSON": b"\x00\xff" * 1000,
    "no object": b"[]",
    "a number": b"1",
    "a long number": b"1" * 10000,
    "another alphabet": step().decode().encode("utf-32"),
    "too deep": b"[" * 99_999,
    "too deep a kind": step(kind="RAW", raw="[" * 50_000 + "]" * 50_000),
    "nearly too deep a version": step(version="RAW", raw="[" * 900 + "]" * 900),
    "nearly too deep a digest": step(digest="RAW", raw='{"a":' * 900 + "1" + "}" * 900),
    "nearly too deep an array": step(inbox="RAW", raw="[" * 900 + "]" * 900),
    "nearly too deep a relay": step(relay="RAW", raw="[" * 900 + "]" * 900),
    "many lists": step(relay="RAW", raw="[" + "[]," * 40_000 + "[]]"),
    "many names": step(relay="RAW", raw='{"a":1,' * 18_000),
    "many parts in the terms": join("RAW", raw=r"\u005b" + r"0\u002c" * 15_000 + r"0\u005d"),
    "terms too deep": join("RAW", raw="[" * 99_000),
    "an unpaired surrogate": step(digest="\ud800"),
    "an unpaired surrogate as terms": join("\ud800"),
    "an array of nothing, without end": step(inbox={"dtype": "f8", "shape": [0, 2**32 - 1, 2**32 - 1], "data": ""}),
    "an array without end": step(inbox={"dtype": "f8", "shape": [2**32 - 1] * 3, "data": ""}),
    "an array of half a number": step(inbox={"dtype": "f8", "shape": [1], "data": "AAAA"}),
    "an array of many directions": step(inbox={"dtype": "f8", "shape": [0] * 40_000, "data": ""}),
    "a round without end": step(round=10**300),
    "a negative round": step(round=-1),
    "a round of text": step(round="1"),
    "an infinite version": step(version=float("inf")),
    "a long kind": step(kind="x" * 100_000),
    "a kind that is a list": step(kind=["Step"]),
    "zeros in a digest": step(digest="\0" * 64),
}


def test_no_request_of_the_coordinator_ends_a_silo(ports, answering, serve, silo, template):
    """Whatever it signs: it is refused, in little memory, and the next letter is waited for."""
    terms = json.loads(template.terms.as_json())
    bodies = NONE_OF_OURS | {
        "an edge to nowhere": join(json.dumps(terms | {"edges": [[0, float("inf")]]})),
        "no loss": join(json.dumps(terms | {"loss": float("nan")})),
    }
    envelopes = [template.key.seal(body) for body in bodies.values()]

    def script(line):
        polls = sum(each.method == "GET" for each in liar.heard)
        if liar.heard[-1].method == "PUT" or polls > len(envelopes):
            line.sendall(head("204 No Content"))
        else:
            line.sendall(head(content_length=len(envelopes[polls - 1])) + envelopes[polls - 1])

    liar = answering(script)
    with ports.grown() as memory:
        serve(liar)
    answers = [each for each in liar.heard if each.method == "PUT"]
    for (kind, body), answer in zip(bodies.items(), answers, strict=True):
        assert answer.path == f"/answers/{messages.mark(body)}", kind
        reported = messages.read(open_envelope(answer.body, silo.public_key))
        assert isinstance(reported, messages.Refused), kind
    assert memory.peak < 32 * MEGABYTE


@pytest.mark.parametrize("kind", [MemoryError, LookupError])
def test_whatever_fails_the_silo_goes_on(answering, serve, silo, template, monkeypatch, caplog, kind):
    """A request for which there is no memory, and what nobody foresaw: both are logged by their kind and survived."""
    envelope = template.key.seal(step())
    liar = answering(says(head(content_length=len(envelope)) + envelope))

    def fail(_):
        raise kind("a cell of the table")

    monkeypatch.setattr(silo, "answer", fail)
    said = serve(liar, pauses=2)
    assert said.count("trying again") >= 1
    assert kind.__name__ in said
    assert "a cell" not in said
    caplog.clear()  # it was meant


def test_no_answer_of_a_silo_ends_the_coordinator(ports, world):
    """A registered silo can sign anything; what is none of ours is its fault, and is told as such."""
    coordinator, key, absent = world.join(world.coordinator()), world.silos["s0"].key, world.coordinator()
    with ports.grown() as memory:
        for kind, body in NONE_OF_OURS.items():
            with pytest.raises(FederationStopped, match="is unusable"):
                coordinator.accept(world.keys[0], key.seal(body))
            assert not absent.accept(world.keys[0], key.seal(body)), kind
    coordinator.close()
    absent.close()
    assert memory.peak < 32 * MEGABYTE


@pytest.mark.parametrize("shape", ["many parts", "too deep", "long text in the terms", "many parts in the terms"])
def test_reading_the_longest_message_takes_little_more_than_its_size(ports, shape):
    """Without its bounds a message would take a hundred times its size."""
    size = messages.LARGEST_BODY // 4
    body = {
        "many parts": b"[" + b"{}," * (size // 3) + b"{}]",
        "too deep": b"[" * size,
        "long text in the terms": join("x" * size),
        "many parts in the terms": join("RAW", raw=r"\u005b" + r"\u005b]\u002c" * (size // 13) + r"\u005b]]"),
    }[shape]
    with ports.grown() as memory, contextlib.suppress(MessageError, InputError):
        stored_terms(messages.read(body).terms)
    assert memory.peak < 3 * size
