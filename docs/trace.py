"""The way of one fit through the rooms: every module whose functions it calls, in the order of the first call.

    python docs/trace.py fit          # `dpadmm fit` on two files
    python docs/trace.py estimator    # PrivateLogisticRegression.fit on two silos

Both keep a ledger and plan with an empty cache, in a temporary home. What runs during imports does not count.
"""

import inspect
import json
import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

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
        if code.co_name == "<module>":
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


def fit(place: Path) -> Callable[[], object]:
    """`dpadmm fit` on the files of two silos, with a new ledger."""
    from dpadmm.cli.main import app

    for name, table in zip(("north", "south"), tables(), strict=True):
        table.to_csv(place / f"{name}.csv", index=False)
    columns = [{"kind": "numeric", "name": name, "lower": 0, "upper": 1, "typical": 0.5} for name in ("a", "b")]
    label = {"kind": "binary", "name": "y", "positive": ["1"], "negative": ["0"]}
    schema = {"format": "dpadmm-schema", "version": 1, "row_norm": 1.0, "constant": 0.5}
    (place / "schema.json").write_text(json.dumps({**schema, "label": label, "columns": columns}))
    words = "fit north.csv south.csv --schema schema.json --epsilon 1 --delta 1e-5 --ledger data.ledger --budget 2"
    return lambda: app([*words.split(), "--json"], standalone_mode=False)


def estimator(place: Path) -> Callable[[], object]:
    """`PrivateLogisticRegression.fit` on two silos, with a ledger."""
    from dpadmm.estimators import PrivateLogisticRegression, ledger_data
    from dpadmm.privacy.ledger import Budget, Ledger

    table, groups = pd.concat(tables()), np.repeat(["north", "south"], 300)
    X, y = table[["a", "b"]].to_numpy(), table["y"].to_numpy()
    Ledger.create(place / "data.ledger", ledger_data(X, y, groups), Budget(epsilon=2.0, delta=1e-5)).close()
    model = PrivateLogisticRegression(1.0, 1e-5, feature_bounds=(0, 1), classes=(0, 1), ledger=place / "data.ledger")
    return lambda: model.fit(X, y, groups)


WAYS = {"fit": fit, "estimator": estimator}


def trace(way: str) -> list[str]:
    """Return the modules of one way, from a temporary home and folder."""
    before, cache = Path.cwd(), os.environ.get("XDG_CACHE_HOME")
    with tempfile.TemporaryDirectory() as home:
        os.environ["XDG_CACHE_HOME"] = home
        os.chdir(home)
        try:
            return modules_of(WAYS[way](Path(home)))
        finally:
            os.chdir(before)
            os.environ.pop("XDG_CACHE_HOME")
            if cache is not None:
                os.environ["XDG_CACHE_HOME"] = cache


def main() -> None:
    """Print the modules, the number of each room, and the number of all."""
    if len(sys.argv) != 2 or sys.argv[1] not in WAYS:
        sys.exit(f"usage: python docs/trace.py {'|'.join(WAYS)}")
    found = trace(sys.argv[1])
    rooms = Counter(name.split("/")[0] for name in found)
    lines = [*found, "", *(f"{room:12} {number}" for room, number in rooms.items()), f"{'in all':12} {len(found)}"]
    sys.stderr.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
