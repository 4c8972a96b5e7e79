"""Fits of tables that are streamed beside the same in memory: processor time and peak anonymous memory.

A streamed table is encoded once into a private file; mapped pages of it are the system's to take back, so memory that
is not backed by a file counts. Each fit is a process of its own, and its time that of all threads. The files hold whole
numbers, and with "categories" also five columns of words; they are made in chunks and removed.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from table import Row

SMALL, LARGE = 2_000_000, 20_000_000
COLUMNS, CHUNK, ARGUMENTS = 20, 250_000, ("red", "green", "blue", "white")
_MOST, _SHARE = 450.0, 1 / 1.3

_FIT = f"""
import json, sys, time, warnings
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from table import anonymous_peak
warnings.simplefilter("ignore")
files, words = [Path(each) for each in sys.argv[1].split("|")], int(sys.argv[2])
known = {{f"x{{j}}": (-100, 200) for j in range(20 - words)}}
known |= {{f"w{{j}}": ["red", "green", "blue", "white"] for j in range(words)}} | {{"sick": ("yes", "no")}}
import dpadmm
begin = time.process_time()
task = {{"schema": known, "epsilon": 1, "delta": 1e-9, "seed": 0, "method": sys.argv[3]}}
with anonymous_peak() as peak:
    dpadmm.fit(files, "sick", **task, table=dpadmm.TableOptions(stream=sys.argv[4] == "streamed"))
print(json.dumps([time.process_time() - begin, *peak]))
"""


def write(path: Path, number: int, args: int = 0, seed: int = 0) -> Path:
    """Write a table of so many rows, of whole numbers and some columns of words."""
    rng = np.random.default_rng(seed)
    slopes = np.linspace(-1, 1, COLUMNS - args)
    named = [(f"x{j}", pa.float64()) for j in range(COLUMNS - args)] + [(f"w{j}", pa.string()) for j in range(args)]
    with pq.ParquetWriter(path, pa.schema([*named, ("sick", pa.string())])) as out:
        for first in range(0, number, CHUNK):
            n = min(CHUNK, number - first)
            X = np.rint(20 * rng.normal(size=(n, COLUMNS - args))) + 50
            texts = [rng.choice(ARGUMENTS, n) for _ in range(args)]
            is_sick = (X - 50) @ slopes / 20 + rng.logistic(size=n) > 0
            out.write_table(pa.table([*X.T, *texts, np.where(is_sick, "yes", "no")], schema=out.schema))
    return path


def rows(small: int = SMALL, large: int = LARGE) -> list[Row]:
    """Return the measurements; P-ADMM has its rows in two silos."""
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as place:
        file = write(Path(place) / "small.parquet", small)
        first = _fits([file], small, "noisy-gradients", 0, found)
        write(file, small, 5)
        _fits([file], small, "noisy-gradients", 5, found)
        halves = [write(Path(place) / f"{seed}.parquet", small // 10, seed=seed) for seed in (1, 2)]
        _fits(halves, small // 5, "p-admm", 0, found)
        last = _measured(write(file, large), 0, "noisy-gradients", "streamed")
    name = f"streamed fit, noisy-gradients, {large:,} rows x {COLUMNS}"
    found.append(Row(name, last[0], "s of CPU", f"for a tenth of the rows {first[0]:.1f}"))
    found.append(Row(f"{name}: anonymous memory", last[1], "MB", f"for a tenth of the rows {first[1]:.0f}"))
    return found


def _fits(files: list[Path], number: int, method: str, args: int, found: list[Row]) -> tuple[float, float]:
    """Measure both fits; return seconds and memory of the streamed one."""
    given = "|".join(map(str, files))
    ours, theirs = (_measured(given, args, method, how) for how in ("streamed", "held"))
    name = f"streamed fit, {method}, {number:,} rows x {COLUMNS}{', 5 of categories' * (args > 0)}"
    found.append(Row(name, ours[0], "s of CPU", "in memory", theirs[0], theirs[0] / ours[0], target=_SHARE))
    memory = (ours[1], "MB", "in memory", theirs[1], theirs[1] / ours[1])
    found.append(Row(f"{name}: anonymous memory", *memory, most=_MOST))
    return ours


def _measured(files: object, *args: object) -> tuple[float, float]:
    command = [sys.executable, "-c", _FIT, *map(str, (files, *args))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, peak = json.loads(done.stdout)
    return seconds, peak
