"""What the silos of a federation agree to before anything is computed: one frozen, public record with a digest.

Everything that decides what is computed and how much noise is drawn is in it: who takes part with how many records, the
method and its numbers, the graph, the budget, the rounds. Each silo's operator approves the digest; a coordinator that
asks for anything else has another digest and is refused.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any

from dpadmm import checks
from dpadmm.errors import InputError, ResumeError
from dpadmm.federation import term_values
from dpadmm.federation.durable import toml
from dpadmm.federation.names import check_distinct, check_name
from dpadmm.federation.refusal import printable
from dpadmm.files import parse_json, parse_toml, read_text, write_atomic
from dpadmm.privacy.protection import Relation

FORMAT = 2
DAMAGED = "What the state file keeps of a run is damaged. Restore it from a backup."
REHEARSAL = "REHEARSAL, seeded noise that protects nobody: "


class Missing(Enum):
    """What a federation does about a silo that does not answer in time."""

    WAIT = "wait"
    STOP = "stop"


class Aggregation(Enum):
    """How the messages of silos reach the coordinator: as they are, or under masks that vanish in their sum (C12)."""

    PLAIN = "plain"
    MASKED = "masked"


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
        object.__setattr__(self, "records", term_values.whole("records", self.records, least=1))
        term_values.key(f"key of {self.name}", self.key)


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """The terms of one run of a federation.

    Parameters
    ----------
    run: name of this run; the ledgers of the silos know it by this name, so a new run needs a new one.
    method, settings: a name of `federation.terms` and its numbers, sorted by name.
    rounds, epsilon, delta: what is spent at most; delta 0 for the methods with pure epsilon.
    participants: at least two silos, in the order of their numbers. edges: pairs of numbers (graph methods).
    loss, mu, weighting, ridge, l1: the problem `sum w_i f_i + g`; loss by name.
    slope_bound: greatest slope of the loss, where it can be chosen (huber's threshold, the cap of logistic and
        softmax).
    tail_power: how the noise grows in the second half of the rounds (`noise.Tail`); 0 leaves it to the method.
    relation: replace-one, or add-or-remove: the participants' records are then nominal numbers, and no silo tells how
        many it holds.
    schema: SHA-256 of the public schema all tables are encoded by. dimension, row_norm: what it implies.
    classes: of a softmax model, each with as many coefficients as rows have features, so that `dimension` counts those
        of all classes; 0 for other losses.
    class_weights: what a record of each class counts, in the order of the schema's classes; at most 1, and 1 for the
        heaviest, so that noise hides it (C13). None of them: all records count the same.
    reach: the radius to which rows are shortened, in units of a usual row (`Schema.encoding`); 0 encodes plainly by
        bounds and categories (`Schema.by_bounds`).
    profile_share: part of the squared budget m^2 that is spent on noisy counts of the columns in round 0, by which rows
        are then encoded; in (0, 1), 0 for no round 0. n_numeric, n_categorical, n_counts: what it counts, as the
        schema implies: columns of either kind, and bins in all.
    coordinator: public key that requests are signed with.
    noise: secure for releases; test noise, seeded by `seed`, protects nobody and is for rehearsals.
    seed: draws who takes part in which round (fp-federated, fp-walk), and the test noise.
    missing, wait_seconds: what to do about silos that do not answer within the time.
    largest: greatest norm of a vector that anybody has to accept; of counts, beyond what so many records amount to.
    aggregation: masked where nobody is to see more of the messages than their sum; for methods that read nothing else.
    colluders: how many silos may then look together with the coordinator; 1 if left out. None for plain messages.
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
    edges: tuple[tuple[int, int], ...] = ()
    row_norm: float = 1.0
    loss: str = "logistic"
    mu: float = 0.0
    weighting: str = "pooled"
    ridge: float = 0.0
    l1: float = 0.0
    tolerance: float = 1e-9
    records_per_person: int = 1
    silos_per_person: int = 1
    noise: NoiseOrigin = NoiseOrigin.SECURE
    seed: int = 0
    missing: Missing = Missing.WAIT
    wait_seconds: float = 120.0
    largest: float = 1e6
    slope_bound: float = 1.0
    tail_power: float = 0.0
    relation: str = "replace-one"
    reach: float = 0.0
    profile_share: float = 0.0
    n_numeric: int = 0
    n_categorical: int = 0
    n_counts: int = 0
    aggregation: Aggregation = Aggregation.PLAIN
    colluders: int | None = None
    classes: int = 0
    class_weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check every number on its own; whether they fit together is for `terms.agreed_run`."""
        for field in fields(self):
            if field.type is float:  # so that 1 and 1.0, 0.0 and -0.0, are the same terms
                object.__setattr__(self, field.name, term_values.number(field.name, getattr(self, field.name)))
            elif field.type is int:  # 4.0 is a whole number too, but not the same text
                object.__setattr__(self, field.name, term_values.whole(field.name, getattr(self, field.name)))
        object.__setattr__(self, "settings", term_values.settings(self.settings))
        check_name("run", self.run, term_values.LONGEST_RUN)
        for name in ("method", "loss", "weighting", "relation"):
            term_values.text(name, getattr(self, name))
        checks.count("rounds", self.rounds)
        self._check_people()
        checks.count("dimension", self.dimension)
        term_values.key("coordinator", self.coordinator)
        for name in ("row_norm", "tolerance", "wait_seconds", "largest", "slope_bound"):
            checks.positive(name, getattr(self, name))
        for name in ("mu", "ridge", "l1", "tail_power", "reach"):
            checks.non_negative(name, getattr(self, name))
        checks.count("seed", self.seed, least=0)
        if not term_values.is_digest(self.schema):
            raise InputError(f"schema must be the SHA-256 of the schema file in hex, got {checks.shown(self.schema)}.")
        self._check_profile()
        self._check_masks()
        if self.classes and (self.classes < 2 or self.dimension % self.classes):
            raise InputError(f"dimension must be a multiple of the {self.classes} classes, got {self.dimension}.")
        self._check_weights()

    def _check_weights(self) -> None:
        """Refuse weights that noise is not calibrated to, or that are not one for each class."""
        weights = tuple(term_values.number("every class weight", each) for each in self.class_weights)
        object.__setattr__(self, "class_weights", weights)
        if not weights:
            return
        if len(weights) != (self.classes or 2):
            raise InputError(f"class_weights must be one for each of {self.classes or 2} classes, got {len(weights)}.")
        if min(weights) <= 0 or max(weights) != 1:
            raise InputError(
                f"class_weights must be above 0 and at most 1, the largest exactly 1; got {list(weights)}. Divide all "
                "of them by the largest."
            )

    @property
    def is_masked(self) -> bool:
        """Whether messages leave under masks."""
        return self.aggregation is Aggregation.MASKED

    def _check_masks(self) -> None:
        if self.is_masked:
            told = 1 if self.colluders is None else self.colluders
            object.__setattr__(self, "colluders", term_values.whole("colluders", told))
        elif self.colluders is not None:
            raise InputError(
                f"colluders are for terms with aggregation = 'masked'; got {checks.shown(self.colluders)}. Leave "
                "colluders out."
            )

    def _check_profile(self) -> None:
        columns = (self.n_numeric, self.n_categorical, self.n_counts)
        if self.profile_share == 0:
            if any(columns):
                raise InputError(
                    "n_numeric, n_categorical and n_counts are for terms with a profile_share; leave them out."
                )
            return
        checks.open_unit("profile_share", self.profile_share)
        if self.reach == 0:
            raise InputError("profile_share pays for an encoding of the rows, which also needs a reach above 0.")
        # A column has at least two bins: a value's, and that of empty cells.
        if self.n_numeric + self.n_categorical == 0 or self.n_counts < 2 * (self.n_numeric + self.n_categorical):
            raise InputError(
                "A profile needs the n_numeric, n_categorical and n_counts that follow from the schema, got "
                f"{columns}; `dpadmm silo show` prints them."
            )

    @property
    def neighbours(self) -> Relation:
        """What makes two data sets neighbours."""
        return Relation(self.relation)

    @property
    def has_public_sizes(self) -> bool:
        """Whether participants tell how many records they hold; else their numbers are nominal."""
        return self.neighbours.has_public_sizes

    def _check_people(self) -> None:
        if self.relation not in [each.value for each in Relation]:
            words = " or ".join(each.value for each in Relation)
            raise InputError(f"relation must be {words}, got {checks.shown(self.relation)}.")
        names = [participant.name for participant in self.participants]
        keys = [participant.key for participant in self.participants]
        if not 2 <= len(names) <= term_values.MOST_PARTICIPANTS:
            raise InputError(f"A federation has from 2 to {term_values.MOST_PARTICIPANTS} silos, got {len(names)}.")
        if len(set(names)) != len(names) or len(set(keys)) != len(keys):
            raise InputError("Every silo needs its own name and its own key; some are given twice.")
        check_distinct(names)
        object.__setattr__(self, "edges", tuple(term_values.edge(pair, len(names)) for pair in self.edges))

    def numbers(self) -> dict[str, float]:
        """Return the method's settings by name."""
        return dict(self.settings)

    def agent(self, name: str) -> int:
        """Return the number of a silo."""
        for number, participant in enumerate(self.participants):
            if participant.name == name:
                return number
        raise InputError(f"{name!r} does not take part in run {self.run!r}.")

    def as_json(self) -> str:
        """Return the terms as canonical JSON: equal terms give equal text."""
        words = {name: getattr(self, name).value for name in ("noise", "missing", "aggregation")}
        plain = {name: value for name, value in asdict(self).items() if value is not None}
        plain |= words | {"format": FORMAT}
        return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical text: the name by which messages and approvals know the terms."""
        return hashlib.sha256(self.as_json().encode()).hexdigest()

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
        return cls.from_plain(plain)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Agreement":
        """Build the terms from plain values; missing and unknown names are refused by name."""
        known = {field.name: field for field in fields(cls)}
        unknown = sorted(set(plain) - set(known))
        if unknown:
            meant = checks.nearest(unknown[0], known)
            raise InputError(
                f"Unknown terms: {', '.join(unknown):.200}; known terms are {', '.join(sorted(known))}.{meant}"
            )
        values = dict(plain)
        try:
            values["participants"] = _participants(plain["participants"])
            values["settings"] = plain["settings"]
            for name in {"edges", "class_weights"} & set(plain):
                values[name] = term_values.listed(name, plain[name])
            values["noise"] = NoiseOrigin(plain.get("noise", "secure"))
            values["missing"] = Missing(plain.get("missing", "wait"))
            values["aggregation"] = Aggregation(plain.get("aggregation", "plain"))
            agreement = cls(**values)
        except (KeyError, TypeError, ValueError) as problem:
            if isinstance(problem, InputError):
                raise
            raise InputError(printable(f"The terms cannot be used: {type(problem).__name__} {problem}.")) from problem
        return agreement


def _participants(listed: object) -> tuple[Participant, ...]:
    if not isinstance(listed, list | tuple) or not all(isinstance(each, dict) for each in listed):
        raise InputError(
            f"participants must be a list of silos, each with name, records and key; got {checks.shown(listed)}."
        )
    return tuple(Participant(**each) for each in listed)


def stored_terms(text: str) -> Agreement:
    """Return the terms of a run as a silo's state file keeps them."""
    try:
        return Agreement.from_json(text)
    except InputError as problem:
        raise ResumeError(DAMAGED) from problem


def read_federation(path: Path) -> Agreement:
    """Read a federation file (TOML): the terms as top-level names, `[settings]`, and `[[participants]]`.

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
        listed = plain.get("participants", ())
        plain["edges"] = named_edges(str(graph), len(listed) if isinstance(listed, list) else 0)
    return Agreement.from_plain(plain)


def write_federation(path: Path, agreement: Agreement) -> None:
    """Write the terms, whole or not at all, as a federation file that `read_federation` reads to the same digest."""
    plain = json.loads(agreement.as_json())
    del plain["format"]
    settings, participants = plain.pop("settings"), plain.pop("participants")
    parts = [toml(plain), "[settings]\n" + toml(dict(settings))]
    write_atomic(path, "\n".join([*parts, *(f"[[participants]]\n{toml(each)}" for each in participants)]).encode())


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
