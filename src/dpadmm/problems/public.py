"""The public side of the silos' functions: what a certificate may rest on, and nothing that could be evaluated."""

from dataclasses import dataclass, replace

from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.functions import Constants
from dpadmm.problems.losses import Loss


@dataclass(frozen=True, eq=False)
class PublicFunctions:
    """Sizes, dimension and constants of the silos' functions `f_i`; the records behind them are not here.

    Noise is planned on these, so that a plan cannot depend on data even by mistake.

    linear_loss: the loss of a linear predictor, as in `EmpiricalRisk`; None if only the constants are known of it.
    """

    sizes: Ints
    dimension: int
    constants: Constants
    linear_loss: Loss | None = None

    @classmethod
    def of_loss(cls, sizes: Ints, dimension: int, loss: Loss, row_norm: float, mu: float = 0.0) -> "PublicFunctions":
        """Return those of `f_i = mean loss + (mu/2)||w||^2` on rows of at most this norm."""
        return cls(sizes, dimension, linear_constants(loss, row_norm, mu), loss)

    @property
    def n_agents(self) -> int:
        """Number of silos N."""
        return len(self.sizes)

    def value(self, w: Floats) -> Floats:
        """Refuse: there are no data."""
        raise InputError("A plan has no data to evaluate; carry it out on silos.")

    def gradient(self, w: Floats) -> Floats:
        """Refuse: there are no data."""
        raise InputError("A plan has no data to evaluate; carry it out on silos.")

    def take(self, agents: Ints) -> "PublicFunctions":
        """Return the public side of these silos only."""
        return replace(self, sizes=self.sizes[agents])


def linear_constants(loss: Loss, row_norm: float, mu: float) -> Constants:
    """Return the constants of `mean loss(row' w) + (mu/2)||w||^2` for all rows of at most this norm."""
    curvature = loss.curvature_bound * row_norm**2
    return Constants(
        record_gradient=loss.slope_bound * row_norm,
        record_curvature=curvature,
        gradient_range=loss.form.width * row_norm,
        smoothness=curvature + mu,
        strong_convexity=mu,
        assumption=f"every record's features have Euclidean norm at most {row_norm:g}; {loss.target.value}",
    )
