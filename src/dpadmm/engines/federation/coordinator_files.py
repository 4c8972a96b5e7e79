"""The directory of a coordinator: its key, one file per run."""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dpadmm.engines.federation.agreement import Agreement
from dpadmm.engines.federation.coordinator import Coordinator
from dpadmm.engines.federation.keys import SigningKey, need_extra
from dpadmm.errors import DpadmmError, InputError


@dataclass(frozen=True)
class CoordinatorFiles:
    """Where the parts of a coordinator are."""

    directory: Path

    @property
    def key_file(self) -> Path:
        """The signing key."""
        return self.directory / "coordinator.key"

    @property
    def lock(self) -> Path:
        """Held by the process that serves."""
        return self.directory / "running.lock"

    @property
    def status(self) -> Path:
        """What the process that serves tells about itself."""
        return self.directory / "status.json"

    @property
    def certificate(self) -> Path:
        """The TLS certificate of the process that serves, and its key."""
        return self.directory / "tls.pem"

    def create(self, key: SigningKey | None = None) -> SigningKey:
        """Make the directory of a new coordinator with its signing key; nothing is overwritten."""
        need_extra()
        if self.directory.exists() and any(self.directory.iterdir()):
            raise InputError(f"{self.directory} is not empty. A coordinator needs its own directory.")
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)  # also one that was there already: the silos' answers are in the files of runs
        (self.directory / "runs").mkdir()
        made = SigningKey.new() if key is None else key
        made.save(self.key_file)
        return made

    def check(self) -> None:
        """Refuse a directory that is no coordinator's, by name."""
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
        path = self.directory / "runs" / f"{agreement.digest}.db"
        key = self.key()
        return (
            Coordinator(path, key, time.time) if path.exists() else Coordinator.create(path, agreement, key, time.time)
        )

    def unfinished(self) -> list[Path]:
        """Return the files of the runs that have not come to their end, nor were ended for good."""
        return [path for path in sorted(self.runs()) if self._is_unfinished(path)]

    def _is_unfinished(self, path: Path) -> bool:
        try:
            with closing(Coordinator(path, self.key(), time.time)) as run:
                return not run.is_done and not run.is_ended
        except DpadmmError:  # damaged, or of an earlier version: nobody can drive it
            return False

    def runs(self) -> Iterator[Path]:
        """Return the files of all runs."""
        return (self.directory / "runs").glob("*.db")
