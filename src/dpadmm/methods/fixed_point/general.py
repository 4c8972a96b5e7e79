"""Private ADMM for a general linear constraint (Algorithm 5, Theorem 7): one private f, any A, B, c.

minimise w f(x) + g(z)  subject to  Ax + Bz = c

z = argmin g(z) + ||Bz + u||^2/(2 gamma)                                   (22)
x = argmin w f(x) + ||Ax + 2Bz + u - c||^2/(2 gamma)                       (23)
u <- u + 2 lam ( Ax + Bz - c + N(0, sigma^2 I)/2 )                         (24)

Only z is released (and `x~ = A^+ (c - Bz)`, made of it); u is made of noisy values.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, Self

import numpy as np

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.methods.base import MESSAGE, ROWS, About, Agents, Method, NoiseHook, Residuals, Setting, Topology
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import Family, MechanismSpec
from dpadmm.privacy.certificates.gradients import general_constraint
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem
from dpadmm.problems.silos import as_numbers
from dpadmm.solvers.composite import minimise_composite

# z is made of public values; it is solved as far as double precision goes.
_Z_TOLERANCE = 1e-13


@dataclass(frozen=True, eq=False, repr=False)
class Constraint:
    """`Ax + Bz = c`: A (p, d) and B (p, q) with full column rank, c (p,), all public.

    >>> Constraint(np.eye(2), -np.eye(2), np.zeros(2))
    Constraint(2 rows, x in R^2, z in R^2, ...)
    """

    a: Floats
    b: Floats
    c: Floats

    def __post_init__(self) -> None:
        """Check shapes and ranks."""
        a, b, c = (as_numbers(name, getattr(self, name)) for name in "abc")
        if a.ndim != 2 or b.ndim != 2 or c.ndim != 1 or not len(a) == len(b) == len(c) or 0 in (*a.shape, *b.shape):
            raise InputError(f"A, B, c must be (p, d), (p, q), (p,); got {a.shape}, {b.shape}, {c.shape}.")
        for name, matrix in (("A", a), ("B", b)):
            if np.linalg.matrix_rank(matrix) < matrix.shape[1]:
                raise InputError(f"{name} must have full column rank: its subproblem has no unique solution otherwise.")
        for name, array in zip("abc", (a, b, c), strict=True):
            object.__setattr__(self, name, array)

    @cached_property
    def singular_values(self) -> Floats:
        """The singular values of A, the largest first."""
        return np.asarray(np.linalg.svd(self.a, compute_uv=False), dtype=np.float64)

    @property
    def scale(self) -> float:
        """The product of the largest and the smallest singular value of A."""
        return float(self.singular_values[0] * self.singular_values[-1])

    @property
    def omega(self) -> float:
        """The smallest singular value of A."""
        return float(self.singular_values[-1])

    def __repr__(self) -> str:
        """Name the matrices by their fingerprint."""
        mark = hashlib.sha256(self.a.tobytes() + self.b.tobytes() + self.c.tobytes()).hexdigest()[:16]
        return f"Constraint({len(self.c)} rows, x in R^{self.a.shape[1]}, z in R^{self.b.shape[1]}, {mark})"


class GeneralState(NamedTuple):
    """u: the fixed-point variable (1, p, R), noisy. x: where the next solve starts; it never leaves."""

    u: Floats
    x: Floats


@dataclass(frozen=True)
class GeneralADMM(Method):
    """Algorithm 5 for a curator who holds all data in one silo.

    Parameters
    ----------
    gamma: > 0. lam: relaxation in (0, 1]. constraint: A, B, c.

    Guarantees: C9 (general constraint), record level, against anyone who would see every u: with omega the smallest
    singular value of A, `2 (Ax + Bz - c)` moves by at most `2 gamma (2G/n)/omega`. (Theorem 7 has `||A||/omega`, too
    little where `||A|| < 1`.) The estimate is `x~ = A^+ (c - Bz)`; the history's objective is `w f + g` at that point,
    not `w f(x~) + g(z)`.
    """

    about: ClassVar[About] = About(
        name="fp-general",
        summary="fixed-point ADMM for Ax + Bz = c, one silo",
        topology=Topology.STAR,
        certificate="C9",
        noised="Ax + Bz - c, as printed: half of it there",
        is_curator=True,
        units=ROWS,
        most_silos=1,
        is_federated=False,
        takes_any_regulariser=True,
    )

    gamma: float
    constraint: Constraint
    lam: float = 0.5

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.positive("gamma", self.gamma)
        checks.half_open_unit("lam", self.lam)

    @classmethod
    def at_step(cls, setting: Setting, step: float) -> Self:
        """For x = z. Another constraint takes gamma times `Constraint.scale`."""
        one = np.eye(setting.problem.dimension)
        return cls(gamma=step, constraint=Constraint(one, -one, np.zeros(len(one))))

    def check(self, problem: Problem, network: Network | None) -> None:
        """One silo, and x of the dimension of A."""
        if problem.n_agents != 1:
            raise InputError(
                f"The general form has one private function, got {problem.n_agents} agents; pool their records."
            )
        if problem.dimension != self.constraint.a.shape[1]:
            raise InputError(
                f"A has {self.constraint.a.shape[1]} columns, but the model has dimension {problem.dimension}."
            )

    def start(self, agents: Agents, replicas: int) -> tuple[GeneralState, Floats]:
        """u = 0 and its z."""
        rows, width = self.constraint.a.shape
        u = np.zeros((1, rows, replicas))
        z = self._z_step(agents.regulariser.prox, u, np.zeros((1, self.constraint.b.shape[1], replicas)))
        return GeneralState(u=u, x=np.zeros((1, width, replicas))), z

    def local_step(
        self, k: int, agents: Agents, state: GeneralState, inbox: Floats, noise: NoiseHook
    ) -> tuple[GeneralState, Floats]:
        """(23) and (24); the message is the new u."""
        a, b, c = self.constraint.a, self.constraint.b, self.constraint.c[:, None]
        x = self._x_step(agents, 2 * (b @ inbox) + state.u - c, state.x)
        u = state.u + self.lam * noise.perturb(MESSAGE, k, agents.index, 2 * (a @ x + b @ inbox - c))
        return GeneralState(u=u, x=x), u

    def _x_step(self, agents: Agents, q: Floats, start: Floats) -> Floats:
        """Return argmin w f(x) + ||Ax + q||^2/(2 gamma), its gradient at most twice the solver's tolerance.

        Accelerated proximal steps: the quadratic is replaced by its tangent and `(top/2)||x - y||^2`, which the solvers
        handle. The gradient left is the solver's and `(A'A/gamma - top)(x - y)`.
        """

        def proximal(top: float) -> Callable[[Floats], Floats]:
            return lambda v: agents.minimise(np.zeros_like(v), v, np.full(1, top), v).point

        return self._solve(self.constraint.a, q, proximal, start, agents.solver.tolerance)

    def _z_step(self, prox: Callable[[Floats, float], Floats], u: Floats, start: Floats) -> Floats:
        """Return argmin g(z) + ||Bz + u||^2/(2 gamma), in the same way."""
        size = float(np.linalg.norm(self.constraint.b, 2)) ** 2 / self.gamma * max(1.0, float(np.abs(u).max()))
        return self._solve(self.constraint.b, u, lambda top: lambda v: prox(v, 1 / top), start, _Z_TOLERANCE * size)

    def _solve(
        self,
        matrix: Floats,
        q: Floats,
        proximal: Callable[[float], Callable[[Floats], Floats]],
        start: Floats,
        tolerance: float,
    ) -> Floats:
        """Return argmin h(x) + ||Mx + q||^2/(2 gamma), h known by its proximal map."""
        values = np.linalg.svd(matrix, compute_uv=False)
        top, least = float(values[0] ** 2 / self.gamma), float(values[-1] ** 2 / self.gamma)
        hessian, pull = matrix.T @ matrix / self.gamma, matrix.T @ q / self.gamma
        return minimise_composite(
            lambda y: hessian @ y + pull, proximal(top), np.array(least), np.array(top), start, tolerance
        )

    def exchange(
        self, k: int, problem: Problem, network: Network | None, inbox: Floats, messages: Floats, noise: NoiseHook
    ) -> Floats:
        """(22)."""
        return self._z_step(problem.regulariser.prox, messages, inbox)

    def models(self, state: GeneralState, inbox: Floats) -> Floats:
        """x~, the point that z alone determines."""
        return self.estimate(state, inbox)[None]

    def estimate(self, state: GeneralState, inbox: Floats) -> Floats:
        """x~ = A^+ (c - Bz)."""
        target = self.constraint.c[:, None] - self.constraint.b @ inbox[0]
        return np.linalg.lstsq(self.constraint.a, target, rcond=None)[0]

    def project_model(self, problem: Problem, model: Floats) -> Floats:
        """As it is: the regulariser is a function of z, and z lies in its domain."""
        return model

    def residuals(
        self, agents: Agents, before: tuple[GeneralState, Floats], after: tuple[GeneralState, Floats]
    ) -> Residuals:
        """Primal: `||Ax + Bz - c||` as u shows it. Dual: the movement of Bz over gamma."""
        primal = np.linalg.norm(after[0].u[0] - before[0].u[0], axis=0) / (2 * self.lam)
        dual = np.linalg.norm(self.constraint.b @ (after[1][0] - before[1][0]), axis=0) / self.gamma
        return Residuals(primal=primal, dual=dual)

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """C9: `2 (Ax + Bz - c)` with Gaussian noise, once a round."""
        tolerance = 2 * (setting.solver_tolerance or 0.0) or None
        local, omega = setting.local(0, tolerance=tolerance), self.constraint.omega
        certificate = general_constraint(local, step=self.gamma, smallest_singular_value=omega)
        return (MechanismSpec(MESSAGE, Family.GAUSSIAN, setting.rows(lambda _: certificate)),)
