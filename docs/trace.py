"""The way of one fit through the packages: every module whose functions it calls, in the order of the first call.

    python docs/trace.py fit          # `dpadmm fit` on two files
    python docs/trace.py estimator    # PrivateLogisticRegression.fit on two silos
    python docs/trace.py masked       # `dpadmm fit` with a new ledger, for an observer who sees only sums of messages
    python docs/trace.py draw         # the last one as docs/pictures/way.svg

All plan with an empty cache, in a temporary home. Imports and compilation do not count.
"""

import inspect
import json
import os
import sys
import tempfile
import textwrap
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd

import dpadmm

HOME = f"{Path(dpadmm.__file__).parent}/"
EITHER = "noise/counters"
"""Draws few numbers where Numba is not loaded, as `noise/kernels` does elsewhere."""


def modules_of(work: Callable[[], object]) -> list[str]:
    """Return the modules whose functions are called, in any thread; bodies of modules and classes do not count."""
    found: dict[str, None] = {}
    importing = 0

    def enter(frame: FrameType, _event: str, _: Any) -> Any:
        nonlocal importing
        code = frame.f_code
        if code.co_name in ("<module>", "_compile_for_args"):  # the latter is where Numba compiles, or reads its cache
            importing += 1
            return leave
        if not importing and code.co_filename.startswith(HOME) and code.co_flags & inspect.CO_OPTIMIZED:
            name = code.co_filename.removeprefix(HOME).removesuffix(".py")
            if name != EITHER:
                found.setdefault(name)
        return None

    def leave(_frame: FrameType, event: str, _: Any) -> Any:
        nonlocal importing
        importing -= event == "return"
        return leave

    before = sys.gettrace()
    threading.settrace(enter)
    sys.settrace(enter)
    try:
        work()
    finally:
        sys.settrace(before)
        threading.settrace(before)  # type: ignore[arg-type]
    return list(found)


def tables() -> list[pd.DataFrame]:
    """Two silos: one column decides, the other does not."""
    drawn = [np.random.default_rng(seed).uniform(0, 1, (300, 2)) for seed in (0, 1)]
    return [pd.DataFrame({"a": rows[:, 0], "b": rows[:, 1], "y": (rows[:, 0] > 0.5).astype(int)}) for rows in drawn]


def fit(place: Path, *more: str) -> Callable[[], object]:
    """`dpadmm fit` on the files of two silos; `more` options."""
    from dpadmm.cli.main import app

    for name, table in zip(("north", "south"), tables(), strict=True):
        table.to_csv(place / f"{name}.csv", index=False)
    columns = [{"kind": "numeric", "name": name, "lower": 0, "upper": 1} for name in ("a", "b")]
    label = {"kind": "binary", "name": "y", "positive": ["1"], "negative": ["0"]}
    schema = {"format": "dpadmm-schema", "version": 1, "row_norm": 1.0, "constant": 0.3}
    (place / "schema.json").write_text(json.dumps({**schema, "label": label, "columns": columns}))
    args = "fit north.csv south.csv --schema schema.json --epsilon 1 --delta 1e-5"
    return lambda: app([*args.split(), *more, "--json"], standalone_mode=False)


def masked(place: Path) -> Callable[[], object]:
    """The same with masks between the silos, recorded in a new ledger."""
    return fit(place, "--ledger", "data.ledger", "--budget", "2", "--view", "aggregate", "--colluders", "0")


def estimator(_: Path) -> Callable[[], object]:
    """`PrivateLogisticRegression.fit` on two silos."""
    from dpadmm.estimators import PrivateLogisticRegression

    table, groups = pd.concat(tables()), np.repeat(["north", "south"], 300)
    X, y = table[["a", "b"]].to_numpy(), table["y"].to_numpy()
    model = PrivateLogisticRegression(1.0, 1e-5, feature_bounds=(0, 1), classes=(0, 1))
    return lambda: model.fit(X, y, groups)


WAYS = {"fit": fit, "estimator": estimator, "masked": masked}


def trace(way: str) -> list[str]:
    """Return the modules of one way, from a temporary folder and with nothing remembered from an earlier one."""
    before = Path.cwd()
    for name, module in list(sys.modules.items()):
        for each in vars(module).values() if name.startswith("dpadmm.") else ():
            if hasattr(each, "cache_clear"):
                each.cache_clear()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return modules_of(WAYS[way](Path(folder)))
        finally:
            os.chdir(before)


class Stage(NamedTuple):
    """A part of the picture: what is done about privacy there, whose modules it shows, and its words."""

    title: str
    tag: str
    packages: str
    args: tuple[str, ...]


STAGES = (
    Stage(
        "what was asked, and rows",
        "",
        "cli api estimators settings checks files data",
        ("Settings are checked before a row is read. Tables are read and screened; nothing is encoded yet.",),
    ),
    Stage(
        "core/spec, core/budget",
        "bounded",
        "planner privacy queries noise/plan noise/mechanisms noise/sampler",
        (
            "Public facts alone become steps. Each has certificates, which bound what one record can move,",
            "and noise for its part of the budget: here the counts of the columns, then the rounds of a method.",
        ),
    ),
    Stage(
        "core/release",
        "paid for",
        "privacy/ledger privacy/accounting privacy/releases codec",
        ("The noise of all steps is reserved in the ledger at once. Nothing else can be drawn.",),
    ),
    Stage(
        "core/train",
        "",
        "data/profile data/encoding problems",
        ("Step 1: noisy counts are the column profile. By it all silos encode their rows, which become f_i(x).",),
    ),
    Stage(
        "core/loop",
        "released",
        "methods solvers networks noise",
        (
            "Step 2, in every round: local_step makes a vector of the silo's rows and the last broadcast.",
            "PlannedNoise adds the silo's share of the noise and its masks: this leaves the silo.",
            "exchange reads the sum over all silos, in which the masks cancel; the next broadcast follows from it.",
        ),
    ),
    Stage(
        "Outcome",
        "",
        "core/model models inference report export",
        ("The released model, its statement, file and report: post-processing.",),
    ),
)
"""What happens in which file of core, in order."""

PICTURE = Path(__file__).parent / "pictures" / "way.svg"
_WIDTH, _LINE, _GAP, _COLUMNS = 760, 17, 16, 116


def stages(found: list[str]) -> list[list[str]]:
    """Return the modules of each stage: the one that names the module, else the one that names its package."""
    placed: list[list[str]] = [[] for _ in STAGES]
    for name in found:
        fits = [
            (len(package), i)
            for i, stage in enumerate(STAGES)
            for package in stage.packages.split()
            if _is_in(name, package)
        ]
        if fits:
            placed[max(fits)[1]].append(name)
        elif "/" in name and not name.startswith("core/"):
            raise ValueError(f"{name} has no place in the picture: add its package to a stage")
    return placed


def _is_in(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}/")


def picture(found: list[str]) -> str:
    """Return the stages as SVG, from the table (top) to the model (bottom), with the modules that took part."""
    parts, top = [], 10
    for stage, modules in zip(STAGES, stages(found), strict=True):
        shown = textwrap.wrap(", ".join(modules), _COLUMNS, break_on_hyphens=False)
        height = 36 + _LINE * (len(stage.args) + len(shown))
        if parts:
            parts.append(f'<path class="arrow" d="M {_WIDTH / 2:g} {top - _GAP} v {_GAP - 4}"/>')
        parts.append(f'<rect x="10" y="{top}" width="{_WIDTH - 20}" height="{height}" rx="6"/>')
        parts.append(f'<text class="stage" x="24" y="{top + 22}">{stage.title}</text>')
        if stage.tag:
            parts.append(f'<text class="tag" x="{_WIDTH - 24}" y="{top + 22}" text-anchor="end">{stage.tag}</text>')
        lines = [*((line, "") for line in stage.args), *((line, ' class="module"') for line in shown)]
        parts += [
            f'<text{kind} x="24" y="{top + 42 + _LINE * i}">{escape(line)}</text>'
            for i, (line, kind) in enumerate(lines)
        ]
        top += height + _GAP
    return "\n".join([_HEAD.format(width=_WIDTH, height=top - _GAP + 10), *parts, "</svg>", ""])


_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"
 font-family="sans-serif" font-size="13">
<title>The way of a vector from a silo's rows to the released model, file by file of core</title>
<style>
rect {{ fill: #f4f6fa; stroke: #3f51b5; }}
text {{ fill: #222; }}
.stage {{ font-weight: bold; fill: #3f51b5; }}
.tag {{ font-weight: bold; fill: #b71c1c; }}
.module {{ font-size: 11.5px; fill: #555; }}
.arrow {{ stroke: #3f51b5; stroke-width: 2; marker-end: url(#head); }}
</style>
<defs><marker id="head" viewBox="0 0 6 6" refX="3" refY="3" markerWidth="4" markerHeight="4" orient="auto">
<path d="M 0 0 L 6 3 L 0 6 z" fill="#3f51b5"/></marker></defs>"""


def main() -> None:
    """Print the modules, the number of each package, and the number of all; or draw them."""
    if len(sys.argv) != 2 or sys.argv[1] not in (*WAYS, "draw"):
        sys.exit(f"usage: python docs/trace.py {'|'.join(WAYS)}|draw")
    if sys.argv[1] == "draw":
        PICTURE.write_text(picture(trace("masked")))
        return
    found = trace(sys.argv[1])
    packages = Counter(name.split("/")[0] for name in found)
    lines = [
        *found,
        "",
        *(f"{own:12} {number}" for own, number in packages.items()),
        f"{'in all':12} {len(found)}",
    ]
    sys.stderr.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
