"""What research refuses: every row of tests/snapshots/refusals/research.txt, with the setting that it names."""

from functools import partial
from math import inf, nan
from pathlib import Path

import numpy as np
from tests.cli.test_refusals import check_refusals as check_command_refusals
from tests.refusals import check_refusals

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


def test_refused(snapshot):
    check_refusals(snapshot, "research", globals())


def test_commands_refuse(cli, snapshot, tmp_path, monkeypatch):
    """Every row of tests/snapshots/terminal/refusals-research.txt."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.txt").touch()
    check_command_refusals(cli, snapshot, "refusals-research.txt")
