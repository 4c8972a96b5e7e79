"""Drafted terms against `dpadmm fit` on the same tables: the four Heart hospitals, whole federations over TLS.

    DPADMM_DATA=... python benchmarks/drafted.py --runs 20

Every run is a private release with fresh noise, so that figures differ from one call to the next. Accuracy is that on
the tables trained on; the standard errors are of its mean over runs.
"""

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

from dpadmm.core.model import ReleasedModel
from dpadmm.federation.admin.rehearsal import Rehearsal, run_rehearsal
from dpadmm.federation.coordinator_store import CoordinatorFiles
from dpadmm.federation.keys import fingerprint
from dpadmm.federation.policy import FULLY_CERTIFIED, SUMMED, Policy
from dpadmm.federation.silo import Silo
from dpadmm.federation.silo_directory import SiloDirectory
from dpadmm.models.federated import federation_model
from dpadmm.planner.drafting import draft
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import Protection, View
from dpadmm.settings import CellRules
from dpadmm_research.datasets import heart

TARGET = Target(2.0, 1e-5)
VIEWS = ("eavesdropper", "aggregate")
SCREENING = CellRules(missing="fill")


def write_tables(place: Path) -> dict[str, Path]:
    """Write a table for each hospital, empty cells included; return where they are."""
    folder = heart.data_folder("heart_disease", None)
    heart.SCHEMA.save(place / "schema.json")
    found = {}
    for hospital in heart.HOSPITALS:
        found[hospital] = place / f"{hospital}.csv"
        heart._read(folder, hospital).drop(columns="hospital").to_csv(found[hospital], index=False)
    return found


def accuracy(model: ReleasedModel, tables: dict[str, Path]) -> float:
    """Return the accuracy on all tables together."""
    whole = pd.concat([pd.read_csv(path) for path in tables.values()])
    likely = model.predict_proba(whole, cells=CellRules(missing="fill"))[:, 1] > 0.5
    return float((likely == (whole["num"] > 0)).mean())


def fitted(place: Path, tables: dict[str, Path], view: str) -> float:
    """Train in one place, as the command does."""
    texts = [*map(str, tables.values()), "--schema", str(place / "schema.json"), "--missing", "fill", "--view", view]
    texts += ["--epsilon", str(TARGET.epsilon), "--delta", str(TARGET.delta)]
    texts += ["--out", str(place / "fit.json"), "--force"]
    done = subprocess.run([sys.executable, "-m", "dpadmm", "fit", *texts], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return accuracy(ReleasedModel.load(place / "fit.json"), tables)


def federated(place: Path, tables: dict[str, Path], view: str) -> float:
    """Draft terms from the silos' entries, and run them, every silo a process of its own."""
    is_summed, entries, silos = view == "aggregate", [], {}
    coordinator = CoordinatorFiles(place / "coordinator")
    key = coordinator.create()
    for name, data in tables.items():
        files = silos[name] = SiloDirectory(place / name)
        methods = FULLY_CERTIFIED + SUMMED * is_summed
        protection = Protection(view=View(view))
        policy = Policy(
            name=name,
            data=str(data),
            schema=str(data.with_name("schema.json")),
            screening=SCREENING,
            methods=methods,
            protection=protection,
        )
        files.create(policy, TARGET.epsilon, TARGET.delta)
        silo = Silo(files.directory)
        entries.append(silo.entry())
        silo.close()
    terms = draft(entries, heart.SCHEMA, TARGET).terms("heart", key.public)
    for files in silos.values():
        silo = Silo(files.directory)
        for each in terms.participants:
            if each.name != silo.policy.name:
                silo.confirm_peer(each.name, fingerprint(each.key))
        silo.approve(terms)
        silo.close()
    with run_rehearsal(Rehearsal(place, terms, coordinator, silos)) as rehearsal:
        outcome = rehearsal.federate()
    return accuracy(federation_model(outcome, heart.SCHEMA), tables)


def main() -> None:
    """Measure both, side by side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="runs of each")
    parser.add_argument("--views", nargs="*", default=VIEWS, choices=VIEWS, help="against whom")
    asked = parser.parse_args()
    for view in asked.views:
        found: dict[str, list[float]] = {"dpadmm fit": [], "drafted terms over TLS": []}
        for _ in range(asked.runs):
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder)
                tables = write_tables(place)
                found["dpadmm fit"].append(fitted(place, tables, view))
                found["drafted terms over TLS"].append(federated(place, tables, view))
        for name, values in found.items():
            error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else float("nan")
            print(f"{view:13} {name:23} accuracy {statistics.mean(values):.4f} +- {error:.4f} ({len(values)} runs)")


if __name__ == "__main__":
    main()
