"""Choose: candidates from theory, compared in simulations on synthetic worlds; and say why. No data come in."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.core.budget import share_out
from dpadmm.core.spec import TrainingSpec
from dpadmm.errors import InputError
from dpadmm.methods.base import Method, plannable
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import Family
from dpadmm.planner.candidates import (
    RULE_OF_THUMB,
    Candidate,
    RowForm,
    Settings,
    candidate,
    form_of,
    interval_budget,
    losses_for,
    methods_for,
    no_sum_words,
    profile_share,
    ratios_for,
    run_of,
    why_not,
)
from dpadmm.planner.forecast import (
    SIGNAL_WORLDS,
    Extent,
    Forecast,
    ScoreKind,
    SignalForecast,
    judged_signal,
    n_drawn,
    run_signal,
    signal_simulation,
    signals_of,
)
from dpadmm.planner.plan import Plan, reasons_of, warnings_of
from dpadmm.planner.simulations import WORLDS, SimulatedScores, run_apart, run_simulation, simulation_of
from dpadmm.planner.task import Task
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.curves import epsilon_of_delta, m_of
from dpadmm.privacy.protection import ONE_RECORD, Protection
from dpadmm.problems.losses import AnyLoss, LabelKind, LinkedLoss, Softmax
from dpadmm.problems.problem import Problem, check_declared
from dpadmm.problems.regularisers import Regulariser
from dpadmm.queries.column_profile import ColumnProfile
from dpadmm.queries.curvature import Curvature

_HOPELESS = 0.1  # part of the learnable that must survive
_DROWNED = 0.25  # weight of what is worse than nothing learned
_ROUNDING = 1e-9  # of epsilon, in sums of many rounds
_SLIGHT = 0.02  # of what can be learned: methods that differ by less are a tie
_SOFTMAX_WORLDS = 3  # their gradients cost more
_NEARLY = 1.08  # how much more than at best may be lost for the sake of a rule: worlds tell no finer differences
_USUAL_EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True)
class SimulatedCandidate:
    """A candidate with its scores, one per world."""

    candidate: Candidate
    scores: tuple[SimulatedScores, ...]

    @property
    def kept(self) -> float:
        """Mean part of the learnable loss that survives; what is worse than nothing learned counts little.

        In worlds where noise drowns everything the best model is none, which must not decide for the others.
        """
        parts = np.array([one.kept for one in self.scores])
        return float(np.where(parts < 0, _DROWNED * parts, parts).mean())

    @property
    def learned(self) -> float:
        """Mean part that survives, in worlds where any does."""
        return float(np.mean([max(one.kept, 0.0) for one in self.scores]))

    @property
    def lost(self) -> float:
        """Mean part that does not."""
        return 1.0 - self.kept


def plan(
    task: Task | None = None,
    *,
    method: str | None = None,
    problems: int | None = 1,
    sizes: Sequence[int] | None = None,
    dimension: int | None = None,
    loss: AnyLoss | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    network: Network | None = None,
    regulariser: Regulariser | None = None,
    protection: Protection = ONE_RECORD,
    row_norm: float = 1.0,
    prevalence: float | None = None,
    expected_auc: float | None = None,
    expected_r2: float | None = None,
) -> Plan:
    """Return a plan for the task, or for the public facts given one by one; `method` (registry name) forces a method.

    problems: how many problems on the same rows share the budget, one per class for more than two classes. All of them
        read every record, so their costs add up: for Gaussian noise in squares, `m_one = m/sqrt(problems)` (C0). Where
        the method's noise adds up in another way, each problem gets epsilon and delta divided by their number. None:
        one, or for `Softmax` one per class if simulations show these to be clearly better (`Plan.n_models` tells).

    >>> from dpadmm.problems.losses import Logistic
    >>> made = plan(sizes=(400,) * 3, dimension=6, loss=Logistic(), epsilon=1.0, delta=1e-5)
    >>> made.method, made.is_hopeless
    ('p-admm', False)
    """
    if task is None:
        if sizes is None or dimension is None or loss is None or epsilon is None or delta is None:
            raise InputError("Give a task, or all of sizes, dimension, loss, epsilon and delta.")
        task = Task(
            sizes=tuple(sizes),
            dimension=dimension,
            loss=loss,
            target=Target(epsilon, delta),
            protection=protection,
            network=network,
            regulariser=regulariser,
            row_norm=row_norm,
            prevalence=prevalence,
            expected_auc=expected_auc,
            expected_r2=expected_r2,
        )
    elif not isinstance(task, Task):
        raise InputError(f"plan takes a Task (public facts only), got {type(task).__name__}.")
    check_declared(Problem.of(task.functions(), regulariser=task.regulariser))
    if problems is None:
        return _better_of_two(task, method)
    return _planned(task, method, problems)


def _planned(task: Task, method: str | None, problems: int) -> Plan:
    methods = _methods(task) if method is None else (_fitting(task, method),)
    whole, task = task.target, replace(task, target=_left(task, methods[0]))
    curvature, lacking = None, tuple[str, ...]()
    if task.aim.wants_intervals:
        curvature, rest, lacking = interval_budget(task, problems)
        task = replace(task, target=rest)
    made: Plan | None = None
    share = _worthwhile_share(task, methods[0], problems)
    for budget in _budgets(task, share, problems):
        made = _plan(task, budget, methods, problems, is_forced=method is not None)
        is_simple = problems == 1 and budget.profile is None
        cost = made.spec.account().curve.epsilon(task.target.delta)
        if is_simple or cost <= task.target.epsilon * (1 + _ROUNDING):
            spec = made.spec
            if curvature is not None:
                spec = TrainingSpec.of(*spec.steps, Curvature(made.run, curvature))
            return replace(made, spec=spec, whole=whole, warnings=(*made.warnings, *lacking))
    assert made is not None
    raise InputError(
        f"{made.method} cannot split epsilon {task.target.epsilon:g} and delta {task.target.delta:g} between "
        f"{checks.plural(problems, 'model')} and a column profile. Choose another method, "
        f"{checks.setting('profile', 'off')}, or a larger delta."
    )


def _better_of_two(task: Task, method: str | None) -> Plan:
    """Return the plan of one softmax model, unless one model for each class loses clearly less in the same worlds."""
    together = _planned(task, method, 1)
    if not isinstance(task.loss, Softmax):
        return together
    one = try_all(_candidate_of(together))
    apart = _planned(replace(task, loss=task.loss.of_margin), method, task.n_classes)
    many = try_apart(_candidate_of(apart), task.n_classes)
    # By what survives: where noise drowns everything, the loss of whatever predicts nothing is the least.
    kept, other = one.learned, many.learned
    is_one = 1 - kept <= max(_NEARLY * (1 - other), 1 - other + _SLIGHT)
    chosen = together if is_one else replace(apart, simulated_score=simulated_score(task, many.scores))
    taken = "one softmax model of all classes" if is_one else "one model for each class against the rest"
    why = (
        f"{taken}: share of the learnable signal that survived noise in simulations: softmax {kept:.2f}, one-vs-rest "
        f"{other:.2f}; near ties go to softmax"
    )
    return replace(chosen, reasons=(chosen.reasons[0], why, *chosen.reasons[1:]))


def _candidate_of(made: Plan) -> Candidate:
    """Return what was planned as it was simulated."""
    return Candidate(made.task, made.settings, RULE_OF_THUMB, made.form)


@dataclass(frozen=True)
class UtilityPoint:
    """What a plan for this epsilon is expected to reach."""

    epsilon: float
    method: str
    expected: Forecast
    is_hopeless: bool


def epsilons_around(epsilon: float) -> tuple[float, ...]:
    """Return usual budgets and this one, in order.

    >>> epsilons_around(2.0)
    (0.1, 0.3, 1.0, 2.0, 3.0, 10.0)
    """
    return tuple(sorted({*_USUAL_EPSILONS, float(epsilon)}))


def utility_curve(
    task: Task,
    epsilons: Sequence[float],
    method: str | None = None,
    problems: int | None = 1,
    *,
    all_signals: bool = False,
) -> tuple[UtilityPoint, ...]:
    """Return the forecast of the task at other budgets, delta unchanged.

    all_signals: for a weak, a moderate and a strong signal, which takes longer; otherwise for the moderate one alone. A
    stated signal replaces them.
    """
    if not all_signals:
        task = with_judged_signal(task)
    points = []
    for epsilon in epsilons:
        made = plan(replace(task, target=Target(epsilon, task.target.delta)), method=method, problems=problems)
        points.append(UtilityPoint(float(epsilon), made.method, made.expected, made.is_hopeless))
    return tuple(points)


@dataclass(frozen=True)
class _Budget:
    """How the whole budget is shared: what round 0 may spend (None: there is none), and each of the problems.

    share: part of m^2 that round 0 gets.
    """

    profile: Target | None
    problem: Target
    share: float = 0.0


def _worthwhile_share(task: Task, method: type[Method], problems: int) -> float:
    """Return the part of m^2 for a profile: the rule's, unless the worlds clearly teach more without one."""
    share = profile_share(task, method)
    if share == 0 or task.profile.share is not None:
        return share
    with_profile, without = (_first(task, method, problems, part) for part in (share, 0.0))
    return share if with_profile.lost <= max(_NEARLY * without.lost, without.lost + _SLIGHT) else 0.0


def _first(task: Task, method: type[Method], problems: int, share: float) -> SimulatedCandidate:
    """Try the rule of thumb with this share of the budget for a profile."""
    sharing = replace(task, target=_budgets(task, share, problems)[0].problem)
    fitted = replace(sharing, loss=losses_for(sharing, method)[0])
    return try_all(candidate(fitted, method, RULE_OF_THUMB, form_of(task, method, share)))


def _budgets(task: Task, share: float, problems: int) -> list[_Budget]:
    """Return ways to share the budget, the most generous first; the last is sound for any mechanism.

    share: part of m^2 for a profile.
    """
    whole = task.target
    if checks.count("problems", problems) == 1 and share == 0:
        return [_Budget(None, whole)]
    (profile, each), delta = share_out(whole, share, problems), whole.delta
    left = whole.epsilon if profile is None else whole.epsilon - profile.epsilon
    apart = Target(left / problems, delta / (problems + (profile is not None)))
    if profile is None:
        return [_Budget(None, each), _Budget(None, apart)]
    own = Target(profile.epsilon, apart.delta)  # a little less for the profile, so that deltas add up as well
    ways = [_Budget(profile, Target(each.epsilon * part, delta), share) for part in (1.0, 0.97, 0.9)]
    return [*ways, _Budget(own, apart, share)]


def _left(task: Task, method: type[Method]) -> Target:
    """Return what is left of the budget beside a profile that was bought before: `m^2 - m_0^2` (C0).

    Where the noise is on samples or gives pure epsilon, epsilons and deltas are added up instead: their costs do not
    add up in squares.
    """
    whole, earlier = task.target, task.profile.earlier_m
    if earlier == 0:
        return whole
    if Family.SAMPLED in method.about.noise or not method.about.has_gaussian_noise:
        own = float(epsilon_of_delta(earlier, whole.delta / 2))
        return Target(max(whole.epsilon - own, 0.0), whole.delta / 2)
    left = float(m_of(whole.epsilon, whole.delta)) ** 2 - earlier**2
    if left <= 0:
        raise InputError(
            f"The column profile of an earlier run alone costs more than epsilon {whole.epsilon:g}. Choose a larger "
            f"epsilon, or {checks.setting('profile', 'off')}."
        )
    return Target(float(epsilon_of_delta(math.sqrt(left), whole.delta)) * (1 - _ROUNDING), whole.delta)


def _plan(task: Task, budget: _Budget, methods: Sequence[type[Method]], problems: int, *, is_forced: bool) -> Plan:
    whole, table = task.target, task.table
    profile = None
    if budget.profile is not None and table is not None:
        profile = ColumnProfile(
            n_numeric=table.n_numeric,
            n_categorical=len(table.categories),
            size=table.counts,
            target=budget.profile,
        )
    form = form_of(task, methods[0], budget.share)
    task = replace(task, target=budget.problem)
    tried = [climb(task, each, form) for each in methods]
    rivals = [choose(each) for each in tried]
    best = first_of_the_nearly_best(rivals)
    fitted, settings = best.candidate.task, best.candidate.settings
    expected = forecast(fitted, settings, form, problems)
    is_hopeless = expected.judged.learned < _HOPELESS
    return Plan(
        spec=TrainingSpec.of(profile, run_of(fitted, settings, problems)),
        task=fitted,
        whole=whole,
        settings=settings,
        expected=expected,
        simulated_score=simulated_score(fitted, best.scores),
        simulated=extent(fitted, settings, form, problems),
        form=form,
        signal=float(np.mean([one.norm for one in best.scores])),
        reasons=(
            "the method was asked for" if is_forced else best.candidate.settings.method.about.why,
            *compared(rivals),
            *reasons_of(best.candidate, sum(map(len, tried)), budget.share),
        ),
        warnings=warnings_of(fitted, settings.method, is_hopeless, expected),
        is_hopeless=is_hopeless,
    )


def climb(task: Task, method: type[Method], form: RowForm) -> list[SimulatedCandidate]:
    """Try losses at the rule of thumb, then less noise and more with the best of them, as long as that pays."""
    ratios = ratios_for(task, method)
    start = ratios.index(RULE_OF_THUMB)
    tried: list[SimulatedCandidate] = []
    for loss in losses_for(task, method):
        tried.append(try_all(candidate(replace(task, loss=loss), method, ratios[start], form)))
        if tried[-1].kept < max(one.kept for one in tried):
            break
    first = max(tried, key=lambda one: one.kept)
    for ladder in (ratios[:start][::-1], ratios[start + 1 :]):
        before = first
        for ratio in ladder:
            step = candidate(first.candidate.task, method, ratio, form)
            if any(step.settings == one.candidate.settings for one in tried):
                break
            now = try_all(step)
            tried.append(now)
            if now.kept <= before.kept:
                break
            before = now
    return tried


def choose(tried: Sequence[SimulatedCandidate]) -> SimulatedCandidate:
    """Return the candidate nearest to the rule of thumb among the nearly best; among these, the one tried first.

    The worlds are invented, so small differences between candidates say little about other data. Losses whose records
    pull less come first: data whose labels no linear model explains gain more from them than the worlds show.
    """
    least = min(one.lost for one in tried)
    near = [one for one in tried if one.lost <= _NEARLY * least or one.lost == least]
    return min(near, key=lambda one: abs(math.log(one.candidate.ratio / RULE_OF_THUMB)))


def first_of_the_nearly_best(chosen: Sequence[SimulatedCandidate]) -> SimulatedCandidate:
    """Return the first method's candidate unless another one loses clearly less."""
    least = min(one.lost for one in chosen)
    return next(one for one in chosen if one.lost <= max(_NEARLY * least, least + _SLIGHT))


def try_all(candidate: Candidate) -> SimulatedCandidate:
    """Simulate a candidate in every world."""
    simulation = simulation_of(candidate.task, candidate.settings, candidate.form)
    return SimulatedCandidate(candidate, tuple(run_simulation(simulation, world) for world in WORLDS))


def try_apart(candidate: Candidate, n_classes: int) -> SimulatedCandidate:
    """Simulate a candidate of one class against the rest for all classes, in every world."""
    simulation = simulation_of(candidate.task, candidate.settings, candidate.form)
    return SimulatedCandidate(candidate, tuple(run_apart(simulation, n_classes, world) for world in WORLDS))


def extent(task: Task, settings: Settings, form: RowForm, problems: int) -> Extent:
    """Return how large the simulations behind a forecast were."""
    simulation = signal_simulation(task, settings, form, problems)
    return Extent(n_drawn(simulation), simulation.dimension, simulation.rounds, simulation.n_classes)


def forecast(task: Task, settings: Settings, form: RowForm, problems: int) -> Forecast:
    """Simulate the plan for each signal, in every world."""
    simulation = signal_simulation(task, settings, form, problems)
    worlds = SIGNAL_WORLDS if simulation.n_classes == 1 else SIGNAL_WORLDS[:_SOFTMAX_WORLDS]
    kind = ScoreKind.AUC if problems == simulation.n_classes == 1 else ScoreKind.MEAN_AUC
    signals, runs = [], 0
    for name, stated in signals_of(task).items():
        found = [run_signal(simulation, world, stated) for world in worlds]
        signals.append(SignalForecast.of(name, stated, found))
        runs = sum(len(one.scores) for one in found)
    is_real = task.loss.target is LabelKind.REALS
    return Forecast(ScoreKind.R2 if is_real else kind, tuple(signals), runs, task.prevalence)


def with_judged_signal(task: Task) -> Task:
    """Return the task with one signal stated: its own, or the moderate one by which plans are judged."""
    level = judged_signal(task)
    if task.loss.target is LabelKind.REALS:
        return replace(task, expected_r2=level)
    return replace(task, expected_auc=level)


def simulated_score(task: Task, found: Sequence[SimulatedScores]) -> float:
    """Return what plans are compared by: minus the mean log-loss in the worlds, else mean accuracy or R^2."""
    has_log_loss = isinstance(task.loss, LinkedLoss | Softmax)
    return float(np.mean([-one.loss if has_log_loss else one.score for one in found]))


def _methods(task: Task) -> tuple[type[Method], ...]:
    found = methods_for(task)
    if not found and task.aim.wants_intervals:
        raise InputError(no_sum_words(task))
    if not found:
        raise InputError(
            f"No method is certified for {task.protection} against {task.protection.observer} with this penalty. "
            "Change the unit, the view or the penalty."
        )
    return found


def _fitting(task: Task, name: str) -> type[Method]:
    known = plannable()
    if name not in known:
        listed, meant = ", ".join(known), checks.nearest(name, known)
        raise InputError(f"The planner does not know the method {shown(name)}; choose one of {listed}.{meant}")
    problem = why_not(task, known[name])
    if problem is not None:
        raise InputError(
            f"The method does not fit this task: {problem}. Let the planner choose the method (None or auto)."
        )
    return known[name]


def compared(rivals: Sequence[SimulatedCandidate]) -> tuple[str, ...]:
    """Say what each method lost in the simulations, where there was a choice."""
    if len(rivals) == 1:
        return ()
    lost = ", ".join(f"{one.candidate.settings.method.about.name} {one.lost:.2f}" for one in rivals)
    return (f"share of the learnable signal lost to noise in simulations: {lost}; near ties go to the first",)
