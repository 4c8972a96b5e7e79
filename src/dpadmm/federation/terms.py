"""From agreed terms to what runs: the method, the public problem, the graph and the noise, the same for everybody.

Each silo and the coordinator build this from the agreement alone. No data are needed: certificates rest on sizes and
public constants, so the problem used here has the right sizes and empty tables.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from dpadmm.checks import nearest
from dpadmm.codec import digest, encode
from dpadmm.core.budget import share_out
from dpadmm.core.release import PlannedNoise
from dpadmm.core.spec import RunSpec, TrainingSpec
from dpadmm.errors import InputError
from dpadmm.federation.agreement import Agreement, CountedColumns, NoiseOrigin
from dpadmm.federation.messages import LARGEST_BODY
from dpadmm.methods.base import Common, Method, Setting, Topology, federated
from dpadmm.networks.graph import Network
from dpadmm.noise.masks import MOST_MULTIPLE
from dpadmm.noise.mechanisms import COORDINATOR, Family, MessageKind, Tail
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import SecureSampler, SimulatedSampler
from dpadmm.privacy.accounting import PureTarget, Target, compose
from dpadmm.privacy.releases import NoisyRelease, Release, SummedGaussianRelease
from dpadmm.problems.losses import Poisson, Softmax
from dpadmm.problems.problem import Problem, PublicFunctions, Weighting
from dpadmm.queries.column_profile import ColumnProfile

PROFILE_ROUND = 0
"""The round before the first of training, in which columns are counted."""

_MOST_COUNTS = LARGEST_BODY // 16  # 8 bytes each, written twice in base64

MOST_SUMMED = int(2.0**62 / MOST_MULTIPLE)
"""How many silos' words add up without wrapping modulo 2^64."""

MOST_RELEASES = 200_000
"""Rounds times silos of one run: to plan as many releases takes some ten seconds."""

_MOST_NUMBERS = 2**27  # of all silos' vectors in one round, 1 GB

# A person's total must be strictly within the budget after sums are rounded up.
_MARGIN = 1 - 1e-11


@dataclass(frozen=True)
class AgreedRun:
    """An agreement with everything that follows from it; made by `agreed_run`."""

    agreement: Agreement
    spec: TrainingSpec
    plan: NoisePlan

    @property
    def run(self) -> RunSpec:
        """The rounds of the method."""
        return self.spec.runs[0]

    @property
    def algorithm(self) -> Any:
        """The method with its numbers."""
        return self.run.method

    @property
    def problem(self) -> Problem:
        """The problem as far as it is agreed: sizes and constants, no values."""
        return self.run.setting.problem

    @property
    def network(self) -> Network | None:
        """The graph, None where there is a coordinator."""
        return self.run.setting.network

    @property
    def is_graph(self) -> bool:
        """Whether silos hear their neighbours (relayed) rather than a coordinator's broadcast."""
        return bool(self.algorithm.needs_network)

    @property
    def sends_bare(self) -> bool:
        """Whether the silos' own messages carry no noise: the coordinator adds it to what it broadcasts."""
        return bool(self.algorithm.about.trusts_coordinator) and not self.is_masked

    @property
    def is_masked(self) -> bool:
        """Whether messages leave under masks, each with its silo's share of the noise (C12)."""
        return self.spec.facts.shares is not None

    def summed(self, k: int) -> tuple[MessageKind, SummedGaussianRelease]:
        """Return what all silos' messages of round k add up to, where they leave under masks."""
        found = self._by_round.get(k, [])
        if len(found) != 1 or len(found[0][1]) != 1:
            raise InputError(f"Under masks one sum is released per round; round {k} has {len(found)}.")
        kind, (release,) = found[0][0], found[0][1].values()
        if not isinstance(release, SummedGaussianRelease) or release.count != 1:
            raise InputError(f"Under masks one sum is released per round, once; round {k} has other releases.")
        return kind, release

    @property
    def profile(self) -> ColumnProfile | None:
        """What is counted in round 0, before the first round of training; None for nothing."""
        return next((step for step in self.spec.sums if isinstance(step, ColumnProfile)), None)

    @property
    def has_profile(self) -> bool:
        """Whether columns are counted in round 0."""
        return self.profile is not None

    @property
    def first_round(self) -> int:
        """The number of the first round: 0 where columns are counted, else 1."""
        return 0 if self.has_profile else 1

    @property
    def is_secure(self) -> bool:
        """Whether this is a release, not a rehearsal."""
        return self.agreement.noise is NoiseOrigin.SECURE

    def noise(self) -> PlannedNoise:
        """Return what draws one party's planned noise in one round."""
        return PlannedNoise(self.plan, SecureSampler() if self.is_secure else SimulatedSampler(self.agreement.seed))

    def rounds_of(self, agent: int) -> list[int]:
        """Return the rounds in which a silo is asked."""
        return [k for k in range(self.first_round, self.agreement.rounds + 1) if agent in self.asked(k)]

    def asked(self, k: int) -> list[int]:
        """Return the silos that are asked in round k; all of them in round 0."""
        who = None if k == PROFILE_ROUND else self.algorithm.participants(k)
        return list(range(len(self.agreement.participants))) if who is None else [int(agent) for agent in who]

    def first_training(self, agent: int) -> int | None:
        """Return the first round of training in which a silo is asked, None if there is none."""
        return next((k for k in self.rounds_of(agent) if k != PROFILE_ROUND), None)

    def releases(self, agent: int, k: int) -> list[NoisyRelease]:
        """Return what reaches this silo's records in round k: its own releases, or the coordinator's."""
        found = []
        for _, row in self._by_round.get(k, []):
            if None in row:
                found.append(replace(row[None], agent=agent))
            found += [release for who, release in row.items() if who in (agent, COORDINATOR)]
        return found

    @cached_property
    def _by_round(self) -> dict[int, list[tuple[MessageKind, Mapping[int | None, NoisyRelease]]]]:
        found: dict[int, list[tuple[MessageKind, Mapping[int | None, NoisyRelease]]]] = defaultdict(list)
        for (kind, k), row in self.plan.releases.items():
            found[k].append((kind, row))
        return dict(found)

    def all_releases(self, agent: int) -> list[NoisyRelease]:
        """Return everything that reaches this silo's records in the whole run."""
        return self.releases_through(agent, self.agreement.rounds)

    def releases_through(self, agent: int, last: int) -> list[NoisyRelease]:
        """Return everything that reaches this silo's records up to a round, round 0 included."""
        return [release for k in range(self.first_round, last + 1) for release in self.releases(agent, k)]

    def epsilon(self, agent: int, rounds: int) -> float:
        """Return the certified epsilon of a silo's records after so many rounds of this run, at its delta.

        After 0 rounds that is what round 0 has cost, where there is one; it has not begun after -1.
        """
        spent = self.releases_through(agent, rounds)
        return compose(spent).epsilon(self.agreement.delta) if spent else 0.0

    @cached_property
    def mark(self) -> str:
        """A digest of the whole plan: silos and coordinator compare it before the first round."""
        return digest([encode(release, Release) for release in self.plan])


def agreed_run(agreement: Agreement) -> AgreedRun:
    """Check that the terms fit together and compute the noise; `InputError` if they do not, or would take too long."""
    _check_cost(agreement)
    try:
        return _agreed_run(agreement, agreement.as_json())
    except InputError:
        raise
    except (ArithmeticError, ValueError) as problem:  # each number is usable, but not all of them together
        raise InputError(
            f"No noise can be computed for these terms ({type(problem).__name__}): some of their numbers are extreme."
        ) from problem


def _check_cost(agreement: Agreement) -> None:
    """Refuse terms that would keep whoever computes them busy, by their public sizes alone."""
    n = len(agreement.participants)
    if agreement.rounds * n > MOST_RELEASES:
        raise InputError(
            f"{agreement.rounds} rounds of {n} silos are more than the {MOST_RELEASES} releases that can be planned. "
            "Agree on fewer rounds."
        )
    size = max(agreement.dimension, agreement.n_counts)
    if size * n > _MOST_NUMBERS:
        raise InputError(f"Vectors of {size} numbers from {n} silos are more than fit into memory at once.")


@lru_cache(maxsize=8)
def _agreed_run(agreement: Agreement, text: str) -> AgreedRun:
    """Kept by the text as well: terms that compare equal but have two digests must not stand for each other."""
    known = federated()
    if agreement.method not in known:
        meant = nearest(agreement.method, known)
        raise InputError(f"method must be one of {', '.join(known)}, got {agreement.method!r}.{meant}")
    method = known[agreement.method]
    _check_settings(agreement, method)
    graph, topology = None, method.about.topology
    if topology is Topology.GRAPH or (topology is Topology.WALK and agreement.edges):
        graph = Network(len(agreement.participants), np.array(agreement.edges, dtype=np.int64).reshape(-1, 2))
    common = Common(agreement.rounds, len(agreement.participants), graph, agreement.seed)
    algorithm: Any = method.agreed(common, **method.typed(dict(agreement.settings)))
    network, tolerance = graph if algorithm.needs_network else None, agreement.tolerance
    setting = Setting(_public_problem(agreement), agreement.rounds, tolerance, network, agreement.protection)
    schedule = Tail(agreement.tail_power) if agreement.tail_power else None
    is_pure = agreement.delta == 0
    target = PureTarget(agreement.epsilon * _MARGIN) if is_pure else Target(agreement.epsilon, agreement.delta)
    spec = TrainingSpec.of(RunSpec(algorithm, setting, target, schedule))
    if agreement.profile is not None:
        spec = _with_profile(spec.runs[0], agreement, agreement.profile, method)
    made = AgreedRun(agreement, spec, spec.noise_plan(is_secure=agreement.noise is NoiseOrigin.SECURE))
    if made.is_masked:
        _check_masked(made)
    return made


def _check_masked(terms: AgreedRun) -> None:
    """Refuse what no sum under masks can do: rounds without somebody, several sums, more silos than words hold."""
    n = len(terms.agreement.participants)
    if n > MOST_SUMMED:
        raise InputError(f"Sums under masks can have at most {MOST_SUMMED} silos, got {n}.")
    for k in range(terms.first_round, terms.agreement.rounds + 1):
        if len(terms.asked(k)) != n:
            raise InputError(f"{terms.agreement.method} leaves silos out of round {k}, so the masks would not cancel.")
        terms.summed(k)


def _with_profile(run: RunSpec, agreement: Agreement, counted: CountedColumns, method: type[Method]) -> TrainingSpec:
    """Return the run after round 0, which takes its share of what the run may spend."""
    target = run.target
    if not isinstance(target, Target) or Family.SAMPLED in method.about.noise or not method.about.has_gaussian_noise:
        raise InputError(
            "profile is for methods with plain Gaussian noise, whose costs add up in squares; "
            f"{agreement.method} has other noise. Leave it out: rows are then encoded from public knowledge alone."
        )
    everyone = range(1, agreement.rounds + 1)
    is_whole = all(run.method.participants(k) is None for k in everyone)
    if not is_whole and (run.facts.is_pooled or run.method.needs_network):
        raise InputError(f"{agreement.method} leaves silos out of its first round, in which the counts are sent.")
    size = len(agreement.participants) * counted.size
    if size > _MOST_COUNTS:
        raise InputError(f"The counts of all silos are {size} numbers; at most {_MOST_COUNTS} fit into a message.")
    own, training = share_out(target, counted.share)
    assert own is not None
    profile = ColumnProfile(
        n_numeric=counted.n_numeric, n_categorical=counted.n_categorical, size=counted.size, target=own
    )
    return TrainingSpec.of(profile, replace(run, target=training))


def _check_settings(agreement: Agreement, method: type[Method]) -> None:
    known, given = method.numbers(), set(dict(agreement.settings))
    lacking = {name for name, default in known.items() if default is None} - given
    if given - set(known) or lacking:
        raise InputError(
            f"{agreement.method} takes the settings {', '.join(sorted(known))}; "
            f"unknown: {sorted(given - set(known))}, missing: {sorted(lacking)}."
        )
    if isinstance(agreement.loss, Softmax) and not method.about.takes_softmax:
        raise InputError(f"{agreement.method} is not certified for softmax models of several classes (C13).")
    if isinstance(agreement.loss, Poisson):
        raise InputError("A federation does not fit counts. Fit them in one place, with PrivatePoissonRegressor.")
    if agreement.class_weights and Family.SAMPLED in method.about.noise:
        raise InputError(
            f"{agreement.method} draws batches in which all records count the same. Leave class_weights out."
        )
    if method.about.is_pure != (agreement.delta == 0):
        need = "delta = 0 (its noise is Laplace)" if method.about.is_pure else "a delta above 0 (its noise is Gaussian)"
        raise InputError(f"{agreement.method} needs {need}, got delta = {agreement.delta!r}.")


def _public_problem(agreement: Agreement) -> Problem:
    """Return the problem as far as it is agreed: sizes and constants, no values."""
    sizes = np.array([participant.records for participant in agreement.participants], dtype=np.int64)
    size = agreement.dimension // agreement.n_classes
    functions = PublicFunctions.of_loss(sizes, size, agreement.loss, agreement.row_norm, agreement.mu)
    return Problem.of(functions, Weighting[agreement.weighting.upper()], agreement.penalty)
