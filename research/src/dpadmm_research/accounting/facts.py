"""The public facts that describe one agent of a run beside its method's own numbers; each with its words and check."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.noise.mechanisms import Family
from dpadmm.privacy.protection import Protection

_PROTECTS = "give gradient_distance to protect an agent's function, or records and gradient_bound to protect a record"


class NoiseName(Enum):
    """The noise of methods that leave the choice, by its word on the command line."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"
    COORDINATE = "coordinate"

    @property
    def family(self) -> Family:
        """As the library knows it."""
        return Family.SPHERICAL if self is NoiseName.LAPLACE else Family[self.name]


class Sampling(Enum):
    """How a batch is drawn: every record by its own coin, or so many without replacement."""

    POISSON = "poisson"
    FIXED = "fixed"


def _fact(texts: str, check: Callable[[str, Any], object] | None = None, default: Any = None) -> Any:
    return field(default=default, metadata={"help": texts, "check": check})


@dataclass(frozen=True, kw_only=True)
class AgentFacts:
    """All that may be told beside a method's own numbers; a method asks for a part of it."""

    records: int | None = _fact("n_i, records of the agent", checks.count)
    rounds: int = _fact("rounds of the run", checks.count, 1)
    number: int = _fact("N, number of agents or users", checks.count, 1)
    degree: int = _fact("neighbours of the agent", checks.count, 1)
    gradient_bound: float | None = _fact("G, bound on the gradient of a record's loss", checks.positive)
    curvature_bound: float = _fact("c1, bound on the second derivative of a record's loss", checks.non_negative, 0.25)
    smoothness: float | None = _fact("L, smoothness of every f_i, including its ridge", checks.positive)
    mu: float = _fact("strong convexity of f_i from a ridge, 2 Lambda for Lambda ||w||^2", checks.non_negative, 0.0)
    weight: float = _fact("factor in front of f_i", checks.positive, 1.0)
    logistic: bool = _fact("the loss is binary logistic: large rates need not pay for the Jacobian", None, False)
    dimension: int | None = _fact("d, number of coefficients", checks.count)
    clip: float | None = _fact("norm to which the contribution of a record or a user is clipped", checks.positive)
    batch: int = _fact("l, expected batch size and divisor", checks.count, 1)
    sampling: Sampling = _fact("how a batch is drawn", None, Sampling.POISSON)  # noqa: RUF009 (a field)
    split: float | None = _fact("share of the noise variance for the full gradient, in (0, 1)", checks.open_unit)
    sampled: int = _fact("m, users who take part in a round", checks.count, 1)
    participations: int | None = _fact(
        "most rounds in which one user takes part, from the schedule drawn beforehand; default: all", checks.count
    )
    noise: NoiseName = _fact(  # noqa: RUF009 (a field)
        "kind of noise: gaussian is set by its std, the others by their rate", None, NoiseName.GAUSSIAN
    )
    gradient_distance: float | None = _fact(
        "largest difference between the gradients of neighbouring f_i", checks.positive
    )
    quadratic: bool = _fact("every f_i is quadratic and only its linear term is private", None, False)
    smoothing_rate: float | None = _fact(
        "rate of extra noise on the output that covers a solver residual up to the tolerance (C7)", checks.positive
    )
    whole_gradient_bound: float | None = _fact("V of the paper's claim; default: weight x G", checks.positive)
    l1_weight: float = _fact("weight of ||x||_1 in g; only the paper's claim uses it", checks.non_negative, 0.0)
    recycled: bool = _fact("only odd rounds touch the data (the recycled form)", None, False)
    tolerance: float | None = _fact(
        "gradient norm to which local problems are solved (C7); without it, solver error is not counted",
        checks.positive,
    )
    records_per_person: int = _fact("most records one person has in a silo", checks.count, 1)
    silos_per_person: int = _fact("most silos in which one person has records", checks.count, 1)

    def __post_init__(self) -> None:
        """Check every fact by itself."""
        for each in fields(self):
            check, value = each.metadata["check"], getattr(self, each.name)
            if check is not None and value is not None:
                check(each.name, value)

    @property
    def protection(self) -> Protection:
        """How many records a person may have, in how many silos."""
        return Protection(records_per_person=self.records_per_person, silos_per_person=self.silos_per_person)

    @property
    def is_about_records(self) -> bool:
        """Whether records are protected, where an agent's function may be; refuse what says neither or both."""
        reported = (self.records is not None, self.gradient_bound is not None)
        if all(reported) == (self.gradient_distance is not None) or any(reported) != all(reported):
            raise InputError(f"It is not clear what is protected: {_PROTECTS}.")
        if all(reported) and self.quadratic:
            raise InputError(
                "quadratic bounds are about an agent's function: give gradient_distance instead of records."
            )
        return all(reported)
