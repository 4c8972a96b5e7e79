"""A plan carried out: reserved, run on the silos' rows, and what may leave afterwards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpadmm.core.budget import ReusedProfile, account_with
from dpadmm.core.dataset import Dataset
from dpadmm.core.loop import Run
from dpadmm.core.release import PublicRound
from dpadmm.core.spec import RunSpec
from dpadmm.core.training import Outcome, Problems, run_training
from dpadmm.data.encoding import RowEncoding
from dpadmm.data.profile import ReleasedProfile
from dpadmm.errors import InputError
from dpadmm.noise.sampler import Sampler
from dpadmm.planner.planner import Plan
from dpadmm.privacy.accounting import Account
from dpadmm.privacy.ledger import ConfirmedLedger, ProfiledColumns
from dpadmm.privacy.protection import Unit
from dpadmm.privacy.releases import Origin
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem
from dpadmm.problems.silos import Silos
from dpadmm.problems.streams import SiloStream
from dpadmm.queries.candidate_scores import Comparison
from dpadmm.queries.column_profile import ColumnProfile


@dataclass(frozen=True, eq=False)
class PlanOutcome:
    """What may leave after a plan was carried out.

    done: all that was released, and how it was paid for. runs: those of the plan's method, one for each model.
    account: what everything cost, with the profile that the models rest on, whoever paid for it. costs: the epsilon
    of every single sum by itself. profile: what round 0 has released, or an earlier run. encoding: of the rows, None
    where they came encoded. search: how the plan was chosen among others that were trained as well; None for one plan.
    """

    plan: Plan
    done: Outcome = field(repr=False)
    runs: Sequence[Run] = field(repr=False)
    account: Account
    costs: Mapping[str, float]
    profile: ReleasedProfile | None = field(default=None, repr=False)
    encoding: RowEncoding | None = field(default=None, repr=False)
    search: Comparison | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        plan: Plan,
        done: Outcome,
        runs: Sequence[Run],
        source: "RowSource | Problems",
        earlier: ReusedProfile | None,
        search: Comparison | None = None,
    ) -> "PlanOutcome":
        """Return what may leave of these runs of a training; the account counts an earlier profile, too."""
        delta, is_secure, profile, encoding = plan.whole.delta, done.is_private_release, None, None
        costs = {step.name: done.spec.part(step, is_secure).account().curve.epsilon(delta) for step in done.spec.sums}
        if earlier is not None:
            costs[ColumnProfile.name] = earlier.epsilon(delta)
        if isinstance(source, RowSource):
            profile, encoding = source.profile and source.profile.by(done.name), source.encoding
        account = done.plan.account() if earlier is None else account_with(done.plan, earlier.release)
        return cls(plan, done, runs, account, costs, profile, encoding, search)

    @property
    def models(self) -> Floats:
        """The released models, (problems, d)."""
        return np.array([each.model(self.plan.run.output)[:, 0] for each in self.runs])

    @property
    def model(self) -> Floats:
        """The released model (d,) of the only problem, or of the first."""
        return np.asarray(self.models[0])

    @property
    def origin(self) -> Origin:
        """Where the noise came from."""
        return self.done.origin

    @property
    def is_private_release(self) -> bool:
        """Whether the models may leave under the account."""
        return self.done.is_private_release

    @property
    def histories(self) -> tuple[tuple[PublicRound, ...], ...]:
        """What each model's noisy messages show, and nothing else; empty where the noise is inside the objective."""
        return tuple(each.history for each in self.runs)

    @property
    def public_history(self) -> tuple[PublicRound, ...]:
        """What the messages of the first model show."""
        return self.runs[0].history


@dataclass(eq=False)
class RowSource:
    """Rows that are encoded as plans say: by what was released before, by an earlier profile, or by public knowledge.

    plans: by the name of their run; all of them encode rows alike. profile: of an earlier run, until there is one.
    silos: the encoded rows, with the labels of each problem.
    """

    plans: Mapping[str, Plan]
    rows: Dataset
    profile: ReleasedProfile | None
    encoding: RowEncoding | None = None
    silos: Sequence[Silos | SiloStream] = ()

    @classmethod
    def of(cls, plans: Mapping[str, Plan], rows: Dataset, earlier: ReusedProfile | None) -> "RowSource":
        """Return the source; refuse rows that the plans are not for, from public facts alone."""
        first = next(iter(plans.values()))
        if first.profile is not None:
            first.profile.check(rows.form, rows.sizes, first.spec.facts)
        return cls(plans, rows, None if earlier is None else earlier.counts)

    @property
    def _first(self) -> Plan:
        return next(iter(self.plans.values()))

    def counts(self) -> Floats:
        """Return every silo's counts."""
        return self.rows.counts(per_user=self._first.task.protection.unit is Unit.USER)

    def subject(self) -> ProfiledColumns:
        """Return what a profile is about."""
        return self.rows.subject(self._first.task.protection)

    def problems(self, run: RunSpec, released: Mapping[str, Any]) -> Sequence[Problem]:
        """Return the problems of a run, on rows that are encoded by the counts released before it."""
        if self.encoding is None:
            if ColumnProfile.name in released:
                form, (pooled, noise_std) = self.rows.form, released[ColumnProfile.name]
                assert form is not None
                has_sizes = self._first.task.protection.relation.has_public_sizes
                records = self.subject().records
                self.profile = ReleasedProfile.of(form, pooled, noise_std, records, is_nominal=not has_sizes)
            self.encoding = self.rows.encoding(self._first.reach, self.profile)
            self.silos = self.rows.silos(self.encoding, self._first.n_models)
        return [self.plans[run.name].problem(part) for part in self.silos]


def carry_out(
    plan: Plan,
    silos: Silos | Sequence[Silos] | Dataset,
    sampler: Sampler,
    ledger: ConfirmedLedger | None = None,
    progress: bool = True,
    run: str | None = None,
    earlier: ReusedProfile | None = None,
) -> PlanOutcome:
    """Run the plan on the silos, or on the same rows with the labels of each of its problems; see `run_training`.

    Raw rows are encoded as the plan says; where it has a problem for each class, the numbers of classes become the
    labels of these. `earlier`: the profile that was released before, for a plan that counts on it.
    """
    if plan.task.profile.has_earlier is not (earlier is not None):
        raise InputError(
            "A plan that uses an earlier column profile needs that profile, and other plans must not get one. Pass "
            "`earlier` only with the plan that was made for it."
        )
    source: RowSource | Problems
    if isinstance(silos, Dataset):
        source = RowSource.of({plan.run.name: plan}, silos, earlier)
    else:
        source = Problems([plan.problem(part) for part in ([silos] if isinstance(silos, Silos) else silos)])
    done = run_training(plan.spec, source, sampler, ledger, label=plan.method, run=run, progress=progress)
    return PlanOutcome.of(plan, done, done.runs(plan.run), source, earlier)
