"""The pictures of `docs/why-privacy.md` and `docs/errata.md`: `python -m dpadmm_research.audit.evidence DIR`."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from dpadmm.methods.base import MESSAGE
from dpadmm.methods.decentralised import DecentralisedADMM
from dpadmm.networks import ring
from dpadmm.testing import LocalEngine, Stopping
from dpadmm_research.audit.reconstruction_by_epsilon import (
    Decline,
    clinic_problem,
    patients_by_epsilon,
    quadratics_by_epsilon,
    signed_records,
)
from dpadmm_research.audit.record_reconstruction import listen, reconstruct_record
from dpadmm_research.audit.wiretap import Wiretap
from dpadmm_research.claims.trials import ClaimTrial, all_trials
from dpadmm_research.claims.trials_plot import trials_plot
from dpadmm_research.figures import decline_plot, patient_plot, save

EPSILONS = (1e7, 1e6, 1e5, 1e4, 1e3, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3)
SHOWN = (1e4, 100.0, 1.0)


def bare_find(patients: int = 40, eta: float = 0.1, rounds: int = 8) -> np.ndarray:
    """Return the record that is read off a run without noise, in the setting of `patients_by_epsilon`."""
    problem, network, method, tap = clinic_problem(patients), ring(4), DecentralisedADMM(eta=eta), Wiretap()
    LocalEngine(tolerance=1e-12, progress=False).run(method, problem, Stopping(rounds), network, tap)
    weight = float(problem.weights[0])
    ridge = weight * problem.functions.constants.strong_convexity
    heard = listen(tap.tape(MESSAGE)[..., 0], method, network, 0, weight, ridge)
    return reconstruct_record(heard, signed_records(problem)[1:])


def reconstruction_pictures(folder: Path, runs: int = 30) -> tuple[Path, ...]:
    """Draw how the reconstruction attacks die as epsilon falls."""
    patients, functions = patients_by_epsilon(EPSILONS, runs=runs), quadratics_by_epsilon(EPSILONS, runs=runs)
    decline = decline_plot(
        [("one patient of 40, P-ADMM on a ring", patients), ("an agent's linear term, consensus DP-ADMM", functions)]
    )
    few = patients_by_epsilon(SHOWN, runs=1)
    with_bare = replace(
        few,
        epsilons=(float("inf"), *few.epsilons),
        finds=np.vstack([bare_find(), few.finds]),
        errors=np.vstack([np.zeros((1, 1)), few.errors]),
    )
    shown: Decline = with_bare
    return (*save(decline, folder, "reconstruction"), *save(patient_plot(shown), folder, "patient"))


def main(folder: Path) -> None:
    """Draw all of them, and print what the trials found."""
    reconstruction_pictures(folder)
    trials = tuple(all_trials())
    save(trials_plot(trials), folder, "trials")
    sys.stdout.write("\n".join(_line(trial) for trial in trials) + "\n")


def _line(trial: ClaimTrial) -> str:
    exact = "" if trial.exact is None else f"{trial.exact:.4g}"
    return (
        f"| {trial.claim} | {trial.setting} | {trial.claimed:.3g} | {trial.audited:.3g} | {exact} | "
        f"{trial.verdict.value} |"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
