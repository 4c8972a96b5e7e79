"""Windows has no fcntl and no fork: fits with a ledger, models and the commands about them do without."""

import subprocess
import sys

WITHOUT_UNIX = """
import os, select, signal, subprocess, sys
import filelock, multiprocessing, numba, pandas, pyarrow, rich, sklearn.linear_model, typer  # they know Windows
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None  # importing it fails
gone = {
    os: "fork forkpty register_at_fork geteuid getuid getegid getgid pwrite pread O_DIRECTORY O_NOFOLLOW O_CLOEXEC "
    "O_NONBLOCK fchmod fchown chown getloadavg sched_getaffinity setsid killpg mkfifo sysconf statvfs uname WNOHANG",
    signal: "SIGKILL SIGHUP SIGUSR1 SIGALRM pthread_sigmask setitimer",
    select: "poll",
}
for module, names in gone.items():
    for name in names.split():
        delattr(module, name)
"""

LOCKED = """
# A file that is locked there can be read through the handle that holds the lock alone; a folder cannot be opened.
held = []
def lock_descriptor(descriptor, *, blocking):
    assert not blocking
    if not take(descriptor, blocking=False):
        return False
    held.append((descriptor, os.fstat(descriptor)))
    return True
def is_held(found):
    for descriptor, locked in held:
        try:
            now = os.fstat(descriptor)
        except OSError:
            continue  # closed since
        if os.path.samestat(now, locked) and os.path.samestat(locked, found):
            return True
    return False
def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and os.path.exists(arguments[0]):
        place = os.path.realpath(arguments[0])
        is_folder = os.path.isdir(place) and arguments[1] is None  # by os.open; tempfile says folder, and means a file
        if place.startswith(folder) and (is_folder or is_held(os.stat(place))):
            raise PermissionError(13, "Permission denied", place)
folder = os.path.realpath(os.curdir)
take, filelock.lock_descriptor = filelock.lock_descriptor, lock_descriptor
sys.addaudithook(watch)
"""

FIT = """
import numpy as np
from dpadmm import PrivateLogisticRegression
from dpadmm.privacy.ledger import Ledger
X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
y = (X[:, 0] > 0).astype(int)
for epsilon in (1.0, 2.0):
    model = PrivateLogisticRegression(
        epsilon, 1e-6, feature_bounds=(-1, 1), classes=(0, 1), ledger="own.ledger", budget=5.0
    ).fit(X, y)
with Ledger.open("own.ledger") as ledger:
    assert len(ledger.runs()) == 2
assert held
"""

COMMANDS = """
from dpadmm.cli.main import app
def run(words):
    sys.argv = ["dpadmm", *words.split()]
    try:
        app()
    except SystemExit as end:
        assert not end.code, words
pandas.DataFrame({"age": np.arange(300) % 90, "sick": y}).to_csv("north.csv", index=False)
with open("schema.json", "w") as file:
    file.write('{"format": "dpadmm-schema", "version": 1, "row_norm": 0.5, "constant": null, "label": {"kind": '
    '"binary", "name": "sick", "positive": ["1"], "negative": ["0"]}, "columns": [{"kind": "numeric", "name": "age", '
    '"lower": 0, "upper": 120}]}')
run("plan north.csv --schema schema.json --epsilon 2 --delta 1e-6 --no-curve")
run("fit north.csv --schema schema.json --epsilon 2 --delta 1e-6 --ledger a.ledger --budget 5 --anyway")
run("predict model.json north.csv --out told.csv")
run("ledger show a.ledger")
assert len(pandas.read_csv("told.csv")) == 300
"""

FEDERATE = """
from dpadmm.cli.main import app
for command in (
    "silo status north",
    "silo init north --data north.csv --schema schema.json --budget-epsilon 2 --delta 1e-5",
    "coordinator run hub",
    "federate rehearse --silos 2",
):
    try:
        app(command.split())
    except SystemExit as end:
        print(end.code)
"""


def test_a_fit_with_a_ledger_needs_no_unix(tmp_path):
    program = WITHOUT_UNIX + LOCKED + FIT + COMMANDS
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_silos_and_coordinators_say_what_they_need(tmp_path):
    """One process for all of the commands; each prints one sentence and writes nothing."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_UNIX + FEDERATE], capture_output=True, text=True, cwd=tmp_path, timeout=300
    )
    assert done.stdout.split() == ["2"] * 4, done.stderr
    said = set(done.stderr.splitlines())
    assert said == {
        "Error: Silos and coordinators run on Linux and macOS only. On this system dpadmm can fit, plan, evaluate and "
        "predict."
    }
    assert not list(tmp_path.iterdir())
