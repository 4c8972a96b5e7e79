"""Golden files of seeded scenarios: `python tests/locks.py [NAME ...]` writes them, tests/test_locks.py compares.

Every scenario is a whole flow: models, noise plans, ledger entries, `--json` outputs, pages, predictions, federations.
Files hold every digit, so that `git diff tests/golden/locks` after writing them anew shows the last bit. The test
allows for rounding, since processors differ.
"""

import argparse
import importlib.util
import json
import math
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpadmm.settings import CellRules, TrainingOptions

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from tests.grouped import grouped  # noqa: E402 - a script's own folder is all that is searched

sys.path.pop(0)

FOLDER = ROOT / "tests" / "golden" / "locks"
CHANGING = {
    "created", "first_time", "last_time",
    "run", "digest", "head", "time", "at", "since", "version_since", "data_since", "package", "key", "salt",
    "data", "name_digest", "seconds", "previous", "signature", "nonce", "id",
}  # fmt: skip
"""Fields that no two runs share, or that name the version."""

SCENARIOS: dict[str, Callable[[Path], Any]] = {}


def scenario(function: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """Register a scenario under its name."""
    SCENARIOS[function.__name__] = function
    return function


def plain(value: Any) -> Any:
    """Return a value as JSON has it, without fields that change from run to run."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items() if key not in CHANGING}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str):
        return re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "UUID", value)
    return value


def rows(n: int = 600, d: int = 3, classes: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features in [-1, 1], classes that the first features decide, and silos."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d))
    if classes == 2:
        y = (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)
    else:
        y = np.argmax(X[:, :classes] + 0.3 * rng.normal(size=(n, classes)), axis=1)
    return X, y, np.arange(n) % 3


def classifier(**more: Any) -> Any:
    from dpadmm import PrivateLogisticRegression

    usual = {"epsilon": 1.0, "delta": 1e-5, "feature_bounds": (-1, 1), "classes": (0, 1), "random_state": 7}
    return PrivateLogisticRegression(**grouped(**(usual | more)))


def saved(model: Any, folder: Path) -> Any:
    model.save(folder / "model.json")
    return json.loads((folder / "model.json").read_text())


def noise_of(plan: Any) -> Any:
    """Return the ends of a noise plan: who releases what in the first and last round of each kind, at which noise."""
    found: dict[str, list[Any]] = {}
    for (kind, when), row in plan.releases.items():
        for agent, release in row.items():
            certificate = release.certificate
            facts = [when, agent, release.count, certificate.theorem, getattr(certificate, "bound", None)]
            facts += [getattr(release, name, None) for name in ("noise_std", "noise_rate", "rate")]
            found.setdefault(f"{type(release).__name__} {kind.name}", []).append(facts)
    return {name: {"releases": len(each), "first": each[0], "last": each[-1]} for name, each in found.items()}


def fitted(estimator: Any, X: Any, y: Any, folder: Path, **more: Any) -> dict[str, Any]:
    """Return a fit's model file, its noise plans and its plan."""
    estimator.fit(X, y, **more)
    plan = estimator.plan_
    return {
        "model": saved(estimator, folder),
        "noise, simulated": noise_of(plan.spec.noise_plan(is_secure=False)),
        "noise, secure": noise_of(plan.spec.noise_plan(is_secure=True)),
        "plan": plan.as_json(),
    }


# --- fits ------------------------------------------------------------------------------------------------------------


@scenario
def plain_fit(folder: Path) -> Any:
    X, y, silos = rows()
    return fitted(classifier(), X, y, folder, groups=silos)


@scenario
def column_profile(folder: Path) -> Any:
    X, y, silos = rows(6000)
    return fitted(classifier(epsilon=5.0, profile_share=0.2), X * [1, 0.2, 0.05], y, folder, groups=silos)


@scenario
def masked_sums(folder: Path) -> Any:
    X, y, silos = rows(3000)
    return fitted(classifier(view="aggregate", method="noisy-gradients", profile="off"), X, y, folder, groups=silos)


@scenario
def one_vs_rest(folder: Path) -> Any:
    X, y, _ = rows(3000, classes=3)
    return fitted(classifier(classes=(0, 1, 2), multi_class="one-vs-rest", epsilon=4.0), X, y, folder)


@scenario
def softmax(folder: Path) -> Any:
    X, y, _ = rows(3000, classes=3)
    return fitted(classifier(classes=(0, 1, 2), multi_class="softmax", epsilon=4.0), X, y, folder)


@scenario
def intervals(folder: Path) -> Any:
    X, y, _ = rows(6000)
    estimator = classifier(aim="inference", epsilon=4.0, profile="off")
    found = fitted(estimator, X, y, folder)
    return found | {"summary": str(estimator.summary())}


@scenario
def private_search(folder: Path) -> Any:
    from dpadmm import PrivateSearchCV

    X, y, _ = rows(6000)
    model = classifier(epsilon=4.0, profile="off")
    search = PrivateSearchCV(model, {"alpha": [1e-4, 1.0]}, compared=2)
    search.fit(X, y)
    return {"model": saved(search.best_estimator_, folder), "best": search.best_params_}


@scenario
def persons(folder: Path) -> Any:
    X, y, silos = rows(3000)
    return fitted(classifier(epsilon=3.0), X, y, folder, groups=silos, persons=np.arange(3000) // 6 * 3 + silos)


@scenario
def regression(folder: Path) -> Any:
    from dpadmm import PrivateLinearRegression

    X, _, silos = rows(3000)
    y = X @ [1.0, -2.0, 0.5]
    model = PrivateLinearRegression(3.0, 1e-5, feature_bounds=(-1, 1), target_bounds=(-4, 4), random_state=7)
    return fitted(model, X, y, folder, groups=silos)


@scenario
def vector_machine(folder: Path) -> Any:
    from dpadmm import PrivateLinearSVC

    X, y, _ = rows(3000)
    return fitted(PrivateLinearSVC(3.0, 1e-5, feature_bounds=(-1, 1), classes=(0, 1), random_state=7), X, y, folder)


# --- tables ----------------------------------------------------------------------------------------------------------


def study(folder: Path) -> tuple[list[Path], dict[str, Any]]:
    """Write two silos' tables; return their paths and what is public."""
    rng = np.random.default_rng(5)
    paths = []
    for name, n in (("north", 900), ("south", 700)):
        age = rng.integers(20, 90, n)
        sick = np.where(rng.random(n) < 1 / (1 + np.exp(-(age - 55) / 5)), "yes", "no")
        cost = (age * 10 + rng.normal(0, 50, n)).round(1)
        sex, stage = rng.choice(["F", "M"], n), np.digitize(age, [40, 60])
        table = {"age": age, "sex": sex, "cost": cost, "sick": sick, "stage": [f"s{each}" for each in stage]}
        paths.append(folder / f"{name}.csv")
        pd.DataFrame(table).to_csv(paths[-1], index=False)
    return paths, {"age": (0, 120), "sex": ["F", "M"]}


LABELS: dict[str, tuple[str, Any, str]] = {
    "two words": ("sick", ["no", "yes"], "auto"),
    "three classes": ("stage", ["s0", "s1", "s2"], "auto"),
    "a number": ("cost", (0, 1300), "huber"),
}


@scenario
def tables_of_every_label(folder: Path) -> Any:
    """Fit tables by every kind of label, and predict."""
    import dpadmm

    paths, public = study(folder)
    found = {}
    for kind, (target, values, loss) in LABELS.items():
        model = dpadmm.fit(
            paths,
            target,
            epsilon=3.0,
            delta=1e-5,
            schema=public | {target: values},
            seed=3,
            training=TrainingOptions(loss=loss),
        )
        table = pd.read_csv(paths[0]).head(5)
        found[kind] = {"model": saved(model, folder), "predicted": [str(each) for each in model.predict(table)]}
        (folder / "model.json").unlink()
        if kind != "a number":
            found[kind]["probabilities"] = model.predict_proba(table)
    return found


@scenario
def arrays_of_every_label(folder: Path) -> Any:
    """Classes may be numbers, words or truth values; predictions have their type."""
    X, y, _ = rows()
    kinds = {"int": (0, 1), "float": (0.0, 1.0), "bool": (False, True), "str": ("a", "b")}
    found = {}
    for kind, classes in kinds.items():
        estimator = classifier(classes=classes).fit(X, np.array(classes)[y])
        predicted = estimator.predict(X[:5])
        found[kind] = {"predicted": predicted.tolist(), "dtype": predicted.dtype.kind, "coef": estimator.coef_}
        found[kind]["probabilities"] = estimator.predict_proba(X[:3])
    return found


@scenario
def array_predictions(folder: Path) -> Any:
    """What estimators and their saved models predict for arrays and for tables of the same columns, by every label."""
    from dpadmm import PrivateLinearRegression
    from dpadmm.core.model import ReleasedModel
    from dpadmm.models.predict import score_rows

    X, y, silos = rows(3000, classes=3)
    far = np.vstack([X[:4], [[9.0, -9.0, 0.5], [0.0, 0.0, 0.0]]])
    usual: dict[str, Any] = {"epsilon": 4.0, "profile": "off"}
    kinds: dict[str, tuple[Any, Any]] = {
        "three numbers": (classifier(classes=(3, 5, 8), multi_class="one-vs-rest", **usual), np.array([3, 5, 8])[y]),
        "three words": (classifier(classes=(" a", "b", "c"), **usual), np.array([" a", "b", "c"])[y]),
        "truth values": (classifier(classes=None, fit_intercept=False, **usual), y > 0),
        "floats, without bounds": (classifier(classes=(1.0, 2.0), feature_bounds=None, **usual), 1.0 + (y > 0)),
        "a norm": (classifier(row_norm=1.5, feature_bounds=None, **usual), (y > 0).astype(int)),
        "a number": (
            PrivateLinearRegression(4.0, 1e-5, feature_bounds=(-1, 1), target_bounds=(-1, 1.3), random_state=7),
            X @ [1.0, -2.0, 0.5],
        ),
    }
    found = {}
    for kind, (estimator, labels) in kinds.items():
        estimator.fit(X, labels, groups=silos)
        estimator.save(folder / "model.json")
        model = ReleasedModel.load(folder / "model.json")
        names = [column.name for column in model.schema.columns]
        table = pd.DataFrame(far, columns=names)[names[::-1]]
        made = {"own": estimator.predict(far), "of arrays": model.predict(far), "of tables": model.predict(table)}
        made["blanked"] = model.predict(table.mask(table > 5), cells=CellRules(missing="blank"))
        found[kind] = {name: [each.tolist(), each.dtype.kind] for name, each in made.items()}
        found[kind]["scores"] = [score_rows(model, far), score_rows(model, table)]
        found[kind]["coef"] = [estimator.coef_, estimator.intercept_]
        found[kind]["plain"] = json.loads(model.to_plain_json())
        if not model.schema.label.is_real:
            found[kind]["columns"] = [names, list(map(str, model.schema.label.classes))]
        (folder / "model.json").unlink()
    return found


@scenario
def streamed(folder: Path) -> Any:
    import dpadmm

    paths, public = study(folder)
    for path in paths:
        pd.read_csv(path).to_parquet(path.with_suffix(".parquet"), index=False)
    settings = {"epsilon": 3.0, "delta": 1e-5, "schema": public | {"sick": ["no", "yes"]}, "seed": 3}
    model = dpadmm.fit([path.with_suffix(".parquet") for path in paths], "sick", **grouped(stream=True, **settings))
    return {"model": saved(model, folder)}


@scenario
def ledger_entries(folder: Path) -> Any:
    """A fit, an evaluation and a second fit that reuses the profile, with secure noise: what the ledger records."""
    import dpadmm
    from dpadmm.evaluation.private import private_evaluation

    X, y, silos = rows(6000)
    place = folder / "study.ledger"
    first = classifier(random_state=None, ledger=str(place), budget=8.0, profile_share=0.2, epsilon=3.0)
    first.fit(X, y, groups=silos)
    second = classifier(random_state=None, ledger=str(place), alpha=0.01).fit(X, y, groups=silos)
    with dpadmm.Ledger.open(place) as ledger:
        private_evaluation(second, X, y, 0.5, delta=1e-6, groups=silos, ledger=ledger)
        said = ledger.statement()
    exported = json.loads(command("ledger", "show", str(place), "--json"))
    for profile in exported["profiles"]:
        profile["counts"] = len(profile["counts"])  # secure noise: no two runs share them
    return {"shown": exported, "spent": said.spent_epsilon, "privacy": str(first.privacy_)}


@scenario
def evaluation(folder: Path) -> Any:
    from dpadmm.evaluation.private import private_evaluation

    X, y, silos = rows(6000)
    model = classifier(epsilon=3.0).fit(X, y, groups=silos)
    found = private_evaluation(model, X, y, 1.0, delta=1e-6, groups=silos, random_state=3)
    return {"auc": vars_of(found.roc_auc()), "counts": found.counts, "privacy": str(found.privacy)}


def vars_of(record: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if isinstance(value, int | float | str | tuple)}


# --- methods by name -------------------------------------------------------------------------------------------------

METHODS: dict[str, dict[str, Any]] = {
    "p-admm": {"rounds": 12, "eta": 0.05, "mu": 0.01},
    "p-admm-recycled": {"rounds": 12, "eta": 0.05, "mu": 0.01},
    "dvp": {"rounds": 8, "eta": 0.05, "mu": 0.01, "delta": 0.0},
    "r-admm": {"rounds": 9, "eta": 0.05, "mu": 0.01, "delta": 0.0},
    "consensus-gaussian": {"rounds": 8, "rho": 0.3, "mu": 0.01},
    "fp-coordinator": {"rounds": 8, "gamma": 1.0, "mu": 0.01},
    "noisy-gradients": {"rounds": 8, "step": 0.5, "mu": 0.01},
    "linearised-admm": {"rounds": 8, "rho": 0.5, "step": 0.5, "mu": 0.01},
    "output-perturbation": {"rounds": 1, "mu": 0.05},
    "dp-gd": {"rounds": 8, "mu": 0.01},
}


@scenario
def methods_by_name(folder: Path) -> Any:
    import dpadmm

    X, y, silos = rows()
    X, y = X / 2, 2.0 * y - 1
    parts = [(X[silos == k], y[silos == k]) for k in range(3)]
    found: dict[str, Any] = {}
    for name, numbers in METHODS.items():
        settings = {"epsilon": 2.0, "delta": 1e-5, "seed": 3} | numbers
        try:
            done = dpadmm.run(name, [(X, y)] if name == "dp-gd" else parts, **settings)
        except dpadmm.errors.DpadmmError as refusal:
            found[name] = type(refusal).__name__
            continue
        found[name] = {"model": done.model, "epsilon": done.epsilon, "text": str(done)}
        found[name]["noise"] = noise_of(done.spec.noise_plan(is_secure=False))
    return found


@scenario
def planned_methods(folder: Path) -> Any:
    """Rounds and numbers from public facts alone."""
    import dpadmm

    plans = {}
    for view in ("eavesdropper", "public", "aggregate"):
        for epsilon in (0.5, 5.0):
            plan = dpadmm.plan(sizes=(900, 700, 800), dimension=6, epsilon=epsilon, delta=1e-5, view=view)
            plans[f"{view} {epsilon}"] = plan.as_json()
    return plans


# --- commands and pages ----------------------------------------------------------------------------------------------


def command(*arguments: str) -> str:
    """Run a command in this process; return what it prints."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from typer.testing import CliRunner

        from dpadmm.cli.main import app

    done = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "300", "TERM": "dumb"})
    if done.exit_code != 0:
        raise RuntimeError(f"dpadmm {' '.join(arguments)}: {done.output}")
    return str(done.stdout)


class Facts(HTMLParser):
    """The texts of a page's tables and headings."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._open = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag in ("td", "th", "h1", "h2", "dd", "dt"):
            self._open += 1
            self.found.append("")

    def handle_endtag(self, tag: str) -> None:
        self._open -= tag in ("td", "th", "h1", "h2", "dd", "dt")

    def handle_data(self, data: str) -> None:
        if self._open:
            self.found[-1] = f"{self.found[-1]} {' '.join(data.split())}".strip()


@scenario
def commands_and_page(folder: Path) -> Any:
    """`--json` of a whole session, and the facts of the page."""
    paths, _ = study(folder)
    files = [str(path) for path in paths]
    schema = {
        "format": "dpadmm-schema",
        "version": 1,
        "row_norm": 1.0,
        "constant": 0.5,
        "label": {"kind": "binary", "name": "sick", "positive": ["yes"], "negative": ["no"]},
        "columns": [
            {"kind": "numeric", "name": "age", "lower": 0, "upper": 120, "typical": 55},
            {"kind": "categorical", "name": "sex", "categories": ["F", "M"]},
        ],
    }
    where, model, page = folder / "schema.json", str(folder / "model.json"), folder / "page.html"
    where.write_text(json.dumps(schema))
    budget = ("--schema", str(where), "--epsilon", "2", "--delta", "1e-5", "--json")
    said = {
        "plan": command("plan", *files, *budget),
        "fit": command("fit", *files, *budget, "--simulate", "3", "--out", model),
        "evaluate": command("evaluate", model, files[0], "--public", "made up", "--declare", "published", "--json"),
        "schema check": command("schema", "check", str(where), *files, "--json"),
        "algorithms": command("methods", "--json"),
    }
    command("report", model, "--out", str(page))
    facts = Facts()
    facts.feed(page.read_text())
    held = [re.sub(r"\d{4}-\d\d-\d\d[ \d:]*(UTC)?", "DATE", each) for each in facts.found]
    read = {name: json.loads(text.replace(str(folder), "FOLDER")) for name, text in said.items()}
    return read | {"page": [each.replace(str(folder), "FOLDER") for each in held if "dpadmm 0." not in each]}


# --- federations -----------------------------------------------------------------------------------------------------


def setups() -> Any:
    """Return the helpers that make a federation in a folder."""
    sys.path.insert(0, str(ROOT))
    spec = importlib.util.spec_from_file_location("lock_setups", ROOT / "tests/federation/protocol/setups.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def federated(folder: Path, **terms: Any) -> Any:
    """Run a federation in this process; return the model, and who released what at which noise."""
    from dpadmm.federation.outcome import outcome_of

    world = setups().make(folder, **terms)
    coordinator = world.coordinator()
    world.drive(coordinator)
    outcome = outcome_of(coordinator)
    spent = {name: world.statement(name).spent_epsilon for name in world.silos}
    return {"estimate": outcome.estimate, "noise": noise_of(coordinator.terms.plan), "spent": spent}


@scenario
def federation(folder: Path) -> Any:
    return federated(folder)


@scenario
def masked_federation(folder: Path) -> Any:
    made = setups()
    return federated(folder, method="noisy-gradients", settings={"step": 0.5}, **made.MASKED)


@scenario
def federation_with_profile(folder: Path) -> Any:
    made = setups()
    terms = {"epsilon": 20.0, "budget": (20.0, 1e-5), **made.COUNTED}
    return federated(folder, method="noisy-gradients", settings={"step": 0.5}, **made.MASKED, **terms)


@scenario
def digests_of_terms(folder: Path) -> Any:
    """Terms of fixed parties: silos on different machines must compute the same digest."""
    from dataclasses import replace

    from dpadmm.problems.regularisers import ElasticNet

    world = setups().make(folder, approves=False)
    people = tuple(replace(each, key=f"{k + 1:064x}") for k, each in enumerate(world.terms.participants))
    fixed = replace(world.terms, participants=people, coordinator="f" * 64, schema="0" * 64)
    changes: dict[str, dict[str, Any]] = {
        "as they are": {},
        "epsilon": {"epsilon": 1.5},
        "rounds": {"rounds": 7},
        "seed": {"seed": 6},
        "eta": {"settings": (("eta", 0.06),)},
        "ridge": {"penalty": ElasticNet(l2=0.01)},
    }
    return {name: {"terms": replace(fixed, **change).digest} for name, change in changes.items()}


def computed(name: str) -> Any:
    """Return what a scenario gives now."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plain(SCENARIOS[name](Path(folder)))


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the golden files of seeded scenarios.")
    parser.add_argument("names", nargs="*", default=list(SCENARIOS), help="all if left out")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in parser.parse_args().names:
        text = json.dumps(computed(name), indent=1, sort_keys=True)
        (FOLDER / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
