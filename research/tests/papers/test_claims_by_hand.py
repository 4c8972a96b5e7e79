"""The printed claims by hand: one row each, with its arithmetic beside it."""

import math

import pytest

from dpadmm_research.claims.base import Provenance, largest
from dpadmm_research.papers.consensus import claims as consensus
from dpadmm_research.papers.fixed_point import claims as fp
from dpadmm_research.papers.p_admm import claims as p_admm
from dpadmm_research.papers.ps_admm.claims import Theorem2
from dpadmm_research.papers.r_admm import claims as r_admm
from dpadmm_research.papers.r_admm import dvp_claims as dvp
from dpadmm_research.papers.r_admm import m_admm_claims as m_admm


def lemma_3(n, rho, distance, tau=1.0, smooth=2.0, **more):
    return consensus.lemma_3_sensitivity(
        agents=n, rho=rho, strong_convexity=tau, smoothness=smooth, gradient_distance=distance, **more
    )


def agent(**changes):
    return r_admm.PerturbedObjective(**({"records": 1000, "degree": 2, "eta": 1.0, "ridge": 0.1} | changes))


GAP = consensus.l1_subgradient_gap(100.0, 5)
EIGHT = lemma_3(8, 6.0, 0.6)
RHO = p_admm.theorem_2_rho(gradient_bound=3.0, eta=2.0, degree=4, noise_std=5.0)
CENTRALISED = fp.CentralisedTheorem2(iterations=5, records=10, lipschitz=2.0, gamma=0.5)
FEDERATED = fp.FederatedTheorem3(rounds=3, users=1000, sampled=100, lipschitz=1.0, gamma=1.0)
NETWORK = fp.NetworkTheorem4(participations=3, users=100, lipschitz=1.0, gamma=1.0)
AGGREGATED = fp.SecureAggregationRemark4(participations=3, sampled=50, lipschitz=1.0, gamma=1.0)
GENERAL = fp.GeneralTheorem7(
    iterations=1, records=10, lipschitz=1.0, gamma=1.0, spectral_norm=3.0, least_singular_value=2.0
)
LOCAL = fp.LocalTheorem3(participations=2, lipschitz=2.0, gamma=0.5)
PS = {"rounds": 4, "inner_steps": 5, "records": 10, "lipschitz": 2.0}
BY_HAND = {
    # The paper's setting: G = 2 * 100 * sqrt(5) = 447.2135955, rho n = 50000, M = 0:
    # 447.2135955/50000 = 8.94427191e-3; 3 * 1 * 5/((5 - 4) * 50000) = 3e-4
    "consensus, lemma 3": (lemma_3(10_000, 5.0, 1.0, subgradient_gap=GAP), 9.24427191e-3),
    # G = 0, M = 20: 3 * 0.5 * 6/((6 - 4)(60 - 20)) = 9/80
    "consensus, lemma 3, smooth": (lemma_3(10, 6.0, 0.5, regulariser_smoothness=20.0), 0.1125),
    # H = 3 * 0.6 * 6/(2 * 48) = 0.1125, alphas 2 + 3 + 5 = 10
    "consensus, theorem 1": (consensus.theorem_1_epsilon(EIGHT, [2.0, 3.0, 5.0]), 1.125),
    # 8 alpha K L^2 gamma^2/(sigma^2 n^2) = 8 * 3 * 5 * 4 * 0.25/(16 * 100) = 120/1600
    "fixed-point, theorem 2": (CENTRALISED.rdp(order=3.0, noise_std=4.0), 0.075),
    # 0.075 + ln(1e5)/(3 - 1) = 0.075 + 5.756462732
    "fixed-point, section 3.3": (fp.epsilon_from_rdp(CENTRALISED.rdp(order=3.0, noise_std=4.0), 1e-5), 5.831462732485),
    # 8 alpha K_i L^2 gamma^2/sigma^2 = 8 * 3 * 2 * 1/16
    "fixed-point, theorem 3, local": (LOCAL.rdp(order=3.0, noise_std=4.0), 3.0),
    # 16 alpha K L^2 gamma^2/(sigma^2 n^2) = 16 * 2 * 3 * 1/(16 * 1e6)
    "fixed-point, theorem 3, federated": (FEDERATED.rdp(order=2.0, noise_std=4.0), 6e-6),
    # 8 alpha K_i L^2 gamma^2 ln(n)/(sigma^2 n) = 8 * 2 * 3 * 1 * ln(100)/(16 * 100) = 0.03 * 4.605170186
    "fixed-point, theorem 4": (NETWORK.rdp(order=2.0, noise_std=4.0), 0.13815510558),
    # 8 alpha K_i L^2 gamma^2/(sigma^2 m^2) = 8 * 2 * 3/(16 * 2500)
    "fixed-point, remark 4": (AGGREGATED.rdp(order=2.0, noise_std=4.0), 1.2e-3),
    # 8 K alpha ||A||^2 L^2 gamma^2/(sigma^2 n^2 omega^2) = 8 * 1 * 2 * 9/(16 * 100 * 4) = 144/6400
    "fixed-point, theorem 7": (GENERAL.rdp(order=2.0, noise_std=4.0), 0.0225),
    # V/(eta |V_i|) = 3/(2 * 4)
    "p-admm, lemma 4": (p_admm.lemma_4_sensitivity(gradient_bound=3.0, eta=2.0, degree=4), 0.375),
    # V^2/(2 eta^2 |V_i|^2 s^2) = 9/(2 * 4 * 16 * 25) = 9/3200
    "p-admm, theorem 2": (RHO, 0.0028125),
    # R = 1/2, K = 3: (1 - 1/8)/(1/4 - 1/8) = 7, rho_tot = 0.0196875;
    # ln(1e4) = 9.210340371976184, rho_tot ln = 0.1813285760733, root 0.4258269320666, 0.0196875 + 0.8516538641333
    "p-admm, theorem 3": (p_admm.theorem_3_epsilon(RHO, decay=0.5, rounds=3, delta=1e-4), 0.8713413641333),
    # sigma^2 = c G^2 K S ln(1/delta)/(M^2 eps^2) = 4 * 20 * 3/(100 * 0.04) = 60 with c = 1, delta = e^-3; c = 4: 240
    "ps-admm, theorem 2": (Theorem2(**PS).noise(epsilon=0.2, delta=math.exp(-3.0)), math.sqrt(60)),
    "ps-admm, theorem 2, c = 4": (Theorem2(**PS, c=4.0).noise(epsilon=0.2, delta=math.exp(-3.0)), math.sqrt(240)),
    # (30): 2C/B (1.4 c1/(rho/N + 2 eta V) + alpha) with C = 3, B = 500, c1 = 1/4, rho/N = 0.5, eta = 2, V = 3:
    # denominator 0.5 + 12 = 12.5, 0.35/12.5 = 0.028; alpha = 4 and 7: (6/500) (2 * 0.028 + 11) = 0.012 * 11.056
    "r-admm, theorem IV.1": (
        r_admm.theorem_iv_1_epsilon(agent(records=500, degree=3, eta=2.0, ridge=0.5, loss_weight=3.0), [4.0, 7.0]),
        0.132672,
    ),
    # 2/1000 (0.35/4.1 + 5) = 0.01017073..., eight iterations where R-ADMM pays for four
    "dvp": (dvp.total_epsilon(agent(), [5.0] * 8), 8 * (2 / 1000) * (0.35 / 4.1 + 5)),
    # sum C (1.4 c1 + alpha)/(eta V B), C = 1, c1 = 1/4, V = 2, B = 1000:
    # eta = 1: 5.35/2000 = 0.002675; eta = 2, alpha = 8: 8.35/4000 = 0.0020875
    "m-admm": (m_admm.total_epsilon([agent(), agent(eta=2.0)], [5.0, 8.0]), 0.0047625),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name):
    claim, value = BY_HAND[name]
    assert claim.value == pytest.approx(value, rel=1e-9)
    assert (claim.provenance is Provenance.RECONSTRUCTED) == (name in ("dvp", "m-admm"))


CONDITIONS = {  # a claim that meets its printed conditions, and one that does not
    # q = 0.1, M = ln 11 = 2.397895, (5.749902 * 8 - ln 80)/(M + ln 0.2 + 1/32) = 41.61719/0.8197 = 50.77
    # At order 30: M = ln(1 + 1/2.9) = 0.296266, (0.70219 - 4.38203)/(...) < 0
    "fixed-point, theorem 3, order": (FEDERATED.rdp(order=2.0, noise_std=4.0), FEDERATED.rdp(order=30.0, noise_std=4)),
    "fixed-point, theorem 3, a fifth of the users": (
        FEDERATED.rdp(order=2.0, noise_std=4.0),
        fp.FederatedTheorem3(rounds=1, users=1000, sampled=200, lipschitz=1.0, gamma=1.0).rdp(order=2.0, noise_std=4.0),
    ),
    "fixed-point, theorem 10, sigma of at least 4": (
        FEDERATED.rdp(order=2.0, noise_std=3.0),
        fp.FederatedTheorem10(rounds=3, users=1000, sampled=100, lipschitz=1.0, gamma=1.0).rdp(order=2.0, noise_std=3),
    ),
    # sigma > 2 sqrt(2 * 1) = 2.828
    "fixed-point, theorem 4": (NETWORK.rdp(order=2.0, noise_std=4.0), NETWORK.rdp(order=2.0, noise_std=2.82)),
    # eps <= c1 K S/M^2 = 20/100
    "ps-admm, theorem 2": (
        Theorem2(**PS).noise(epsilon=0.19, delta=1e-3), Theorem2(**PS).noise(epsilon=0.21, delta=1e-3)
    ),
    "ps-admm, theorem 2, c1 = 2": (
        Theorem2(**PS, c1=2.0).noise(epsilon=0.39, delta=1e-3), Theorem2(**PS, c1=2.0).noise(epsilon=0.41, delta=1e-3)
    ),
    # rho > 2L = 4
    "consensus, assumption 3": (lemma_3(10_000, 4.001, 1.0), lemma_3(10_000, 4.0, 1.0)),
    "m-admm, penalties that fall": (
        m_admm.total_epsilon([agent(), agent(eta=2.0)], [5.0, 5.0]),
        m_admm.total_epsilon([agent(eta=2.0), agent()], [5.0, 5.0]),
    ),
    "r-admm, 2 c1 < B (rho/N + 2 eta V)": (
        r_admm.theorem_iv_1_epsilon(agent(), [1.0]), r_admm.theorem_iv_1_epsilon(agent(records=3, eta=0.01), [1.0])
    ),
    "r-admm, records of norm 1": (
        r_admm.theorem_iv_1_epsilon(agent(), [1.0]), r_admm.theorem_iv_1_epsilon(agent(gradient_bound=1.5), [1.0])
    ),
    "r-admm, strongly convex": (
        r_admm.theorem_iv_1_epsilon(agent(), [1.0]), r_admm.theorem_iv_1_epsilon(agent(ridge=0.0), [1.0])
    ),
    "r-admm, C <= B": (
        r_admm.theorem_iv_1_epsilon(agent(), [1.0]), r_admm.theorem_iv_1_epsilon(agent(loss_weight=2000.0), [1.0])
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONDITIONS)
def test_printed_conditions(name):
    inside, outside = CONDITIONS[name]
    assert inside.conditions_hold
    assert len(outside.failed_conditions) == 1


def test_schedule_21_of_consensus():
    # beta = 15, q = 2, K = 4, eps/H = 7: alpha = 7 * (1, 2, 4) * 1/(8 - 1) = 1, 2, 4
    schedule = consensus.theorem_3_schedule(EIGHT, epsilon=7 * EIGHT.value, rounds=4, beta=15.0)
    assert schedule.values == pytest.approx((1.0, 2.0, 4.0), rel=1e-13)
    assert schedule.first_round == 2


def test_the_worst_agent_counts():
    claims = [r_admm.theorem_iv_1_epsilon(agent(records=records), [1.0]) for records in (500, 100, 900)]
    assert largest(claims).value == claims[1].value
