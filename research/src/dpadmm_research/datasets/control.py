"""The control problem of the Consensus paper (Fig. 3)."""

from dataclasses import dataclass

import numpy as np

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.data.examples import random_spd
from dpadmm.data.partition import check_generator
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats
from dpadmm.problems.quadratics import QuadraticAgents


@dataclass(frozen=True)
class ControlProblem:
    """The data of (23) and its consensus form (24): minimise `sum_i f_i(u) + g(u)` over u in R^(m r).

    Parameters
    ----------
    transition A (w, w), actuation B (w, r) of full column rank, start x_0 (w,), horizon m: the public system.
    input_cost P (r, r) positive definite, input_slope b (r,): the controller's public cost.
    state_costs Q (N, w, w), state_slopes a (N, w): the agents' private costs.
    eigenvalue_bounds: public bounds (tau_hat, L_hat) on the eigenvalues of every Q_i.
    """

    transition: Floats
    actuation: Floats
    start: Floats
    horizon: int
    input_cost: Floats
    input_slope: Floats
    state_costs: Floats
    state_slopes: Floats
    eigenvalue_bounds: tuple[float, float]

    def __post_init__(self) -> None:
        """Verify what Assumption 1 rests on."""
        checks.count("horizon", self.horizon)
        low, high = self.eigenvalue_bounds
        if not 0 < checks.finite("lower bound", low) <= checks.finite("upper bound", high):
            raise InputError(
                f"eigenvalue_bounds must satisfy 0 < lower <= upper, got {safe_repr(self.eigenvalue_bounds)}."
            )
        states, inputs = self.actuation.shape
        if np.linalg.matrix_rank(self.actuation) < inputs:
            raise InputError(
                f"actuation must have full column rank: {inputs} inputs act on {states} states with rank "
                f"{np.linalg.matrix_rank(self.actuation)}, so some inputs cost nothing to the agents."
            )
        spectrum = np.linalg.eigvalsh(self.state_costs)
        slack = 1e-9 * high
        if spectrum.min() < low - slack or spectrum.max() > high + slack:
            raise InputError(
                f"Every state cost must have its eigenvalues in [{low:g}, {high:g}]; "
                f"found [{spectrum.min():g}, {spectrum.max():g}]."
            )

    @property
    def n_agents(self) -> int:
        """Number of agents N."""
        return len(self.state_slopes)

    @property
    def spectral_radius(self) -> float:
        """The largest |eigenvalue| of A: below 1 the states die out on their own."""
        return float(np.abs(np.linalg.eigvals(self.transition)).max())

    @property
    def dimension(self) -> int:
        """Number of inputs over the horizon, m r."""
        return self.horizon * int(self.actuation.shape[1])

    @property
    def state_map(self) -> Floats:
        """C (m w, m r): block (t, l) is `A^(t-l) B` for t >= l, zero above the diagonal."""
        (w, r), m = self.actuation.shape, self.horizon
        blocks = np.zeros((m, w, m, r))
        response = self.actuation
        for lag in range(m):
            for t in range(lag, m):
                blocks[t, :, t - lag] = response
            response = self.transition @ response
        return blocks.reshape(m * w, m * r)

    @property
    def free_states(self) -> Floats:
        """D x_0 (m w,): the states A^t x_0, t = 1..m, when no input is given."""
        states, state = [], self.start
        for _ in range(self.horizon):
            state = self.transition @ state
            states.append(state)
        return np.concatenate(states)

    @property
    def bounds(self) -> tuple[float, float]:
        """Assumption 1: tau = 2 tau_hat lambda_min(C'C) and L = 2 L_hat ||C||^2 for every f_i."""
        singular = np.linalg.svd(self.state_map, compute_uv=False)
        low, high = self.eigenvalue_bounds
        return float(2 * low * singular[-1] ** 2), float(2 * high * singular[0] ** 2)

    def agents(self) -> QuadraticAgents:
        """Return f_i(u) = u'(2 C'Q~_i C)u / 2 + (2 C'Q~_i D x_0 + C'(1 kron a_i))'u, constants left out."""
        (w, _), m, d = self.actuation.shape, self.horizon, self.dimension
        maps = self.state_map.reshape(m, w, d)
        free = self.free_states.reshape(m, w)
        # Both are linear in Q_i, so one small table turns all agents' costs into matrices by one product.
        squares = 2 * np.einsum("tjp,tkq->jkpq", maps, maps, optimize=True)
        crosses = 2 * np.einsum("tjp,tk->jkp", maps, free)
        costs = self.state_costs.reshape(-1, w * w)
        matrices = (costs @ squares.reshape(w * w, d * d)).reshape(-1, d, d)
        slopes = costs @ crosses.reshape(w * w, d) + self.state_slopes @ maps.sum(axis=0)
        return QuadraticAgents(matrices, slopes, self.bounds)

    def regulariser(self) -> tuple[Floats, Floats]:
        """Return (H, h) of g(u) = u'H u / 2 + h'u: H = 2 diag(P, ..., P), h = (b, ..., b)."""
        hessian = np.asarray(np.kron(np.eye(self.horizon), 2 * self.input_cost), dtype=np.float64)
        return hessian, np.tile(self.input_slope, self.horizon)

    @property
    def regulariser_smoothness(self) -> float:
        """Assumption 2: M = 2 ||P||, the exact constant (the paper prints the larger 2 sqrt(m) ||P||); G = 0."""
        return float(2 * np.linalg.norm(self.input_cost, 2))

    @property
    def least_penalty(self) -> float:
        """Assumption 3: rho must be greater than max(2 L, M / N)."""
        return max(2 * self.bounds[1], self.regulariser_smoothness / self.n_agents)

    def solution(self) -> Floats:
        """Return the optimal inputs u by one linear solve: (sum_i B_i + H) u = -(sum_i c_i + h)."""
        total_cost, total_slope = self.state_costs.sum(axis=0), self.state_slopes.sum(axis=0)
        maps, steps = self.state_map, np.eye(self.horizon)
        weighted = np.kron(steps, total_cost)
        quadratic, linear = self.regulariser()
        quadratic = quadratic + 2 * maps.T @ weighted @ maps
        linear = linear + maps.T @ (2 * weighted @ self.free_states + np.tile(total_slope, self.horizon))
        return np.linalg.solve(quadratic, -linear)


def random_control(
    n_agents: int = 10_000,
    horizon: int = 20,
    n_inputs: int = 2,
    n_states: int = 3,
    *,
    rng: np.random.Generator,
    eigenvalue_bounds: tuple[float, float] = (0.3, 1.0),
    start_norm: float = 1.0,
) -> ControlProblem:
    """Return the Consensus paper's random control problem (Fig. 3).

    Q_i and P have spectra that reach exactly over `eigenvalue_bounds`; all other entries are uniform on [-1, 1], those
    of A too: about half of its draws are unstable, and then ||C|| grows exponentially with the horizon. The paper does
    not say what x_0 is: its direction is that of such a draw, its length `start_norm`.

    >>> problem = random_control(5, 4, rng=np.random.default_rng(0))
    >>> problem.dimension, problem.agents().curvatures.shape
    (8, (5, 8, 8))
    """
    agents, states = checks.count("n_agents", n_agents), checks.count("n_states", n_states)
    inputs = checks.count("n_inputs", n_inputs)
    if inputs > states:
        raise InputError(f"n_inputs must be at most n_states ({states}) for full column rank, got {inputs}.")
    checks.non_negative("start_norm", start_norm)
    generator = check_generator(rng)
    low, high = eigenvalue_bounds
    transition = generator.uniform(-1, 1, (states, states))
    actuation = generator.uniform(-1, 1, (states, inputs))
    start = generator.uniform(-1, 1, states)
    return ControlProblem(
        transition=transition,
        actuation=actuation,
        start=start * (start_norm / np.linalg.norm(start)),
        horizon=checks.count("horizon", horizon),
        input_cost=random_spd(1, inputs, low, high, generator)[0],
        input_slope=generator.uniform(-1, 1, inputs),
        state_costs=random_spd(agents, states, low, high, generator),
        state_slopes=generator.uniform(-1, 1, (agents, states)),
        eigenvalue_bounds=(float(low), float(high)),
    )
