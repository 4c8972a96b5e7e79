"""Without the extras everything but federations and clusters works, and those say what to install."""

import subprocess
import sys

import pytest

COMMANDS = """
silo init north --data north.csv --schema schema.json --budget-epsilon 2 --delta 1e-5
silo show north
silo approve north federation.toml --yes
silo run north --coordinator 127.0.0.1:9092
silo join north.invite --data north.csv
silo status north
silo doctor north
silo new-data north --data north.csv
silo rotate-key north
coordinator invite one --study one --silo north --schema s.json --epsilon 1 --delta 1e-6 --address host:9092
coordinator status coordinator
coordinator doctor coordinator
coordinator init coordinator
coordinator run coordinator
coordinator rotate-key coordinator
federate draft north.entry --schema schema.json --epsilon 1 --delta 1e-6
federate run federation.toml --coordinator coordinator
federate rehearse
""".strip().splitlines()
IMPORT_THE_CORE = """
import pkgutil, sys
for name in ("uvicorn", "cryptography", "httpx", "flwr", "dask", "distributed"):
    sys.modules[name] = None  # importing it fails, as where it is not installed
import dpadmm
names = [module.name for module in pkgutil.walk_packages(dpadmm.__path__, "dpadmm.")]
extra = ("dpadmm.federation.https.", "dpadmm.federation.admin.", "dpadmm.cli.status_tables", "dpadmm.data.cluster")
core = [name for name in names if not name.startswith(extra)]
for name in core:
    __import__(name)
print(len(core))
"""


def test_the_core_imports_nothing_of_the_extra():
    done = subprocess.run([sys.executable, "-c", IMPORT_THE_CORE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


@pytest.mark.parametrize("package", ["uvicorn", "httpx"])
@pytest.mark.parametrize("args", COMMANDS)
def test_federation_commands_say_what_to_install(cli, tmp_path, monkeypatch, args, package):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    result = cli.run(*args.split())
    assert result.exit_code == 2
    assert "pip install '.[federation]'" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""
    assert not list(tmp_path.iterdir())


def test_a_cluster_says_what_to_install(cli, study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = cli.run("fit", *study.args, "--cluster", "tcp://127.0.0.1:8786")
    assert result.exit_code == 2
    assert "--cluster needs the extra `cluster`" in result.stderr
    assert "pip install '.[cluster]'" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("args", ["silo --help", "silo init --help", "coordinator run --help", "federate run --help"])
def test_their_help_can_be_read(cli, monkeypatch, args):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert cli.run(*args.split()).exit_code == 0
