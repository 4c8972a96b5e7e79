"""What a figure leaves behind: SVG and PNG, every number as parquet and CSV, settings as JSON, a Markdown summary.

All files are written beside their place and moved there at once, so an interrupted run leaves no half of one.
"""

import ast
import hashlib
import inspect
import json
import os
import platform
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd

import dpadmm
from dpadmm import __version__
from dpadmm.errors import InputError
from dpadmm_research.comparison.adult import DEAL_SEED, SPLIT_SEED, adult
from dpadmm_research.reproduction.figure import Figure, Finding, Order, Part
from dpadmm_research.reproduction.style import SETTINGS
from dpadmm_research.reproduction.table import Table

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pandas", "matplotlib", "dp-accounting")
PIXELS_PER_INCH = 110
_HERE = "dpadmm_research"
_DRAWING = ("style", "output", "pages")
_MARGINS = ("methods", "data", "networks", "noise", "planner", "privacy", "problems", "solvers")


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file in the same folder, then put it in place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    draft = Path(name)
    try:
        write(draft)
        draft.chmod(0o644)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file at once."""

    def write(draft: Path) -> None:
        draft.write_text(text, encoding="utf-8")

    write_atomically(path, write)


@dataclass(frozen=True)
class Timing:
    """Processor and wall-clock seconds of a part."""

    processor: float
    wall: float


def part_path(out: Path, part: Part, order: Order) -> Path:
    """Return where the numbers of a part are kept: the name tells what was computed, by which code, from what."""
    facts = [
        part.name,
        order.size.name,
        str(order.runs),
        order.accounting.name,
        str(order.seed),
        __version__,
        _source_of(part.compute),
        adult(order).label if part.needs_adult else "",
    ]
    digest = hashlib.sha256("|".join(facts).encode()).hexdigest()[:16]
    return out / ".parts" / f"{part.name.replace('/', '-')}-{digest}.parquet"


def _source_of(function: Any) -> str:
    """Return the code and arguments of a part, and the library's code: whatever changes them makes another part."""
    target = getattr(function, "func", function)
    codes = [_code(file) for file in sorted(_sources(Path(inspect.getfile(target))))]
    return f"{codes}|{_library()}|{getattr(function, 'args', ())}|{getattr(function, 'keywords', {})}"


@cache
def _sources(file: Path) -> frozenset[Path]:
    """Return a file of the papers and those that it imports, directly or not, but for drawing and writing."""
    found, left = set(), [file]
    while left:
        now = left.pop()
        if now in found:
            continue
        found.add(now)
        for node in ast.walk(ast.parse(now.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_HERE):
                folder = Path(__file__).parents[1].joinpath(*(node.module or "").split(".")[1:])
                names = [folder.with_suffix(".py"), *(folder / f"{alias.name}.py" for alias in node.names)]
                left += [path for path in names if path.is_file() and path.stem not in _DRAWING]
    return frozenset(found)


@cache
def _library() -> str:
    """Return a digest of the library's code that numbers may depend on."""
    package = Path(dpadmm.__file__).parent
    files = sorted((package / "core").glob("*.py"))  # in-process only: figures use no network
    files += [file for headroom in _MARGINS for file in sorted((package / headroom).rglob("*.py"))]
    return hashlib.sha256("".join(_code(file) for file in files).encode()).hexdigest()


@cache
def _code(file: Path) -> str:
    return ast.dump(ast.parse(file.read_text(encoding="utf-8")))


def save_part(path: Path, table: Table, timing: Timing) -> None:
    """Keep the numbers of a finished part; the timing first, so that the table's presence means both are there."""
    write_text(path.with_suffix(".json"), json.dumps({"processor": timing.processor, "wall": timing.wall}))
    write_atomically(path, lambda draft: table.to_parquet(draft, index=False))


def load_part(path: Path) -> tuple[Table, Timing]:
    """Return what `save_part` kept."""
    figures = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    return pd.read_parquet(path), Timing(**figures)


def is_finished(path: Path) -> bool:
    """Say whether `save_part` has kept this part; one that cannot be read is computed again."""
    if not path.is_file():
        return False
    try:
        load_part(path)
    except (OSError, ValueError, TypeError) as problem:  # pyarrow's, json's and missing fields
        warnings.warn(f"{path} cannot be read, so it is computed again: {problem}", RuntimeWarning, stacklevel=2)
        return False
    return True


def versions() -> dict[str, str]:
    """Return the versions that the numbers may depend on."""
    found = {"dpadmm": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # pragma: no cover - all of them are required
            found[package] = "not installed"
    return found


def check_folder(out: Path, figures: Sequence[Figure], order: Order) -> None:
    """Refuse, before anything is computed, a folder that cannot be written or holds results of another size."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{str(out)!r} is a file; name a folder for the results.", setting="out")
    try:
        write_text(out / ".parts" / "probe", "")
        (out / ".parts" / "probe").unlink()
    except OSError as problem:
        raise InputError(
            f"Nothing can be written to {str(out)!r} ({problem}); name another folder.", setting="out"
        ) from problem
    for figure in figures:
        kept = out / figure.name / f"{_stem(figure)}.json"
        size = json.loads(kept.read_text(encoding="utf-8")).get("size") if kept.is_file() else order.size.value
        if size != order.size.value:
            raise InputError(
                f"{str(out)!r} holds results of another size ({size}); name another folder.", setting="size"
            )


def _stem(figure: Figure) -> str:
    return figure.name.rsplit("/", 1)[-1]


def write_figure(out: Path, figure: Figure, order: Order, table: Table, timings: Sequence[Timing]) -> list[Path]:
    """Write all files of a figure; return them."""
    folder = out / figure.name
    data = _one_source(figure, table)
    findings = figure.findings(table)
    seconds = sum(timing.processor for timing in timings)
    picture = figure.draw(table, data)
    stem = _stem(figure)
    paths = {kind: folder / f"{stem}.{kind}" for kind in ("svg", "png", "parquet", "csv", "json", "md")}
    with mpl.rc_context(SETTINGS):
        write_atomically(paths["svg"], lambda draft: picture.savefig(draft, metadata={"Date": None}))
        picture.set_layout_engine("none")  # laid out once, for both files
        write_atomically(paths["png"], lambda draft: picture.savefig(draft, dpi=PIXELS_PER_INCH))
    write_atomically(paths["parquet"], lambda draft: table.to_parquet(draft, index=False))
    write_atomically(paths["csv"], lambda draft: table.to_csv(draft, index=False))
    write_text(paths["json"], json.dumps(_facts(figure, order, data, seconds), indent=2, default=str) + "\n")
    write_text(paths["md"], summary(figure, order, data, findings, seconds, f"{stem}.png"))
    return list(paths.values())


def _one_source(figure: Figure, table: Table) -> str:
    """Return what the numbers were computed from; parts from different tables do not make a figure."""
    labels = sorted(set(table["data"]))
    if len(labels) > 1:
        raise InputError(
            f"The parts of {figure.name} come from different data ({', '.join(labels)}): the real table was available "
            "for only some of them. Set DPADMM_DATA, or go offline, and run again."
        )
    return str(labels[0])


def _facts(figure: Figure, order: Order, data: str, seconds: float) -> dict[str, Any]:
    return {
        "figure": figure.name,
        "title": figure.title,
        "data": data,
        "setting": dict(figure.setting),
        "choices": list(figure.choices),
        "size": order.size.value,
        "runs": order.runs if order.runs is not None else "the paper's",
        "accounting": order.accounting.value,
        "noise_seed": order.seed,
        "data_seeds": {"split": SPLIT_SEED, "deal": DEAL_SEED},
        "processor_seconds": round(seconds, 1),
        "versions": versions(),
        "platform": sys.platform,
    }


def summary(figure: Figure, order: Order, data: str, findings: Sequence[Finding], seconds: float, picture: str) -> str:
    """Return the Markdown page of a figure."""
    lines = [f"# {figure.title}", "", f"`dpadmm reproduce {figure.name}`. Data: {data}."]
    if order.is_toy:
        lines.append("**Toy size: the numbers below mean nothing.**")
    lines += ["", f"![{figure.title}]({picture})", "", "## What the paper reports", "", figure.reports, ""]
    lines += ["## What we see", "", *_answers(figure, findings)]
    lines += ["", "## All numbers", "", "| | |", "|---|---|"]
    lines += [f"| {name.replace('_', ' ')} | {_plain(value)} |" for name, value in figure.setting.items()]
    lines += ["", "What the paper leaves open, and what was chosen:", ""]
    lines += [f"* {choice}" for choice in figure.choices]
    runs = f", runs: {order.runs}" if order.runs is not None else ""
    lines += ["", f"Noise seed {order.seed}{runs}; {seconds:.0f} s of processor time.", ""]
    return "\n".join(lines)


def _answers(figure: Figure, findings: Sequence[Finding]) -> list[str]:
    """Return the verdicts, a table for every ground that they rest on, below that ground."""
    lines: list[str] = []
    for ground in dict.fromkeys(figure.ground_of(finding) for finding in findings):
        if ground is not None:
            lines += [f"* *Setting printed:* {ground.printed}", f"* *Setting used:* {ground.used}"]
            lines += [f"* *Guessed:* {ground.guessed}", ""]
        lines += ["| the paper | here | verdict | why |", "|---|---|---|---|"]
        mine = [finding for finding in findings if figure.ground_of(finding) == ground]
        lines += [f"| {f.claim} | {f.seen} | **{f.verdict.value}** | {f.why} |" for f in mine]
        lines += [""]
    return lines[:-1]


def _plain(value: Any) -> str:
    return ", ".join(f"{each:g}" if isinstance(each, float) else str(each) for each in _listed(value))


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else (value,)
