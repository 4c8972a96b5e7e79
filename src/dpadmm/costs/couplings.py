"""What ties agents together: a common x, a graph, a shared resource, or a linear constraint.

A coupling turns agents and what is to be protected into a method with its certificates.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpadmm.checks import refuse, safe_repr
from dpadmm.costs.agents import CostAgents, numbers
from dpadmm.errors import InputError
from dpadmm.networks.graph import Network
from dpadmm.privacy.certificates.sharing import SingularValues
from dpadmm.problems.arrays import Floats
from dpadmm.problems.regularisers import Box, ElasticNet, Quadratic, Regulariser
from dpadmm.problems.silos import as_numbers

_FREE = ElasticNet()
_SMALL = 1e-9
_EXACT = 1e-13


@dataclass(frozen=True, eq=False)
class Consensus:
    """Minimise `sum f_i(x) + g(x)`; metric: a public square W, which makes `W x_i = W z` the constraint."""

    g: Regulariser = _FREE
    metric: ArrayLike | None = None


@dataclass(frozen=True, eq=False)
class Graph:
    """Minimise `sum f_i(x)` with neighbours on a graph, each adding noise to what it sends."""

    network: Network

    def __post_init__(self) -> None:
        """Refuse what is not a network."""
        if not isinstance(self.network, Network):
            refuse("network", "be a network of dpadmm.networks, such as ring(5)", self.network)


@dataclass(frozen=True, eq=False)
class Sharing:
    """Minimise `sum f_i(x_i) + g(sum A_i x_i)`.

    Parameters
    ----------
    g : regulariser
        Of the shared total, R^p.
    maps : (p, d) or (N, p, d), optional
        Public A_i; the identity if left out.
    margin : number or (p,), optional
        Where g has hard limits: how much of them is kept free for the noise, on both sides of a `Box`; for another g,
        what is added to the total before g sees it. The sum of the x_i need not keep g's limits.
    """

    g: Regulariser
    maps: ArrayLike | None = None
    margin: float | ArrayLike | None = None

    @property
    def planned(self) -> Regulariser:
        """g as it is planned with: with its margin; refused where g has hard limits and no margin is given."""
        if self.margin is None:
            if has_walls(self.g):
                raise InputError(
                    "g has hard limits, and the total that agents end with is only near the planned one: state a "
                    "margin, for instance margin=5.0. Nothing was spent."
                )
            return self.g
        margin = as_numbers("margin", self.margin)
        if margin.size == 0:
            refuse("margin", "be a number, or one for every coordinate of the total", self.margin)
        if not isinstance(self.g, Box):
            return Rescaled(self.g, margin)
        if margin.min() < 0:
            raise InputError("The margin of a Box is 0 or greater, on both sides.")
        lower, upper = np.asarray(self.g.lower) + margin, np.asarray(self.g.upper) - margin
        if (lower > upper).any():
            raise InputError(f"The margin {safe_repr(self.margin)} leaves nothing of the limits. Choose a smaller one.")
        return Box(tuple(np.ravel(lower).tolist()), tuple(np.ravel(upper).tolist()))


@dataclass(frozen=True, eq=False)
class General:
    """Minimise `sum f_i(x_i) + g(z)` subject to `A_i x_i + B_i z = c_i`, all public; (p, d), (p, q), (p,) or for each.

    Rows that several agents share are a `Sharing` with `G(Y) = min {g(z): Y + Bz = c}`.
    """

    A: ArrayLike
    B: ArrayLike
    c: ArrayLike
    g: Regulariser = _FREE


@dataclass(frozen=True, eq=False)
class Rescaled:
    """`g(scale y + shift)/scale`: of a total to which something is added, or of a part of the agents."""

    g: Regulariser
    shift: Floats | float = 0.0
    scale: float = 1.0

    @property
    def strong_convexity(self) -> float:
        """Times the scale."""
        return self.g.strong_convexity * self.scale

    @property
    def smoothness(self) -> float:
        """Times the scale."""
        return self.g.smoothness * self.scale

    @property
    def is_smooth(self) -> bool:
        """As g."""
        return self.g.is_smooth

    def lipschitz(self, d: int) -> float:
        """That of g."""
        return self.g.lipschitz(d)

    def value(self, x: ArrayLike) -> Floats:
        """Return the value at points."""
        return np.asarray(self.g.value(self._seen(x)) / self.scale)

    def prox(self, v: ArrayLike, step: ArrayLike) -> Floats:
        """Return the prox of g there, and back."""
        found = self.g.prox(self._seen(v), np.asarray(step) * self.scale)
        return np.asarray((found - np.reshape(self.shift, (-1, 1))) / self.scale)

    def subgradient_residual(self, x: ArrayLike, g: ArrayLike) -> Floats:
        """Return that of g there."""
        return self.g.subgradient_residual(self._seen(x), g)

    def _seen(self, x: ArrayLike) -> Floats:
        return self.scale * np.asarray(x) + np.reshape(self.shift, (-1, 1))


def has_walls(g: Regulariser) -> bool:
    """Return whether g is infinite somewhere; of g that this package does not define, whether it says so.

    A g with walls has no Lipschitz constant and is not smooth.
    """
    if isinstance(g, ElasticNet | Quadratic):
        return False
    return bool(np.isinf(g.smoothness) and np.isinf(g.lipschitz(1)))


@dataclass(frozen=True, eq=False)
class Maps:
    """The public A_i of all agents: (N, p, d), None for the identity; rows: p. sizes: their singular values."""

    given: Floats | None
    rows: int
    sizes: SingularValues = field(default_factory=SingularValues)

    @classmethod
    def of(cls, agents: CostAgents, given: ArrayLike | None) -> "Maps":
        """Check shapes and ranks; a rank that rounding decides is refused, for the run and the proof must agree."""
        if given is None:
            return cls(None, agents.dimension)
        n, d, given = agents.n_agents, agents.dimension, as_numbers("maps", given)
        p = given.shape[-2] if given.ndim in (2, 3) else 0
        made = np.array(numbers("maps", given, (p, d), (n, p, d)))
        values = np.linalg.svd(made if np.ndim(given) == 3 else made[:1], compute_uv=False)
        top = float(values.max())
        if top == 0 or ((values > 0) & (values < _SMALL * top) & (values > 1e-15 * top)).any():
            raise InputError(
                "A map has a singular value that is neither 0 nor clearly above it, so its rank is decided by "
                "rounding, and no bound holds for what would be run. Drop that direction, or scale the map."
            )
        is_full = p >= d and bool((values[:, -1] > _SMALL * top).all())
        nonzero = values[values > _SMALL * top]
        return cls(made, p, SingularValues(float(values[:, -1].min()) if is_full else 0.0, float(nonzero.min()), top))

    @property
    def isometry(self) -> float | None:
        """The largest a with `A_i'A_i = a_i^2 I` for all agents, None where an A_i is no multiple of an isometry."""
        if self.given is None:
            return 1.0
        gram = np.einsum("npi,npj->nij", self.given, self.given)
        size = gram[:, :1, :1]
        off = np.abs(gram - size * np.eye(gram.shape[1]))
        return self.sizes.largest if (off <= _EXACT * size).all() and (size > 0).all() else None

    def add_up(self, x: Floats) -> Floats:
        """Return A_i x_i, (N, p, R)."""
        return x if self.given is None else self.given @ x

    def take(self, agents: Any) -> "Maps":
        """Return the maps of these agents."""
        return Maps(None if self.given is None else self.given[agents], self.rows, self.sizes)


Coupling = Consensus | Graph | Sharing | General
