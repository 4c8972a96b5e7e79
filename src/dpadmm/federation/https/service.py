"""A coordinator at work: its port, and one thread for every run that somebody has asked for (`dpadmm federate`)."""

import asyncio
import contextlib
import logging
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from dpadmm.errors import DpadmmError, InputError
from dpadmm.federation.agreement import Agreement
from dpadmm.federation.coordinator import Coordinator
from dpadmm.federation.coordinator_files import CoordinatorFiles
from dpadmm.federation.drive import Drive
from dpadmm.federation.durable import now
from dpadmm.federation.https.certificates import renew, server_context, trust
from dpadmm.federation.https.door import Door
from dpadmm.federation.https.notice import CoordinatorNotice, DrivenRun, SiloPresence, telling
from dpadmm.federation.https.post import Mailbox, PostOffice
from dpadmm.federation.invitations import Studies
from dpadmm.federation.locks import sole
from dpadmm.federation.refusal import refusing_unexpected

LOOK_SECONDS = 0.2
"""How often runs that somebody asks for are looked for."""

RETRY_SECONDS = 2.0
"""How soon a run is tried again whose file could not be written."""

_RENEW_SECONDS = 24 * 3600.0
_JOIN_SECONDS = 10.0
_log = logging.getLogger("dpadmm.coordinator")


@dataclass
class Service:
    """The coordinator of a directory, on a listening socket; `look` again and again, then `close`."""

    files: CoordinatorFiles
    listener: socket.socket
    _invited: set[str] = field(default_factory=set)
    _driven: dict[Path, threading.Thread] = field(default_factory=dict)
    _open: dict[Path, Coordinator] = field(default_factory=dict)
    _done: set[Path] = field(default_factory=set)
    _told: dict[Path, str] = field(default_factory=dict)
    _is_closing: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Open the port."""
        self.key, self._started, self.studies = self.files.key(), now(), Studies(self.files)
        self._host, self._port = self.listener.getsockname()[:2]
        self._context = server_context(self.key, self.files.certificate)
        self._renewed = time.monotonic()
        self._loop = asyncio.new_event_loop()
        self.post = PostOffice(self._loop)
        self._door = Door(self.post, self._context, self.listener, self.studies)
        self._server = threading.Thread(target=self._serve, name="https", daemon=True)
        self._server.start()

    def notice(self) -> CoordinatorNotice:
        """Return what there is to tell; any thread may ask."""
        seen, connected = self.post.seen(), self._door.connected()
        return CoordinatorNotice(
            pid=os.getpid(),
            started=self._started,
            host=self._host,
            port=self._port,
            silos=tuple(
                SiloPresence(key=key, is_connected=key in connected, seen=seen.get(key))
                for key in sorted(seen.keys() | connected)
            ),
            runs=tuple(DrivenRun(path.stem, *run.attendance()) for path, run in list(self._open.items())),
        )

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._door.serve())

    def look(self) -> None:
        """Drive every run that is wanted and that no thread drives yet."""
        if not self._server.is_alive():
            raise InputError("The web server has ended; see the log.")
        if time.monotonic() - self._renewed > _RENEW_SECONDS:
            self._in_loop(partial(renew, self._context, self.key, self.files.certificate, is_server=True))
            self._renewed = time.monotonic()
        new = self.studies.keys() - self._invited
        if new:  # accept the certificates of invitations
            self._in_loop(partial(trust, self._context, new))
            self._invited |= new
        for path in self.files.runs():
            thread = self._driven.get(path)
            if path in self._done or (thread is not None and thread.is_alive()) or not self._is_due(path):
                continue
            self._driven[path] = threading.Thread(
                target=self._drive, args=(path,), name=f"run {path.stem[:8]}", daemon=True
            )
            self._driven[path].start()

    def _is_due(self, path: Path) -> bool:
        try:
            with refusing_unexpected(), contextlib.closing(Coordinator(path, self.key, time.time)) as run:
                if run.is_done:
                    self._done.add(path)
                return run.is_wanted and not run.is_done
        except (DpadmmError, sqlite3.Error) as problem:  # damaged, or held: it may pass
            if self._told.get(path) != str(problem):
                self._told[path] = str(problem)
                _log.warning("run %s is skipped: %s", path.name, problem)
            return False

    def _drive(self, path: Path) -> None:
        """Drive a run to its end; a disk that is full is waited for."""
        while not self._is_closing.is_set():
            try:
                with contextlib.closing(Coordinator(path, self.key, time.time)) as run, self._box(run.agreement) as box:
                    _log.info(
                        "run %r: driven from round %d of %d", run.agreement.run, max(run.round, 0), run.agreement.rounds
                    )
                    self._open[path] = run
                    Drive(run, box, time.monotonic).serve()
                return
            except (sqlite3.Error, OSError) as problem:
                _log.error("the file of a run could not be written (%s); trying again", problem)
                self._is_closing.wait(RETRY_SECONDS)
            except Exception:  # noqa: BLE001 - whatever it is, whoever watches the run must not wait for ever
                _log.exception("run %s has ended because of a bug in the program", path.name)
                with (
                    contextlib.suppress(DpadmmError, sqlite3.Error),  # its file cannot be read: nobody watches it
                    contextlib.closing(Coordinator(path, self.key, time.time)) as run,
                ):
                    run.stopped("A bug in the program has ended the run; see the coordinator's log.")
                return
            finally:
                self._open.pop(path, None)

    @contextlib.contextmanager
    def _box(self, agreement: Agreement) -> Iterator[Mailbox]:
        self._in_loop(partial(trust, self._context, [person.key for person in agreement.participants]))
        box = self.post.open(agreement)
        try:
            yield box
        finally:
            box.close()

    def _in_loop(self, work: Callable[[], None]) -> None:
        """Change the TLS where it is used, between two handshakes."""

        async def done() -> None:
            work()

        asyncio.run_coroutine_threadsafe(done(), self._loop).result(_JOIN_SECONDS)

    def close(self) -> None:
        """End everything; runs are left where they are."""
        self._is_closing.set()
        self._door.should_exit = True
        self._server.join(_JOIN_SECONDS)
        for thread in self._driven.values():
            thread.join(_JOIN_SECONDS)
        self._loop.close()


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
def serving(files: CoordinatorFiles, host: str, port: int) -> Iterator[Service]:
    """Serve a coordinator, alone in its directory, while the block runs."""
    files.check()
    with sole(files.lock, "The coordinator of this directory"):
        service = Service(files, listen(host, port))
        service.start()
        try:
            with telling(files.status, service.notice):
                yield service
        finally:
            service.close()
