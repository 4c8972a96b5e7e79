"""What keeps a silo from working: its files, its table, its ledger, the machine, and the way to the coordinator.

It may be run beside the silo that serves: nothing of it is changed, and its wait for letters goes on.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from dpadmm.errors import DpadmmError, LedgerError, ResumeError
from dpadmm.federation.admin import dialling, machine
from dpadmm.federation.admin.checkups import Checkup, good, problem, tried, warning
from dpadmm.federation.admin.silo_status import RunState, SiloRun, SiloView, first_sentence, viewed
from dpadmm.federation.agreement import Agreement
from dpadmm.federation.answer_store import AnswerStore
from dpadmm.federation.https.notice import SiloNotice
from dpadmm.federation.keys import SigningKey, fingerprint
from dpadmm.federation.policy import Policy
from dpadmm.federation.silo_files import SiloFiles, policy_records, schema_digest
from dpadmm.federation.terms import agreed_run
from dpadmm.privacy.ledger import ConfirmedLedger, open_for_reading
from dpadmm.privacy.records import Origin

USUAL_ROUND = 5000
"""Bytes that a round takes, where too few are answered to measure it."""

_MEASURED_ROUNDS = 20
_TRIES = 3
_OPEN = (RunState.APPROVED, RunState.JOINED, RunState.RUNNING)


def examine_silo(directory: Path, coordinator: str | None) -> list[Checkup]:
    """Check everything; `coordinator`: HOST:PORT, by default the one dialled last, or the one that invited it."""
    files = SiloFiles(Path(directory))
    files.check()
    notice = SiloNotice.read(files.status)
    found = tried("installed", machine.installed)
    found += tried("files", lambda: machine.owned(files.directory, _private(files)))
    found += tried("key", lambda: _key(files))
    found += tried("policy", lambda: _policy(files))
    found += tried("writing", lambda: machine.writable(files.directory))
    told = files.read_address() if files.address.exists() else None
    where = "" if told else " --coordinator HOST:PORT"
    start = f"`dpadmm silo run {files.directory}{where}`, or start its service"
    found += tried("serving", lambda: machine.lock(files.lock, notice, start))
    found += tried("clock", machine.time_service)
    found += tried("state", lambda: _books(files.directory))
    address = coordinator or (told if notice is None else notice.coordinator)
    return found + tried("line", lambda: _line(files, address))


def _private(files: SiloFiles) -> list[Path]:
    ledgers = [*files.directory.glob("*ledger"), *files.directory.glob("*ledger.key")]
    return [files.key, files.state, files.certificate, *ledgers]


def _key(files: SiloFiles) -> Iterator[Checkup]:
    yield good("key", f"its fingerprint is {fingerprint(SigningKey.load(files.key).public)}")


def _policy(files: SiloFiles) -> Iterator[Checkup]:
    policy = Policy.load(files.policy)
    yield good("policy", f"{policy.name!r} allows {', '.join(policy.methods)}")


def _books(directory: Path) -> Iterator[Checkup]:
    """Look at schema, table, ledger, runs and the room that they need."""
    with viewed(directory) as view:
        runs = view.runs()
        yield from tried("schema", lambda: _schema(view))
        yield from tried("ledger", lambda: _ledger(view))
        yield from tried("table", lambda: _table(view, runs))
        due = sum(run.rounds - (run.round or 0) for run in runs if run.state in _OPEN)
        yield from tried("disk", lambda: machine.room(directory, _round_bytes(view), due))


def _schema(view: SiloView) -> Iterator[Checkup]:
    digest = schema_digest(view.files.schema)
    others = [terms.run for terms in view.agreements() if terms.schema != digest]
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
                AnswerStore(view.connection, view.files.state, {}).check(ledger.answers())
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
        for terms in view.agreements():
            if terms.digest in is_open:
                yield from _fits(view, confirmed, terms)


def _fits(view: SiloView, ledger: ConfirmedLedger, terms: Agreement) -> Iterator[Checkup]:
    releases = agreed_run(terms).all_releases(terms.agent(view.policy.name))
    try:
        if releases:
            ledger.check_room(releases, run=terms.paid_run, algorithm=terms.method, origin=Origin.SECURE)
    except DpadmmError as refusal:
        yield problem("budget", f"run {terms.run!r} does not fit: {refusal}")


def _round_bytes(view: SiloView) -> float:
    """Return about how many bytes a round takes: those of the rounds so far, else what is usual."""
    rounds, taken = view.rounds(), sum(path.stat().st_size for path in (view.files.state, view.ledger))
    return taken / rounds if rounds >= _MEASURED_ROUNDS else USUAL_ROUND


def _line(files: SiloFiles, address: str | None) -> Iterator[Checkup]:
    from dpadmm.federation.https.line import Place

    if address is None:
        yield warning("line", "the connection to the coordinator was not tried", "give --coordinator HOST:PORT")
        return
    with viewed(files.directory) as view:
        keys = {terms.coordinator for terms in view.agreements()}
    made = dialling.call(Place.of(address), SigningKey.load(files.key), keys)
    yield from dialling.told(made, has_terms=bool(keys))
