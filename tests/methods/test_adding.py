"""The method of docs/adding.md, installed as the page says: listed, planned, fitted, audited, federated."""

import ast
import importlib.util
import json
import re
import sys
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dpadmm.cli.main import app
from dpadmm.core.release import PlannedNoise
from dpadmm.errors import InputError
from dpadmm.methods import base, registry
from dpadmm.methods.base import About, Method, Topology
from dpadmm.methods.dp_sgd import DPSGD
from dpadmm.methods.p_admm import PADMM
from dpadmm.methods.ps_admm import PSADMM
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.solvers.solver import WatchedSolver
from dpadmm.testing import LocalEngine, Stopping

ROOT = Path(__file__).parents[2]
SOURCE, TEST, REGISTRATION = "my_methods/heavy_ball.py", "tests/test_heavy_ball.py", "pyproject.toml"


def files_on_the_page() -> dict[str, str]:
    page = (ROOT / "docs" / "adding.md").read_text()
    return dict(re.findall(r'^```\w+ title="([^"]*)"\n(.*?)^```', page, flags=re.MULTILINE | re.DOTALL))


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The three files, and what pip makes of the third."""
    files = files_on_the_page()
    assert set(files) == {SOURCE, TEST, REGISTRATION}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    registered = tomllib.loads(files[REGISTRATION])
    project = registered["project"]
    # Without this hatchling looks for my_methods/__init__.py, and builds nothing.
    assert registered["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [str(Path(SOURCE).parent)]
    announced = "".join(f"{name} = {place}\n" for name, place in project["entry-points"]["dpadmm.methods"].items())
    info = tmp_path / "my_methods-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (info / "entry_points.txt").write_text(f"[dpadmm.methods]\n{announced}")
    monkeypatch.syspath_prepend(str(tmp_path))
    base.by_name.cache_clear()
    yield tmp_path
    base.by_name.cache_clear()
    for name in [name for name in sys.modules if name.startswith("my_methods")]:
        del sys.modules[name]


def test_three_files_add_a_method_everywhere(package):
    pytest.importorskip("cryptography", reason="federations need the extra dpadmm[federation]")
    from tests.federation.protocol import setups

    from dpadmm.estimators import PrivateLogisticRegression
    from dpadmm.federation.outcome import outcome_of
    from dpadmm.planner import Task, plan
    from dpadmm.privacy.accounting import Target
    from dpadmm.problems.losses import Logistic

    listed = CliRunner().invoke(app, ["methods", "--json"])
    assert '"dp-heavy-ball"' in listed.stdout

    task = Task(sizes=(150, 150), dimension=3, loss=Logistic(), target=Target(4.0, 1e-5))
    made = plan(task, method="dp-heavy-ball")
    assert type(made.run.method).__name__ == "HeavyBall"
    assert made.method == "dp-heavy-ball"
    assert made.spec.account().curve.epsilon(1e-5) == pytest.approx(4.0, rel=1e-3)

    texts = ["--records", "100", "--rounds", "4", "--delta", "1e-5", "--json"]
    costs = CliRunner().invoke(app, ["account", "dp-heavy-ball", "--noise-std", "0.1", *texts])
    assert json.loads(costs.stdout)["certified"]["sensitivities"][0]["bounds"] == [0.02] * 4
    found = CliRunner().invoke(app, ["calibrate", "dp-heavy-ball", "--epsilon", "2", *texts])
    assert json.loads(found.stdout)["certified"]["epsilon"] == pytest.approx(2.0, rel=1e-6)

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 2))
    y = X[:, 0] > 0
    estimator = PrivateLogisticRegression(
        epsilon=4.0, delta=1e-5, method="dp-heavy-ball", feature_bounds=(-1, 1), classes=[False, True]
    )
    assert estimator.fit(X, y).score(X, y) > 0.7

    # The method's own test: the optimum without noise, and the audit.
    spec = importlib.util.spec_from_file_location("test_heavy_ball", package / TEST)
    own = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(own)
    own.test_without_noise_it_finds_the_optimum()
    own.test_an_attacker_gets_no_more_than_certified()

    world = setups.make(package / "world", "dp-heavy-ball", {"step": 0.5})
    coordinator = world.coordinator()
    world.drive(coordinator)
    terms = world.terms
    noise = PlannedNoise(terms.plan, SimulatedSampler(seed=world.terms.seed))
    run = LocalEngine(progress=False).run(terms.algorithm, world.problem(), Stopping(rounds=4), None, noise)
    np.testing.assert_allclose(outcome_of(coordinator).estimate, run.estimate[:, 0], rtol=0, atol=1e-12)
    with pytest.raises(InputError, match="'rho'"):
        replace(world.terms, settings=(("rho", 0.5),)).check()


@pytest.mark.parametrize("kept", ["k % 2 == 1", "False"], ids=["odd rounds", "never"])
def test_noise_that_was_reserved_and_not_drawn_is_no_release(package, kept):
    """Found before anything is spent: the planner tries the method on synthetic data."""
    from dpadmm.estimators import PrivateLogisticRegression
    from dpadmm.noise.sampler import SecureSampler
    from dpadmm.privacy.accounting import Target
    from dpadmm.problems.losses import Logistic
    from dpadmm.problems.problem import EmpiricalRisk, Problem
    from dpadmm.problems.silos import Silos
    from dpadmm.testing import run_private

    source = (package / SOURCE).read_text()
    drawn = "noise.perturb(MESSAGE, k, agents.index, whole_gradients(agents, x))"
    assert drawn in source
    (package / SOURCE).write_text(source.replace(drawn, f"{drawn} if {kept} else whole_gradients(agents, x)"))
    X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    model = PrivateLogisticRegression(
        epsilon=4.0, delta=1e-5, method="dp-heavy-ball", feature_bounds=(-1, 1), classes=[False, True]
    )
    with pytest.raises(InputError, match="promised 1"):
        model.fit(X, X[:, 0] > 0)
    problem = Problem.of(EmpiricalRisk(Silos.from_parts([X / 2], [np.sign(X[:, 0])], 1.0), Logistic()))
    heavy_ball = base.by_name()["dp-heavy-ball"](step=0.1)
    with pytest.raises(InputError, match="not released"):
        run_private(heavy_ball, problem, 4, Target(1.0, 1e-5), SecureSampler())


def test_a_silo_sends_nothing_whose_noise_was_not_drawn(package):
    pytest.importorskip("cryptography", reason="federations need the extra dpadmm[federation]")
    from tests.federation.protocol import setups

    from dpadmm.federation.inbox import encoding_of
    from dpadmm.federation.silo_round import RoundStart, agents_of_silo, make_step

    drawn = "noise.perturb(MESSAGE, k, agents.index, whole_gradients(agents, x))"
    source = (package / SOURCE).read_text()
    (package / SOURCE).write_text(source.replace(drawn, f"{drawn} if k != 2 else whole_gradients(agents, x)"))
    world = setups.make(package / "world", "dp-heavy-ball", {"step": 0.5})
    terms = world.terms
    here = agents_of_silo(terms, 0, world.first._records(), encoding_of(terms, setups.SCHEMA, None))
    assert isinstance(here.solver, WatchedSolver)  # in a silo failures are seen, and must not tell about records
    state, message = make_step(terms, here, 0, 1, RoundStart())
    assert np.isfinite(message).all()
    with pytest.raises(InputError, match="promised 1"):
        make_step(terms, here, 0, 2, RoundStart(1, state, np.zeros((2, len(message), 1))))


def test_a_package_that_cannot_be_loaded_is_named(package):
    (package / SOURCE).write_text("import nothing_of_this_name")
    reported = CliRunner().invoke(app, ["methods"])
    assert reported.exit_code == 2
    assert "'heavy-ball' of my-methods" in " ".join(reported.output.split())


def test_other_packages_do_not_widen_what_a_silo_allows(package):
    pytest.importorskip("cryptography", reason="federations need the extra dpadmm[federation]")
    from dpadmm.federation.policy import FULLY_CERTIFIED

    assert "dp-heavy-ball" in base.federated()
    assert FULLY_CERTIFIED == ("p-admm", "p-admm-recycled", "fp-federated", "fp-walk")


def test_terms_keep_whole_numbers_whole():
    assert DPSGD.typed({"step": 0.5}) == {"step": 0.5}
    typed = PSADMM.typed({"inner_steps": 3.0})
    assert typed == {"inner_steps": 3}
    assert isinstance(typed["inner_steps"], int)


def test_names_are_unique_and_only_methods_are_methods(monkeypatch):
    class Twin(Method):
        about = About(name="p-admm", summary="", topology=Topology.STAR)

    class Bare(Method):
        about = About(name="bare", summary="", topology=Topology.STAR)

    for stranger, texts in (
        (Twin, "called 'p-admm'"),
        (int, "int is"),
        (Bare, "frozen dataclass"),
    ):
        monkeypatch.setattr(registry, "METHODS", (PADMM, stranger))
        base.by_name.cache_clear()
        with pytest.raises(InputError, match=texts):
            base.by_name()
    base.by_name.cache_clear()


def constants(file: Path) -> list[object]:
    """The values a file's code spells out; strings that stand alone are docs, and `__all__` lists names of code."""
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(getattr(to, "id", "") == "__all__" for to in node.targets):
            node.value = ast.Tuple([])
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value = ast.Tuple([])
    return [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]


def test_a_method_is_named_once():
    """Its name is a key in its own description and at most one other place; "admm" is a word of its own, too."""
    source, quoted = ROOT / "src" / "dpadmm", [f'"{name}"' for name in base.by_name()]
    files = [file for file in source.rglob("*.py") if file.name != "__init__.py"]
    files = [file for file in files if any(name in file.read_text() for name in quoted)]
    found = Counter(value for file in files for value in constants(file) if isinstance(value, str))
    assert {name: found[name] for name in base.by_name() if not 1 <= found[name] <= 2} == {"admm": 3}
