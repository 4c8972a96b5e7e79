"""A silo at work: it dials its coordinator, waits for letters, answers them one by one, and dials again if cut off."""

import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path

import httpx

from dpadmm.errors import InputError
from dpadmm.federation import messages
from dpadmm.federation.durable import now
from dpadmm.federation.https.app import POLL_SECONDS
from dpadmm.federation.https.certificates import client_context
from dpadmm.federation.https.notice import SiloNotice, telling
from dpadmm.federation.https.processes import Ended, EndSignals
from dpadmm.federation.https.trouble import CutOff, words_for
from dpadmm.federation.keys import SIGNATURE_BYTES, SigningKey
from dpadmm.federation.locks import sole
from dpadmm.federation.policy import Policy
from dpadmm.federation.silo import Silo
from dpadmm.federation.silo_files import Records, SiloFiles, records_apart
from dpadmm.federation.sizes import largest_request

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
_log = logging.getLogger("dpadmm.silo")


@dataclass(frozen=True)
class Place:
    """Where a coordinator listens."""

    host: str
    port: int

    @classmethod
    def of(cls, address: str) -> "Place":
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


@dataclass
class Line:
    """The line of a silo to the coordinator at `address`, HOST or HOST:PORT."""

    silo: Silo
    address: str
    ending: EndSignals

    def __post_init__(self) -> None:
        """Check the address."""
        Place.of(self.address)
        self._notice = SiloNotice(
            pid=os.getpid(),
            started=now(),
            coordinator=self.address,
            is_connected=False,
            line="not dialled yet",
            since=now(),
            skew_seconds=None,
            answered=None,
        )

    def notice(self) -> SiloNotice:
        """Return what there is to tell; any thread may ask."""
        return self._notice

    def serve(self) -> None:
        """Answer letters until a signal comes."""
        pause = RETRY_SECONDS[0]
        while not self.ending.is_asked:
            try:
                terms = self.silo.store.agreements()
                if not terms:
                    raise CutOff("no terms are approved yet (`dpadmm silo approve`); waiting")
                coordinators = {each.coordinator for each in terms}
                with dialled(self.address, self.silo.key, self.silo.files.certificate, coordinators) as client:
                    until = time.monotonic() + LINE_SECONDS
                    while time.monotonic() < until:
                        self._exchange(client)
                        pause = RETRY_SECONDS[0]
            except Ended:
                return
            except Exception as problem:  # noqa: BLE001 - whatever the coordinator sends, the silo goes on serving
                waits = "" if isinstance(problem, CutOff) else "; trying again"
                self._tell(f"{words_for(problem)}{waits}", is_connected=False)
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
        self._send(client, messages.mark(letter[SIGNATURE_BYTES:]), self.silo.answer(letter))
        self._notice = replace(self._notice, answered=now())

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
            self._tell(f"connected to {self.address}, {_version(answer)}; waiting for requests", is_connected=True)
            if answer.status_code == 204:
                _end(answer)
                return None
            if answer.status_code != 200 or "content-encoding" in answer.headers:
                raise CutOff(f"the answer is not one of a dpadmm coordinator (HTTP {answer.status_code})")
            return read_at_most(answer, max(map(largest_request, self.silo.store.agreements()), default=0))

    def _check_clock(self, answer: httpx.Response) -> None:
        """Tell once of clocks that differ; nothing depends on them but certificates and the times in logs."""
        skew = skew_of(answer)
        if skew is None:
            return
        if abs(skew) > SKEW_SECONDS and abs(skew - (self._notice.skew_seconds or 0)) > 1:
            _log.warning("%s", skew_words(skew))
        self._notice = replace(self._notice, skew_seconds=skew)

    def _tell(self, words: str, *, is_connected: bool) -> None:
        """Say what changes."""
        if words != self._notice.line:
            _log.info("%s", words)
            self._notice = replace(self._notice, line=words, since=now(), is_connected=is_connected)


@contextmanager
def dialled(
    address: str | Place, key: SigningKey, certificate: Path, coordinators: Iterable[str]
) -> Iterator[httpx.Client]:
    """Yield a client that talks to the coordinators with these keys alone; proxies of the environment lead elsewhere.

    key: who it shows itself as. certificate: where its certificate is kept meanwhile.
    """
    place = Place.of(address) if isinstance(address, str) else address
    nothing = CookieJar(DefaultCookiePolicy(allowed_domains=()))  # is kept for coordinators, poll by poll
    with httpx.Client(
        base_url=place.url,
        verify=client_context(key, certificate, coordinators),
        timeout=httpx.Timeout(10.0, read=READ_SECONDS, write=60.0),
        headers={"accept-encoding": "identity", "user-agent": "dpadmm"},
        cookies=nothing,
        event_hooks={"response": [_stay]},
        trust_env=place.host not in _LOOPBACK,
    ) as client:
        yield client


def skew_of(answer: httpx.Response) -> int | None:
    """Return how many seconds this clock is ahead of the one that dated an answer; None where none did."""
    try:
        theirs = parsedate_to_datetime(answer.headers.get("date", ""))
        return round((datetime.now(UTC) - theirs).total_seconds())
    except (ValueError, TypeError):  # none, or none with a zone
        return None


def skew_words(skew: int) -> str:
    """Say that clocks differ, and what to look at."""
    way = "ahead of" if skew > 0 else "behind"
    return f"this clock is {abs(skew)} s {way} the coordinator's: is the time service (NTP) running?"


def read_at_most(answer: httpx.Response, most: int) -> bytes:
    """Return the body of an answer that is no longer than that, and does not take for ever."""
    body, until = bytearray(), time.monotonic() + LETTER_SECONDS
    for part in answer.iter_raw():
        body += part
        if len(body) > most or time.monotonic() > until:
            raise CutOff(
                f"a request is longer than the {most} bytes that any approved terms allow, or has no end; it was "
                "not read"
            )
    return bytes(body)


def _stay(answer: httpx.Response) -> None:
    """Go nowhere else, and look at no other address: it may be none."""
    if answer.has_redirect_location:
        raise CutOff(f"the server there redirects this silo elsewhere (HTTP {answer.status_code}); it does not follow")


def _end(answer: httpx.Response) -> None:
    """Read to the end of an answer that by HTTP has no body, so that the connection can be used again."""
    for _ in answer.iter_raw():
        pass


def _version(answer: httpx.Response) -> str:
    stream = answer.extensions.get("network_stream")
    secured = None if stream is None else stream.get_extra_info("ssl_object")
    return "TLS" if secured is None else str(secured.version())


def run_silo(
    directory: Path,
    address: str,
    read: Callable[[Policy, Path], Records] = records_apart,
) -> None:
    """Serve the silo of a directory until a signal comes, alone in it.

    read: how its table is read.
    """
    files = SiloFiles(Path(directory))
    files.check()
    ending = EndSignals()
    with sole(files.lock, "This silo"):
        silo = Silo(files.directory, read=read)
        try:
            silo.check_ledger()
            runs = ", ".join(repr(each.run) for each in silo.store.agreements()) or "none"
            line = Line(silo, address, ending)
            _log.info("silo %r is running; approved: %s; coordinator at %s", silo.policy.name, runs, address)
            with telling(files.status, line.notice):
                line.serve()
            _log.info("silo %r ends", silo.policy.name)
        finally:
            silo.close()


def main() -> None:
    """`python -m dpadmm.federation.https.line DIR HOST:PORT`: what a rehearsal starts."""
    import sys

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it reports every poll
    run_silo(Path(sys.argv[1]), sys.argv[2])


if __name__ == "__main__":
    main()
