"""Baselines without a paper's claim here: noisy full gradients and output perturbation (C9)."""

from dataclasses import dataclass
from typing import ClassVar

from dpadmm import checks
from dpadmm.privacy import certificates
from dpadmm.privacy.methods.method import Family, RecordMethod, setting
from dpadmm.privacy.protection import Certificate, with_spherical_noise


@dataclass(frozen=True, kw_only=True)
class DpGd(RecordMethod):
    """Full-gradient descent, every silo noising its gradient; noise is the std on it in each round.

    >>> DpGd(records=100, rounds=10).certificates()[0].bound
    0.02
    """

    name: ClassVar[str] = "dp-gd"
    title: ClassVar[str] = "DP full-gradient descent"
    noised: ClassVar[str] = "a silo's gradient"

    records: int = setting("n_i, records of the agent", checks.count)
    rounds: int = setting("gradient steps", checks.count)
    gradient_bound: float = setting("G, bound of a record's loss gradient", checks.positive, 1.0)
    weight: float = setting("factor in front of f_i", checks.positive, 1.0)

    def private_rounds(self) -> tuple[int, ...]:
        """Every round."""
        return tuple(range(1, self.rounds + 1))

    def certificates(self) -> tuple[Certificate, ...]:
        """C9 of the full gradient, the same in every round."""
        certificate = certificates.full_gradient(
            certificates.LocalFunction(
                gradient_bound=self.gradient_bound,
                n_records=self.records,
                weight=self.weight,
                strong_convexity=0.0,
                solver_tolerance=self.tolerance or 0.0,
                records_per_person=self.records_per_person,
                silos_per_person=self.silos_per_person,
            )
        )
        return (certificate,) * self.rounds


@dataclass(frozen=True, kw_only=True)
class OutputPerturbation(RecordMethod):
    """Every silo solves its own problem and releases the noisy solution, once.

    >>> OutputPerturbation(records=100, mu=0.5).certificates()[0].bound
    0.04
    """

    name: ClassVar[str] = "output-perturbation"
    title: ClassVar[str] = "Output perturbation"
    noised: ClassVar[str] = "a silo's own solution"
    families: ClassVar[tuple[Family, ...]] = (Family.GAUSSIAN, Family.LAPLACE)

    records: int = setting("n_i, records of the agent", checks.count)
    mu: float = setting("strong convexity of f_i, > 0", checks.positive)
    gradient_bound: float = setting("G, bound of a record's loss gradient", checks.positive, 1.0)
    noise: Family = setting(  # noqa: RUF009 (a field)
        "gaussian: noise by its std; laplace: pure epsilon, noise by its rate", None, Family.GAUSSIAN
    )
    weight: float = setting("factor in front of f_i", checks.positive, 1.0)

    @property
    def family(self) -> Family:
        """As chosen."""
        return self.noise

    def private_rounds(self) -> tuple[int, ...]:
        """One release."""
        return (1,)

    def certificates(self) -> tuple[Certificate, ...]:
        """C9 of the silo's own optimum."""
        certificate = certificates.output_perturbation(
            certificates.LocalFunction(
                gradient_bound=self.gradient_bound,
                n_records=self.records,
                weight=self.weight,
                strong_convexity=self.mu,
                solver_tolerance=self.tolerance,
                records_per_person=self.records_per_person,
                silos_per_person=self.silos_per_person,
            )
        )
        if self.family is Family.LAPLACE:
            certificate = with_spherical_noise(certificate)
        return (certificate,)
