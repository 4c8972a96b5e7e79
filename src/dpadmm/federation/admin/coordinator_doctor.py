"""What keeps a coordinator from working: its files, the machine, and its port as a silo would find it."""

from collections.abc import Iterator
from pathlib import Path

from dpadmm.checks import plural
from dpadmm.federation.admin import dialling, machine
from dpadmm.federation.admin.checkups import Checkup, good, problem, tried
from dpadmm.federation.admin.coordinator_status import DriveState, run_status
from dpadmm.federation.coordinator_files import CoordinatorFiles
from dpadmm.federation.https.notice import CoordinatorNotice
from dpadmm.federation.keys import SigningKey, fingerprint
from dpadmm.federation.locks import is_held

USUAL_ROUND = 20_000
"""Bytes that a round takes, with a few silos."""

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def examine_coordinator(directory: Path) -> list[Checkup]:
    """Check everything, and return what was found."""
    files = CoordinatorFiles(Path(directory))
    files.check()
    notice = CoordinatorNotice.read(files.status)
    private = [files.directory / "coordinator.key", files.certificate, *files.runs()]
    found = tried("installed", machine.installed)
    found += tried("files", lambda: machine.owned(files.directory, private))
    found += tried("key", lambda: iter([good("key", f"its fingerprint is {fingerprint(files.key().public)}")]))
    found += tried("writing", lambda: machine.writable(files.directory))
    start = f"`dpadmm coordinator run {files.directory}`, or start its service"
    found += tried("serving", lambda: machine.lock(files.lock, notice, start))
    found += tried("clock", machine.time_service)
    found += tried("runs", lambda: _runs(files))
    if notice is not None and is_held(files.lock):
        host = _EVERYWHERE.get(notice.host, notice.host)
        found += tried("port", lambda: _port(files.key(), host, notice.port))
    return found


def _runs(files: CoordinatorFiles) -> Iterator[Checkup]:
    runs = [run_status(path, None) for path in files.runs()]
    for run in runs:
        if run.state is DriveState.UNREADABLE:
            yield problem("runs", f"{run.file}.db: {run.reason}", "restore it from a backup, or remove it")
    due = sum(run.rounds - run.round for run in runs if run.state in (DriveState.RUNNING, DriveState.RESTING))
    yield good("runs", f"{plural(len(runs), 'file')}")
    yield from machine.room(files.directory, USUAL_ROUND, due)


def _port(key: SigningKey, host: str, port: int) -> Iterator[Checkup]:
    """Dial as a silo does, with a key that nobody knows, and look whether the coordinator's own key answers."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from dpadmm.federation.https.line import Place

    made = dialling.call(Place(host, port), SigningKey(Ed25519PrivateKey.generate()), [key.public])
    steps = [each for each in dialling.told(made, has_terms=True) if each.check in ("port", "TLS")]
    yield from (good("port", f"{host}, port {port} answers with this coordinator's key"),) if made.is_secured else steps
