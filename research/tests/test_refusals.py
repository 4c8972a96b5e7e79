"""What research refuses: one row each, with the setting that the refusal names."""

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from dpadmm import checks
from dpadmm.core.release import PublicRound
from dpadmm.errors import InputError
from dpadmm.methods.base import MESSAGE, Agents, Setting
from dpadmm.methods.consensus import ConsensusADMM
from dpadmm.methods.consensus_dp import FunctionsDiffer
from dpadmm.methods.decentralised import DecentralisedADMM
from dpadmm.methods.fixed_point import Participation
from dpadmm.networks import ring
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.accounting import PureTarget
from dpadmm.privacy.protection import Certificate, Protection, Unit, View
from dpadmm.privacy.releases import BareRelease, ObjectiveRelease
from dpadmm.problems.problem import Problem, Weighting
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.problems.regularisers import ElasticNet
from dpadmm_research.audit import neighbours, reconstruction, record_reconstruction
from dpadmm_research.audit.audit import audit, audit_all
from dpadmm_research.audit.estimates import clopper_pearson_bound, gdp_bound
from dpadmm_research.audit.estimators import PRODUCTS, audit_product, messages
from dpadmm_research.audit.likelihood import Lens, ReleasePair, log_determinant, log_ratio
from dpadmm_research.audit.renyi import renyi_bound
from dpadmm_research.audit.wiretap import Wiretap
from dpadmm_research.central import pool_records
from dpadmm_research.claims.base import ClaimedEpsilon, ClaimedSensitivity, Paper, largest
from dpadmm_research.networks import erdos_renyi
from dpadmm_research.papers.consensus import claims as consensus
from dpadmm_research.papers.consensus.planner import plan_consensus
from dpadmm_research.papers.consensus.theory import Star, released_error
from dpadmm_research.papers.fixed_point import claims as fixed_point
from dpadmm_research.papers.fixed_point import theory as fixed_point_theory
from dpadmm_research.papers.p_admm import claims as p_admm
from dpadmm_research.papers.p_admm.printed_theory import Choices
from dpadmm_research.papers.p_admm.theory import Landscape, NoiseCurve, Start, linear_rate, theorem_5_corrected
from dpadmm_research.papers.ps_admm.claims import Theorem2
from dpadmm_research.papers.ps_admm.theory import Facts
from dpadmm_research.papers.r_admm import claims as r_admm
from dpadmm_research.papers.r_admm import m_admm_claims as m_admm
from dpadmm_research.papers.r_admm.theory import ConvergenceCondition
from dpadmm_research.reproduction.figure import Order, Size
from dpadmm_research.reproduction.pages import write_pages
from dpadmm_research.reproduction.runner import reproduce

SCORES = {"delta": 1e-5, "confidence": 0.95, "scores_p": np.ones(30), "scores_q": np.zeros(30)}
rates_bound, gaussian_bound = (partial(bound, **SCORES) for bound in (clopper_pearson_bound, gdp_bound))
renyi = partial(renyi_bound, log_ratio_p=np.zeros(200), log_ratio_q=np.zeros(200), order=2.0)
lemma_3 = partial(
    consensus.lemma_3_sensitivity, agents=10, rho=5.0, strong_convexity=1.0, smoothness=2.0, gradient_distance=1.0
)
star = partial(Star, n_agents=5, dimension=2, rho=1.0, strong_convexity=1.0, smoothness=2.0)
local = fixed_point.LocalTheorem3(participations=7, lipschitz=1.0, gamma=0.5)
iteration = partial(fixed_point_theory.Iteration, tau=0.5, noise_std=1.0, dimension=1, distance_squared=1.0)
trade_off = partial(
    fixed_point_theory.TradeOff, users=5, sampled=2, model_dimension=1, lipschitz=1.0, gamma=1.0, tau=0.5,
    distance_squared=1.0,
)  # fmt: skip
ps_claim = partial(Theorem2, rounds=1, inner_steps=1, records=10, lipschitz=1.0)
ps_facts = partial(
    Facts, rounds=100, inner_steps=50, step=0.1, rho=0.5, agents=5, dimension=105, strong_convexity=2e-4,
    smoothness=0.2502, record_curvature=0.25, start_distance=2.0,
)  # fmt: skip
objective = partial(r_admm.PerturbedObjective, records=1000, degree=2, eta=1.0, ridge=0.1)
condition = partial(ConvergenceCondition, network=ring(5), smoothness=0.3, eta=0.3, gamma=1.0)
claimed = partial(ClaimedEpsilon, value=0.5, delta=0.0, paper=Paper.DVP, theorem="Theorem", conditions=())
rho_1 = p_admm.theorem_2_rho(gradient_bound=1.0, eta=1.0, degree=2, noise_std=1.0)
p_epsilon = partial(p_admm.theorem_3_epsilon, first_rho=rho_1, decay=0.5, rounds=3, delta=1e-4)


def quadratics(regulariser=None, low=1.0):
    curvatures = np.tile(2 * np.eye(3), (6, 1, 1))
    return Problem.of(QuadraticAgents(curvatures, np.zeros((6, 3)), (low, 2.0)), Weighting.EQUAL, regulariser)


def five_of_six(regulariser=None):
    return Agents.of(quadratics(regulariser), None, 1e-13, 1).take(np.arange(5))


follow = partial(
    reconstruction.follow, method=ConsensusADMM(rho=2.0), others=five_of_six(), broadcasts=np.zeros((4, 3)), weight=1.0
)
listen = partial(
    record_reconstruction.listen, broadcasts=np.zeros((3, 4, 2)), method=DecentralisedADMM(eta=1e-3), network=ring(4),
    agent=0, weight=1.0, ridge=0.0,
)  # fmt: skip
three_senders = PublicRound(
    round=1, kind="message", norms=(1.0, 1.0, 1.0), movement=1.0, disagreement=1.0, noise_norm=1.0
)
certificate = {
    "bound": 1.0, "protection": Protection(unit=Unit.RECORD, view=View.EAVESDROPPER), "theorem": "C1",
    "assumptions": ("unit-norm records",),
}  # fmt: skip
a_claimed_bound = ClaimedSensitivity(value=0.1, paper=Paper.P_ADMM, theorem="Lemma 4", conditions=())
noise_inside = ObjectiveRelease(rate=1.0, certificate=Certificate(**certificate), agent=0, round=1)
UNIT = {"lipschitz": 1.0, "gamma": 1.0}
ZEROS = np.zeros((2, 3))
PAIR = ReleasePair(sent=(ZEROS, ZEROS), clean=(ZEROS, ZEROS), x=ZEROS, agent=0, round=1)
LENS = Lens(NoisePlan({}), neighbours.misclassified())
TOY = Order(Size.TOY)
supposed = reconstruction.Supposition(reconstruction.QuadraticFunction(np.eye(3), np.zeros(3)), 1.0, 1.0)
planned = partial(
    plan_consensus, setting=Setting(quadratics(), 1, 0.0), neighbours=FunctionsDiffer(1.0), target=PureTarget(1.0),
    radius=1.0, gradient_radius=1.0,
)  # fmt: skip

REFUSALS = [  # what is called, with what, and the setting that is refused
    # Audit
    (audit, {"name": "p-adm"}, "method"),
    (audit, {"name": "admm"}, "method"),
    (lambda: next(audit_all(names=["nothing"])), {}, "method"),
    (audit, {"name": "p-admm", "view": View.COORDINATOR, "runs": 400}, "view"),
    (audit, {"name": "p-admm", "runs": 100}, "runs"),
    (audit, {"name": "p-admm", "confidence": 1.0}, "confidence"),
    *((bound, changes, setting) for bound in (rates_bound, gaussian_bound) for changes, setting in (
        ({"scores_p": np.ones(19)}, "runs"),
        ({"scores_q": np.ones((20, 1))}, "runs"),
        ({"scores_p": np.append(np.ones(30), math.nan)}, "scores"),
        ({"confidence": 0.5}, "confidence"),
        ({"confidence": 1.0}, "confidence"),
        ({"delta": 1.0}, "delta"),
        ({"delta": -0.1}, "delta"),
    )),
    (renyi, {"log_ratio_p": np.zeros(50), "log_ratio_q": np.zeros(50)}, "runs"),
    (renyi, {"log_ratio_q": np.zeros(150)}, "runs"),
    (renyi, {"log_ratio_p": np.full(200, np.nan)}, "ratios"),
    (renyi, {"order": 1.0}, "order"),
    (renyi, {"confidence": 1.0}, "confidence"),
    (messages, {"history": (three_senders,)}, "senders"),
    (audit_product, {"product": PRODUCTS[0], "target": None, "fits": 10}, "fits"),
    (lambda: log_ratio(BareRelease(reason="none", agent=0, round=1), PAIR, LENS), {}, "release"),
    (lambda: log_ratio(noise_inside, PAIR, LENS), {}, "penalty"),
    (log_determinant, {"problem": quadratics(), "agent": 0, "x": np.zeros((3, 1)), "extra": 1.0}, "functions"),
    (follow, {"broadcasts": np.zeros((4, 2))}, "broadcasts"),
    (follow, {"others": five_of_six().take(np.arange(3))}, "others"),
    (follow, {"others": five_of_six(ElasticNet(l1=0.1))}, "regulariser"),
    (follow, {"weight": 0.0}, "weight"),
    (lambda: reconstruction.most_probable_quadratic(follow(), supposed), {}, "noise_std"),
    (lambda: reconstruction.reconstruct_quadratic(follow()), {}, "rounds"),
    (listen, {"broadcasts": np.zeros((3, 5, 2))}, "broadcasts"),
    (listen, {"weight": 0.0}, "weight"),
    (Wiretap().tape, {"kind": MESSAGE}, "kind"),
    # Claims
    (claimed, {"value": math.nan}, "value"),
    (claimed, {"value": -1.0}, "value"),
    (claimed, {"theorem": ""}, "theorem"),
    (largest, {"claims": []}, "claims"),
    (checks.positive, {"name": "epsilon", "value": claimed()}, "epsilon"),
    (Certificate, certificate | {"bound": a_claimed_bound}, "bound"),
    (lemma_3, {"agents": 0}, "agents"),
    (lemma_3, {"rho": 0.0}, "rho"),
    (lemma_3, {"rho": math.nan}, "rho"),
    (lemma_3, {"strong_convexity": 0.0}, "strong_convexity"),
    (lemma_3, {"smoothness": 0.5}, "smoothness"),
    (lemma_3, {"gradient_distance": 0.0}, "gradient_distance"),
    (consensus.theorem_1_epsilon, {"sensitivity": lemma_3(), "rates": []}, "rates"),
    (consensus.theorem_1_noise, {"sensitivity": lemma_3(), "epsilon": 1.0, "rounds": 1}, "rounds"),
    *((local.rdp, {"order": order, "noise_std": 1.0}, "order") for order in (1.0, 0.5, math.inf, math.nan)),
    *((local.rdp, {"order": 2.0, "noise_std": std}, "noise_std") for std in (0.0, -1.0, math.inf)),
    *((local.epsilon, {"noise_std": std, "delta": 1e-5}, "noise_std") for std in (0.0, -1.0, math.inf)),
    (fixed_point.FederatedTheorem3, {"rounds": 1, "users": 10, "sampled": 11, **UNIT}, "sampled"),
    (fixed_point.GeneralTheorem7,
     {"iterations": 1, "records": 1, **UNIT, "spectral_norm": 1.0, "least_singular_value": 2.0},
     "least_singular_value"),
    (fixed_point.NetworkTheorem4, {"participations": 1, "users": 1, **UNIT}, "users"),
    (fixed_point.CentralisedTheorem2, {"iterations": 1, "records": 1, **UNIT, "gamma": 0.0}, "gamma"),
    *((p_epsilon, {"decay": decay}, "decay") for decay in (0.0, 1.0, 1.5)),
    (p_epsilon, {"decay": 1e-3, "rounds": 500}, "decay"),
    *((ps_claim, {name: 0}, name) for name in ("rounds", "inner_steps", "records", "lipschitz", "c", "c1")),
    *((ps_claim().noise, {"epsilon": 0.1, "delta": delta}, "delta") for delta in (0.0, 1.0, -0.1)),
    *((objective, {name: 0}, name) for name in ("records", "degree", "eta", "curvature")),
    (objective, {"ridge": -1.0}, "ridge"),
    *((r_admm.theorem_iv_1_epsilon, {"objective": objective(), "rates": [rate]}, "rate")
      for rate in (0.0, -1.0, math.inf, math.nan)),
    *((m_admm.total_epsilon, {"objectives": [objective()], "rates": [rate]}, "rate")
      for rate in (0.0, -1.0, math.inf, math.nan)),
    (r_admm.theorem_iv_1_epsilon, {"objective": objective(), "rates": []}, "rates"),
    (r_admm.theorem_iv_1_noise, {"objective": objective(records=5), "epsilon": 0.01, "noisy_iterations": 9}, "epsilon"),
    (m_admm.total_epsilon_noise, {"objectives": [objective(records=5)] * 10, "epsilon": 0.01}, "epsilon"),
    # Theory
    (star, {"n_agents": 0}, "n_agents"),
    (star, {"rho": 0.0}, "rho"),
    (star, {"strong_convexity": 0.0}, "strong_convexity"),
    (star, {"smoothness": 0.5}, "smoothness"),
    (star, {"dimension": 1.5}, "dimension"),
    (released_error, {"star": star(), "start_distance": 1.0, "energies": []}, "energies"),
    (planned, {"setting": Setting(quadratics(low=0.0), 1, 0.0)}, "strong_convexity"),
    (planned, {"penalties": []}, "penalties"),
    *((planned, {name: -1.0}, name) for name in ("radius", "gradient_radius", "slack")),
    (iteration, {"tau": 1.0}, "tau"),
    (iteration, {"activity": 0.0}, "activity"),
    (trade_off, {"setup": fixed_point_theory.Setup.DECENTRALISED}, "sampled"),
    (fixed_point_theory.gradient_step_factor, {"step": 1.0, "strong_convexity": 3.0, "smoothness": 2.0}, "smoothness"),
    (fixed_point_theory.lemma_c1, {"rate": 0.1, "order": 1.0, "noise_std": 4.0}, "order"),
    (fixed_point_theory.network_view, {"walk": Participation.of(4, [[0], [3]]), "user": 4}, "user"),
    (Landscape, {"network": ring(5), "strong_convexity": 2.0, "smoothness": 1.0}, "smoothness"),
    (Landscape, {"network": ring(5), "strong_convexity": -1.0, "smoothness": 1.0}, "strong_convexity"),
    (lambda: theorem_5_corrected(Landscape(ring(4), 0.0, 1.0), 0.1, Start(1, 1, 1), NoiseCurve((0.0,), 0.5, 3), 3), {},
     "first_variances"),
    (lambda: linear_rate(Landscape(ring(5), 0.1, 1.0), 0.0), {}, "eta"),
    (lambda: NoiseCurve((0.1,), 0.0, 3), {}, "decay"),
    (lambda: NoiseCurve((-0.1,), 0.5, 3), {}, "first_variances"),
    (Choices, {"b": 0.5, "kappa_2": 1.0, "kappa_4": 2.0, "theta": 0.1}, "kappa_2"),
    (Start.of, {"network": ring(5), "optimum": np.zeros(3), "gradients": np.zeros((4, 3))}, "gradients"),
    *((ps_facts, {name: 0}, name) for name in ("rounds", "step", "strong_convexity")),
    (ps_facts, {"smoothness": 1e-5}, "smoothness"),
    (ps_facts, {"start_distance": -1.0}, "start_distance"),
    *((condition, {name: bad}, name) for name in ("eta", "smoothness") for bad in (0.0, -1.0, math.nan)),
    (condition, {"gamma": -1.0}, "gamma"),
    (condition, {"smoothness": (0.3, 0.2)}, "smoothness"),
    (condition().at, {"L": 2, "mu": 1}, "mu"),
    (condition().at, {"L": 0, "mu": 2}, "L"),
    # Problems and networks
    (pool_records, {"problem": quadratics()}, "functions"),
    *((erdos_renyi, {"n": n, "p": p, "seed": seed}, name) for n, p, seed, name in (
        (1, 0.5, 0, "n"), (5, 0.0, 0, "p"), (5, 1.5, 0, "p"), (5, math.nan, 0, "p"), (5, 0.5, -1, "seed"),
        (5, 0.5, None, "seed"), (10**6, 0.5, 0, "n"), (1000, 1e-4, 0, "p"),
    )),
    # Figures
    (reproduce, {"names": ["p-admm/fig9"], "order": TOY, "out": Path("unused")}, "figure"),
    (Order, {"runs": 0}, "runs"),
    (write_pages, {"out": Path("no-such-folder"), "docs": Path("unused")}, "figures"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "changes", "setting"), REFUSALS)
def test_refused(make, changes, setting):
    with pytest.raises(InputError) as refusal:
        make(**changes)
    assert refusal.value.setting == setting
