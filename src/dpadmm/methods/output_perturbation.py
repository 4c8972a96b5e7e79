"""One-shot output perturbation: every silo solves its own problem, adds noise once, and the coordinator averages.

x_i <- argmin w_i f_i(x) + g(x)/N
y_i <- x_i + noise
x   <- sum_i w_i y_i / sum_i w_i
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from dpadmm.checks import safe_repr
from dpadmm.errors import InputError
from dpadmm.methods.base import MESSAGE, ROWS, About, Agents, Method, NoiseHook, Residuals, Setting, Topology, spread
from dpadmm.methods.decentralised import check_ridge, zeros
from dpadmm.methods.gradient_method import GradientState
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import Family, MechanismSpec
from dpadmm.privacy.certificates.gradients import output_perturbation
from dpadmm.privacy.protection import Certificate, with_spherical_noise
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem


@dataclass(frozen=True)
class OutputPerturbation(Method):
    """Each silo speaks once; run it for one round.

    Parameters
    ----------
    noise: GAUSSIAN, or SPHERICAL Laplace for pure epsilon.

    Guarantees: C9. One record moves a silo's own optimum by at most `2 G w_i/(n_i m)`, m the strong convexity of
    `w_i f_i + g/N`, which must be positive; record level, replace-one, against an eavesdropper. With several
    silos the average of local optima is not the common optimum, however little noise there is.

    Reference: Chaudhuri, Monteleoni, Sarwate, "Differentially private empirical risk minimization" (2011).
    """

    about: ClassVar[About] = About(
        name="output-perturbation",
        summary="each silo's noisy optimum, averaged",
        topology=Topology.ALONE,
        certificate="C9",
        noised="a silo's own solution",
        units=ROWS,
        needs_ridge=True,
        is_federated=False,
    )

    noise: Family = Family.GAUSSIAN

    def __post_init__(self) -> None:
        """Check the kind of noise."""
        if self.noise not in (Family.GAUSSIAN, Family.SPHERICAL):
            raise InputError(f"noise must be GAUSSIAN or SPHERICAL, got {safe_repr(self.noise)}.")

    @classmethod
    def at_step(cls, setting: Setting, step: float) -> Self:
        """Nothing is left to choose: each silo solves to the end."""
        return cls()

    def check(self, problem: Problem, network: Network | None) -> None:
        """Each local problem must be strongly convex, and the regulariser a ridge or none."""
        check_ridge(self, problem, "Use ConsensusADMM.")
        if problem.functions.constants.strong_convexity + problem.regulariser.strong_convexity <= 0:
            raise InputError("Output perturbation needs strong convexity; add a ridge term (mu > 0) to the functions.")

    def start(self, agents: Agents, replicas: int) -> tuple[GradientState, Floats]:
        """Zeros."""
        return GradientState(zeros(agents, replicas)), np.zeros((1, agents.dimension, replicas))

    def local_step(
        self, k: int, agents: Agents, state: GradientState, inbox: Floats, noise: NoiseHook
    ) -> tuple[GradientState, Floats]:
        """Round 1: solve and add noise. Later rounds have nothing to add."""
        if k > 1:
            return state, agents.weights[:, None, None] * state.x
        nothing = np.zeros_like(state.x)
        # The share g/N of a ridge is the pull to 0; it may be none, since the functions are strongly convex then.
        pull = np.full(len(agents.index), agents.regulariser.strong_convexity / agents.number)
        x = agents.minimise(nothing, nothing, pull, start=nothing).point
        sent = noise.perturb(MESSAGE, k, agents.index, x)
        return GradientState(sent), agents.weights[:, None, None] * sent

    def exchange(
        self, k: int, problem: Problem, network: Network | None, inbox: Floats, messages: Floats, noise: NoiseHook
    ) -> Floats:
        """The weighted average."""
        return messages.sum(axis=0, keepdims=True) / problem.weights.sum()

    def models(self, state: GradientState, inbox: Floats) -> Floats:
        """Each silo's noisy optimum."""
        return state.x

    def residuals(
        self, agents: Agents, before: tuple[GradientState, Floats], after: tuple[GradientState, Floats]
    ) -> Residuals:
        """Primal: how far the silos' optima are from their mean. Dual: zero, nothing moves any more."""
        apart = spread(after[0].x)
        return Residuals(primal=apart, dual=np.zeros_like(apart))

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """One release per silo, in round 1."""
        if setting.rounds != 1:
            raise InputError(f"Output perturbation takes one round, got {setting.rounds}.")

        def certificate(i: int) -> Certificate:
            found = output_perturbation(setting.local(i))
            return with_spherical_noise(found) if self.noise is Family.SPHERICAL else found

        return (MechanismSpec(MESSAGE, self.noise, setting.rows(certificate)),)
