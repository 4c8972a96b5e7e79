"""From encoded rows to released models: plan by public facts, account for all problems, record, carry out.

The order is the guarantee: nothing that reads the data runs before the plan is made, its cost is known to fit the
budget, and the ledger has it on disk.
"""

import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.estimators.validation import Layout, method_name, network_of, penalty_of, seed_of, word
from dpadmm.noise.draws import Sampler
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.secure import SecureSampler
from dpadmm.noise.simulated import SimulatedSampler
from dpadmm.planning.carry_out import carry_out, releases_of
from dpadmm.planning.plan import Plan
from dpadmm.planning.planner import plan as make_plan
from dpadmm.planning.public_history import PublicRound
from dpadmm.planning.task import Task
from dpadmm.privacy import gaussian
from dpadmm.privacy.accounting import Statement
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.claims import ClaimedEpsilon
from dpadmm.privacy.ledger import ConfirmedLedger
from dpadmm.privacy.records import Origin, Protection, Release, Unit, View
from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.losses import Loss
from dpadmm.problems.regularisers import Regulariser
from dpadmm.problems.silos import Silos

_ROUNDING = 1e-9  # of epsilon, in sums of many rounds
_SEED_STEP = 2**64  # seeds of one-vs-rest problems, apart from each other and from other users' seeds


@dataclass(frozen=True)
class Wishes:
    """What the user asked for, as types; all of it public."""

    target: Target
    protection: Protection
    method: str | None
    topology: Any
    penalty: Regulariser | None
    seed: int | None

    @classmethod
    def of(cls, parameters: dict[str, Any], usual: Protection) -> "Wishes":
        """Return the estimator's parameters, checked; what is not said about people and observers is as `usual`."""
        if parameters["delta"] is None:
            raise InputError(
                "delta must be given: there is none that suits every data set. A common choice is well below 1/n for n "
                "people, for instance delta=1e-6."
            )
        return cls(
            target=Target(
                checks.positive("epsilon", parameters["epsilon"]), checks.open_unit("delta", parameters["delta"])
            ),
            protection=protection_from(
                usual,
                parameters["unit"],
                parameters["view"],
                parameters["max_records_per_person"],
                parameters["max_silos_per_person"],
            ),
            method=method_name(parameters["algorithm"]),
            topology=parameters["topology"],
            penalty=penalty_of(parameters["alpha"], parameters["l1_ratio"]),
            seed=seed_of(parameters["random_state"]),
        )

    @property
    def is_simulated(self) -> bool:
        """Whether the noise comes from a seed."""
        return self.seed is not None

    def sampler(self, problem: int) -> Sampler:
        """Return the source of noise for one problem; seeded ones differ between problems."""
        return SecureSampler() if self.seed is None else SimulatedSampler(self.seed + problem * _SEED_STEP)


def protection_from(usual: Protection, unit: Any, view: Any, records: Any, silos: Any) -> Protection:
    """Return the protection that words and numbers name; None stands for the usual one, which is the ledger's."""
    return replace(
        usual,
        unit=usual.unit if unit is None else word("unit", unit, Unit),
        view=usual.view if view is None else word("view", view, View),
        records_per_person=(
            usual.records_per_person if records is None else checks.count("max_records_per_person", records)
        ),
        silos_per_person=usual.silos_per_person if silos is None else checks.count("max_silos_per_person", silos),
    )


@dataclass(frozen=True, eq=False)
class Course:
    """What will be run and released, all problems together, from public facts alone."""

    plan: Plan
    noise: NoisePlan

    @property
    def account(self) -> Statement:
        """What all problems together cost the worst person."""
        return self.noise.statement()

    @property
    def claimed(self) -> tuple[ClaimedEpsilon, ...]:
        """What the method's paper prints for this noise; papers speak of one problem, so nothing for several."""
        if any(release.count > 1 for release in self.noise):
            return ()
        from dpadmm.algorithms.claimed import claimed_of_plan  # the papers' theorems are needed for display only

        plan = self.plan
        return claimed_of_plan(plan.algorithm, plan.setting, self.noise, plan.task.target.delta)[0]

    @property
    def releases(self) -> tuple[Release, ...]:
        """Every release of every silo."""
        return tuple(releases_of(self.noise, range(self.plan.task.n_silos)))


@dataclass(frozen=True, eq=False)
class Trained:
    """What may be kept of a training: released models (problems, d) and what their messages show."""

    models: Floats
    histories: tuple[tuple[PublicRound, ...], ...]
    origin: Origin


def planned(wishes: Wishes, loss: Loss, sizes: tuple[int, ...], dimension: int, problems: int) -> Course:
    """Return the plan of one problem and the noise of all of them, which together spend the target at most.

    All problems read every record, so their costs add up: for Gaussian noise in squares, `m_one = m/sqrt(problems)`
    (C0). Where the method's noise adds up in another way, each problem gets epsilon and delta divided by their number.
    """
    target = wishes.target
    for share in _shares(target, problems):
        task = Task(
            sizes=sizes,
            dimension=dimension,
            loss=loss,
            target=share,
            protection=wishes.protection,
            network=network_of(wishes.topology, len(sizes)),
            regulariser=wishes.penalty,
        )
        plan = make_plan(task, method=wishes.method)
        noise = repeated(plan.noise_plan(is_secure=not wishes.is_simulated), problems)
        if noise.statement().curve.epsilon(target.delta) <= target.epsilon * (1 + _ROUNDING):
            return Course(plan, noise)
    raise InputError(
        f"{plan.method} cannot share epsilon {target.epsilon:g} and delta {target.delta:g} between {problems} "
        "problems. Choose another algorithm, or a larger delta."
    )


def _shares(target: Target, problems: int) -> list[Target]:
    """Return budgets for one of several problems, the largest first; the last is sound for any mechanism."""
    if problems == 1:
        return [target]
    m = float(gaussian.m_of(target.epsilon, target.delta)) / math.sqrt(problems)
    in_squares = float(gaussian.epsilon_of_delta(m, target.delta)) * (1 - _ROUNDING)
    return [Target(in_squares, target.delta), Target(target.epsilon / problems, target.delta / problems)]


def repeated(noise: NoisePlan, times: int) -> NoisePlan:
    """Return the plan of so many runs with fresh noise each."""
    return NoisePlan(
        {
            place: {agent: replace(release, count=release.count * times) for agent, release in row.items()}
            for place, row in noise.releases.items()
        }
    )


def train(
    course: Course,
    wishes: Wishes,
    layout: Layout,
    rows: Matrix,
    targets: Sequence[Floats],
    ledger: ConfirmedLedger | None,
) -> Trained:
    """Record and carry out one problem per vector of targets on the same rows (norm at most 1)."""
    plan = course.plan
    if ledger is not None:
        run = f"{plan.method}-{uuid.uuid4()}"
        ledger.for_run(layout.sizes).reserve(course.releases, run=run, algorithm=plan.method, origin=Origin.SECURE)
    parts = [rows[part] for part in layout.rows]
    outcomes = []
    for problem, target in enumerate(targets):
        silos = Silos.from_parts(parts, [target[part] for part in layout.rows], row_norm=1.0)
        outcomes.append(carry_out(plan, silos, wishes.sampler(problem), progress=False))
    return Trained(
        models=np.array([outcome.model for outcome in outcomes]),
        histories=tuple(outcome.public_history for outcome in outcomes),
        origin=next((o.origin for o in outcomes if o.origin is not Origin.SECURE), Origin.SECURE),
    )
