"""A silo at work: it dials its coordinator, waits for letters, answers them one by one, and dials again if cut off."""

import logging
import re
import sqlite3
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path

import httpx

from dpadmm.engines.federation import messages
from dpadmm.engines.federation.keys import SigningKey
from dpadmm.engines.federation.locks import sole
from dpadmm.engines.federation.policy import Policy
from dpadmm.engines.federation.refusal import reason_of
from dpadmm.engines.federation.silo import Silo
from dpadmm.engines.federation.silo_files import Records, SiloFiles, records_apart
from dpadmm.engines.federation.sizes import largest_request
from dpadmm.engines.https.app import POLL_SECONDS
from dpadmm.engines.https.certificates import client_context
from dpadmm.engines.https.processes import Ended, EndSignals
from dpadmm.errors import DpadmmError, InputError

RETRY_SECONDS = (0.2, 5.0)
"""How soon a silo that is cut off dials again: at first, and at most."""

READ_SECONDS = POLL_SECONDS + 15.0
"""How long nothing may come, while something is waited for."""

LETTER_SECONDS = 120.0
"""How long a letter may take to arrive, once it begins."""

SKEW_SECONDS = 5.0
"""Clocks that differ by more are told of."""

LINE_SECONDS = 24 * 3600.0
"""After so long a silo dials anew, with a new certificate."""

DEFAULT_PORT = 9092
_ADDRESS = re.compile(r"(https://)?(?P<host>[\w.-]+|\[[0-9a-fA-F:.%]+\])(:(?P<port>\d{1,5}))?")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_CLOCK_ERRORS = (9, 10)  # OpenSSL: not yet valid, expired
_log = logging.getLogger("dpadmm.silo")


class CutOff(Exception):
    """The line is down; the message says why."""


def url_of(address: str) -> httpx.URL:
    """Return where to dial for HOST or HOST:PORT."""
    found = _ADDRESS.fullmatch(address)
    port = 0 if found is None else int(found["port"] or DEFAULT_PORT)
    if found is None or not 0 < port < 65536:
        raise InputError(f"The coordinator's address must be HOST or HOST:PORT, got {address!r}.")
    return httpx.URL(f"https://{found['host']}:{port}")


@contextmanager
def dialled(address: str, key: SigningKey, certificate: Path, coordinators: Iterable[str]) -> Iterator[httpx.Client]:
    """Yield a client that talks to the coordinators with these keys alone; to other machines by the proxies set here.

    key: who it shows itself as. certificate: where its certificate is kept meanwhile.
    """
    url = url_of(address)
    context = client_context(key, certificate, coordinators)
    nothing = CookieJar(DefaultCookiePolicy(allowed_domains=()))  # is kept for coordinators, poll by poll
    with httpx.Client(
        base_url=url,
        verify=context,
        timeout=httpx.Timeout(10.0, read=READ_SECONDS, write=60.0),
        headers={"accept-encoding": "identity", "user-agent": "dpadmm"},
        cookies=nothing,
        event_hooks={"response": [_stay]},
        trust_env=url.host not in _LOOPBACK,
    ) as client:
        yield client


UNREACHED = (httpx.HTTPError, CutOff, OSError, sqlite3.Error)
"""How a line fails, or the machine at this end of it: `words_for` says what it means."""


@dataclass
class Line:
    """The line of a silo to the coordinator at `address`, HOST or HOST:PORT."""

    silo: Silo
    address: str
    ending: EndSignals
    _skew: float = field(default=0.0, init=False)
    _said: str = field(default="", init=False)

    def __post_init__(self) -> None:
        """Check the address."""
        url_of(self.address)

    def serve(self) -> None:
        """Answer letters until a signal comes."""
        pause = RETRY_SECONDS[0]
        while not self.ending.is_asked:
            try:
                terms = self.silo.agreements()
                if not terms:
                    raise CutOff("no terms are approved yet (`dpadmm silo approve`); waiting for some")
                coordinators = {each.coordinator for each in terms}
                with dialled(self.address, self.silo.key, self.silo.files.certificate, coordinators) as client:
                    until = time.monotonic() + LINE_SECONDS
                    while time.monotonic() < until:
                        self._exchange(client)
                        pause = RETRY_SECONDS[0]
            except Ended:
                return
            except UNREACHED as problem:
                self._tell(words_for(problem))
                self._sleep(pause)
                pause = min(2 * pause, RETRY_SECONDS[1])

    def _sleep(self, seconds: float) -> None:
        try:
            self.ending.sleep(seconds)
        except Ended:
            return

    def _exchange(self, client: httpx.Client) -> None:
        """Wait for a letter and answer it; the answer is durable before it leaves, so a lost one is asked for again."""
        letter = self._letter(client)
        if letter is None:
            self._sleep(RETRY_SECONDS[0])  # in case polls come back at once
            return
        self._send(client, messages.mark(letter[messages.SIGNATURE_BYTES :]), self.silo.answer(letter))

    def _send(self, client: httpx.Client, mark: str, reply: bytes) -> None:
        """Let the answer to the letter with this mark leave."""
        with client.stream("PUT", f"/answers/{mark}", content=reply) as sent:
            if sent.status_code == 204:
                _end(sent)
            elif sent.status_code != 404:  # nobody waits for it any more
                raise CutOff(f"the coordinator did not take an answer (HTTP {sent.status_code})")

    def _letter(self, client: httpx.Client) -> bytes | None:
        with self.ending.waiting(), client.stream("GET", "/next") as answer:
            self._check_clock(answer)
            if answer.status_code == 403:  # before it is said to be connected, so that a silo with no run logs one line
                raise CutOff("the coordinator has no open run with this silo; waiting for one")
            self._tell(f"connected to {self.address}, {_version(answer)}; waiting for requests")
            if answer.status_code == 204:
                _end(answer)
                return None
            if answer.status_code != 200 or "content-encoding" in answer.headers:
                raise CutOff(f"the coordinator's answer is none of ours (HTTP {answer.status_code})")
            return self._read(answer)

    def _read(self, answer: httpx.Response) -> bytes:
        """Return a letter that is no larger than any of the terms allow."""
        return read_at_most(answer, max(largest_request(each) for each in self.silo.agreements()))

    def _check_clock(self, answer: httpx.Response) -> None:
        """Tell once of clocks that differ; nothing depends on them but certificates and the times in logs."""
        try:
            theirs = parsedate_to_datetime(answer.headers.get("date", ""))
            skew = round((datetime.now(UTC) - theirs).total_seconds())
        except (ValueError, TypeError):  # none, or none with a zone
            return
        if abs(skew) > SKEW_SECONDS and abs(skew - self._skew) > 1:
            way = "ahead of" if skew > 0 else "behind"
            _log.warning("this clock is %d s %s the coordinator's: does its time service (NTP) run?", abs(skew), way)
        self._skew = skew

    def _tell(self, words: str) -> None:
        """Say what changes."""
        if words != self._said:
            _log.info("%s", words)
            self._said = words


def read_at_most(answer: httpx.Response, most: int) -> bytes:
    """Return the body of an answer that is no longer than that, and does not take for ever."""
    body, until = bytearray(), time.monotonic() + LETTER_SECONDS
    for part in answer.iter_raw():
        body += part
        if len(body) > most or time.monotonic() > until:
            raise CutOff(f"a request is longer than the {most} bytes of any approved terms, or endless; not read")
    return bytes(body)


def _stay(answer: httpx.Response) -> None:
    """Go nowhere else, and look at no other address: it may be none."""
    if answer.has_redirect_location:
        raise CutOff(f"whoever answers there sends this silo elsewhere (HTTP {answer.status_code}); it does not go")


def _end(answer: httpx.Response) -> None:
    """Read to the end of an answer that by HTTP has no body, so that the connection can be used again."""
    for _ in answer.iter_raw():
        pass


def _version(answer: httpx.Response) -> str:
    stream = answer.extensions.get("network_stream")
    secured = None if stream is None else stream.get_extra_info("ssl_object")
    return "TLS" if secured is None else str(secured.version())


def words_for(problem: Exception) -> str:
    """Say what a line that is down means, and what to do about it; the text of other packages may quote anything."""
    cause: BaseException | None = problem
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError) and cause.verify_code in _CLOCK_ERRORS:
        now = datetime.now(UTC).isoformat(timespec="minutes")
        return f"the coordinator's certificate is not valid by this machine's clock, {now}; check it. Trying again"
    match problem, cause:
        case _, ssl.SSLCertVerificationError():
            return "whoever answers there is not the coordinator of any approved terms; trying again"
        case _, ssl.SSLError(reason="WRONG_VERSION_NUMBER" | "RECORD_LAYER_FAILURE" | "HTTP_REQUEST"):
            return "whoever answers there speaks no TLS: is it the coordinator's port? Trying again"
        case (_, ssl.SSLError()) | (httpx.RemoteProtocolError() | httpx.ReadError() | httpx.WriteError(), _):
            return "the coordinator hung up: no open run or invitation has this key, or a clock is wrong; trying again"
        case httpx.TimeoutException(), _:
            return "the coordinator does not answer in time; trying again"
        case httpx.HTTPError(), _:
            return f"the coordinator cannot be reached ({problem}); trying again"
        case CutOff(), _:
            return str(problem)
        case sqlite3.Error(), _:
            return f"the silo's files cannot be written ({problem}); trying again"
    told = str(problem) if isinstance(problem.__cause__, DpadmmError) else reason_of(problem)
    return f"this machine has failed ({told}); trying again"


def run_silo(directory: Path, address: str, read: Callable[[Policy, Path], Records] = records_apart) -> None:
    """Serve the silo of a directory until a signal comes, alone in it; `read`: how its table is read."""
    files = SiloFiles(Path(directory))
    files.check()
    ending = EndSignals()
    with sole(files.lock, "This silo"):
        silo = Silo(files.directory, read=read)
        try:
            silo.check_ledger()
            runs = ", ".join(repr(each.run) for each in silo.agreements()) or "none"
            line = Line(silo, address, ending)
            _log.info("silo %r serves; approved: %s; coordinator at %s", silo.policy.name, runs, address)
            line.serve()
            _log.info("silo %r ends", silo.policy.name)
        finally:
            silo.close()


def main() -> None:
    """`python -m dpadmm.engines.https.line DIR HOST:PORT`: what a rehearsal starts."""
    import sys

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it reports every poll
    run_silo(Path(sys.argv[1]), sys.argv[2])


if __name__ == "__main__":
    main()
