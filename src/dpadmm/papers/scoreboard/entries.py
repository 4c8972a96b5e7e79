"""Who is on the Adult scoreboard: every method with its knobs, and the values of each that are tried.

Penalties are on the scale of a silo's mean loss, gammas are their inverses, steps are on the scale of the mean
gradient; each has four values a factor 5 apart. Rounds are a factor 4 apart. What is not a knob is fixed here and the
same for all budgets.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from itertools import product
from typing import Any

from dpadmm.algorithms.batches import Batches
from dpadmm.algorithms.consensus_dp import ConsensusDPADMM, GaussianConsensusADMM
from dpadmm.algorithms.dp_dgd import DPDGD
from dpadmm.algorithms.dp_gd import DPGD
from dpadmm.algorithms.dp_sgd import DPSGD, pooled
from dpadmm.algorithms.dvp import DVP
from dpadmm.algorithms.fixed_point import CoordinatorADMM, FederatedADMM
from dpadmm.algorithms.linearised import LinearisedADMM
from dpadmm.algorithms.m_admm import MADMM
from dpadmm.algorithms.method import Method
from dpadmm.algorithms.noisy_gradients import NoisyGradients
from dpadmm.algorithms.output_perturbation import OutputPerturbation
from dpadmm.algorithms.p_admm import PADMM
from dpadmm.algorithms.ps_admm import PSADMM, Averaging
from dpadmm.algorithms.r_admm import RADMM
from dpadmm.algorithms.recycled import RecycledPADMM
from dpadmm.noise.promises import Family
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.problems.silos import Silos

RIDGE = 1e-4
SHORT, MIDDLE, LONG = (10, 40), (10, 40, 160), (10, 40, 160, 640)
MOST_PASSES = 50
"""Sampled methods try no point with more passes over a silo's records: there dp-gd, with all of them, is at home."""
BATCH_SEED = 11


class Sight(Enum):
    """Who looks, and so who is trusted."""

    MESSAGES = "eavesdropper: sees every message, trusts nobody"
    RELEASE = "public: sees what the coordinator releases, trusts the coordinator"

    @property
    def competing(self) -> tuple["Sight", ...]:
        """The certificates that hold here: what hides a record in all messages hides it in what is made of them."""
        return tuple(Sight) if self is Sight.RELEASE else (self,)


class RoundKind(Enum):
    """What a method does in a round."""

    ADMM = "ADMM"
    GRADIENT = "gradient method"
    OTHER = "neither"


@dataclass(frozen=True)
class Knob:
    """A number that is chosen from `values`, which increase.

    is_last_limit: nothing beyond the last value is allowed. toy: the one value at toy size (None: a middle one).
    """

    name: str
    values: tuple[float, ...]
    is_last_limit: bool = False
    toy: float | None = None

    def is_edge(self, value: float) -> bool:
        """Say whether a chosen value is the first or last of several, so that a better one may lie beyond."""
        ends = self.values[:1] if self.is_last_limit else (self.values[0], self.values[-1])
        return len(self.values) > 1 and value in ends

    @property
    def middle(self) -> float:
        """The value at toy size."""
        return self.values[len(self.values) // 2] if self.toy is None else self.toy

    def __str__(self) -> str:
        """Name and values."""
        return f"{self.name} {', '.join(f'{value:g}' for value in self.values)}"


ETA, RHO = (Knob(name, (2e-4, 1e-3, 5e-3, 2.5e-2)) for name in ("eta", "rho"))
GAMMA = Knob("gamma", (40.0, 200.0, 1000.0, 5000.0))
STEP = Knob("step", (0.8, 4.0, 20.0, 100.0))
SUM_STEP = Knob("step", (0.16, 0.8, 4.0, 20.0))  # momentum of 0.9 makes it ten times as long in the end
BATCH = Knob("batch", (256, 1024, 4096), toy=64)
# PS-ADMM's steps must stay below 1/(2 (L + rho)), about 1.8 here.
INNER_STEP, INNER_BATCH = Knob("step", (0.35, 1.75), is_last_limit=True), Knob("batch", (64, 512), toy=64)
DECAY = Knob("decay", (0.98, 1.0), is_last_limit=True)
RIDGES = Knob("ridge", (8e-4, 4e-3, 2e-2, 1e-1))


@dataclass(frozen=True)
class ScoreboardEntry:
    """One method; what it says about itself is not repeated here.

    kind: see `RoundKind`. knobs: what is tuned beside the rounds. build: the algorithm from one value per knob.
    rounds: the numbers that are tried. task: the problem from the silos and the first knob.
    noise: if not the method's own.
    """

    method: type[Method]
    kind: RoundKind
    knobs: tuple[Knob, ...]
    build: Callable[..., Any] = field(repr=False)
    rounds: tuple[int, ...]
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
    def sight(self) -> Sight:
        """The strongest view it is certified for."""
        return Sight.RELEASE if self.is_central or self.method.about.trusts_coordinator else Sight.MESSAGES

    @property
    def is_pure(self) -> bool:
        """Whether it gives pure epsilon (which is also (eps, delta)-DP)."""
        return self.method.about.is_pure if self.noise is None else self.noise.is_pure

    def grid(self) -> list[tuple[float, ...]]:
        """Return every combination of the knobs' values."""
        return list(product(*(knob.values for knob in self.knobs)))

    @property
    def toy_values(self) -> tuple[float, ...]:
        """One value per knob, for toy size."""
        return tuple(knob.middle for knob in self.knobs)

    @property
    def grid_in_words(self) -> str:
        """What is tried."""
        return "; ".join([*map(str, self.knobs), f"rounds {', '.join(map(str, self.rounds))}"])

    def rounds_for(self, values: tuple[float, ...], n_records: int) -> tuple[int, ...]:
        """Return the numbers of rounds that are tried with these values, n_records in the smallest silo."""
        batch = self.batch_of(values)
        return self.rounds if batch is None else tuple(k for k in self.rounds if k * batch <= MOST_PASSES * n_records)

    def batch_of(self, values: tuple[float, ...]) -> float | None:
        """Return the batch among the values, None for a method without; inner loops draw many batches a round."""
        sizes = [value for knob, value in zip(self.knobs, values, strict=True) if knob is BATCH]
        return sizes[0] if sizes else None

    def noise_key(self, values: tuple[float, ...]) -> tuple[float, ...]:
        """Return what the noise depends on, beside rounds and budget: of sampled methods only the batch."""
        return values[-1:] if Family.SAMPLED in self.method.about.noise else values


def with_ridge(silos: Silos, ridge: float) -> Problem:
    """Return `sum_i f_i`, w_i = 1, each f_i with a ridge that is tuned."""
    return Problem.of(EmpiricalRisk(silos, Logistic(), mu=ridge), Weighting.EQUAL)


def equal(silos: Silos, _: float) -> Problem:
    """Return the same with a small ridge."""
    return with_ridge(silos, RIDGE)


def average(silos: Silos, _: float) -> Problem:
    """Return the same with w_i = 1/N."""
    return Problem.of(EmpiricalRisk(silos, Logistic(), mu=RIDGE), Weighting.AVERAGE)


def central(silos: Silos, _: float) -> Problem:
    """Return the problem with all records in one silo."""
    return pooled(Problem.of(EmpiricalRisk(silos, Logistic(), mu=RIDGE)))


def _ps_admm(rho: float, step: float, batch: float) -> PSADMM:
    return PSADMM(rho, step=step, inner_steps=10, batches=_batches(batch), averaging=Averaging.PLAIN)


def _dp_sgd(step: float, batch: float) -> DPSGD:
    return DPSGD(step, batches=_batches(batch))


def _dp_dgd(step: float, decay: float) -> DPDGD:
    return DPDGD(step, decay=decay, noise=Family.GAUSSIAN)


def _batches(size: float) -> Batches:
    return Batches(int(size), BATCH_SEED)


_ADMM, _GRADIENT = RoundKind.ADMM, RoundKind.GRADIENT

ENTRIES: tuple[ScoreboardEntry, ...] = (
    ScoreboardEntry(PADMM, _ADMM, (ETA,), PADMM, MIDDLE, equal),
    ScoreboardEntry(RecycledPADMM, _ADMM, (ETA,), RecycledPADMM, MIDDLE, equal),
    ScoreboardEntry(DVP, _ADMM, (ETA,), DVP, SHORT, equal),
    ScoreboardEntry(MADMM, _ADMM, (ETA,), lambda eta: MADMM(eta, growth=1.01), SHORT, equal),
    ScoreboardEntry(RADMM, _ADMM, (ETA,), lambda eta: RADMM(eta, gamma=0.2 * eta), SHORT, equal),
    ScoreboardEntry(DPDGD, _GRADIENT, (STEP, DECAY), _dp_dgd, LONG, equal, Family.GAUSSIAN),
    ScoreboardEntry(LinearisedADMM, _ADMM, (STEP,), lambda step: LinearisedADMM(1e-3, step=step), LONG, equal),
    ScoreboardEntry(PSADMM, _ADMM, (RHO, INNER_STEP, INNER_BATCH), _ps_admm, SHORT, equal),
    ScoreboardEntry(DPGD, _GRADIENT, (STEP,), DPGD, LONG, average),
    ScoreboardEntry(DPSGD, _GRADIENT, (STEP, BATCH), _dp_sgd, LONG, average),
    ScoreboardEntry(FederatedADMM, _ADMM, (GAMMA,), FederatedADMM, SHORT, average),
    ScoreboardEntry(OutputPerturbation, RoundKind.OTHER, (RIDGES,), lambda _: OutputPerturbation(), (1,), with_ridge),
    ScoreboardEntry(GaussianConsensusADMM, _ADMM, (RHO,), GaussianConsensusADMM, SHORT, equal),
    ScoreboardEntry(ConsensusDPADMM, _ADMM, (RHO,), ConsensusDPADMM, SHORT, equal),
    ScoreboardEntry(CoordinatorADMM, _ADMM, (GAMMA,), CoordinatorADMM, SHORT, average),
    ScoreboardEntry(NoisyGradients, _GRADIENT, (SUM_STEP,), NoisyGradients, LONG, average),
    ScoreboardEntry(DPGD, _GRADIENT, (STEP,), DPGD, LONG, central),
    ScoreboardEntry(DPSGD, _GRADIENT, (STEP, BATCH), _dp_sgd, LONG, central),
)


def entry_of(name: str) -> ScoreboardEntry:
    """Return the entry with this name."""
    return next(entry for entry in ENTRIES if entry.name == name)
