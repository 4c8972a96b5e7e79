"""PS-ADMM: stochastic ADMM whose variance-reduced inner steps carry noise (Ding et al. 2019, Algorithm 2).

g <- w_i grad f_i(x_i),  v <- vt <- x_i;  for s = 0..S-1:
    v+   <- P_C( v - step { (g + N(0, s1^2 I)) + (correction + N(0, s2^2 I)) + a_i + rho (v - z) } )
    vhat <- (1 - c) v + c v+
x_i <- P_C( mean of the vhat )                                                                          (4)
z   <- prox_{g/(rho N)}( mean_i x_i + mean_i a_i / rho ),  a_i <- a_i + rho (x_i - z)                    (5), (6)

correction = w_i { (1/l) sum_{m in batch} clip( grad loss_m(v) - grad loss_m(vt) ) } + w_i mu (v - vt), fresh batches.

The loop index starts at 0 (printed, v^1 would be undefined). The two noises are drawn apart, as in the proof of C4; in
the first inner step v = vt, so that there is no correction and no noise for it.
"""

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.methods.base import About, Agents, Common, Method, NoiseHook, Residuals, Setting, Topology
from dpadmm.methods.batches import (
    Batches,
    Moment,
    batch_gradients,
    correction_bound,
    whole_gradients,
)
from dpadmm.methods.consensus import consensus_residuals
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import Family, MechanismSpec, MessageKind
from dpadmm.privacy.certificates.gradients import ps_admm_correction, ps_admm_full_gradient
from dpadmm.privacy.protection import Certificate, Strength
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import LocalFunctions, Problem
from dpadmm.problems.regularisers import SEPARABLE, Box

FULL = "full gradient"
CORRECTION = "correction"


class Averaging(Enum):
    """How an inner step enters the average: the weight c of the new point."""

    EXTRAPOLATED = "c = 2/(1 - 2 step (w_i L + rho)), as printed"
    PLAIN = "c = 1: the mean of the inner points"


class FullNoise(Enum):
    """When the full gradient gets its noise."""

    EVERY_STEP = "afresh in every inner step, as printed"
    ONCE = "once a round; all inner steps read that noisy value"


class Output(Enum):
    """Which models stand for the run."""

    LAST = "the last round's"
    AVERAGE = "the averages over all rounds, which Theorems 3 and 4 bound"


class PSState(NamedTuple):
    """x: each agent's model. a: its dual variable. x_mean, z_mean: averages over the rounds so far."""

    x: Floats
    a: Floats
    x_mean: Floats
    z_mean: Floats


@dataclass(frozen=True)
class PSADMM(Method):
    """Consensus ADMM in which an agent solves its subproblem by a few noisy stochastic steps.

    Parameters
    ----------
    rho: penalty to z, > 0. step: of the inner loop, in (0, 1/(2 (w_i L + rho))) for every agent.
    inner_steps: S >= 1. batches: how records are drawn (the paper's batch is 1).
    averaging: extrapolated as printed (amplifies the noise of the last steps), or plain.
    full_noise: afresh in every inner step, or once a round.
    clip: norm to which one record's correction is shortened, > 0; None: C, the range of the loss's slope times the
        row norm (logistic: G; at most 2 G), bounds it already.
    constraint: a box (or the positive orthant) C that all models must lie in; None: no constraint.
    output: whether the last or the averaged models are the result.
    noise_ratio: s2/s1 > 0; None (default) lets the calibration choose it for the least total noise.

    Guarantees: C4. Each inner step post-processes a Gaussian release of the full gradient (bound `2 G w_i/n_i`) and a
    sampled Gaussian release of the correction (one record's term at most `w_i min(C, clip)/l`); record level,
    replace-one, against an eavesdropper who does not see the batches; up to floating point, since batches come
    from a generator.

    Reference: Ding, Errapotu, Zhang, Gong, Pan, Han, "Stochastic ADMM based distributed machine learning with
    differential privacy" (2019).
    """

    about: ClassVar[About] = About(
        name="ps-admm",
        summary="stochastic ADMM, noise in its variance-reduced inner steps",
        topology=Topology.STAR,
        certificate="C4",
        noise=(Family.GAUSSIAN, Family.SAMPLED),
        noised="the gradient of an inner step",
        free=frozenset({"rho", "step", "mu"}),
        takes_any_regulariser=True,
    )

    rho: float
    step: float
    inner_steps: int
    batches: Batches
    averaging: Averaging = Averaging.EXTRAPOLATED
    full_noise: FullNoise = FullNoise.EVERY_STEP
    clip: float | None = None
    constraint: Box | None = None
    output: Output = Output.LAST
    noise_ratio: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers that do not depend on the problem."""
        checks.positive("rho", self.rho)
        checks.positive("step", self.step)
        checks.count("inner_steps", self.inner_steps)
        if self.clip is not None:
            checks.positive("clip", self.clip)
        if self.noise_ratio is not None:
            checks.positive("noise_ratio", self.noise_ratio)

    @classmethod
    def numbers(cls) -> dict[str, float | None]:
        """Add the size of a batch."""
        return super().numbers() | {"batch": None}

    @classmethod
    def agreed(cls, common: Common, **numbers: Any) -> Self:
        """Plain averages and one noise a round for the full gradient, the forms that need least noise."""
        rho, step, inner_steps, batch = (numbers[name] for name in ("rho", "step", "inner_steps", "batch"))
        batches = Batches(int(batch), seed=common.seed)
        return cls(rho, step, int(inner_steps), batches, averaging=Averaging.PLAIN, full_noise=FullNoise.ONCE)

    @classmethod
    def at_step(cls, setting: Setting, step: float) -> Self:
        """`rho` moves the mean by `1/(N rho)`; inner steps are nearly the longest, and enough for the minimiser."""
        problem = setting.problem
        rho, constants, weight = 1.0 / (problem.n_agents * step), problem.functions.constants, problem.weights
        inner = 0.45 / (float(weight.max()) * constants.smoothness + rho)
        number = math.ceil(0.5 / (inner * (rho + float(weight.min()) * constants.strong_convexity)))
        batches = Batches.default(problem.functions.sizes)
        return cls(rho, inner, number, batches, averaging=Averaging.PLAIN, full_noise=FullNoise.ONCE)

    def with_drawn_batches(self) -> Self:
        """Secret batches get the seed of this run."""
        return replace(self, batches=self.batches.with_drawn_seed())

    def with_secret(self, secret: int) -> Self:
        """Batches that only the silo knows."""
        return replace(self, batches=replace(self.batches, seed=secret))

    def check(self, problem: Problem, network: Network | None) -> None:
        """The step must be short enough, the batches must fit, and the z step must stay in closed form."""
        self.batches.check(problem)
        curvature = float(problem.weights.max()) * problem.functions.constants.smoothness + self.rho
        if self.step >= 1 / (2 * curvature):
            raise InputError(
                f"step must be below 1/(2 (w L + rho)) = {1 / (2 * curvature):.6g} for this problem, got {self.step!r}."
            )
        # For these the minimiser over a box is the projection of the unconstrained one, coordinate by coordinate.
        if self.constraint is not None and not isinstance(problem.regulariser, SEPARABLE):
            raise InputError(
                f"A constraint goes with separable regularisers only, got {type(problem.regulariser).__name__}."
            )

    def start(self, agents: Agents, replicas: int) -> tuple[PSState, Floats]:
        """x = P_C(0), a = 0, z = P_C(prox(0))."""
        zero = np.zeros((len(agents.index), agents.dimension, replicas))
        z = agents.regulariser.prox(np.zeros((1, agents.dimension, replicas)), 1 / (self.rho * agents.number))
        return PSState(self._project(zero), zero, zero, zero), self._project(z)

    def local_step(
        self, k: int, agents: Agents, state: PSState, inbox: Floats, noise: NoiseHook
    ) -> tuple[PSState, Floats]:
        """The inner loop; everything after it is a function of noisy gradients."""
        c = self._weight_of_new(agents)
        g = whole_gradients(agents, state.x)
        if self.full_noise is FullNoise.ONCE:
            g = noise.perturb(MessageKind(FULL), k, agents.index, g)
        v, total = state.x, np.zeros_like(state.x)
        for s in range(self.inner_steps):
            noisy = g
            if self.full_noise is FullNoise.EVERY_STEP:
                noisy = noise.perturb(MessageKind(FULL, s), k, agents.index, g)
            if s > 0:
                noisy = noisy + self._correction(Moment(k, s), agents, v, state.x, noise)
            new = self._project(v - self.step * (noisy + state.a + self.rho * (v - inbox)))
            total += (1 - c) * v + c * new
            v = new
        x = self._project(total / self.inner_steps)
        return state._replace(x=x), x + state.a / self.rho

    def _correction(self, when: Moment, agents: Agents, v: Floats, vt: Floats, noise: NoiseHook) -> Floats:
        """The noisy sampled correction, and the exact one of the ridge inside f_i, which touches no data."""
        raw = batch_gradients(self.batches, when, agents, v, base=vt, clip=self._limit(agents.functions))
        ridge = agents.weights[:, None, None] * agents.functions.constants.strong_convexity * (v - vt)
        return noise.perturb(MessageKind(CORRECTION, when.step), when.round, agents.index, raw) + ridge

    def _limit(self, functions: LocalFunctions) -> float:
        """Return the norm that no record's correction exceeds: enforced, and what the certificate says."""
        return min(correction_bound(functions), math.inf if self.clip is None else self.clip)

    def _weight_of_new(self, agents: Agents) -> Floats:
        """Return c as (agents, 1, 1)."""
        if self.averaging is Averaging.PLAIN:
            return np.ones((len(agents.index), 1, 1))
        curvature = agents.weights * agents.functions.constants.smoothness + self.rho
        return (2 / (1 - 2 * self.step * curvature))[:, None, None]

    def _project(self, x: Floats) -> Floats:
        return x if self.constraint is None else self.constraint.prox(x, 1.0)

    def exchange(
        self, k: int, problem: Problem, network: Network | None, inbox: Floats, messages: Floats, noise: NoiseHook
    ) -> Floats:
        """Eq. 5: the z step of the server, on what it was sent."""
        mean = messages.mean(axis=0, keepdims=True)
        return self._project(problem.regulariser.prox(mean, 1 / (self.rho * problem.n_agents)))

    def update(self, k: int, agents: Agents, state: PSState, inbox: Floats) -> PSState:
        """Eq. 6: the dual step; and the running averages of Theorem 3."""
        a = state.a + self.rho * (state.x - inbox)
        x_mean = state.x_mean + (state.x - state.x_mean) / k
        return PSState(state.x, a, x_mean, state.z_mean + (inbox - state.z_mean) / k)

    def models(self, state: PSState, inbox: Floats) -> Floats:
        """Each agent's model, or its average over the rounds."""
        return state.x_mean if self.output is Output.AVERAGE else state.x

    def estimate(self, state: PSState, inbox: Floats) -> Floats:
        """The last z, or the average of all."""
        return state.z_mean[0] if self.output is Output.AVERAGE else inbox[0]

    def residuals(self, agents: Agents, before: tuple[PSState, Floats], after: tuple[PSState, Floats]) -> Residuals:
        """As for consensus ADMM."""
        return consensus_residuals(self.rho, after[0].x, before[1], after[1])

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """The full gradient (Gaussian) and, from the second inner step on, the correction (sampled Gaussian)."""
        full, part = [], []
        for i, size in enumerate(setting.problem.functions.sizes):
            first, second = self.certificates(setting, i)
            full.append(setting.row(i, first))
            part.append(setting.row(i, second, self.batches.sampling(int(size))))
        steps, is_once = self.inner_steps, self.full_noise is FullNoise.ONCE
        # What the average of the inner points sees: a noise that is drawn once enters all S steps alike.
        weights = (None, None) if self.noise_ratio else (float(steps * steps if is_once else steps), steps - 1.0)
        gaussian = MechanismSpec(
            MessageKind(FULL), Family.GAUSSIAN, tuple(full), count=1 if is_once else steps, variance_weight=weights[0]
        )
        if steps == 1:
            return (gaussian,)
        sampled = MechanismSpec(
            MessageKind(CORRECTION),
            Family.SAMPLED,
            tuple(part),
            relative=self.noise_ratio or 1.0,
            count=steps - 1,
            variance_weight=weights[1],
        )
        return gaussian, sampled

    def certificates(self, setting: Setting, agent: int) -> tuple[Certificate, Certificate]:
        """C4 of both parts, for one agent."""
        local, clip = setting.local_gradient(agent), self._limit(setting.problem.functions)
        correction = ps_admm_correction(local, batch_size=self.batches.size, clip=clip)
        return ps_admm_full_gradient(local), correction.weaken(Strength.UP_TO_FLOATING_POINT)
