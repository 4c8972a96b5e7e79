"""Where the files of data sets are found."""

import os
from pathlib import Path

from dpadmm.errors import InputError

DATA_ROOT = "DPADMM_DATA"


def data_folder(name: str, path: str | Path | None) -> Path:
    """Return the folder of a data set: `path` if given, else `name` under the folder in DPADMM_DATA."""
    if path is None:
        root = os.environ.get(DATA_ROOT)
        if not root:
            raise InputError(
                f"Where is the {name} data? Pass path=..., or set {DATA_ROOT} to a folder that has a folder {name!r}."
            )
        path = Path(root) / name
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"{str(folder)!r} is not a folder; the {name} files were expected there.")
    return folder


def find_file(folder: Path, name: str) -> Path:
    """Return `name`, plain or gzipped, in a folder."""
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    raise InputError(f"{str(folder)!r} has neither {name!r} nor {name + '.gz'!r}.")
