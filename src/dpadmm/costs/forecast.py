"""What to expect of a run, beside what costs no privacy: simulated on public guesses of the agents alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpadmm.core.loop import Round, run_rounds
from dpadmm.core.loop import rounds as run_loop
from dpadmm.core.release import PlannedNoise
from dpadmm.costs.agents import CostAgents, Quadratics, on_subset
from dpadmm.costs.couplings import Rescaled, Sharing
from dpadmm.costs.setup import Setup
from dpadmm.costs.sums import minimise_total
from dpadmm.errors import SolverError
from dpadmm.methods.base import Agents, Silence
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.releases import GaussianRelease
from dpadmm.problems.arrays import Floats

_AGENTS, _REPLICAS, _SEED = 100, 4, 20261119
_ROUNDS = (5, 10, 20, 40)
_FACTORS = (0.03, 0.3, 3.0, 10.0)
_LONG, _FREE = 400, 100  # rounds without noise, for the optimum, and where nothing is spent


@dataclass(frozen=True, kw_only=True)
class CostForecast:
    """Gaps to the optimum that runs on a public guess of the agents reach, relative to the optimum's value.

    private: this run. nothing: what is broadcast comes from a guess that is off by `guess_error`, and nothing is
    spent. sums: one noisy sum of the agents' linear terms, where that tells everything. alone: of a shared resource,
    everybody by itself.
    margin_cost: what a margin of hard limits costs; limits_kept: how often their total kept them.
    """

    private: float
    nothing: float
    alone: float | None = None
    sums: float | None = None
    margin_cost: float | None = None
    limits_kept: float | None = None
    guess_error: float = 0.3

    @property
    def is_worthwhile(self) -> bool:
        """Whether spending the budget is expected to do better than spending nothing."""
        return min(self.private, np.inf if self.sums is None else self.sums) < self.nothing

    @property
    def is_sum_better(self) -> bool:
        """Whether one release of sums is expected to do better than the rounds."""
        return self.sums is not None and self.sums < self.private

    @property
    def advice(self) -> str:
        """What to do, in a sentence."""
        if not self.is_worthwhile:
            return "Do not spend: what is made from a public guess is expected to do as well."
        if self.is_sum_better:
            return "One noisy sum is expected to do better than the rounds."
        return "Worth its budget, if the guess is as far off as assumed."

    def __str__(self) -> str:
        """List the gaps."""
        sums = "" if self.sums is None else f", one release of sums {self.sums:.2%}"
        alone = "" if self.alone is None else f", everybody alone {self.alone:.2%}"
        margin = "" if self.margin_cost is None else f"; the margin costs {self.margin_cost:.2%}"
        margin += "" if self.limits_kept is None else f", and limits hold in {self.limits_kept:.0%} of the runs"
        return (
            f"expected gap to the optimum: this run {self.private:.2%}, spending nothing {self.nothing:.2%} (a guess "
            f"that is {self.guess_error:.0%} off){sums}{alone}{margin}. {self.advice}"
        )


@dataclass(frozen=True, eq=False)
class Optimum:
    """Where a run without noise ends: value, price (or common model), the agents' x, their total, and its cost."""

    value: float
    price: Floats
    x: Floats
    total: Floats
    shared: float


class CostSimulation:
    """Runs of a set-up on public agents: at most `_AGENTS` of them, who stand for all."""

    def __init__(self, setup: Setup, guess: CostAgents, error: float) -> None:
        rng = np.random.default_rng(_SEED)
        self.setup, self.error = setup, error
        distance = getattr(setup.protect, "distance", 0.0)
        chosen = np.arange(guess.n_agents)
        if setup.network is None and setup.b.ndim < 3 and setup.maps.given is None:
            kept = on_subset(guess, _AGENTS, rng)
        else:
            kept = (
                guess if chosen.size <= 4 * _AGENTS or setup.network is not None else guess.take(chosen[: 4 * _AGENTS])
            )
        self.ratio = setup.agents.n_agents / kept.n_agents
        maps = setup.maps
        if maps.given is not None and kept.n_agents < guess.n_agents:
            maps = maps.take(chosen[: kept.n_agents])
        g: Any = setup.g if self.ratio == 1 else Rescaled(setup.g, scale=self.ratio)
        self.small = replace(setup, agents=kept, maps=maps, g=g)
        self.guess = kept
        self.truths = [kept.drawn(rng, sign * error, distance) for sign in (1.0, -1.0)]
        own: Any = setup.coupling.g if isinstance(setup.coupling, Sharing) else setup.g
        self.judged = replace(self.small, g=own if self.ratio == 1 else Rescaled(own, scale=self.ratio))
        self.best = [self._optimum(self.judged, truth) for truth in self.truths]

    def gap(self, target: Target, rounds: int, given: Mapping[str, float]) -> tuple[float, float | None]:
        """Return the mean gap of private runs on the first truth, and which part of them keeps hard limits."""
        result = self._private(target, rounds, given)
        kept, coupling = None, self.setup.coupling
        if isinstance(coupling, Sharing) and coupling.margin is not None:
            totals = self.ratio * self.small.maps.add_up(result[1]).sum(axis=0)
            kept = float(np.isfinite(np.asarray(coupling.g.value(totals))).mean())
        return float(np.mean(self._gaps(result, 0))), kept

    def _private(self, target: Target, rounds: int, given: Mapping[str, float]) -> tuple[Floats, Floats]:
        """Run with the noise of the real run, which hides as many agents as there are."""
        is_graph = self.setup.network is not None
        whole = self.setup if is_graph or self.setup.trust == "nobody" else replace(self.setup, trust="sum")
        run = whole.run(rounds, given, target)
        factor = self.ratio if whole.trust == "sum" else np.sqrt(self.ratio)
        noise = run.noise_plan(is_secure=False).map(lambda each: _smaller(each, factor))
        small = replace(self.small, trust=whole.trust).run(rounds, given, target)
        hook = PlannedNoise(NoisePlan(noise.releases), SimulatedSampler(_SEED), _REPLICAS)
        done = run_rounds(small, self.small.problem(self.truths[0]), hook, replicas=_REPLICAS, threads=1)
        return done.tail_average, done.models if done.kept is None else done.kept

    def nothing(self, rounds: int, given: Mapping[str, float]) -> float:
        """Return the mean gap where agents answer what would be broadcast to the guess."""
        heard = list(self._exact(self.small, self.guess, rounds, given))
        method: Any = self.small.method(rounds, given)
        z, found = method.estimate(heard[-1].state, heard[-1].inbox), []
        for place, truth in enumerate(self.truths):
            agents = Agents.of(self.small.problem(truth), self.small.network, self.small.tolerance, 1)
            state: Any = method.start(agents, 1)[0]
            if isinstance(self.setup.coupling, Sharing):
                for k in range(1, rounds + 1):
                    state, _ = method.local_step(k, agents, state, heard[k - 1].inbox, Silence())
                found.append(self._gaps((z, method.kept(state, rounds)), place))
            else:
                found.append(self._gaps((z, z[None]), place))
        return float(np.mean(found))

    def alone(self) -> float | None:
        """Return the mean gap where everybody minimises its own cost; None where they must agree on one x."""
        if not isinstance(self.setup.coupling, Sharing):
            return None
        found = []
        for place, truth in enumerate(self.truths):
            x = self._alone(truth)
            found.append(self._gaps((x.mean(axis=0), x), place))
        return float(np.mean(found))

    def sums(self, target: Target) -> float | None:
        """Return the gap of one noisy sum of linear terms, where the rest is public; None where that is not enough."""
        setup, agents = self.setup, self.truths[0]
        if not setup.has_sums or not isinstance(agents, Quadratics):
            return None
        noise = setup.protect.distance / m_of(target.epsilon, target.delta) / self.ratio  # type: ignore[union-attr]
        drawn = noise * np.random.default_rng(_SEED).standard_normal((8, agents.dimension))
        z = np.stack([minimise_total(agents, agents.q.sum(axis=0) + each, self.small.g) for each in drawn], axis=1)
        return float(np.mean(self._gaps((z, z[None]), 0)))

    def objective(self, place: int, public: Floats, kept: Floats) -> Floats:
        """Return what a run on a truth is judged by: of a shared resource the agents' own x, else the common model.

        Where a total breaks hard limits, it counts what the optimal price takes for breaking them.
        """
        agents, g = self.truths[place], self.judged.g.value
        if not isinstance(self.setup.coupling, Sharing):
            everywhere = np.broadcast_to(public, (agents.n_agents, *public.shape))
            return np.asarray(agents.value(everywhere).sum(axis=0) + g(public))
        total, best = self.small.maps.add_up(kept).sum(axis=0), self.best[place]
        shared = np.asarray(g(total))
        broken = best.shared + (best.price * (total - best.total)).sum(axis=0)
        return np.asarray(agents.value(kept).sum(axis=0) + np.where(np.isfinite(shared), shared, broken))

    def margin_cost(self) -> float:
        """Return what the optimum loses by the margin."""
        planned = self._optimum(self.small, self.truths[0])
        return float(self._gaps((planned.price, planned.x), 0)[0])

    def _gaps(self, result: tuple[Floats, Floats], place: int) -> Floats:
        value, best = self.objective(place, *result), self.best[place].value
        return np.nan_to_num((value - best) / max(abs(best), 1e-12), nan=np.inf)

    def _optimum(self, small: Setup, agents: CostAgents) -> "Optimum":
        """Run without noise for long, and return where it ends."""
        *_, last = self._exact(small, agents, _LONG, {})
        method: Any = small.method(_LONG, {})
        public, x = method.estimate(last.state, last.inbox), last.state.x
        if not isinstance(small.coupling, Sharing):
            everywhere = np.broadcast_to(public, (agents.n_agents, *public.shape))
            value = float((agents.value(everywhere).sum(axis=0) + small.g.value(public))[0])
            return Optimum(value, public, x, public, 0.0)
        total = agents.n_agents * last.inbox[2]  # the planned one, which keeps all limits
        shared = float(small.g.value(total)[0])
        own = float(agents.value(x).sum(axis=0)[0])
        value = own + shared + float((public * (small.maps.add_up(x).sum(axis=0) - total)).sum())
        return Optimum(value, public, x, total, shared)

    def _exact(self, small: Setup, agents: CostAgents, rounds: int, given: Mapping[str, float]) -> Iterator[Round]:
        problem = small.problem(agents)
        here = Agents.of(problem, small.network, small.tolerance, 1)
        return run_loop(small.method(rounds, given), here, problem, small.network, Silence(), rounds)

    def _alone(self, agents: CostAgents) -> Floats:
        n, p = agents.n_agents, self.small.maps.rows
        weak = np.full(n, 1e-9 * max(agents.curvature[0], 1e-3))
        start = np.zeros((n, agents.dimension, 1))
        return agents.solve(self.small.maps.given, weak, np.zeros((n, p, 1)), start, 1e-3)


def _smaller(release: Any, factor: float) -> GaussianRelease:
    return replace(release, noise_std=release.noise_std / factor)


def forecast(
    setup: Setup, guess: CostAgents, target: Target, rounds: int | None, given: Mapping[str, float], error: float
) -> tuple[int, Mapping[str, float], CostForecast]:
    """Return the rounds and numbers with the least expected gap, and what to expect of them."""
    simulation = CostSimulation(setup, guess, error)
    score, gap, kept = np.inf, np.inf, None
    best: tuple[int, Mapping[str, float]] = rounds or _ROUNDS[0], given
    name, usual = next(iter(setup.names.items()))
    first = rounds or _ROUNDS[1]
    steps = [given[name]] if name in given else [usual * factor for factor in _FACTORS]
    tries: list[tuple[int, Mapping[str, float]]] = [(first, {name: step, **given}) for step in steps]
    for k, chosen in tries:  # which grows: the best step is tried with other numbers of rounds
        try:
            found, limits = simulation.gap(target, k, chosen)
        except SolverError:
            found, limits = np.inf, None
        # Whoever states a margin wants the limits kept: that weighs more than any gap.
        if (scored := found + (0.0 if limits is None else 1 - limits)) < score:
            score, gap, kept, best = scored, found, limits, (k, chosen)
        if len(tries) == len(steps) and chosen is tries[-1][1] and rounds is None:
            tries += [(other, best[1]) for other in _ROUNDS if other != first]
    k, chosen = best
    made = CostForecast(
        private=gap,
        nothing=min(simulation.nothing(k, chosen), simulation.nothing(_FREE, {})),
        alone=simulation.alone(),
        sums=simulation.sums(target),
        margin_cost=None if kept is None else simulation.margin_cost(),
        limits_kept=kept,
        guess_error=error,
    )
    return k, chosen, made
