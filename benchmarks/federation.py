"""A federation over TLS on this machine, with 4 and with 16 silos: seconds in all and a round, memory of a silo."""

import re
import statistics
import tempfile
import time
from pathlib import Path

from dpadmm.federation.admin.rehearsal import (
    p_admm_terms,
    prepare_rehearsal,
    rehearsal_policy,
    rehearsal_tables,
    run_rehearsal,
)
from table import Row

ROUNDS = 10
LIMITS = {
    4: {"in all": 15.0, "a round": 0.5, "most memory of a silo": 250.0},
    16: {"in all": 60.0, "a round": 1.5, "most memory of a silo": 250.0},
}
"""What it may take at most."""


def _peak_megabytes(pid: int) -> float:
    """Return the most memory that a process has held."""
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1]) / 1000


def _rehearsed(silos: int) -> tuple[float, float, float]:
    """Return seconds from the first process to the model, seconds a round, and the most megabytes of a silo."""
    tables, schema = rehearsal_tables(silos, None, None, None)
    with tempfile.TemporaryDirectory(prefix="dpadmm-rehearsal-") as folder:
        place = Path(folder)
        build = p_admm_terms(schema, ROUNDS, 1.0)
        began = time.perf_counter()
        rehearsal = prepare_rehearsal(place, tables, schema, build, rehearsal_policy, (2.0, 1e-5))
        with run_rehearsal(rehearsal):
            outcome = rehearsal.federate()
            whole = time.perf_counter() - began
            most = max(_peak_megabytes(process.popen.pid) for process in rehearsal.nodes.values())
    return whole, statistics.mean(outcome.seconds_per_round), most


def rows() -> list[Row]:
    """Measure."""
    found = []
    for silos, limits in LIMITS.items():
        for (what, limit), value in zip(limits.items(), _rehearsed(silos), strict=True):
            name, unit = f"{silos} silos x {ROUNDS} rounds over TLS, {what}", "MB" if "memory" in what else "s"
            found.append(Row(name, value, unit, "limit", limit, limit / value, 1.0))
    return found
