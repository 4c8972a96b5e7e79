"""One agent of a method from public numbers: which numbers a method needs, and the agent that they describe.

What is asked follows from what the method says about itself: the numbers among its hyper-parameters, whom it hides, who
talks to whom, its noise. Agents are taken to be alike.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, cast

import numpy as np

from dpadmm.errors import InputError
from dpadmm.methods.base import Method, Setting, Topology, by_name
from dpadmm.methods.batches import Batches, BatchKind
from dpadmm.methods.consensus_dp import RECORDS, FunctionsDiffer, LinearTermsDiffer, Neighbours
from dpadmm.methods.fixed_point import FederatedADMM
from dpadmm.methods.fixed_point.participation import Participation
from dpadmm.methods.preconditioned import PreconditionedGradients
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import Family
from dpadmm.privacy.protection import Protection, Unit
from dpadmm.problems.arrays import Ints
from dpadmm.problems.losses import Constants, Logistic
from dpadmm.problems.problem import LocalFunctions, Problem, PublicFunctions
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.problems.regularisers import ElasticNet
from dpadmm_research.accounting.facts import AgentFacts, NoiseName, Sampling
from dpadmm_research.accounting.one_agent import OneAgent
from dpadmm_research.claims.agent_claims import Claims
from dpadmm_research.claims.registry import PRINTED_ONLY, ClaimedAgent, claims_of
from dpadmm_research.papers.fixed_point.agent import block_lipschitz, federated_claims

_MOST_RELEASES, _MOST_AGENTS = 1_000_000, 10_000_000


def asked(method: type[Method]) -> dict[str, Any]:
    """Return the facts that a method asks for, with their defaults (MISSING: they must be told)."""
    about, names = method.about, _names(method)
    is_user, is_function = Unit.USER in about.units, "neighbours" in names
    found: dict[str, Any] = {"records": None if is_user or is_function else MISSING}
    if is_user or about.trusts_coordinator:
        found["number"] = MISSING
    if about.topology is Topology.GRAPH:
        found["degree"] = MISSING
    if not about.is_one_shot and about.topology is not Topology.WALK:
        found["rounds"] = MISSING
    found |= {"mu": MISSING if about.needs_ridge else 0.0, "gradient_bound": _bound_default(method), "weight": 1.0}
    if about.trusts_coordinator:
        found["smoothness"] = None if is_user else MISSING
    if Family.OBJECTIVE in about.noise:
        found |= {"curvature_bound": 0.25, "logistic": False}
    if Family.COORDINATE in about.noise:
        found["dimension"] = MISSING
    for name in names & _PARTS.keys():
        found |= _PARTS[name].options(method)
    found |= {name: None for claimed in PRINTED_ONLY if issubclass(method, claimed) for name in PRINTED_ONLY[claimed]}
    if recycled_form(method) is not None:
        found["recycled"] = False
    found |= {"l1_weight": 0.0} if "l1_weight" in found else {}
    found |= {"tolerance": None, "records_per_person": 1, "silos_per_person": 1}
    return {name: default for name, default in found.items() if name not in about.free}


def _bound_default(method: type[Method]) -> Any:
    """Where clipping bounds gradients, or a function may be protected, the loss need not."""
    about, names = method.about, _names(method)
    if Unit.USER in about.units:
        return None if "clip" in names else MISSING
    return None if set(about.noise) == {Family.SAMPLED} or "neighbours" in names else 1.0


def recycled_form(method: type[Method]) -> type[Method] | None:
    """Return the method that is this one with free steps in between, None if there is none."""
    return by_name().get(f"{method.about.name}-recycled")


def _names(method: type[Method]) -> set[str]:
    return {each.name for each in fields(cast(Any, method))}


def numbers(method: type[Method]) -> dict[str, Any]:
    """Return the method's own numbers on which its certificates depend, with their defaults (MISSING: none)."""
    own = _names(method) - method.about.free - _PARTS.keys()
    return {name: MISSING if value is None else value for name, value in method.numbers().items() if name in own}


def is_accountable(method: type[Method]) -> bool:
    """Say whether numbers alone describe the method, one level its noise of a round, and anything protects it."""
    known = method.numbers().keys() | _PARTS.keys()
    needed = {each.name for each in fields(cast(Any, method)) if each.default is MISSING}
    has_one_level = not issubclass(method, PreconditionedGradients)  # which releases a matrix first, then gradients
    return method.about.is_private and needed <= known and has_one_level


@dataclass(frozen=True)
class _Part:
    """A hyper-parameter that is no number: which facts tell it, and what they make of it (None: its default)."""

    options: Callable[[type[Method]], dict[str, Any]]
    make: Callable[[type[Method], AgentFacts], Any]


def _participation(method: type[Method], facts: AgentFacts) -> Participation | None:
    """A walk visits the agent as often as told; elsewhere the agent takes part in every round that is counted."""
    if method.about.topology is not Topology.WALK or facts.participations is None:
        return None
    return Participation(facts.number, np.zeros((facts.participations, 1), dtype=np.int64))


def _participation_options(method: type[Method]) -> dict[str, Any]:
    if method.about.topology is Topology.WALK:
        return {"participations": MISSING}
    return {"sampled": MISSING, "participations": None} if "sampled" in method.numbers() else {}


def _batches(method: type[Method], facts: AgentFacts) -> Batches:
    if facts.records is not None and facts.batch > facts.records:
        raise InputError(f"batch must be at most the records {facts.records}, got {facts.batch}.")
    return Batches.secret(facts.batch, BatchKind[facts.sampling.name])


def _batch_options(method: type[Method]) -> dict[str, Any]:
    return {"batch": 1 if "inner_steps" in _names(method) else MISSING, "sampling": Sampling.POISSON}


def _neighbours(method: type[Method], facts: AgentFacts) -> Neighbours:
    if facts.is_about_records or facts.gradient_distance is None:
        return RECORDS
    return (LinearTermsDiffer if facts.quadratic else FunctionsDiffer)(facts.gradient_distance)


def _noise_options(method: type[Method]) -> dict[str, Any]:
    default = next(each.default for each in fields(cast(Any, method)) if isinstance(each.default, Family))
    return {"noise": next(name for name in NoiseName if name.family is default)}


_NOISE = _Part(_noise_options, lambda method, facts: facts.noise.family)
_PARTS: Mapping[str, _Part] = {
    "unit": _Part(lambda method: {}, lambda method, facts: Unit.USER if facts.records is None else Unit.RECORD),
    "clip": _Part(lambda method: {"clip": None}, lambda method, facts: facts.clip),
    "batches": _Part(_batch_options, _batches),
    "noise_ratio": _Part(
        lambda method: {"split": None},
        lambda method, facts: None if facts.split is None else math.sqrt((1 - facts.split) / facts.split),
    ),
    "participation": _Part(_participation_options, _participation),
    "blocks": _Part(lambda method: {}, lambda method, facts: Participation.in_turn(1, facts.rounds)),
    "neighbours": _Part(lambda method: {"gradient_distance": None, "quadratic": False}, _neighbours),
    "smoothing": _Part(
        lambda method: {"smoothing_rate": None}, lambda method, facts: None if facts.smoothing_rate is None else 0.5
    ),
    "family": _NOISE,
    "noise": _NOISE,
}


def one_agent(method: type[Method], **reported: Any) -> OneAgent:
    """Return the agent that these facts and the method's own numbers describe, as the certificates see it.

    >>> from dpadmm.methods.p_admm import PADMM
    >>> agent = one_agent(PADMM, records=6331, degree=2, eta=1e-3, mu=2e-4, rounds=40)
    >>> f"{agent.certificates[0].bound:.6g} {agent.account(5.0).curve.epsilon(1e-5):.4g}"
    '0.0752157 0.3227'
    """
    return claimed_agent(method, **reported).agent


def claimed_agent(method: type[Method], **reported: Any) -> ClaimedAgent:
    """Return the agent of these facts, and beside it what the method's paper says of it."""
    known = asked(method)
    missing = [name for name, default in known.items() if default is MISSING and name not in reported]
    if missing:
        raise InputError(f"{method.about.name} needs {', '.join(missing)}.")
    facts = AgentFacts(**{name: reported.get(name, default) for name, default in known.items()})
    own = {name: value for name, value in reported.items() if name not in known}
    chosen = recycled_form(method) if facts.recycled else method
    if chosen is None:
        raise InputError(f"{method.about.name} has no recycled form.")
    method, facts = chosen, _counted(chosen, facts)
    _check_bound(method, facts)
    parts = {name: part.make(method, facts) for name, part in _PARTS.items() if name in _names(method)}
    free = {name: 1.0 for name, default in method.numbers().items() if default is None and name in method.about.free}
    made = {name: value for name, value in parts.items() if value is not None}
    algorithm: Any = cast(Any, method)(**free | own | made)
    setting = _setting(method, facts)
    return ClaimedAgent(OneAgent(algorithm, setting, facts.smoothing_rate), _claims(algorithm, setting, facts))


def _counted(method: type[Method], facts: AgentFacts) -> AgentFacts:
    """Return the facts, with people and rounds refused that the method cannot have."""
    if Unit.USER in method.about.units and facts.records is None and facts.protection != Protection():
        raise InputError(
            "A whole user is protected, so records_per_person and silos_per_person must be 1. Leave them out."
        )
    if method.about.topology is Topology.WALK:
        facts = replace(facts, rounds=facts.participations or 1)
    if facts.participations is not None and facts.participations > facts.rounds:
        raise InputError(f"participations must be at most the rounds {facts.rounds}, got {facts.participations}.")
    listed = facts.silos_per_person * facts.rounds
    if listed > _MOST_RELEASES:
        raise InputError(
            f"{facts.silos_per_person} silos and {facts.rounds} rounds make {listed} releases; at most "
            f"{_MOST_RELEASES} can be listed. Assume fewer silos per person or fewer rounds."
        )
    if facts.number > _MOST_AGENTS:
        raise InputError(f"At most {_MOST_AGENTS} agents or users can be accounted for, got {facts.number}.")
    return facts


def _check_bound(method: type[Method], facts: AgentFacts) -> None:
    """Refuse gradients that nothing bounds."""
    is_user = Unit.USER in method.about.units
    is_clipped = facts.clip is not None and not (is_user and facts.records is not None)  # clipping hides whole users
    if facts.gradient_bound is not None or is_clipped or "neighbours" in _names(method):
        return
    if is_user:
        raise InputError("Nothing bounds the gradient: give lipschitz, its bound (or, to protect whole users, a clip).")
    raise InputError("Nothing bounds a record's gradient: give gradient_bound, clip, or both.")


@dataclass(frozen=True)
class _Degrees:
    """Of a `Network`, only how many neighbours the agents have: all that certificates read of it."""

    degrees: Ints


def _setting(method: type[Method], facts: AgentFacts) -> Setting:
    """Return agents alike: as many as are told, else as many silos as one person may be in.

    The fixed-point methods' weight and tolerance are those inside their prox, where f_i has the factor N w_i.
    """
    is_user, is_star = Unit.USER in method.about.units, method.about.trusts_coordinator
    agents = facts.number if is_user or is_star else facts.silos_per_person
    is_smooth = facts.smoothness is not None or "smoothness" in method.about.free
    if is_user and facts.records is not None and is_star and not is_smooth:
        raise InputError("The bound for one record needs the smoothness of f_i. Give it.")
    scale = agents if is_user else 1
    return Setting(
        Problem(_functions(facts, agents), np.full(agents, facts.weight / scale), ElasticNet()),
        rounds=facts.participations or facts.rounds,
        tolerance=(facts.tolerance or 0.0) / scale,
        network=cast(Network, _Degrees(np.full(agents, facts.degree)))
        if method.about.topology is Topology.GRAPH
        else None,
        protection=facts.protection,
        rounding=facts.tolerance or 0.0,
    )


def _functions(facts: AgentFacts, agents: int) -> LocalFunctions:
    smoothness = math.inf if facts.smoothness is None else facts.smoothness
    if facts.quadratic:
        top = np.full((agents, 1, 1), smoothness)
        return QuadraticAgents(top, np.zeros((agents, 1)), bounds=(facts.mu, smoothness))
    constants = Constants(
        record_gradient=math.inf if facts.gradient_bound is None else facts.gradient_bound,
        record_curvature=facts.curvature_bound,
        smoothness=smoothness,
        strong_convexity=facts.mu,
        assumption="as told",
    )
    sizes = np.full(agents, facts.records or 1, dtype=np.int64)
    return PublicFunctions(sizes, facts.dimension or 1, constants, Logistic() if facts.logistic else None)


def _claims(algorithm: Any, setting: Setting, facts: AgentFacts) -> Claims | None:
    """Return what the paper says, with the numbers that only it uses."""
    found = claims_of(algorithm, setting)
    if found is None:
        return None
    if isinstance(algorithm, FederatedADMM):
        return federated_claims(
            rounds=facts.rounds,
            users=facts.number,
            sampled=facts.sampled,
            participations=setting.rounds,
            lipschitz=block_lipschitz(algorithm, setting),
            gamma=algorithm.gamma,
        )
    names = {name for kind in PRINTED_ONLY if isinstance(algorithm, kind) for name in PRINTED_ONLY[kind]}
    reported = {name: getattr(facts, name) for name in names if getattr(facts, name) is not None}
    return replace(found, **reported)
