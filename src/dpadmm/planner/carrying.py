"""A plan carried out: reserved, run on the silos' rows, and what may leave afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dpadmm.core.bought import BoughtProfile, statement_with
from dpadmm.core.curvature import ReleasedCurvature
from dpadmm.core.local import LocalEngine, Recording
from dpadmm.core.private import run_course
from dpadmm.core.round_zero import Unencoded
from dpadmm.core.search import Comparison
from dpadmm.core.witness import PublicRound
from dpadmm.data.encoding import RowEncoding
from dpadmm.data.profile import ReleasedProfile
from dpadmm.data.raw import RawSilos
from dpadmm.errors import InputError
from dpadmm.noise.draws import Sampler
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.secure import SecureSampler
from dpadmm.planner.plan import Plan
from dpadmm.privacy.accounting import Statement
from dpadmm.privacy.ledger import ConfirmedLedger, ProfiledColumns, Receipt
from dpadmm.privacy.protection import Unit
from dpadmm.privacy.records import Origin
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem
from dpadmm.problems.silos import Silos
from dpadmm.problems.streams import SiloStream


@dataclass(frozen=True, eq=False)
class PlanOutcome:
    """What may leave after a plan was carried out.

    `models` (problems, d) are the released models. `statement` tells what all of them cost, with the profile that they
    rest on, whoever paid for it; it is about a release only if `is_private_release`, that is, if all noise came from
    the operating system. `histories` are computed from the noisy messages alone; they are empty for methods whose noise
    is inside the objective. `profile` is what round 0 has released, or an earlier run, and `profile_epsilon` what it
    costs by itself; `encoding` how rows were encoded, None where they came encoded. `curvature` is what intervals are
    made of, None without any, and `curvature_epsilon` what it costs by itself. `search`: how the plan was chosen
    among others that were trained as well, all of which `statement` and `noise_plan` are about; None for one plan.
    """

    models: Floats
    statement: Statement
    origin: Origin
    plan: Plan
    noise_plan: NoisePlan = field(repr=False)
    histories: tuple[tuple[PublicRound, ...], ...] = field(repr=False)
    receipts: tuple[Receipt, ...] = ()
    run_name: str = ""
    profile: ReleasedProfile | None = field(default=None, repr=False)
    profile_epsilon: float | None = None
    encoding: RowEncoding | None = field(default=None, repr=False)
    curvature: ReleasedCurvature | None = field(default=None, repr=False)
    curvature_epsilon: float | None = None
    search: Comparison | None = field(default=None, repr=False)

    @property
    def model(self) -> Floats:
        """The released model (d,) of the only problem, or of the first."""
        return self.models[0]

    @property
    def public_history(self) -> tuple[PublicRound, ...]:
        """What its messages show."""
        return self.histories[0]

    @property
    def is_private_release(self) -> bool:
        """Whether the models may leave under the statement."""
        return self.origin is Origin.SECURE


@dataclass(eq=False)
class EncodedRows:
    """Rows that are encoded as plans say: by round 0, by an earlier profile, or by public knowledge alone.

    plans: all of them encode rows alike. silos: the encoded rows, with the labels of each problem.
    """

    plans: Sequence[Plan]
    rows: RawSilos
    profile: ReleasedProfile | None
    encoding: RowEncoding | None = None
    silos: Sequence[Silos | SiloStream] = ()

    def counts(self) -> Floats:
        """Return every silo's counts."""
        return self.rows.counts(per_user=self.plans[0].task.protection.unit is Unit.USER)

    def subject(self) -> ProfiledColumns:
        """Return what a profile is about."""
        return self.rows.subject(self.plans[0].task.protection)

    def problems(self, pooled: Floats, noise_std: float) -> Sequence[Problem]:
        """Return the problems of all plans, one after the other, by the noisy counts."""
        form = self.rows.form
        assert form is not None
        has_sizes = self.plans[0].task.protection.relation.has_public_sizes
        self.profile = ReleasedProfile.of(form, pooled, noise_std, self.subject().records, is_nominal=not has_sizes)
        return self.encoded()

    def encoded(self) -> Sequence[Problem]:
        """Return the problems of all plans, one after the other."""
        self.encoding = self.rows.encoding(self.plans[0].reach, self.profile)
        self.silos = self.rows.silos(self.encoding)
        return [plan.problem(part) for plan in self.plans for part in self.silos]


def carry_out(
    plan: Plan,
    silos: Silos | Sequence[Silos] | RawSilos,
    sampler: Sampler,
    ledgers: Sequence[ConfirmedLedger] | ConfirmedLedger | None = None,
    progress: bool = True,
    run: str | None = None,
    bought: BoughtProfile | None = None,
) -> PlanOutcome:
    """Run the plan on the silos, or on the same rows with the labels of each of its problems; see `run_course`.

    Raw rows are encoded as the plan says; where it has a problem for each class, the numbers of classes become the
    labels of these. `bought`: the profile that was released before, for a plan that counts on it.
    Nothing but what may be seen is kept.
    """
    if plan.task.profile.is_bought is not (bought is not None):
        raise InputError(
            "A plan that uses an earlier column profile needs that profile, and other plans must not get one. Pass "
            "`bought` only with the plan that was made for it."
        )
    problems: Sequence[Problem] | Unencoded
    raw = None
    if isinstance(silos, RawSilos):
        silos = planned_rows(plan, silos)
        if plan.profile is not None:
            plan.profile.check(silos.form, silos.sizes, plan.setting)
        raw = EncodedRows([plan], silos, None if bought is None else bought.counts)
        problems = raw.encoded() if plan.profile is None else raw
    else:
        problems = [plan.problem(part) for part in ([silos] if isinstance(silos, Silos) else silos)]
    engine = LocalEngine(progress=progress, recording=Recording(every=0))  # a history costs passes, and is not kept
    done = run_course(plan, problems, sampler, label=plan.method, ledgers=ledgers, engine=engine, name=run)
    said = done[0].statement if bought is None else statement_with(done[0].plan, bought.release)
    return PlanOutcome(
        models=np.array([each.run.model(plan.output)[:, 0] for each in done]),
        statement=said,
        origin=next((each.origin for each in done if not each.is_private_release), Origin.SECURE),
        plan=plan,
        noise_plan=done[0].plan,
        histories=tuple(each.history for each in done),
        receipts=done[0].receipts,
        run_name=done[0].name,
        profile=None if raw is None or raw.profile is None else raw.profile.by(done[0].name),
        profile_epsilon=profile_epsilon_of(plan, bought, is_secure=isinstance(sampler, SecureSampler)),
        encoding=None if raw is None else raw.encoding,
        curvature=done[0].curvature,
        curvature_epsilon=_alone(plan, plan.curvature_plan(isinstance(sampler, SecureSampler))),
    )


def planned_rows(plan: Plan, rows: RawSilos) -> RawSilos:
    """Return rows with the labels of each of the plan's problems, told by its nominal sizes where theirs are secret."""
    if plan.times > 1 and rows.n_problems == 1:
        rows = rows.against_rest(plan.times)
    if plan.task.protection.relation.has_public_sizes:
        return rows
    if len(rows.parts) != plan.task.n_silos:
        raise InputError(f"The plan is for {plan.task.n_silos} silos, got {len(rows.parts)}. Plan again.")
    return replace(rows, nominal=plan.task.sizes)


def profile_epsilon_of(plan: Plan, bought: BoughtProfile | None, *, is_secure: bool) -> float | None:
    """Return what the profile behind a run costs the worst person by itself, None without one."""
    if bought is not None:
        return bought.epsilon(plan.whole.delta)
    return _alone(plan, plan.profile_plan(is_secure))


def _alone(plan: Plan, part: NoisePlan) -> float | None:
    """Return what a part of the releases costs the worst person by itself, None for no part."""
    return part.statement().curve.epsilon(plan.whole.delta) if part.releases else None
