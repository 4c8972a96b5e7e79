"""One connection to a coordinator's port, as a silo makes it, step by step: name, proxy, port, TLS, HTTP, clock.

It asks for a page that no coordinator has. That takes nobody's requests and ends nobody's poll, so it may be done
beside a silo that serves.
"""

import contextlib
import socket
import ssl
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dpadmm.checks import plural
from dpadmm.federation.admin.finding import Finding, Level
from dpadmm.federation.https.client import SKEW_SECONDS, Address, describe_skew, open_client, skew_of
from dpadmm.federation.https.connection_errors import (
    FAILURES,
    ConnectionProblem,
    classify_failure,
    describe_failure,
)
from dpadmm.federation.https.tls import BACKDATED
from dpadmm.federation.keys import SigningKey

SECONDS = 10.0
"""How long anything may take."""

_PAGE = "/doctor"
_RENEWED = timedelta(days=1)  # how old a coordinator's certificate is at most


@dataclass
class Attempt:
    """How far a connection got.

    own, dialled: host and port of the coordinator as the client writes them, and those it connected to, which are a
    proxy's where the environment names one. made: when the other side's certificate was made, by its own clock.
    """

    address: Address
    own: tuple[str, int] = ("", 0)
    dialled: tuple[str, int] = ("", 0)
    is_reached: bool = False
    is_secured: bool = False
    made: datetime | None = None
    status: int | None = None
    skew: int | None = None
    failure: Exception | None = field(default=None, repr=False)

    @property
    def days_apart(self) -> int:
        """How many whole days this clock is apart from the coordinator's at least, by the age of its certificate."""
        if self.made is None:
            return 0
        age = datetime.now(UTC) - self.made
        return max(0, (age - _RENEWED).days) if age > timedelta(0) else -max(0, (-age).days)

    def trace(self, event: str, facts: dict[str, Any]) -> None:
        """Take what the client tells of its steps."""
        step = event.partition(".")[2]
        if step == "connect_tcp.started":
            host = facts["host"]
            self.dialled = host.decode() if isinstance(host, bytes) else str(host), int(facts["port"])
        self.is_reached |= step == "connect_tcp.complete"
        if step == "start_tls.complete":
            self.is_secured = True
            tls = facts["return_value"].get_extra_info("ssl_object")
            if shown := tls and tls.getpeercert():
                begin = ssl.cert_time_to_seconds(str(shown["notBefore"]))
                self.made = datetime.fromtimestamp(begin, UTC) + BACKDATED


def attempt_connection(address: Address, key: SigningKey, coordinators: Collection[str]) -> Attempt:
    """Connect with a silo's key, trusting coordinators with these keys only; the certificate for it is thrown away."""
    attempt = Attempt(address)
    with TemporaryDirectory(prefix="dpadmm-doctor-") as folder:
        try:
            with open_client(address, key, Path(folder) / "tls.pem", coordinators) as client:
                attempt.own = attempt.dialled = client.base_url.raw_host.decode(), address.port
                with client.stream("GET", _PAGE, timeout=SECONDS, extensions={"trace": attempt.trace}) as answer:
                    attempt.status, attempt.skew = answer.status_code, skew_of(answer)
        except FAILURES as failure:
            attempt.failure = failure
    return attempt


def report_steps(attempt: Attempt, *, has_terms: bool) -> Iterator[Finding]:
    """Report each step of an attempt, up to the one that failed."""
    where, (host, port) = f"{attempt.address.host}, port {attempt.address.port}", attempt.dialled
    is_proxied = attempt.dialled != attempt.own
    if is_proxied:
        yield Finding("proxy", Level.OK, f"connects through {host}, port {port}, as HTTPS_PROXY says")
    names = list(_resolve(host))
    yield from names
    if not attempt.is_reached:
        if all(name.level is Level.OK for name in names):
            yield _not_reached(attempt, is_proxied=is_proxied)
        return
    yield Finding("port", Level.OK, f"{'the proxy' if is_proxied else where} accepts connections")
    if not attempt.is_secured:
        yield _not_secured(attempt, is_proxied=is_proxied, has_terms=has_terms)
        return
    yield Finding("TLS", Level.OK, f"{where} is the coordinator of approved terms, by its key")
    yield _http(attempt)
    if attempt.days_apart:
        way = "ahead of" if attempt.days_apart > 0 else "behind"
        text = f"this clock is at least {plural(abs(attempt.days_apart), 'day')} {way} the coordinator's"
        advice = "set it, and run a time service (NTP), unless the coordinator's clock is the wrong one"
        yield Finding("clock", Level.PROBLEM, text, advice)
    elif attempt.skew is not None and abs(attempt.skew) > SKEW_SECONDS:
        advice = "timedatectl set-ntp true, on whichever machine is wrong"
        yield Finding("clock", Level.WARNING, describe_skew(attempt.skew), advice)
    elif attempt.skew is not None:
        yield Finding("clock", Level.OK, "it agrees with the coordinator's")


def _resolve(host: str) -> Iterator[Finding]:
    """Look up the name that was dialled; an address needs none."""
    with contextlib.suppress(ValueError):
        ip_address(host)
        return
    try:
        found = sorted({str(each[4][0]) for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)})
    except OSError as failure:
        text = f"{host} cannot be resolved here ({failure.strerror})"
        yield Finding("name", Level.PROBLEM, text, "check the name, and this machine's DNS")
    else:
        yield Finding("name", Level.OK, f"{host} is {', '.join(found)}")


def _describe(attempt: Attempt) -> str:
    return "" if attempt.failure is None else describe_failure(attempt.failure)


def _not_reached(attempt: Attempt, *, is_proxied: bool) -> Finding:
    cause: BaseException | None = attempt.failure
    while cause is not None and not isinstance(cause, OSError):  # the system's own error behind the client's
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ConnectionRefusedError):
        advice = "is `dpadmm coordinator run` running there, on that port and not only on 127.0.0.1?"
        if is_proxied:
            advice = "is HTTPS_PROXY correct? NO_PROXY lists hosts to reach without a proxy"
        text = f"nothing listens on {attempt.dialled[0]}, port {attempt.dialled[1]}"
        return Finding("port", Level.PROBLEM, text, advice)
    advice = "does a firewall block it? It must allow outgoing TCP to this port; or set a proxy"
    return Finding("port", Level.PROBLEM, _describe(attempt), advice)


def _not_secured(attempt: Attempt, *, is_proxied: bool, has_terms: bool) -> Finding:
    what = ConnectionProblem.MACHINE if attempt.failure is None else classify_failure(attempt.failure)
    if what is ConnectionProblem.UNREACHABLE and is_proxied:
        text = f"it does not let the connection through: {attempt.failure}"
        return Finding("proxy", Level.PROBLEM, text, "ask its administrator to allow CONNECT to that address")
    if what is ConnectionProblem.STRANGER and not has_terms:
        text = "a TLS server answers there; only approved terms can tell whose it is"
        return Finding("TLS", Level.WARNING, text, "`dpadmm silo approve`")
    advice = "check the host, the port and anything in between"
    if what is ConnectionProblem.STRANGER:
        advice = "check the address; a proxy that inspects TLS must exempt this host; a coordinator's new key is known "
        advice += "once its next study is joined"
    elif what is ConnectionProblem.CLOCK:
        advice = "set this machine's clock, and run a time service (NTP)"
    return Finding("TLS", Level.PROBLEM, _describe(attempt), advice)


def _http(attempt: Attempt) -> Finding:
    is_closed = attempt.failure is not None and classify_failure(attempt.failure) is ConnectionProblem.HUNG_UP
    if attempt.status in (404, 429):
        return Finding("HTTP", Level.OK, "the coordinator answers, and has an open run with this silo")
    if attempt.status == 403:
        text = "the coordinator answers; it has no open run with this silo now, which is fine"
        return Finding("HTTP", Level.OK, text)
    if attempt.failure is None:
        text = f"the answer is not one of a dpadmm coordinator (HTTP {attempt.status})"
        return Finding("HTTP", Level.PROBLEM, text, "what is in between?")
    if not is_closed:
        return Finding("HTTP", Level.PROBLEM, _describe(attempt))
    if attempt.days_apart:
        text = "the coordinator closed the connection: by its clock this silo's certificate is not valid"
        return Finding("HTTP", Level.PROBLEM, text)
    text = "the coordinator closed the connection: it has no open run with this silo's key yet, which is fine"
    return Finding("HTTP", Level.OK, text)
