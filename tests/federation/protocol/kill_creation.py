"""Make silos and coordinators in processes that are killed, one at each step on the disk, and then again.

Writes how many processes were killed. Every process is forked from this one, which has imported everything.
"""

import os
import signal
import sys
from pathlib import Path

STEPS = (
    "open",
    "os.mkdir",
    "os.rename",
    "os.link",
    "os.remove",
    "os.rmdir",
    "os.chmod",
    "shutil.copyfile",
    "sqlite3.connect",
)
"""What Python's audit hooks tell of files."""


def killed_at(step, place, make):
    """Run `make` in a process that is killed at this step within `place`; return whether it was."""
    child = os.fork()
    if child == 0:
        left = step

        def count(event, details):
            nonlocal left
            if event in STEPS and str(place) in str(details[:2]):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        try:
            make()
        finally:
            os._exit(1 if sys.exc_info()[0] else 0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
    return os.WIFSIGNALED(status)


def main(what, place, stride):
    """Kill at every `stride`-th step, until a process makes it to the end; return how many were killed."""
    from dpadmm.federation.coordinator_store import CoordinatorFiles
    from dpadmm.federation.policy import Policy, SiloEntry
    from dpadmm.federation.silo import Silo
    from dpadmm.federation.silo_directory import SiloDirectory, policy_records

    policy = Policy(name="north", data=str(place / "data.csv"), schema=str(place / "schema.json"))
    policy_records(policy, place / "schema.json")  # whatever is loaded late

    def make(directory):
        if what == "coordinator":
            return CoordinatorFiles(directory).create
        return lambda: SiloDirectory(directory).create(policy, 1.0, 1e-5)

    step, kills, is_killed = 1, 0, True
    while is_killed:
        directory = place / f"{what}-{step}" / "made"
        directory.mkdir(parents=True) if what == "volume" else directory.parent.mkdir()
        is_killed = killed_at(step, directory.parent, make(directory))
        files = CoordinatorFiles(directory) if what == "coordinator" else SiloDirectory(directory)
        if not files.is_made():
            make(directory)()  # the same command again
        files.check()
        if what != "coordinator":
            silo = Silo(directory)
            assert SiloEntry.load(files.entry) == silo.entry()
            silo.close()
        left = [path.name for path in (*directory.parent.iterdir(), *directory.iterdir()) if path.name.startswith(".")]
        assert not left, left
        step, kills = step + stride, kills + is_killed
    return kills


if __name__ == "__main__":
    for each in ("silo", "volume", "coordinator"):
        sys.stdout.write(f"{main(each, Path(sys.argv[1]), int(sys.argv[2]))}\n")
