"""One call to a coordinator's port, as a silo dials it, told step by step: name, proxy, port, TLS, HTTP, clock.

It asks for a page that no coordinator has. That takes nobody's letters and ends nobody's wait, so it may be done beside
a silo that serves.
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
from typing import TYPE_CHECKING, Any

from dpadmm.checks import plural
from dpadmm.federation.admin.checkups import Checkup, Health, good, problem, warning
from dpadmm.federation.keys import SigningKey

if TYPE_CHECKING:
    from dpadmm.federation.https.line import Place

SECONDS = 10.0
"""How long anything may take."""

_PAGE = "/doctor"
_PROXY = "is HTTPS_PROXY correct? NO_PROXY lists hosts to reach without a proxy"
_RENEWED = timedelta(days=1)  # how old a coordinator's certificate is at most
_OPEN, _NOT_OPEN = (404, 429), 403


@dataclass
class Call:
    """How far a call got: whom it dialled and reached, whose certificate made when it saw, what was answered.

    own: the coordinator's host and port as the client writes them.
    """

    place: "Place"
    own: tuple[str, int] = ("", 0)
    dialled: tuple[str, int] = ("", 0)
    is_reached: bool = False
    is_secured: bool = False
    made: datetime | None = None
    status: int | None = None
    skew: int | None = None
    failure: Exception | None = field(default=None, repr=False)

    @property
    def is_proxied(self) -> bool:
        """Whether it went to a proxy of the environment."""
        return self.dialled != self.own

    @property
    def days_apart(self) -> int:
        """How many whole days this clock is apart from the coordinator's at least, by the age of its certificate."""
        if self.made is None:
            return 0
        age = datetime.now(UTC) - self.made
        return max(0, (age - _RENEWED).days) if age > timedelta(0) else -max(0, (-age).days)

    def note(self, event: str, facts: dict[str, Any]) -> None:
        """Take what the client tells of its steps."""
        if event.endswith("connect_tcp.started"):
            host = facts["host"]
            self.dialled = host.decode() if isinstance(host, bytes) else str(host), int(facts["port"])
        elif event.endswith("connect_tcp.complete"):
            self.is_reached = True
        elif event.endswith("start_tls.complete"):
            self.is_secured = True
            self.made = _made(facts["return_value"].get_extra_info("ssl_object"))


def _words(made: Call) -> str:
    """Say what the failure means, as the silo's own log says it."""
    from dpadmm.federation.https.trouble import words_for

    return "" if made.failure is None else words_for(made.failure)


def _made(secured: ssl.SSLObject | None) -> datetime | None:
    """Return when the other side's certificate was made, by its own clock."""
    from dpadmm.federation.https.certificates import EARLIER

    shown = None if secured is None else secured.getpeercert()
    if not shown:
        return None
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(shown["notBefore"])), UTC) + EARLIER


def call(place: "Place", key: SigningKey, coordinators: Collection[str]) -> Call:
    """Dial with a silo's key, trusting coordinators with these keys only; the certificate for it is thrown away."""
    from dpadmm.federation.https.line import dialled, skew_of
    from dpadmm.federation.https.trouble import FAILURES

    made = Call(place)
    with TemporaryDirectory(prefix="dpadmm-doctor-") as folder:
        try:
            with dialled(place, key, Path(folder) / "tls.pem", coordinators) as client:
                made.own = made.dialled = client.base_url.raw_host.decode(), place.port
                with client.stream("GET", _PAGE, timeout=SECONDS, extensions={"trace": made.note}) as answer:
                    made.status, made.skew = answer.status_code, skew_of(answer)
        except FAILURES as failure:
            made.failure = failure
    return made


def told(made: Call, *, has_terms: bool) -> Iterator[Checkup]:
    """Say what came of a call, step by step, up to the one that failed."""
    where = f"{made.place.host}, port {made.place.port}"
    if made.is_proxied:
        yield good("proxy", f"connects through {made.dialled[0]}, port {made.dialled[1]}, as HTTPS_PROXY says")
    names = list(_named(made))
    yield from names
    if not made.is_reached:
        if all(name.health is Health.OK for name in names):
            yield _not_reached(made)
        return
    yield good("port", f"{'the proxy' if made.is_proxied else where} accepts connections")
    if not made.is_secured:
        yield _not_secured(made, has_terms=has_terms)
        return
    yield good("TLS", f"{where} is the coordinator of approved terms, by its key")
    yield _answered(made)
    yield from _clock(made)


def _named(made: Call) -> Iterator[Checkup]:
    """Look up the name that was dialled; an address needs none."""
    host = made.dialled[0]
    with contextlib.suppress(ValueError):
        ip_address(host)
        return
    try:
        found = sorted({str(each[4][0]) for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)})
    except OSError as failure:
        yield problem(
            "name", f"{host} cannot be resolved here ({failure.strerror})", "check the name, and this machine's DNS"
        )
    else:
        yield good("name", f"{host} is {', '.join(found)}")


def _not_reached(made: Call) -> Checkup:
    if isinstance(_cause(made.failure), ConnectionRefusedError):
        host, port = made.dialled
        advice = "is `dpadmm coordinator run` running there, on that port and not only on 127.0.0.1?"
        return problem("port", f"nothing listens on {host}, port {port}", _PROXY if made.is_proxied else advice)
    return problem(
        "port", _words(made), "does a firewall block it? It must allow outgoing TCP to this port; or set a proxy"
    )


def _not_secured(made: Call, *, has_terms: bool) -> Checkup:
    from dpadmm.federation.https.trouble import Trouble, trouble_of

    trouble = Trouble.MACHINE if made.failure is None else trouble_of(made.failure)
    if trouble is Trouble.UNREACHABLE and made.is_proxied:
        return problem(
            "proxy",
            f"it does not let the connection through: {made.failure}",
            "ask its administrator to allow CONNECT to that address",
        )
    if trouble is Trouble.STRANGER and not has_terms:
        words = "a TLS server answers there; only approved terms can tell whose it is"
        return warning("TLS", words, "`dpadmm silo approve`")
    advice = {
        Trouble.STRANGER: "check the address; a proxy that inspects TLS must exempt this host; a coordinator's new key "
        "is known once its next study is joined",
        Trouble.CLOCK: "set this machine's clock, and run a time service (NTP)",
    }
    return problem("TLS", _words(made), advice.get(trouble, "check the host, the port and anything in between"))


def _answered(made: Call) -> Checkup:
    from dpadmm.federation.https.trouble import Trouble, trouble_of

    if made.status in _OPEN:
        return good("HTTP", "the coordinator answers, and has an open run with this silo")
    if made.status == _NOT_OPEN:
        return good("HTTP", "the coordinator answers; it has no open run with this silo now, which is fine")
    if made.failure is None:
        return problem(
            "HTTP", f"the answer is not one of a dpadmm coordinator (HTTP {made.status})", "what is in between?"
        )
    if trouble_of(made.failure) is not Trouble.HUNG_UP:
        return problem("HTTP", _words(made))
    if made.days_apart:
        return problem(
            "HTTP", "the coordinator closed the connection: by its clock this silo's certificate is not valid"
        )
    return good(
        "HTTP", "the coordinator closed the connection: it has no open run with this silo's key yet, which is fine"
    )


def _clock(made: Call) -> Iterator[Checkup]:
    from dpadmm.federation.https.line import SKEW_SECONDS, skew_words

    if made.days_apart:
        way = "ahead of" if made.days_apart > 0 else "behind"
        words = f"this clock is at least {plural(abs(made.days_apart), 'day')} {way} the coordinator's"
        yield problem(
            "clock", words, "set it, and run a time service (NTP), unless the coordinator's clock is the wrong one"
        )
    elif made.skew is not None and abs(made.skew) > SKEW_SECONDS:
        yield warning("clock", skew_words(made.skew), "timedatectl set-ntp true, on whichever machine is wrong")
    elif made.skew is not None:
        yield good("clock", "it agrees with the coordinator's")


def _cause(failure: BaseException | None) -> BaseException | None:
    """Return the system's own error behind a client's."""
    while failure is not None and not isinstance(failure, OSError):
        failure = failure.__cause__ or failure.__context__
    return failure
