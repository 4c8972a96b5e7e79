"""Who is on the Adult scoreboard: every method with the numbers that are chosen for it, and where their search begins.

Penalties are on the scale of a silo's mean loss, gammas are their inverses, steps are on the scale of the mean
gradient. What is not a knob is fixed here and the same for all budgets.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from dpadmm.methods.base import Method
from dpadmm.methods.batches import Batches
from dpadmm.methods.consensus_dp import ConsensusDPADMM, GaussianConsensusADMM
from dpadmm.methods.dp_dgd import DPDGD
from dpadmm.methods.dp_gd import DPGD
from dpadmm.methods.dp_sgd import DPSGD
from dpadmm.methods.dvp import DVP
from dpadmm.methods.fixed_point import CoordinatorADMM, FederatedADMM
from dpadmm.methods.linearised import LinearisedADMM
from dpadmm.methods.m_admm import MADMM
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.methods.output_perturbation import OutputPerturbation
from dpadmm.methods.p_admm import PADMM
from dpadmm.methods.ps_admm import PSADMM, Averaging
from dpadmm.methods.r_admm import RADMM
from dpadmm.methods.recycled import RecycledPADMM
from dpadmm.noise.mechanisms import Family
from dpadmm.privacy.protection import View
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.problems.silos import Silos
from dpadmm_research.central import pool_records
from dpadmm_research.scoreboard.search import Knob

MOST_ROUNDS = 4096
BATCH_SEED = 11


@dataclass(frozen=True)
class ViewText:
    """What the board calls a view: in tables, and in headings, with who is trusted."""

    name: str
    text: str


VIEWS = {
    View.EAVESDROPPER: ViewText("messages", "eavesdropper: sees every message, trusts nobody"),
    View.PUBLIC: ViewText("release", "public: sees what the coordinator releases, trusts the coordinator"),
}
"""The views that the board has."""


def competing(view: View) -> tuple[View, ...]:
    """Return the views whose certificates hold here: what hides a record in all messages hides it in the release."""
    return tuple(VIEWS) if view is View.PUBLIC else (view,)


class RoundKind(Enum):
    """What a method does in a round."""

    ADMM = "ADMM"
    GRADIENT = "gradient method"
    OTHER = "neither"


_ALL_RECORDS = "as many records as there are"


def _rounds(*first: int, most: int = MOST_ROUNDS) -> Knob:
    return Knob("rounds", 8, first, 1, most, ("one round", f"no more than {most} rounds are tried"), is_work=True)


FEW, SOME, MANY = _rounds(0, 2), _rounds(2, 4), _rounds(4, 6)
LOOPS = _rounds(2, most=64)  # a round has ten inner steps
ONCE = Knob("rounds", 1, least=1, most=1)
ETA, RHO = (Knob(name, 2e-3, (-2, 0, 2)) for name in ("eta", "rho"))
INNER_RHO = Knob("rho", 2e-3)
GAMMA = Knob("gamma", 128.0, (-2, 0, 2))
STEP = Knob("step", 8.0, (-2, 0, 2))
SUM_STEP = Knob("step", 1.0, (-2, 0, 2))  # momentum of 0.9 makes it ten times as long in the end
BATCH = Knob("batch", 64, (3,), 1, limits=("one record", _ALL_RECORDS), is_work=True)
INNER_STEP = 1.75  # PS-ADMM's steps must stay below 1/(2 (L + rho)), about 2 here
RIDGES = Knob("ridge", 2e-3, (-2, 0, 2))


@dataclass(frozen=True)
class ScoreboardEntry:
    """One method; what it says about itself is not repeated here.

    kind: see `RoundKind`. knobs: what is tuned beside the rounds. build: the algorithm from one value per knob.
    task: the problem from the silos and the first knob. noise: if not the method's own.
    """

    method: type[Method]
    kind: RoundKind
    knobs: tuple[Knob, ...]
    build: Callable[..., Any] = field(repr=False)
    rounds: Knob
    task: Callable[[Silos, float], Problem] = field(repr=False)
    noise: Family | None = None

    @property
    def name(self) -> str:
        """The method's, and whether all records lie in one place."""
        return self.method.about.name + (" (records pooled)" if self.is_central else "")

    @property
    def is_central(self) -> bool:
        """Whether all records lie with somebody who is trusted."""
        return self.task is central

    @property
    def view(self) -> View:
        """The strongest view it is certified for."""
        return View.PUBLIC if self.is_central or self.method.about.trusts_coordinator else View.EAVESDROPPER

    @property
    def panel(self) -> str:
        """What tables call the view."""
        return VIEWS[self.view].name.upper()

    @property
    def is_pure(self) -> bool:
        """Whether it gives pure epsilon (which is also (eps, delta)-DP)."""
        return self.method.about.is_pure if self.noise is None else self.noise.is_pure

    def axes(self, n_records: int) -> tuple[Knob, ...]:
        """Return all numbers that are chosen, the rounds last, where the smallest silo has so many records."""
        own = (replace(knob, most=n_records) if knob is BATCH else knob for knob in self.knobs)
        return (*own, self.rounds)

    @property
    def start_text(self) -> str:
        """Where its search begins."""
        return "; ".join(map(str, (*self.knobs, self.rounds)))

    def noise_key(self, values: tuple[float, ...]) -> tuple[float, ...]:
        """Return what the noise depends on, beside rounds and budget: of sampled methods only the batch."""
        return values[-1:] if Family.SAMPLED in self.method.about.noise else values


def equal(silos: Silos, _: float) -> Problem:
    """Return `sum_i f_i`, w_i = 1, without a ridge."""
    return Problem.of(EmpiricalRisk(silos, Logistic()), Weighting.EQUAL)


def with_ridge(silos: Silos, ridge: float) -> Problem:
    """Return the same with a ridge that is tuned, for a method that is not certified without one."""
    return Problem.of(EmpiricalRisk(silos, Logistic(), mu=ridge), Weighting.EQUAL)


def average(silos: Silos, _: float) -> Problem:
    """Return `sum_i f_i/N`, without a ridge."""
    return Problem.of(EmpiricalRisk(silos, Logistic()), Weighting.AVERAGE)


def central(silos: Silos, _: float) -> Problem:
    """Return the problem with all records in one silo, without a ridge."""
    return pool_records(Problem.of(EmpiricalRisk(silos, Logistic())))


def _ps_admm(rho: float, batch: float) -> PSADMM:
    return PSADMM(rho, step=INNER_STEP, inner_steps=10, batches=_batches(batch), averaging=Averaging.PLAIN)


def _dp_sgd(step: float, batch: float) -> DPSGD:
    return DPSGD(step, batches=_batches(batch))


def _dp_dgd(step: float) -> DPDGD:
    return DPDGD(step, decay=1.0, noise=Family.GAUSSIAN)


def _batches(size: float) -> Batches:
    return Batches(int(size), BATCH_SEED)


_ADMM, _GRADIENT = RoundKind.ADMM, RoundKind.GRADIENT

ENTRIES: tuple[ScoreboardEntry, ...] = (
    ScoreboardEntry(PADMM, _ADMM, (ETA,), PADMM, SOME, equal),
    ScoreboardEntry(RecycledPADMM, _ADMM, (ETA,), RecycledPADMM, SOME, equal),
    ScoreboardEntry(DVP, _ADMM, (ETA,), DVP, FEW, equal),
    ScoreboardEntry(MADMM, _ADMM, (ETA,), lambda eta: MADMM(eta, growth=1.01), FEW, equal),
    ScoreboardEntry(RADMM, _ADMM, (ETA,), lambda eta: RADMM(eta, gamma=0.2 * eta), FEW, equal),
    ScoreboardEntry(DPDGD, _GRADIENT, (STEP,), _dp_dgd, MANY, equal, Family.GAUSSIAN),
    ScoreboardEntry(LinearisedADMM, _ADMM, (STEP,), lambda step: LinearisedADMM(1e-3, step=step), MANY, equal),
    ScoreboardEntry(PSADMM, _ADMM, (INNER_RHO, BATCH), _ps_admm, LOOPS, equal),
    ScoreboardEntry(DPGD, _GRADIENT, (STEP,), DPGD, MANY, average),
    ScoreboardEntry(DPSGD, _GRADIENT, (STEP, BATCH), _dp_sgd, MANY, average),
    ScoreboardEntry(FederatedADMM, _ADMM, (GAMMA,), FederatedADMM, SOME, average),
    ScoreboardEntry(OutputPerturbation, RoundKind.OTHER, (RIDGES,), lambda _: OutputPerturbation(), ONCE, with_ridge),
    ScoreboardEntry(GaussianConsensusADMM, _ADMM, (RHO,), GaussianConsensusADMM, SOME, equal),
    ScoreboardEntry(ConsensusDPADMM, _ADMM, (RHO,), ConsensusDPADMM, FEW, equal),
    ScoreboardEntry(CoordinatorADMM, _ADMM, (GAMMA,), CoordinatorADMM, SOME, average),
    ScoreboardEntry(NoisyGradients, _GRADIENT, (SUM_STEP,), NoisyGradients, MANY, average),
    ScoreboardEntry(DPGD, _GRADIENT, (STEP,), DPGD, MANY, central),
    ScoreboardEntry(DPSGD, _GRADIENT, (STEP, BATCH), _dp_sgd, MANY, central),
)


def entry_of(name: str) -> ScoreboardEntry:
    """Return the entry with this name."""
    return next(entry for entry in ENTRIES if entry.name == name)
