"""Screening a table of text cells, beside the code of commit 3edf231, in which every cell was looked at by itself.

200,000 rows of 39 columns as they are read from CSV: 10 of whole numbers, 10 of decimals (3 of them with as many
different cells as rows), 12 of words, 6 of codes, and a label. Both read the same file in a process of their own and
screen it in turns with the other; the best processor time of several counts. Encoding the rows is not counted.
"""

import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from table import Row

ROWS, TURNS = 200_000, 3
_ROOT, _EARLIER = Path(__file__).parent.parent, "3edf231"

_COLUMNS = """
import sys, time
from pathlib import Path
from dpadmm.data.columns import Categorical, Numeric
from dpadmm.data.schema import Schema
columns = [Numeric(f"whole {j}", 0, 100) for j in range(10)] + [Numeric(f"decimal {j}", 0, 250) for j in range(10)]
columns += [Categorical(f"word {j}", tuple(f"kind {i}" for i in range(3 + j))) for j in range(12)]
columns += [Categorical(f"code {j}", tuple(range(1, 4 + j))) for j in range(6)]
"""
_TURNS = """
for _ in sys.stdin:
    begin = time.process_time()
    screen()
    print(time.process_time() - begin, flush=True)
"""
_NOW = f"""{_COLUMNS}
from dpadmm.data.columns import BinaryLabel
from dpadmm.data.reading import read_file
from dpadmm.data.tables import screen_cells
from dpadmm.settings import CellRules
frame, schema = read_file(Path(sys.argv[1])).frame, Schema(columns, BinaryLabel("sick", ("yes",), ("no",)))
def screen():
    screen_cells(schema, frame, "t", CellRules())
{_TURNS}"""
_THEN = f"""{_COLUMNS}
from dpadmm.cli.tables import read_table
from dpadmm.data import screening
from dpadmm.data.labels import BinaryLabel
frame, label = read_table(Path(sys.argv[1])), BinaryLabel("sick", ("yes",), ("no",))
def screen():
    findings = screening._Findings("t", screening._row_numbers(frame))
    judged = {{each.name: screening.judge(each, frame[each.name], findings) for each in (*columns, label)}}
    for name, found in judged.items():
        screening._apply(name, found, screening.Screening(), findings)
{_TURNS}""".replace("dpadmm.data", "dpadmm.datasets")  # as the package was called


def table(rows: int) -> pd.DataFrame:
    """Return the table."""
    rng = np.random.default_rng(0)
    columns = {f"whole {j}": rng.integers(0, 100, rows) for j in range(10)}
    columns |= {f"decimal {j}": rng.normal(130, 20, rows).round(2 if j < 7 else 12) for j in range(10)}
    columns |= {f"word {j}": rng.choice([f"kind {i}" for i in range(3 + j)], rows) for j in range(12)}
    columns |= {f"code {j}": rng.integers(1, 4 + j, rows) for j in range(6)}
    return pd.DataFrame(columns | {"sick": rng.choice(["yes", "no"], rows)})


def rows(number: int = ROWS) -> list[Row]:
    """Return the measurement; nothing where the history is not there."""
    packed = subprocess.run(["git", "archive", _EARLIER, "src"], cwd=_ROOT, capture_output=True)
    if packed.returncode:
        print(f"left out: commit {_EARLIER} is not in this copy of the repository")
        return []
    with tempfile.TemporaryDirectory() as place:
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
            files.extractall(place, filter="data")
        file = Path(place) / "table.csv"
        table(number).to_csv(file, index=False)
        now, then = _started(_NOW, _ROOT / "src", file), _started(_THEN, Path(place) / "src", file)
        spent = [(_turn(now), _turn(then)) for _ in range(TURNS)]
        for process in (now, then):
            process.communicate()
    ours, theirs = (min(each) for each in zip(*spent, strict=True))
    name = f"screening text cells, {number:,} rows x 39 columns"
    return [Row(name, ours, "s of CPU", f"commit {_EARLIER}", theirs, theirs / ours, target=10.0)]


def _started(program: str, source: Path, file: Path) -> "subprocess.Popen[str]":
    environment = os.environ | {"PYTHONPATH": str(source)}
    texts = [sys.executable, "-c", program, str(file)]
    return subprocess.Popen(texts, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def _turn(process: "subprocess.Popen[str]") -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return float(process.stdout.readline())
