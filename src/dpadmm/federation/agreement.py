"""What the silos of a federation agree to before anything is computed: one frozen, public record with a digest.

Everything that decides what is computed and how much noise is drawn is in it: who takes part with how many records, the
method and its numbers, the graph, the budget, the rounds. Each silo's operator approves the digest; a coordinator that
asks for anything else has another digest and is refused.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from dpadmm import checks
from dpadmm.codec import canonical, decode, digest, encode
from dpadmm.errors import InputError, ResumeError
from dpadmm.federation.errors import printable
from dpadmm.federation.names import check_distinct, check_name
from dpadmm.federation.sqlite_file import toml
from dpadmm.files import parse_json, parse_toml, read_text, write_atomic
from dpadmm.privacy.protection import Protection, Unit, View
from dpadmm.problems.losses import LabelKind, Logistic, ReleasedLoss, Softmax
from dpadmm.problems.regularisers import ElasticNet

FORMAT = 3
DAMAGED = "What the state file keeps of a run is damaged. Restore it from a backup."
REHEARSAL = "REHEARSAL, seeded noise that protects nobody: "

MOST_PARTICIPANTS = 10_000
"""Silos of one federation."""

LONGEST_RUN = 200
"""Bytes of a run's name at most."""

_TINY, _HUGE = 1e-15, 1e15  # between these, what is computed from numbers is finite
_LEAST_EPSILON, _MOST_EPSILON, _LEAST_DELTA = 1e-6, 1e6, 1e-300
_MOST = {
    "rounds": 10**6,  # what they cost to plan is for `terms.agreed_run` to refuse
    "dimension": 2**22,  # a vector of as many numbers fits into a message
    "seed": 2**63,
    "records": 10**12,
    "records_per_person": 10**6,
    "silos_per_person": MOST_PARTICIPANTS,
    "colluders": MOST_PARTICIPANTS,
    "edges": MOST_PARTICIPANTS,
    "n_numeric": 10**6,
    "n_categorical": 10**6,
    "size": 2**22,
    "n_classes": 10**4,
}
"""Of whole numbers, by the names of their fields: no run needs larger ones."""


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
        _check_size("records", self.records)
        check_key(f"key of {self.name}", self.key)


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
        for name in ("n_numeric", "n_categorical"):
            checks.count(name, getattr(self, name), least=0)
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
class Agreement:
    """The terms of one run of a federation.

    Parameters
    ----------
    run: name of this run; the ledgers of the silos know it by this name, so a new run needs a new one.
    method, settings: a name of `federation.terms` and its numbers, sorted by name.
    rounds, epsilon, delta: what is spent at most; delta 0 for the methods with pure epsilon.
    participants: at least two silos, in the order of their numbers. edges: pairs of numbers (graph methods).
    protection: who is protected from whom. Under the view AGGREGATE messages leave under masks that vanish in their
        sum (C12), for methods that read nothing else. Under add-or-remove the participants' records are nominal
        numbers, and no silo reveals how many it holds.
    loss, mu, weighting, penalty: the problem `sum w_i f_i + g`.
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
    weighting: Literal["pooled", "average", "equal"] = "pooled"
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
        """Check every number on its own; whether they fit together is for `terms.agreed_run`."""
        check_name("run", self.run, LONGEST_RUN)
        names = [name for name, _ in self.settings]
        for name in (self.method, *names):
            check_text("a name", name)
        if len(set(names)) < len(names):
            raise InputError("settings must have different names; some are given twice.")
        object.__setattr__(self, "settings", tuple(sorted(self.settings)))
        for name, value in asdict(self).items():
            _check_size(name, value)
        for name in ("rounds", "dimension"):
            checks.count(name, getattr(self, name))
        checks.count("seed", self.seed, least=0)
        for name in ("row_norm", "tolerance", "wait_seconds", "largest"):
            checks.positive(name, getattr(self, name))
        for name in ("mu", "tail_power", "clip_radius"):
            checks.non_negative(name, getattr(self, name))
        check_key("coordinator", self.coordinator)
        if not is_digest(self.schema):
            raise InputError(
                f"schema must be the SHA-256 of the schema file in hex, got {checks.safe_repr(self.schema)}."
            )
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
        if len(set(names)) != len(names) or len(keys) != len(names):
            raise InputError("Every silo needs its own name and its own key; some are given twice.")
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

    @property
    def n_classes(self) -> int:
        """How many vectors of coefficients the model has: one of each class for a softmax model, else one."""
        return self.loss.n_classes if isinstance(self.loss, Softmax) else 1

    @property
    def is_masked(self) -> bool:
        """Whether messages leave under masks."""
        return self.protection.view is View.AGGREGATE

    @property
    def has_public_sizes(self) -> bool:
        """Whether participants state how many records they hold; else their numbers are nominal."""
        return self.protection.relation.has_public_sizes

    @property
    def n_counts(self) -> int:
        """How many counts a silo's answer to round 0 has; 0 without round 0."""
        return 0 if self.profile is None else self.profile.size

    def agent(self, name: str) -> int:
        """Return the number of a silo."""
        for number, participant in enumerate(self.participants):
            if participant.name == name:
                return number
        raise InputError(f"{name!r} does not take part in run {self.run!r}.")

    @cached_property
    def _plain(self) -> dict[str, Any]:
        return dict(encode(self)) | {"format": FORMAT}

    def as_json(self) -> str:
        """Return the terms as canonical JSON: equal terms give equal text."""
        return canonical(self._plain)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical text: the name by which messages and approvals know the terms."""
        return digest(self._plain)

    @property
    def paid_run(self) -> str:
        """What the silos' ledgers call this run: its name and the whole digest of its terms.

        Two terms with the same name and a part of the digest in common would share one payment.
        """
        prefix = "" if self.noise is NoiseOrigin.SECURE else REHEARSAL
        return f"{prefix}{self.run} [{self.digest}]"

    @classmethod
    def from_json(cls, text: str) -> "Agreement":
        """Read what `as_json` wrote; refuse anything else."""
        try:
            plain = parse_json(text)
        except InputError as problem:
            raise InputError(f"The terms cannot be read: {problem}.") from problem
        if not isinstance(plain, dict) or plain.pop("format", None) != FORMAT:
            raise InputError(f"The terms do not have format {FORMAT}; use the same version of dpadmm everywhere.")
        return decode(cls, plain, "The terms")


def _check_size(name: str, value: Any) -> None:
    """Refuse numbers that no run needs, anywhere in the terms, so that nothing computed from them overflows."""
    if isinstance(value, Mapping):
        for inner, each in value.items():
            _check_size(inner, each)
    elif isinstance(value, list | tuple):
        for each in value:
            _check_size(name, each)
    elif isinstance(value, int) and name in _MOST:
        if value > _MOST[name]:
            raise InputError(f"{name} must be at most {_MOST[name]}, got {checks.safe_repr(value)}.")
    elif isinstance(value, int | float):
        _check_number(name, float(value))


def _check_number(name: str, number: float) -> None:
    checks.finite(name, number)
    if name == "epsilon":
        is_usable, allowed = _LEAST_EPSILON <= number <= _MOST_EPSILON, f"from {_LEAST_EPSILON:g} to {_MOST_EPSILON:g}"
    elif name == "delta":
        is_usable, allowed = number == 0 or _LEAST_DELTA <= number < 1, f"0, or from {_LEAST_DELTA:g} to below 1"
    else:
        is_usable, allowed = number == 0 or _TINY <= abs(number) <= _HUGE, f"0, or from {_TINY:g} to {_HUGE:g} in size"
    if not is_usable:
        raise InputError(f"{name} must be {allowed}, got {checks.safe_repr(number)}.")


def check_text(name: str, value: str) -> None:
    """Refuse what is no short printable text."""
    if not value.strip() or not value.isprintable() or len(value) > 200:
        raise InputError(f"{name} must be printable text of at most 200 characters, got {checks.safe_repr(value)}.")


def check_key(name: str, value: str) -> None:
    """Refuse what is no public key."""
    if not is_digest(value):
        raise InputError(f"{name} must be an Ed25519 public key, 64 hex digits; got {checks.safe_repr(value)}.")


def is_digest(value: str) -> bool:
    """Whether it is 32 bytes in lower-case hex."""
    return re.fullmatch("[0-9a-f]{64}", value) is not None


def stored_terms(text: str) -> Agreement:
    """Return the terms of a run as a silo's state file keeps them."""
    try:
        return Agreement.from_json(text)
    except InputError as problem:
        raise ResumeError(DAMAGED) from problem


def read_federation(path: Path) -> Agreement:
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
        return decode(Agreement, plain, "The terms")
    except InputError as problem:
        raise InputError(printable(f"{path}: {problem}")) from problem


def write_federation(path: Path, agreement: Agreement) -> None:
    """Write the terms, whole or not at all, as a federation file that `read_federation` reads to the same digest."""
    write_atomic(path, toml(encode(agreement) | {"settings": dict(agreement.settings)}).encode())


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
