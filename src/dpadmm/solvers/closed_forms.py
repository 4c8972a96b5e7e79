"""Subproblems with a closed form: quadratic agents, squared loss, and agents with one record each."""

import numpy as np

from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.problems.silos import dense, scale_rows
from dpadmm.solvers.solver import (
    AgentSolver,
    Solution,
    Spectrum,
    Subproblem,
    block_gram,
    for_each_block,
    require_converged,
)

_EPS = float(np.finfo(np.float64).eps)
# Agents per task of the thread pool.
_PER_TASK = 16_384
# Products up to this length are unrolled, at the price of compiling once per dimension.
_UNROLLED = 16


class QuadraticSolver(AgentSolver[QuadraticAgents]):
    """`(w_i B_i + s_i I) x = s_i c - lin - w_i c_i` by explicit inverses, stored once and streamed every round."""

    def _prepare(self) -> None:
        """Nothing is inverted before the first solve, which brings the penalties."""
        self._pull: Floats | None = None
        self._inverses = np.empty((0, 0, 0))
        self._defects = np.empty(0)

    def _solve(self, subproblem: Subproblem) -> Solution:
        """One fused batched matrix-vector product; the error bound comes from the inverses' measured defects."""
        from dpadmm.solvers import kernels  # slow to load: compiled code

        self._invert_for(subproblem)
        index = subproblem.agents
        lin, centre = np.ascontiguousarray(subproblem.lin), np.ascontiguousarray(subproblem.centre)
        out, norms = _output_of(subproblem), np.empty((len(lin), lin.shape[2]))
        inverses, slopes, weights, defects = self._inverses, self.risk.slopes, self.weights, self._defects
        if index is not None:
            inverses, slopes, weights, defects = inverses[index], slopes[index], weights[index], defects[index]
        known, d = (inverses, slopes, weights, subproblem.pull), lin.shape[1]
        is_one = lin.shape[2] == 1
        missed: list[int] = []

        def work(first: int, last: int) -> None:
            if is_one:
                unroll = (0,) * d if d <= _UNROLLED else ()
                flat = (lin.reshape(-1, d), centre.reshape(-1, d), defects, self.tolerance, first, last, out[:, :, 0])
                missed.append(kernels.inverse_times_one(unroll, *known, *flat, norms))
            else:
                kernels.inverse_times(*known, lin, centre, defects, first, last, out, norms)

        for_each_block(work, len(lin), _PER_TASK, self.threads)
        solution = Solution(out, norms, _no_passes(len(lin)))
        if is_one and sum(missed) == 0:
            return solution
        return require_converged(solution, self.tolerance, subproblem)

    def _invert_for(self, subproblem: Subproblem) -> None:
        """Invert every agent's matrix unless the penalties are those of the last call."""
        index = subproblem.agents
        if self._pull is not None:
            known = self._pull if index is None else self._pull[index]
            if np.array_equal(known, subproblem.pull):
                return
        if index is None:
            self._invert(subproblem.pull)
            return
        if self._pull is None and np.ptp(subproblem.pull) > 0:
            raise InputError("The first solve of quadratic agents needs one common penalty, or all agents at once.")
        pull = np.full(self.risk.n_agents, subproblem.pull[0]) if self._pull is None else self._pull.copy()
        pull[index] = subproblem.pull
        self._invert(pull)

    def _invert(self, pull: Floats) -> None:
        n, d = self.risk.n_agents, self.risk.dimension
        inverses, defects = np.empty((n, d, d)), np.empty(n)

        def work(first: int, last: int) -> None:
            matrix = self.weights[first:last, None, None] * self.risk.curvatures[first:last]
            matrix[:, np.arange(d), np.arange(d)] += pull[first:last, None]
            inverses[first:last] = np.linalg.inv(matrix)
            # ||M X b - b|| <= ||M X - I||_F ||b||, plus the rounding of X b: d eps ||M||_F ||X||_F ||b||.
            defect = matrix @ inverses[first:last]
            defect[:, np.arange(d), np.arange(d)] -= 1.0
            rounding = 2 * (d + 3) * _EPS * _frobenius(matrix) * _frobenius(inverses[first:last])
            defects[first:last] = _frobenius(defect) + rounding

        for_each_block(work, n, _PER_TASK, self.threads)
        self._pull, self._inverses, self._defects = pull.copy(), inverses, defects


class SquaredSolver(AgentSolver[EmpiricalRisk]):
    """Least squares: the Gram matrix is decomposed once (thin when n_i < d), then each solve costs O(d^2)."""

    def _prepare(self) -> None:
        """Decompose every agent's Gram matrix and keep X'y / n_i, rows and labels by their weights."""
        self._spectra: list[Spectrum] = []
        self._matrices: list[Matrix] = []
        self._moments = np.empty((self.risk.n_agents, self.risk.dimension))
        self._scales = self.weights / self.risk.sizes
        for i in range(self.risk.n_agents):
            rows, labels = self._counted_rows(i)
            scale, is_wide = self._scales[i], rows.shape[0] < rows.shape[1]
            self._spectra.append(Spectrum.of_rows(rows, scale, threads=self.threads))
            self._matrices.append(rows if is_wide else scale * block_gram(rows, None, self.threads))
            self._moments[i] = scale * (rows.T @ labels)

    def _counted_rows(self, agent: int) -> tuple[Matrix, Floats]:
        """Return an agent's rows and labels, times the root of what a row counts."""
        rows, labels = self.risk.silos.part(agent)
        weights = self.risk.silos.weights
        if weights is None:
            return rows, labels
        roots = np.sqrt(weights[self.risk.part(agent)])
        return scale_rows(rows, roots), labels * roots

    def _solve(self, subproblem: Subproblem) -> Solution:
        """Solve by the spectrum, with one refinement; the residual is that of the matrix itself, not its spectrum."""
        point, norm = _output_of(subproblem), np.empty((len(subproblem.lin), subproblem.lin.shape[2]))
        index = subproblem.agent_index()

        def work(first: int, last: int) -> None:
            for row in range(first, last):
                agent, pull = int(index[row]), float(subproblem.pull[row])
                spectrum, sigma = self._spectra[agent], pull + float(self.weights[agent]) * self.risk.mu
                rhs = pull * subproblem.centre[row] - subproblem.lin[row] + self._moments[agent][:, None]
                x = spectrum.solve(rhs, sigma)
                x += spectrum.solve(rhs - self._times(agent, x) - sigma * x, sigma)
                point[row] = x
                norm[row] = np.linalg.norm(rhs - self._times(agent, x) - sigma * x, axis=0)

        for_each_block(work, len(point), 1, self.threads)
        return require_converged(Solution(point, norm, np.zeros(len(point))), self.tolerance, subproblem)

    def _times(self, agent: int, x: Floats) -> Floats:
        """Return w_i X'X x / n_i, by the Gram matrix or, where n_i < d, by the rows."""
        matrix = self._matrices[agent]
        if matrix.shape[0] == matrix.shape[1]:
            return matrix @ x
        return (matrix.T @ (matrix @ x)) * self._scales[agent]


class RankOneSolver(AgentSolver[EmpiricalRisk]):
    """Agents with one record each: a scalar prox of the loss along the record's direction, for any loss."""

    def _prepare(self) -> None:
        """Keep the rows dense: with one record per agent every row is used once a round."""
        everybody = slice(0, self.risk.n_agents)
        self._rows = np.ascontiguousarray(dense(self.risk.folded(everybody)))
        self._shifts = self.risk.shifts if self.risk.shifts.size else np.zeros(self.risk.n_agents)
        self._squares = np.einsum("ij,ij->i", self._rows, self._rows)
        self._line = self.risk.loss.form.numbers

    def _solve(self, subproblem: Subproblem) -> Solution:
        """One streaming pass over users; the error bound is that of the arithmetic."""
        from dpadmm.solvers import kernels  # slow to load: compiled code

        lin, centre = np.ascontiguousarray(subproblem.lin), np.ascontiguousarray(subproblem.centre)
        out = _output_of(subproblem)
        norms = np.empty((len(lin), lin.shape[2]))
        user: tuple[Floats, ...] = (self._rows, self._squares, self._shifts, self.weights)
        if subproblem.agents is not None:
            user = tuple(part[subproblem.agents] for part in user)
        loss = self.risk.loss
        numbers = (self.risk.mu, loss.curvature_bound, subproblem.pull)

        def work(first: int, last: int) -> None:
            rest = (self._line, loss.form.is_logistic, first, last)
            if lin.shape[2] == 1:
                flat = (lin[:, :, 0], centre[:, :, 0], *rest, out[:, :, 0], norms)
                kernels.rank_one_prox_one(*user, *numbers, *flat)
            else:
                kernels.rank_one_prox(*user, *numbers, lin, centre, *rest, out, norms)

        for_each_block(work, len(lin), _PER_TASK, self.threads)
        return require_converged(Solution(out, norms, _no_passes(len(lin))), self.tolerance, subproblem)


def _no_passes(agents: int) -> Floats:
    """Return zeros that take no memory: closed forms make no passes over records."""
    return np.broadcast_to(np.zeros(1), (agents,))


def _output_of(subproblem: Subproblem) -> Floats:
    """Return where the point is to be written."""
    return subproblem.out if subproblem.out is not None else np.empty(subproblem.lin.shape)


def _frobenius(matrices: Floats) -> Floats:
    return np.sqrt(np.einsum("ijk,ijk->i", matrices, matrices))
