"""From rows to the released model: `train` is the order of every fit, `run_training` takes the steps of its plan.

`train` checks, plans and shows the plan before a new ledger is made, and records before noise is drawn.
`run_training` is where the rows and the noise meet: one step after the other, each with the noise reserved for it.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from typing import Any, cast

from dpadmm.checks import plural
from dpadmm.core.budget import LedgerFile, ReusedProfile, keep_profile, reusable_profile
from dpadmm.core.dataset import Dataset
from dpadmm.core.loop import Outcome, run_rounds
from dpadmm.core.model import ReleasedModel, SearchCost
from dpadmm.core.release import open_release
from dpadmm.core.spec import ReleaseFacts, RunSpec, TrainingSpec
from dpadmm.data.encoding import RowEncoding
from dpadmm.data.profile import ReleasedProfile
from dpadmm.errors import InputError, LedgerError
from dpadmm.models.build import released_model, spending_of
from dpadmm.noise.sampler import Sampler
from dpadmm.planner.coefficients import check_wanted
from dpadmm.planner.planner import Plan
from dpadmm.planner.planner import plan as make_plan
from dpadmm.planner.resolved import ResolvedSettings
from dpadmm.planner.search import SearchPlan, plan_search
from dpadmm.privacy.ledger import ConfirmedLedger, ProfiledColumns
from dpadmm.privacy.protection import Unit
from dpadmm.privacy.releases import GaussianRelease
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem
from dpadmm.problems.silos import Silos
from dpadmm.problems.streams import SiloStream
from dpadmm.queries.candidate_scores import CandidateScores
from dpadmm.queries.column_profile import ColumnProfile


@dataclass(eq=False)
class Problems:
    """Problems that are encoded already: the same for every run."""

    given: Sequence[Problem]
    profile: None = None
    encoding: None = None
    earlier: None = None

    def problems(self, run: RunSpec, released: Mapping[str, Any]) -> Sequence[Problem]:
        """Return them."""
        return self.given


@dataclass(eq=False)
class TrainingRows:
    """A dataset as one training reads it: encoded once, by what was released before the first run.

    facts: of the training. plans: by the name of their run; all of them encode rows alike. earlier: the profile of an
    earlier run. profile, encoding, silos: what rows are encoded by, and what became of them, as soon as they are.
    """

    dataset: Dataset
    facts: ReleaseFacts
    plans: Mapping[str, Plan]
    earlier: ReusedProfile | None = None
    profile: ReleasedProfile | None = None
    encoding: RowEncoding | None = None
    silos: Sequence[Silos | SiloStream] = ()

    @property
    def has_nominal_sizes(self) -> bool:
        """Whether numbers of records are secret, and public ones stand for them."""
        return not self.facts.protection.relation.has_public_sizes

    def counts(self) -> Floats:
        """Return every silo's counts."""
        return self.dataset.counts(per_user=self.facts.protection.unit is Unit.USER)

    def subject(self) -> ProfiledColumns:
        """Return what a profile is about."""
        return self.dataset.subject(self.facts.protection)

    def problems(self, run: RunSpec, released: Mapping[str, Any]) -> Sequence[Problem]:
        """Return the problems of a run, on rows that are encoded by the counts released before it."""
        plan = self.plans[run.name]
        if self.encoding is None:
            self.profile = None if self.earlier is None else self.earlier.counts
            if ColumnProfile.name in released:
                form, (pooled, noise_std) = self.dataset.form, released[ColumnProfile.name]
                assert form is not None
                records, is_nominal = self.subject().records, self.has_nominal_sizes
                self.profile = ReleasedProfile.of(form, pooled, noise_std, records, "", is_nominal)
            self.encoding = self.dataset.encoding(plan.clip_radius, self.profile)
            self.silos = self.dataset.silos(self.encoding, run.n_models)
        return [plan.problem(silos) for silos in self.silos]


def run_training(
    spec: TrainingSpec,
    source: Problems | TrainingRows,
    sampler: Sampler,
    ledger: ConfirmedLedger | None = None,
    *,
    label: str,
    run: str | None = None,
    progress: bool = False,
) -> Outcome:
    """Reserve all that the training releases, then take its steps.

    source: of the rows. label: what the ledger calls the work; run: its name there. Raises `InputError` if the parts do
    not fit, `BudgetError` if the ledger refuses; no noise was drawn then. Only rows that a profile encodes are checked
    after it was drawn. Whatever happens afterwards, Ctrl-C included, what was reserved stays spent.
    """
    secure, released, number = sampler.is_secure, dict[str, Any](), count()
    plan = spec.checked_plan(secure)
    ledger = ledger and ledger.for_run(spec.facts.sizes, spec.facts.protection.relation)
    ready: dict[str, Sequence[Problem]] = {}
    if isinstance(spec.steps[0], RunSpec):  # rows that no release encodes are checked before anything is reserved
        for each in spec.runs:
            ready[each.name] = source.problems(each, released)
            each.check(ready[each.name])
    elif isinstance(spec.steps[0], ColumnProfile):  # so are the columns that it counts, by public facts alone
        form, sizes = (None, ()) if isinstance(source, Problems) else (source.dataset.form, source.dataset.sizes)
        spec.steps[0].check(form, sizes, spec.facts)
    with open_release(plan, sampler, ledger, label=label, n_agents=len(spec.facts.sizes), run=run) as release:
        for step in spec.steps:
            part = spec.part(step, secure)
            if isinstance(step, RunSpec):
                if step.name not in ready:  # rows are encoded here, by what was released before
                    ready[step.name] = source.problems(step, released)
                    step.check(ready[step.name])
                problems, keeps_sums = ready.pop(step.name), bool(spec.sums) or step.keeps_sums
                hooks = (
                    release.noise(part, number=next(number), prefix=step.prefix, keeps_sums=keeps_sums)
                    for _ in problems
                )
                released[step.name] = [
                    run_rounds(step, problem, hook, is_release=secure, progress=progress)
                    for problem, hook in zip(problems, hooks, strict=True)
                ]
            else:
                noisy, noise_std = release.total(step, part, step.values(source, released))
                released[step.name] = step.read(noisy, noise_std, released)
                if ledger is not None and isinstance(source, TrainingRows) and isinstance(step, ColumnProfile):
                    keep_profile(ledger, source.subject(), release.run, noisy, noise_std)
    paid, profile = (release.origin, release.receipts, release.run), source.profile and source.profile.by(release.run)
    return Outcome(spec, released, plan, *paid, profile, source.encoding, source.earlier)


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
    ledger_file: LedgerFile,
    on_plan: Callable[[Plan], Sequence[str]],
    *,
    names: Sequence[str] = (),
    compared: int | None = None,
    title: str | None = None,
    progress: bool = False,
) -> Trained:
    """Check, plan, show the plan, record and run.

    Parameters
    ----------
    candidates: what is asked for; of several, which differ in what is fitted and how, one is chosen (C15). names: of
        each, for messages. compared: how many are trained, None where public facts decide.
    ledger_file: where the cost is recorded; a new file is made only when nothing but the data can stand in the way.
    on_plan: sees the plan, of several candidates the most promising one's, before anything is spent: it may print, warn
        or raise, and returns what the statement assumes beyond the certificates and what the rows assume.
    title: of the report; None names the label.
    """
    first = candidates[0]
    rows, sampler, delta = first.public_rows(dataset), first.sampler, first.target.delta
    known, run, search, chosen, cost, unread, spending = rows.ledger_columns, None, None, 0, None, None, None
    with ExitStack() as stack:
        is_new = ledger_file.is_new  # asked once: another process may make the file while this one plans
        ledger = None if is_new else stack.enter_context(ledger_file.open(known, delta, first.protection))
        earlier = None
        if ledger is not None and first.profile.is_wanted:
            earlier = reusable_profile(ledger, rows, first.protection, first.target)
        if len(candidates) > 1:
            run = f"search-{uuid.uuid4()}"
            search = _plan_search(rows, candidates, run, compared, earlier)
            plan = search.best
        else:
            n_models = first.n_models(rows.n_classes)
            plan = make_plan(first.task_of(rows, earlier), method=first.method, n_models=n_models)
            plan.spec.checked_plan(sampler.is_secure)  # noise that cannot be drawn is refused now
        wanted, schema = first.training.wanted, rows.schema
        check_wanted(plan.task, plan.curvature, schema, wanted)
        notes = (*rows.assumed, *on_plan(plan))
        if is_new:  # made when everything is planned
            ledger = stack.enter_context(ledger_file.open(known, delta, first.protection))
        if ledger is None and ledger_file.is_wanted:
            raise LedgerError("A ledger was asked for, but none is open. Nothing was spent. Fit again.")
        if wanted and plan.profile is not None:  # it is paid for by itself, and tells whether to go on
            earlier = _release_profile(plan, rows, sampler, ledger)
            plan = make_plan(first.task_of(rows, earlier), method=first.method)
            check_wanted(plan.task, plan.curvature, schema, wanted)
        spec, plans, label = plan.spec, {plan.run.name: plan}, plan.method
        if search is not None and search.scores is not None:
            spec, plans, label = search.spec, search.runs(), "search"
        source = TrainingRows(rows, spec.facts, plans, earlier)
        outcome = run_training(spec, source, sampler, ledger, label=label, run=run, progress=progress)
        if search is not None:
            chosen, plan = search.chosen(outcome)
            scores = CandidateScores.name  # without them simulations have chosen
            alone = outcome.cost(scores, delta) if scores in outcome.released else None
            cost = SearchCost(candidates=tuple(names), trained=len(search.trained), chosen=names[chosen], epsilon=alone)
        try:
            spending = None if ledger is None else spending_of(ledger.ledger, ledger_file.name)
        except LedgerError as problem:  # whatever keeps it from being read, the paid model must be kept
            unread = problem
    silos = rows.names or [f"silo {i}" for i in range(1, len(rows.rows) + 1)]  # those of groups may be people's
    title = f"{rows.schema.label.name} from {plural(len(silos), 'silo')}" if title is None else title
    model = released_model(plan, outcome, rows.schema, silos, title, spending, notes, cost)
    return Trained(model, plan, outcome, search, chosen, unread)


def _release_profile(plan: Plan, rows: Dataset, sampler: Sampler, ledger: ConfirmedLedger | None) -> ReusedProfile:
    """Release the column profile of a plan alone, and return it with its cost."""
    spec, form = TrainingSpec(plan.spec.steps[:1], plan.spec.facts), rows.form
    assert form is not None
    source = TrainingRows(rows, spec.facts, {})
    done = run_training(spec, source, sampler, ledger, label="profile")
    pooled, noise_std = done.released[ColumnProfile.name]
    number, is_nominal = source.subject().records, source.has_nominal_sizes
    counts = ReleasedProfile.of(form, pooled, noise_std, number, done.name, is_nominal)
    return ReusedProfile(counts, cast(GaussianRelease, next(iter(done.plan))))


def _plan_search(
    rows: Dataset,
    candidates: Sequence[ResolvedSettings],
    run: str,
    compared: int | None,
    earlier: ReusedProfile | None,
) -> SearchPlan:
    """Plan all candidates, and refuse what would cost more than the budget or cannot be released."""
    tasks = [each.task_of(rows, earlier) for each in candidates]
    asked = {each.n_models(rows.n_classes) or 1 for each in candidates}  # left to the planner: one model
    if len(asked) > 1:
        raise InputError("Some candidates train one model and others one for each class. Search them apart.")
    methods = [each.method for each in candidates]
    made = plan_search(tasks, methods, run, n_models=asked.pop(), compared=compared)
    made.check(earlier)
    return made
