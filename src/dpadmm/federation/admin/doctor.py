"""What keeps a silo or a coordinator from working: its files, the machine, its table and ledger, and the port.

It may be run beside the process that serves: it changes nothing, and a silo's poll goes on.
"""

import contextlib
import os
import platform
import pwd
import shutil
import socket
import ssl
import stat
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from importlib.metadata import version
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dpadmm
from dpadmm.checks import plural
from dpadmm.errors import DpadmmError, LedgerError
from dpadmm.federation.admin.status import (
    OPEN,
    RunState,
    RunStatus,
    SiloView,
    coordinator_runs,
    open_view,
)
from dpadmm.federation.coordinator_store import CoordinatorFiles
from dpadmm.federation.errors import reason_of
from dpadmm.federation.https.client import (
    FAILURES,
    SKEW_SECONDS,
    Address,
    ConnectionProblem,
    classify_failure,
    describe_failure,
    describe_skew,
    open_client,
    skew_of,
)
from dpadmm.federation.https.processes import CoordinatorProcess, SiloProcess, read_status
from dpadmm.federation.https.tls import BACKDATED
from dpadmm.federation.keys import SigningKey, fingerprint
from dpadmm.federation.party_directory import is_held
from dpadmm.federation.policy import Policy
from dpadmm.federation.silo_directory import SiloDirectory, policy_records, schema_digest
from dpadmm.federation.silo_store import paid_labels


class Level(Enum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """One thing that was checked: what was found, and what to do if something is wrong."""

    check: str
    level: Level
    text: str
    advice: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self) | {"level": self.level.value}


def run_checks(checks: dict[str, Callable[[], Iterable[Finding]]]) -> list[Finding]:
    """Return what the checks find; one that fails is a finding itself, with no text but that of our own errors."""
    found: list[Finding] = []
    for name, check in checks.items():
        try:
            found += check()
        except Exception as failure:  # noqa: BLE001 - one check that fails must not hide the others
            found.append(Finding(name, Level.PROBLEM, reason_of(failure)))
    return found


SECONDS = 10.0
"""How long anything may take."""

_PAGE = "/doctor"
_RENEWED = timedelta(days=1)  # how old a coordinator's certificate is at most


@dataclass
class Attempt:
    """How far a connection got.

    own, connected: host and port of the coordinator as the client writes them, and those it connected to, which are a
    proxy's where the environment names one. made: when the other side's certificate was made, by its own clock.
    """

    address: Address
    own: tuple[str, int] = ("", 0)
    connected: tuple[str, int] = ("", 0)
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
        """Take what the client reports of its steps."""
        step = event.partition(".")[2]
        if step == "connect_tcp.started":
            host = facts["host"]
            self.connected = host.decode() if isinstance(host, bytes) else str(host), int(facts["port"])
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
                attempt.own = attempt.connected = client.base_url.raw_host.decode(), address.port
                with client.stream("GET", _PAGE, timeout=SECONDS, extensions={"trace": attempt.trace}) as answer:
                    attempt.status, attempt.skew = answer.status_code, skew_of(answer)
        except FAILURES as failure:
            attempt.failure = failure
    return attempt


def report_steps(attempt: Attempt, *, has_terms: bool) -> Iterator[Finding]:
    """Report each step of an attempt, up to the one that failed."""
    where, (host, port) = f"{attempt.address.host}, port {attempt.address.port}", attempt.connected
    is_proxied = attempt.connected != attempt.own
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
    """Look up the name that was connected; an address needs none."""
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
        text = f"nothing listens on {attempt.connected[0]}, port {attempt.connected[1]}"
        return Finding("port", Level.PROBLEM, text, advice)
    advice = "does a firewall block it? It must allow outgoing TCP to this port; or set a proxy"
    return Finding("port", Level.PROBLEM, _describe(attempt), advice)


def _not_secured(attempt: Attempt, *, is_proxied: bool, has_terms: bool) -> Finding:
    what = ConnectionProblem.MACHINE if attempt.failure is None else classify_failure(attempt.failure)
    if what is ConnectionProblem.UNREACHABLE and is_proxied:
        text = f"it does not let the connection through: {attempt.failure}"
        return Finding("proxy", Level.PROBLEM, text, "ask its administrator to allow CONNECT to that address")
    if what is ConnectionProblem.STRANGER and not has_terms:
        text = "a TLS server answers there; only approved terms show who runs it"
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


LITTLE_SPACE = 200_000_000
"""Bytes: less is worth a warning."""

USUAL_ROUND = {"silo": 5000, "coordinator": 20_000}
"""Bytes that a round takes, where too few are answered to measure it."""

_EXTRA = ("cryptography", "httpx", "uvicorn")  # what federations need besides
_MEASURED_ROUNDS = 20
_NOT_OWNER = stat.S_IRWXG | stat.S_IRWXO
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def examine_silo(directory: Path, coordinator: str | None) -> list[Finding]:
    """Check everything; `coordinator`: HOST:PORT, by default the one connected last, or the one that invited it."""
    files = SiloDirectory(directory)
    files.check()
    process = read_status(files.status, SiloProcess)
    invited = files.read_address() if files.address.exists() else None
    start = f"silo run {files.directory}{'' if invited else ' --coordinator HOST:PORT'}"
    address = coordinator or (invited if process is None else process.coordinator)
    private = [*files.directory.glob("*.db"), *files.directory.glob("*.db.key")]

    def policy() -> Iterator[Finding]:
        found = Policy.load(files.policy)
        yield Finding("policy", Level.OK, f"{found.name!r} allows {', '.join(found.methods)}")

    checks = _common_checks(files, files.key, private, process, start)
    checks |= {"policy": policy, "state": lambda: _state(files), "connection": lambda: _connection(files, address)}
    return run_checks(checks)


def examine_coordinator(directory: Path) -> list[Finding]:
    """Check everything."""
    files = CoordinatorFiles(directory)
    files.check()
    process = read_status(files.status, CoordinatorProcess)
    checks = _common_checks(files, files.key_file, [files.database], process, f"coordinator run {files.directory}")
    checks["runs"] = lambda: _runs(files)
    if process is not None and is_held(files.lock):
        address = Address(_EVERYWHERE.get(process.host, process.host), process.port)
        checks["port"] = lambda: _port(files.key(), address)
    return run_checks(checks)


def _common_checks(
    files: SiloDirectory | CoordinatorFiles,
    key: Path,
    private: Iterable[Path],
    process: SiloProcess | CoordinatorProcess | None,
    start: str,
) -> dict[str, Callable[[], Iterable[Finding]]]:
    """Return what is checked in any directory; `start`: the command that serves it."""

    def installed() -> Iterator[Finding]:
        extra = ", ".join(f"{name} {version(name)}" for name in _EXTRA)
        text = f"dpadmm {dpadmm.__version__}, Python {platform.python_version()}; {extra}"
        yield Finding("installed", Level.OK, text)

    def identity() -> Iterator[Finding]:
        yield Finding("key", Level.OK, f"its fingerprint is {fingerprint(SigningKey.load(key).public)}")

    def serving() -> Iterator[Finding]:
        if not is_held(files.lock):
            advice = f"`dpadmm {start}`, or start its service"
            yield Finding("serving", Level.WARNING, "no process serves this directory now", advice)
        elif process is None:
            advice = "is its disk full, or is it a different version?"
            yield Finding("serving", Level.WARNING, "a process serves it, but reports no status", advice)
        else:
            yield Finding("serving", Level.OK, f"process {process.pid} since {process.started}")

    return {
        "installed": installed,
        "files": lambda: check_owner(files.directory, [key, files.certificate, *private]),
        "key": identity,
        "writing": lambda: check_writable(files.directory),
        "serving": serving,
        "clock": lambda: check_time_service(),  # looked up when it is called
    }


def user_name(number: int) -> str:
    """Return the name of a user, or the number of one that has none here."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _owner(path: Path) -> int | None:
    try:
        return path.lstat().st_uid
    except FileNotFoundError:  # SQLite's side files come and go
        return None


def check_owner(directory: Path, private: Sequence[Path]) -> Iterator[Finding]:
    """Check that directory and files belong to one user, which is this one, and that others cannot read them."""
    found = directory.stat()
    owner = user_name(found.st_uid)
    others = [path.name for path in sorted(directory.rglob("*")) if _owner(path) not in (None, found.st_uid)]
    if others:
        text = f"files in {directory} that do not belong to its owner {owner}: {', '.join(others)}"
        yield Finding("files", Level.PROBLEM, text, f"chown -R {owner} {directory}")
    readable = [path.name for path in private if path.exists() and path.stat().st_mode & _NOT_OWNER]
    if readable:
        advice = f"run chmod 600 on them, in {directory}"
        yield Finding("files", Level.PROBLEM, f"others can read {', '.join(readable)}", advice)
    if found.st_mode & _NOT_OWNER:
        yield Finding("files", Level.WARNING, f"others can list {directory}", f"chmod 700 {directory}")
    if found.st_uid != os.geteuid():
        text = f"they belong to {owner}, but this is {user_name(os.geteuid())}"
        yield Finding("files", Level.WARNING, text, f"run this as {owner}, as the service does")
    if not others and not readable:
        yield Finding("files", Level.OK, f"all belong to {owner}; keys are private")


def check_space(directory: Path, round_bytes: float, rounds: int) -> Finding:
    """Check that the disk has room for the rounds that are due, each of which takes about so much."""
    free = shutil.disk_usage(directory).free
    text = f"{free / 1e6:.0f} MB free, enough for about {free // round_bytes:,.0f} rounds"
    if free < 2 * rounds * round_bytes:
        advice = "free some space: a full disk stalls the run"
        return Finding("disk", Level.PROBLEM, f"{text}; {rounds} are still to come", advice)
    return Finding("disk", Level.WARNING, text, "make room") if free < LITTLE_SPACE else Finding("disk", Level.OK, text)


def check_writable(directory: Path) -> Iterator[Finding]:
    """Write a little file, make it durable, and take it away again."""
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".doctor-") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        yield Finding("writing", Level.OK, f"{directory} can be written")
    except OSError as refused:
        text = f"{directory} cannot be written: {refused.strerror}"
        yield Finding("writing", Level.PROBLEM, text, "check permissions, quota and mount")


def check_time_service() -> Iterator[Finding]:
    """Ask the system whether its clock follows a time service; nothing where that is unknown."""
    ask = ["timedatectl", "show", "--property=NTPSynchronized", "--value"]
    try:
        answer = subprocess.run(ask, capture_output=True, text=True, timeout=5, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return
    if answer == "yes":
        yield Finding("clock", Level.OK, "it follows a time service (NTP)")
    elif answer == "no":
        text = "no time service (NTP) keeps it synchronised"
        yield Finding("clock", Level.WARNING, text, "timedatectl set-ntp true")


def _state(files: SiloDirectory) -> list[Finding]:
    """Check schema, table, ledger, runs and the room that they need."""
    with open_view(files.directory) as view:
        runs = view.runs()
        due = sum(run.rounds - (run.round or 0) for run in runs if run.state in OPEN)
        rounds, taken = view.store.count_answers(), view.store.ledger.path.stat().st_size
        round_bytes = taken / rounds if rounds >= _MEASURED_ROUNDS else USUAL_ROUND["silo"]
        return run_checks(
            {
                "schema": lambda: _schema(view),
                "ledger": lambda: _ledger(view),
                "table": lambda: _table(view, runs),
                "disk": lambda: [check_space(files.directory, round_bytes, due)],
            }
        )


def _schema(view: SiloView) -> Iterator[Finding]:
    digest = schema_digest(view.files.schema)
    others = [terms.run for terms in view.store.all_terms(with_closed=True) if terms.schema != digest]
    if others:
        text = f"{', '.join(others)}: the terms name a different schema from {view.files.schema}"
        yield Finding("schema", Level.PROBLEM, text, "restore the schema with which the silo was created")
    else:
        yield Finding("schema", Level.OK, f"its digest is {digest[:16]}...")


def _ledger(view: SiloView) -> Iterator[Finding]:
    """Check the chain, and what is left of the budget."""
    view.store.ledger.verify()
    found = view.store.ledger.statement()
    yield Finding("ledger", Level.OK, f"{found.entries} entries; the chain is intact")
    left = f"epsilon {found.left_epsilon:.4g} of {found.budget.epsilon:.4g} is left at delta {found.budget.delta:.3g}"
    if found.left_epsilon == 0:
        advice = "no further run fits; only the owner can decide on a larger budget"
        yield Finding("budget", Level.WARNING, left, advice)
    else:
        yield Finding("budget", Level.OK, f"{left}, against {found.protection.observer}")


def _table(view: SiloView, runs: Sequence[RunStatus]) -> Iterator[Finding]:
    """Read the table, as the silo does; check that the ledger knows it, and that approved runs fit the budget."""
    table = policy_records(view.policy, view.files.schema).table
    try:
        confirmed = view.store.ledger.confirm([table])
    except LedgerError as refusal:
        advice = "restore the table, or continue with a changed one: `dpadmm silo new-data`"
        text = f"{view.policy.data}: {str(refusal).partition('. ')[0]}"
        yield Finding("table", Level.PROBLEM, text, advice)
        return
    text = f"{view.policy.data} can be read, and is the one known to the ledger"
    yield Finding("table", Level.OK, text)
    for run in runs:
        if run.state is RunState.REFUSED:
            text = f"{run.run!r} would be refused: {run.reason}"
            yield Finding("runs", Level.PROBLEM, text, "see policy.toml")
    may_go_on = {run.digest for run in runs if run.state in OPEN}
    for terms in view.store.all_terms(with_closed=True):
        if terms.digest not in may_go_on:
            continue
        try:
            if releases := terms.all_releases(terms.agent(view.policy.name)):
                confirmed.check_budget(releases, **paid_labels(terms))
        except DpadmmError as refusal:
            yield Finding("budget", Level.PROBLEM, f"run {terms.run!r} does not fit: {refusal}")


def _connection(files: SiloDirectory, address: str | None) -> Iterator[Finding]:
    if address is None:
        text = "the connection to the coordinator was not tried"
        yield Finding("connection", Level.WARNING, text, "give --coordinator HOST:PORT")
        return
    with open_view(files.directory) as view:
        keys = {terms.coordinator for terms in view.store.all_terms(with_closed=True)}
    attempt = attempt_connection(Address.parse(address), SigningKey.load(files.key), keys)
    yield from report_steps(attempt, has_terms=bool(keys))


def _runs(files: CoordinatorFiles) -> Iterator[Finding]:
    runs = coordinator_runs(files, None)
    due = sum(run.rounds - (run.round or 0) for run in runs if run.state in OPEN)
    yield Finding("runs", Level.OK, plural(len(runs), "run"))
    yield check_space(files.directory, USUAL_ROUND["coordinator"], due)


def _port(key: SigningKey, address: Address) -> Iterator[Finding]:
    """Connect as a silo does, with a key that nobody knows, and check that the coordinator's own key answers."""
    attempt = attempt_connection(address, SigningKey.new(), [key.public])
    if attempt.is_secured:
        yield Finding("port", Level.OK, f"{address.host}, port {address.port} answers with this coordinator's key")
    else:
        yield from (each for each in report_steps(attempt, has_terms=True) if each.check in ("port", "TLS"))
