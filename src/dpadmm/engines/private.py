"""A private run from a budget: certificates first, then noise, then data."""

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from dpadmm.algorithms.anatomy import Algorithm, check_fit
from dpadmm.algorithms.batches import Batches
from dpadmm.algorithms.setting import Private, Setting
from dpadmm.checks import shown
from dpadmm.engines.local import LocalEngine, Recording, Run, Stopping
from dpadmm.errors import InputError
from dpadmm.networks.graph import Network
from dpadmm.noise.draws import Sampler
from dpadmm.noise.plan import NoisePlan, PlannedNoise, calibrated
from dpadmm.noise.schedules import Schedule
from dpadmm.noise.secure import SecureSampler
from dpadmm.privacy.accounting import Statement
from dpadmm.privacy.calibration import PureTarget, Target
from dpadmm.privacy.records import ONE_RECORD, Origin, Protection, SampledGaussianRelease
from dpadmm.problems.problem import Problem


class PrivateAlgorithm(Algorithm[Any], Private, Protocol):
    """An algorithm that declares its releases."""


@dataclass(frozen=True)
class PrivateRun:
    """A run with the plan of its noise and the statement of what it cost.

    `origin` says where the noise came from: the statement is about a release only if that was secure. With seeded noise
    it tells what such a run would cost; whoever knows the seed sees everything.

    What may leave is `run.models`, `run.estimate` and `run.tail_average`. The checkpoint holds the agents' own states
    and stays with them; a secure run keeps no history, since losses and residuals read the data without noise.
    """

    run: Run
    plan: NoisePlan = field(repr=False)
    statement: Statement
    origin: Origin = Origin.SIMULATED

    @property
    def is_private_release(self) -> bool:
        """Whether the run's models, estimate and tail average may leave under its statement."""
        return self.origin is Origin.SECURE


def plan_noise(
    algorithm: PrivateAlgorithm,
    problem: Problem,
    rounds: int,
    target: Target | PureTarget,
    network: Network | None = None,
    schedule: Schedule | None = None,
    engine: LocalEngine | None = None,
    protection: Protection = ONE_RECORD,
    is_secure: bool = False,
) -> NoisePlan:
    """Return the noise that spends exactly the target; looks at public facts only."""
    engine = engine if engine is not None else LocalEngine()
    check_fit(algorithm, problem, network)
    setting = Setting(problem, rounds, engine.tolerance, network, protection)
    dimension = problem.dimension if is_secure else None
    silos = protection.silos_per_person
    return calibrated(algorithm.promises(setting), target, schedule, silos_per_person=silos, secure_dimension=dimension)


def _check_batches(algorithm: PrivateAlgorithm, plan: NoisePlan) -> None:
    """Refuse a release whose batches anyone could draw again: sampling hides nobody from those who know the batch."""
    if not any(isinstance(release, SampledGaussianRelease) for release in plan):
        return
    batches = getattr(algorithm, "batches", None)
    if not isinstance(batches, Batches) or not batches.is_secret:
        raise InputError(
            "The plan counts on batches that nobody knows, but these have a seed, which can be used again or guessed. "
            "For a release take Batches.secret(size), which draws one for every run; seeds are for simulation."
        )


def run_private(
    algorithm: PrivateAlgorithm,
    problem: Problem,
    rounds: int,
    target: Target | PureTarget,
    sampler: Sampler,
    network: Network | None = None,
    schedule: Schedule | None = None,
    engine: LocalEngine | None = None,
    protection: Protection = ONE_RECORD,
) -> PrivateRun:
    """Plan the noise for the target, run, and state the cost.

    >>> import numpy as np
    >>> from dpadmm.algorithms.p_admm import PADMM
    >>> from dpadmm.datasets import load_breast_cancer
    >>> from dpadmm.networks import ring
    >>> from dpadmm.noise import SimulatedSampler
    >>> from dpadmm.problems.losses import Logistic
    >>> from dpadmm.problems.risk import EmpiricalRisk
    >>> problem = Problem.of(EmpiricalRisk(load_breast_cancer().silos(), Logistic(), mu=0.01))
    >>> target = Target(epsilon=1.0, delta=1e-5)
    >>> done = run_private(PADMM(eta=0.01), problem, 10, target, SimulatedSampler(seed=0), ring(4))
    >>> round(done.statement.curve.epsilon(1e-5), 6), done.statement.theorems
    (1.0, ('C1',))
    """
    if isinstance(sampler, type) or not hasattr(sampler, "perturb"):
        raise InputError(f"sampler must be a sampler such as SecureSampler(), got {shown(sampler)}.")
    engine = engine if engine is not None else LocalEngine()
    plan = plan_noise(
        algorithm,
        problem,
        rounds,
        target,
        network,
        schedule,
        engine,
        protection,
        is_secure=isinstance(sampler, SecureSampler),
    )
    if isinstance(sampler, SecureSampler):
        _check_batches(algorithm, plan)
        engine = replace(engine, recording=Recording(every=0))
    noise = PlannedNoise(plan, sampler, engine.replicas)
    run = engine.run(algorithm, problem, Stopping(rounds=rounds), network, noise)
    return PrivateRun(run, plan, plan.statement(), noise.origin)
