"""Why a plan has these settings, and what to know before spending its budget, in words."""

from dpadmm import checks
from dpadmm.methods.method import Method, Topology
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.planner.candidates import Candidate, unit_noise
from dpadmm.planner.forecast import Forecast, ScoreKind
from dpadmm.planner.task import Task
from dpadmm.privacy.protection import Unit
from dpadmm.problems.losses import Logistic
from dpadmm.problems.softmax import Softmax


def reasons(chosen: Candidate, n_tried: int, share: float) -> tuple[str, ...]:
    """Return why these settings."""
    task, settings = chosen.task, chosen.settings
    tau = unit_noise(task, settings.method, settings.rounds)
    is_settled = settings.method is NoisyGradients and task.regulariser is None
    time = 1 / settings.mu if is_settled else settings.step * settings.rounds
    one = task.protection.counted.removesuffix("s")
    ridge = "it takes the place of stopping early" if is_settled else f"the weight of one {one} among all"
    chosen_so = (
        "the ridge is chosen so that noise shifts the score of a record by about {}: a larger ridge would learn less, "
        "a smaller one would let in more noise"
        if is_settled
        else "rounds and step sizes are chosen so that noise shifts the score of a record by about {}: a shorter run "
        "would learn less, a longer one would collect more noise"
    )
    said = []
    if share:
        said.append(f"a share of {share:.2g} of the squared budget pays for a column profile, to centre and scale rows")
    elif task.table is not None and task.profile.is_wanted and not task.profile.is_bought:
        said.append("no column profile: its noise would hide too much to be worth the cost")
    if isinstance(task.loss, Logistic | Softmax) and task.loss.cap < 1:
        cap = f"{task.loss.cap:g} instead of 1"
        said.append(f"the pull of badly misclassified records is capped at {cap}, so that less noise is needed")
    return (
        chosen_so.format(f"{tau * time * task.row_norm:.2g}"),
        f"ridge {settings.mu:.3g}: " + ("as given" if task.regulariser is not None else ridge),
        *said,
        f"chosen among {checks.plural(n_tried, 'candidate')} by simulation on synthetic data; no private record was "
        "used",
    )


def warnings(task: Task, method: type[Method], is_hopeless: bool, expected: Forecast) -> tuple[str, ...]:
    """Return what to know before spending the budget."""
    found = []
    if task.network is not None and method.about.topology is not Topology.GRAPH:
        found.append(
            f"{method.about.name} runs through a coordinator, not over the given graph: no graph method is certified "
            "for this penalty, unit or view."
        )
    if is_hopeless:
        found.append(hopeless_words(task, expected))
    if task.target.delta * task.n_records > 1:
        found.append(large_delta_words(task.target.delta, task.n_records))
    if task.target.epsilon > 10:
        found.append(f"epsilon {task.target.epsilon:g} gives hardly any protection. Use it for comparisons only.")
    return tuple(found)


def hopeless_words(task: Task, expected: Forecast) -> str:
    """Say that nothing is to be expected, and what would help."""
    nominal = "" if task.protection.relation.has_public_sizes else "nominally "
    unit = (
        f"{task.n_silos} users"
        if task.protection.unit is Unit.USER
        else f"{nominal}{min(task.sizes)} {task.protection.counted} per silo"
    )
    judged, is_real = expected.judged, expected.score is ScoreKind.R2
    simplest, score = ("predicting the mean", "an R^2 of") if is_real else ("the majority class", "an AUC of")
    name = checks.setting("expected_r2" if is_real else "expected_auc")
    known = "" if judged.is_stated else f"; if your signal is stronger, state it with {name}"
    return (
        f"{unit} with {checks.plural(task.dimension, 'feature')} are too few for epsilon {task.target.epsilon:g}: "
        f"expect no better than {simplest}, if a model without privacy reaches {score} {judged.non_private:g}. Use "
        f"more records or silos, fewer features, or a larger epsilon{known}."
    )


def large_delta_words(delta: float, n_records: int) -> str:
    """Say what a delta above 1/n allows."""
    return (
        f"delta {delta:g} is above 1/n = {1 / n_records:.2g}: such a guarantee allows somebody's record to be "
        "published outright. Choose a delta well below 1/n."
    )
