"""Who is protected from whom, and the certificates that prove it.

A *certificate* is a proved statement about one value before noise: how far it can move between neighbouring data sets,
in which norm, for whom and against whom. `secure_grid`, `in_l1_norm` and `with_spherical_noise` say how it changes with
the form of the release (C8, `docs/proofs/c8.md`).
"""

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from dpadmm import checks
from dpadmm.checks import option_name, plural, safe_repr
from dpadmm.errors import InputError


class Unit(Enum):
    """Whose change the guarantee hides: one row, a person with all their rows, a whole silo, or an agent's function."""

    RECORD = "record"
    PERSON = "person"
    USER = "user"
    FUNCTION = "function"


class NeighbouringRelation(Enum):
    """What makes two data sets neighbours."""

    REPLACE_ONE = "replace-one"
    ADD_OR_REMOVE = "add-or-remove"

    @property
    def has_public_sizes(self) -> bool:
        """Whether neighbours have the same number of records, so that this number may be disclosed."""
        return self is NeighbouringRelation.REPLACE_ONE

    @property
    def changing(self) -> str:
        """What is done to a record, before its name: 'replacing' or 'adding or removing'."""
        return "replacing" if self is NeighbouringRelation.REPLACE_ONE else "adding or removing"


_NEIGHBOURS = {"replace-one": NeighbouringRelation.REPLACE_ONE, "add-remove": NeighbouringRelation.ADD_OR_REMOVE}


def relation_of(neighbours: Any) -> NeighbouringRelation:
    """Return the relation that a word names."""
    if not isinstance(neighbours, str) or neighbours not in _NEIGHBOURS:
        raise InputError(
            f"{option_name('neighbours')} must be 'replace-one' or 'add-remove', got {safe_repr(neighbours)}."
            f"{checks.nearest(neighbours, _NEIGHBOURS)}"
        )
    return _NEIGHBOURS[neighbours]


class View(Enum):
    """Who is looking."""

    EAVESDROPPER = "eavesdropper"
    COORDINATOR = "coordinator"
    PEER = "peer"
    PUBLIC = "public"
    AGGREGATE = "aggregate"


# Which observers a guarantee against the first also holds against: the eavesdropper sees every message, what is public
# is computed from what the coordinator saw, and of masked messages nobody sees more than their sum.
COVERED = {
    View.EAVESDROPPER: frozenset(View),
    View.AGGREGATE: frozenset({View.AGGREGATE, View.COORDINATOR, View.PUBLIC}),
    View.COORDINATOR: frozenset({View.COORDINATOR, View.PUBLIC}),
    View.PEER: frozenset({View.PEER}),
    View.PUBLIC: frozenset({View.PUBLIC}),
}

NOTCOVERED = "not earlier steps fitted on these rows, scores computed on them, or choices made by looking at them"


def covers(subject: str) -> str:
    """Say what a figure covers, and what it cannot know about.

    >>> covers("the model")[:56]
    'the model, starting from the rows as provided; not earli'
    """
    return f"{subject}, starting from the rows as provided; {NOTCOVERED}"


@dataclass(frozen=True, kw_only=True)
class Protection:
    """Who is protected from whom: what a guarantee or a budget is about, all of it public.

    `records_per_person` and `silos_per_person` are the most records that a person may have in a silo, and the most
    silos that may hold records of the same person; what the silos release about such a person is added up.
    `colluders` is t, how many silos may look together with the coordinator, for the view AGGREGATE alone: its default
    there is 1, since a silo that looks at the sum knows its own part of it.

    >>> str(Protection())
    'one record (replace-one)'
    >>> str(Protection(records_per_person=40, silos_per_person=2))
    "every person's up to 40 records in each of up to 2 silos (replace-one)"
    >>> str(Protection(unit=Unit.PERSON))
    'every person with all their rows (replace-one)'
    """

    unit: Unit = Unit.RECORD
    relation: NeighbouringRelation = NeighbouringRelation.REPLACE_ONE
    view: View = View.EAVESDROPPER
    records_per_person: int = 1
    silos_per_person: int = 1
    colluders: int | None = None

    def __post_init__(self) -> None:
        """Refuse people without records, and text instead of enum members."""
        if not isinstance(self.view, View) or not isinstance(self.unit, Unit):
            raise InputError(
                f"unit and view must be a Unit and a View, got {safe_repr(self.unit)} and {safe_repr(self.view)}."
            )
        if not isinstance(self.relation, NeighbouringRelation):
            raise InputError(f"relation must be a NeighbouringRelation, got {safe_repr(self.relation)}.")
        checks.count("records_per_person", self.records_per_person)
        checks.count("silos_per_person", self.silos_per_person)
        if self.unit is Unit.PERSON and self.records_per_person != 1:
            raise InputError(
                f"A person is protected with all their rows, however many there are; got {self.records_per_person} "
                f"records per person as well. Leave out {option_name('records_per_person')}."
            )
        if self.colluders is None:
            object.__setattr__(self, "colluders", 1 if self.view is View.AGGREGATE else 0)
        elif checks.count("colluders", self.colluders, least=0) and self.view is not View.AGGREGATE:
            raise InputError(
                f"colluders apply only to the view {View.AGGREGATE.value!r}, in which silos see nothing but sums; got "
                f"{self.colluders} for the view {self.view.value!r}."
            )

    @property
    def n_colluders(self) -> int:
        """How many silos may collude with the coordinator; 0 where none is counted."""
        return self.colluders or 0

    @property
    def covered(self) -> frozenset[View]:
        """Against whom a guarantee of this kind holds: where t silos may collude, one silo may look."""
        return COVERED[self.view] | ({View.PEER} if self.n_colluders else frozenset())

    def check_silos(self, n_silos: int) -> None:
        """Refuse people in more silos than there are, and sums that leave no two honest silos."""
        if self.silos_per_person > n_silos:
            raise InputError(
                f"silos_per_person must be at most the number of silos, {n_silos}, got {self.silos_per_person}."
            )
        if self.view is View.AGGREGATE and n_silos - self.n_colluders < 2:
            hint = f" Name the silo of every record with {option_name('groups')}." if n_silos == 1 else ""
            raise InputError(
                f"With {plural(self.n_colluders, 'colluding silo')} the view {self.view.value!r} needs at least "
                f"{self.n_colluders + 2} silos, got {n_silos}: a sum hides a silo only among at least two honest ones. "
                f"Use more silos, fewer colluders, or another view.{hint}"
            )

    def is_covered_by(self, other: "Protection") -> bool:
        """Return whether what holds for another protection holds for this one.

        A user-level certificate covers one record of the user, one against a stronger view covers a weaker one, and
        one for more records or silos of a person covers fewer.
        """
        units = {other.unit} | ({Unit.RECORD} if other.unit is Unit.USER else set())
        return (
            self.unit in units
            and self.relation is other.relation
            and self.view in other.covered
            and (other.view is not View.AGGREGATE or self.n_colluders <= other.n_colluders)
            and self.records_per_person <= other.records_per_person
            and self.silos_per_person <= other.silos_per_person
        )

    def describe(self) -> str:
        """Describe all of it."""
        records = "all rows" if self.unit is Unit.PERSON else f"at most {plural(self.records_per_person, 'record')}"
        return (
            f"per {self.unit.value}, {self.relation.value}, against {self.observer}, for {records} of a person in each "
            f"of at most {plural(self.silos_per_person, 'silo')}"
        )

    @property
    def observer(self) -> str:
        """Who is looking, in short.

        >>> Protection(view=View.AGGREGATE, colluders=2).observer
        'the coordinator with up to 2 silos, who see sums'
        """
        if self.view is not View.AGGREGATE:
            return f"the {self.view.value}"
        silos = "" if self.n_colluders == 0 else f" with up to {self.n_colluders} silo{'s' * (self.n_colluders > 1)}"
        return f"the coordinator{silos}, who see{'s' * (self.n_colluders == 0)} sums"

    @property
    def is_single(self) -> bool:
        """Whether one thing changes at a time, not several records together."""
        return self.unit in (Unit.FUNCTION, Unit.PERSON) or (
            self.unit is Unit.RECORD and self.records_per_person == self.silos_per_person == 1
        )

    @property
    def change(self) -> str:
        """What differs between neighbouring data sets."""
        is_spread = self.silos_per_person > 1
        if self.unit is Unit.FUNCTION:
            return "one function"
        if self.unit in (Unit.USER, Unit.PERSON):
            whole = "all records of one user" if self.unit is Unit.USER else "one person with all their rows"
            return whole + (f" in up to {self.silos_per_person} silos" if is_spread else "")
        if self.is_single:
            return "one record"
        records = "one record" if self.records_per_person == 1 else f"up to {self.records_per_person} records"
        return f"one person's {records}" + (f" in each of up to {self.silos_per_person} silos" if is_spread else "")

    @property
    def change_in_one_silo(self) -> str:
        """What differs in the one silo that a message comes from."""
        return replace(self, silos_per_person=1).change

    @property
    def counted(self) -> str:
        """What the sizes of silos count."""
        return "persons" if self.unit is Unit.PERSON else "records"

    @property
    def counting_note(self) -> str:
        """What to know about the sizes of all silos together; how many different persons there are is not released.

        >>> f"2415 persons{Protection(unit=Unit.PERSON, silos_per_person=2).counting_note}"
        '2415 persons (counted once per silo)'
        """
        is_repeated = self.unit is Unit.PERSON and self.silos_per_person > 1
        return " (counted once per silo)" if is_repeated else ""

    @property
    def people(self) -> str:
        """What is assumed about persons; whoever has more is protected less."""
        silos = "one silo" if self.silos_per_person == 1 else f"each of at most {self.silos_per_person} silos"
        if self.unit is not Unit.RECORD:
            rows = "rows" if self.unit is Unit.PERSON else "records"
            return f"any number of {rows}, in {silos.removeprefix('each of ')}"
        return f"at most {self.records_per_person} record{'s' if self.records_per_person > 1 else ''} in {silos}"

    def __str__(self) -> str:
        """Say what is hidden, and what neighbours are."""
        change = self.change.replace("one person", "every person")
        return f"{change} ({self.relation.value})"


ONE_RECORD = Protection()
"""The usual protection: one record of a person, in one silo, replaced, from the eavesdropper."""


class Norm(Enum):
    """The norm in which a certificate bounds the change."""

    L2 = "l2"
    L1 = "l1"


class Strength(Enum):
    """How far the proof reaches: to the bits that leave the machine, or up to a named idealisation."""

    FULL = "certified"
    UP_TO_SOLVER_ERROR = "certified up to solver error"
    UP_TO_FLOATING_POINT = "certified up to floating point"


FROM_STRONG_TO_WEAK = (Strength.FULL, Strength.UP_TO_FLOATING_POINT, Strength.UP_TO_SOLVER_ERROR)
"""A proof about an idealised solver says less than one about an idealised number format."""


def standing(strength: Strength, declared: tuple[str, ...]) -> str:
    """Say how far a figure reaches, and on whose declared constants it rests, if on anybody's.

    >>> standing(Strength.FULL, ())
    'certified'
    >>> standing(Strength.UP_TO_SOLVER_ERROR, ("loss Mine",))
    'certified up to solver error, if your declared constants hold (loss Mine)'
    """
    if not declared:
        return strength.value
    pause = "" if strength is Strength.FULL else ","
    return f"{strength.value}{pause} if your declared constants hold ({', '.join(declared)})"


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """A proved bound on the change of one value, before noise, between neighbouring data sets.

    `bound` is in the norm `norm` and already counts the records of a person. `log_jacobian` is zero for additive
    noise; for objective perturbation (C2) it is the bound on the log ratio of the Jacobians that adds to epsilon
    unless the noise rate is at least `jacobian_free_rate`, from which on it is already paid for. A value that is
    rounded to multiples of `grid` before the noise has the rounding of `grid_dimension` coordinates in its bound.
    `declared`: the user's own parts whose constants the bound takes as declared, which nothing proves; none if all
    parts are built in.
    """

    bound: float
    protection: Protection
    theorem: str
    assumptions: tuple[str, ...]
    norm: Norm = Norm.L2
    strength: Strength = Strength.FULL
    log_jacobian: float = 0.0
    jacobian_free_rate: float | None = None
    grid: float | None = None
    grid_dimension: int = 0
    declared: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse bounds that are no bounds."""
        checks.non_negative("bound", self.bound)
        checks.non_negative("log_jacobian", self.log_jacobian)
        if not self.assumptions:
            raise InputError("A certificate must state its assumptions; got none.")

    def weaken(self, strength: Strength) -> "Certificate":
        """Return the same certificate with a more modest strength."""
        return replace(self, strength=strength)


def power_of_two(grid: float) -> float:
    """Return a grid; refuse one to which values could not be rounded exactly in binary."""
    if math.frexp(checks.positive("grid", grid))[0] != 0.5:
        raise InputError(f"grid must be a power of two, got {safe_repr(grid)}. Use 2.0**k, for instance {2.0**-30!r}.")
    return grid


def secure_grid(certificate: Certificate, *, grid: float, dimension: int) -> Certificate:
    """Return the certificate of the value rounded to the nearest multiple of `grid` in each coordinate.

    Rounding moves each of the two neighbouring values by at most `grid/2` per coordinate, so the bound grows by
    `grid sqrt(d)` in the L2 norm and by `grid d` in the L1 norm; of a sum every message is rounded, and as many of them
    move as a person may be in silos. `grid` must be a power of two (rounding is then
    exact in binary). Objective perturbation is refused: its noise is not added to the value.

    >>> from dpadmm.privacy.certificates.local import LocalFunction
    >>> from dpadmm.privacy.certificates.gradients import full_gradient
    >>> secure_grid(full_gradient(LocalFunction(gradient_bound=1, n_records=8)), grid=0.0625, dimension=4).bound
    0.375
    """
    d, width = checks.count("dimension", dimension), power_of_two(grid)
    _refuse_objective(certificate)
    if certificate.grid is not None:
        raise InputError(f"The certificate already includes the rounding to {certificate.grid!r}. Use it as it is.")
    spread = {Norm.L2: math.sqrt(d), Norm.L1: float(d)}[certificate.norm]
    rounding = (
        f"the value is rounded to the nearest multiple of {width!r} in each of {d} coordinates before the noise (C8)"
    )
    return replace(
        certificate,
        bound=certificate.bound + certificate.protection.silos_per_person * width * spread,
        theorem=f"{certificate.theorem} + C8",
        assumptions=(*certificate.assumptions, rounding),
        grid=width,
        grid_dimension=d,
    )


def in_l1_norm(certificate: Certificate, *, dimension: int) -> Certificate:
    """Return an L2 certificate as an L1 one, for independent noise on coordinates: `||v||_1 <= sqrt(d) ||v||_2`.

    >>> from dpadmm.privacy.certificates.local import LocalFunction
    >>> from dpadmm.privacy.certificates.gradients import full_gradient
    >>> in_l1_norm(full_gradient(LocalFunction(gradient_bound=1, n_records=8)), dimension=4).bound
    0.5
    """
    _refuse_objective(certificate)
    if certificate.norm is Norm.L1 or certificate.grid is not None:
        raise InputError(
            "The certificate is already in the L1 norm or on a grid. Change the norm first, then the grid."
        )
    bound = certificate.bound * math.sqrt(checks.count("dimension", dimension))
    return replace(certificate, bound=bound, norm=Norm.L1)


def with_spherical_noise(certificate: Certificate) -> Certificate:
    """Return the certificate as it stands behind spherical Laplace noise: at best up to floating point.

    There is no exact sampler for density `exp(-rate ||v||)`; a certificate that is only proved up to solver error
    keeps that weaker label.

    >>> from dpadmm.privacy.certificates.local import LocalFunction
    >>> from dpadmm.privacy.certificates.gradients import full_gradient
    >>> with_spherical_noise(full_gradient(LocalFunction(gradient_bound=1, n_records=8))).strength.value
    'certified up to floating point'
    """
    if certificate.strength is Strength.UP_TO_SOLVER_ERROR:
        return certificate
    return certificate.weaken(Strength.UP_TO_FLOATING_POINT)


def _refuse_objective(certificate: Certificate) -> None:
    if certificate.log_jacobian > 0 or certificate.jacobian_free_rate is not None:
        raise InputError(
            "Objective perturbation (C2) has no additive form: its noise is inside the objective. Use Gaussian P-ADMM "
            "for such a release."
        )
