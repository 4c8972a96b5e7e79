"""The catalogue of attacks: every private method on the neighbouring problems that hurt it most (`worst_cases`), and
the column profile and the curvature that may be released before and after it (`dpadmm_research.audit.column_profile`,
`dpadmm_research.audit.curvature`), and agents with costs of their own (`dpadmm_research.audit.own_costs`).

Most pairs are Huber regressions in one dimension with a record pulled to opposite sides (`neighbours.saturated`): every
bound of the form `2G/n_i` is then reached exactly, and what the audit leaves unexplained is the bound's own slack. The
attack of each view follows from who talks to whom, who is trusted, and the noise. Networks are paths. The agent whose
data differ is at an end, where the fewest neighbours hold it: the first one, or the last one, behind silos that hold
more records, so that nothing passes which is true of the first silo alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpadmm.errors import InputError
from dpadmm.methods.base import Topology, by_name
from dpadmm.methods.batches import Batches
from dpadmm.networks import path
from dpadmm.noise.mechanisms import Family
from dpadmm.privacy.protection import View
from dpadmm_research.audit import column_profile, curvature, own_costs
from dpadmm_research.audit.attacks import (
    Attack,
    LikelihoodRatio,
    MatchedFilter,
    Visits,
    all_broadcasts,
    all_messages,
    final_model,
)
from dpadmm_research.audit.column_profile import COLUMN_PROFILE, profile_subjects
from dpadmm_research.audit.curvature import CURVATURE_RELEASE, curvature_subjects
from dpadmm_research.audit.insider import insider_subjects
from dpadmm_research.audit.neighbours import changed_agent
from dpadmm_research.audit.own_costs import OWN_COSTS, own_cost_subjects
from dpadmm_research.audit.subjects import MethodSubject, Subject
from dpadmm_research.audit.transcripts import Wire
from dpadmm_research.audit.worst_cases import WorstCase, worst_cases

# What may be released before and after a method, in a line, with the certificate that protects it.
_BESIDE: dict[str, tuple[Callable[[], tuple[Subject, ...]], str, str]] = {
    COLUMN_PROFILE: (profile_subjects, column_profile.SUMMARY, column_profile.CERTIFICATE),
    CURVATURE_RELEASE: (curvature_subjects, curvature.SUMMARY, curvature.CERTIFICATE),
    OWN_COSTS: (own_cost_subjects, own_costs.SUMMARY, own_costs.CERTIFICATE),
}

_FINAL, _BROADCASTS = MatchedFilter(final_model), MatchedFilter(all_broadcasts)


def all_subjects(seed: int = 0) -> tuple[Subject, ...]:
    """Return the whole catalogue, in the order of the registry; `seed` is for batches and participation."""
    methods = (subject for name, method in by_name().items() for subject in _subjects(name, worst_cases(method, seed)))
    return (*methods, *profile_subjects(), *curvature_subjects(), *own_cost_subjects())


def subjects_of(method: str, seed: int = 0) -> tuple[Subject, ...]:
    """Return the subjects of one method, of what else may be released, or of own costs, the headline pair first."""
    if method in _BESIDE:
        return _BESIDE[method][0]()
    known = by_name()
    found = worst_cases(known[method], seed) if method in known else ()
    if method in known and known[method].about.is_private and not found:
        raise InputError(f"{method} names no worst_cases, so there is nothing to attack; see docs/adding.md.")
    if not found:
        private = ", ".join(name for name, each in known.items() if worst_cases(each, seed))
        beside = " and ".join(_BESIDE)
        raise InputError(
            f"No private method is called {method!r}; there are {private}, and {beside}.", setting="method"
        )
    return _subjects(method, found)


def described(name: str) -> tuple[str, str]:
    """Return in a line what is attacked under this name, and the certificate that protects it."""
    if name in _BESIDE:
        return _BESIDE[name][1:]
    about = by_name()[name].about
    return about.summary, about.certificate


def _subjects(name: str, cases: Sequence[WorstCase]) -> tuple[MethodSubject, ...]:
    """Return a method's pairs, and, where it reads sums alone, those on which insiders attack them under masks."""
    summed = insider_subjects(name, cases[0]) if cases and cases[0].algorithm.about.is_sum else ()
    return (*(_subject(name, case) for case in cases), *summed)


def _subject(name: str, case: WorstCase) -> MethodSubject:
    algorithm: Any = case.algorithm
    return MethodSubject(
        method=name,
        pair=case.pair,
        worlds=case.problems,
        views=_views(case),
        algorithm=algorithm,
        rounds=case.rounds,
        network=path(case.problems[0].n_agents) if case.algorithm.needs_network else None,
        protection=case.protection,
    )


def _views(case: WorstCase) -> Mapping[View, Attack]:
    """Return the attack of each viewer, the one the certificate is about first."""
    about, ratio = case.algorithm.about, _ratio(case)
    if about.trusts_coordinator:
        down = LikelihoodRatio(Wire.BROADCASTS)
        return {View.PUBLIC: down, View.PEER: down}
    if case.is_inside:
        return {View.EAVESDROPPER: ratio}
    if len(about.noise) > 1:  # what travels is made of several noisy values, whose likelihood nobody can compute
        return {View.EAVESDROPPER: MatchedFilter(all_messages), View.PUBLIC: _BROADCASTS}
    if about.is_curator:
        return {View.EAVESDROPPER: ratio, View.PUBLIC: _FINAL}
    if about.topology is Topology.GRAPH:
        return {View.EAVESDROPPER: ratio, View.PEER: ratio, View.PUBLIC: _FINAL}
    if about.topology is Topology.WALK:
        return {View.EAVESDROPPER: ratio, View.PEER: MatchedFilter(_visits(case)), View.PUBLIC: _FINAL}
    return {View.EAVESDROPPER: ratio, View.COORDINATOR: ratio, View.PUBLIC: _BROADCASTS}


def _ratio(case: WorstCase) -> LikelihoodRatio:
    """Return the likelihood ratio of everything released, for the method's noise."""
    algorithm: Any = case.algorithm
    if Family.OBJECTIVE in algorithm.about.noise:
        n = case.problems[0].n_agents
        degrees = path(n).degrees
        return LikelihoodRatio(penalty=lambda k: 2 * algorithm.penalties(k, n) * degrees)
    if Family.SAMPLED in algorithm.about.noise:
        records = int(case.problems[0].functions.sizes[changed_agent(case.problems)])
        full = replace(algorithm, batches=Batches(records, 0))
        return LikelihoodRatio(revealed=(full, records / algorithm.batches.size))
    return LikelihoodRatio()


def _visits(case: WorstCase) -> Visits:
    """Return when agent 1 receives the token: after every round whose next holder it is."""
    holders = {k: case.algorithm.participants(k + 1) for k in range(1, case.rounds)}
    return Visits(tuple(k for k, who in holders.items() if who is not None and 1 in who))
