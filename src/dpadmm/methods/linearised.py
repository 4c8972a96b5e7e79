"""Linearised DP-ADMM on a star: one gradient step on the augmented Lagrangian, noise on what is sent.

x_i  <- argmin w_i grad f_i(xt_i)'x + (rho/2) || x + a_i/rho - z ||^2 + || x - xt_i ||^2 / (2 step_k)
xt_i <- x_i + N(0, s_{i,k}^2 I)
a_i  <- a_i + rho (xt_i - z)
z    <- prox_{g/(rho N)}( mean_i xt_i + mean_i a_i / rho )
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from dpadmm import checks
from dpadmm.methods.base import MESSAGE, ROWS, About, Agents, NoiseHook, Setting, Topology
from dpadmm.methods.batches import whole_gradients
from dpadmm.methods.consensus import ConsensusADMM, StarState
from dpadmm.methods.gradient_method import check_power
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import AgentReleases, Family, MechanismSpec
from dpadmm.privacy.certificates.gradients import linearised_admm
from dpadmm.privacy.protection import Certificate, Strength
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem


@dataclass(frozen=True)
class LinearisedADMM(ConsensusADMM):
    """Consensus ADMM in which an agent takes one gradient step instead of solving its subproblem.

    Parameters
    ----------
    rho: penalty to z, > 0.
    step: first step size, > 0; without noise it converges for `step <= 1/(w_i L)`.
    power: the step decays as k^(-power), in [0, 1]; 1/2 is the original's choice.

    Guarantees: C9. One record moves `x_i` by at most `2 G w_i/(n_i (rho + 1/step_k))`, because the linearisation is
    taken at the agent's own *noisy* model; record level, replace-one, against an eavesdropper; up to floating point,
    since what the gradient is added to has no bound (C7).

    Reference: Huang, Hu, Guo, Chan-Tin, Gong, "DP-ADMM: ADMM-based distributed learning with differential privacy".
    """

    about: ClassVar[About] = About(
        name="linearised-admm",
        summary="one gradient step in place of the local solve",
        topology=Topology.STAR,
        certificate="C9",
        noised="the sent model",
        units=ROWS,
        free=frozenset({"mu"}),
        takes_any_regulariser=True,
        is_federated=False,
    )

    step: float = 1.0
    power: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        checks.positive("step", self.step)
        check_power(self.power)

    @classmethod
    def at_step(cls, setting: Setting, step: float) -> Self:
        """`rho` moves the mean by `1/(N rho)`; the local steps are the longest that are safe."""
        problem = setting.problem
        largest = float(problem.weights.max()) * problem.functions.constants.smoothness
        return cls(rho=1.0 / (problem.n_agents * step), step=1.0 / largest)

    def step_at(self, k: int) -> float:
        """Return the step size of round k."""
        return self.step * float(k) ** -self.power

    def local_step(
        self, k: int, agents: Agents, state: StarState, inbox: Floats, noise: NoiseHook
    ) -> tuple[StarState, Floats]:
        """The linearised x step in closed form, noise, the dual step on the noisy model."""
        inverse = 1 / self.step_at(k)
        slope = whole_gradients(agents, state.x)
        x = (self.rho * inbox - state.a + inverse * state.x - slope) / (self.rho + inverse)
        sent = noise.perturb(MESSAGE, k, agents.index, x)
        a = state.a + self.rho * (sent - inbox)
        return StarState(x=sent, a=a), sent + a / self.rho

    def exchange(
        self, k: int, problem: Problem, network: Network | None, inbox: Floats, messages: Floats, noise: NoiseHook
    ) -> Floats:
        """The z step; it reads noisy models only and needs no noise of its own."""
        mean = messages.mean(axis=0, keepdims=True)
        return problem.regulariser.prox(mean, 1 / (self.rho * problem.n_agents))

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """One Gaussian release per agent and round; the bound follows the step size."""
        rounds = tuple(range(1, setting.rounds + 1))

        def certificate(i: int, k: int) -> Certificate:
            found = linearised_admm(setting.local_gradient(i), penalty=self.rho, step=self.step_at(k))
            return found.weaken(Strength.UP_TO_FLOATING_POINT)  # the public part of x has no bound

        rows = (
            AgentReleases(i, rounds, tuple(certificate(i, k) for k in rounds)) for i in range(setting.problem.n_agents)
        )
        return (MechanismSpec(MESSAGE, Family.GAUSSIAN, tuple(rows)),)
