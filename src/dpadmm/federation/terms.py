"""The terms of a federation's run: one frozen, public record with a digest, and all that follows from it.

Everything that decides what is computed and how much noise is drawn is in it: who takes part with how many records, the
method and its numbers, the graph, the budget, the rounds. Each silo's operator approves the digest; a coordinator that
asks for anything else has another digest and is refused. The silos and the coordinator each derive the run and its
noise from the terms alone. No data are needed: certificates rest on sizes and public constants, so the problem used
here has the right sizes and empty tables.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm import checks
from dpadmm.codec import canonical, decode, digest, encode
from dpadmm.core.budget import share_out
from dpadmm.core.release import PlannedNoise
from dpadmm.core.spec import RunSpec, TrainingSpec
from dpadmm.errors import InputError, ResumeError
from dpadmm.federation.errors import printable
from dpadmm.federation.names import check_distinct, check_name
from dpadmm.federation.sqlite_file import toml
from dpadmm.files import parse_json, parse_toml, read_text, write_atomic
from dpadmm.methods.base import Common, Method, Setting, Topology, federated
from dpadmm.networks.graph import Network
from dpadmm.noise.masks import MOST_MULTIPLE
from dpadmm.noise.mechanisms import COORDINATOR, Family, MessageKind, Tail
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import SecureSampler, SimulatedSampler
from dpadmm.privacy.accounting import PureTarget, Target, compose
from dpadmm.privacy.ledger.spending import PROFILE_ROUND
from dpadmm.privacy.protection import Protection, Unit, View
from dpadmm.privacy.releases import NoisyRelease, Release, SummedGaussianRelease
from dpadmm.problems.losses import LabelKind, Logistic, Poisson, ReleasedLoss, Softmax
from dpadmm.problems.problem import Problem, PublicFunctions, Weighting
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.queries.column_profile import ColumnProfile

REHEARSAL = "REHEARSAL, seeded noise that protects nobody: "

MOST_PARTICIPANTS = 10_000
"""Silos of one federation."""

LONGEST_RUN = 200
"""Bytes of a run's name at most."""

LARGEST_BODY = 64 * 2**20
"""Bytes of a message's body that are read at most."""

MOST_SUMMED = int(2.0**62 / MOST_MULTIPLE)
"""How many silos' words add up without wrapping modulo 2^64."""

MOST_RELEASES = 200_000
"""Rounds times silos of one run: to plan as many releases takes some ten seconds."""

_TINY, _HUGE = 1e-15, 1e15  # between these, what is computed from numbers is finite
_LIMITS: dict[str, tuple[float, float]] = {
    "epsilon": (1e-6, 1e6),
    "delta": (0, 1 - 2**-53),
    "rounds": (1, 10**6),  # what they cost to plan is refused by `Terms.spec`
    "dimension": (1, 2**22),  # a vector of as many numbers fits into a message
    "seed": (0, 2**63),
    "records": (1, 10**12),
    "records_per_person": (1, 10**6),
    "silos_per_person": (1, MOST_PARTICIPANTS),
    "colluders": (0, MOST_PARTICIPANTS),
    "n_numeric": (0, 10**6),
    "n_categorical": (0, 10**6),
    "size": (1, 2**22),
    "n_classes": (2, 10**4),
    **dict.fromkeys(("row_norm", "tolerance", "wait_seconds", "largest"), (_TINY, _HUGE)),
    **dict.fromkeys(("mu", "tail_power", "clip_radius"), (0, _HUGE)),
}
"""Of numbers, by the names of their fields; any other is at most 1e15 in size. None is tiny, unless it is 0."""

_MOST_NUMBERS = 2**27  # of all silos' vectors in one round, 1 GB
_MOST_COUNTS = LARGEST_BODY // 16  # 8 bytes each, written twice in base64

# A person's total must be strictly within the budget after sums are rounded up.
_MARGIN = 1 - 1e-11

_Rows = list[tuple[MessageKind, Mapping[int | None, NoisyRelease]]]


class Missing(Enum):
    """What a federation does about a silo that does not answer in time."""

    WAIT = "wait"
    STOP = "stop"


class NoiseOrigin(Enum):
    """Where the noise of a federation comes from."""

    SECURE = "secure"
    TEST = "test"


@dataclass(frozen=True)
class Participant:
    """One silo: its name, how many records it holds, and the public key its messages are signed with.

    The number of records is public, or nominal where the terms' relation is add-or-remove.
    """

    name: str
    records: int
    key: str

    def __post_init__(self) -> None:
        """Check all three."""
        check_name("silo", self.name)
        checks.count("records", self.records)
        _check_numbers("records", self.records)
        check_hex(f"key of {self.name}", self.key)


@dataclass(frozen=True, kw_only=True)
class CountedColumns:
    """What is counted in round 0: columns of either kind and bins in all, as the schema implies.

    share: part of the squared budget m^2 that is spent on it, in (0, 1).
    """

    share: float
    n_numeric: int
    n_categorical: int
    size: int

    def __post_init__(self) -> None:
        """Refuse what no schema implies."""
        checks.open_unit("share", self.share)
        _check_numbers("profile", asdict(self))
        # A column has at least two bins: a value's, and that of empty cells.
        if self.n_columns == 0 or self.size < 2 * self.n_columns:
            raise InputError(
                "A profile needs the n_numeric, n_categorical and size that follow from the schema, got "
                f"{self.n_numeric}, {self.n_categorical} and {self.size}; `dpadmm silo show` prints them."
            )

    @property
    def n_columns(self) -> int:
        """How many columns are counted."""
        return self.n_numeric + self.n_categorical


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms of one run of a federation.

    Parameters
    ----------
    run: name of this run; the ledgers of the silos know it by this name, so a new run needs a new one.
    method, settings: a name of `methods.base.federated` and its numbers, sorted by name.
    rounds, epsilon, delta: what is spent at most; delta 0 for the methods with pure epsilon.
    participants: at least two silos, in the order of their numbers. edges: pairs of numbers (graph methods).
    protection: who is protected from whom. Under the view AGGREGATE messages leave under masks that vanish in their
        sum (C12), for methods that read nothing else. Under add-or-remove the participants' records are nominal
        numbers, and no silo reveals how many it holds.
    loss, mu, penalty: the problem `sum w_i f_i + g`, in which all records count alike (`Weighting.POOLED`).
    tail_power: how the noise grows in the second half of the rounds (`noise.Tail`); 0 leaves it to the method.
    schema: SHA-256 of the public schema all tables are encoded by. dimension, row_norm: what it implies; a softmax
        model has as many coefficients for each class as rows have features, and `dimension` counts those of all.
    class_weights: what a record of each class counts, in the order of the schema's classes; at most 1, and 1 for the
        heaviest, so that noise hides it (C13). None of them: all records count the same.
    clip_radius: the radius to which rows are clipped, in units of a usual row (`Schema.encoding`); 0 encodes plainly by
        bounds and categories (`Schema.by_bounds`).
    profile: the noisy counts of the columns in round 0, by which rows are then encoded; None for no round 0.
    coordinator: public key that requests are signed with.
    noise: secure for releases; test noise, seeded by `seed`, protects nobody and is for rehearsals.
    seed: draws who takes part in which round (fp-federated, fp-walk), and the test noise.
    missing, wait_seconds: what to do about silos that do not answer within the time.
    largest: greatest norm of a vector that anybody has to accept; of counts, beyond what so many records amount to.
    """

    run: str
    method: str
    settings: tuple[tuple[str, float], ...]
    rounds: int
    epsilon: float
    delta: float
    participants: tuple[Participant, ...]
    coordinator: str
    schema: str
    dimension: int
    protection: Protection = field(default_factory=Protection)
    edges: tuple[tuple[int, int], ...] = ()
    row_norm: float = 1.0
    loss: ReleasedLoss = field(default_factory=Logistic)
    mu: float = 0.0
    penalty: ElasticNet = field(default_factory=ElasticNet)
    tolerance: float = 1e-9
    noise: NoiseOrigin = NoiseOrigin.SECURE
    seed: int = 0
    missing: Missing = Missing.WAIT
    wait_seconds: float = 120.0
    largest: float = 1e6
    tail_power: float = 0.0
    clip_radius: float = 0.0
    profile: CountedColumns | None = None
    class_weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check everything that can be checked without deriving the run; whether it all fits is for `plan`."""
        check_name("run", self.run, LONGEST_RUN)
        names = [name for name, _ in self.settings]
        for name in (self.method, *names):
            check_text("a name", name)
        if len(set(names)) < len(names):
            raise InputError("settings must have different names; some are given twice.")
        object.__setattr__(self, "settings", tuple(sorted(self.settings)))
        for name in ("rounds", "dimension", "seed"):
            checks.count(name, getattr(self, name), least=0)
        _check_numbers("terms", asdict(self))
        check_hex("coordinator", self.coordinator)
        check_hex("schema", self.schema)
        if self.profile is not None and self.clip_radius == 0:
            raise InputError("profile pays for an encoding of the rows, which also needs a clip_radius above 0.")
        if self.dimension % self.n_classes:
            raise InputError(f"dimension must be a multiple of the {self.n_classes} classes, got {self.dimension}.")
        self._check_participants()
        self._check_weights()

    def _check_participants(self) -> None:
        names = [participant.name for participant in self.participants]
        keys = {participant.key for participant in self.participants}
        if not 2 <= len(names) <= MOST_PARTICIPANTS:
            raise InputError(f"A federation has from 2 to {MOST_PARTICIPANTS} silos, got {len(names)}.")
        if len(keys) != len(names):
            raise InputError("Every silo needs its own key; some are given twice.")
        check_distinct(names)
        if any(not 0 <= end < len(names) for pair in self.edges for end in pair):
            raise InputError(f"edges must be pairs of silos' numbers, each below {len(names)}.")
        if self.protection.unit is not Unit.RECORD or self.protection.view not in (View.EAVESDROPPER, View.AGGREGATE):
            raise InputError(
                "protection must be per record, against an eavesdropper, or the view aggregate for sums under masks; "
                f"got {self.protection.describe()}."
            )

    def _check_weights(self) -> None:
        """Refuse weights that noise is not calibrated to, or that are not one for each class."""
        weights = self.class_weights
        if not weights:
            return
        if self.loss.target is LabelKind.REALS:
            raise InputError("class_weights are for classes, but the loss is of a number. Leave them out.")
        n_classes = max(self.n_classes, 2)
        if len(weights) != n_classes:
            raise InputError(f"class_weights must be one for each of {n_classes} classes, got {len(weights)}.")
        if min(weights) <= 0 or max(weights) != 1:
            raise InputError(
                f"class_weights must be above 0 and at most 1, the largest exactly 1; got {list(weights)}. Divide all "
                "of them by the largest."
            )

    # --- the record --------------------------------------------------------------------------------------------------

    def as_json(self) -> str:
        """Return the terms as canonical JSON: equal terms give equal text."""
        return canonical(encode(self))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical text: the name by which messages and approvals know the terms."""
        return digest(encode(self))

    @property
    def paid_run(self) -> str:
        """What the silos' ledgers call this run: its name and the whole digest of its terms.

        Two terms with the same name and a part of the digest in common would share one payment.
        """
        return f"{'' if self.is_secure else REHEARSAL}{self.run} [{self.digest}]"

    @property
    def n_classes(self) -> int:
        """How many vectors of coefficients the model has: one of each class for a softmax model, else one."""
        return self.loss.n_classes if isinstance(self.loss, Softmax) else 1

    @property
    def n_counts(self) -> int:
        """How many counts a silo's answer to round 0 has; 0 without round 0."""
        return 0 if self.profile is None else self.profile.size

    @property
    def records(self) -> int:
        """How many records all silos have together."""
        return sum(each.records for each in self.participants)

    @property
    def has_public_sizes(self) -> bool:
        """Whether participants state how many records they hold; else their numbers are nominal."""
        return self.protection.relation.has_public_sizes

    @property
    def is_masked(self) -> bool:
        """Whether messages leave under masks, each with its silo's share of the noise (C12)."""
        return self.protection.view is View.AGGREGATE

    @property
    def is_secure(self) -> bool:
        """Whether this is a release, not a rehearsal."""
        return self.noise is NoiseOrigin.SECURE

    def agent(self, name: str) -> int:
        """Return the number of a silo."""
        for number, participant in enumerate(self.participants):
            if participant.name == name:
                return number
        raise InputError(f"{name!r} does not take part in run {self.run!r}.")

    # --- what runs ---------------------------------------------------------------------------------------------------

    @cached_property
    def spec(self) -> TrainingSpec:
        """Round 0, where there is one, and the rounds of the method; `InputError` if that would take too long."""
        n, size = len(self.participants), max(self.dimension, self.n_counts)
        if self.rounds * n > MOST_RELEASES:
            raise InputError(
                f"{self.rounds} rounds of {n} silos are more than the {MOST_RELEASES} releases that can be planned. "
                "Agree on fewer rounds."
            )
        if size * n > _MOST_NUMBERS:
            raise InputError(f"Vectors of {size} numbers from {n} silos are more than fit into memory at once.")
        known = federated()
        if self.method not in known:
            meant = checks.nearest(self.method, known)
            raise InputError(f"method must be one of {', '.join(known)}, got {self.method!r}.{meant}")
        method = known[self.method]
        self._check_method(method)
        with _refusing_extremes():
            run = self._run_spec(method)
            return TrainingSpec.of(run) if self.profile is None else self._with_profile(run, self.profile, method)

    @cached_property
    def plan(self) -> NoisePlan:
        """All noise of the run; `InputError` if the terms do not fit together."""
        with _refusing_extremes():
            plan = self.spec.noise_plan(is_secure=self.is_secure)
        if self.is_masked:
            if len(self.participants) > MOST_SUMMED:
                raise InputError(f"Sums under masks can have at most {MOST_SUMMED} silos.")
            by_round = _by_round(plan)
            for k in range(self.first_round, self.rounds + 1):
                if len(self.agents_of(k)) != len(self.participants):
                    raise InputError(f"{self.method} leaves silos out of round {k}, so the masks would not cancel.")
                _the_sum(by_round.get(k, []), k)
        return plan

    def check(self) -> None:
        """Refuse terms that do not fit together; all their noise is computed for that."""
        _ = self.plan

    def _run_spec(self, method: type[Method]) -> RunSpec:
        graph, topology, n = None, method.about.topology, len(self.participants)
        if topology is Topology.GRAPH or (topology is Topology.WALK and self.edges):
            graph = Network(n, np.array(self.edges, dtype=np.int64).reshape(-1, 2))
        algorithm: Any = method.agreed(Common(self.rounds, n, graph, self.seed), **method.typed(dict(self.settings)))
        sizes = np.array([each.records for each in self.participants], dtype=np.int64)
        size = self.dimension // self.n_classes
        functions = PublicFunctions.of_loss(sizes, size, self.loss, self.row_norm, self.mu)
        problem = Problem.of(functions, Weighting.POOLED, self.penalty)
        network = graph if algorithm.needs_network else None
        setting = Setting(problem, self.rounds, self.tolerance, network, self.protection)
        target = Target(self.epsilon, self.delta) if self.delta else PureTarget(self.epsilon * _MARGIN)
        return RunSpec(algorithm, setting, target, Tail(self.tail_power) if self.tail_power else None)

    def _with_profile(self, run: RunSpec, counted: CountedColumns, method: type[Method]) -> TrainingSpec:
        """Return the run after round 0, which takes its share of what the run may spend."""
        target = run.target
        if (
            not isinstance(target, Target)
            or Family.SAMPLED in method.about.noise
            or not method.about.has_gaussian_noise
        ):
            raise InputError(
                "profile is for methods with plain Gaussian noise, whose costs add up in squares; "
                f"{self.method} has other noise. Leave it out: rows are then encoded from public knowledge alone."
            )
        is_whole = all(run.method.participants(k) is None for k in range(1, self.rounds + 1))
        if not is_whole and (run.facts.is_pooled or run.method.needs_network):
            raise InputError(f"{self.method} leaves silos out of its first round, in which the counts are sent.")
        size = len(self.participants) * counted.size
        if size > _MOST_COUNTS:
            raise InputError(f"The counts of all silos are {size} numbers; at most {_MOST_COUNTS} fit into a message.")
        own, training = share_out(target, counted.share)
        assert own is not None
        profile = ColumnProfile(
            n_numeric=counted.n_numeric, n_categorical=counted.n_categorical, size=counted.size, target=own
        )
        return TrainingSpec.of(profile, replace(run, target=training))

    def _check_method(self, method: type[Method]) -> None:
        known, given = method.numbers(), set(dict(self.settings))
        lacking = {name for name, default in known.items() if default is None} - given
        if given - set(known) or lacking:
            raise InputError(
                f"{self.method} takes the settings {', '.join(sorted(known))}; "
                f"unknown: {sorted(given - set(known))}, missing: {sorted(lacking)}."
            )
        if isinstance(self.loss, Softmax) and not method.about.takes_softmax:
            raise InputError(f"{self.method} is not certified for softmax models of several classes (C13).")
        if isinstance(self.loss, Poisson):
            raise InputError("A federation does not fit counts. Fit them in one place, with PrivatePoissonRegressor.")
        if self.class_weights and Family.SAMPLED in method.about.noise:
            raise InputError(
                f"{self.method} draws batches in which all records count the same. Leave class_weights out."
            )
        if method.about.is_pure != (self.delta == 0):
            need = "delta = 0 (its noise is Laplace)"
            if not method.about.is_pure:
                need = "a delta above 0 (its noise is Gaussian)"
            raise InputError(f"{self.method} needs {need}, got delta = {self.delta!r}.")

    @property
    def algorithm(self) -> Any:
        """The method with its numbers."""
        return self.spec.runs[0].method

    @property
    def problem(self) -> Problem:
        """The problem as far as it is agreed: sizes and constants, no values."""
        return self.spec.runs[0].setting.problem

    @property
    def network(self) -> Network | None:
        """The graph, None where there is a coordinator."""
        return self.spec.runs[0].setting.network

    @property
    def is_graph(self) -> bool:
        """Whether silos hear their neighbours (relayed) rather than a coordinator's broadcast."""
        return bool(self.algorithm.needs_network)

    @property
    def sends_bare(self) -> bool:
        """Whether the silos' own messages carry no noise: the coordinator adds it to what it broadcasts."""
        return bool(self.algorithm.about.trusts_coordinator) and not self.is_masked

    # --- rounds ------------------------------------------------------------------------------------------------------

    @property
    def first_round(self) -> int:
        """The number of the first round: 0 where columns are counted, else 1."""
        return 1 if self.profile is None else PROFILE_ROUND

    def agents_of(self, k: int) -> list[int]:
        """Return the silos that take part in round k; all of them in round 0."""
        who = None if k == PROFILE_ROUND else self.algorithm.participants(k)
        return list(range(len(self.participants))) if who is None else [int(agent) for agent in who]

    def rounds_of(self, agent: int) -> list[int]:
        """Return the rounds in which a silo takes part."""
        return [k for k in range(self.first_round, self.rounds + 1) if agent in self.agents_of(k)]

    def first_training(self, agent: int) -> int | None:
        """Return the first round of training in which a silo takes part, None if there is none."""
        return next((k for k in self.rounds_of(agent) if k != PROFILE_ROUND), None)

    # --- noise and its cost ------------------------------------------------------------------------------------------

    def planned_noise(self) -> PlannedNoise:
        """Return what draws one party's planned noise in one round."""
        return PlannedNoise(self.plan, SecureSampler() if self.is_secure else SimulatedSampler(self.seed))

    @cached_property
    def _by_round(self) -> dict[int, _Rows]:
        return _by_round(self.plan)

    def summed(self, k: int) -> tuple[MessageKind, SummedGaussianRelease]:
        """Return what all silos' messages of round k add up to, where they leave under masks."""
        return _the_sum(self._by_round.get(k, []), k)

    def releases(self, agent: int, k: int) -> list[NoisyRelease]:
        """Return what reaches this silo's records in round k: its own releases, or the coordinator's."""
        found = []
        for _, row in self._by_round.get(k, []):
            if None in row:
                found.append(replace(row[None], agent=agent))
            found += [release for who, release in row.items() if who in (agent, COORDINATOR)]
        return found

    def releases_through(self, agent: int, last: int) -> list[NoisyRelease]:
        """Return everything that reaches this silo's records up to a round, round 0 included."""
        return [release for k in range(self.first_round, last + 1) for release in self.releases(agent, k)]

    def all_releases(self, agent: int) -> list[NoisyRelease]:
        """Return everything that reaches this silo's records in the whole run."""
        return self.releases_through(agent, self.rounds)

    def spent_epsilon(self, agent: int, last: int) -> float:
        """Return the certified epsilon of a silo's records after this round, at the terms' delta.

        After round 0 that is what the profile has cost, where there is one; a run with one has not begun after -1.
        """
        spent = self.releases_through(agent, last)
        return compose(spent).epsilon(self.delta) if spent else 0.0

    @cached_property
    def plan_mark(self) -> str:
        """A digest of the whole plan: silos and coordinator compare it before the first round."""
        return digest([encode(release, Release) for release in self.plan])


def _by_round(plan: NoisePlan) -> dict[int, _Rows]:
    found: dict[int, _Rows] = defaultdict(list)
    for (kind, k), row in plan.releases.items():
        found[k].append((kind, row))
    return dict(found)


def _the_sum(rows: _Rows, k: int) -> tuple[MessageKind, SummedGaussianRelease]:
    """Return the one sum that is released in round k; refuse other releases, as no sum under masks can hide them."""
    releases = [(kind, release) for kind, row in rows for release in row.values()]
    if len(releases) != 1 or not isinstance(releases[0][1], SummedGaussianRelease) or releases[0][1].count != 1:
        raise InputError(f"Under masks one sum is released per round, once; round {k} has other releases.")
    return releases[0][0], releases[0][1]


@contextmanager
def _refusing_extremes() -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (ArithmeticError, ValueError) as problem:  # each number is usable, but not all of them together
        raise InputError(
            f"No noise can be computed for these terms ({type(problem).__name__}): some of their numbers are extreme."
        ) from problem


def _check_numbers(name: str, value: Any) -> None:
    """Refuse numbers that no run needs, anywhere in the terms, so that nothing computed from them overflows."""
    if isinstance(value, Mapping):
        for inner, each in value.items():
            _check_numbers(inner, each)
    elif isinstance(value, list | tuple):
        for each in value:
            _check_numbers(name, each)
    elif isinstance(value, int | float):
        least, most = _LIMITS.get(name, (-_HUGE, _HUGE))
        tiny = 1e-300 if name == "delta" else _TINY
        if not least <= value <= most or 0 < abs(value) < tiny:
            allowed = f"from {least:g} to {most:g}, and 0 or at least {tiny:g} in size"
            raise InputError(f"{name} must be {allowed}, got {checks.safe_repr(value)}.")


def check_text(name: str, value: str) -> None:
    """Refuse what is no short printable text."""
    if not value.strip() or not value.isprintable() or len(value) > 200:
        raise InputError(f"{name} must be printable text of at most 200 characters, got {checks.safe_repr(value)}.")


def check_hex(name: str, value: str) -> None:
    """Refuse what is no public key or digest: 32 bytes in lower-case hex."""
    if re.fullmatch("[0-9a-f]{64}", value) is None:
        raise InputError(f"{name} must be 64 hex digits, got {checks.safe_repr(value)}.")


@lru_cache(maxsize=8)
def stored_terms(text: str) -> Terms:
    """Return the terms that a silo or coordinator keeps as JSON; the latest stay with the noise computed for them."""
    try:
        found: Terms = decode(Terms, parse_json(text), "The terms")
    except InputError as problem:
        raise ResumeError("What is kept of a run's terms is damaged. Restore the file from a backup.") from problem
    return found


def read_federation(path: Path) -> Terms:
    """Read a federation file (TOML): the terms by their names, `[settings]` as a table, and `[[participants]]`.

    `graph = "ring"`, `"path"`, `"star"` or `"complete"` stands for its edges.
    """
    try:
        plain = parse_toml(read_text(path))
    except InputError as problem:
        raise InputError(f"Cannot read the federation file {path}: {problem}.") from problem
    graph = plain.pop("graph", None)
    if graph is not None:
        if "edges" in plain:
            raise InputError(f"{path}: give edges or a graph by name, not both.")
        listed = plain.get("participants")
        edges = named_edges(str(graph), len(listed) if isinstance(listed, list) else 0)
        plain["edges"] = [list(pair) for pair in edges]
    if isinstance(plain.get("settings"), dict):
        plain["settings"] = [list(pair) for pair in plain["settings"].items()]
    try:
        return decode(Terms, plain, "The terms")
    except InputError as problem:
        raise InputError(printable(f"{path}: {problem}")) from problem


def write_federation(path: Path, terms: Terms) -> None:
    """Write the terms, whole or not at all, as a federation file that `read_federation` reads to the same digest."""
    write_atomic(path, toml(encode(terms) | {"settings": dict(terms.settings)}).encode())


def named_edges(graph: str, n: int) -> list[tuple[int, int]]:
    """Return the edges of a common graph of n silos; a ring of two is a path."""
    shapes = {
        "ring": [(i, (i + 1) % n) for i in range(n)] if n > 2 else [(0, 1)],
        "path": [(i, i + 1) for i in range(n - 1)],
        "star": [(0, i) for i in range(1, n)],
        "complete": [(i, j) for i in range(n) for j in range(i + 1, n)],
    }
    if graph not in shapes:
        meant = checks.nearest(graph, shapes)
        raise InputError(f"graph must be one of {', '.join(shapes)}, or give edges; got {graph!r}.{meant}")
    return [(min(pair), max(pair)) for pair in shapes[graph]]
