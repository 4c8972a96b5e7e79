"""DVP: decentralised ADMM with a random linear term in every local objective (Zhang and Zhu 2017).

    x_i <- argmin w_i f_i(x) + (a_i + b_i)'x + eta sum_{j in V_i} || x - (x_i + x_j)/2 ||^2,    b_i ~ exp(-alpha ||b||)
    a_i <- a_i + eta sum_{j in V_i} (x_i - x_j)

The minimiser itself is broadcast: the noise is inside the objective. M-ADMM and R-ADMM share this step.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dpadmm.errors import InputError
from dpadmm.methods.base import About, Agents, NoiseHook, Setting, Topology
from dpadmm.methods.decentralised import DecentralisedADMM, EdgePenaltyADMM, penalised_minimiser, zeros
from dpadmm.noise.mechanisms import AgentReleases, Family, MechanismSpec, MessageKind
from dpadmm.privacy.certificates.objective import dvp, solver_smoothing
from dpadmm.privacy.protection import Certificate
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import Logistic

OBJECTIVE = MessageKind("objective")
SMOOTHING = MessageKind("smoothing")

Penalties = Callable[[int, int], Floats]
"""The penalty of every agent in a round: k, N -> (N,)."""


class TiltedADMM(EdgePenaltyADMM):
    """Broadcasts the minimiser of a randomly tilted objective.

    smoothing: part of epsilon in [0, 1) spent on noise that hides the solver's error (C7).
    """

    smoothing: float = 0.0

    def solve_round(self, k: int, agents: Agents, state: Any, inbox: Floats, noise: NoiseHook) -> tuple[Floats, Floats]:
        """Return the minimiser with a fresh linear term `b_i` in the objective, and what may be broadcast of it."""
        b = noise.perturb(OBJECTIVE, k, agents.index, zeros(agents, state.x.shape[2]))
        eta = self.penalties(k, agents.number)[agents.index]
        found = penalised_minimiser(eta, agents, state.x, inbox, lin=state.a + b, start=state.guess)
        return found, noise.perturb(SMOOTHING, k, agents.index, found) if self.smoothing > 0 else found


@dataclass(frozen=True)
class DVP(TiltedADMM, DecentralisedADMM):
    """Agents on a graph broadcast the exact minimisers of randomly tilted objectives.

    Parameters
    ----------
    eta: penalty on each edge, > 0.
    smoothing: part of epsilon in [0, 1) spent on noise that hides the solver's error (C7); 0 adds none, and the
        certificate then holds up to solver error. Ask for a tight `tolerance` with it: the noise is proportional.

    Guarantees: C2, pure epsilon, every round. One record moves the gradient by at most `2 G w_i / n_i`; record level,
    replace-one, against an eavesdropper who sees every message. For losses of a linear predictor with a bounded
    slope and curvature.

    Reference: Zhang, Zhu, "Dynamic differential privacy for ADMM-based distributed classification learning" (2017).
    """

    about: ClassVar[About] = About(
        name="dvp",
        summary="a random linear term in every local objective",
        topology=Topology.GRAPH,
        certificate="C2",
        noise=(Family.OBJECTIVE,),
        noised="the objective, as a linear term",
    )

    smoothing: float = 0.0

    def __post_init__(self) -> None:
        """Check both numbers."""
        super().__post_init__()
        check_smoothing(self.smoothing)

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """One objective perturbation per agent and round, with its smoothing if there is one."""
        rounds = range(1, setting.rounds + 1)
        return tilted_broadcasts(setting, rounds, self.penalties, lambda tilted: tilted, self.smoothing)


def check_smoothing(smoothing: float) -> None:
    """Refuse parts of epsilon outside [0, 1)."""
    if isinstance(smoothing, bool) or not isinstance(smoothing, int | float) or not 0 <= smoothing < 1:
        raise InputError(f"smoothing must be a fraction of epsilon, at least 0 and below 1, got {smoothing!r}.")


def tilted_broadcasts(
    setting: Setting,
    rounds: Sequence[int],
    penalties: Penalties,
    named: Callable[[Certificate], Certificate],
    smoothing: float,
) -> tuple[MechanismSpec, ...]:
    """Return the mechanism that every agent's minimiser leaves with linear noise in these rounds (C2, C7).

    `named` makes DVP's certificate of an agent and round the method's own.
    """
    by_round = [penalties(k, setting.problem.n_agents) for k in rounds]

    def rows(of: Callable[[int, float], Certificate]) -> tuple[AgentReleases, ...]:
        listed = []
        for i in range(setting.problem.n_agents):
            etas = [float(row[i]) for row in by_round]
            known = {eta: of(i, eta) for eta in dict.fromkeys(etas)}
            listed.append(AgentReleases(i, tuple(rounds), tuple(known[eta] for eta in etas)))
        return tuple(listed)

    if smoothing > 0 and setting.tolerance == 0:
        raise InputError("smoothing covers a solver residual; give the tolerance it is to cover.")
    main = rows(lambda i, eta: named(_objective_certificate(setting, i, eta, smoothing > 0)))
    if smoothing == 0:
        return (MechanismSpec(OBJECTIVE, Family.OBJECTIVE, main),)
    extra = rows(  # C7
        lambda i, eta: solver_smoothing(setting.local(i), quadratic_curvature=2 * eta * int(setting.degrees[i]))
    )
    return (
        MechanismSpec(OBJECTIVE, Family.OBJECTIVE, main, share=1 - smoothing),
        MechanismSpec(SMOOTHING, Family.SPHERICAL, extra, share=smoothing),
    )


def _objective_certificate(setting: Setting, i: int, eta: float, is_smoothed: bool) -> Certificate:
    """C2 from the public facts of agent i in a round with this penalty."""
    functions = setting.problem.functions
    loss = getattr(functions, "linear_loss", None)
    if not hasattr(functions, "linear_loss") or functions.constants.scores > 1:
        raise InputError(
            f"Objective perturbation is certified for losses of a linear predictor, got {type(functions).__name__}. "
            "Use EmpiricalRisk, or P-ADMM, whose noise is on the broadcast."
        )
    return dvp(
        setting.local(i),
        curvature_bound=functions.constants.record_curvature,
        edge_penalty=eta,
        degree=int(setting.degrees[i]),
        is_logistic=type(loss) is Logistic and loss.cap == 1,  # a cap is not proved
        is_smoothed=is_smoothed,
    )
