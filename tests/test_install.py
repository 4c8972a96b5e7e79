"""The wheel in an empty environment: the newest dependencies, then the lowest that pyproject.toml allows.

Each installs the core alone, without constraints.txt, and runs the commands in a home of its own; at last it adds the
extra. The packages come from the registry that pip is set up for.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("install")]

ROOT = Path(__file__).parent.parent
# What hatchling reads; caches and results of the checkout stay behind.
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "src", "research", "contrib")
EXTRA = ("httpx", "uvicorn")
SCHEMA = {
    "format": "dpadmm-schema",
    "version": 1,
    "row_norm": 0.5,
    "constant": None,
    "label": {"kind": "binary", "name": "sick", "positive": ["yes"], "negative": ["no"]},
    "columns": [
        {"kind": "numeric", "name": "age", "lower": 0, "upper": 120, "typical": 55},
        {"kind": "categorical", "name": "sex", "categories": ["F", "M"]},
    ],
}


def environment(**more: str) -> dict[str, str]:
    """Return the variables of this process without those that lead back to it, or to its caches and constraints."""
    leads_back = ("PYTHON", "VIRTUAL_ENV", "XDG_", "NUMBA_", "PIP_CONSTRAINT", "COV_", "PYTEST_")
    return {name: value for name, value in os.environ.items() if not name.startswith(leads_back)} | more


def call(*arguments: str | Path, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=900, env=environment(**more))


def succeed(*arguments: str | Path, folder: Path, **more: str) -> str:
    done = call(*arguments, folder=folder, **more)
    assert done.returncode == 0, f"{' '.join(map(str, arguments))}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel, and an empty folder and home to work in."""

    venv: Path
    folder: Path
    pins: tuple[str, ...]

    def install(self, what: str) -> None:
        pip = self.venv / "bin" / "pip"
        succeed(pip, "install", "--disable-pip-version-check", *self.pins, what, folder=self.folder)

    def dpadmm(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        return call(self.venv / "bin" / "dpadmm", *arguments, folder=self.folder, HOME=str(home), COLUMNS="200")

    def versions(self) -> dict[str, str]:
        listed = succeed(self.venv / "bin" / "pip", "list", "--format", "json", folder=self.folder)
        return {each["name"].lower(): each["version"] for each in json.loads(listed)}


def lower_bounds(extra: str = "federation") -> dict[str, str]:
    """Return the lowest version of each direct dependency, with those of an extra; one that names none fails."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["dependencies"] + project["optional-dependencies"][extra]
    matches = {line: re.fullmatch(r"([\w-]+)>=([\d.]+)(,.*)?", line) for line in declared}
    assert all(matches.values()), [line for line, match in matches.items() if match is None]
    return {match[1]: match[2] for match in matches.values() if match is not None}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a clean copy of the checkout."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def wheel(checkout: Path) -> Path:
    """Build the wheel as the documents say."""
    succeed(sys.executable, "-m", "pip", "wheel", "--no-deps", ".", folder=checkout)
    (made,) = checkout.glob("*.whl")
    return made


@pytest.fixture(scope="module", params=["newest", "lowest"])
def installed(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp(request.param)
    succeed(sys.executable, "-m", "venv", folder / "venv", folder=folder)
    pins: tuple[str, ...] = ()
    if request.param == "lowest":
        (folder / "lowest.txt").write_text("".join(f"{name}=={low}\n" for name, low in lower_bounds().items()))
        pins = ("--constraint", str(folder / "lowest.txt"), "--only-binary", ":all:")
    (folder / "work").mkdir()
    made = Installed(folder / "venv", folder / "work", pins)
    made.install(str(wheel))
    return made


def pip_commands() -> list[str]:
    """Return what the documents say to type, in console blocks and within sentences."""
    places = ("README.md", "CONTRIBUTING.md", "research/README.md", "contrib/flower/README.md")
    documents = [*(ROOT / name for name in places), *ROOT.glob("docs/**/*.md")]
    texts = [each.read_text() for each in documents]
    typed = [re.findall(r"^\$ (pip .+)", each, flags=re.MULTILINE) for each in texts]
    named = [re.findall(r"`(pip [^`]+)`", each) for each in texts]  # a sentence may break a command between two lines
    return sorted({" ".join(command.split()) for found in typed + named for command in found})


@pytest.mark.parametrize("command", pip_commands())
def test_the_documented_commands_find_all_they_need(command, checkout, wheel, tmp_path):
    """What is installed is tried below; here the newest packages are looked up, with the extras, and left alone."""
    _, action, *arguments = shlex.split(command)
    is_wheel = action == "wheel"
    more = ["--wheel-dir", str(tmp_path)] if is_wheel else ["--dry-run", "--ignore-installed"]
    said = succeed(sys.executable, "-m", "pip", action, *more, *arguments, folder=checkout)
    if is_wheel:
        assert wheel.name in (ROOT / "docs" / "index.md").read_text()
    else:
        assert "Would install" in said
        assert all((f"{name}-" in said) == ("federation" in command or "flower" in command) for name in EXTRA)
        assert ("distributed-" in said) == ("cluster" in command)
        assert ("flwr-" in said) == ("flower" in command)


def test_the_documents_say_how_to_install():
    more = {"pip install '.[cluster]'", "pip install '.[federation]'"}
    more |= {"pip install . ./research", "pip install '.[federation]' ./contrib/flower"}
    assert {"pip install .", "pip wheel --no-deps ."} | more == set(pip_commands())


def test_the_core_brings_no_extra(installed):
    assert not installed.versions().keys() & set(EXTRA)


def test_help_and_version(installed):
    for arguments in (["--help"], ["--version"], ["fit", "--help"], ["methods"]):
        done = installed.dpadmm(*arguments)
        assert done.returncode == 0, done.stderr
        assert done.stdout
        assert done.stderr == ""


def test_the_demonstration(installed):
    done = installed.dpadmm("demo", "--out", "demo")
    assert done.returncode == 0, done.stderr
    assert "<svg" in (installed.folder / "demo/report.html").read_text()
    assert "Warning" not in done.stderr


def test_fit_and_predict(installed):
    for first, name in enumerate(("north", "south")):
        ages = [(first * 7 + i) % 60 for i in range(200)]
        rows = [f"{20 + age},{'FM'[age % 2]},{'yes' if age > 35 else 'no'}\n" for age in ages]
        (installed.folder / f"{name}.csv").write_text("age,sex,sick\n" + "".join(rows))
    (installed.folder / "new.csv").write_text("age,sex\n30,F\n80,M\n")
    (installed.folder / "schema.json").write_text(json.dumps(SCHEMA))
    budget = ("--schema", "schema.json", "--epsilon", "2", "--delta", "1e-5")
    trained = installed.dpadmm("fit", "north.csv", "south.csv", *budget, "--out", "model.json", "--json")
    assert trained.returncode == 0, trained.stderr
    assert json.loads(trained.stdout)["command"] == "fit"
    assert "Warning" not in trained.stderr
    guessed = installed.dpadmm("predict", "model.json", "new.csv")
    assert guessed.returncode == 0, guessed.stderr
    assert guessed.stdout.splitlines()[0].startswith("sick")
    assert len(guessed.stdout.splitlines()) == 3
    refused = installed.dpadmm("fit", "north.csv", "--split-by", "sex", *budget, "--out", "none.json")
    assert refused.stderr.startswith("Error: --split-by sex is also a column of the schema")
    misspelt = installed.dpadmm("fit", "north.csv", *budget, "--loss", "logistc")
    assert "Did you mean 'logistic'?" in " ".join(misspelt.stderr.replace("│", " ").split())


@pytest.mark.parametrize("command", ["federate rehearse --silos 2", "coordinator init coordinator", "silo show north"])
def test_federations_say_what_to_install(installed, command):
    done = installed.dpadmm(*command.split())
    assert done.returncode == 2
    assert "pip install '.[federation]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_with_the_extra_there_are_federations(installed, wheel):
    """The last test here, since it changes the environment."""
    installed.install(f"{wheel}[federation]")
    assert installed.versions().keys() >= set(EXTRA)
    done = installed.dpadmm("federate", "rehearse", "--silos", "2", "--rounds", "2")
    assert done.returncode == 0, done.stderr
    assert "Done after 2 rounds" in done.stdout
    assert "Warning" not in done.stderr


def test_research_and_the_product_install_side_by_side_from_wheels(installed, wheel, checkout):
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if re.search("paper|claim|audit|scoreboard", name)]
    refused = installed.dpadmm("audit", "p-admm")
    assert refused.returncode == 2
    assert "pip install ./research" in refused.stderr
    succeed(sys.executable, "-m", "pip", "wheel", "--no-deps", "./research", folder=checkout)
    (made,) = checkout.glob("dpadmm_research*.whl")
    installed.install(str(made))
    for command in (
        "audit dp-gd --runs 200",
        "account dp-gd --records 6331 --rounds 40 --noise-std 0.005 --delta 1e-5",
    ):
        done = installed.dpadmm(*command.split())
        assert done.returncode == 0, done.stderr


def test_the_lowest_flower_has_all_that_its_apps_need(wheel, checkout, tmp_path):
    """It asks for newer packages than we do, so that all others are the newest."""
    succeed(sys.executable, "-m", "venv", tmp_path / "venv", folder=tmp_path)
    project = tomllib.loads((ROOT / "contrib" / "flower" / "pyproject.toml").read_text())["project"]
    (lowest,) = [each.partition(">=")[2] for each in project["dependencies"] if each.startswith("flwr")]
    (tmp_path / "lowest.txt").write_text(f"flwr=={lowest}\n")
    made = Installed(tmp_path / "venv", tmp_path, ("--constraint", str(tmp_path / "lowest.txt")))
    made.install(f"{wheel}[federation]")
    made.install(str(checkout / "contrib" / "flower"))
    apps = "import dpadmm_flower.client, dpadmm_flower.server"
    succeed(tmp_path / "venv" / "bin" / "python", "-c", apps, folder=tmp_path)
    assert made.versions().keys() >= set(EXTRA)


def test_the_lowest_dask_has_all_that_a_cluster_needs(wheel, tmp_path):
    succeed(sys.executable, "-m", "venv", tmp_path / "venv", folder=tmp_path)
    (tmp_path / "lowest.txt").write_text(f"distributed=={lower_bounds('cluster')['distributed']}\n")
    made = Installed(tmp_path / "venv", tmp_path, ("--constraint", str(tmp_path / "lowest.txt")))
    made.install(f"{wheel}[cluster]")
    succeed(tmp_path / "venv" / "bin" / "python", "-c", "import dpadmm.data.cluster", folder=tmp_path)
    assert not made.versions().keys() & set(EXTRA)
    refused = made.dpadmm("fit", "a.parquet", "--epsilon", "1", "--delta", "1e-5", "--cluster", "tcp://127.0.0.1:1")
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
