"""Choose between candidates: for nothing in simulations, then, among the most promising, by noisy scores (C15).

A candidate is a task whose settings the user proposes; all are about the same rows, people and budget. Every one is
planned, and thereby simulated on synthetic worlds, at no cost. Where the records are many enough for noisy scores to
tell candidates apart, the best few are trained, each with its share of the budget, and compared:

    m^2 = m_profile^2 + m_scores^2 + K m_each^2        (C0)

Scores are sums over all training records, none of which is held back: records that are held back help neither training
nor, being few, the comparison, while a hundredth of m^2 pays for comparing on all of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.special import log_expit

from dpadmm import checks
from dpadmm.core.bought import BoughtProfile, statement_with
from dpadmm.core.local import LocalEngine
from dpadmm.core.round_zero import ProfileRound, epsilon_of_part
from dpadmm.core.search import CourseSearch, ScoreRound, SearchRun, run_search
from dpadmm.data.raw import RawSilos
from dpadmm.errors import InputError
from dpadmm.noise.draws import Sampler
from dpadmm.noise.promises import Family
from dpadmm.noise.secure import SecureSampler
from dpadmm.planner.candidates import noise_of_sum
from dpadmm.planner.carrying import EncodedRows, PlanOutcome, carry_out, planned_rows, profile_epsilon_of
from dpadmm.planner.plan import Plan
from dpadmm.planner.planner import plan as make_plan
from dpadmm.planner.task import Task
from dpadmm.privacy.accounting import Statement
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.certificates.sums import score_differences
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.ledger import ConfirmedLedger
from dpadmm.privacy.protection import Unit
from dpadmm.privacy.records import Origin
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import LabelKind, LinkedLoss, Loss
from dpadmm.problems.silos import Silos
from dpadmm.problems.softmax import AnyLoss, Softmax

STEP = 2.0**-20
"""What a record adds to a score is a whole multiple of this, so that sums are exact."""

USUALLY_COMPARED = 2
_WORST = 50.0  # losses beyond it are as bad as can be: infinities cannot be compared
_WITHIN = 1 - 2.0**-20  # so that no rounding makes a vector longer than its reach
_LOG_REACH, _ERROR_REACH = 0.5, 1.0
_LEAST_SHARE, _MOST_SHARE, _SEEN = 0.01, 0.1, 0.001
_MOST_NOISE = 0.007  # of a mean score; where a tenth of the budget leaves more, nothing is learned by comparing
_SAME_LOSS, _SAME_NORM = 0.001, 0.05  # candidates this close in all worlds are one and the same
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class SearchPlan:
    """Candidates with their plans, of which some will be trained and compared.

    plans: of every candidate, in the order of the tasks, with the budget that it would be trained with.
    trained: which of them will be, the most promising in simulations first. One alone gets the whole budget.
    profile: what this run releases first for all of them. scores: what the comparison may spend; None for one.
    """

    whole: Target
    plans: tuple[Plan, ...]
    trained: tuple[int, ...]
    profile: ProfileRound | None = None
    scores: ScoreRound | None = None

    @property
    def best(self) -> Plan:
        """The plan of the most promising candidate."""
        return self.plans[self.trained[0]]

    @property
    def simulated(self) -> tuple[float, ...]:
        """How each candidate did in the simulations, higher being better: minus the log-loss, or accuracy, or R^2."""
        return tuple(plan.simulated_score for plan in self.plans)

    def search(self) -> CourseSearch:
        """Return what will be run, where several are."""
        assert self.scores is not None
        first, *others = (self.plans[number] for number in self.trained)
        return CourseSearch((replace(first, profile=self.profile), *others), self.scores)

    def check(self, bought: BoughtProfile | None = None) -> None:
        """Refuse what would cost more than the budget, or cannot be released; from public facts alone."""
        if self.scores is None:
            self.best.whole_plan(True)
            return
        everything = self.search().whole_plan(True)
        said = everything.statement() if bought is None else statement_with(everything, bought.release)
        if said.curve.epsilon(self.whole.delta) > self.whole.epsilon * (1 + _ROUNDING):
            raise InputError(
                f"Epsilon {self.whole.epsilon:g} cannot be split between {len(self.trained)} candidates and their "
                f"scores. Compare fewer candidates, or let simulations choose: {checks.setting('compared', 1)}. "
                "Nothing was spent."
            )


def plan_search(
    tasks: Sequence[Task], methods: Sequence[str | None], run: str, *, problems: int = 1, compared: int | None = None
) -> SearchPlan:
    """Plan all candidates, and which of them are trained.

    tasks: at least two, the same but for loss and penalty. methods: of each, None where the planner chooses.
    run: the name of the run, under which its profile is known. problems: on the same rows, see `plan`.
    compared: how many are trained; 1 chooses in simulations alone. None: as many as are worth it, at most two.
    """
    if len(tasks) < 2:
        raise InputError(f"A search needs at least 2 candidates, got {len(tasks)}.")
    number = min(USUALLY_COMPARED if compared is None else checks.count("compared", compared), len(tasks))
    lead = make_plan(tasks[0], method=methods[0], problems=problems)
    share = score_share(lead, is_asked=compared is not None)
    if number > 1 and share > 0:
        found = _compared(tasks, methods, run, lead, share, number, problems, is_asked=compared is not None)
        if found is not None:
            return found
    plans = tuple(make_plan(task, method=name, problems=problems) for task, name in zip(tasks, methods, strict=True))
    best = max(range(len(plans)), key=lambda each: plans[each].simulated_score)
    return SearchPlan(lead.whole, plans, (best,))


def _compared(
    tasks: Sequence[Task],
    methods: Sequence[str | None],
    run: str,
    lead: Plan,
    share: float,
    number: int,
    problems: int,
    *,
    is_asked: bool,
) -> SearchPlan | None:
    """Plan all candidates with one share of the budget each; None where simulations see no difference between them."""
    whole, rule, profile = lead.whole, tasks[0].profile, lead.profile
    m, delta = float(m_of(whole.epsilon, whole.delta)), whole.delta
    if profile is not None:
        rule = rule.with_bought(run, float(m_of(profile.target.epsilon, profile.target.delta)))
    elif not rule.is_bought:
        rule = replace(rule, is_wanted=False, share=None)
    left = (1 - share) * m**2 - rule.bought_m**2
    if left <= 0:
        raise InputError(f"The column profile of an earlier run leaves nothing of epsilon {whole.epsilon:g}.")
    each = _target(math.sqrt(rule.bought_m**2 + left / number), delta)
    plans = tuple(
        _gaussian(make_plan(replace(task, target=each, profile=rule), method=name, problems=problems))
        for task, name in zip(tasks, methods, strict=True)
    )
    trained = shortlist(plans, number, is_filled=is_asked)
    if len(trained) == 1:
        return None
    scores = ScoreRound(reach=reach_of_scores(lead.task.loss), target=_target(m * math.sqrt(share), delta))
    return SearchPlan(whole, tuple(replace(plan, whole=whole) for plan in plans), trained, profile, scores)


def _target(m: float, delta: float) -> Target:
    return Target(epsilon_of_part(m, delta) * (1 - _ROUNDING), delta)


def _gaussian(plan: Plan) -> Plan:
    """Refuse noise that does not add up in squares."""
    about = plan.settings.method.about
    if Family.SAMPLED in about.noise or about.is_pure or not about.has_gaussian_noise:
        raise InputError(
            f"{about.name} has noise that does not add up with others in squares, so that it cannot be compared under "
            "one budget (C15). Leave the method to the planner, choose noisy-gradients or p-admm, or let simulations "
            f"choose: {checks.setting('compared', 1)}. Nothing was spent."
        )
    return plan


def shortlist(plans: Sequence[Plan], number: int, *, is_filled: bool) -> tuple[int, ...]:
    """Return the candidates to train, the most promising first; ties go to the one that was named first.

    Those that did the same in all simulations, with models of the same size, are not told apart by training both: the
    first stands for them. is_filled: they come in where fewer than `number` are left.
    """
    order = sorted(range(len(plans)), key=lambda each: -plans[each].simulated_score)
    kept: list[int] = []
    for each in order:
        if not any(_is_same(plans[each], plans[other]) for other in kept):
            kept.append(each)
    if is_filled:
        kept += [each for each in order if each not in kept]
    return tuple(kept[:number])


def _is_same(one: Plan, other: Plan) -> bool:
    is_near = abs(one.simulated_score - other.simulated_score) <= _SAME_LOSS
    return is_near and abs(one.signal - other.signal) <= _SAME_NORM * max(one.signal, other.signal)


def reach_of_scores(loss: AnyLoss) -> float:
    """Return the norm to which a record's differences are shortened, on the scale of `record_losses`.

    Log-losses of sensible models seldom differ by more on a record; a wrong class against a right one does.
    """
    return _LOG_REACH if isinstance(loss, LinkedLoss | Softmax) else _ERROR_REACH


def score_share(plan: Plan, *, is_asked: bool = False) -> float:
    """Return the part of m^2 that scores are worth, 0 where even a tenth of it would leave them in the noise.

    is_asked: that comparison is wanted, worth it or not.
    """
    task, method = plan.task, plan.settings.method
    if task.protection.unit is Unit.USER and not is_asked:
        return 0.0
    bound = score_differences(
        reach=reach_of_scores(task.loss),
        n_records=task.n_records,
        protection=task.protection,
        is_noise_shared=plan.is_pooled,
    ).bound
    noise = noise_of_sum(replace(task, target=plan.whole), method, bound)
    if noise > _MOST_NOISE * math.sqrt(_MOST_SHARE) and not is_asked:
        return 0.0
    return float(min(max((noise / _SEEN) ** 2, _LEAST_SHARE), _MOST_SHARE))


def carry_out_search(
    search: SearchPlan,
    rows: RawSilos,
    sampler: Sampler,
    ledger: ConfirmedLedger | None,
    run: str,
    bought: BoughtProfile | None = None,
) -> PlanOutcome:
    """Train, compare and choose; what is returned is about the chosen candidate, the statement about all of them."""
    if search.scores is None:
        return carry_out(search.best, rows, sampler, ledger, progress=False, run=run, bought=bought)
    plans = [search.plans[number] for number in search.trained]
    rows = planned_rows(plans[0], rows)
    if search.profile is not None:
        search.profile.check(rows.form, rows.sizes, plans[0].setting)
    raw = EncodedRows(plans, rows, None if bought is None else bought.counts)
    problems = raw.encoded() if search.profile is None else raw
    reach = search.scores.reach
    done = run_search(
        search.search(),
        problems,
        lambda models: score_sums(plans, [each for each in raw.silos if isinstance(each, Silos)], models, reach),
        sampler,
        label="search",
        ledgers=ledger,
        engine=LocalEngine(progress=False),
        name=run,
    )
    return _outcome(search, raw, done, bought, is_secure=isinstance(sampler, SecureSampler))


def _outcome(
    search: SearchPlan, raw: EncodedRows, done: SearchRun, bought: BoughtProfile | None, *, is_secure: bool
) -> PlanOutcome:
    plan, first = search.plans[search.trained[done.found.chosen]], done.runs[0]
    if search.profile is not None:  # it is this run's own, whatever the candidates were told
        rule = replace(plan.task.profile, bought_from=None, bought_m=0.0)
        plan = replace(plan, profile=search.profile, task=replace(plan.task, profile=rule))
    said: Statement = first.statement if bought is None else statement_with(first.plan, bought.release)
    return PlanOutcome(
        models=np.array([each.run.model(plan.output)[:, 0] for each in done.runs]),
        statement=said,
        origin=next((each.origin for each in done.runs if not each.is_private_release), Origin.SECURE),
        plan=plan,
        noise_plan=first.plan,
        histories=tuple(each.history for each in done.runs),
        receipts=first.receipts,
        run_name=first.name,
        profile=None if raw.profile is None else raw.profile.by(first.name),
        profile_epsilon=profile_epsilon_of(plan, bought, is_secure=is_secure),
        encoding=raw.encoding,
        search=done.found,
    )


def score_sums(plans: Sequence[Plan], silos: Sequence[Silos], models: Sequence[Floats], reach: float) -> Floats:
    """Return every silo's sums (silos, plans) of how much worse each model does on a record than all do on average.

    silos: one per problem, with its labels. models: of each plan (problems, d). A record's differences are shortened to
    norm `reach`, weighted as in training, and cut to multiples of `STEP` towards zero, so that no norm grows (C15).
    """
    labels = silos[0].labels if len(silos) == 1 else np.stack([each.labels for each in silos]).argmax(axis=0)
    columns = []
    for plan, own in zip(plans, models, strict=True):
        loss = plan.task.loss
        weights = own.reshape(loss.n_classes, -1) if isinstance(loss, Softmax) else own
        scores = np.asarray(silos[0].features @ weights.T)
        columns.append(record_losses(loss, scores, labels.astype(np.float64)))
    vectors = shortened(np.column_stack(columns), reach)
    if silos[0].weights is not None:
        vectors *= silos[0].weights[:, None]
    steps = np.trunc(vectors / STEP).astype(np.int64)
    offsets = silos[0].offsets
    return np.array([steps[a:b].sum(axis=0) for a, b in pairwise(offsets.tolist())]) * STEP


def shortened(losses: Floats, reach: float) -> Floats:
    """Return each record's losses (n, K) less their mean, shortened to norm `reach`.

    >>> shortened(np.array([[0.1, 0.3], [9.0, 1.0]]), 0.5).round(4).tolist()
    [[-0.1, 0.1], [0.3536, -0.3536]]
    """
    finite = np.clip(np.nan_to_num(losses, nan=0.0), 0.0, _WORST)
    vectors = finite - finite.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(vectors, axis=1)
    factors = np.minimum(1.0, reach * _WITHIN / np.maximum(norms, np.finfo(float).tiny))
    return np.asarray(vectors * factors[:, None])


def record_losses(loss: AnyLoss, scores: Floats, labels: Floats) -> Floats:
    """Return how badly the scores (n, problems) predict each of the labels (n,), lower being better.

    Where the fitted loss has a link: the log-loss of the probabilities that it gives. Numbers: the absolute error, in
    the units of the encoded target. Else 1 for a wrong class and 0 for a right one.

    labels: -1/+1 for one score a record, the numbers of classes for several; or encoded numbers.

    >>> from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge
    >>> scores, labels = np.array([[2.0], [0.5]]), np.array([1.0, -1.0])
    >>> [record_losses(each, scores, labels).round(3).tolist() for each in (Logistic(), SmoothedHinge(), Huber(1.0))]
    [[0.127, 0.974], [0.0, 1.0], [1.0, 1.5]]
    """
    if isinstance(loss, Softmax):
        logs = loss.log_probabilities(scores)
        return np.asarray(-logs[np.arange(len(labels)), labels.astype(np.intp)])
    if loss.target is LabelKind.REALS:
        return np.abs(scores[:, 0] - labels)
    if scores.shape[1] > 1:
        return _against_rest(loss, scores, labels.astype(np.intp))
    margins = scores[:, 0] * labels
    if isinstance(loss, LinkedLoss):
        return np.asarray(-log_expit(loss.log_odds(margins)))
    return (margins <= 0).astype(np.float64)


def _against_rest(loss: Loss, scores: Floats, codes: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Floats:
    """Return the losses of one model for each class, whose probabilities are scaled to sum to 1."""
    places = np.arange(len(codes))
    if not isinstance(loss, LinkedLoss):
        return (scores.argmax(axis=1) != codes).astype(np.float64)
    logs = log_expit(loss.log_odds(scores))
    return np.asarray(np.logaddexp.reduce(logs, axis=1) - logs[places, codes])
