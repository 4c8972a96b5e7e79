"""`make bench`: ratios measured side by side in one run, as a table and as JSON."""

import json
import platform
import sys
from pathlib import Path

import numpy
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import centred
import cluster
import dpadmm
import evaluation
import experiment
import federation
import growth
import joining
import logistic
import masks
import noise
import quadratic
import rank_one
import records
import screening
import starts
import streaming

PARTS = {
    "quadratic": quadratic,
    "rank-one": rank_one,
    "noise": noise,
    "masks": masks,
    "logistic": logistic,
    "centred": centred,
    "experiment": experiment,
    "federation": federation,
    "joining": joining,
    "screening": screening,
    "streaming": streaming,
    "starts": starts,
    "evaluation": evaluation,
    "growth": growth,
    "records": records,
    "cluster": cluster,
}


def main(wanted: list[str]) -> None:
    """Measure the wanted parts (all if none is named), print the table and write benchmarks/results/latest.json."""
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        sys.exit(f"unknown part {unknown}; choose from {list(PARTS)}")
    console, rows = Console(width=150), []
    with threadpool_limits(limits=1, user_api="blas"):
        for name in wanted or PARTS:
            console.print(f"measuring {name} (the first call of a kernel compiles it) ...")
            rows += PARTS[name].rows()
    table = Table(title="Ratios above 1 favour dpadmm; bandwidth rows show the share of the limit")
    for column in ("what", "ours", "reference", "theirs", "ratio", "target"):
        table.add_column(column, justify="left" if column in ("what", "reference") else "right")
    for row in rows:
        theirs = "" if row.reference_value is None else f"{row.reference_value:.3g}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        target = "" if row.target is None else f">= {row.target:g}"
        target = target if row.most is None else f"<= {row.most:g}"
        table.add_row(row.name, f"{row.value:.3g} {row.unit}", row.reference, theirs, ratio, target)
    console.print(table)
    out = Path(__file__).parent / "results" / "latest.json"
    out.parent.mkdir(exist_ok=True)
    facts = {"dpadmm": dpadmm.__version__, "numpy": numpy.__version__, "machine": platform.machine()}
    out.write_text(json.dumps({"facts": facts, "rows": [row.as_dict() for row in rows]}, indent=1) + "\n")
    console.print(f"also written to {out.relative_to(Path.cwd()) if out.is_relative_to(Path.cwd()) else out}")


if __name__ == "__main__":  # workers of a cluster import this file again
    main(sys.argv[1:])
