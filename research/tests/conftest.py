"""One small setting of every method, as options of the command line, and a runner."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.cli.conftest import ask, run
from tests.conftest import adult as adult
from tests.conftest import snapshot as snapshot


@dataclass(frozen=True)
class Case:
    """Settings of a method, the noise level to account, its option, and the delta (0: pure)."""

    settings: str
    level: str
    delta: str = "1e-5"

    @property
    def args(self) -> list[str]:
        return self.settings.split()

    @property
    def method(self) -> str:
        return self.args[0]


GRAPH = "--records 1000 --degree 2 --eta 0.05 --mu 0.01"
CASES = {
    "p-admm": Case(f"p-admm {GRAPH} --rounds 20", "--noise-std 0.05"),
    "p-admm-people": Case(
        f"p-admm {GRAPH} --rounds 7 --recycled --tolerance 1e-6 --records-per-person 2 --silos-per-person 3",
        "--noise-std 0.5",
    ),
    "dvp": Case(f"dvp {GRAPH} --rounds 20", "--noise-rate 5", "0"),
    "dvp-logistic": Case(f"dvp {GRAPH} --rounds 20 --logistic --silos-per-person 2", "--noise-rate 50", "0"),
    "dvp-smoothed": Case(f"dvp {GRAPH} --rounds 5 --tolerance 1e-8 --smoothing-rate 1e4", "--noise-rate 5", "0"),
    "m-admm": Case(f"m-admm {GRAPH} --rounds 20 --penalty-growth 1.05", "--noise-rate 1", "0"),
    "r-admm": Case(f"r-admm {GRAPH} --rounds 21", "--noise-rate 5", "1e-6"),
    "consensus": Case(
        "consensus --agents 10000 --rho 5 --mu 1 --smoothness 2 --gradient-distance 1 --l1-weight 100 --dimension 5 "
        "--rounds 12",
        "--noise-rate 200",
        "0",
    ),
    "consensus-gaussian": Case(
        "consensus --agents 50 --rho 0.1 --mu 0.01 --smoothness 0.26 --records 100 --gradient-bound 1 --rounds 9 "
        "--noise gaussian --silos-per-person 2",
        "--noise-std 0.05",
    ),
    "ps-admm": Case("ps-admm --records 2000 --rounds 10 --inner-steps 10 --batch 100", "--noise-std 0.05"),
    "fp-centralised": Case("fp-centralised --gamma 0.5 --lipschitz 1 --users 100 --rounds 10", "--noise-std 20"),
    "fp-federated": Case(
        "fp-federated --gamma 0.5 --lipschitz 1 --users 1000 --sampled 100 --rounds 50 --participations 9",
        "--noise-std 20",
    ),
    "fp-walk": Case("fp-walk --gamma 0.5 --clip 0.1 --users 200 --participations 6", "--noise-std 5"),
    "fp-coordinator": Case("fp-coordinator --gamma 0.5 --lipschitz 1 --users 100 --rounds 10", "--noise-std 0.1"),
    "noisy-gradients": Case(
        "noisy-gradients --lipschitz 1 --users 5 --records 1000 --rounds 50",
        "--noise-std 0.005",
    ),
    "dp-sgd": Case("dp-sgd --records 2000 --batch 50 --clip 0.5 --rounds 100", "--noise-std 0.01"),
    "dp-gd": Case("dp-gd --records 2000 --rounds 10", "--noise-std 0.01"),
    "p-admm-recycled": Case(f"p-admm-recycled {GRAPH} --rounds 7", "--noise-std 0.5"),
    "fp-lasso": Case("fp-lasso --gamma 0.5 --clip 0.1 --users 200 --rounds 6", "--noise-std 5"),
    "dp-prox-sgd": Case("dp-prox-sgd --records 2000 --batch 50 --clip 0.5 --rounds 10", "--noise-std 0.01"),
    "dp-cd": Case("dp-cd --records 2000 --rounds 10", "--noise-std 0.01"),
    "dp-dgd": Case("dp-dgd --records 2000 --rounds 10 --step 0.1 --decay 0.9 --dimension 4", "--noise-rate 500", "0"),
    "linearised-admm": Case("linearised-admm --records 2000 --rho 0.5 --step 0.5 --rounds 10", "--noise-std 0.01"),
    "output-perturbation": Case("output-perturbation --records 1000 --mu 0.01", "--noise-std 1"),
    "output-laplace": Case("output-perturbation --records 1000 --mu 0.01 --noise laplace", "--noise-rate 2", "0"),
}


@dataclass(frozen=True)
class Tools:
    """What the tests share, by name."""

    cases: dict[str, Case]
    run: Callable[..., Any]
    ask: Callable[..., Any]


@pytest.fixture(scope="session")
def cli() -> Tools:
    return Tools(CASES, run, ask)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for `case` once per method."""
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", list(CASES.values()), ids=list(CASES))
