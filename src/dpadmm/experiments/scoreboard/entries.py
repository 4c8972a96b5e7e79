"""Who is on the Adult scoreboard: every method with one main number, tried at four values a factor 5 apart.

Penalties are on the scale of a silo's mean loss, gammas are their inverses, steps are on the scale of the mean
gradient. Everything else is fixed here and the same for all budgets.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from dpadmm.algorithms.batches import Batches
from dpadmm.algorithms.consensus_dp import ConsensusDPADMM
from dpadmm.algorithms.dp_dgd import DPDGD
from dpadmm.algorithms.dp_gd import DPGD
from dpadmm.algorithms.dp_sgd import DPSGD, pooled
from dpadmm.algorithms.dvp import DVP
from dpadmm.algorithms.fixed_point import CentralisedADMM, CoordinatorADMM, FederatedADMM
from dpadmm.algorithms.linearised import LinearisedADMM
from dpadmm.algorithms.m_admm import MADMM
from dpadmm.algorithms.output_perturbation import OutputPerturbation
from dpadmm.algorithms.p_admm import PADMM
from dpadmm.algorithms.ps_admm import PSADMM, Averaging
from dpadmm.algorithms.r_admm import RADMM
from dpadmm.algorithms.recycled import RecycledPADMM
from dpadmm.noise.promises import Family
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import Problem, Weighting
from dpadmm.problems.risk import EmpiricalRisk
from dpadmm.problems.silos import Silos

PENALTIES = (2e-4, 1e-3, 5e-3, 2.5e-2)
GAMMAS = tuple(1 / penalty for penalty in PENALTIES)
STEPS = (0.8, 4.0, 20.0, 100.0)
RIDGES = (8e-4, 4e-3, 2e-2, 1e-1)
RIDGE = 1e-4
ROUNDS = (10, 40)
BATCH, BATCH_SEED = 64, 11


class Sight(Enum):
    """Who looks, and so who is trusted: methods are compared within one view only."""

    MESSAGES = "eavesdropper: sees every message, trusts nobody"
    RELEASE = "public: sees what the coordinator releases, trusts the coordinator"


@dataclass(frozen=True)
class Entry:
    """One method.

    build: the algorithm from its main number. number: what that number is. is_pure: pure epsilon (which is also
    (eps, delta)-DP). is_networked: talks on the complete graph. task: the problem from the silos and the main number.
    is_plan_shared: the noise does not depend on the main number, so it is calibrated once.
    """

    name: str
    sight: Sight
    number: str
    values: tuple[float, ...]
    build: Callable[[float], Any] = field(repr=False)
    is_pure: bool = False
    is_networked: bool = False
    is_plan_shared: bool = False
    rounds: tuple[int, ...] = ROUNDS
    task: Callable[[Silos, float], Problem] = field(repr=False, default=lambda silos, _: equal(silos))


def equal(silos: Silos, ridge: float = RIDGE) -> Problem:
    """Return `sum_i f_i`, w_i = 1, each f_i with a small ridge."""
    return Problem.of(EmpiricalRisk(silos, Logistic(), mu=ridge), Weighting.EQUAL)


def average(silos: Silos) -> Problem:
    """Return the same with w_i = 1/N."""
    return Problem.of(EmpiricalRisk(silos, Logistic(), mu=RIDGE), Weighting.AVERAGE)


def central(silos: Silos) -> Problem:
    """Return the problem with all records in one silo."""
    return pooled(Problem.of(EmpiricalRisk(silos, Logistic(), mu=RIDGE)))


def _on_graph(name: str, build: Callable[[float], Any], is_pure: bool) -> Entry:
    return Entry(name, Sight.MESSAGES, "eta", PENALTIES, build, is_pure=is_pure, is_networked=True)


def _star(name: str, sight: Sight, number: str, values: tuple[float, ...], build: Callable[[float], Any],
          task: Callable[[Silos], Problem] = average, **more: Any) -> Entry:  # fmt: skip
    return Entry(name, sight, number, values, build, task=lambda silos, _: task(silos), **more)


def _batches() -> Batches:
    return Batches(BATCH, BATCH_SEED)


ENTRIES: tuple[Entry, ...] = (
    _on_graph("p-admm", PADMM, False),
    _on_graph("p-admm-recycled", RecycledPADMM, False),
    _on_graph("dvp", DVP, True),
    _on_graph("m-admm", lambda eta: MADMM(eta, growth=1.01), True),
    _on_graph("r-admm", lambda eta: RADMM(eta, gamma=0.2 * eta), True),
    Entry("dp-dgd", Sight.MESSAGES, "step", STEPS, lambda step: DPDGD(step, decay=0.98, noise=Family.GAUSSIAN),
          is_networked=True),
    _star("linearised-admm", Sight.MESSAGES, "step", STEPS, lambda step: LinearisedADMM(1e-3, step=step), equal),
    _star("ps-admm", Sight.MESSAGES, "rho", PENALTIES, lambda rho: PSADMM(
        rho, step=1.0, inner_steps=10, batches=_batches(), averaging=Averaging.PLAIN), equal, is_plan_shared=True),
    _star("dp-gd", Sight.MESSAGES, "step", STEPS, DPGD),
    _star("dp-sgd", Sight.MESSAGES, "step", STEPS, lambda step: DPSGD(step, batches=_batches()), is_plan_shared=True),
    _star("fp-federated", Sight.MESSAGES, "gamma", GAMMAS, FederatedADMM),
    Entry("output-perturbation", Sight.MESSAGES, "ridge", RIDGES, lambda _: OutputPerturbation(), rounds=(1,),
          task=equal),
    _star("consensus-gaussian", Sight.RELEASE, "rho", PENALTIES, lambda rho: ConsensusDPADMM(
        rho, family=Family.GAUSSIAN), equal),
    _star("consensus", Sight.RELEASE, "rho", PENALTIES, ConsensusDPADMM, equal, is_pure=True),
    _star("fp-coordinator", Sight.RELEASE, "gamma", GAMMAS, CoordinatorADMM),
    _star("fp-centralised", Sight.RELEASE, "gamma", GAMMAS, CentralisedADMM),
    _star("dp-gd (records pooled)", Sight.RELEASE, "step", STEPS, DPGD, central),
    _star("dp-sgd (records pooled)", Sight.RELEASE, "step", STEPS, lambda step: DPSGD(step, batches=_batches()),
          central, is_plan_shared=True),
)  # fmt: skip
