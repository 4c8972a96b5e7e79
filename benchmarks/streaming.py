"""Tables that are streamed: rows a second of a pass and peak memory at 2e6 and 2e7 rows, and whole fits.

A pass is screening, encoding and the gradient of every row. Each measurement is a process of its own, whose peak memory
counts everything, the packages that it imports included. Rows a second are told by processor time, of all threads. The
files hold whole numbers, and with "categories" also five columns of words; they are made in chunks and removed.
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
_LEAST, _MOST = 1e6, 400.0

_COMMON = f"""
import json, sys, time, warnings
from pathlib import Path
import numpy as np
sys.path.insert(0, {str(Path(__file__).parent)!r})
from table import peak_memory
warnings.simplefilter("ignore")
files, words = [Path(each) for each in sys.argv[1].split("|")], int(sys.argv[2])
known = {{f"x{{j}}": (-100, 200) for j in range(20 - words)}}
known |= {{f"w{{j}}": ["red", "green", "blue", "white"] for j in range(words)}} | {{"sick": ("yes", "no")}}
def told(begin, rows):
    print(json.dumps([time.process_time() - begin, peak_memory(), rows]))
"""
_PASS = f"""{_COMMON}
from dpadmm.core.dataset import Dataset
from dpadmm.data.parquet import ParquetTable
from dpadmm.settings import CellRules
from dpadmm.data.parquet import StreamedTable
from dpadmm.data.sources import public_schema
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import risk_of
schema, table = public_schema(known, "sick", is_real=False), StreamedTable(ParquetTable.of(files[0]))
encoding = schema.encoding(2.0)
(stream,) = Dataset.of_tables(schema, dict(a=table), CellRules()).silos(encoding)
begin = time.process_time()
risk_of(stream, Logistic()).gradient(np.ones((1, encoding.dimension, 1)))
told(begin, table.rows)
"""
_FIT = f"""{_COMMON}
import dpadmm
begin = time.process_time()
is_streamed = sys.argv[4] == "streamed"
task = {{"schema": known, "epsilon": 1, "delta": 1e-9, "seed": 0, "method": sys.argv[3]}}
dpadmm.fit(files, "sick", **task, table=dpadmm.TableOptions(stream=is_streamed))
told(begin, 0)
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
        first = _pass(file, 0, f"{small:,} rows", found)
        found += _fits([file], small, "noisy-gradients")
        tenth = small // 10  # each round of P-ADMM takes several passes
        halves = [write(Path(place) / f"{seed}.parquet", tenth // 2, seed=seed) for seed in (1, 2)]
        found += _fits(halves, tenth, "p-admm")
        for each in (file, *halves):
            each.unlink()
        _pass(write(file, small, 5), 5, f"{small:,} rows, 5 columns of categories", found)
        file.unlink()
        last = _pass(write(file, large), 0, f"{large:,} rows", found)
    growth = "growth of its peak memory, both counted in MB"
    found.append(Row(f"{growth}: {first:.0f} to {last:.0f}", last / first, "times", "", most=1.1))
    return found


def _pass(file: Path, args: int, name: str, found: list[Row]) -> float:
    """Measure a pass; return its peak memory."""
    seconds, peak, number = _measured(_PASS, str(file), str(args))
    speed, what = number / seconds, f"streamed pass, {name} x {COLUMNS}"
    found.append(Row(f"{what}", speed / 1e6, "M rows a s of CPU", "wanted", _LEAST / 1e6, speed / _LEAST, target=1.0))
    found.append(Row(f"{what}: peak memory", peak, "MB, imports included", "", most=_MOST))
    return peak


def _fits(files: list[Path], number: int, method: str) -> list[Row]:
    given = "|".join(map(str, files))
    (ours, peak, _), (theirs, held, _) = (_measured(_FIT, given, "0", method, how) for how in ("streamed", "held"))
    name = f"streamed fit, {method}, {number:,} rows x {COLUMNS}"
    return [
        Row(name, ours, "s of CPU", "the fit in memory", theirs, theirs / ours),
        Row(f"{name}: peak memory", peak, "MB", "the fit in memory", held, held / peak, most=_MOST),
    ]


def _measured(program: str, *args: str) -> tuple[float, float, int]:
    done = subprocess.run([sys.executable, "-c", program, *args], capture_output=True, text=True, check=True)
    seconds, peak, number = json.loads(done.stdout)
    return seconds, peak, number
