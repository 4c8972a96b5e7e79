"""What a method's paper prints for the very noise that an audit attacks; shown beside the result, never used."""

import math
from functools import singledispatch
from typing import Any

import numpy as np

from dpadmm.algorithms.anatomy import BROADCAST, MESSAGE
from dpadmm.algorithms.consensus_dp import ConsensusDPADMM
from dpadmm.algorithms.dvp import DVP, OBJECTIVE
from dpadmm.algorithms.fixed_point import CentralisedADMM, FederatedADMM, RandomWalkADMM
from dpadmm.algorithms.m_admm import MADMM
from dpadmm.algorithms.p_admm import PADMM
from dpadmm.algorithms.ps_admm import CORRECTION, FULL, PSADMM
from dpadmm.algorithms.r_admm import RADMM
from dpadmm.algorithms.setting import Setting
from dpadmm.audit.subjects import Subject
from dpadmm.audit.transcripts import TOLERANCE
from dpadmm.errors import InputError
from dpadmm.noise.draws import COORDINATOR, Slot
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.promises import Family
from dpadmm.privacy.claims import ClaimedEpsilon
from dpadmm.privacy.claims.ps_admm import Theorem2
from dpadmm.privacy.methods import Consensus, Dvp, MAdmm, Method, PAdmm, RAdmm
from dpadmm.privacy.records import Unit, View
from dpadmm.problems.arrays import Floats


def claimed_epsilon(subject: Subject, view: View, plan: NoisePlan, delta: float) -> ClaimedEpsilon | None:
    """Return the paper's figure for this method, view and noise; None where it prints none, or none that applies."""
    try:
        return claim_of(subject.algorithm, subject, view, plan, delta)
    except InputError:  # the theorem's conditions exclude this setting
        return None


@singledispatch
def claim_of(algorithm: Any, subject: Subject, view: View, plan: NoisePlan, delta: float) -> ClaimedEpsilon | None:
    """Return the claim, method by method."""
    return None


@claim_of.register
def _(algorithm: PADMM, subject: Subject, view: View, plan: NoisePlan, delta: float) -> ClaimedEpsilon | None:
    paper = PAdmm(**_agent(subject), eta=algorithm.eta, mu=subject.worlds[0].functions.constants.strong_convexity)
    return _first(paper, levels(plan, MESSAGE), delta)


@claim_of.register
def _(algorithm: DVP, subject: Subject, view: View, plan: NoisePlan, delta: float) -> ClaimedEpsilon | None:
    return _first(Dvp(**_objective(subject), eta=algorithm.eta), levels(plan, OBJECTIVE), delta)


@claim_of.register
def _(algorithm: RADMM, subject: Subject, view: View, plan: NoisePlan, delta: float) -> ClaimedEpsilon | None:
    paper = RAdmm(**_objective(subject), eta=algorithm.eta, penalty_growth=algorithm.growth)
    return _first(paper, levels(plan, OBJECTIVE), delta)


@claim_of.register
def _(algorithm: MADMM, subject: Subject, view: View, plan: NoisePlan, delta: float) -> ClaimedEpsilon | None:
    """The paper's rate is that of e_i; the plan's that of `b_i = 2 eta_i(t) deg_i e_i`."""
    n = subject.worlds[0].n_agents
    scale = np.array([2 * algorithm.penalties(t, n)[0] for t in range(1, subject.rounds + 1)]) * _degree(subject)
    eta, growth = (float(np.ravel(value)[0]) for value in (algorithm.eta, algorithm.growth))
    paper = MAdmm(**_objective(subject), eta=eta, penalty_growth=growth)
    return _first(paper, levels(plan, OBJECTIVE) * scale, delta)


@claim_of.register
def _(algorithm: ConsensusDPADMM, subject: Subject, view: View, plan: NoisePlan, delta: float) -> ClaimedEpsilon | None:
    if algorithm.family is Family.GAUSSIAN:
        return None
    problem, constants = subject.worlds[0], subject.worlds[0].functions.constants
    paper = Consensus(
        agents=problem.n_agents,
        rho=algorithm.rho,
        smoothness=constants.smoothness,
        mu=constants.strong_convexity,
        rounds=subject.rounds,
        records=int(problem.functions.sizes[0]),
        gradient_bound=constants.record_gradient,
        weight=float(problem.weights[0]),
    )
    return _first(paper, levels(plan, BROADCAST), delta)


@claim_of.register
def _(algorithm: PSADMM, subject: Subject, view: View, plan: NoisePlan, delta: float) -> ClaimedEpsilon | None:
    problem = subject.worlds[0]
    theorem = Theorem2(
        rounds=subject.rounds,
        inner_steps=algorithm.inner_steps,
        records=int(problem.functions.sizes[0]),
        lipschitz=problem.functions.constants.record_gradient * float(problem.weights[0]),
    )
    parts = [levels(plan, Slot(name))[0] for name in (FULL, CORRECTION) if (Slot(name), 1) in plan.releases]
    return theorem.epsilon(noise_std=math.hypot(*parts), delta=delta)


@claim_of.register
def _(algorithm: CentralisedADMM, subject: Subject, view: View, plan: NoisePlan, delta: float) -> ClaimedEpsilon | None:
    if algorithm.unit is not Unit.USER or view is not View.PUBLIC:
        return None
    return algorithm.claim(_setting(subject)).epsilon(noise_std=float(levels(plan, MESSAGE)[0]), delta=delta)


@claim_of.register
def _(algorithm: FederatedADMM, subject: Subject, view: View, plan: NoisePlan, delta: float) -> ClaimedEpsilon | None:
    if algorithm.unit is not Unit.USER:
        return None
    setting, std = _setting(subject), float(levels(plan, MESSAGE)[0])
    theorem = algorithm.claim(setting) if view is View.PUBLIC else algorithm.local_claim(setting)
    return theorem.epsilon(noise_std=std, delta=delta)


@claim_of.register
def _(algorithm: RandomWalkADMM, subject: Subject, view: View, plan: NoisePlan, delta: float) -> ClaimedEpsilon | None:
    if algorithm.unit is not Unit.USER or view is not View.PEER:
        return None
    return algorithm.claim(_setting(subject)).epsilon(noise_std=float(levels(plan, MESSAGE)[0]), delta=delta)


def levels(plan: NoisePlan, slot: Slot) -> Floats:
    """Return the noise of agent 0 (or of the coordinator) in this slot, round by round: stds, or rates."""
    found = []
    for (name, _), row in sorted(plan.releases.items(), key=lambda item: item[0][1]):
        release: Any = next((row[who] for who in (0, None, COORDINATOR) if who in row), None)
        if name == slot and release is not None:
            found.append(release.noise_std if hasattr(release, "noise_std") else release.rate)
    return np.array(found)


def _first(paper: Method, noise: Floats, delta: float) -> ClaimedEpsilon | None:
    return next(iter(paper.claimed_epsilon(noise, delta)), None)


def _degree(subject: Subject) -> int:
    return int(subject.network.degrees[0]) if subject.network is not None else 0


def _agent(subject: Subject) -> dict[str, Any]:
    problem = subject.worlds[0]
    return {
        "records": int(problem.functions.sizes[0]),
        "degree": _degree(subject),
        "rounds": subject.rounds,
        "weight": float(problem.weights[0]),
        "gradient_bound": problem.functions.constants.record_gradient,
    }


def _objective(subject: Subject) -> dict[str, Any]:
    return _agent(subject) | {"curvature_bound": subject.worlds[0].functions.constants.record_curvature}


def _setting(subject: Subject) -> Setting:
    return Setting(subject.worlds[0], subject.rounds, TOLERANCE, subject.network)
