"""The way of one fit through the rooms: every module whose functions it calls, in the order of the first call.

    python docs/trace.py fit          # `dpadmm fit` on two files
    python docs/trace.py estimator    # PrivateLogisticRegression.fit on two silos
    python docs/trace.py recorded     # `dpadmm fit` again, recorded in a new ledger
    python docs/trace.py draw         # that one as docs/pictures/way.svg

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
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd

import dpadmm

HOME = f"{Path(dpadmm.__file__).parent}/"


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
            found.setdefault(code.co_filename.removeprefix(HOME).removesuffix(".py"))
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
    words = "fit north.csv south.csv --schema schema.json --epsilon 1 --delta 1e-5"
    return lambda: app([*words.split(), *more, "--json"], standalone_mode=False)


def recorded(place: Path) -> Callable[[], object]:
    """The same, recorded in a new ledger."""
    return fit(place, "--ledger", "data.ledger", "--budget", "2")


def estimator(_: Path) -> Callable[[], object]:
    """`PrivateLogisticRegression.fit` on two silos."""
    from dpadmm.estimators import PrivateLogisticRegression

    table, groups = pd.concat(tables()), np.repeat(["north", "south"], 300)
    X, y = table[["a", "b"]].to_numpy(), table["y"].to_numpy()
    model = PrivateLogisticRegression(1.0, 1e-5, feature_bounds=(0, 1), classes=(0, 1))
    return lambda: model.fit(X, y, groups)


WAYS = {"fit": fit, "estimator": estimator, "recorded": recorded}


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


WORDS = {
    "cli": "the command's options",
    "front": "the one path of a fit, from Python and the command line alike",
    "estimators": "what was asked for, checked before a row is read",
    "data": "a file becomes rows of bounded norm: read, screened, encoded by the schema",
    "problems": "rows become each silo's function f_i, with its public constants",
    "planner": "public facts alone become a plan: method, rounds, ridge, noise",
    "methods": "one round of the method; it says what it releases, and what one record can move",
    "privacy": "a certificate bounds that; the ledger records the cost before any noise is drawn",
    "noise": "exact noise of the certified size",
    "networks": "who hears whom",
    "core": "the one loop over the rounds",
    "solvers": "each silo's own minimisation in a round",
    "reporting": "the released model: predictions, statement, file and report",
}
"""What happens to a vector in each room, in the order of its way; what belongs to no room is not drawn."""

PICTURE = Path(__file__).parent / "pictures" / "way.svg"
_WIDTH, _LINE, _GAP, _LETTERS = 760, 17, 14, 104


def picture(found: list[str]) -> str:
    """Return the rooms of a trace as SVG, from the file (top) to the model (bottom), with the modules visited."""
    rooms = {room: [name.split("/", 1)[1] for name in found if name.startswith(f"{room}/")] for room in WORDS}
    parts, top = [], 10
    for room, modules in rooms.items():
        if not modules:
            continue
        lines = textwrap.wrap(", ".join(modules), _LETTERS)
        height = 38 + _LINE * len(lines)
        if parts:
            parts.append(f'<path class="arrow" d="M {_WIDTH / 2:g} {top - _GAP} v {_GAP - 4}"/>')
        parts.append(f'<rect x="10" y="{top}" width="{_WIDTH - 20}" height="{height}" rx="6"/>')
        parts.append(f'<text class="room" x="24" y="{top + 21}">{room}</text>')
        parts.append(f'<text x="136" y="{top + 21}">{escape(WORDS[room])}</text>')
        parts += [
            f'<text class="module" x="136" y="{top + 42 + _LINE * i}">{escape(line)}</text>'
            for i, line in enumerate(lines)
        ]
        top += height + _GAP
    return "\n".join([_HEAD.format(width=_WIDTH, height=top), *parts, "</svg>", ""])


_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"
 font-family="sans-serif" font-size="13">
<title>The way of one vector from a silo's file to the released model, room by room</title>
<style>
rect {{ fill: #f4f6fa; stroke: #3f51b5; }}
text {{ fill: #222; }}
.room {{ font-weight: bold; fill: #3f51b5; }}
.module {{ font-size: 11.5px; fill: #555; }}
.arrow {{ stroke: #3f51b5; stroke-width: 2; marker-end: url(#head); }}
</style>
<defs><marker id="head" viewBox="0 0 6 6" refX="3" refY="3" markerWidth="4" markerHeight="4" orient="auto">
<path d="M 0 0 L 6 3 L 0 6 z" fill="#3f51b5"/></marker></defs>"""


def main() -> None:
    """Print the modules, the number of each room, and the number of all; or draw them."""
    if len(sys.argv) != 2 or sys.argv[1] not in (*WAYS, "draw"):
        sys.exit(f"usage: python docs/trace.py {'|'.join(WAYS)}|draw")
    if sys.argv[1] == "draw":
        PICTURE.write_text(picture(trace("recorded")))
        return
    found = trace(sys.argv[1])
    rooms = Counter(name.split("/")[0] for name in found)
    lines = [*found, "", *(f"{room:12} {number}" for room, number in rooms.items()), f"{'in all':12} {len(found)}"]
    sys.stderr.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
