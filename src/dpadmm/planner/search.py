"""Choose between candidates: for nothing in simulations, then, among the most promising, by noisy scores (C15).

A candidate is a task whose settings the user proposes; all are about the same rows, people and budget. Every one is
planned, and thereby simulated on synthetic worlds, at no cost. Where the records are many enough for noisy scores to
distinguish candidates, the best few are trained, each with its share of the budget, and compared:

    m^2 = m_profile^2 + m_scores^2 + K m_each^2        (C0)

Scores are sums over all training records, none of which is held back: records that are held back help neither training
nor, being few, the comparison, while a hundredth of m^2 pays for comparing on all of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dpadmm import checks
from dpadmm.core.budget import ReusedProfile, account_with, epsilon_of_part
from dpadmm.core.loop import Outcome
from dpadmm.core.spec import TrainingSpec
from dpadmm.core.task import Task
from dpadmm.errors import InputError
from dpadmm.noise.mechanisms import Family
from dpadmm.planner.candidates import noise_of_sum, worthwhile_share
from dpadmm.planner.planner import Plan
from dpadmm.planner.planner import plan as make_plan
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.certificates.sums import score_differences
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.protection import Unit
from dpadmm.problems.losses import AnyLoss, LinkedLoss, Softmax
from dpadmm.queries.candidate_scores import CandidateScores, Comparison
from dpadmm.queries.column_profile import ColumnProfile

USUALLY_COMPARED = 2
_LOG_SCORE_BOUND, _ERROR_SCORE_BOUND = 0.5, 1.0
_SEEN = 0.001
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
    profile: ColumnProfile | None = None
    scores: Target | None = None

    @property
    def best(self) -> Plan:
        """The plan of the most promising candidate."""
        return self.plans[self.trained[0]]

    @property
    def simulated(self) -> tuple[float, ...]:
        """How each candidate did in the simulations, higher being better: minus the log-loss, or accuracy, or R^2."""
        return tuple(plan.simulated_score for plan in self.plans)

    def runs(self) -> dict[str, Plan]:
        """Return the plans that are trained, by the names of their runs."""
        if self.scores is None:
            return {self.best.run.name: self.best}
        return {f"candidate {place}": self.plans[number] for place, number in enumerate(self.trained)}

    @cached_property
    def spec(self) -> TrainingSpec:
        """What will be released: the best plan's steps, or all candidates' rounds and their scores."""
        if self.scores is None:
            return self.best.spec
        if any(plan.curvature is not None for plan in self.plans):
            raise InputError(
                "Candidates are compared by how well they predict; intervals (C14) are for one model without a choice. "
                "Nothing was spent. Leave out one of the two."
            )
        runs = tuple(replace(plan.run, name=name, prefix=f"{name}: ") for name, plan in self.runs().items())
        losses = tuple(plan.task.loss for plan in self.runs().values())
        score_bound = score_bound_of(self.plans[0].task.loss)
        scores = CandidateScores(runs=runs, losses=losses, score_bound=score_bound, target=self.scores)
        return TrainingSpec.of(self.profile, *runs, scores)

    def chosen(self, outcome: Outcome) -> tuple[int, Plan]:
        """Return the candidate that was chosen, by the noisy scores if there are any, and the plan that it ran by."""
        scores: Comparison | None = outcome.released.get(CandidateScores.name)
        number = self.trained[0 if scores is None else scores.chosen]
        plan = self.plans[number]
        if self.profile is not None:  # it is the run's own, whatever the settings of the candidates
            task = replace(plan.task, profile=replace(plan.task.profile, earlier_run=None, earlier_m=0.0))
            spec = TrainingSpec.of(self.profile, plan.run)
            plan = replace(plan, spec=spec, candidate=replace(plan.candidate, task=task))
        return number, plan

    def check(self, earlier: ReusedProfile | None = None) -> None:
        """Refuse what would cost more than the budget, or cannot be released; from public facts alone."""
        everything = self.spec.checked_plan(is_secure=True)
        if self.scores is None:
            return
        account = everything.account() if earlier is None else account_with(everything, earlier.release)
        if account.curve.epsilon(self.whole.delta) > self.whole.epsilon * (1 + _ROUNDING):
            raise InputError(
                f"Epsilon {self.whole.epsilon:g} cannot be split between {len(self.trained)} candidates and their "
                f"scores. Compare fewer candidates, or let simulations choose: {checks.option_name('compared', 1)}. "
                "Nothing was spent."
            )


def plan_search(
    tasks: Sequence[Task], methods: Sequence[str | None], run: str, *, n_models: int = 1, compared: int | None = None
) -> SearchPlan:
    """Plan all candidates, and which of them are trained.

    tasks: at least two, the same but for loss and penalty. methods: of each, None where the planner chooses.
    run: the name of the run, under which its profile is known. n_models: on the same rows, see `plan`.
    compared: how many are trained; 1 chooses in simulations alone. None: as many as are worth it, at most two.
    """
    if len(tasks) < 2:
        raise InputError(f"A search needs at least 2 candidates, got {len(tasks)}.")
    number = min(USUALLY_COMPARED if compared is None else checks.count("compared", compared), len(tasks))
    lead = make_plan(tasks[0], method=methods[0], n_models=n_models)
    share = score_share(lead, is_asked=compared is not None)
    if number > 1 and share > 0:
        found = _compared(tasks, methods, run, lead, share, number, n_models, is_asked=compared is not None)
        if found is not None:
            return found
    plans = tuple(make_plan(task, method=name, n_models=n_models) for task, name in zip(tasks, methods, strict=True))
    best = max(range(len(plans)), key=lambda each: plans[each].simulated_score)
    return SearchPlan(lead.whole, plans, (best,))


def _compared(
    tasks: Sequence[Task],
    methods: Sequence[str | None],
    run: str,
    lead: Plan,
    share: float,
    number: int,
    n_models: int,
    *,
    is_asked: bool,
) -> SearchPlan | None:
    """Plan all candidates with one share of the budget each; None where simulations see no difference between them."""
    whole, rule, profile = lead.whole, tasks[0].profile, lead.profile
    m, delta = m_of(whole.epsilon, whole.delta), whole.delta
    if profile is not None:
        rule = rule.with_earlier(run, m_of(profile.target.epsilon, profile.target.delta))
    elif rule.earlier_run is None:
        rule = replace(rule, is_wanted=False, share=None)
    left = (1 - share) * m**2 - rule.earlier_m**2
    if left <= 0:
        raise InputError(f"The column profile of an earlier run leaves nothing of epsilon {whole.epsilon:g}.")
    each = _target(math.sqrt(rule.earlier_m**2 + left / number), delta)
    plans = tuple(
        _gaussian(make_plan(replace(task, target=each, profile=rule), method=name, n_models=n_models))
        for task, name in zip(tasks, methods, strict=True)
    )
    trained = shortlist(plans, number, is_filled=is_asked)
    if len(trained) == 1:
        return None
    scores = _target(m * math.sqrt(share), delta)
    return SearchPlan(whole, tuple(replace(plan, whole=whole) for plan in plans), trained, profile, scores)


def _target(m: float, delta: float) -> Target:
    return Target(epsilon_of_part(m, delta) * (1 - _ROUNDING), delta)


def _gaussian(plan: Plan) -> Plan:
    """Refuse noise that does not add up in squares."""
    about = plan.candidate.method.about
    if Family.SAMPLED in about.noise or about.is_pure or not about.has_gaussian_noise:
        raise InputError(
            f"{about.name} has noise that does not add up with others in squares, so that it cannot be compared under "
            "one budget (C15). Leave the method to the planner, choose noisy-gradients or p-admm, or let simulations "
            f"choose: {checks.option_name('compared', 1)}. Nothing was spent."
        )
    return plan


def shortlist(plans: Sequence[Plan], number: int, *, is_filled: bool) -> tuple[int, ...]:
    """Return the candidates to train, the most promising first; ties go to the one that was named first.

    Those that did the same in all simulations, with models of the same size, are not compared by training both: the
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


def score_bound_of(loss: AnyLoss) -> float:
    """Return the norm to which a record's differences are shortened, on the scale of `record_losses`.

    Log-losses of sensible models seldom differ by more on a record; a wrong class against a right one does.
    """
    return _LOG_SCORE_BOUND if isinstance(loss, LinkedLoss | Softmax) else _ERROR_SCORE_BOUND


def score_share(plan: Plan, *, is_asked: bool = False) -> float:
    """Return the part of m^2 that scores are worth, 0 where even a tenth of it would leave them in the noise.

    is_asked: that comparison is wanted, worth it or not.
    """
    task, method = plan.task, plan.candidate.method
    if task.protection.unit is Unit.USER and not is_asked:
        return 0.0
    bound = score_differences(
        score_bound=score_bound_of(task.loss),
        n_records=task.n_records,
        protection=task.protection,
        is_noise_shared=plan.spec.facts.is_pooled,
    ).bound
    noise = noise_of_sum(replace(task, target=plan.whole), method, bound)
    return worthwhile_share(noise, seen=_SEEN, most=math.inf if is_asked else _MOST_NOISE)
