"""CostAgents whose costs are code: a family of functions with private parameters, a black box, a CVXPY expression.

Of a family curvature, and how far neighbours' gradients are apart, are declared; `refute` tries to find public
parameters for which they are false. It reads no private number, and it never proves.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.costs.agents import CostAgents, accelerated, limits
from dpadmm.costs.protection import Gap, Protect, Whole
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats
from dpadmm.problems.silos import as_numbers

_EVALUATIONS = 6000
_SLACK = 1e-5  # finite differences are not exact


@dataclass(frozen=True, eq=False, repr=False)
class CostFamily(CostAgents):
    """Costs `value(x, theta_i)` with private parameters in a public domain.

    Parameters
    ----------
    value, gradient : callables of (x, theta)
        The cost of one agent, and its gradient (d,), for x (d,) and theta (m,). They must depend on nothing else.
    theta : (N, m)
        Private; cut to the domain.
    domain : (lower, upper)
        Public limits of theta, numbers or (m,).
    curvature : (tau, L)
        Declared for every theta of the domain.
    dimension : int
        d. reach : float
        How far from 0 the declared constants are tried.
    """

    value_of: Callable[[Floats, Floats], float]
    gradient_of: Callable[[Floats, Floats], Floats]
    theta: Any
    domain: Any
    curvature: tuple[float, float]
    dimension: int
    reach: float = 10.0
    n_agents: int = field(init=False)
    declared: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Check shapes; cut the parameters to their domain."""
        theta = as_numbers("theta", self.theta)
        if theta.ndim != 2 or 0 in theta.shape:
            raise InputError(f"theta must have shape (agents, m), got {safe_repr(theta)}.")
        for name in ("value_of", "gradient_of"):
            if not callable(getattr(self, name)):
                checks.refuse(name, "be a function of (x, theta)", getattr(self, name))
        low, high = limits("domain", self.domain, theta.shape[1])
        tau, top = (checks.non_negative("curvature", float(each[0])) for each in limits("curvature", self.curvature, 1))
        checks.count("dimension", self.dimension)
        checks.positive("reach", self.reach)
        vars(self).update(
            theta=np.clip(theta, low, high),
            domain=(low, high),
            curvature=(tau, top),
            n_agents=len(theta),
            declared=(f"costs {getattr(self.value_of, '__qualname__', 'of one family')}",),
        )

    def covers(self, protect: Protect) -> str:
        """Gradients, as declared; refuted constants are refused."""
        if not isinstance(protect, Gap):
            return "of a family, Gap(d) or Whole(region) can be protected"
        return refute(self, protect.distance)

    def solve(self, maps: Floats | None, pull: Floats, target: Floats, start: Floats, tolerance: float) -> Floats:
        """Take accelerated steps, agent by agent and replica by replica."""
        found = np.empty_like(start)
        for i in range(self.n_agents):
            a = np.eye(self.dimension) if maps is None else maps[i]
            gram, theta = pull[i] * a.T @ a, self.theta[i]
            values = np.linalg.eigvalsh(gram)
            for r in range(target.shape[2]):
                right = pull[i] * a.T @ target[i, :, r]

                def gradient(y: Floats, gram: Floats = gram, right: Floats = right, theta: Floats = theta) -> Floats:
                    own = answer_of(self.gradient_of, y[0, :, 0].copy(), theta.copy(), size=self.dimension)
                    return (own + gram @ y[0, :, 0] - right)[None, :, None]

                top, least = self.curvature[1] + float(values[-1]), self.curvature[0] + float(values[0])
                x = accelerated(gradient, lambda y: y, start[i : i + 1, :, r : r + 1], top, least, tolerance)
                found[i, :, r] = x[0, :, 0]
        return found

    def value(self, x: Floats) -> Floats:
        """Return the costs."""
        return np.array(
            [
                [self.value_of(x[i, :, r].copy(), self.theta[i].copy()) for r in range(x.shape[2])]
                for i in range(self.n_agents)
            ]
        )

    def take(self, agents: Any) -> "CostFamily":
        """Return these agents only."""
        return self._with(self.theta[agents])

    def drawn(self, rng: np.random.Generator, error: float, distance: float) -> "CostFamily":
        """Return agents with other parameters of the domain."""
        low, high = self.domain
        return self._with(self.theta * (1 + error) + 0.1 * (high - low) * rng.uniform(-1, 1, self.theta.shape))

    def stand_in(self, protect: Protect) -> "CostFamily":
        """Return agents with parameters from all of the domain."""
        low, high = self.domain
        return self._with(np.random.default_rng(0).uniform(low, high, self.theta.shape))

    def _with(self, theta: Floats) -> "CostFamily":
        parts = self.domain, self.curvature, self.dimension, self.reach
        return CostFamily(self.value_of, self.gradient_of, theta, *parts)

    def private(self) -> dict[str, Floats]:
        """Return the parameters."""
        return {"theta": self.theta}


def refute(family: CostFamily, distance: float, evaluations: int = _EVALUATIONS) -> str:
    """Return what of a family's declared constants is false at a public point; an empty text if nothing was found.

    Tried: purity, finite differences, chords of all lengths whose directions climb to the least and the greatest
    curvature, and pairs of parameters that climb to the greatest distance of gradients.
    """
    rng, d, (tau, top) = np.random.default_rng(20261119), family.dimension, family.curvature
    low, high = family.domain
    left = evaluations

    def gradient(x: Floats, theta: Floats) -> Floats:
        nonlocal left
        left -= 1
        given = x.copy(), theta.copy()
        found = as_numbers("gradient", family.gradient_of(*given))
        if found.shape != (d,) or not np.isfinite(found).all():
            raise InputError(f"gradient must return {d} finite numbers at every public point. Nothing was spent.")
        if not (np.array_equal(given[0], x) and np.array_equal(given[1], theta)):
            raise InputError("gradient changes the numbers that it is called with. Nothing was spent.")
        return found

    def anywhere() -> tuple[Floats, Floats]:
        return family.reach * rng.uniform(0, 1) * unit(rng, d), rng.uniform(low, high)

    def bend(x: Floats, theta: Floats, step: Floats) -> tuple[float, Floats]:
        moved = gradient(x + step, theta) - gradient(x, theta)
        return float(moved @ step / (step @ step)), moved

    x, theta = anywhere()
    if not np.array_equal(gradient(x, theta), gradient(x, theta)):
        return "gradient answers differently when called twice"
    for _ in range(5):
        x, theta = anywhere()
        step = 1e-4 * family.reach * unit(rng, d)
        ends = [as_numbers("value", family.value_of(x + move, theta)) for move in (step, -step)]
        rise = float(np.subtract(*ends).item()) if ends[0].size == ends[1].size == 1 else math.nan
        if not abs(rise - 2 * gradient(x, theta) @ step) <= 1e-3 * (abs(rise) + top * float(step @ step)) + 1e-9:
            return "gradient is not the gradient of value"
    furthest, tried = (0.0, x, theta, theta), 0
    while left > 0:
        tried += 1
        x, theta = anywhere()
        length = family.reach * 10 ** rng.uniform(-4, 0.3)
        step = length * unit(rng, d)
        for _ in range(4):  # power steps, to the greatest curvature and, shifted, to the least
            seen, moved = bend(x, theta, step)
            if seen < tau - _SLACK * max(top, 1.0) or seen > top + _SLACK * max(top, 1.0):
                return f"a chord has the curvature {seen:.6g}, outside the declared [{tau:g}, {top:g}]"
            move = moved if tried % 2 else top * step - moved
            step = length * move / max(float(np.linalg.norm(move)), 1e-300) if np.any(move) else length * unit(rng, d)
        other = rng.uniform(low, high)
        apart = float(np.linalg.norm(gradient(x, theta) - gradient(x, other)))
        if apart > furthest[0]:
            furthest = apart, x, theta, other
        trial = (
            furthest[1] + 0.1 * family.reach * unit(rng, d),
            *(np.clip(each + 0.1 * (high - low) * rng.standard_normal(len(low)), low, high) for each in furthest[2:]),
        )
        apart = float(np.linalg.norm(gradient(trial[0], trial[1]) - gradient(trial[0], trial[2])))
        if apart > furthest[0]:
            furthest = apart, *trial
        if furthest[0] > distance * (1 + _SLACK):
            return f"two parameters of the domain have gradients {furthest[0]:.6g} apart, more than the {distance:g}"
    return ""


def answer_of(function: Callable[..., ArrayLike], *given: Any, size: int) -> Floats:
    """Return what own code answers, NaN where it fails: what it raises may tell the private numbers it was given."""
    try:
        found = np.asarray(function(*given), dtype=np.float64)
    except Exception:  # noqa: BLE001 - own code may raise anything
        return np.full(size, np.nan)
    return found if found.shape == (size,) else np.full(size, np.nan)


def unit(rng: np.random.Generator, d: int) -> Floats:
    """Return a random direction."""
    x = rng.standard_normal(d)
    return np.asarray(x / np.linalg.norm(x))


@dataclass(frozen=True, eq=False, repr=False)
class Prox(CostAgents):
    """Black boxes: `solve_i(penalty, target)` returns x that roughly minimises `f_i(x) + (penalty/2)||x - target||^2`.

    functions: one callable per agent. dimension: d. value_of: costs (N callables of x), for forecasts alone. Nothing is
    known of them, so only `Whole` can be protected; the maps are the identity.
    """

    functions: tuple[Callable[[float, Floats], ArrayLike], ...]
    dimension: int
    n_agents: int = field(init=False)
    curvature: tuple[float, float] = field(init=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be called."""
        if not isinstance(self.functions, Sequence) or not all(callable(each) for each in self.functions):
            raise InputError("Prox takes one callable (penalty, target) -> x per agent.")
        checks.count("dimension", self.dimension)
        vars(self).update(functions=tuple(self.functions), n_agents=len(self.functions), curvature=(0.0, np.inf))

    def covers(self, protect: Protect) -> str:
        """Nothing is known."""
        return "" if isinstance(protect, Whole) else "of a black box only Whole(region) can be protected"

    def solve(self, maps: Floats | None, pull: Floats, target: Floats, start: Floats, tolerance: float) -> Floats:
        """Ask every agent; whatever its function raises counts as a failed solve."""
        if maps is not None:
            raise InputError("Black boxes take no maps: let the function include its own. Nothing was spent.")
        found = np.empty_like(target)
        for i, function in enumerate(self.functions):
            for r in range(target.shape[2]):
                found[i, :, r] = answer_of(function, float(pull[i]), target[i, :, r].copy(), size=self.dimension)
        return found

    def value(self, x: Floats) -> Floats:
        """Refuse: only the minimisers are known."""
        raise InputError("The costs of a black box are not known, so its runs cannot be forecast.")

    def take(self, agents: Any) -> "Prox":
        """Return these agents only."""
        return Prox(tuple(self.functions[i] for i in np.atleast_1d(np.arange(self.n_agents)[agents])), self.dimension)

    def drawn(self, rng: np.random.Generator, error: float, distance: float) -> "Prox":
        """Return the same."""
        return self

    def private(self) -> dict[str, Floats]:
        """Nothing that a ledger could recognise."""
        return {}


def from_cvxpy(build: Callable[..., Any], parameters: Mapping[str, ArrayLike], dimension: int) -> Prox:
    """Return agents whose costs are CVXPY expressions (extra `cvxpy`); only `Whole` can be protected.

    Parameters
    ----------
    build : callable
        `build(x, **parameters)` returns a convex expression, or a pair of it and a list of constraints, of a
        `cvxpy.Variable` x and `cvxpy.Parameter`s of the given names. It is called once.
    parameters : {name: (N, ...)}
        The agents' private numbers.
    dimension : int
        d.
    """
    try:
        import cvxpy
    except ImportError:
        raise InputError("from_cvxpy needs the extra cvxpy: pip install 'dpadmm[cvxpy]'.") from None

    values = {name: as_numbers(name, each) for name, each in parameters.items()}
    sizes = {len(each) for each in values.values()}
    if len(sizes) != 1:
        raise InputError("parameters must have one entry per agent each, the same number of all.")
    x, target = cvxpy.Variable(dimension), cvxpy.Parameter(dimension)
    root = cvxpy.Parameter(nonneg=True)  # the target comes multiplied by it, so that the problem is compiled once
    own = {name: cvxpy.Parameter(each.shape[1:]) for name, each in values.items()}
    built = build(x, **own)
    cost, limits = built if isinstance(built, tuple) else (built, [])
    problem = cvxpy.Problem(cvxpy.Minimize(cost + 0.5 * cvxpy.sum_squares(root * x - target)), list(limits))
    if not problem.is_dcp(dpp=True):
        raise InputError("The expression is not convex by CVXPY's rules (DCP, with parameters DPP). Nothing was spent.")

    def agent(i: int) -> Callable[[float, Floats], ArrayLike]:
        def solve(penalty: float, wanted: Floats) -> ArrayLike:
            for name, parameter in own.items():
                parameter.value = values[name][i]
            root.value, target.value = np.sqrt(penalty), np.sqrt(penalty) * wanted
            problem.solve(warm_start=False)  # else it would start from what another agent's numbers left
            found: ArrayLike = x.value
            return found

        return solve

    return Prox(tuple(agent(i) for i in range(sizes.pop())), dimension)
