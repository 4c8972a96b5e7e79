"""Strangers at the coordinator's port, and registered silos that misbehave: refused, bounded, nobody else harmed."""

import contextlib
import ssl
import threading
import time
from dataclasses import replace
from datetime import timedelta

import pytest

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

from dpadmm.federation.https import server, tls

PATHS = ["/", "/next", "/answers/" + "0" * 64, "/docs", "/openapi.json", "/../runs"]
METHODS = ["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT"]


@contextlib.contextmanager
def hurried(**seconds):
    """Let the door and its app be impatient for a while: by name, how long each may take."""
    with pytest.MonkeyPatch.context() as patch:
        for name, limit in seconds.items():
            patch.setattr(server, name, limit)
        yield


def is_in(port, line):
    """Whether a connection has been taken in."""
    return any(each.client == line.getsockname() for own in port.server._silos.values() for each in own)


# --- who comes in ----------------------------------------------------------------------------------------------------


def heard(port, context):
    """Return what a client hears that does its part of TLS and asks for something at once."""
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        line = port.connect(context)
        line.sendall(b"GET /elsewhere HTTP/1.1\r\nhost: x\r\n\r\n")
        return line.recv(65536)
    return b""


@pytest.mark.parametrize("method", METHODS)
def test_without_a_certificate_no_path_and_no_method_is_reached(ports, port, box, reached, method):
    for path in PATHS:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            port.call(ports.showing(), method, path)
    assert reached == []


def test_plain_http_is_not_spoken(ports, port, box, reached):
    line = port.knock()
    line.sendall(b"GET /next HTTP/1.1\r\nhost: x\r\n\r\n")
    assert ports.is_cut(line)
    assert reached == []


def certificate(ports, parties, place, kind):
    """Return the TLS of somebody whose certificate is not one of a participant."""
    a, b, stranger = parties["s0"], parties["s1"], parties["stranger"]
    if kind == "a stranger's":
        ports.issued(stranger, stranger.public, place, named=stranger)
    elif kind == "a stranger's in the name of a silo":
        ports.issued(stranger, a.public, place)
    elif kind == "the coordinator's":  # it takes no part
        ports.issued(parties["coordinator"], parties["coordinator"].public, place)
    elif kind == "expired":
        ports.issued(a, a.public, place, named=a, days=(-2, -1))
    elif kind == "not yet valid":
        ports.issued(a, a.public, place, named=a, days=(1, 2))
    elif kind == "for servers":
        ports.issued(a, a.public, place, named=a, usage="server")
    elif kind == "of a silo in the name of another":
        ports.issued(a, b.public, place)
    elif kind == "of a silo in the name and under the hint of another":
        ports.issued(a, b.public, place, named=b)
    elif kind == "by an authority that a silo made":
        middle = ports.issued(a, a.public, place, named=a, usage=None, ca=True, subject="middle")
        ports.issued(middle, "middle", place, named=middle, chain=middle.text)
    elif kind == "by an authority that a silo made in the name of another":
        middle = ports.issued(a, a.public, place, named=a, usage=None, ca=True, subject=b.public)
        ports.issued(middle, b.public, place, named=middle, chain=middle.text)
    elif (
        kind == "by an authority of an authority with the silo's own name"
    ):  # such do not count in the length of a path
        first = ports.issued(a, a.public, place, named=a, usage=None, ca=True, subject=a.public)
        second = ports.issued(first, a.public, place, named=first, usage=None, ca=True, subject=b.public)
        ports.issued(second, b.public, place, named=second, chain=second.text + first.text)
    elif kind == "by a silo's certificate":
        leaf = ports.issued(a, a.public, place, named=a)
        ports.issued(leaf, "dpadmm", place, named=leaf, chain=leaf.text)
    return ports.showing(place)


@pytest.mark.parametrize(
    "kind",
    [
        "a stranger's",
        "a stranger's in the name of a silo",
        "the coordinator's",
        "expired",
        "not yet valid",
        "for servers",
        "of a silo in the name of another",
        "of a silo in the name and under the hint of another",
        "by an authority that a silo made",
        "by an authority that a silo made in the name of another",
        "by an authority of an authority with the silo's own name",
        "by a silo's certificate",
    ],
)
def test_a_certificate_that_is_no_participants_is_refused_by_tls(ports, port, box, parties, reached, tmp_path, kind):
    assert heard(port, certificate(ports, parties, tmp_path / "shown.pem", kind)) == b""
    assert reached == []


def test_a_certificate_is_known_by_who_issued_it(ports, port, box, parties, reached, tmp_path):
    """Also under a subject that says otherwise, and where TLS finds names equal that are spelled differently."""
    a, b, place = parties["s0"], parties["s1"], tmp_path / "shown.pem"
    for issuer, subject in ((a.public, b.public), (a.public.upper(), b.public), (f"  {a.public} ", b.public)):
        ports.issued(a, issuer, place, subject=subject)
        assert port.call(ports.showing(place), "GET", "/elsewhere")[0] == 404
    assert reached == [a.public] * 3


def test_certificates_of_our_own_making_are_as_short_lived_as_they_say(ports, port, box, reached, monkeypatch):
    silo, place, context = port.keys["s0"], port.place / "old.pem", ports.showing()
    tls.renew(context, silo, place, is_server=False, valid=timedelta(hours=-1))
    assert heard(port, context) == b""
    monkeypatch.setattr(tls, "BACKDATED", timedelta(hours=-1))
    tls.renew(context, silo, place, is_server=False)
    assert heard(port, context) == b""
    monkeypatch.undo()
    assert reached == []


def test_an_old_version_of_tls_is_refused(ports, port, box, reached):
    context = port.context_of("s0")
    old = ports.showing(port.place / "s0.pem", version=ssl.TLSVersion.TLSv1_2)
    assert heard(port, old) == b""
    assert reached == []
    assert port.call(context, "GET", "/elsewhere")[0] == 404


def test_a_session_is_not_taken_up_again_without_a_certificate(ports, port, box):
    line = port.connect("s0")
    ports.call(line, "GET", "/elsewhere")
    assert not line.session.has_ticket


def test_a_silo_of_another_run_is_shown_so_and_nothing_else(ports, port, template, parties):
    """Its key is known from an earlier run; the one that is open is not its own."""
    people = template.terms.participants[1:]
    other = port.queue.open(replace(template.terms, participants=people, edges=((0, 1),)))
    mark = ports.ask(other, parties["s1"])
    for method in METHODS:
        for path in (*PATHS, f"/answers/{mark}"):
            assert port.call("s0", method, path)[0] == 403
    assert port.call("s1", "PUT", f"/answers/{mark}", b"it still waits")[0] == 204
    other.close()
    assert port.call("s1", "GET", "/next")[0] == 403  # and when no run is open


# --- what a registered silo sends ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (413, {"content_length": 10**6}),
        (413, {"content_length": "9" * 20}),
        (413, {"content_length": 10**6, "expect": "100-continue"}),
        (411, {}),
        (411, {"transfer_encoding": "chunked"}),
        (411, {"transfer_encoding": "chunked", "content_length": 5}),  # of these two, HTTP goes by the first
        (415, {"content_length": 5, "content_encoding": "gzip"}),
        (400, {"content_length": "9" * 21}),
        (400, {"content_length": "-1"}),
        (400, {"content_length": "5, 6"}),
        (400, {"transfer_encoding": "gzip", "content_length": 5}),
    ],
)
def test_a_body_that_is_too_large_or_of_no_shown_size_is_refused_before_it_is_read(ports, port, box, status, headers):
    """Only the head is sent: if any of the body were waited for, there would be no answer."""
    mark = ports.ask(box, port.keys["s0"])
    assert port.call("s0", "PUT", f"/answers/{mark}", **headers)[0] == status
    assert port.call("s0", "PUT", f"/answers/{mark}", b"an answer")[0] == 204
    assert list(box.receive()) == [(port.keys["s0"].public, b"an answer")]


def test_a_body_is_read_up_to_the_size_that_the_terms_allow(ports, port, box):
    for size, status in ((box.largest, 204), (box.largest + 1, 413)):
        mark = ports.ask(box, port.keys["s0"])
        assert port.call("s0", "PUT", f"/answers/{mark}", bytes(size))[0] == status


def test_a_body_in_pieces_cannot_outgrow_its_announcement(ports, port, box):
    """Much more than the terms allow is sent in chunks, beside a short length that is told."""
    mark, line = ports.ask(box, port.keys["s0"]), port.connect("s0")
    head = f"PUT /answers/{mark} HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n"
    line.sendall(head.encode())
    with ports.grown() as memory, contextlib.suppress(ssl.SSLError, ConnectionError):
        for _ in range(64):
            line.sendall(b"%x\r\n" % 2**20 + bytes(2**20) + b"\r\n")
    assert ports.is_cut(line)
    assert memory.peak < 8 * 2**20
    port.exchange(box, "s0")


def test_a_body_that_ends_early_answers_nothing(ports, port, box):
    mark, line = ports.ask(box, port.keys["s0"]), port.connect("s0")
    line.sendall(f"PUT /answers/{mark} HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nan answ".encode())
    line.close()
    ports.wait_for(lambda: not port.silos, "its end")
    port.exchange(box, "s0")


def test_what_follows_a_body_is_no_part_of_it(ports, port, box):
    mark, line = ports.ask(box, port.keys["s0"]), port.connect("s0")
    assert ports.call(line, "PUT", f"/answers/{mark}", b"an answer, and more\r\n\r\n", content_length=9)[0] == 204
    assert ports.is_cut(line)  # what is left is no request
    assert list(box.receive()) == [(port.keys["s0"].public, b"an answer")]


def test_a_body_of_get_is_not_kept_and_ends(ports, port, box):
    """While a letter is waited for, and after."""
    with hurried(POLL_SECONDS=0.3, HEAD_SECONDS=0.3), ports.grown() as memory:
        line = port.connect("s0")
        line.sendall(b"GET /next HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n")
        assert ports.is_cut_while_sending(line, bytes(2**20))
    assert memory.peak < 8 * 2**20
    port.exchange(box, "s1")


# --- how long a registered silo may take -----------------------------------------------------------------------------


def test_a_slow_body_is_refused(ports, port, box):
    mark, line = ports.ask(box, port.keys["s0"]), port.connect("s0")
    with hurried(BODY_SECONDS=0.2):
        assert ports.call(line, "PUT", f"/answers/{mark}", b"a", content_length=9)[0] == 408
        assert ports.is_cut(line)
    port.exchange(box, "s0")


@pytest.mark.parametrize("head", [b"", b"GET /next HT", b"GET /elsewhere HTTP/1.1\r\nhost: x\r\nx: "])
def test_a_slow_head_is_cut_off(ports, port, box, head):
    """Also one that goes on and on."""
    with hurried(HEAD_SECONDS=0.3):
        line = port.connect("s0")
        line.sendall(head)
        assert ports.is_cut_while_sending(line, head[-1:], 0.02) if head else ports.is_cut(line)


def test_a_slow_head_after_a_request_is_cut_off(ports, port, box):
    line = port.connect("s0")
    port.exchange(box, "s0", line)
    with hurried(HEAD_SECONDS=0.3):
        line.sendall(b"GET /next HT")
        assert ports.is_cut(line)


def test_who_does_not_read_is_cut_off(ports, port, box):
    """Also where it keeps asking; its letter is kept once, and waits for whoever reads it."""
    silo, envelope = port.keys["s0"], port.keys["s0"].seal(bytes(32 * 2**20))
    box.send(silo.public, envelope)
    with hurried(READ_SECONDS=0.5), ports.grown() as memory:
        lines = [port.connect("s0") for _ in range(server.MOST_PER_SILO)]
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            for _ in range(40):
                for line in lines:
                    line.sendall(b"GET /next HTTP/1.1\r\nhost: x\r\n\r\n")
                time.sleep(0.02)
        ports.wait_for(lambda: not port.silos, "their end")
    assert memory.peak < 16 * 2**20
    assert port.call("s0", "GET", "/next") == (200, envelope)


# --- how much a registered silo may ask ------------------------------------------------------------------------------


def test_too_many_requests_are_refused_of_who_makes_them(ports, port, box, monkeypatch):
    monkeypatch.setattr(server, "RATE", 0.0)
    monkeypatch.setattr(server, "BURST", 5.0)
    assert [port.call("s0", "GET", "/elsewhere")[0] for _ in range(8)] == [404] * 5 + [429] * 3
    port.exchange(box, "s1")


def test_too_many_connections_end_the_oldest_of_the_same_silo(ports, port, box):
    other, own = port.connect("s1"), []
    for number in range(3 * server.MOST_PER_SILO):
        own.append(port.connect("s0"))
        ports.wait_for(lambda line=own[-1]: is_in(port, line), "a connection")
        assert port.silos[port.keys["s0"].public] == min(number + 1, server.MOST_PER_SILO)
    assert all(ports.is_cut(line) for line in own[: -server.MOST_PER_SILO])
    port.exchange(box, "s0", own[-1])
    port.exchange(box, "s1", other)


# --- letters of others -----------------------------------------------------------------------------------------------


def test_an_answer_that_nobody_asked_for_is_refused(ports, port, box):
    mark = ports.ask(box, port.keys["s0"])
    for wrong in ("0" * 64, mark[:-1], mark.upper(), mark + "/", f"../answers/{mark}", "%00", ""):
        assert port.call("s0", "PUT", f"/answers/{wrong}", b"an answer")[0] == 404, wrong
    for method in set(METHODS) - {"PUT"}:
        assert port.call("s0", method, f"/answers/{mark}", b"an answer")[0] == 404, method
    assert list(box.receive()) == []
    assert port.call("s0", "PUT", f"/answers/{mark}", b"an answer")[0] == 204


def test_nobody_reads_or_answers_the_request_of_another(ports, port, box):
    mark = ports.ask(box, port.keys["s1"], b"for s1 alone")
    with hurried(POLL_SECONDS=0.2):
        assert port.call("s0", "GET", "/next") == (204, b"")
    assert port.call("s0", "PUT", f"/answers/{mark}", b"an answer")[0] == 404
    assert list(box.receive()) == []
    assert port.call("s1", "GET", "/next") == (200, port.keys["s1"].seal(b"for s1 alone"))
    assert port.call("s1", "PUT", f"/answers/{mark}", b"an answer")[0] == 204


# --- what is no HTTP, or too much of it ------------------------------------------------------------------------------

GARBAGE = [
    b"\x00" * 100,
    b"\r\n" * 1000,
    b"GET\r\n\r\n",
    b"GET /next HTTP/1.1\r\n\r\n",  # without a host
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /next HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 10**6 + b"\r\n\r\n",
    b"GET /next HTTP/1.1\r\nhost: x\r\n" + b"x: y\r\n" * 10**6 + b"\r\n",
    b"GET /" + b"x" * 10**6 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
    b"PUT /answers/%MARK HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcdef",
    b"GET /elsewhere HTTP/1.1\r\nhost: x\r\n\r\n\x00\x01garbage\r\n\r\n",
    b"PUT /answers/%MARK HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nno chunk\r\n\r\n",
    b"GET /next HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nno chunk\r\n\r\n",
    b"GET /next HTTP/1.0\r\n\r\n\x00\x01garbage\r\n\r\n",
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_what_is_no_request_ends_the_connection_and_nothing_else(ports, port, box, caplog, garbage):
    """It leaves no word in the log, either: a silo could fill a disk with it."""
    mark = ports.ask(box, port.keys["s0"])
    with hurried(HEAD_SECONDS=0.3, POLL_SECONDS=0.1):
        line = port.connect("s0")
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            line.sendall(garbage.replace(b"%MARK", mark.encode()))
        assert ports.is_cut(line)
    assert list(box.receive()) == []
    assert caplog.text == ""
    port.exchange(box, "s0")


def test_requests_that_do_not_wait_for_each_other_are_answered_in_turn(ports, port, box):
    mark, line = ports.ask(box, port.keys["s0"]), port.connect("s0")
    put = f"PUT /answers/{mark} HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nan answer".encode()
    line.sendall(b"GET /next HTTP/1.1\r\nhost: x\r\n\r\n" + put + put + put)
    answers = line.makefile("rb").read()  # to the end: a refusal ends the connection
    assert [each[:3] for each in answers.split(b"HTTP/1.1 ")[1:]] == [b"200", b"204", b"404"]
    assert list(box.receive()) == [(port.keys["s0"].public, b"an answer")]


def test_a_flood_of_requests_on_one_connection_is_not_kept(ports, port, box):
    """They are sent while the first waits for a letter, and no answer is read."""
    line, request = port.connect("s0"), b"GET /next HTTP/1.1\r\nhost: x\r\n\r\n"
    line.settimeout(0.2)
    with hurried(POLL_SECONDS=0.3), ports.grown() as memory:
        with contextlib.suppress(TimeoutError, ssl.SSLError, ConnectionError):
            for _ in range(2000):
                line.sendall(request * 1000)
        line.close()
        ports.wait_for(lambda: not port.silos, "its end")
    assert memory.peak < 8 * 2**20
    port.exchange(box, "s1")


def test_no_other_protocol_is_switched_to(ports, port, box):
    switch = {"connection": "upgrade", "sec_websocket_key": "x", "sec_websocket_version": "13"}
    for kind in ("websocket", "h2c"):
        with hurried(POLL_SECONDS=0.1):
            assert port.call("s0", "GET", "/next", upgrade=kind, **switch) == (204, b"")
        assert port.call("s0", "GET", "/elsewhere", upgrade=kind, **switch)[0] == 404


def test_who_waits_to_be_asked_for_a_body_is_asked(ports, port, box):
    mark, line = ports.ask(box, port.keys["s0"]), port.connect("s0")
    head = f"PUT /answers/{mark} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n"
    line.sendall(head.encode())
    assert line.recv(65536).startswith(b"HTTP/1.1 100 ")
    line.sendall(b"an answer")
    assert ports.heard(line) == (204, b"")


# --- floods ----------------------------------------------------------------------------------------------------------


def hello():
    """Return the first words of a TLS client."""
    said = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), said, server_hostname="x").do_handshake()
    return said.read()


@pytest.fixture
def many_files():
    """Allow enough open files for a flood in one process."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4096, hard)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("args", "number"),
    [(b"", 1000), (hello()[:50], 200), (hello(), 200)],
    ids=["silent", "half a word", "one word"],
)
def test_a_crowd_without_certificates_keeps_nobody_out(ports, port, box, many_files, args, number):
    """Silos are served while it comes, on connections that were there and on new ones."""
    there, crowd, most = port.connect("s0"), [], 0

    def come():
        for _ in range(number):
            crowd.append(port.knock("127.0.0.2"))
            with contextlib.suppress(OSError):
                crowd[-1].sendall(args)

    coming = threading.Thread(target=come)
    with ports.grown() as memory:
        coming.start()
        while coming.is_alive() or not most:
            port.exchange(box, "s0", there)
            port.exchange(box, "s1")
            most = max(most, port.strangers)
            time.sleep(0.02)  # no more often than silos may
        coming.join()
        port.exchange(box, "s2")
    assert len(crowd) == number
    assert 1 < most <= server.MOST_HANDSHAKES
    assert memory.peak < 48 * 2**20  # a buffer of 256 KiB for each who may be there
    assert all(ports.is_cut(line) for line in crowd[: -server.MOST_HANDSHAKES])
    for line in crowd:
        line.close()
    ports.wait_for(lambda: not port.strangers, "the end of the crowd")
    port.exchange(box, "s0", there)


@pytest.mark.parametrize("args", [b"", hello()[:50], hello()], ids=["silent", "half a word", "one word"])
def test_who_shows_no_certificate_in_time_is_cut_off(ports, port, box, args):
    """Also whoever says it drop by drop."""
    with hurried(HANDSHAKE_SECONDS=0.3):
        lines = [port.knock() for _ in range(20)]
        with contextlib.suppress(OSError):
            for place in range(len(args)):
                for line in lines:
                    line.sendall(args[place : place + 1])
                time.sleep(0.01)
        assert all(ports.is_cut(line) for line in lines)
    ports.wait_for(lambda: not port.strangers, "their end")


def test_a_crowd_sends_away_only_who_comes_from_the_same_place(ports, port, box):
    """A silo has connected, and is slow to show its certificate."""
    slow = port.knock()
    ports.wait_for(lambda: port.strangers == 1, "the silo")
    crowd = [port.knock("127.0.0.2") for _ in range(3 * server.MOST_HANDSHAKES)]
    assert all(ports.is_cut(line) for line in crowd[: -server.MOST_HANDSHAKES])
    line = port.context_of("s0").wrap_socket(slow)
    port._open.append(line)
    port.exchange(box, "s0", line)


def test_a_crowd_that_was_there_before_is_let_in_one_by_one(ports, port, box, monkeypatch):
    """Whoever is sent away is hung up on at once."""
    monkeypatch.setattr(server, "MOST_HANDSHAKES", 8)
    held, go = threading.Event(), threading.Event()

    def hold():
        held.set()
        go.wait(ports.SECONDS)

    port.loop.call_soon_threadsafe(hold)
    held.wait(ports.SECONDS)
    crowd = [port.knock("127.0.0.2") for _ in range(100)]
    go.set()
    assert all(ports.is_cut(line) for line in crowd[:-8])
    assert port.strangers == 8
    port.exchange(box, "s0")


def test_a_silo_that_has_just_come_in_is_no_stranger_any_more(ports, port, box, monkeypatch):
    """Room is made at that very moment, as for a crowd."""
    original = server.SiloConnection.connection_made

    def crowded(self, transport):
        original(self, transport)
        while self.tls_server._handshakes:
            self.tls_server._make_space()

    monkeypatch.setattr(server.SiloConnection, "connection_made", crowded)
    port.exchange(box, "s0")
