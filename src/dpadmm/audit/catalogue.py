"""The catalogue of attacks: at least one subject for every private method of the registry.

Most pairs are Huber regressions in one dimension with a record pulled to opposite sides (`worlds.saturated`): every
bound of the form `2G/n_i` is then reached exactly, and what the audit leaves unexplained is the bound's own slack.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from dpadmm.algorithms.batches import Batches
from dpadmm.algorithms.consensus_dp import ConsensusDPADMM
from dpadmm.algorithms.consensus_neighbours import LinearTermsDiffer
from dpadmm.algorithms.dp_dgd import DPDGD
from dpadmm.algorithms.dp_gd import DPGD
from dpadmm.algorithms.dp_sgd import DPSGD, DPProxSGD
from dpadmm.algorithms.dvp import DVP
from dpadmm.algorithms.fixed_point import (
    CentralisedADMM,
    CoordinateDescent,
    CoordinatorADMM,
    FederatedADMM,
    GeneralADMM,
    LassoADMM,
    Participation,
    RandomWalkADMM,
)
from dpadmm.algorithms.fixed_point.general import Constraint
from dpadmm.algorithms.linearised import LinearisedADMM
from dpadmm.algorithms.m_admm import MADMM
from dpadmm.algorithms.output_perturbation import OutputPerturbation
from dpadmm.algorithms.p_admm import PADMM
from dpadmm.algorithms.ps_admm import PSADMM, Averaging
from dpadmm.algorithms.r_admm import RADMM
from dpadmm.algorithms.recycled import RecycledPADMM
from dpadmm.algorithms.registry import METHODS
from dpadmm.audit import worlds
from dpadmm.audit.attacks import (
    Attack,
    LikelihoodRatio,
    MatchedFilter,
    Visits,
    all_broadcasts,
    all_messages,
    final_model,
)
from dpadmm.audit.subjects import Subject
from dpadmm.audit.transcripts import Wire
from dpadmm.errors import InputError
from dpadmm.networks import complete
from dpadmm.noise.promises import Family
from dpadmm.privacy.records import Unit, View
from dpadmm.problems.losses import SmoothedHinge
from dpadmm.problems.problem import Weighting

Views = Mapping[View, Attack]

PULLED = "one record, pulled to opposite sides (saturated Huber)"
SMALLEST = "the only record of a silo, pulled to opposite sides (saturated Huber)"
NEARLY_OPPOSITE = "two badly misclassified records, nearly opposite (logistic)"
HINGE = "two records below the margin, nearly opposite (smoothed hinge)"
HIDDEN = "high curvature, hidden state (smoothed hinge)"
LINEAR = "an agent's linear term (quadratics)"
USER = "a user who pulls the other way"

_RATIO = LikelihoodRatio()
_DOWN = LikelihoodRatio(Wire.BROADCASTS)
_FINAL = MatchedFilter(final_model)
_BROADCASTS = MatchedFilter(all_broadcasts)
_GRAPH: Views = {View.EAVESDROPPER: _RATIO, View.PEER: _RATIO, View.PUBLIC: _FINAL}
_STAR: Views = {View.EAVESDROPPER: _RATIO, View.COORDINATOR: _RATIO, View.PUBLIC: _BROADCASTS}
_TRUSTED: Views = {View.PUBLIC: _DOWN, View.PEER: _DOWN}
_PAIR = complete(2)


def p_admm(seed: int) -> tuple[Subject, ...]:
    """C1: one round and twenty, a silo of one record, and margin losses far from their margins."""
    method, firm = PADMM(eta=0.5), PADMM(eta=5.0)
    return (
        Subject("p-admm", SMALLEST, method, worlds.saturated(), 1, _GRAPH, _PAIR),
        Subject("p-admm", f"{PULLED}, 20 rounds", method, worlds.saturated(records=3), 20, _GRAPH, _PAIR),
        Subject("p-admm", NEARLY_OPPOSITE, firm, worlds.misclassified(records=4, weight=1e3), 5, _GRAPH, _PAIR),
        Subject("p-admm", HINGE, firm, worlds.misclassified(SmoothedHinge(), 4, 1e3), 5, _GRAPH, _PAIR),
    )


def recycled(seed: int) -> tuple[Subject, ...]:
    """C1, with free steps in between."""
    return (Subject("p-admm-recycled", PULLED, RecycledPADMM(eta=0.5), worlds.saturated(records=2), 6, _GRAPH, _PAIR),)


def objective(seed: int) -> tuple[Subject, ...]:
    """C2: noise inside the objective; the exact density of the minimiser is known."""

    def views(eta: Callable[[int], float]) -> Views:
        ratio = LikelihoodRatio(penalty=lambda k: np.full(2, 2 * eta(k)))
        return {View.EAVESDROPPER: ratio, View.PEER: ratio, View.PUBLIC: _FINAL}

    dvp, m_admm, r_admm = DVP(eta=50.0), MADMM(eta=50.0, growth=1.1), RADMM(eta=50.0)
    m_views = views(lambda k: float(m_admm.penalties(k, 2)[0]))
    return tuple(
        Subject(name, pair, method, pairs, rounds, seen, _PAIR, is_pure=True)
        for name, pair, method, pairs, rounds, seen in (
            ("dvp", SMALLEST, dvp, worlds.saturated(), 1, views(lambda k: 50.0)),
            ("dvp", NEARLY_OPPOSITE, dvp, worlds.misclassified(), 3, views(lambda k: 50.0)),
            ("m-admm", PULLED, m_admm, worlds.saturated(records=2), 2, m_views),
            ("r-admm", PULLED, r_admm, worlds.saturated(records=2), 4, views(r_admm.penalty)),
        )
    )


def consensus(seed: int) -> tuple[Subject, ...]:
    """C3: a trusted coordinator broadcasts."""
    pure, gaussian = ConsensusDPADMM(rho=1.0), ConsensusDPADMM(rho=1.0, family=Family.GAUSSIAN)
    shifted = replace(gaussian, neighbours=LinearTermsDiffer(1.0))
    pulled = worlds.saturated(3, records=2)
    return (
        Subject("consensus", PULLED, pure, pulled, 1, _TRUSTED, is_pure=True),
        Subject("consensus", NEARLY_OPPOSITE, pure, worlds.dragged(records=2), 1, _TRUSTED, is_pure=True),
        Subject("consensus", f"{PULLED}, 3 rounds", pure, pulled, 3, _TRUSTED, is_pure=True),
        Subject("consensus-gaussian", PULLED, gaussian, pulled, 1, _TRUSTED),
        Subject("consensus-gaussian", HIDDEN, gaussian, worlds.bent(), 5, _TRUSTED),
        Subject("consensus-gaussian", LINEAR, shifted, worlds.shifted_quadratics(), 5, _TRUSTED),
    )


def fixed_point(seed: int) -> tuple[Subject, ...]:
    """C5: noise in the blocks, records and users."""
    pulled = worlds.saturated(3, records=2, weighting=Weighting.AVERAGE)
    user = worlds.saturated(3, records=2, changed=2, weighting=Weighting.AVERAGE)
    central = CentralisedADMM(gamma=1.0)
    curator: Views = {View.EAVESDROPPER: _RATIO, View.PUBLIC: _FINAL}
    drawn = Participation.subsets(3, 2, 6, np.random.default_rng(seed))
    federated = FederatedADMM(1.0, participation=_busiest_first(drawn))
    holders = [[0], [1], [2], [0], [1], [0], [2], [1]]
    walk = RandomWalkADMM(1.0, unit=Unit.USER, participation=Participation.of(3, holders))
    # Peer 1 receives the token from the holders of rounds 1, 4 and 7, and sees the final one.
    peer = MatchedFilter(Visits((1, 4, 7)))
    walkers: Views = {View.EAVESDROPPER: _RATIO, View.PEER: peer, View.PUBLIC: _FINAL}
    lasso = LassoADMM(1.0, clip=1.0)
    general = GeneralADMM(gamma=1.0, constraint=Constraint(np.eye(1), -np.eye(1), np.zeros(1)))
    return (
        Subject("fp-centralised", PULLED, central, pulled, 1, curator),
        Subject("fp-centralised", USER, replace(central, unit=Unit.USER), user, 4, curator),
        Subject("fp-federated", PULLED, federated, pulled, 6, _STAR),
        Subject("fp-federated", USER, replace(federated, unit=Unit.USER), user, 6, _STAR),
        Subject("fp-federated", HINGE, FederatedADMM(1.0), worlds.dragged(SmoothedHinge(), 2), 2, _STAR),
        Subject("fp-walk", USER, walk, user, 8, walkers),
        Subject("fp-lasso", "one user's clipped residual, to opposite sides", lasso, worlds.pulled_lasso(), 3, _STAR),
        Subject("fp-general", PULLED, general, worlds.saturated(1, records=2), 3, curator),
    )


def _busiest_first(drawn: Participation) -> Participation:
    """Return the schedule with user 0 and whoever takes part most often swapped: noise is calibrated to the latter."""
    swap = np.arange(drawn.n_agents)
    busiest = int(np.argmax(drawn.counts(drawn.rounds)))
    swap[[0, busiest]] = busiest, 0
    return Participation(drawn.n_agents, swap[drawn.table])


def coordinator(seed: int) -> tuple[Subject, ...]:
    """C6: noise at the coordinator, hidden blocks."""
    pulled = worlds.saturated(3, records=2, weighting=Weighting.AVERAGE)
    user = worlds.saturated(3, records=2, changed=2, weighting=Weighting.AVERAGE)
    method = CoordinatorADMM(gamma=1.0)
    return (
        Subject("fp-coordinator", PULLED, method, pulled, 1, _TRUSTED),
        Subject("fp-coordinator", NEARLY_OPPOSITE, method, worlds.dragged(records=2), 2, _TRUSTED),
        Subject("fp-coordinator", USER, replace(method, unit=Unit.USER), user, 5, _TRUSTED),
        Subject("fp-coordinator", HIDDEN, method, worlds.bent(), 5, _TRUSTED),
    )


def sampled(seed: int) -> tuple[Subject, ...]:
    """C4 and C9 with random batches: agent 0's other records are silent, so that the mixture is known exactly."""
    batches, everyone = Batches(1, seed), Batches(4, 0)
    sgd, prox = DPSGD(step=0.1, batches=batches), DPProxSGD(step=0.1, batches=batches)
    one = worlds.saturated(1, records=4)
    ps = PSADMM(rho=1.0, step=0.1, inner_steps=3, batches=batches, averaging=Averaging.PLAIN)

    def ratio(method: DPProxSGD | PSADMM) -> LikelihoodRatio:
        return LikelihoodRatio(revealed=(replace(method, batches=everyone), 4.0))

    def views(method: DPProxSGD | PSADMM) -> Views:
        return {View.EAVESDROPPER: ratio(method), View.COORDINATOR: ratio(method), View.PUBLIC: _BROADCASTS}

    messages: Views = {View.EAVESDROPPER: MatchedFilter(all_messages), View.PUBLIC: _BROADCASTS}
    inner = f"{PULLED}; the attacker reads every noisy inner gradient, more than travels"
    two = worlds.saturated(2, records=4)
    return (
        Subject("dp-sgd", PULLED, sgd, one, 3, views(sgd)),
        Subject("dp-prox-sgd", PULLED, prox, one, 3, views(prox)),
        Subject("ps-admm", PULLED, ps, two, 2, messages),
        Subject("ps-admm", inner, ps, two, 2, {View.EAVESDROPPER: ratio(ps)}),
    )


def gradients(seed: int) -> tuple[Subject, ...]:
    """C9: gradient methods and the one-shot release."""
    two, one = worlds.saturated(2, records=2), worlds.saturated(1, records=2)
    ridge = worlds.saturated(2, records=2, mu=0.1)
    descent = CoordinateDescent(step=0.1, blocks=Participation.in_turn(1, 3))
    dgd = DPDGD(step=0.1, decay=0.9)
    normal, pure = replace(dgd, noise=Family.GAUSSIAN), OutputPerturbation(Family.SPHERICAL)
    return (
        Subject("dp-cd", PULLED, descent, one, 3, _STAR),
        Subject("dp-gd", PULLED, DPGD(step=0.1), two, 5, _STAR),
        Subject("dp-gd", NEARLY_OPPOSITE, DPGD(step=0.1), worlds.dragged(records=2, step=0.1), 3, _STAR),
        Subject("dp-dgd", PULLED, dgd, two, 1, _GRAPH, _PAIR, is_pure=True),
        Subject("dp-dgd", f"{PULLED}, Gaussian noise", normal, two, 5, _GRAPH, _PAIR),
        Subject("linearised-admm", PULLED, LinearisedADMM(rho=1.0, step=0.5), two, 5, _STAR),
        Subject("output-perturbation", PULLED, OutputPerturbation(), ridge, 1, _STAR),
        Subject("output-perturbation", f"{PULLED}, pure", pure, ridge, 1, _STAR, is_pure=True),
    )


FAMILIES = (p_admm, recycled, objective, consensus, fixed_point, coordinator, sampled, gradients)


def all_subjects(seed: int = 0) -> tuple[Subject, ...]:
    """Return the whole catalogue, in the order of the registry; `seed` is for batches and participation."""
    found = [subject for family in FAMILIES for subject in family(seed)]
    order = {method.about.name: place for place, method in enumerate(METHODS)}
    return tuple(sorted(found, key=lambda subject: order[subject.method]))


def subjects_of(method: str, seed: int = 0) -> tuple[Subject, ...]:
    """Return the subjects of one method, the headline pair first."""
    found = tuple(subject for subject in all_subjects(seed) if subject.method == method)
    if not found:
        private = ", ".join(dict.fromkeys(subject.method for subject in all_subjects()))
        raise InputError(f"No private method is called {method!r}; there are {private}.")
    return found
