"""Choose: candidates from theory, compared in simulations on synthetic worlds; and say why. No data come in."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpadmm import checks
from dpadmm.algorithms.method import Method, Topology, plannable
from dpadmm.checks import shown
from dpadmm.engines.round_zero import ProfileRound, share_out
from dpadmm.errors import InputError
from dpadmm.networks.graph import Network
from dpadmm.planning.candidates import (
    NOISE_RATIOS,
    RULE_OF_THUMB,
    Candidate,
    candidate,
    methods_for,
    profile_share,
    reach_of,
    task_to_fit,
    unit_noise,
    why_not,
)
from dpadmm.planning.plan import Forecast, Plan, ScoreKind, course_of
from dpadmm.planning.simulations import WORLDS, SimulatedScores, remembered, simulation_of
from dpadmm.planning.task import Task
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.protection import ONE_RECORD, Protection, Unit
from dpadmm.problems.losses import CappedLogistic, LabelKind, Loss
from dpadmm.problems.regularisers import Regulariser

_HOPELESS = 0.1  # part of the learnable that must survive
_ROUNDING = 1e-9  # of epsilon, in sums of many rounds
_NEARLY = 1.15  # how much more than at best may be lost for the sake of the rule of thumb


@dataclass(frozen=True)
class SimulatedCandidate:
    """A candidate with its scores, one per world."""

    candidate: Candidate
    scores: tuple[SimulatedScores, ...]

    @property
    def kept(self) -> float:
        """Mean part of the learnable loss that survives."""
        return float(np.mean([one.kept for one in self.scores]))

    @property
    def lost(self) -> float:
        """Mean part that does not."""
        return 1.0 - self.kept


def plan(
    task: Task | None = None,
    *,
    method: str | None = None,
    problems: int = 1,
    sizes: Sequence[int] | None = None,
    dimension: int | None = None,
    loss: Loss | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    network: Network | None = None,
    regulariser: Regulariser | None = None,
    protection: Protection = ONE_RECORD,
    row_norm: float = 1.0,
) -> Plan:
    """Return a plan for the task, or for the public facts given one by one; `method` (registry name) forces a method.

    problems: how many problems on the same rows share the budget, one per class for more than two classes. All of them
        read every record, so their costs add up: for Gaussian noise in squares, `m_one = m/sqrt(problems)` (C0). Where
        the method's noise adds up in another way, each problem gets epsilon and delta divided by their number.

    >>> from dpadmm.problems.losses import Logistic
    >>> made = plan(sizes=(400,) * 3, dimension=6, loss=Logistic(), epsilon=1.0, delta=1e-5)
    >>> made.method, made.is_hopeless
    ('p-admm', False)
    """
    if task is None:
        if sizes is None or dimension is None or loss is None or epsilon is None or delta is None:
            raise InputError("Give a task, or sizes, dimension, loss, epsilon and delta (which has no default).")
        task = Task(
            sizes=tuple(sizes),
            dimension=dimension,
            loss=loss,
            target=Target(epsilon, delta),
            protection=protection,
            network=network,
            regulariser=regulariser,
            row_norm=row_norm,
        )
    elif not isinstance(task, Task):
        raise InputError(f"plan takes a Task, public facts only; got {type(task).__name__}.")
    methods = methods_for(task) if method is None else (_fitting(task, method),)
    made: Plan | None = None
    for budget in _budgets(task, methods[0], problems):
        made = _plan(task, budget, methods, problems, is_forced=method is not None)
        is_simple = problems == 1 and budget.profile is None
        if is_simple or made.statement().curve.epsilon(task.target.delta) <= task.target.epsilon * (1 + _ROUNDING):
            return made
    assert made is not None
    raise InputError(
        f"{made.method} cannot share epsilon {task.target.epsilon:g} and delta {task.target.delta:g} between "
        f"{problems} problem(s) and a profile. Choose another algorithm, profile 'off', or a larger delta."
    )


@dataclass(frozen=True)
class UtilityPoint:
    """What a plan for this epsilon is expected to reach."""

    epsilon: float
    method: str
    expected: Forecast
    is_hopeless: bool


def utility_curve(task: Task, epsilons: Sequence[float], method: str | None = None) -> tuple[UtilityPoint, ...]:
    """Return the forecast of the task at other budgets, delta unchanged."""
    points = []
    for epsilon in epsilons:
        made = plan(replace(task, target=Target(epsilon, task.target.delta)), method=method)
        points.append(UtilityPoint(float(epsilon), made.method, made.expected, made.is_hopeless))
    return tuple(points)


@dataclass(frozen=True)
class _Budget:
    """How the whole budget is shared: what round 0 may spend (None: there is none), and each of the problems."""

    profile: Target | None
    problem: Target


def _budgets(task: Task, method: type[Method], problems: int) -> list[_Budget]:
    """Return ways to share the budget, the most generous first; the last is sound for any mechanism."""
    whole, share = task.target, profile_share(task, method)
    if checks.count("problems", problems) == 1 and share == 0:
        return [_Budget(None, whole)]
    (profile, each), delta = share_out(whole, share, problems), whole.delta
    left = whole.epsilon if profile is None else whole.epsilon - profile.epsilon
    apart = Target(left / problems, delta / (problems + (profile is not None)))
    if profile is None:
        return [_Budget(None, each), _Budget(None, apart)]
    own = Target(profile.epsilon, apart.delta)  # a little less for the profile, so that deltas add up as well
    return [*(_Budget(profile, Target(each.epsilon * part, delta)) for part in (1.0, 0.97, 0.9)), _Budget(own, apart)]


def _plan(task: Task, budget: _Budget, methods: Sequence[type[Method]], problems: int, *, is_forced: bool) -> Plan:
    whole, table, reach = task.target, task.table, reach_of(task)
    profile = None
    if budget.profile is not None and table is not None:
        profile = ProfileRound(
            n_numeric=table.n_numeric,
            n_categorical=len(table.categories),
            size=table.counts,
            target=budget.profile,
        )
    task = task_to_fit(replace(task, target=budget.problem), methods[0])
    tried = [one for each in methods for one in climb(task, each)]
    best = choose(tried)
    expected = forecast(task, best.scores)
    is_hopeless = expected.kept < _HOPELESS
    settings = best.candidate.settings
    return Plan(
        **vars(course_of(task, settings, problems, profile)),
        task=task,
        whole=whole,
        settings=settings,
        expected=expected,
        reach=reach,
        signal=float(np.mean([one.norm for one in best.scores])),
        reasons=reasons(task, best.candidate, len(tried), is_forced=is_forced),
        warnings=warnings(task, settings.method, is_hopeless, expected),
        is_hopeless=is_hopeless,
    )


def climb(task: Task, method: type[Method]) -> list[SimulatedCandidate]:
    """Try candidates from the rule of thumb on, towards less noise or more while that pays."""
    start = NOISE_RATIOS.index(RULE_OF_THUMB)
    first = try_all(task, candidate(task, method, NOISE_RATIOS[start]))
    tried = [first]
    for ladder in (NOISE_RATIOS[:start][::-1], NOISE_RATIOS[start + 1 :]):
        before = first
        for ratio in ladder:
            step = candidate(task, method, ratio)
            if any(step.settings == one.candidate.settings for one in tried):
                break
            now = try_all(task, step)
            tried.append(now)
            if now.kept <= before.kept:
                break
            before = now
    return tried


def choose(tried: Sequence[SimulatedCandidate]) -> SimulatedCandidate:
    """Return the candidate nearest to the rule of thumb among the nearly best.

    The worlds are invented, so small differences between candidates say little about other data.
    """
    least = min(one.lost for one in tried)
    near = [one for one in tried if one.lost <= _NEARLY * least or one.lost == least]
    return min(near, key=lambda one: (abs(math.log(one.candidate.ratio / RULE_OF_THUMB)), one.lost))


def try_all(task: Task, candidate: Candidate) -> SimulatedCandidate:
    """Simulate a candidate in every world, or remember what came out."""
    simulation = simulation_of(task, candidate.settings)
    return SimulatedCandidate(candidate, tuple(remembered(simulation, world) for world in WORLDS))


def forecast(task: Task, found: Sequence[SimulatedScores]) -> Forecast:
    """Sum up what the worlds have shown."""
    scores = np.array([one.score for one in found])
    is_signs = task.loss.target is LabelKind.SIGNS
    return Forecast(
        score=ScoreKind.ACCURACY if is_signs else ScoreKind.R2,
        mean=float(scores.mean()),
        spread=float(np.sqrt(scores.var() + np.mean([one.spread**2 for one in found]))),
        low=float(scores.min()),
        high=float(scores.max()),
        non_private=float(np.mean([one.best for one in found])),
        trivial=float(np.mean([one.trivial for one in found])),
        loss=float(np.mean([one.loss for one in found])),
        loss_non_private=float(np.mean([one.loss_best for one in found])),
        loss_trivial=float(np.mean([one.loss_trivial for one in found])),
    )


def _fitting(task: Task, name: str) -> type[Method]:
    known = plannable()
    if name not in known:
        raise InputError(f"No plan can be made for the method {shown(name)}; choose one of {', '.join(known)}.")
    problem = why_not(task, known[name])
    if problem is not None:
        raise InputError(
            f"The method cannot serve this task: {problem}. Leave the method to the planner (None or auto)."
        )
    return known[name]


def reasons(task: Task, chosen: Candidate, n_tried: int, is_forced: bool) -> tuple[str, ...]:
    """Return why these settings."""
    settings = chosen.settings
    tau = unit_noise(task, settings.method, settings.rounds)
    why = "the method was asked for" if is_forced else settings.method.about.why
    time = settings.step * settings.rounds
    capped: tuple[str, ...] = ()
    if isinstance(task.loss, CappedLogistic):
        cap = f"{task.loss.cap:g} instead of 1"
        capped = (f"records that the model gets badly wrong pull with at most {cap}, which saves noise",)
    return (
        why,
        f"the whole budget buys one look at the gradient with a noise of {tau:.2g} per coordinate; descending for a "
        f"time of {time:.3g} in {settings.rounds} rounds leaves about {tau * time * task.row_norm:.2g} on a prediction",
        f"ridge {settings.mu:.3g}: " + ("as given" if task.regulariser is not None else "one record among all"),
        *capped,
        f"chosen among {n_tried} candidate(s) by simulations on synthetic data; no private record was looked at",
    )


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
