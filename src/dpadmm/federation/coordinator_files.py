"""The directory of a coordinator: its key, one file per run."""

import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from dpadmm.errors import DpadmmError, InputError
from dpadmm.federation.agreement import Agreement
from dpadmm.federation.coordinator import Coordinator
from dpadmm.federation.keys import SigningKey, need_extra
from dpadmm.federation.new_directory import PartyDirectory, complete, new_directory


class CoordinatorFiles(PartyDirectory):
    """Where the parts of a coordinator are. key_file: its signing key."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.key_file = self.directory / "coordinator.key"

    def create(self, key: SigningKey | None = None) -> SigningKey:
        """Make the directory of a new coordinator with its signing key, whole or not at all; nothing is overwritten."""
        need_extra()
        made = SigningKey.new() if key is None else key
        with new_directory(self.directory, "coordinator") as place:
            (place / "runs").mkdir()
            made.save(CoordinatorFiles(place).key_file)
        return made

    def is_made(self) -> bool:
        """Return whether there is a coordinator; one that was made but for its last step is completed."""
        complete(self.directory)
        return self.key_file.exists()

    def check(self) -> None:
        """Refuse a directory that is no coordinator's, by name."""
        complete(self.directory)
        if self.key_file.is_file() and (self.directory / "runs").is_dir():
            return
        is_other = (self.directory / "policy.toml").exists()
        what = "a silo's directory" if is_other else "no coordinator's directory"
        raise InputError(f"{self.directory} is {what}. Give a directory made by `dpadmm coordinator init`.")

    def key(self) -> SigningKey:
        """Return the signing key."""
        self.check()
        return SigningKey.load(self.key_file)

    def open_run(self, agreement: Agreement) -> Coordinator:
        """Open the run of these terms, or start it."""
        path, key = self.directory / "runs" / f"{agreement.digest}.db", self.key()
        if not path.exists():
            return Coordinator.create(path, agreement, key, time.time)
        return Coordinator(path, key, time.time)

    def unfinished(self) -> list[Path]:
        """Return the files of the runs that have not come to their end, nor were ended for good."""
        found = []  # without damaged ones: nobody can drive them
        for path in sorted(self.runs()):
            with (
                suppress(DpadmmError),
                closing(Coordinator(path, self.key(), time.time)) as run,
            ):
                found += [] if run.is_done or run.is_ended else [path]
        return found

    def runs(self) -> Iterator[Path]:
        """Return the files of all runs."""
        return (self.directory / "runs").glob("*.db")
