"""Without noise the attacks recover functions and records to rounding; they fail as epsilon falls."""

import numpy as np
import pytest

from dpadmm.data import load_breast_cancer, random_quadratics
from dpadmm.errors import InputError
from dpadmm.methods.base import BROADCAST, MESSAGE, Agents
from dpadmm.methods.consensus import ConsensusADMM
from dpadmm.methods.consensus_dp import ConsensusDPADMM, LinearTermsDiffer
from dpadmm.methods.decentralised import DecentralisedADMM
from dpadmm.methods.p_admm import PADMM
from dpadmm.networks import ring, star
from dpadmm.noise.mechanisms import Family
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.accounting import Target
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.problems.silos import Silos
from dpadmm.testing import LocalEngine, Recording, Stopping, plan_noise
from dpadmm_research.audit import reconstruction as functions
from dpadmm_research.audit import record_reconstruction as records
from dpadmm_research.audit.wiretap import NoiseByBudget, Wiretap

# Functions

N, D, RHO, SECRET = 6, 3, 2.0, 4


def quadratics(regulariser, weights=None):
    agents = random_quadratics(N, D, rng=np.random.default_rng(3), slope_range=(-2.0, 2.0))
    return Problem(agents, np.ones(N) if weights is None else weights, regulariser)


def broadcasts(method, problem, rounds, noise=None, replicas=1):
    """The first z and those of all rounds, (rounds + 1, d, R), as an eavesdropper hears them."""
    tap = Wiretap(noise)
    engine = LocalEngine(progress=False, tolerance=1e-13, threads=1, replicas=replicas, recording=Recording(0))
    engine.run(method, problem, Stopping(rounds=rounds), noise=tap)
    _, first = method.start(Agents.of(problem, None, 1e-13, 1), replicas)
    return np.concatenate([first, tap.tape(BROADCAST)[:, 0]])


def others_of(problem, secret=SECRET):
    """All agents but one, from a problem in which the secret function has been overwritten by a dummy."""
    agents = problem.functions
    curvatures, slopes = agents.curvatures.copy(), agents.slopes.copy()
    curvatures[secret], slopes[secret] = 1.5 * np.eye(agents.dimension), 0.0
    known = Problem(type(agents)(curvatures, slopes, agents.bounds), problem.weights, problem.regulariser)
    everyone = np.arange(problem.n_agents)
    return Agents.of(known, None, 1e-13, 1).take(everyone[everyone != secret])


@pytest.mark.parametrize(
    ("regulariser", "weights"),
    [(ElasticNet(), None), (ElasticNet(l2=0.7), None), (ElasticNet(), np.linspace(0.5, 1.5, N))],
)
def test_an_agents_quadratic_is_recovered_from_broadcasts(regulariser, weights):
    problem = quadratics(regulariser, weights)
    method = ConsensusADMM(rho=RHO)
    tape = broadcasts(method, problem, rounds=12)[:, :, 0]
    trail = functions.follow(method, others_of(problem), tape, weight=float(problem.weights[SECRET]))
    found = functions.reconstruct_quadratic(trail)
    np.testing.assert_allclose(found.curvature, problem.functions.curvatures[SECRET], atol=1e-6)
    np.testing.assert_allclose(found.slope, problem.functions.slopes[SECRET], atol=1e-6)


def test_the_trail_holds_the_gradients_of_the_secret_function():
    problem = quadratics(ElasticNet())
    method = ConsensusADMM(rho=RHO)
    tape = broadcasts(method, problem, rounds=5)[:, :, 0]
    points, gradients = functions.follow(method, others_of(problem), tape, weight=1.0).gradients()
    at_points = points @ problem.functions.curvatures[SECRET] + problem.functions.slopes[SECRET]
    np.testing.assert_allclose(gradients, at_points, atol=1e-10)


def test_fewest_rounds_suffice_and_fewer_are_refused():
    """d+1 = 4 rounds: B is known on the differences of the points, which must span the space."""
    problem, method = quadratics(ElasticNet()), ConsensusADMM(rho=RHO)
    tape = broadcasts(method, problem, rounds=4)[:, :, 0]
    found = functions.reconstruct_quadratic(functions.follow(method, others_of(problem), tape, weight=1.0))
    np.testing.assert_allclose(found.curvature, problem.functions.curvatures[SECRET], atol=1e-6)
    with pytest.raises(InputError) as refusal:
        functions.reconstruct_quadratic(functions.follow(method, others_of(problem), tape[:-1], weight=1.0))
    assert refusal.value.setting == "rounds"


def test_the_attack_on_functions_dies_as_epsilon_falls():
    """Noise for one agent's linear term (C3): from a perfect copy of c to no better than the guess beforehand."""
    problem, replicas, budgets = quadratics(ElasticNet()), 6, (1e6, 100.0, 1.0)
    method = ConsensusDPADMM(rho=RHO, neighbours=LinearTermsDiffer(1.0), family=Family.GAUSSIAN)
    plans = [plan_noise(method, problem, 10, Target(eps, 1e-5)) for eps in budgets]
    hook = NoiseByBudget(plans, SimulatedSampler(seed=1), replicas)
    tape = broadcasts(method, problem, 10, hook, replicas=replicas * len(budgets))
    guess = functions.QuadraticFunction(1.5 * np.eye(D), np.zeros(D))
    supposed = functions.Supposition(guess, curvature_std=0.3, slope_std=1.2)
    truth, others, errors = problem.functions.slopes[SECRET], others_of(problem), []
    for b, plan in enumerate(plans):
        std = plan.of(BROADCAST, 1, np.array([-1]))
        std = (std if not isinstance(std, (list, tuple)) else std[0]).noise_std
        columns = range(b * replicas, (b + 1) * replicas)
        trails = [functions.follow(method, others, tape[:, :, r], weight=1.0, noise_std=std) for r in columns]
        found = [functions.most_probable_quadratic(trail, supposed).slope for trail in trails]
        errors.append(np.median([np.linalg.norm(c - truth) for c in found]) / np.linalg.norm(truth))
    assert errors[0] < 1e-2
    assert errors[0] < errors[1] / 5 < errors[2] / 5
    assert errors[2] > 0.6


def test_the_most_probable_quadratic_is_the_exact_one_when_noise_is_tiny():
    problem, method = quadratics(ElasticNet()), ConsensusADMM(rho=RHO)
    tape = broadcasts(method, problem, rounds=8)[:, :, 0]
    trail = functions.follow(method, others_of(problem), tape, weight=1.0, noise_std=1e-7)
    supposed = functions.Supposition(functions.QuadraticFunction(1.5 * np.eye(D), np.zeros(D)), 0.3, 1.2)
    found = functions.most_probable_quadratic(trail, supposed)
    np.testing.assert_allclose(found.slope, problem.functions.slopes[SECRET], atol=1e-4)
    np.testing.assert_allclose(found.curvature, problem.functions.curvatures[SECRET], atol=1e-4)


# Records

ETA, MU = 1e-3, 1e-3


@pytest.fixture(scope="module")
def clinics():
    """The breast-cancer silos; the first is cut down to so many patients."""
    silos = load_breast_cancer().silos()

    def problem(patients: int, regulariser=None) -> Problem:
        parts = [silos.part(i) for i in range(silos.n_agents)]
        tables = [np.asarray(f)[: patients if i == 0 else None] for i, (f, _) in enumerate(parts)]
        labels = [y[: patients if i == 0 else None] for i, (_, y) in enumerate(parts)]
        cut = Silos.from_parts(tables, labels, row_norm=silos.row_norm)
        return Problem.of(EmpiricalRisk(cut, Logistic(), mu=MU), Weighting.AVERAGE, regulariser)

    return problem


def signed(problem):
    features, labels = problem.functions.silos.part(0)
    return np.asarray(features) * labels[:, None]


def gossip(problem, rounds, network=None):
    network, tap = ring(4) if network is None else network, Wiretap()
    engine = LocalEngine(progress=False, tolerance=1e-13, threads=1, recording=Recording(0))
    method = DecentralisedADMM(eta=ETA)
    engine.run(method, problem, Stopping(rounds=rounds), network, tap)
    weight = float(problem.weights[0])
    ridge = weight * MU + problem.regulariser.strong_convexity / problem.n_agents
    return records.listen(tap.tape(MESSAGE)[..., 0], method, network, 0, weight, ridge)


@pytest.mark.parametrize("network", [ring(4), star(4)], ids=["ring", "star"])
@pytest.mark.parametrize("regulariser", [None, ElasticNet(l2=2e-3)], ids=["plain", "shared ridge"])
def test_gradients_are_read_off_the_broadcasts(clinics, network, regulariser):
    problem = clinics(20, regulariser)
    heard = gossip(problem, 6, network)
    rows = signed(problem)
    by_hand = [-(rows / (1 + np.exp(rows @ x))[:, None]).mean(axis=0) for x in heard.points]
    np.testing.assert_allclose(heard.gradients, by_hand, atol=1e-9)


def test_one_unknown_record_is_recovered(clinics):
    problem = clinics(40)
    rows = signed(problem)
    for secret in (0, 17):
        found = records.reconstruct_record(gossip(problem, 8), np.delete(rows, secret, axis=0))
        assert records.relative_error(found, rows[secret]) < 1e-6


@pytest.mark.parametrize("patients", [1, 2, 4])
def test_a_small_silo_is_recovered_whole(clinics, patients):
    problem = clinics(patients)
    found = records.reconstruct_silo(gossip(problem, 40), patients, np.random.default_rng(0))
    assert records.relative_error(found, signed(problem)) < 1e-6


def test_the_attack_on_records_dies_as_epsilon_falls(clinics):
    """P-ADMM at (eps, 1e-5), all patients but one known to the attacker: an error of 1 is that of guessing nothing."""
    problem, replicas, rounds, budgets = clinics(40), 8, 8, (1e7, 1e3, 1.0)
    network, method, rows = ring(4), PADMM(eta=0.1), signed(problem)
    plans = [plan_noise(method, problem, rounds, Target(eps, 1e-5), network) for eps in budgets]
    tap = Wiretap(NoiseByBudget(plans, SimulatedSampler(seed=2), replicas))
    engine = LocalEngine(progress=False, threads=1, replicas=replicas * len(budgets), recording=Recording(0))
    engine.run(method, problem, Stopping(rounds=rounds), network, tap)
    tape, errors = tap.tape(MESSAGE), []
    for b, plan in enumerate(plans):
        std = plan.of(MESSAGE, 1, np.array([0]))
        std = (std if not isinstance(std, (list, tuple)) else std[0]).noise_std
        weight = float(problem.weights[0])
        heard = [
            records.listen(tape[..., r], method, network, 0, weight, weight * MU, std)
            for r in range(b * replicas, (b + 1) * replicas)
        ]
        found = [records.reconstruct_record(one, rows[1:]) for one in heard]
        errors.append(np.median([records.relative_error(row, rows[0]) for row in found]))
    assert errors[0] < 0.02
    assert 0.2 < errors[1] < 0.8
    assert errors[2] > 0.95


@pytest.mark.parametrize(("n_records", "setting"), [(5, "n_records"), (1, "starts")])
def test_records_that_the_rounds_do_not_explain_are_refused(clinics, n_records, setting):
    with pytest.raises(InputError) as refusal:
        records.reconstruct_silo(gossip(clinics(3), 4), n_records, np.random.default_rng(0), starts=2)
    assert refusal.value.setting == setting


def test_relative_error_matches_records_in_any_order():
    rows = np.array([[1.0, 0.0], [0.0, 2.0]])
    assert records.relative_error(rows[::-1], rows) == 0.0
    assert records.relative_error(rows[::-1] + np.array([[0.0, 0.5], [0.0, 0.0]]), rows) == pytest.approx(0.25)
