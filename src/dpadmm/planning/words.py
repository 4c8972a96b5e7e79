"""A plan's reasons and warnings, in words."""

from functools import singledispatch

from dpadmm.algorithms.method import Method, Topology
from dpadmm.planning.candidates import Candidate, unit_noise
from dpadmm.planning.forecast import Forecast
from dpadmm.planning.task import Task
from dpadmm.privacy.protection import Unit
from dpadmm.problems.losses import CappedLogistic, Loss


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
