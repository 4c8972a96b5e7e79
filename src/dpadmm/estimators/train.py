"""From rows to the released model: the one order of a fit, whoever asked for it.

Callers prepare rows and settings before, and keep the model afterwards. Everything is checked, planned and told before
a new ledger is made, and recorded before noise is drawn.
"""

import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from dpadmm.checks import plural
from dpadmm.core.budget import ReusedProfile, reusable_profile
from dpadmm.core.dataset import Dataset
from dpadmm.core.model import ReleasedModel, SearchCost
from dpadmm.core.training import Outcome, TrainingRows, check_spec, run_training
from dpadmm.errors import InputError, LedgerError
from dpadmm.estimators.ledger_file import LedgerFile
from dpadmm.estimators.resolved import ResolvedSettings
from dpadmm.models.build import released_model, spending_of
from dpadmm.planner.planner import Plan
from dpadmm.planner.planner import plan as make_plan
from dpadmm.planner.search import SearchPlan, plan_search
from dpadmm.queries.candidate_scores import CandidateScores


@dataclass(frozen=True, eq=False)
class Trained:
    """A model that is paid for.

    plan: what it was trained by. outcome: what was released. search: the candidates it was chosen among, None without
    any; chosen: the number of the one that was kept. unread: what kept its ledger from being read after the run.
    """

    model: ReleasedModel
    plan: Plan
    outcome: Outcome
    search: SearchPlan | None = None
    chosen: int = 0
    unread: LedgerError | None = None


def train(
    dataset: Dataset,
    candidates: Sequence[ResolvedSettings],
    book: LedgerFile,
    on_plan: Callable[[Plan], Sequence[str]],
    *,
    names: Sequence[str] = (),
    compared: int | None = None,
    title: str | None = None,
    progress: bool = False,
) -> Trained:
    """Check, plan, tell, record and run.

    Parameters
    ----------
    candidates: what is asked for; of several, which differ in what is fitted and how, one is chosen (C15). names: in
        words, of each. compared: how many are trained, None where public facts decide.
    book: where the cost is recorded; a new file is made only when nothing but the data can stand in the way.
    on_plan: sees the plan, of several candidates the most promising one's, before anything is spent: it may print, warn
        or raise, and returns what the statement assumes beyond the certificates and what the rows assume.
    title: of the report; None names the label.
    """
    first = candidates[0]
    rows, sampler, delta = first.public_rows(dataset), first.sampler, first.target.delta
    schema, known, run = rows.schema, rows.ledger_columns, None
    search, chosen, cost, unread, spending = None, 0, None, None, None
    with ExitStack() as stack:
        is_new = book.is_new  # asked once: another process may make the file while this one plans
        ledger = None if is_new else stack.enter_context(book.open(known, delta, first.protection))
        earlier = None
        if ledger is not None and first.profile.is_wanted:
            earlier = reusable_profile(ledger, rows, first.protection, first.target)
        if len(candidates) > 1:
            run = f"search-{uuid.uuid4()}"
            search = _plan_search(rows, candidates, run, compared, earlier)
            plan = search.best
        else:
            n_models = first.problems(rows.n_classes)
            plan = make_plan(first.task_of(rows, earlier), method=first.method, problems=n_models)
            check_spec(plan.spec, sampler.is_secure)  # noise that cannot be drawn is refused now
        notes = (*rows.assumed, *on_plan(plan))
        if is_new:  # made when everything is planned
            ledger = stack.enter_context(book.open(known, delta, first.protection))
        if ledger is None and book.is_wanted:
            raise LedgerError("A ledger was asked for, but none is open. Nothing was spent. Fit again.")
        spec, plans, label = plan.spec, {plan.run.name: plan}, plan.method
        if search is not None and search.scores is not None:
            spec, plans, label = search.spec, search.runs(), "search"
        source = TrainingRows.of(rows, spec, plans, earlier)
        outcome = run_training(spec, source, sampler, ledger, label=label, run=run, progress=progress)
        if search is not None:
            chosen, plan = search.chosen(outcome)
            cost = _search_cost(search, outcome, names, names[chosen], delta)
        try:
            spending = None if ledger is None else spending_of(ledger.ledger, book.name)
        except LedgerError as problem:  # whatever keeps it from being read, the paid model must be kept
            unread = problem
    silos = rows.names or [f"silo {i}" for i in range(1, len(rows.rows) + 1)]  # those of groups may be people's
    title = f"{schema.label.name} from {plural(len(silos), 'silo')}" if title is None else title
    model = released_model(plan, outcome, schema, silos, title, spending, notes, cost)
    return Trained(model, plan, outcome, search, chosen, unread)


def _plan_search(
    rows: Dataset,
    candidates: Sequence[ResolvedSettings],
    run: str,
    compared: int | None,
    earlier: ReusedProfile | None,
) -> SearchPlan:
    """Plan all candidates, and refuse what would cost more than the budget or cannot be released."""
    tasks = [each.task_of(rows, earlier) for each in candidates]
    asked = {each.problems(rows.n_classes) or 1 for each in candidates}  # left to the planner: one model
    if len(asked) > 1:
        raise InputError("Some candidates train one model and others one for each class. Search them apart.")
    methods = [each.method for each in candidates]
    made = plan_search(tasks, methods, run, problems=asked.pop(), compared=compared)
    made.check(earlier)
    return made


def _search_cost(search: SearchPlan, outcome: Outcome, names: Sequence[str], chosen: str, delta: float) -> SearchCost:
    """Return what the choice between candidates cost: the scores by themselves, nothing where simulations chose."""
    is_scored = CandidateScores.name in outcome.released
    epsilon = outcome.cost(CandidateScores.name, delta) if is_scored else None
    return SearchCost(candidates=tuple(names), trained=len(search.trained), chosen=chosen, epsilon=epsilon)
