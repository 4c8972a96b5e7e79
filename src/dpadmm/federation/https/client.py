"""A silo at work: it connects to its coordinator, waits for requests, answers them one by one, and connects again."""

import logging
import os
import re
import sqlite3
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path

import httpx

from dpadmm.errors import DpadmmError, InputError
from dpadmm.federation import messages
from dpadmm.federation.errors import MACHINE_FAILURES, UnexpectedFailure, reason_of
from dpadmm.federation.https.processes import SiloProcess, StopRequested, StopSignals, publish_status
from dpadmm.federation.https.queue import POLL_SECONDS
from dpadmm.federation.https.tls import client_context
from dpadmm.federation.keys import SIGNATURE_BYTES, SigningKey
from dpadmm.federation.messages import largest_request
from dpadmm.federation.party_directory import exclusive_lock
from dpadmm.federation.policy import Policy
from dpadmm.federation.silo import Silo
from dpadmm.federation.silo_directory import Records, SiloDirectory, records_apart
from dpadmm.federation.sqlite_file import now

_CLOCK_ERRORS = (9, 10)  # OpenSSL: not yet valid, expired
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")


class CoordinatorUnavailable(Exception):
    """Nothing can be exchanged with the coordinator now; the message says why."""


FAILURES = (httpx.HTTPError, CoordinatorUnavailable, OSError, sqlite3.Error)
"""What may pass, and is tried again."""


class ConnectionProblem(Enum):
    """What a failure means, and what to do about it."""

    CLOCK = "the coordinator's certificate is not valid by this machine's clock, {now}; check the clock"
    STRANGER = "the server there is not the coordinator of any approved terms"
    NO_TLS = "the server there does not speak TLS (is this the coordinator's port?)"
    HUNG_UP = "the coordinator closed the connection: no open run or invitation has this key, or a clock is wrong"
    SLOW = "the coordinator did not answer in time"
    UNREACHABLE = "the coordinator cannot be reached ({problem})"
    REFUSED = "{problem}"
    FILES = "the silo's files cannot be written ({problem})"
    MACHINE = "this machine failed ({reason})"
    UNEXPECTED = "UnexpectedFailure, {fault}"


def classify_failure(problem: BaseException) -> ConnectionProblem:
    """Return what a failure of a connection means."""
    cause: BaseException | None = problem
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    match problem, cause:
        case _, ssl.SSLCertVerificationError() if cause.verify_code in _CLOCK_ERRORS:
            return ConnectionProblem.CLOCK
        case _, ssl.SSLCertVerificationError():
            return ConnectionProblem.STRANGER
        case _, ssl.SSLError() if cause.reason in _NO_TLS:
            return ConnectionProblem.NO_TLS
        case (_, ssl.SSLError()) | (httpx.RemoteProtocolError() | httpx.ReadError() | httpx.WriteError(), _):
            return ConnectionProblem.HUNG_UP
        case httpx.TimeoutException(), _:
            return ConnectionProblem.SLOW
        case httpx.HTTPError(), _:
            return ConnectionProblem.UNREACHABLE
        case CoordinatorUnavailable(), _:
            return ConnectionProblem.REFUSED
        case sqlite3.Error(), _:
            return ConnectionProblem.FILES
    return ConnectionProblem.MACHINE if isinstance(problem, MACHINE_FAILURES) else ConnectionProblem.UNEXPECTED


def describe_failure(problem: Exception) -> str:
    """Say what a failure means; the text of other packages may quote anything."""
    reason = str(problem) if isinstance(problem.__cause__, DpadmmError) else reason_of(problem)
    now, fault = datetime.now(UTC).isoformat(timespec="minutes"), UnexpectedFailure(problem)
    return classify_failure(problem).value.format(now=now, problem=problem, reason=reason, fault=fault)


RETRY_SECONDS = (0.2, 5.0)
"""How soon a silo whose connection failed connects again: at first, and at most."""

READ_SECONDS = POLL_SECONDS + 15.0
"""How long nothing may come, while something is waited for."""

REQUEST_SECONDS = 120.0
"""How long a request may take to arrive, once it begins."""

SKEW_SECONDS = 5.0
"""Clocks that differ by more are logged."""

RENEW_SECONDS = 24 * 3600.0
"""After so long a silo connects anew, with a new certificate."""

DEFAULT_PORT = 9092
_ADDRESS = re.compile(r"(https://)?(?P<host>[\w.-]+|\[[0-9a-fA-F:.%]+\])(:(?P<port>\d{1,5}))?")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_log = logging.getLogger("dpadmm.silo")


@dataclass(frozen=True)
class Address:
    """Where a coordinator listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, address: str) -> "Address":
        """Read HOST or HOST:PORT; refuse anything else."""
        found = _ADDRESS.fullmatch(address)
        port = 0 if found is None else int(found["port"] or DEFAULT_PORT)
        if found is None or not 0 < port < 65536:
            raise InputError(f"The coordinator's address must be HOST or HOST:PORT, got {address!r}.")
        return cls(found["host"].strip("[]"), port)

    @property
    def url(self) -> str:
        """The address as a client takes it."""
        return f"https://[{self.host}]:{self.port}" if ":" in self.host else f"https://{self.host}:{self.port}"


class SiloClient:
    """The connection of a silo to the coordinator at `address`, HOST or HOST:PORT; `status`: how it stands."""

    def __init__(self, silo: Silo, address: str, signals: StopSignals) -> None:
        """Check the address."""
        self.silo, self.signals, self._address = silo, signals, Address.parse(address)
        self.status = SiloProcess(pid=os.getpid(), started=now(), coordinator=address, since=now())

    def serve(self) -> None:
        """Answer requests until a signal comes."""
        pause = RETRY_SECONDS[0]
        with suppress(StopRequested):
            while not self.signals.is_asked:
                try:
                    terms = self.silo.store.all_terms()
                    if not terms:
                        raise CoordinatorUnavailable("no terms are approved yet (`dpadmm silo approve`); waiting")
                    trusted, certificate = {each.coordinator for each in terms}, self.silo.files.certificate
                    with open_client(self._address, self.silo.key, certificate, trusted) as client:
                        until = time.monotonic() + RENEW_SECONDS
                        while time.monotonic() < until:
                            self.exchange(client)
                            pause = RETRY_SECONDS[0]
                except Exception as problem:  # noqa: BLE001 - whatever the coordinator sends, the silo goes on serving
                    retry = "" if isinstance(problem, CoordinatorUnavailable) else "; trying again"
                    self._report(f"{describe_failure(problem)}{retry}", is_connected=False)
                    self.signals.sleep(pause)
                    pause = min(2 * pause, RETRY_SECONDS[1])

    def exchange(self, client: httpx.Client) -> None:
        """Wait for a request and answer it; the answer is durable before it leaves: a lost one is asked for again."""
        request = self._next_request(client)
        if request is None:
            self.signals.sleep(RETRY_SECONDS[0])  # in case polls come back at once
            return
        self._send(client, messages.mark(request[SIGNATURE_BYTES:]), self.silo.answer(request))
        self.status = replace(self.status, answered=now())

    def _send(self, client: httpx.Client, mark: str, reply: bytes) -> None:
        with client.stream("PUT", f"/answers/{mark}", content=reply) as sent:
            if sent.status_code == 204:
                _read_to_end(sent)
            elif sent.status_code != 404:  # nobody waits for it any more
                raise CoordinatorUnavailable(f"the coordinator did not take an answer (HTTP {sent.status_code})")

    def _next_request(self, client: httpx.Client) -> bytes | None:
        with self.signals.waiting(), client.stream("GET", "/next") as answer:
            skew = skew_of(answer)
            if skew is not None:  # nothing depends on it but certificates and the times in logs
                if abs(skew) > SKEW_SECONDS and abs(skew - (self.status.skew_seconds or 0)) > 1:
                    _log.warning("%s", describe_skew(skew))
                self.status = replace(self.status, skew_seconds=skew)
            if answer.status_code == 403:  # before it is logged as connected, so that a silo with no run logs one line
                raise CoordinatorUnavailable("the coordinator has no open run with this silo; waiting for one")
            address = self.status.coordinator
            self._report(f"connected to {address} by TLS 1.3; waiting for requests", is_connected=True)
            if answer.status_code == 204:
                _read_to_end(answer)
                return None
            if answer.status_code != 200 or "content-encoding" in answer.headers:
                raise CoordinatorUnavailable(
                    f"the answer is not one of a dpadmm coordinator (HTTP {answer.status_code})"
                )
            return read_at_most(answer, max(map(largest_request, self.silo.store.all_terms()), default=0))

    def _report(self, text: str, *, is_connected: bool) -> None:
        """Log and publish what changes."""
        if text != self.status.connection:
            _log.info("%s", text)
            self.status = replace(self.status, connection=text, since=now(), is_connected=is_connected)


@contextmanager
def open_client(
    address: Address, key: SigningKey, certificate: Path, coordinators: Iterable[str]
) -> Iterator[httpx.Client]:
    """Yield a client that talks to the coordinators with these keys alone, whatever proxy of the environment it uses.

    key: who it shows itself as. certificate: where its certificate is kept meanwhile.
    """
    nothing = CookieJar(DefaultCookiePolicy(allowed_domains=()))  # is kept for coordinators, poll by poll
    with httpx.Client(
        base_url=address.url,
        verify=client_context(key, certificate, coordinators),
        timeout=httpx.Timeout(10.0, read=READ_SECONDS, write=60.0),
        headers={"accept-encoding": "identity", "user-agent": "dpadmm"},
        cookies=nothing,
        event_hooks={"response": [_refuse_redirect]},
        trust_env=address.host not in _LOOPBACK,
    ) as client:
        yield client


def skew_of(answer: httpx.Response) -> int | None:
    """Return how many seconds this clock is ahead of the one that dated an answer; None where none did."""
    try:
        theirs = parsedate_to_datetime(answer.headers.get("date", ""))
        return round((datetime.now(UTC) - theirs).total_seconds())
    except (ValueError, TypeError):  # none, or none with a zone
        return None


def describe_skew(skew: int) -> str:
    """Say that clocks differ, and what to look at."""
    way = "ahead of" if skew > 0 else "behind"
    return f"this clock is {abs(skew)} s {way} the coordinator's: is the time service (NTP) running?"


def read_at_most(answer: httpx.Response, most: int) -> bytes:
    """Return the body of an answer that is no longer than that, and does not take for ever."""
    body, until = bytearray(), time.monotonic() + REQUEST_SECONDS
    for part in answer.iter_raw():
        body += part
        if len(body) > most or time.monotonic() > until:
            raise CoordinatorUnavailable(
                f"a request is longer than the {most} bytes that any approved terms allow, or has no end; it was "
                "not read"
            )
    return bytes(body)


def _refuse_redirect(answer: httpx.Response) -> None:
    """Go nowhere else, and look at no other address: it may be none."""
    if answer.has_redirect_location:
        raise CoordinatorUnavailable(
            f"the server there redirects this silo elsewhere (HTTP {answer.status_code}); it does not follow"
        )


def _read_to_end(answer: httpx.Response) -> None:
    """Read to the end of an answer that by HTTP has no body, so that the connection can be used again."""
    for _ in answer.iter_raw():
        pass


def run_silo(directory: Path, address: str, read: Callable[[Policy, Path], Records] = records_apart) -> None:
    """Serve the silo of a directory until a signal comes, alone in it; `read`: how its table is read."""
    files = SiloDirectory(directory)
    files.check()
    signals = StopSignals()
    with exclusive_lock(files.lock, "This silo"), closing(Silo(files.directory, read=read)) as silo:
        client = SiloClient(silo, address, signals)
        runs = ", ".join(repr(each.run) for each in silo.store.all_terms()) or "none"
        _log.info("silo %r is running; approved: %s; coordinator at %s", silo.policy.name, runs, address)
        with publish_status(files.status, lambda: client.status):
            client.serve()
        _log.info("silo %r ends", silo.policy.name)
