"""Choose: candidates from theory, compared in simulations on synthetic worlds; and say why. No data come in."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any

import numpy as np

from dpadmm import checks
from dpadmm.checks import plural
from dpadmm.core.budget import share_out
from dpadmm.core.spec import RunSpec, TrainingSpec
from dpadmm.core.task import Aim, Task
from dpadmm.errors import InputError
from dpadmm.methods.base import Method, Topology
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.methods.preconditioned import SECOND_MOMENTS, PreconditionedGradients
from dpadmm.noise.mechanisms import Family
from dpadmm.planner.candidates import (
    RULE_OF_THUMB,
    WIDE_CLIP_RADIUS,
    Candidate,
    RowForm,
    candidate_at,
    form_of,
    losses_for,
    method_called,
    methods_for,
    preconditioned_method,
    profile_share,
    ratios_for,
    run_of,
    unit_noise,
)
from dpadmm.planner.coefficients import (
    IntervalBudget,
    expected_intervals,
    interval_budget,
    interval_json,
    interval_text,
)
from dpadmm.planner.forecast import (
    SIGNAL_WORLDS,
    Forecast,
    ScoreKind,
    SignalForecast,
    SimulatedExtent,
    run_signal,
    signal_simulation,
    signals_of,
)
from dpadmm.planner.simulations import WORLDS, run_apart, run_simulation, simulation_of
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.curves import epsilon_of_delta, m_of
from dpadmm.privacy.protection import Unit
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import Huber, LabelKind, LinkedLoss, Logistic, Softmax, loss_kind
from dpadmm.problems.problem import Problem, check_declared
from dpadmm.problems.silos import Silos
from dpadmm.problems.streams import SiloStream
from dpadmm.queries.column_profile import ColumnProfile
from dpadmm.queries.curvature import Curvature, ScoreProducts

_HOPELESS = 0.1  # part of the learnable that must survive
_DROWNED = 0.25  # weight of what is worse than nothing learned
_ROUNDING = 1e-9  # of epsilon, in sums of many rounds
_SLIGHT = 0.02  # of what can be learned: methods that differ by less are a tie
_FAR_MORE = 0.04  # of what can be learned: much to gain for rows that are shortened less, and little to lose
_SOFTMAX_WORLDS = 3  # their gradients cost more
_NEARLY = 1.08  # how much more than at best may be lost for the sake of a rule: worlds show no finer differences


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """A training's specification, with the task it serves, what to expect, and why.

    spec: what will be released, in order: a column profile perhaps, one run, the curvature perhaps. candidate: the
    method with its numbers, and the task with the loss that is fitted and one problem's budget. whole: the budget of
    everything together.
    expected: what simulations on synthetic data show for the stated signal, or for three; simulated: how large these
    were. simulated_score: what plans are compared by, minus the log-loss in the worlds of simulations, or where there
    is none accuracy or R^2; no forecast for anybody's data. signal: norm of the models learned there,
    against which `noise_std` can be held. is_hopeless: for the stated or a moderate signal, a simulated model was
    hardly better than one that learned nothing.
    reasons: why; the first is about the method, the last about how the settings were chosen.
    """

    spec: TrainingSpec
    candidate: Candidate
    whole: Target
    expected: Forecast
    simulated_score: float
    simulated: SimulatedExtent
    signal: float
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_hopeless: bool = False

    @property
    def task(self) -> Task:
        """The task, with the loss that is fitted and the budget of one problem."""
        return self.candidate.task

    @property
    def run(self) -> RunSpec:
        """The rounds of its method."""
        return self.spec.runs[0]

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.candidate.method.about.name

    @property
    def rounds(self) -> int:
        """Number of rounds K."""
        return self.run.setting.rounds

    @property
    def clip_radius(self) -> float | None:
        """The radius to which rows are shortened, in units of a usual row; None where their encoding is settled."""
        return self.candidate.form.clip_radius

    @property
    def profile(self) -> ColumnProfile | None:
        """What is released before the first round; None for nothing."""
        first = self.spec.steps[0]
        return first if isinstance(first, ColumnProfile) else None

    @property
    def curvature(self) -> Curvature | None:
        """What is released after the last, for intervals; None for nothing."""
        return next((each for each in self.spec.sums if type(each) is Curvature), None)

    @property
    def lacks_intervals(self) -> bool:
        """Whether intervals were asked for and none are planned; the last warning says why."""
        return self.task.aim is Aim.INFERENCE and self.curvature is None

    @cached_property
    def _levels(self) -> tuple[Floats, Floats]:
        """Sensitivity and noise per silo, means over the releases (a coordinator's noise counts for each)."""
        n = self.task.n_silos
        totals, counts = np.zeros((2, n)), np.zeros(n)
        for (kind, _), row in self.run.noise_plan(is_secure=False).releases.items():
            for agent, release in row.items() if kind != SECOND_MOMENTS else ():
                own = slice(None) if agent is None or agent < 0 else agent
                totals[0, own] += release.bound
                totals[1, own] += release.level
                counts[own] += 1
        return totals[0] / counts, totals[1] / counts

    @property
    def sensitivity(self) -> Floats:
        """How far one unit can move a message, per silo."""
        return self._levels[0]

    @property
    def noise_std(self) -> Floats:
        """Noise per coordinate of a message (spherical Laplace: scale), per silo."""
        return self._levels[1]

    def problem(self, silos: Silos | SiloStream) -> Problem:
        """Return the problem on these silos; refuse silos that are not the ones planned for."""
        return replace(self.run.setting.problem, functions=self.task.risk(silos, self.candidate.mu))

    def describe(self) -> str:
        """Return what a reader needs of the plan, a fact a line, at most 80 columns wide; `as_json` has all of it."""
        task = self.task
        hidden = task.protection
        number = f"{plural(task.n_records, hidden.counted.removesuffix('s'))}{hidden.counting_note}"
        nominal = "" if hidden.relation.has_public_sizes else "nominally "
        each = "" if self.run.n_models == 1 else f" of each of {self.run.n_models} classes against the rest"
        facts = [
            ("Task", f"{loss_kind(task.loss)}{each} on {nominal}{number} in {plural(task.n_silos, 'silo')}"),
            ("Features", f"{task.dimension} after encoding"),
            ("Budget", f"epsilon {self.whole.epsilon:g}, delta {self.whole.delta:g}"),
            ("Protects", f"{hidden} from {hidden.observer}"),
            ("Encoding", self._encoding_text()),
            ("Intervals", interval_text(self.task, self.curvature)),
            ("Method", f"{self.method}, {plural(self.rounds, 'round')}"),
            *zip(("Why", ""), dict.fromkeys((*self.reasons[:1], *self.reasons[-1:])), strict=False),
            ("Noise", self._noise_text()),
            *zip_longest(("Expected",), self.expected.lines(), fillvalue=""),
            ("Simulated", self.simulated.limits(task, self.rounds)),
            *(("Warning", warning) for warning in self.warnings),
        ]
        return "\n".join(_line(label, text) for label, text in facts if text)

    def _noise_text(self) -> str:
        """Say what is added to messages, and what it hides; of shares also what they add up to."""
        hidden, counted, moved = self.task.protection, self.noise_std.mean(), f"{self.sensitivity.mean():.3g}"
        change = hidden.relation.changing
        shares = self.spec.facts.shares
        if shares is None:
            alone = hidden.change_in_one_silo
            return f"{counted:.3g} on every number sent; {change} {alone} moves a message by at most {moved}"
        share = counted / math.sqrt(shares.honest)
        total = share * math.sqrt(shares.silos)
        return (
            f"{share:.3g} on every number a silo sends, {total:.3g} in the sum, of which {counted:.3g} counts (from "
            f"{plural(shares.honest, 'honest silo')}); {change} {hidden.change} moves the sum by at most {moved}"
        )

    def _encoding_text(self) -> str:
        """Say how rows are encoded, where that is planned."""
        if self.clip_radius is None:
            return ""
        if self.profile is not None:
            return f"by a column profile (noisy counts), released first for epsilon {self.profile.target.epsilon:.3g}"
        if self.task.profile.earlier_run is not None:
            return f"by the column profile that run {self.task.profile.earlier_run!r} released, at no further cost"
        return "by public bounds and categories alone"

    @property
    def expected_intervals(self) -> float:
        """How many coefficients are expected to have intervals, if columns are unrelated; see `expected_intervals`."""
        return 0.0 if self.curvature is None else expected_intervals(self.task, self.curvature.target)

    def __str__(self) -> str:
        """As `describe`."""
        return self.describe()

    def as_json(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        shares, network = self.spec.facts.shares, self.run.setting.network
        return {
            "task": task_json(self.task),
            "method": self.method,
            "algorithm": repr(self.run.method),
            "rounds": self.rounds,
            "step": self.candidate.step,
            "schedule": repr(self.run.schedule),
            "output": self.run.output.name.lower(),
            "edges": None if network is None else network.edges.tolist(),
            "mu": self.candidate.mu,
            "weights": "pooled",
            "whole_epsilon": self.whole.epsilon,
            "clip_radius": self.clip_radius,
            "profile_epsilon": None if self.profile is None else self.profile.target.epsilon,
            "curvature_epsilon": None if self.curvature is None else self.curvature.target.epsilon,
            **interval_json(self.task, self.curvature),
            "tolerance": self.run.setting.tolerance,
            "noise_std": self.noise_std.tolist(),
            "share_std": None if shares is None else (self.noise_std / math.sqrt(shares.honest)).tolist(),
            "sensitivity": self.sensitivity.tolist(),
            "signal": self.signal,
            "expected": self.expected.as_json(),
            "simulated": vars(self.simulated) | {"limits": self.simulated.limits(self.task, self.rounds)},
            "reasons": list(self.reasons),
            "warnings": list(self.warnings),
            "is_hopeless": self.is_hopeless,
        }


def _line(label: str, text: str) -> str:
    """Return a fact under its label, wrapped."""
    indent = f"{label:<10}"
    return textwrap.fill(
        text,
        80,
        initial_indent=indent,
        subsequent_indent=" " * len(indent),
        break_long_words=False,
        break_on_hyphens=False,
    )


@dataclass(frozen=True)
class Trial:
    """A candidate, and how it did in the simulated worlds.

    kept: mean part of the learnable loss that survives; what is worse than nothing learned counts little, since in
    worlds where noise drowns everything the best model is none, which must not decide for the others. learned: mean
    part that survives, in worlds where any does. score: minus the mean log-loss, else accuracy or R^2. norm: of the
    models.
    """

    candidate: Candidate
    kept: float
    learned: float
    score: float
    norm: float

    @property
    def lost(self) -> float:
        """Mean part of the learnable loss that does not survive."""
        return 1.0 - self.kept


def plan(task: Task, *, method: str | None = None, n_models: int | None = 1, is_federated: bool = False) -> Plan:
    """Return a plan for the task; `method` (registry name) forces a method.

    n_models: how many models of the same rows share the budget, one per class for more than two classes. All of them
        read every record, so their costs add up: for Gaussian noise in squares, `m_one = m/sqrt(n_models)` (C0). Where
        the method's noise adds up in another way, each model gets epsilon and delta divided by their number. None:
        one, or for `Softmax` one per class if simulations show these to be clearly better (see `Plan.run.n_models`).
    is_federated: choose among what silos can run by themselves.

    >>> task = Task(sizes=(400,) * 3, dimension=6, loss=Logistic(), target=Target(1.0, 1e-5))
    >>> plan(task).method, plan(task).is_hopeless
    ('p-admm', False)
    """
    if not isinstance(task, Task):
        raise InputError(f"plan takes a Task (public facts only), got {type(task).__name__}.")
    check_declared(Problem.of(task.functions(), regulariser=task.regulariser))
    if n_models is None:
        return _better_of_two(task, method)
    return _plan_models(task, method, checks.count("n_models", n_models), is_federated=is_federated)


def _plan_models(task: Task, method: str | None, n_models: int, *, is_federated: bool = False) -> Plan:
    """Return the plan of so many models; those of several classes are trained against the rest."""
    methods = methods_for(task) if method is None else (method_called(task, method),)
    few = preconditioned_method(task) if method is None and n_models == 1 and not is_federated else None
    methods = methods if few is None else (few,)
    whole, budget = task.target, IntervalBudget(task.target)
    if task.profile.earlier_m > 0:
        task = replace(task, target=_rest_beside(task, methods[0]))
    if task.aim is Aim.INFERENCE:
        budget = interval_budget(task)
        task = replace(task, target=budget.rest)
    share, target = _worthwhile_share(task, methods[0], n_models), task.target
    form = _form_for_numbers(task, methods[0], share)
    for of_profile, of_model in _shared_budgets(target, share, n_models):
        tried = [climb_hill(replace(task, target=of_model), each, form) for each in methods]
        rivals = [choose(each) for each in tried]
        best = nearly_best(rivals, _SLIGHT)[0]  # near ties go to the method that is named first
        run = run_of(best.candidate, n_models)
        profile = None
        if of_profile is not None and task.table is not None:
            numbers, categories = task.table.n_numeric + task.table.n_targets, len(task.table.categories)
            profile = ColumnProfile(
                n_numeric=numbers, n_categorical=categories, size=task.table.counts, target=of_profile
            )
        spec = TrainingSpec.of(profile, run)
        is_simple = n_models == 1 and of_profile is None
        if is_simple or spec.account().curve.epsilon(target.delta) <= target.epsilon * (1 + _ROUNDING):
            break
    else:
        raise InputError(
            f"{best.candidate.method.about.name} cannot split epsilon {target.epsilon:g} and delta {target.delta:g} "
            f"between {plural(n_models, 'model')} and a column profile. Choose another method, "
            f"{checks.option_name('profile', 'off')}, or a larger delta."
        )
    if budget.curvature is not None:
        products = None if budget.products is None else ScoreProducts(run, budget.products)
        spec = TrainingSpec.of(*spec.steps, Curvature(run, budget.curvature), products)
    expected, simulated = forecast(best.candidate, n_models)
    is_hopeless = expected.judged.learned < _HOPELESS
    why = best.candidate.method.about.why if method is None else _beside_own_choice(best, form)
    return Plan(
        spec=spec,
        candidate=best.candidate,
        whole=whole,
        expected=expected,
        simulated_score=best.score,
        simulated=simulated,
        signal=best.norm,
        reasons=(why, *_reasons(best.candidate, rivals, sum(map(len, tried)), share)),
        warnings=(*_warnings(best.candidate, is_hopeless, expected), *budget.lacking),
        is_hopeless=is_hopeless,
    )


def _better_of_two(task: Task, method: str | None) -> Plan:
    """Return the plan of one softmax model, unless one model for each class loses clearly less in the same worlds."""
    together = _plan_models(task, method, 1)
    if not isinstance(task.loss, Softmax):
        return together
    one = try_out(together.candidate)
    apart = _plan_models(replace(task, loss=task.loss.of_margin), method, task.n_classes)
    many = try_out(apart.candidate, task.n_classes)
    # By what survives: where noise drowns everything, the loss of whatever predicts nothing is the least.
    kept, other = one.learned, many.learned
    is_one = 1 - kept <= max(_NEARLY * (1 - other), 1 - other + _SLIGHT)
    chosen = together if is_one else replace(apart, simulated_score=many.score)
    taken = "one softmax model of all classes" if is_one else "one model for each class against the rest"
    why = (
        f"{taken}: share of the learnable signal that survived noise in simulations: softmax {kept:.2f}, one-vs-rest "
        f"{other:.2f}; near ties go to softmax"
    )
    return replace(chosen, reasons=(chosen.reasons[0], why, *chosen.reasons[1:]))


def _worthwhile_share(task: Task, method: type[Method], n_models: int) -> float:
    """Return the part of m^2 for a profile: the rule's, unless the worlds clearly teach more without one."""
    share = profile_share(task, method)
    if share == 0 or task.profile.share is not None:
        return share
    with_profile, without = (_first(task, method, n_models, part).lost for part in (share, 0.0))
    return share if with_profile <= max(_NEARLY * without, without + _SLIGHT) else 0.0


def _first(task: Task, method: type[Method], n_models: int, share: float, form: RowForm | None = None) -> Trial:
    """Try the rule of thumb with this share of the budget for a profile."""
    sharing = replace(task, target=_shared_budgets(task.target, share, n_models)[0][1])
    fitted = replace(sharing, loss=losses_for(sharing, method)[0])
    return try_out(candidate_at(fitted, method, RULE_OF_THUMB, form or form_of(task, method, share)))


def _form_for_numbers(task: Task, method: type[Method], share: float) -> RowForm:
    """Return how rows are encoded: where the target is a number and the worlds teach far more so, in longer rows.

    Shortened rows say in which direction a record lies, not how far. That costs most where columns are numbers and the
    noise is small. Decided without penalty and threshold, so that candidates of a search share their rows.
    """
    form = form_of(task, method, share)
    if not isinstance(task.loss, Huber) or task.aim is not Aim.PREDICTION or form.clip_radius is None:
        return form
    plain, wide = replace(task, regulariser=None), replace(form, clip_radius=WIDE_CLIP_RADIUS)
    usual, other = (_first(plain, method, 1, share, each).lost for each in (form, wide))
    return wide if other <= _FAR_MORE < usual - other else form


def _shared_budgets(whole: Target, share: float, n_models: int) -> list[tuple[Target | None, Target]]:
    """Return what a profile may spend (None: there is none), and each of the models: the most generous way first.

    The last way is sound for any mechanism. share: part of m^2 for the profile.
    """
    if n_models == 1 and share == 0:
        return [(None, whole)]
    (profile, each), delta = share_out(whole, share, n_models), whole.delta
    left = whole.epsilon if profile is None else whole.epsilon - profile.epsilon
    apart = Target(left / n_models, delta / (n_models + (profile is not None)))
    if profile is None:
        return [(None, each), (None, apart)]
    ways = [(profile, Target(each.epsilon * part, delta)) for part in (1.0, 0.97, 0.9)]
    # A little less for the profile, so that deltas add up as well.
    return [*ways, (Target(profile.epsilon, apart.delta), apart)]


def _rest_beside(task: Task, method: type[Method]) -> Target:
    """Return what is left of the budget beside a profile that was paid for before: `m^2 - m_0^2` (C0).

    Where the noise is on samples or gives pure epsilon, epsilons and deltas are added up instead: their costs do not
    add up in squares.
    """
    whole, earlier = task.target, task.profile.earlier_m
    if Family.SAMPLED in method.about.noise or not method.about.has_gaussian_noise:
        own = epsilon_of_delta(earlier, whole.delta / 2)
        return Target(max(whole.epsilon - own, 0.0), whole.delta / 2)
    left = m_of(whole.epsilon, whole.delta) ** 2 - earlier**2
    if left <= 0:
        raise InputError(
            f"The column profile of an earlier run alone costs more than epsilon {whole.epsilon:g}. Choose a larger "
            f"epsilon, or {checks.option_name('profile', 'off')}."
        )
    return Target(epsilon_of_delta(math.sqrt(left), whole.delta) * (1 - _ROUNDING), whole.delta)


def climb_hill(task: Task, method: type[Method], form: RowForm) -> list[Trial]:
    """Try losses at the rule of thumb, then less noise and more with the best of them, as long as that pays."""
    ratios = ratios_for(task, method)
    start = ratios.index(RULE_OF_THUMB)
    tried: list[Trial] = []
    first: Trial | None = None
    for loss in losses_for(task, method):
        now = try_out(candidate_at(replace(task, loss=loss), method, RULE_OF_THUMB, form))
        tried.append(now)
        if first is None or now.kept > first.kept:
            first = now
        elif now.kept < first.kept:
            break
    assert first is not None
    seen = {(one.candidate.rounds, one.candidate.step, one.candidate.mu) for one in tried}
    for ladder in (ratios[:start][::-1], ratios[start + 1 :]):
        before = first
        for ratio in ladder:
            step = candidate_at(first.candidate.task, method, ratio, form)
            numbers = (step.rounds, step.step, step.mu)
            if numbers in seen:
                break
            seen.add(numbers)
            now = try_out(step)
            tried.append(now)
            if now.kept <= before.kept:
                break
            before = now
    return tried


def choose(tried: Sequence[Trial]) -> Trial:
    """Return the candidate nearest to the rule of thumb among the nearly best; among these, the one tried first.

    The worlds are invented, so small differences between candidates say little about other data. Losses whose records
    pull less come first: data whose labels no linear model explains gain more from them than the worlds show.
    """
    return min(nearly_best(tried), key=lambda one: abs(math.log(one.candidate.ratio / RULE_OF_THUMB)))


def nearly_best(trials: Sequence[Trial], slight: float = 0.0) -> list[Trial]:
    """Return the trials that lose hardly more than the best one, in order; slight: this much more is a tie as well."""
    least = min([one.lost for one in trials])
    return [one for one in trials if one.lost <= max(_NEARLY * least, least + slight)]


def try_out(candidate: Candidate, n_classes: int = 1) -> Trial:
    """Simulate a candidate in every world; one of several classes against the rest for all of them."""
    simulation, loss = simulation_of(candidate), candidate.task.loss
    if n_classes == 1:
        found = [run_simulation(simulation, world) for world in WORLDS]
    else:
        found = [run_apart(simulation, n_classes, world) for world in WORLDS]
    parts = np.array([one.kept for one in found])
    has_log_loss = isinstance(loss, LinkedLoss | Softmax)
    return Trial(
        candidate,
        kept=float(np.where(parts < 0, _DROWNED * parts, parts).mean()),
        learned=float(np.maximum(parts, 0.0).mean()),
        score=float(np.mean([-one.loss if has_log_loss else one.score for one in found])),
        norm=float(np.mean([one.norm for one in found])),
    )


def forecast(candidate: Candidate, n_models: int) -> tuple[Forecast, SimulatedExtent]:
    """Simulate the plan for each signal, in every world; return also how large the simulations were."""
    task, simulation = candidate.task, signal_simulation(candidate, n_models)
    worlds = SIGNAL_WORLDS if simulation.n_classes == 1 else SIGNAL_WORLDS[:_SOFTMAX_WORLDS]
    kind = ScoreKind.AUC if n_models == simulation.n_classes == 1 else ScoreKind.MEAN_AUC
    if task.loss.target is LabelKind.REALS:
        kind = ScoreKind.R2
    signals, runs = [], 0
    for name, stated in signals_of(task).items():
        found = [run_signal(simulation, world, stated) for world in worlds]
        signals.append(SignalForecast.of(name, stated, found))
        runs = len(found) * len(found[0].scores)
    extent = SimulatedExtent(simulation.n_drawn, simulation.dimension, simulation.rounds, simulation.n_classes)
    return Forecast(kind, tuple(signals), runs, task.prevalence), extent


def _beside_own_choice(asked: Trial, form: RowForm) -> str:
    """Say what the planner would choose in place of the method that was asked for, and why."""
    task, about = asked.candidate.task, asked.candidate.method.about
    try:
        others = methods_for(task)
    except InputError:
        return "the method was asked for"
    if asked.candidate.method in others:
        return f"the method was asked for; left to itself, the planner would consider it: {about.why}"
    own = nearly_best([choose(climb_hill(task, each, form)) for each in others], _SLIGHT)[0]
    rival, pure = own.candidate.method.about, ", of pure epsilon," if about.is_pure else ""
    return (
        f"the method was asked for; the planner would choose {rival.name} ({rival.why}). Share of the learnable signal "
        f"lost to noise in simulations: {about.name}{pure} {asked.lost:.2f}, {rival.name} {own.lost:.2f}"
    )


def _reasons(chosen: Candidate, rivals: Sequence[Trial], n_tried: int, share: float) -> list[str]:
    """Return why this method and these numbers. rivals: the best of each method. share: of m^2, for a profile."""
    task, lines = chosen.task, []
    if len(rivals) > 1:
        lost = ", ".join(f"{one.candidate.method.about.name} {one.lost:.2f}" for one in rivals)
        lines.append(f"share of the learnable signal lost to noise in simulations: {lost}; near ties go to the first")
    is_few = issubclass(chosen.method, PreconditionedGradients)
    takes_ridge = (is_few or chosen.method is NoisyGradients) and task.regulariser is None
    time = 1 / chosen.mu if takes_ridge else chosen.step * chosen.rounds
    moved = f"{unit_noise(task, chosen.method, chosen.rounds) * time * task.row_norm:.2g}"
    ridge = f"the weight of one {task.protection.counted.removesuffix('s')} among all"
    if takes_ridge:
        ridge = "it takes the place of stopping early"
        lines.append(
            f"the ridge is chosen so that noise shifts the score of a record by about {moved}: a larger ridge would "
            "learn less, a smaller one would let in more noise"
        )
    else:
        lines.append(
            f"rounds and step sizes are chosen so that noise shifts the score of a record by about {moved}: a shorter "
            "run would learn less, a longer one would collect more noise"
        )
    lines.append(f"ridge {chosen.mu:.3g}: " + ("as given" if task.regulariser is not None else ridge))
    if is_few:
        lines.append(
            f"{chosen.rounds} rounds, the first for a noisy matrix of second moments, save more passes over the rows "
            "than the matrix takes, and lose nothing with so many records for the budget"
        )
    if share:
        lines.append(
            f"a share of {share:.2g} of the squared budget pays for a column profile, to centre and scale rows"
        )
    elif task.table is not None and task.profile.is_wanted and task.profile.earlier_run is None:
        lines.append("no column profile: its noise would hide too much to be worth the cost")
    if isinstance(task.loss, Logistic | Softmax) and task.loss.cap < 1:
        cap = f"{task.loss.cap:g} instead of 1"
        lines.append(f"the pull of badly misclassified records is capped at {cap}, so that less noise is needed")
    lines.append(
        f"chosen among {plural(n_tried, 'candidate')} by simulation on synthetic data; no private record was used"
    )
    return lines


def _warnings(chosen: Candidate, is_hopeless: bool, expected: Forecast) -> list[str]:
    """Return what to know before spending the budget."""
    task, about, found = chosen.task, chosen.method.about, []
    if task.network is not None and about.topology is not Topology.GRAPH:
        found.append(
            f"{about.name} runs through a coordinator, not over the given graph: no graph method is certified "
            "for this penalty, unit or view."
        )
    if is_hopeless:
        found.append(hopeless_text(task, expected))
    if task.target.delta * task.n_records > 1:
        found.append(large_delta_text(task.target.delta, task.n_records))
    if task.target.epsilon > 10:
        found.append(f"epsilon {task.target.epsilon:g} gives hardly any protection. Use it for comparisons only.")
    return found


def hopeless_text(task: Task, expected: Forecast) -> str:
    """Say that nothing is to be expected, and what would help."""
    nominal = "" if task.protection.relation.has_public_sizes else "nominally "
    unit = (
        f"{task.n_silos} users"
        if task.protection.unit is Unit.USER
        else f"{nominal}{min(task.sizes)} {task.protection.counted} per silo"
    )
    judged, is_real = expected.judged, expected.score is ScoreKind.R2
    simplest, score = ("predicting the mean", "an R^2 of") if is_real else ("the majority class", "an AUC of")
    name = checks.option_name("expected_r2" if is_real else "expected_auc")
    known = "" if judged.is_stated else f"; if your signal is stronger, state it with {name}"
    return (
        f"{unit} with {checks.plural(task.dimension, 'feature')} are too few for epsilon {task.target.epsilon:g}: "
        f"expect no better than {simplest}, if a model without privacy reaches {score} {judged.non_private:g}. Use "
        f"more records or silos, fewer features, or a larger epsilon{known}."
    )


def large_delta_text(delta: float, n_records: int) -> str:
    """Say what a delta above 1/n allows."""
    return (
        f"delta {delta:g} is above 1/n = {1 / n_records:.2g}: such a guarantee allows somebody's record to be "
        "published outright. Choose a delta well below 1/n."
    )


def task_json(task: Task) -> dict[str, Any]:
    """Return the task as plain values; loss and regulariser as they are written in Python."""
    who, facts = task.protection, ("dimension", "row_norm", "prevalence", "expected_auc", "expected_r2")
    return {name: getattr(task, name) for name in facts} | {
        "sizes": list(task.sizes),
        "loss": repr(task.loss),
        "epsilon": task.target.epsilon,
        "delta": task.target.delta,
        "unit": who.unit.value,
        "relation": who.relation.value,
        "view": who.view.value,
        "colluders": who.n_colluders,
        "records_per_person": who.records_per_person,
        "silos_per_person": who.silos_per_person,
        "edges": None if task.network is None else task.network.edges.tolist(),
        "regulariser": None if task.regulariser is None else repr(task.regulariser),
        "aim": task.aim.value,
    }
