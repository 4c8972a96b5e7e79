"""DP-DGD: decentralised gradient descent with geometric steps and geometric noise (Huang, Mitra, Vaidya 2015).

p_i <- sum_j W_ij y_j                                      W: Metropolis weights, the agent's own message included
x_i <- P_C( p_i - c q^(k-1) grad (w_i f_i + g/N)(p_i) )
y_i <- x_i + noise of scale proportional to p^(k-1)
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError
from dpadmm.methods.base import MESSAGE, ROWS, About, Agents, NoiseHook, Setting, Topology
from dpadmm.methods.batches import whole_gradients
from dpadmm.methods.decentralised import GraphMethod, zeros
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import AgentReleases, Family, Geometric, MechanismSpec
from dpadmm.privacy.certificates.gradients import gradient_step
from dpadmm.privacy.protection import Certificate, Strength, in_l1_norm, with_spherical_noise
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem
from dpadmm.problems.regularisers import Box


class DGDState(NamedTuple):
    """x: what each agent last broadcast, noise included."""

    x: Floats


@dataclass(frozen=True)
class DPDGD(GraphMethod):
    """Agents average noisy neighbours and take ever shorter gradient steps.

    Parameters
    ----------
    step: first step size c > 0. decay: q in (0, 1], the step of round k is c q^(k-1).
    noise_decay: the noise of round k is proportional to noise_decay^(k-1), in (0, 1]; the original wants it above q.
    noise: COORDINATE Laplace as in the original, SPHERICAL Laplace (both pure epsilon), or GAUSSIAN.
    constraint: a box (or the positive orthant) to which every step is projected; None: no constraint.

    Guarantees: C9. One record moves `x_i` by at most `c q^(k-1) 2 G w_i/n_i` (times sqrt(d) in the l1 norm); record
    level, replace-one, against an eavesdropper; up to floating point, since the mixed point has no bound (C7). Steps
    that shrink geometrically stop short of the optimum unless q is close enough to 1: that is the method, not the
    noise.

    Reference: Huang, Mitra, Vaidya, "Differentially private distributed optimization" (2015).
    """

    about: ClassVar[About] = About(
        name="dp-dgd",
        summary="decentralised gradient descent with shrinking steps and noise",
        topology=Topology.GRAPH,
        certificate="C9",
        noise=(Family.COORDINATE,),
        noised="the sent model",
        units=ROWS,
        free=frozenset({"noise_decay", "degree", "mu"}),
        longest_step=1.0,
        is_federated=False,
    )

    step: float
    decay: float
    noise_decay: float = 1.0
    noise: Family = Family.COORDINATE
    constraint: Box | None = None

    def __post_init__(self) -> None:
        """Check the numbers and the kind of noise."""
        checks.positive("step", self.step)
        checks.half_open_unit("decay", self.decay)
        checks.half_open_unit("noise_decay", self.noise_decay)
        if self.noise not in (Family.COORDINATE, Family.SPHERICAL, Family.GAUSSIAN):
            raise InputError(f"noise must be COORDINATE, SPHERICAL or GAUSSIAN, got {safe_repr(self.noise)}.")

    @classmethod
    def at_step(cls, setting: Setting, step: float) -> Self:
        """A step moves the mean by 1/N of it."""
        return cls(step=setting.problem.n_agents * step, decay=1.0)

    def step_at(self, k: int) -> float:
        """Return c q^(k-1)."""
        return self.step * self.decay ** (k - 1)

    def start(self, agents: Agents, replicas: int) -> tuple[DGDState, Floats]:
        """All zeros."""
        return DGDState(zeros(agents, replicas)), zeros(agents, replicas)

    def local_step(
        self, k: int, agents: Agents, state: DGDState, inbox: Floats, noise: NoiseHook
    ) -> tuple[DGDState, Floats]:
        """A projected gradient step at the mixed point, then noise."""
        share = agents.regulariser.strong_convexity / agents.number
        slope = whole_gradients(agents, inbox) + share * inbox
        x = inbox - self.step_at(k) * slope
        if self.constraint is not None:
            x = self.constraint.prox(x, 1.0)
        sent = noise.perturb(MESSAGE, k, agents.index, x)
        return DGDState(sent), sent

    def exchange(
        self, k: int, problem: Problem, network: Network | None, inbox: Floats, messages: Floats, noise: NoiseHook
    ) -> Floats:
        """Each agent mixes its neighbours' messages and its own."""
        mixed = _mixing(cast(Network, network)) @ messages.reshape(len(messages), -1)
        return np.asarray(mixed).reshape(messages.shape)

    def project_model(self, problem: Problem, model: Floats) -> Floats:
        """Into the constraint, which the noise may have left."""
        return model if self.constraint is None else self.constraint.prox(model, 1.0)

    def dual_scale(self, agents: Agents) -> Floats:
        """Movement in units of the first step."""
        return np.full(len(agents.index), 1 / self.step)

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """One release per agent and round; bounds shrink with the steps, the noise with its own decay."""
        rounds, dimension = tuple(range(1, setting.rounds + 1)), setting.problem.dimension

        def certificate(i: int, k: int) -> Certificate:
            plain = gradient_step(setting.local_gradient(i), step=self.step_at(k))
            # The mixed point, which is public, has no bound.
            return self._noisy(plain.weaken(Strength.UP_TO_FLOATING_POINT), dimension)

        rows = (
            AgentReleases(i, rounds, tuple(certificate(i, k) for k in rounds)) for i in range(setting.problem.n_agents)
        )
        return (MechanismSpec(MESSAGE, self.noise, tuple(rows), schedule=Geometric(self.noise_decay**2)),)

    def _noisy(self, certificate: Certificate, dimension: int) -> Certificate:
        """Return the certificate in the form this kind of noise asks for."""
        if self.noise is Family.COORDINATE:
            return in_l1_norm(certificate, dimension=dimension)
        return with_spherical_noise(certificate) if self.noise is Family.SPHERICAL else certificate


@lru_cache(maxsize=8)
def _mixing(network: Network) -> Any:
    """Return the Metropolis weights, made once per network."""
    return network.metropolis_weights()
