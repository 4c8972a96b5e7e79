"""A coordinator at work: its port, and one thread for every run that somebody has asked for (`dpadmm federate`).

`request_run` asks for one, through the coordinator's file, and follows it.
"""

import asyncio
import contextlib
import logging
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial

from dpadmm.errors import DpadmmError, InputError
from dpadmm.federation import sqlite_file
from dpadmm.federation.coordinator import Coordinator, Progress, open_run
from dpadmm.federation.coordinator_loop import drive_for_others
from dpadmm.federation.coordinator_store import ENDED, STOPPED, WANTED, CoordinatorFiles, CoordinatorStore
from dpadmm.federation.errors import FederationStopped
from dpadmm.federation.https.processes import CoordinatorProcess, publish_status, read_status
from dpadmm.federation.https.queue import MessageQueue
from dpadmm.federation.https.server import TlsServer
from dpadmm.federation.https.tls import renew, server_context, trust
from dpadmm.federation.outcome import FederationOutcome, outcome_of
from dpadmm.federation.party_directory import exclusive_lock, is_held
from dpadmm.federation.sqlite_file import now
from dpadmm.federation.studies import Studies
from dpadmm.federation.terms import Terms

LOOK_SECONDS = 0.2
"""How often runs that somebody asks for are looked for."""

RETRY_SECONDS = 2.0
"""How soon a run is tried again whose file could not be written."""

_RENEW_SECONDS = 24 * 3600.0
_JOIN_SECONDS = 10.0
_log = logging.getLogger("dpadmm.coordinator")


class CoordinatorService:
    """The coordinator of a directory, on a listening socket; call `check_runs` again and again, then `close`."""

    def __init__(self, files: CoordinatorFiles, listener: socket.socket) -> None:
        """Begin to serve."""
        self.files, self.key, self._started = files, files.key(), now()
        self._studies = Studies(files.open_store(any_thread=True), self.key)
        self._port_studies = Studies(files.open_store(any_thread=True), self.key)  # for the server's thread alone
        self._host, self._port = listener.getsockname()[:2]
        self._context = server_context(self.key, files.certificate)
        self._renewed = time.monotonic()
        self._invited: set[str] = set()
        self._threads: dict[str, threading.Thread] = {}
        self._open: dict[str, Coordinator] = {}
        self._is_closing = threading.Event()
        self._loop = asyncio.new_event_loop()
        self.queue = MessageQueue(self._loop)
        self._server = TlsServer(self.queue, self._context, listener, self._port_studies)
        self._server_thread = threading.Thread(target=self._serve, name="https", daemon=True)
        self._server_thread.start()

    def status(self) -> CoordinatorProcess:
        """Return how the process stands; any thread may ask."""
        return CoordinatorProcess(
            pid=os.getpid(),
            started=self._started,
            host=self._host,
            port=self._port,
            connected=tuple(sorted(self._server.connected())),
            seen=self.queue.seen(),
            joined={digest: run.joined() for digest, run in list(self._open.items())},
        )

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._server.serve())

    def check_runs(self) -> None:
        """Drive every run that is wanted and that no thread drives yet."""
        if not self._server_thread.is_alive():
            raise InputError("The web server has ended; see the log.")
        if time.monotonic() - self._renewed > _RENEW_SECONDS:
            self._in_loop(partial(renew, self._context, self.key, self.files.certificate, is_server=True))
            self._renewed = time.monotonic()
        self._studies.store.check_in_place()
        new = self._studies.keys() - self._invited
        if new:  # accept the certificates of invitations
            self._in_loop(partial(trust, self._context, new))
            self._invited |= new
        for digest in self._studies.store.runs(WANTED):
            thread = self._threads.get(digest)
            if thread is None or not thread.is_alive():
                thread = threading.Thread(target=self._drive, args=(digest,), name=f"run {digest[:8]}", daemon=True)
                self._threads[digest] = thread
                thread.start()

    def _drive(self, digest: str) -> None:
        """Drive a run to its end; a file that cannot be used now is waited for."""
        while not self._is_closing.is_set():
            try:
                with contextlib.closing(self.files.open_store()) as store:
                    self._drive_in(store, digest)
                return
            except (DpadmmError, sqlite3.Error, OSError) as problem:
                _log.error("the coordinator's file could not be used (%s); trying again", problem)
                self._is_closing.wait(RETRY_SECONDS)

    def _drive_in(self, store: CoordinatorStore, digest: str) -> None:
        run = Coordinator(store, digest, self.key)
        try:
            terms = run.terms
            self._in_loop(partial(trust, self._context, [person.key for person in terms.participants]))
            _log.info("run %r: driven from round %d of %d", terms.run, max(run.round, 0), terms.rounds)
            with contextlib.closing(self.queue.open(terms)) as queue:
                self._open[digest] = run
                drive_for_others(run, queue, time.monotonic)
        except (DpadmmError, sqlite3.Error, OSError):
            raise
        except Exception:  # noqa: BLE001 - whatever it is, whoever watches the run must not wait for ever
            _log.exception("run %r has ended because of a bug in the program", run.terms.run)
            run.stop("A bug in the program has ended the run; see the coordinator's log.")
        finally:
            self._open.pop(digest, None)

    def _in_loop(self, work: Callable[[], None]) -> None:
        """Change the TLS where it is used, between two handshakes."""

        async def done() -> None:
            work()

        asyncio.run_coroutine_threadsafe(done(), self._loop).result(_JOIN_SECONDS)

    def close(self) -> None:
        """End everything; runs are left where they are."""
        self._is_closing.set()
        self._server.should_exit = True
        for thread in (self._server_thread, *self._threads.values()):
            thread.join(_JOIN_SECONDS)
        self._loop.close()
        for studies in (self._studies, self._port_studies):
            studies.store.close()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that is bound there, `InputError` if it cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, reuse_port=False)
    except OSError as problem:
        raise InputError(f"Cannot listen on {host}, port {port}: {problem.strerror}. Choose another port.") from problem


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port of the loopback that nobody listens on now."""
    with socket.create_server((host, 0)) as probe:
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def serve_coordinator(files: CoordinatorFiles, host: str, port: int) -> Iterator[CoordinatorService]:
    """Serve a coordinator, alone in its directory, while the block runs."""
    files.check()
    with (
        exclusive_lock(files.lock, "The coordinator of this directory"),
        contextlib.closing(CoordinatorService(files, listen(host, port))) as service,
        publish_status(files.status, service.status),
    ):
        yield service


LOOK_SECONDS = 0.1
AWAY_SECONDS = 20.0
"""How long the service may be away, as while it is started again."""


def request_run(
    files: CoordinatorFiles,
    terms: Terms,
    show: Callable[[Progress], None] = lambda _: None,
    away_seconds: float = AWAY_SECONDS,
    check: Callable[[], None] = lambda: None,
) -> FederationOutcome:
    """Have these terms run to their end and return the outcome; `FederationStopped` says why it could not be reached.

    A run that was interrupted continues: its file knows what is done. It goes on when nobody follows it. `check` is
    called again and again, and may raise.
    """
    with closing(open_run(files, terms)) as run:
        try:
            run.ask()
            last, served = None, time.monotonic()
            while True:
                run.check_in_place()
                is_done = run.is_done  # before what is shown, so that the end is shown too
                progress = run.progress()
                process = read_status(files.status, CoordinatorProcess)
                if progress.waiting_for and process is not None and terms.digest in process.joined:
                    joined = process.joined[terms.digest]  # until all have, nobody else is asked
                    absent = tuple(name for name, _ in progress.epsilon if name not in joined)
                    progress = replace(progress, waiting_for=absent or progress.waiting_for)
                if progress != last:
                    show(progress)
                    last = progress
                if is_done:
                    return outcome_of(run)
                state, reason = run.stored.state()
                if state in (STOPPED, ENDED):
                    raise FederationStopped(str(reason))
                if is_held(files.lock):
                    served = time.monotonic()
                elif time.monotonic() - served > away_seconds:
                    raise FederationStopped(
                        f"No process serves {files.directory}: start `dpadmm coordinator run {files.directory}`, then "
                        f"run this command again. The run stays at round {max(run.round, 0)}; nothing is lost."
                    )
                check()
                time.sleep(LOOK_SECONDS)
        except sqlite3.Error as problem:
            why = problem if sqlite_file.is_machines(problem) else "it is damaged; restore it from a backup"
            raise FederationStopped(
                f"The coordinator's file, {files.database}, cannot be used: {why}. Run the command again afterwards."
            ) from problem
