"""The reconstruction attacks against private runs: how far they get at each epsilon.

Small public settings, the strongest attacker of each kind, everything simulated: for the documentation and the gallery.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpadmm import checks
from dpadmm.data.examples import load_breast_cancer, random_quadratics
from dpadmm.methods.base import BROADCAST, MESSAGE, Agents
from dpadmm.methods.consensus_dp import ConsensusDPADMM, LinearTermsDiffer
from dpadmm.methods.p_admm import PADMM
from dpadmm.networks import ring
from dpadmm.noise.mechanisms import COORDINATOR, Family, MessageKind
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.accounting import Target
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.problems.silos import Silos, dense
from dpadmm.testing import LocalEngine, Recording, Stopping, plan_noise
from dpadmm_research.audit.reconstruction import QuadraticFunction, Supposition, follow, most_probable_quadratic
from dpadmm_research.audit.record_reconstruction import listen, reconstruct_record, relative_error
from dpadmm_research.audit.wiretap import NoiseByBudget, Wiretap

DELTA = 1e-5
_SECRET = 0


@dataclass(frozen=True)
class Decline:
    """How an attack fares: relative errors by epsilon and run, (E, R), and one find of each epsilon, (E, ...).

    An error of 1 is that of an attacker who did not listen and guessed zero. `truth` is what was sought.
    """

    epsilons: tuple[float, ...]
    errors: Floats
    finds: Floats
    truth: Floats

    @property
    def median(self) -> Floats:
        """The median error at each epsilon."""
        return np.median(self.errors, axis=1)


def quadratics_by_epsilon(epsilons: Sequence[float], runs: int = 20, rounds: int = 10, seed: int = 0) -> Decline:
    """Attack an agent's linear term c_j through noisy broadcasts (C3, Gaussian, functions c at distance 1).

    Six agents in three dimensions. Among quadratics adjacency speaks of linear terms only: so the attacker is given the
    other five functions and B_j as well, and assumes that the entries of c_j are normal around 0.
    """
    agents = random_quadratics(6, 3, rng=np.random.default_rng(3), slope_range=(-2.0, 2.0))
    problem = Problem.of(agents, Weighting.EQUAL)
    method = ConsensusDPADMM(rho=2.0, neighbours=LinearTermsDiffer(1.0), family=Family.GAUSSIAN)
    plans = [plan_noise(method, problem, rounds, Target(_positive(eps), DELTA)) for eps in epsilons]
    tap = Wiretap(NoiseByBudget(plans, SimulatedSampler(seed), checks.count("runs", runs)))
    engine = LocalEngine(len(plans) * runs, threads=1, recording=Recording(0), progress=False)
    engine.run(method, problem, Stopping(rounds), noise=tap)
    everyone = Agents.of(problem, None, engine.tolerance, 1)
    first = method.start(everyone, 1)[1][0, :, 0]
    tape, others = tap.tape(BROADCAST)[:, 0], everyone.take(np.arange(1, problem.n_agents))
    supposed = Supposition(
        QuadraticFunction(agents.curvatures[_SECRET], np.zeros(3)), curvature_std=1e-9, slope_std=1.2
    )
    truth = agents.slopes[_SECRET]
    finds = np.zeros((len(plans), runs, 3))
    for e, plan in enumerate(plans):
        std = _noise_std(plan, BROADCAST, COORDINATOR)
        for r in range(runs):
            heard = np.vstack([first, tape[:, :, e * runs + r]])
            trail = follow(method, others, heard, weight=1.0, noise_std=std)
            finds[e, r] = most_probable_quadratic(trail, supposed).slope
    errors = np.linalg.norm(finds - truth, axis=2) / np.linalg.norm(truth)
    return Decline(tuple(epsilons), errors, finds[:, 0], truth)


def clinic_problem(patients: int, mu: float = 1e-3) -> Problem:
    """Return the four breast-cancer hospitals, the first cut down to its first `patients` patients."""
    silos = load_breast_cancer().silos()
    parts = [silos.part(i) for i in range(silos.n_agents)]
    keep = [checks.count("patients", patients) if i == _SECRET else None for i in range(len(parts))]
    tables = [dense(features)[:n] for (features, _), n in zip(parts, keep, strict=True)]
    labels = [y[:n] for (_, y), n in zip(parts, keep, strict=True)]
    cut = Silos.from_parts(tables, labels, row_norm=silos.row_norm, names=silos.names)
    return Problem.of(EmpiricalRisk(cut, Logistic(), mu=mu), Weighting.AVERAGE)


def signed_records(problem: Problem, agent: int = _SECRET) -> Floats:
    """Return the records of a silo with their labels folded in, `y a` (n, d): what the gradients are made of."""
    functions = problem.functions
    if not isinstance(functions, EmpiricalRisk):
        raise TypeError(f"Records come from an EmpiricalRisk, got {type(functions).__name__}.")
    features, labels = functions.silos.part(agent)
    return dense(features) * labels[:, None]


def patients_by_epsilon(
    epsilons: Sequence[float], runs: int = 20, rounds: int = 8, patients: int = 40, eta: float = 0.1, seed: int = 0
) -> Decline:
    """Attack one patient of a small hospital through the broadcasts of P-ADMM; all other patients are known.

    Breast cancer on a ring of four, the first hospital cut down to `patients`; the sought record is its first.
    """
    problem, network, method = clinic_problem(patients), ring(4), PADMM(eta=eta)
    plans = [plan_noise(method, problem, rounds, Target(_positive(eps), DELTA), network) for eps in epsilons]
    tap = Wiretap(NoiseByBudget(plans, SimulatedSampler(seed), checks.count("runs", runs)))
    engine = LocalEngine(len(plans) * runs, threads=1, recording=Recording(0), progress=False)
    engine.run(method, problem, Stopping(rounds), network, tap)
    tape, rows = tap.tape(MESSAGE), signed_records(problem)
    weight = float(problem.weights[_SECRET])
    ridge = weight * problem.functions.constants.strong_convexity
    errors, finds = np.zeros((len(plans), runs)), np.zeros((len(plans), runs, rows.shape[1]))
    for e, plan in enumerate(plans):
        std = _noise_std(plan, MESSAGE, _SECRET)
        for r in range(runs):
            heard = listen(tape[..., e * runs + r], method, network, _SECRET, weight, ridge, std)
            finds[e, r] = reconstruct_record(heard, rows[1:])
            errors[e, r] = relative_error(finds[e, r], rows[0])
    return Decline(tuple(epsilons), errors, finds[:, 0], rows[0])


def _positive(epsilon: float) -> float:
    return checks.positive("epsilon", epsilon)


def _noise_std(plan: NoisePlan, kind: MessageKind, agent: int) -> float:
    """The first round's noise of a plan with the same noise in every round."""
    planned = plan.of(kind, 1, np.array([agent]))
    return (planned[0] if isinstance(planned, list) else planned).noise
