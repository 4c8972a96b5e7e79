"""What utility to expect, from simulations on synthetic data of the same shape; a plan's reasons and warnings."""

from dataclasses import dataclass
from enum import Enum
from functools import singledispatch
from typing import Any

from dpadmm.algorithms.method import Method, Topology
from dpadmm.planning.candidates import Candidate, unit_noise
from dpadmm.planning.task import Task
from dpadmm.privacy.records import Unit
from dpadmm.problems.losses import CappedLogistic, Loss


class ScoreKind(Enum):
    """What is forecast, on records that the model has not seen."""

    ACCURACY = "accuracy"
    R2 = "R^2"


@dataclass(frozen=True)
class Forecast:
    """The expected score of the private model, between the worlds that were simulated.

    mean, spread: mean and standard deviation over worlds and runs. low, high: mean in the hardest and the easiest
    world. non_private: the same objective without noise. trivial: always the majority class (regression: the mean) of
    the synthetic worlds, which says nothing about the majority class of anybody's data.
    loss, loss_non_private, loss_trivial: mean losses, on the same records.
    """

    score: ScoreKind
    mean: float
    spread: float
    low: float
    high: float
    non_private: float
    trivial: float
    loss: float
    loss_non_private: float
    loss_trivial: float

    @property
    def kept(self) -> float:
        """The part of what can be learned that survives the noise: 1 is all, 0 or less nothing."""
        reach = self.non_private - self.trivial
        return (self.mean - self.trivial) / reach if reach > 0 else 0.0

    @property
    def gain(self) -> float:
        """How much better than the simplest answer the private model was, in the simulations."""
        return self.mean - self.trivial

    @property
    def gain_non_private(self) -> float:
        """The same without noise."""
        return self.non_private - self.trivial

    @property
    def simplest(self) -> str:
        """What a model that learned nothing would answer."""
        return "the majority class" if self.score is ScoreKind.ACCURACY else "predicting the mean"

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**{k: v for k, v in vars(self).items() if k != "score"}, "score": self.score.value}

    def __str__(self) -> str:
        """Say it in one line."""
        return (
            f"{self.score.value} {self.mean:.3f} +- {self.spread:.3f} on synthetic data, {self.gain:.3f} above "
            f"{self.simplest} there (without privacy {self.non_private:.3f}, {self.gain_non_private:.3f} above)"
        )


def reasons(task: Task, chosen: Candidate, n_tried: int, is_forced: bool) -> tuple[str, ...]:
    """Return why these settings."""
    settings = chosen.settings
    tau = unit_noise(task, settings.method, settings.rounds)
    why = "the method was asked for" if is_forced else settings.method.about.why
    time = settings.step * settings.rounds
    return (
        why,
        f"the whole budget buys one look at the gradient with a noise of {tau:.2g} per coordinate; descending for a "
        f"time of {time:.3g} in {settings.rounds} rounds leaves about {tau * time * task.row_norm:.2g} on a prediction",
        f"ridge {settings.mu:.3g}: " + ("as given" if task.regulariser is not None else "one record among all"),
        *capped_words(task.loss),
        f"chosen among {n_tried} candidate(s) by simulations on synthetic data; no private record was looked at",
    )


@singledispatch
def capped_words(loss: Loss) -> tuple[str, ...]:
    """Say what was changed about the loss, if anything."""
    return ()


@capped_words.register
def _(loss: CappedLogistic) -> tuple[str, ...]:
    return (f"records that the model gets badly wrong pull with at most {loss.cap:g} instead of 1, which saves noise",)


def warnings(task: Task, method: type[Method], is_hopeless: bool, expected: Forecast) -> tuple[str, ...]:
    """Return what to know before spending the budget."""
    found = []
    if task.network is not None and method.about.topology is not Topology.GRAPH:
        found.append(
            f"{method.about.name} goes through a coordinator, not over the given graph: no certified graph method has "
            "this penalty, unit or view."
        )
    if is_hopeless:
        found.append(hopeless_words(task, expected))
    if task.target.delta * task.n_records > 1:
        found.append(large_delta_words(task.target.delta, task.n_records))
    if task.target.epsilon > 10:
        found.append(f"eps = {task.target.epsilon:g} protects hardly anybody; use it for comparisons only.")
    return tuple(found)


def hopeless_words(task: Task, expected: Forecast) -> str:
    """Say that nothing is to be expected, and what would help."""
    unit = f"{min(task.sizes)} records per silo" if task.protection.unit is Unit.RECORD else f"{task.n_silos} users"
    return (
        f"{unit} and d = {task.dimension} at eps = {task.target.epsilon:g}: expect no better than {expected.simplest}; "
        "pool silos, lower d, or raise eps."
    )


def large_delta_words(delta: float, n_records: int) -> str:
    """Say what a delta above 1/n allows."""
    return (
        f"delta = {delta:g} is above 1/n = {1 / n_records:.2g}: that allows publishing somebody's record outright. "
        "Choose a delta well below 1/n."
    )
