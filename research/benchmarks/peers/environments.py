"""Every peer's own environment, made once from its pinned requirements and kept under `.bench/`."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
CUDA = "nvidia-"
"""How the names of the packages begin that a CUDA build of torch brings."""


def requirements(name: str) -> Path:
    """Return the requirements file of a peer."""
    return HERE / f"requirements-{name}.txt"


def python_of(folder: Path, name: str | None) -> Path | None:
    """Return the interpreter that a contender runs in, None if its environment was not made (or for older pins)."""
    if name is None:
        return Path(sys.executable)
    place = folder / "environments" / name
    mark = place / "made-from"
    return place / "bin" / "python" if mark.exists() and mark.read_text() == _digest(name) else None


def make(folder: Path, name: str, say: Callable[[str], None]) -> None:
    """Make a peer's environment, unless it is there."""
    if python_of(folder, name) is not None:
        return
    place = folder / "environments" / name
    shutil.rmtree(place, ignore_errors=True)
    say(f"making the environment of {name} ...")
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    install = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wanted = ["-r", str(requirements(name))]
    _refuse_cuda(subprocess.run([*install, "--dry-run", "--report", "-", *wanted], check=True, capture_output=True))
    subprocess.run([*install, *wanted], check=True)
    (place / "made-from").write_text(_digest(name))


def _refuse_cuda(planned: subprocess.CompletedProcess[bytes]) -> None:
    """Gigabytes of graphics libraries would not make a linear model better."""
    names = [each["metadata"]["name"] for each in json.loads(planned.stdout)["install"]]
    if any(name.startswith(CUDA) for name in names):
        sys.exit(
            "pip would install a CUDA build of torch. Point it at CPU wheels, for instance with PIP_FIND_LINKS or "
            "PIP_EXTRA_INDEX_URL, or leave Opacus out with --contenders."
        )


def _digest(name: str) -> str:
    return hashlib.sha256(requirements(name).read_bytes()).hexdigest()
