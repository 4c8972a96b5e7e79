"""CostAgents with private costs: allocations of an amount, and quadratics; what is public of them, and how they solve.

All of them solve one problem: `x_i = argmin f_i(x) + (s_i/2) ||A_i x - y_i||^2`, to a stated tolerance. Arrays have the
agents first and replicas last.
"""

import hashlib
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dpadmm.checks import count, refuse, safe_repr
from dpadmm.costs.protection import Amount, Gap, Linear, Protect
from dpadmm.errors import InputError, SolverError
from dpadmm.privacy.ledger import SiloColumns
from dpadmm.problems.arrays import Floats
from dpadmm.problems.silos import as_numbers

_MOST_STEPS, _MOST_CUTS = 20_000, 200
_HEADROOM = 2.0**-40  # of eigenvalues and of what computes them, times d L
_ROUNDED = 2.0**-48  # of the largest number in a gradient, times d


class CostAgents(ABC):
    """N agents with a private cost each.

    n_agents: N. dimension: d, numbers in an agent's x. curvature: public (tau, L), L infinite where a set constrains
    x or nothing is known. declared: what a certificate takes as declared by the user. is_known: whether solvers reach
    their tolerance for certain, so that more than `Whole` can be protected.
    """

    n_agents: int
    dimension: int
    curvature: tuple[float, float]
    declared: tuple[str, ...] = ()
    is_known: bool = True

    @abstractmethod
    def solve(self, maps: "Floats | None", pull: Floats, target: Floats, start: Floats, tolerance: float) -> Floats:
        """Return `argmin f_i(x) + (pull_i/2)||A_i x - target_i||^2`, (N, d, R); maps: (N, p, d), None for I.

        NaN where an agent does not reach the tolerance. An answer depends on the numbers of its own agent alone, to the
        last bit: what is certified is that one agent's data move one message.
        """

    @abstractmethod
    def value(self, x: Floats) -> Floats:
        """Return f_i(x_i), (N, R)."""

    @abstractmethod
    def take(self, agents: Any) -> Self:
        """Return these agents only."""

    @abstractmethod
    def drawn(self, rng: np.random.Generator, error: float, distance: float) -> Self:
        """Return agents as they might be if these public ones are a guess.

        error: relative, for all together. distance: for each agent by itself.
        """

    @abstractmethod
    def private(self) -> dict[str, Floats]:
        """Return everything that is known to the agents alone, each with the agents first."""

    @abstractmethod
    def covers(self, protect: Protect) -> str:
        """Return why this cannot be certified for these agents; an empty text if it can."""

    def projected_distance(self, distance: float) -> float:
        """Return how far neighbours' gradients may be apart after curvatures are projected, by public facts."""
        return distance

    def stand_in(self, protect: Protect) -> "CostAgents | None":
        """Return public agents of this kind, made of what protect leaves public; None where that says too little."""
        return None

    def ledger_data(self) -> tuple[SiloColumns, ...]:
        """Return the agents as a ledger knows them, by fingerprints, one silo each."""
        digits, data = len(str(self.n_agents - 1)), self.private()
        if not data:
            raise InputError("These agents are known as code, which no ledger can recognise.")

        def mark(values: Floats) -> list[str]:
            return [hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()]

        return tuple(
            SiloColumns(f"agent {i:0{digits}}", {name: mark(values[i]) for name, values in data.items()})
            for i in range(self.n_agents)
        )


def numbers(name: str, given: ArrayLike, *shapes: tuple[int, ...]) -> Floats:
    """Return finite floats of one of these shapes, broadcast to the last of them."""
    values = as_numbers(name, given)
    if values.shape not in shapes:
        raise InputError(f"{name} must have one of the shapes {', '.join(map(str, shapes))}, got {safe_repr(values)}.")
    return np.broadcast_to(values, shapes[-1])


def limits(name: str, given: Any, size: int) -> tuple[Floats, Floats]:
    """Return a pair of lower and upper limits, numbers or one for every coordinate, in this order."""
    if not isinstance(given, tuple | list | np.ndarray) or len(given) != 2:
        refuse(name, "be a pair (lower, upper)", given)
    low, high = (numbers(name, each, (), (size,)) for each in given)
    if (low > high).any():
        raise InputError(f"The lower limits of {name} must not exceed the upper ones.")
    return low, high


@dataclass(frozen=True, eq=False, repr=False)
class Allocations(CostAgents):
    """Every agent spreads a private amount over periods: `sum_t x_t = amount`, `lower <= x <= upper`.

    The cost is `sum_t curvature_t x_t^2/2 + price_t x_t`, a sum over the periods.

    Parameters
    ----------
    amount : (N,)
        What is private. An amount that the limits do not allow is cut to the nearest one that they do.
    lower, upper : number, (T,) or (N, T)
        Limits, equal in neighbouring worlds and not protected. Those of single agents are not used for the noise.
    costs : (curvature, price)
        Each a number, (T,) or (N, T); curvature >= 0. Not protected.
    periods : int
        T, where limits and costs are plain numbers.

    >>> needs = Allocations([6.0, 3.0], lower=0.0, upper=[2.0, 4.0, 4.0], costs=(1.0, 0.0))
    >>> needs.solve(None, np.ones(2), np.zeros((2, 3, 1)), np.zeros((2, 3, 1)), 1e-9)[:, :, 0].round(6).tolist()
    [[2.0, 2.0, 2.0], [1.0, 1.0, 1.0]]
    """

    amount: Any
    lower: Any
    upper: Any
    costs: tuple[ArrayLike, ArrayLike] = (0.0, 0.0)
    periods: int | None = None
    is_common: bool = field(init=False)
    width: float = field(init=False)
    _quadratic: Floats = field(init=False)
    _linear: Floats = field(init=False)

    def __post_init__(self) -> None:
        """Check shapes and limits; cut infeasible amounts."""
        amount = as_numbers("amount", self.amount)
        if amount.ndim != 1 or len(amount) == 0:
            raise InputError(f"amount must hold one number per agent, got {safe_repr(amount)}.")
        if not isinstance(self.costs, tuple | list) or len(self.costs) != 2:
            raise InputError("costs must be a pair (curvature, price) of numbers for every period.")
        named = {"lower": self.lower, "upper": self.upper, "curvature": self.costs[0], "price": self.costs[1]}
        given = {name: as_numbers(name, each) for name, each in named.items()}
        found = {each.shape[-1] for each in given.values() if each.ndim > 0}
        t = count("periods", self.periods if self.periods is not None else found.pop() if len(found) == 1 else 1)
        n, shapes = len(amount), ((), (t,), (len(amount), t))
        if any(np.ndim(each) > 2 or (np.ndim(each) == 2 and np.shape(each) != (n, t)) for each in given.values()):
            raise InputError(
                "The costs of an allocation are sums over its periods: curvature and price are numbers, (T,) or "
                "(N, T). A matrix that ties periods together is not certified (C17): use Quadratics with Gap."
            )
        parts = {name: numbers(name, each, *shapes) for name, each in given.items()}
        lower, upper = parts["lower"], parts["upper"]
        if (lower > upper).any() or (parts["curvature"] < 0).any():
            raise InputError("lower must not exceed upper, and curvatures must be 0 or greater.")
        has_common_limits = np.ndim(self.lower) < 2 and np.ndim(self.upper) < 2
        vars(self).update(
            amount=np.clip(amount, lower.sum(axis=1), upper.sum(axis=1)),
            lower=lower,
            upper=upper,
            n_agents=n,
            dimension=t,
            is_common=has_common_limits and all(np.ndim(each) < 2 for each in self.costs),
            width=float((upper - lower).max()) if has_common_limits else math.inf,
            curvature=(float(parts["curvature"].min()) if np.ndim(self.costs[0]) < 2 else 0.0, math.inf),
            _quadratic=parts["curvature"],
            _linear=parts["price"],
        )

    def covers(self, protect: Protect) -> str:
        """Amounts, for costs that are sums over the periods."""
        return "" if isinstance(protect, Amount) else "of an allocation, Amount(d) or Whole(region) can be protected"

    def solve(self, maps: Floats | None, pull: Floats, target: Floats, start: Floats, tolerance: float) -> Floats:
        """Return `x_t = clip((s y_t - price_t - th)/(s + curvature_t))`, th set by the amount."""
        scale, seen = pull[:, None, None], target
        if maps is not None:  # `A_i = I kron a_i`: the allocation sees `a_i'y/||a_i||^2`
            size = (maps**2).sum(axis=(1, 2))[:, None, None] / self.dimension
            scale, seen = scale * size, np.einsum("npd,npr->ndr", maps, target) / size
        bend = scale + self._quadratic[:, :, None]
        pushed = scale * seen - self._linear[:, :, None]
        low, high, amount = self.lower[:, :, None], self.upper[:, :, None], self.amount[:, None, None]
        # What rounding would spoil is cut. Cut numbers keep their order and come no further apart, as C17 needs, and
        # nothing shows whether any was cut; that limits are too wide for the tolerance tells nothing of amounts.
        wide = (np.abs(low) + np.abs(high)).max(axis=1, keepdims=True)
        most = (tolerance * 2.0**48 / self.dimension - wide) * bend.min(axis=1, keepdims=True)
        pushed = np.clip(pushed, -most, np.where(most >= 0, most, np.nan))
        least = (pushed - bend * high).min(axis=1, keepdims=True)
        greatest = (pushed - bend * low).max(axis=1, keepdims=True)
        th = (least + greatest) / 2
        for _ in range(_MOST_CUTS):
            x = np.clip((pushed - th) / bend, low, high)
            excess = x.sum(axis=1, keepdims=True) - amount
            is_left = np.abs(excess) > tolerance / 4
            if not is_left.any():
                break
            least, greatest = np.where(excess > 0, th, least), np.where(excess > 0, greatest, th)
            # A Newton step on the periods that are free, where it stays inside the bracket; else half of that.
            slope = (((x > low) & (x < high)) / bend).sum(axis=1, keepdims=True)
            step = th + excess / np.maximum(slope, 1e-300)
            step = np.where((step > least) & (step < greatest), step, (least + greatest) / 2)
            th = np.where(is_left, step, th)
        return np.where(np.abs(x.sum(axis=1, keepdims=True) - amount) <= tolerance, x, np.nan)

    def value(self, x: Floats) -> Floats:
        """Return the costs of allocations."""
        return np.asarray((x * (0.5 * self._quadratic[:, :, None] * x + self._linear[:, :, None])).sum(axis=1))

    def take(self, agents: Any) -> "Allocations":
        """Return these agents only."""
        each = {name: np.asarray(getattr(self, name))[agents] for name in ("lower", "upper", "_quadratic", "_linear")}
        made = Allocations(self.amount[agents], each["lower"], each["upper"], (each["_quadratic"], each["_linear"]))
        vars(made).update(is_common=self.is_common, width=self.width, curvature=self.curvature)
        return made

    def drawn(self, rng: np.random.Generator, error: float, distance: float) -> "Allocations":
        """Return agents with other amounts."""
        own = rng.uniform(-distance, distance, self.n_agents)
        low, high = self.lower.sum(axis=1), self.upper.sum(axis=1)
        made = self.take(np.arange(self.n_agents))
        vars(made).update(amount=np.clip(self.amount * (1 + error) + own, low, high))
        return made

    def stand_in(self, protect: Protect) -> "Allocations | None":
        """Return agents whose amounts are anything from the least to the most that the limits allow.

        None where limits or costs of single agents are protected, too.
        """
        if not (isinstance(protect, Amount) or self.is_common):
            return None
        made, rng = self.take(np.arange(self.n_agents)), np.random.default_rng(0)
        low, high = self.lower.sum(axis=1), self.upper.sum(axis=1)
        vars(made).update(amount=rng.uniform(low, high))
        return made

    def private(self) -> dict[str, Floats]:
        """Return the amounts; limits and costs, too, are the agents' own."""
        return {name: np.asarray(getattr(self, name)) for name in ("amount", "lower", "upper", "_quadratic", "_linear")}


@dataclass(frozen=True, eq=False, repr=False)
class Quadratics(CostAgents):
    """Every agent has a private quadratic `x'P_i x/2 + q_i'x`, perhaps on a public box.

    Parameters
    ----------
    P : (d, d) or (N, d, d)
        Symmetric. q : (N, d).
    curvature : (tau, L)
        Public bounds on the eigenvalues of every P_i, never read off them. What lies outside is projected, and the
        gradient in the middle of the box kept (C16).
    box : (lower, upper), optional
        Public limits of x, numbers or (d,). In a box `Gap` takes more noise, for it hides P as well; `Linear` does not.

    >>> costs = Quadratics(np.eye(2), [[1.0, 0.0], [0.0, 1.0]], curvature=(1.0, 1.0))
    >>> costs.solve(None, np.ones(2), np.zeros((2, 2, 1)), np.zeros((2, 2, 1)), 1e-9)[:, :, 0].tolist()
    [[-0.5, 0.0], [0.0, -0.5]]
    """

    P: Any
    q: Any
    curvature: tuple[float, float]
    box: Any = None
    is_inside: bool = field(init=False)
    _largest: float = field(init=False)
    _rounded: Floats = field(init=False)
    _solved: dict[tuple[bytes, bytes], Floats] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Check shapes; project what lies outside the public curvature."""
        q = as_numbers("q", self.q)
        if q.ndim != 2 or 0 in q.shape:
            raise InputError(f"q must have shape (agents, d), got {safe_repr(q)}.")
        n, d = q.shape
        p = np.array(numbers("P", self.P, (d, d), (n, d, d)))
        low, high = numbers("curvature", self.curvature, (2,))
        if not 0 <= low <= high:
            raise InputError(f"curvature must be (tau, L) with 0 <= tau <= L, got ({low:g}, {high:g}).")
        box = None if self.box is None else limits("box", self.box, d)
        p = p / 2 + p.transpose(0, 2, 1) / 2
        inside, is_inside = _projected(p, low, high)
        middle = np.zeros(d) if box is None else (box[0] + box[1]) / 2
        sizes = np.abs(q) + np.abs(p) @ np.abs(middle) + np.abs(inside).sum(axis=2)
        vars(self).update(
            P=inside,
            q=q + (p - inside) @ middle,
            n_agents=n,
            dimension=d,
            curvature=(low, high if box is None else math.inf),
            box=box,
            is_inside=is_inside,
            _largest=high,
            _rounded=sizes.max(axis=1),
        )

    def covers(self, protect: Protect) -> str:
        """Linear terms where P lies in its bounds; gradients where it is projected into them."""
        if isinstance(protect, Linear) and not self.is_inside:
            low, high = self.curvature
            return f"a P lies outside its curvature [{low:g}, {high:g}]; with Linear it is public and must be inside"
        if isinstance(protect, Gap) and self.box is not None and (self.box[0] == self.box[1]).any():
            return "a box with sides of length 0 does not bound how far P may move; leave out those coordinates"
        is_possible = isinstance(protect, Linear | Gap)
        return "" if is_possible else "of a quadratic, Linear(d), Gap(d) or Whole(region) can be protected"

    def projected_distance(self, distance: float) -> float:
        """In a box of half sides h, where P is projected: `d sqrt(1 + ||h||^2/min h^2)`, and rounding (C16)."""
        if self.box is None:
            return distance  # gradients stay close everywhere only where P is the same
        half = (self.box[1] - self.box[0]) / 2
        length = float(np.linalg.norm(half))
        widened = distance if self.dimension == 1 else distance * math.hypot(1.0, length / float(half.min()))
        return widened + 4 * _HEADROOM * self.dimension * self._largest * length

    def solve(self, maps: Floats | None, pull: Floats, target: Floats, start: Floats, tolerance: float) -> Floats:
        """Solve the normal equations, or take accelerated projected steps in the box."""
        p, scale = self.P, pull[:, None, None]
        gram = np.eye(self.dimension)[None] if maps is None else np.einsum("npi,npj->nij", maps, maps)
        right = scale * (target if maps is None else np.einsum("npd,npr->ndr", maps, target))
        right = right - self.q[:, :, None]
        hessian = p + scale * gram
        if self.box is None:
            key = pull.tobytes(), b"" if maps is None else maps.tobytes()
            if key not in self._solved:
                self._solved[key] = np.linalg.pinv(hessian, hermitian=True)
            x = self._solved[key] @ right
            x = x + self._solved[key] @ (right - hessian @ x)
            left = np.linalg.norm(right - hessian @ x, axis=1, keepdims=True)
            return np.where(left <= tolerance, x, np.nan)
        top = float(self._largest + (pull[:, None] * np.linalg.eigvalsh(gram)).max())
        least = float(self.curvature[0] + (pull[:, None] * np.linalg.eigvalsh(gram)).min())
        low, high = (each[None, :, None] for each in self.box)

        def gradient(y: Floats) -> Floats:
            return np.asarray(hessian @ y - right)

        x = accelerated(gradient, lambda y: np.clip(y, low, high), start, top, least, tolerance)
        largest = self._rounded[:, None, None] + np.abs(right).max(axis=1, keepdims=True) + top * np.abs(self.box).max()
        return np.where(_ROUNDED * self.dimension * largest <= tolerance, x, np.nan)

    def value(self, x: Floats) -> Floats:
        """Return the costs."""
        return np.asarray((x * (0.5 * (self.P @ x) + self.q[:, :, None])).sum(axis=1))

    def take(self, agents: Any) -> "Quadratics":
        """Return these agents only."""
        bounds = self.curvature[0], self._largest
        return Quadratics(self.P[agents], self.q[agents], bounds, self.box)

    def drawn(self, rng: np.random.Generator, error: float, distance: float) -> "Quadratics":
        """Return agents with other linear terms."""
        own = rng.standard_normal(self.q.shape)
        own *= distance / np.linalg.norm(own, axis=1, keepdims=True)
        made = self.take(np.arange(self.n_agents))
        vars(made).update(q=self.q * (1 + error) + own)
        return made

    def private(self) -> dict[str, Floats]:
        """Return P and q."""
        return {"P": self.P, "q": self.q}


def _projected(p: Floats, low: float, high: float) -> tuple[Floats, bool]:
    """Return the nearest matrices with eigenvalues in the interval, those inside as given; and whether all were.

    No entry of a matrix inside exceeds `high`, so all are cut to that first, which bounds what rounding can do.
    """
    cut = np.clip(p, -high, high)
    values, vectors = np.linalg.eigh(cut)
    headroom = _HEADROOM * p.shape[1] * high
    is_inside = (cut == p).all(axis=(1, 2)) & (values >= low - headroom).all(axis=1)
    is_inside &= (values <= high + headroom).all(axis=1)
    near = np.einsum("nij,nj,nkj->nik", vectors, np.clip(values, low, high), vectors)
    return np.where(is_inside[:, None, None], p, near), bool(is_inside.all())


def accelerated(gradient: Any, project: Any, start: Floats, top: float, least: float, tolerance: float) -> Floats:
    """Return the minimiser of a strongly convex function on a set, to a distance of its gradient from the normal cone.

    Nesterov's steps of length 1/top; least: its strong convexity. A step from y to x leaves at most
    `2 top ||x - y||` at x. Every agent stops by itself, so that no answer tells of another one's numbers. NaN where
    it does not get there, as with too small a `top`.
    """
    root = math.sqrt(max(least, 0.0) / top)
    momentum = (1 - root) / (1 + root)
    x, y = project(start), project(start)
    is_done = np.zeros((len(start), 1, start.shape[2]), dtype=bool)
    for _ in range(_MOST_STEPS):
        new = project(y - gradient(y) / top)
        left = 2 * top * np.linalg.norm(new - y, axis=1, keepdims=True)
        y, x = np.where(is_done, y, new + momentum * (new - x)), np.where(is_done, x, new)
        is_done |= left <= tolerance
        if (is_done | ~np.isfinite(left)).all():
            break
    return np.where(is_done, x, np.nan)


def check_solved(x: Floats, tolerance: float) -> Floats:
    """Return x; refuse to go on where it is not solved to the tolerance."""
    if not np.isfinite(x).all():
        raise SolverError(
            f"A problem was not solved to {tolerance:.1e}. Check the declared curvature, choose a larger epsilon, or "
            "change the penalty. That a run stops is not covered by its certificate."
        )
    return x


def on_subset(agents: CostAgents, number: int, rng: np.random.Generator) -> CostAgents:
    """Return at most so many of the agents, for simulations."""
    if agents.n_agents <= number:
        return agents
    return agents.take(np.sort(rng.choice(agents.n_agents, number, replace=False)))
