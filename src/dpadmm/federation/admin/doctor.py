"""What keeps a silo or a coordinator from working: its files, the machine, its table and ledger, and the port.

It may be run beside the process that serves: nothing of it is changed, and a silo's wait for letters goes on.
"""

import os
import platform
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import dpadmm
from dpadmm.checks import plural
from dpadmm.errors import DpadmmError, LedgerError, ResumeError
from dpadmm.federation.admin import dialling
from dpadmm.federation.admin.checkups import Checkup, good, problem, tried, warning
from dpadmm.federation.admin.screens import time_words
from dpadmm.federation.admin.status import DriveState, RunState, SiloRun, SiloView, first_sentence, run_status, viewed
from dpadmm.federation.coordinator_files import CoordinatorFiles
from dpadmm.federation.https.notice import CoordinatorNotice, SiloNotice
from dpadmm.federation.keys import SigningKey, fingerprint
from dpadmm.federation.locks import is_held
from dpadmm.federation.policy import Policy
from dpadmm.federation.silo_files import SiloFiles, policy_records, schema_digest
from dpadmm.federation.silo_store import paid_labels
from dpadmm.federation.terms import agreed_run
from dpadmm.privacy.ledger import open_for_reading

EXTRA = ("cryptography", "httpx", "uvicorn")
"""What federations need besides."""

LITTLE_SPACE = 200_000_000
"""Bytes: less is worth a warning."""

USUAL_ROUND = {"silo": 5000, "coordinator": 20_000}
"""Bytes that a round takes, where too few are answered to measure it."""

_MEASURED_ROUNDS = 20
_TRIES = 3
_OPEN = (RunState.APPROVED, RunState.JOINED, RunState.RUNNING)
_NOT_OWNER = stat.S_IRWXG | stat.S_IRWXO
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}

Looks = dict[str, Callable[[], Iterable[Checkup]]]


def examine_silo(directory: Path, coordinator: str | None) -> list[Checkup]:
    """Check everything; `coordinator`: HOST:PORT, by default the one dialled last, or the one that invited it."""
    files = SiloFiles(directory)
    files.check()
    notice = SiloNotice.read(files.status)
    ledgers = [*files.directory.glob("*ledger"), *files.directory.glob("*ledger.key")]
    told = files.read_address() if files.address.exists() else None
    start = f"silo run {files.directory}{'' if told else ' --coordinator HOST:PORT'}"
    address = coordinator or (told if notice is None else notice.coordinator)
    return _examined(
        _usual(files, files.key, [files.state, *ledgers], notice, start)
        | {"policy": lambda: _policy(files), "state": lambda: _books(files), "line": lambda: _line(files, address)}
    )


def examine_coordinator(directory: Path) -> list[Checkup]:
    """Check everything, and return what was found."""
    files = CoordinatorFiles(directory)
    files.check()
    notice = CoordinatorNotice.read(files.status)
    looks = _usual(files, files.key_file, files.runs(), notice, f"coordinator run {files.directory}")
    looks["runs"] = lambda: _runs(files)
    if notice is not None and is_held(files.lock):
        looks["port"] = lambda: _port(files.key(), _EVERYWHERE.get(notice.host, notice.host), notice.port)
    return _examined(looks)


def _examined(looks: Looks) -> list[Checkup]:
    return [each for check, look in looks.items() for each in tried(check, look)]


def _usual(
    files: SiloFiles | CoordinatorFiles,
    key: Path,
    private: Iterable[Path],
    notice: SiloNotice | CoordinatorNotice | None,
    start: str,
) -> Looks:
    """Return what is looked at in any directory; `start`: the command that serves it."""
    return {
        "installed": installed,
        "files": lambda: owned(files.directory, [key, files.certificate, *private]),
        "key": lambda: [good("key", f"its fingerprint is {fingerprint(SigningKey.load(key).public)}")],
        "writing": lambda: writable(files.directory),
        "serving": lambda: serving(files.lock, notice, f"`dpadmm {start}`, or start its service"),
        "clock": lambda: time_service(),  # looked up when it is called
    }


def installed() -> Iterator[Checkup]:
    """Say what is installed, and whether the extra is."""
    own = f"dpadmm {dpadmm.__version__}, Python {platform.python_version()}"
    try:
        yield good("installed", f"{own}; {', '.join(f'{name} {version(name)}' for name in EXTRA)}")
    except PackageNotFoundError as lacking:
        yield problem("installed", f"{own}; {lacking.name} is missing", "install the extra `federation`")


def user_name(number: int) -> str:
    """Return the name of a user, or the number of one that has none here."""
    import pwd  # not on every system; whatever asks has been refused there

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _owner(path: Path) -> int | None:
    try:
        return path.lstat().st_uid
    except FileNotFoundError:  # SQLite's side files come and go
        return None


def owned(directory: Path, private: Sequence[Path]) -> Iterator[Checkup]:
    """Look whether directory and files belong to one user, whether it is this one, and whether others can read them."""
    found = directory.stat()
    owner = user_name(found.st_uid)
    others = [path.name for path in sorted(directory.rglob("*")) if _owner(path) not in (None, found.st_uid)]
    if others:
        words = f"files in {directory} that do not belong to its owner {owner}: {', '.join(others)}"
        yield problem("files", words, f"chown -R {owner} {directory}")
    is_open = [path.name for path in private if path.exists() and path.stat().st_mode & _NOT_OWNER]
    if is_open:
        yield problem("files", f"others can read {', '.join(is_open)}", f"run chmod 600 on them, in {directory}")
    if found.st_mode & _NOT_OWNER:
        yield warning("files", f"others can list {directory}", f"chmod 700 {directory}")
    if found.st_uid != os.geteuid():
        me = user_name(os.geteuid())
        yield warning("files", f"they belong to {owner}, but this is {me}", f"run this as {owner}, as the service does")
    if not others and not is_open:
        yield good("files", f"all belong to {owner}; keys are private")


def room(directory: Path, round_bytes: float, rounds: int) -> Checkup:
    """Look whether the disk has room for the rounds that are due, each of which takes about so much."""
    free = shutil.disk_usage(directory).free
    words = f"{free / 1e6:.0f} MB free, enough for about {free // round_bytes:,.0f} rounds"
    if free < 2 * rounds * round_bytes:
        return problem("disk", f"{words}; {rounds} are still to come", "free some space: a full disk stalls the run")
    return warning("disk", words, "make room") if free < LITTLE_SPACE else good("disk", words)


def writable(directory: Path) -> Iterator[Checkup]:
    """Write a little file, make it durable, and take it away again."""
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".doctor-") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        yield good("writing", f"{directory} can be written")
    except OSError as refused:
        words = f"{directory} cannot be written: {refused.strerror}"
        yield problem("writing", words, "check permissions, quota and mount")


def serving(path: Path, notice: SiloNotice | CoordinatorNotice | None, start: str) -> Iterator[Checkup]:
    """Say who serves, by the lock; `start`: how to."""
    if not is_held(path):
        yield warning("serving", "no process serves this directory now", start)
    elif notice is None:
        words = "a process serves it, but reports no status"
        yield warning("serving", words, "is its disk full, or is it a different version?")
    else:
        yield good("serving", f"process {notice.pid} since {time_words(notice.started)}")


def time_service() -> Iterator[Checkup]:
    """Ask the system whether its clock follows a time service; nothing where it cannot tell."""
    ask = ["timedatectl", "show", "--property=NTPSynchronized", "--value"]
    try:
        told = subprocess.run(ask, capture_output=True, text=True, timeout=5, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return
    if told == "yes":
        yield good("clock", "it follows a time service (NTP)")
    elif told == "no":
        yield warning("clock", "no time service (NTP) keeps it synchronised", "timedatectl set-ntp true")


def _policy(files: SiloFiles) -> Iterator[Checkup]:
    policy = Policy.load(files.policy)
    yield good("policy", f"{policy.name!r} allows {', '.join(policy.methods)}")


def _books(files: SiloFiles) -> Iterator[Checkup]:
    """Look at schema, table, ledger, runs and the room that they need."""
    with viewed(files.directory) as view:
        runs = view.runs()
        due = sum(run.rounds - (run.round or 0) for run in runs if run.state in _OPEN)
        yield from _examined(
            {
                "schema": lambda: _schema(view),
                "ledger": lambda: _ledger(view),
                "table": lambda: _table(view, runs),
                "disk": lambda: [room(files.directory, _round_bytes(view), due)],
            }
        )


def _schema(view: SiloView) -> Iterator[Checkup]:
    digest = schema_digest(view.files.schema)
    others = [terms.run for terms in view.store.agreements(with_closed=True) if terms.schema != digest]
    if others:
        words = f"{', '.join(others)}: the terms name a different schema from {view.files.schema}"
        yield problem("schema", words, "restore the schema with which the silo was created")
    else:
        yield good("schema", f"its digest is {digest[:16]}...")


def _ledger(view: SiloView) -> Iterator[Checkup]:
    """Check the chain, and whether it tells the same story as the state; a silo that serves may write between."""
    for attempt in range(_TRIES):
        try:
            with open_for_reading(view.ledger) as ledger:
                ledger.verify()
                view.store.check(ledger.answers())
                said = ledger.statement()
            break
        except ResumeError:
            if attempt == _TRIES - 1:
                raise
    yield good("ledger", f"{said.entries} entries; the chain is intact and agrees with the state")
    left = f"epsilon {said.left_epsilon:.4g} of {said.budget.epsilon:.4g} is left at delta {said.budget.delta:.3g}"
    if said.left_epsilon == 0:
        yield warning("budget", left, "no further run fits; only the owner can decide on a larger budget")
    else:
        yield good("budget", f"{left}, against {said.protection.observer}")


def _table(view: SiloView, runs: Sequence[SiloRun]) -> Iterator[Checkup]:
    """Read the table, as the silo does; look whether the ledger knows it, and whether approved runs fit the budget."""
    table = policy_records(view.policy, view.files.schema).table
    with open_for_reading(view.ledger) as ledger:
        try:
            confirmed = ledger.confirm([table])
        except LedgerError as refusal:
            advice = "restore the table, or continue with a changed one: `dpadmm silo new-data`"
            yield problem("table", f"{view.policy.data}: {first_sentence(str(refusal))}", advice)
            return
        yield good("table", f"{view.policy.data} can be read, and is the one known to the ledger")
        for run in runs:
            if run.state is RunState.REFUSED:
                yield problem("runs", f"{run.run!r} would be refused: {run.reason}", "see policy.toml")
        is_open = {run.digest for run in runs if run.state in _OPEN}
        for terms in view.store.agreements(with_closed=True):
            if terms.digest not in is_open:
                continue
            try:
                if releases := agreed_run(terms).all_releases(terms.agent(view.policy.name)):
                    confirmed.check_room(releases, **paid_labels(terms))
            except DpadmmError as refusal:
                yield problem("budget", f"run {terms.run!r} does not fit: {refusal}")


def _round_bytes(view: SiloView) -> float:
    """Return about how many bytes a round takes: those of the rounds so far, else what is usual."""
    rounds, taken = view.store.count_answers(), sum(path.stat().st_size for path in (view.files.state, view.ledger))
    return taken / rounds if rounds >= _MEASURED_ROUNDS else USUAL_ROUND["silo"]


def _line(files: SiloFiles, address: str | None) -> Iterator[Checkup]:
    from dpadmm.federation.https.line import Place

    if address is None:
        yield warning("line", "the connection to the coordinator was not tried", "give --coordinator HOST:PORT")
        return
    with viewed(files.directory) as view:
        keys = {terms.coordinator for terms in view.store.agreements(with_closed=True)}
    made = dialling.call(Place.of(address), SigningKey.load(files.key), keys)
    yield from dialling.told(made, has_terms=bool(keys))


def _runs(files: CoordinatorFiles) -> Iterator[Checkup]:
    runs = [run_status(path, None) for path in files.runs()]
    for run in runs:
        if run.state is DriveState.UNREADABLE:
            yield problem("runs", f"{run.file}.db: {run.reason}", "restore it from a backup, or remove it")
    due = sum(run.rounds - (run.round or 0) for run in runs if run.state in (DriveState.RUNNING, DriveState.RESTING))
    yield good("runs", plural(len(runs), "file"))
    yield room(files.directory, USUAL_ROUND["coordinator"], due)


def _port(key: SigningKey, host: str, port: int) -> Iterator[Checkup]:
    """Dial as a silo does, with a key that nobody knows, and look whether the coordinator's own key answers."""
    from dpadmm.federation.https.line import Place

    made = dialling.call(Place(host, port), SigningKey.new(), [key.public])
    if made.is_secured:
        yield good("port", f"{host}, port {port} answers with this coordinator's key")
    else:
        yield from (each for each in dialling.told(made, has_terms=True) if each.check in ("port", "TLS"))
