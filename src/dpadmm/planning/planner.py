"""Choose: candidates from theory, compared in simulations on synthetic worlds. No data come in."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpadmm import checks
from dpadmm.algorithms.method import Method
from dpadmm.errors import InputError
from dpadmm.networks.graph import Network
from dpadmm.planning.bench import bench_of
from dpadmm.planning.cache import remembered
from dpadmm.planning.candidates import NOISE_RATIOS, RULE_OF_THUMB, Candidate, candidate, methods_for
from dpadmm.planning.forecast import Forecast, Score
from dpadmm.planning.plan import Plan, course_of
from dpadmm.planning.settings import method_named, why_not
from dpadmm.planning.surrogate import task_to_fit
from dpadmm.planning.task import Task
from dpadmm.planning.trial import Trial
from dpadmm.planning.words import reasons, warnings
from dpadmm.planning.worlds import WORLDS
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.curves import epsilon_of_delta, m_of
from dpadmm.privacy.protection import ONE_RECORD, Protection
from dpadmm.problems import losses
from dpadmm.problems.losses import Loss
from dpadmm.problems.regularisers import Regulariser

_HOPELESS = 0.1  # part of the learnable that must survive
_ROUNDING = 1e-9  # of epsilon, in sums of many rounds
_NEARLY = 1.15  # how much more than at best may be lost for the sake of the rule of thumb


@dataclass(frozen=True)
class Tried:
    """A candidate with its trials, one per world."""

    candidate: Candidate
    trials: tuple[Trial, ...]

    @property
    def kept(self) -> float:
        """Mean part of the learnable loss that survives."""
        return float(np.mean([trial.kept for trial in self.trials]))

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
    whole = task.target
    for share in _shares(whole, problems):
        made = _plan(replace(task, target=share), method, problems)
        is_within = problems == 1 or made.statement().curve.epsilon(whole.delta) <= whole.epsilon * (1 + _ROUNDING)
        if is_within:
            return made
    raise InputError(
        f"{made.method} cannot share epsilon {whole.epsilon:g} and delta {whole.delta:g} between {problems} problems. "
        "Choose another algorithm, or a larger delta."
    )


def _shares(target: Target, problems: int) -> list[Target]:
    """Return budgets for one of several problems, the largest first; the last is sound for any mechanism."""
    if checks.count("problems", problems) == 1:
        return [target]
    m = float(m_of(target.epsilon, target.delta)) / math.sqrt(problems)
    in_squares = float(epsilon_of_delta(m, target.delta)) * (1 - _ROUNDING)
    return [Target(in_squares, target.delta), Target(target.epsilon / problems, target.delta / problems)]


def _plan(task: Task, method: str | None, problems: int) -> Plan:
    methods = methods_for(task) if method is None else (_fitting(task, method),)
    task = task_to_fit(task, methods[0])
    tried = [one for each in methods for one in climb(task, each)]
    best = choose(tried)
    expected = forecast(task, best.trials)
    is_hopeless = expected.kept < _HOPELESS
    settings = best.candidate.settings
    return Plan(
        **vars(course_of(task, settings, problems)),
        task=task,
        settings=settings,
        expected=expected,
        signal=float(np.mean([trial.norm for trial in best.trials])),
        reasons=reasons(task, best.candidate, len(tried), is_forced=method is not None),
        warnings=warnings(task, settings.method, is_hopeless, expected),
        is_hopeless=is_hopeless,
    )


def climb(task: Task, method: type[Method]) -> list[Tried]:
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


def choose(tried: Sequence[Tried]) -> Tried:
    """Return the candidate nearest to the rule of thumb among the nearly best.

    The worlds are invented, so small differences between candidates say little about other data.
    """
    least = min(one.lost for one in tried)
    near = [one for one in tried if one.lost <= _NEARLY * least or one.lost == least]
    return min(near, key=lambda one: (abs(math.log(one.candidate.ratio / RULE_OF_THUMB)), one.lost))


def try_all(task: Task, candidate: Candidate) -> Tried:
    """Simulate a candidate in every world, or remember what came out."""
    return Tried(candidate, tuple(remembered(bench_of(task, candidate.settings), world) for world in WORLDS))


def forecast(task: Task, trials: Sequence[Trial]) -> Forecast:
    """Sum the trials up."""
    scores = np.array([trial.score for trial in trials])
    is_signs = task.loss.target is losses.Target.SIGNS
    return Forecast(
        score=Score.ACCURACY if is_signs else Score.R2,
        mean=float(scores.mean()),
        spread=float(np.sqrt(scores.var() + np.mean([trial.spread**2 for trial in trials]))),
        low=float(scores.min()),
        high=float(scores.max()),
        non_private=float(np.mean([trial.best for trial in trials])),
        trivial=float(np.mean([trial.trivial for trial in trials])),
        loss=float(np.mean([trial.loss for trial in trials])),
        loss_non_private=float(np.mean([trial.loss_best for trial in trials])),
        loss_trivial=float(np.mean([trial.loss_trivial for trial in trials])),
    )


def _fitting(task: Task, name: str) -> type[Method]:
    method = method_named(name)
    problem = why_not(task, method)
    if problem is not None:
        raise InputError(
            f"The method cannot serve this task: {problem}. Leave the method to the planner (None or auto)."
        )
    return method
