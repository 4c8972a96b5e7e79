"""The four-hospital demonstration: one model, no pooled data (and, so far, no privacy)."""

from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression

from dpadmm import checks
from dpadmm.algorithms.consensus import ConsensusADMM
from dpadmm.algorithms.decentralised import DecentralisedADMM
from dpadmm.datasets import load_breast_cancer
from dpadmm.engines.local import LocalEngine, Run, Stopping
from dpadmm.networks import ring
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import Problem
from dpadmm.problems.risk import EmpiricalRisk
from dpadmm.problems.silos import Silos


def show(mu: float, rounds: int) -> None:
    """Run both methods and print rounds, objective gap and accuracy beside the pooled optimum."""
    checks.positive("mu", mu)
    stopping = Stopping(rounds=rounds, residual=1e-7)
    console = Console()
    silos = load_breast_cancer().silos()
    problem = Problem.of(EmpiricalRisk(silos, Logistic(), mu=mu))
    console.print(
        f"[bold]Four hospitals, one model.[/bold] {len(silos.labels)} breast-cancer records stay where they are:"
    )
    console.print(", ".join(f"{name} {size}" for name, size in zip(silos.names, silos.sizes, strict=True)))
    pooled = _pooled_optimum(silos, mu)
    best = float(problem.objective(pooled)[0])
    engine = LocalEngine()
    runs = {
        "through a coordinator (consensus ADMM)": engine.run(ConsensusADMM(rho=0.02), problem, stopping),
        "ring of peers (decentralised ADMM)": engine.run(DecentralisedADMM(eta=0.01), problem, stopping, ring(4)),
    }
    console.print(_table(silos, problem, best, runs))
    console.print(
        f"All data in one place (scikit-learn): objective {best:.6f}, accuracy {_accuracy(silos, pooled[:, 0]):.3f}.\n"
        "This run is [bold]not private[/bold]: the hospitals exchange bare models, from which records can be inferred."
    )


def _pooled_optimum(silos: Silos, mu: float):  # type: ignore[no-untyped-def]
    n = len(silos.labels)
    model = LogisticRegression(C=1 / (n * mu), fit_intercept=False, tol=1e-10, solver="newton-cholesky", max_iter=1000)
    return model.fit(silos.features, silos.labels).coef_.T


def _accuracy(silos: Silos, w) -> float:  # type: ignore[no-untyped-def]
    return float((silos.labels * (silos.features @ w) > 0).mean())


def _table(silos: Silos, problem: Problem, best: float, runs: dict[str, Run]) -> Table:
    table = Table(title="Same model, no pooled data")
    for name in ("how", "rounds", "objective gap", "disagreement", "accuracy"):
        table.add_column(name, justify="left" if name == "how" else "right")
    for name, run in runs.items():
        gap = float(problem.objective(run.estimate)[0]) - best
        disagreement = float(run.history.consensus_error[-1, 0])
        accuracy = _accuracy(silos, run.estimate[:, 0])
        table.add_row(name, str(run.rounds), f"{gap:.1e}", f"{disagreement:.1e}", f"{accuracy:.3f}")
    return table
