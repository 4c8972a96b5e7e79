"""The public side of the silos' functions: what a certificate may rest on, and nothing that could be evaluated."""

from dataclasses import dataclass

from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.functions import Constants
from dpadmm.problems.losses import Loss


@dataclass(frozen=True, eq=False)
class PublicFunctions:
    """Sizes, dimension and constants of `f_i = mean loss + (mu/2)||w||^2`; the records behind them are not here.

    Noise is planned on these, so that a plan cannot depend on data even by mistake.
    """

    sizes: Ints
    dimension: int
    loss: Loss
    row_norm: float
    mu: float = 0.0

    @property
    def linear_loss(self) -> Loss:
        """The loss of a linear predictor, as in `EmpiricalRisk`."""
        return self.loss

    @property
    def n_agents(self) -> int:
        """Number of silos N."""
        return len(self.sizes)

    @property
    def constants(self) -> Constants:
        """The constants of `EmpiricalRisk` with the same loss, row norm and mu."""
        curvature = self.loss.curvature_bound * self.row_norm**2
        return Constants(
            record_gradient=self.loss.slope_bound * self.row_norm,
            record_curvature=curvature,
            smoothness=curvature + self.mu,
            strong_convexity=self.mu,
            assumption=f"every record's features have Euclidean norm at most {self.row_norm:g}; "
            f"{self.loss.target.value}",
        )

    def value(self, w: Floats) -> Floats:
        """Refuse: there are no data."""
        raise InputError("A plan has no data to evaluate; carry it out on silos.")

    def gradient(self, w: Floats) -> Floats:
        """Refuse: there are no data."""
        raise InputError("A plan has no data to evaluate; carry it out on silos.")

    def take(self, agents: Ints) -> "PublicFunctions":
        """Return the public side of these silos only."""
        return PublicFunctions(self.sizes[agents], self.dimension, self.loss, self.row_norm, self.mu)
