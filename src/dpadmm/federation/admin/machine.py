"""Checks of the machine that a silo or a coordinator runs on: installation, files, disk, lock, clock."""

import os
import platform
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import dpadmm
from dpadmm.federation.admin.checkups import Checkup, good, problem, warning
from dpadmm.federation.admin.screens import time_words
from dpadmm.federation.https.notice import CoordinatorNotice, SiloNotice
from dpadmm.federation.locks import is_held

EXTRA = ("cryptography", "httpx", "uvicorn")
"""What federations need besides."""

LITTLE_SPACE = 200_000_000
"""Bytes: less is worth a warning."""

_NOT_OWNER = stat.S_IRWXG | stat.S_IRWXO


def installed() -> Iterator[Checkup]:
    """Say what is installed, and whether the extra is."""
    own = f"dpadmm {dpadmm.__version__}, Python {platform.python_version()}"
    try:
        extra = ", ".join(f"{name} {version(name)}" for name in EXTRA)
    except PackageNotFoundError as lacking:
        yield problem("installed", f"{own}; {lacking.name} is missing", "install the extra `federation`")
        return
    yield good("installed", f"{own}; {extra}")


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
        yield problem(
            "files",
            f"files in {directory} that do not belong to its owner {owner}: {', '.join(others)}",
            f"chown -R {owner} {directory}",
        )
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


def room(directory: Path, round_bytes: float, rounds: int) -> Iterator[Checkup]:
    """Look whether the disk has room for the rounds that are due, each of which takes about so much."""
    free = shutil.disk_usage(directory).free
    words = f"{free / 1e6:.0f} MB free, enough for about {free // round_bytes:,.0f} rounds"
    if free < 2 * rounds * round_bytes:
        yield problem("disk", f"{words}; {rounds} are still to come", "free some space: a full disk stalls the run")
    elif free < LITTLE_SPACE:
        yield warning("disk", words, "make room")
    else:
        yield good("disk", words)


def writable(directory: Path) -> Iterator[Checkup]:
    """Write a little file, make it durable, and take it away again."""
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".doctor-") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
    except OSError as refused:
        yield problem(
            "writing", f"{directory} cannot be written: {refused.strerror}", "check permissions, quota and mount"
        )
    else:
        yield good("writing", f"{directory} can be written")


def lock(path: Path, notice: SiloNotice | CoordinatorNotice | None, start: str) -> Iterator[Checkup]:
    """Say who serves; `start`: the command that does."""
    if not is_held(path):
        yield warning("serving", "no process serves this directory now", start)
    elif notice is None:
        yield warning(
            "serving", "a process serves it, but reports no status", "is its disk full, or is it a different version?"
        )
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
