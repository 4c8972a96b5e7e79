"""From promises to noise: every release of a run, calibrated to a budget, and the hook that draws it.

The plan is fixed before the data are touched. `PlannedNoise` draws it as the run goes; what is not planned is refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.noise.draws import COORDINATOR, Batch, Draw, Sampler, Slot
from dpadmm.noise.promises import Family, Promise, Row, bounds_by_round, last_round
from dpadmm.noise.schedules import Constant, Schedule
from dpadmm.noise.secure import grid_for
from dpadmm.noise.split import best_split, is_free_split
from dpadmm.privacy.accounting import Statement, statement
from dpadmm.privacy.calibration import (
    PureTarget,
    Target,
    calibrate_gaussian,
    calibrate_laplace,
    calibrate_objective,
    calibrate_scale,
)
from dpadmm.privacy.certificates import secure_grid
from dpadmm.privacy.records import Release

Floats = NDArray[np.float64]
Stds = list[Floats]


@dataclass(frozen=True)
class NoisePlan:
    """Every release of a run: by slot and round, one per agent, or one that stands for all (key None)."""

    releases: Mapping[tuple[Slot, int], Mapping[int | None, Release]]

    def __iter__(self) -> Iterator[Release]:
        """Yield every release."""
        for row in self.releases.values():
            yield from row.values()

    def through(self, k: int) -> list[Release]:
        """Return the releases of rounds 1..k."""
        return [release for release in self if release.round <= k]

    def of(self, slot: Slot, k: int, agents: NDArray[np.int64]) -> Release | list[Release]:
        """Return what these agents release in this slot of round k; refuse what was not planned.

        Steps within a round (`slot.step`) share the plan of step 0, with fresh noise each.
        """
        row = self.releases.get((replace(slot, step=0), k))
        if row is None:
            raise InputError(f"No noise was planned for {slot} in round {k}; nothing may leave without it.")
        if None in row:
            return replace(row[None], agent=int(agents[0]))
        try:
            return [row[int(agent)] for agent in agents]
        except KeyError as unknown:
            raise InputError(f"Agent {unknown} has no noise planned for {slot} in round {k}.") from None

    def statement(self) -> Statement:
        """Return what the whole plan costs the worst person."""
        return statement(self)


def calibrated(
    promises: Sequence[Promise],
    target: Target | PureTarget,
    schedule: Schedule | None = None,
    *,
    silos_per_person: int = 1,
    secure_dimension: int | None = None,
    is_noise_shared: bool = False,
) -> NoisePlan:
    """Return the plan that spends exactly the target, all promises of an agent together.

    Parameters
    ----------
    promises: Gaussian and sampled ones take a `Target`, Laplace and objective ones a `PureTarget`.
    schedule: relative noise over the rounds 1.. of the run (if left out, the promises' own, or else constant).
    secure_dimension: dimension of the messages if they are to leave on a grid (C8): the rounding then enters the
        certificates before the noise is chosen. Only for Gaussian noise.
    is_noise_shared: in every promise, all agents use the noise of the one who needs most; a promise may also say so
        for itself.
    """
    families = {promise.family for promise in promises}
    if all(row.agent == COORDINATOR for promise in promises for row in promise.rows):
        silos_per_person = 1  # one noise hides all silos of a person: their changes add up in the certificates
    shape = schedule or next((promise.schedule for promise in promises if promise.schedule is not None), Constant())
    if families <= {Family.GAUSSIAN, Family.SAMPLED}:
        if isinstance(target, PureTarget):
            raise InputError("Gaussian noise has no pure epsilon; give a delta as well (Target).")
        choose = _gaussian_stds if families == {Family.GAUSSIAN} else _sampled_stds
        noise = _shared(promises, choose(promises, target, shape, silos_per_person), is_noise_shared)
        if secure_dimension is not None:
            # The grid is a function of the noise alone; its rounding is 2^-24 of it, so one repetition settles.
            promises = [_on_grid(p, s, secure_dimension) for p, s in zip(promises, noise, strict=True)]
            noise = _shared(promises, choose(promises, target, shape, silos_per_person), is_noise_shared)
    else:
        if secure_dimension is not None:
            raise InputError("There is no exact sampler for spherical Laplace noise (C8); use the Gaussian form.")
        if isinstance(target, Target) or families & {Family.GAUSSIAN, Family.SAMPLED}:
            raise InputError("Laplace noise is pure epsilon-DP: give a PureTarget (no delta), and no Gaussian slot.")
        choose_rates = _split_rates if len(families) > 1 else _pure_rates
        noise = choose_rates(promises, target, shape, silos_per_person)
    return _plan(promises, noise)


def at_levels(promises: Sequence[Promise], levels: Sequence[ArrayLike]) -> NoisePlan:
    """Return the plan with noise levels chosen by other means, such as a paper's claim; its statement tells the cost.

    levels: for each promise (rounds,) or (rows, rounds), all > 0: stds, or rates for the Laplace families; entry k-1
        belongs to round k.
    """
    if len(levels) != len(promises):
        raise InputError(f"{len(promises)} promises need as many tables of noise levels, got {len(levels)}.")
    tables = [np.atleast_2d(np.asarray(table, dtype=np.float64)) for table in levels]
    for promise, table in zip(promises, tables, strict=True):
        if table.shape[1] != last_round([promise]) or len(table) not in (1, len(promise.rows)):
            raise InputError(
                f"{promise.slot} needs noise levels for {last_round([promise])} rounds and one or {len(promise.rows)} "
                f"rows, got {table.shape}."
            )
        if not np.all(np.isfinite(table) & (table > 0)):
            raise InputError(f"{promise.slot} needs noise levels that are finite and greater than 0.")
    return _plan(promises, tables)


def _shared(promises: Sequence[Promise], noise: Stds, is_everywhere: bool) -> Stds:
    """Give all agents the largest noise among them where the promise, or the caller, asks for it."""
    pairs = zip(promises, noise, strict=True)
    return [
        np.broadcast_to(stds.max(axis=0), stds.shape) if is_everywhere or promise.is_noise_shared else stds
        for promise, stds in pairs
    ]


def _gaussian_stds(promises: Sequence[Promise], target: Target, schedule: Schedule, silos: int) -> Stds:
    """Closed form (C0): the slots of an agent side by side; (rows, rounds) for each promise."""
    rounds = last_round(promises)
    bounds = _side_by_side([bounds_by_round(promise, promise.rows, rounds) for promise in promises])
    shape = np.concatenate([promise.relative * schedule.shape(rounds) for promise in promises])
    stds = calibrate_gaussian(target, bounds, shape, silos_per_person=silos)
    return np.split(np.atleast_2d(stds), len(promises), axis=1)


def _sampled_stds(promises: Sequence[Promise], target: Target, schedule: Schedule, silos: int) -> Stds:
    """Search over the composition of each agent's releases (PLD); agents with the same releases are searched once."""
    if silos != 1:
        raise InputError("Sampled releases are calibrated for people with records in one silo; got more.")
    rounds = last_round(promises)
    shape = schedule.shape(rounds)
    table = np.empty((len(promises[0].rows), len(promises)))
    known: dict[tuple[object, ...], Floats] = {}
    for i in range(len(table)):
        mine = [(promise, promise.rows[i if len(promise.rows) > 1 else 0]) for promise in promises]
        # The certificates and rounds decide; whose they are does not.
        key = tuple((row.rounds, row.certificates, row.sampling) for _, row in mine)
        if key not in known:
            relative = best_split(mine, target, shape) if is_free_split(promises) else [p.relative for p in promises]
            releases = [
                promise.release(replace(row, agent=0), j, level * float(shape[k - 1]))
                for (promise, row), level in zip(mine, relative, strict=True)
                for j, k in enumerate(row.rounds)
            ]
            known[key] = calibrate_scale(target, releases) * np.array(relative)
        table[i] = known[key]
    return [table[:, [p]] * shape[None, :] for p in range(len(promises))]


def _pure_rates(promises: Sequence[Promise], target: PureTarget, schedule: Schedule, silos: int) -> Stds:
    rates = _objective_rates if promises[0].family is Family.OBJECTIVE else _spherical_rates
    return rates(promises, target, schedule, silos)


def _split_rates(promises: Sequence[Promise], target: PureTarget, schedule: Schedule, silos: int) -> Stds:
    """Slots of different families: each spends its own share of epsilon; pure epsilons add up."""
    shares = [promise.share for promise in promises if promise.share is not None]
    if len(shares) != len(promises) or abs(sum(shares) - 1) > 1e-9:
        raise InputError(f"Slots of different pure families need shares of epsilon that sum to 1, got {shares}.")
    tables = []
    for promise, share in zip(promises, shares, strict=True):
        own = PureTarget(target.epsilon * share / sum(shares))
        tables += _pure_rates([promise], own, schedule, silos)
    return tables


def _spherical_rates(promises: Sequence[Promise], target: PureTarget, schedule: Schedule, silos: int) -> Stds:
    rounds = last_round(promises)
    bounds = _side_by_side(
        [bounds_by_round(promise, promise.rows, rounds) * np.sqrt(promise.count) for promise in promises]
    )
    shape = np.concatenate([promise.relative * schedule.shape(rounds) for promise in promises])
    rates = calibrate_laplace(target, bounds, shape, silos_per_person=silos)
    return np.split(np.atleast_2d(rates), len(promises), axis=1)


def _objective_rates(promises: Sequence[Promise], target: PureTarget, schedule: Schedule, silos: int) -> Stds:
    if len(promises) != 1:
        raise InputError("Objective perturbation has one slot a round.")
    rounds = last_round(promises)
    table = np.zeros((len(promises[0].rows), rounds))
    for i, row in enumerate(promises[0].rows):
        places = np.array(row.rounds) - 1
        shares = 1.0 / schedule.shape(rounds)[places]
        table[i, places] = calibrate_objective(target, row.certificates, shares, silos_per_person=silos)
    return [table]


def _side_by_side(bounds: list[Floats]) -> Floats:
    rows = max(len(part) for part in bounds)
    return np.concatenate([np.broadcast_to(part, (rows, part.shape[1])) for part in bounds], axis=1)


def _on_grid(promise: Promise, stds: Floats, dimension: int) -> Promise:
    checks.count("secure_dimension", dimension)

    def row_on_grid(row: Row, std: Floats) -> Row:
        pairs = zip(row.certificates, row.rounds, strict=True)
        return replace(
            row,
            certificates=tuple(
                secure_grid(certificate, grid=grid_for(float(std[k - 1])), dimension=dimension)
                for certificate, k in pairs
            ),
        )

    return replace(promise, rows=tuple(row_on_grid(*pair) for pair in zip(promise.rows, stds, strict=True)))


def _plan(promises: Sequence[Promise], noise: Stds) -> NoisePlan:
    releases: dict[tuple[Slot, int], dict[int | None, Release]] = {}
    for promise, table in zip(promises, noise, strict=True):
        for i, row in enumerate(promise.rows):
            for j, k in enumerate(row.rounds):
                release = promise.release(row, j, float(table[i if len(table) > 1 else 0, k - 1]))
                releases.setdefault((promise.slot, k), {})[None if promise.is_common else row.agent] = release
    return NoisePlan(releases)


class PlannedNoise:
    """The engine's noise hook: draws what the plan says, for each group of replicas by its own plan."""

    def __init__(self, plan: NoisePlan, sampler: Sampler, replicas: int = 1) -> None:
        self.groups = [(np.arange(checks.count("replicas", replicas)), plan)]
        self.sampler = sampler

    @classmethod
    def by_budget(cls, plans: Sequence[NoisePlan], sampler: Sampler, replicas_each: int) -> "PlannedNoise":
        """Return a hook in which plan b rules the replicas from b*replicas_each on: many budgets, one run."""
        hook = cls(plans[0], sampler, replicas_each)
        hook.groups = [(np.arange(b * replicas_each, (b + 1) * replicas_each), plan) for b, plan in enumerate(plans)]
        return hook

    def perturb(self, slot: Slot, k: int, agents: NDArray[np.int64], values: Floats) -> Floats:
        """Return `values` (agents, d, R) with the planned noise added."""
        out = np.empty_like(values)
        for columns, plan in self.groups:
            draw = Draw(slot, k, Batch.of(agents, columns))
            part = np.ascontiguousarray(values[:, :, columns])
            out[:, :, columns] = self.sampler.perturb(part, plan.of(slot, k, agents), draw).values
        return out
