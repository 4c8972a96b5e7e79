"""Another identity key for a silo or a coordinator, so that one is in use at every moment; and whose state this is.

The next key is made beside the one in use, which stays until the last step, a rename. A silo's state file says which
key it belongs to: a state from before the change under the new key, or the other way round, is recognised. The other
silos could not tell, because they know a silo by its key.
"""

import os
from datetime import UTC, datetime
from pathlib import Path

from dpadmm.errors import ResumeError
from dpadmm.federation.keys import SigningKey, fingerprint
from dpadmm.files import sync_directory


def next_place(path: Path) -> Path:
    """Return where the next key is kept until it is used."""
    return path.with_name(path.name + ".next")


def next_key(path: Path) -> SigningKey:
    """Return the key that comes after the one in `path`; one that an interrupted change has left is taken."""
    place = next_place(path)
    key = SigningKey.load(place) if place.exists() else SigningKey.create(place)
    sync_directory(place.parent)  # before anything says that it is the one
    return key


def put_into_use(path: Path, *, is_old_kept: bool) -> Path | None:
    """Let the next key take the place of the one in `path`; return where that is kept now, None if it is destroyed."""
    aside = path.with_name(f"{path.stem}-{datetime.now(UTC):%Y-%m-%d}-{_short(path)}{path.suffix}")
    for copy in path.parent.glob(f"{path.stem}-*-{_short(path)}{path.suffix}"):  # of a change that was interrupted
        copy.unlink()
    with path.open("r+b") as old:
        if is_old_kept:
            os.link(path, aside)
        sync_directory(path.parent)
        os.replace(next_place(path), path)
        sync_directory(path.parent)
        if not is_old_kept:  # it has no name any more
            old.write(bytes(os.fstat(old.fileno()).st_size))
            old.flush()
            os.fsync(old.fileno())
    return aside if is_old_kept else None


def _short(path: Path) -> str:
    return fingerprint(SigningKey.load(path).public)[:8]


def check_key(known: str, file: Path, path: Path, key: SigningKey) -> None:
    """Refuse the key in `path` where the silo's file belongs to another one, `known`."""
    if known != key.public:
        place = next_place(path)
        if place.exists() and SigningKey.load(place).public == known:
            raise ResumeError(
                f"The change of the key in {path.parent} was interrupted. Run the command again to finish it: `dpadmm "
                f"silo rotate-key {path.parent}`."
            )
        raise ResumeError(
            f"{file} belongs to the key {fingerprint(known)}, but {path} is {fingerprint(key.public)}: one of them is "
            "an older copy. Restore the newest copy of all of them."
        )
