"""From promises to noise: every release of a run, calibrated to a budget, before the data are touched.

`dpadmm.core.release` draws it as the run goes; what is not planned is refused.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.errors import InputError
from dpadmm.noise.masks import MOST_MULTIPLE
from dpadmm.noise.mechanisms import (
    COORDINATOR,
    Constant,
    Family,
    Promise,
    Row,
    Schedule,
    Slot,
    bounds_by_round,
    last_round,
)
from dpadmm.noise.sampler import MOST_REACH, grid_for
from dpadmm.noise.split import best_split, is_free_split
from dpadmm.privacy.accounting import (
    PureTarget,
    Statement,
    Target,
    calibrate_gaussian,
    calibrate_laplace,
    calibrate_objective,
    calibrate_scale,
    statement,
)
from dpadmm.privacy.certificates.sums import Shares, masked_sum
from dpadmm.privacy.protection import Certificate, secure_grid
from dpadmm.privacy.releases import NoisyRelease, ObjectiveRelease, SummedGaussianRelease, seen_noise

Floats = NDArray[np.float64]
Stds = list[Floats]

_UNLIKELY = 40.0  # noise is larger than it is taken to be with probability exp(-40)
_ROUNDED = 8 * 2.0**-52  # of the largest term of a gradient, in 64-bit numbers


@dataclass(frozen=True)
class NoisePlan:
    """Every release of a run: by slot and round, one per agent, or one that stands for all (key None)."""

    releases: Mapping[tuple[Slot, int], Mapping[int | None, NoisyRelease]]

    def __iter__(self) -> Iterator[NoisyRelease]:
        """Yield every release; one that stands for all agents comes once, under the agent of its row."""
        for row in self.releases.values():
            yield from row.values()

    def through(self, k: int) -> list[NoisyRelease]:
        """Return the releases of rounds 1..k."""
        return [release for release in self if release.round <= k]

    def of(self, slot: Slot, k: int, agents: NDArray[np.int64]) -> NoisyRelease | list[NoisyRelease]:
        """Return what these agents release in this slot of round k; refuse what was not planned.

        Steps within a round (`slot.step`) share the plan of step 0, with fresh noise each.
        """
        row = self.releases.get((replace(slot, step=0), k))
        if row is None:
            raise InputError(f"No noise was planned for {slot} in round {k}; nothing may be released without it.")
        if None in row:
            return replace(row[None], agent=int(agents[0]))
        try:
            return [row[int(agent)] for agent in agents]
        except KeyError as unknown:
            raise InputError(f"Agent {unknown} has no noise planned for {slot} in round {k}.") from None

    def by(self, agents: range) -> Iterator[NoisyRelease]:
        """Yield what these agents release; a release that stands for all is made by each, a coordinator's once."""
        for row in self.releases.values():
            for agent, release in row.items():
                if agent is None and release.agent >= 0:
                    yield from (replace(release, agent=i) for i in agents)
                elif release.agent < 0 or release.agent in agents:
                    yield release

    def repeated(self, times: int) -> "NoisePlan":
        """Return the plan of so many runs with fresh noise each."""
        if times == 1:
            return self
        return NoisePlan(
            {
                place: {agent: replace(release, count=release.count * times) for agent, release in row.items()}
                for place, row in self.releases.items()
            }
        )

    def prefixed(self, prefix: str) -> "NoisePlan":
        """Return the plan with this before the names of its slots, so that several runs stay apart."""
        if not prefix:
            return self
        return NoisePlan({(replace(slot, name=prefix + slot.name), k): row for (slot, k), row in self.releases.items()})

    def noise_in_sum(self, slot: Slot, k: int, n_agents: int) -> float:
        """Return the noise in the sum of all agents' values of a slot and round."""
        row = self.releases[slot, k]
        squares = [seen_noise(release) ** 2 for release in row.values()]
        return math.sqrt(squares[0] * n_agents if None in row else math.fsum(squares))

    def resting_on(self, declared: tuple[str, ...]) -> "NoisePlan":
        """Return the plan where every bound takes the constants of these parts of a user as declared."""
        if not declared:
            return self

        @cache
        def conditional(certificate: Certificate) -> Certificate:
            return replace(certificate, declared=declared)

        return NoisePlan(
            {
                place: {
                    agent: replace(release, certificate=conditional(release.certificate))
                    for agent, release in row.items()
                }
                for place, row in self.releases.items()
            }
        )

    def statement(self) -> Statement:
        """Return what the whole plan costs the worst person, in as many silos as the certificates allow for."""
        return statement(self._of_people())

    def _of_people(self) -> Iterator[NoisyRelease]:
        """Yield every release; one that stands for all agents is made by each, so it counts in each silo of a person.

        Enough agents are named for a person with the most silos; those without releases of their own pay the least.
        """
        common = [row[None] for row in self.releases.values() if None in row and row[None].agent >= 0]
        if not common:
            yield from self
            return
        silos = max(release.certificate.protection.silos_per_person for release in common)
        named = {release.agent for release in self if release.agent >= 0}
        fresh = range(max(named) + 1, max(named) + 1 + silos)
        for row in self.releases.values():
            if None in row and row[None].agent >= 0:
                yield from (replace(row[None], agent=agent) for agent in (*sorted(named), *fresh))
            else:
                yield from row.values()


def check_reach(plan: Iterable[NoisyRelease], n_records: int) -> None:
    """Refuse noise so small that 64-bit multiples of its grid cannot hold a message; from public facts alone.

    One record moves a message by the certified bound at most, so all n of them by n times that. The sampler would
    refuse such a message as well, but only in the run, after it is paid for.
    """
    for release in plan:
        grid = release.certificate.grid
        most = MOST_MULTIPLE / 4 if isinstance(release, SummedGaussianRelease) else MOST_REACH
        if grid is not None and n_records * release.bound > most * grid:
            raise InputError(
                f"epsilon leaves so little noise compared with up to {n_records} records that 64-bit numbers cannot "
                "hold a message on the grid of secure noise. Choose a smaller epsilon, or a smaller nominal number of "
                "records if one is used. Nothing was spent."
            )


def check_solvable(plan: Iterable[NoisyRelease], dimension: int, tolerance: float) -> None:
    """Refuse noise in an objective so large that rounding alone misses the solver's tolerance; from public facts alone.

    The norm of such noise is Gamma(d)/rate, above `(d + sqrt(2 d t) + t)/rate` with probability `exp(-t)` at most, and
    the gradient of the objective is rounded in proportion. The run would fail as well, but after it is paid for.
    """
    norm = dimension + math.sqrt(2 * dimension * _UNLIKELY) + _UNLIKELY
    for release in plan:
        if isinstance(release, ObjectiveRelease) and norm / release.rate * _ROUNDED > tolerance:
            raise InputError(
                "epsilon asks for so much noise inside the objective that 64-bit numbers cannot solve it to the "
                f"tolerance {tolerance:g}. Choose a larger epsilon or an algorithm that adds noise to its messages. "
                "Nothing was spent."
            )


def calibrated(
    promises: Sequence[Promise],
    target: Target | PureTarget,
    schedule: Schedule | None = None,
    *,
    silos_per_person: int = 1,
    secure_dimension: int | None = None,
    on_grid: Callable[[Certificate, float], Certificate] | None = None,
    shares: Shares | None = None,
) -> NoisePlan:
    """Return the plan that spends exactly the target, all promises of an agent together.

    Parameters
    ----------
    promises: Gaussian and sampled ones take a `Target`, Laplace and objective ones a `PureTarget`.
    schedule: relative noise over the rounds 1.. of the run (if left out, the promises' own, or else constant).
    secure_dimension: dimension of the messages if they are to leave on a grid (C8): the rounding then enters the
        certificates before the noise is chosen. Only for Gaussian noise.
    on_grid: what rounding to a grid makes of a certificate, where that is not the rule for such vectors.
    shares: among whom the noise of a coordinator is shared out, where the silos' messages leave under masks (C12).
        They are then on a grid whatever the noise is drawn from, of dimension `secure_dimension`.
    """
    if not isinstance(target, Target | PureTarget):
        raise InputError(f"The budget must be a Target(epsilon, delta) or a PureTarget(epsilon), got {shown(target)}.")
    families = {promise.family for promise in promises}
    _check_rows(promises)
    if all(row.agent == COORDINATOR for promise in promises for row in promise.rows):
        silos_per_person = 1  # one noise hides all silos of a person: their changes add up in the certificates
    else:
        certified = {
            c.protection.silos_per_person for promise in promises for row in promise.rows for c in row.certificates
        }
        silos_per_person = max(silos_per_person, *certified)
    shape = schedule or next((promise.schedule for promise in promises if promise.schedule is not None), Constant())
    if families <= {Family.GAUSSIAN, Family.SAMPLED}:
        if isinstance(target, PureTarget):
            raise InputError("Gaussian noise gives no pure epsilon; give a delta as well (Target).")
        choose = _gaussian_stds if families == {Family.GAUSSIAN} else _sampled_stds
        noise = _shared(promises, choose(promises, target, shape, silos_per_person))
        if secure_dimension is not None and on_grid is None:
            on_grid = _rule_for_vectors(promises, secure_dimension, shares)
        if on_grid is not None:
            # The grid is a function of the noise alone; its rounding is 2^-24 of it, so one repetition settles.
            promises = [_on_grid(p, s, on_grid, shares) for p, s in zip(promises, noise, strict=True)]
            noise = _shared(promises, choose(promises, target, shape, silos_per_person))
    else:
        if shares is not None:
            raise InputError(
                "Only Gaussian noise can be split into shares that add up to it; use a Gaussian form (C12)."
            )
        if secure_dimension is not None:
            raise InputError("There is no exact sampler for spherical Laplace noise (C8); use the Gaussian form.")
        if isinstance(target, Target) or families & {Family.GAUSSIAN, Family.SAMPLED}:
            raise InputError("Laplace noise is pure epsilon-DP: give a PureTarget (no delta), and no Gaussian slot.")
        choose_rates = _split_rates if len(families) > 1 else _pure_rates
        noise = _one_for_all(promises, choose_rates(promises, target, shape, silos_per_person), np.min)
    return _plan(promises, noise, shares)


def _check_rows(promises: Sequence[Promise]) -> None:
    """Refuse promises whose rows cannot be put side by side: row i of every slot is the same agent's."""
    agents = [tuple(row.agent for row in promise.rows) for promise in promises if len(promise.rows) > 1]
    if any(len(set(one)) != len(one) or one != agents[0] for one in agents):
        raise InputError("The slots of a run must list the same agents in the same order, each once.")


def _one_for_all(promises: Sequence[Promise], noise: Stds, strongest: Callable[..., Floats]) -> Stds:
    """Give a single row that stands beside rows of many agents the strongest noise that any of them needs."""
    return [
        strongest(table, axis=0, keepdims=True) if len(promise.rows) == 1 else table
        for promise, table in zip(promises, noise, strict=True)
    ]


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


def _shared(promises: Sequence[Promise], noise: Stds) -> Stds:
    """Give all agents the largest noise among them where the promise asks for it."""
    pairs = zip(promises, _one_for_all(promises, noise, np.max), strict=True)
    return [
        np.broadcast_to(stds.max(axis=0), stds.shape) if promise.is_noise_shared else stds for promise, stds in pairs
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
    table = np.empty((max(len(promise.rows) for promise in promises), len(promises)))
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
        raise InputError(f"Slots of different pure noise families need shares of epsilon that sum to 1, got {shares}.")
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
        raise InputError("Objective perturbation has one slot per round.")
    rounds = last_round(promises)
    table = np.zeros((len(promises[0].rows), rounds))
    for i, row in enumerate(promises[0].rows):
        places = np.array(row.rounds) - 1
        shares = 1.0 / schedule.shape(rounds)[places]
        # `count` fresh noises in a round are so many rounds: each gets its part of the round's share.
        each = PureTarget(target.epsilon / promises[0].count)
        table[i, places] = calibrate_objective(each, row.certificates, shares, silos_per_person=silos)
    return [table]


def _side_by_side(bounds: list[Floats]) -> Floats:
    rows = max(len(part) for part in bounds)
    return np.concatenate([np.broadcast_to(part, (rows, part.shape[1])) for part in bounds], axis=1)


def _rule_for_vectors(
    promises: Sequence[Promise], dimension: int, shares: Shares | None
) -> Callable[[Certificate, float], Certificate]:
    checks.count("secure_dimension", dimension)
    if shares is not None and any(row.agent != COORDINATOR for promise in promises for row in promise.rows):
        raise InputError("Only values that are used through their sum can be summed under masks (C12).")

    @cache  # rounds mostly share a certificate, and grids are powers of two
    def placed(certificate: Certificate, grid: float) -> Certificate:
        if shares is None:
            return secure_grid(certificate, grid=grid, dimension=dimension)
        return masked_sum(certificate, shares=shares, grid=grid, dimension=dimension)

    return placed


def _on_grid(
    promise: Promise, stds: Floats, placed: Callable[[Certificate, float], Certificate], shares: Shares | None
) -> Promise:
    def row_on_grid(row: Row, std: Floats) -> Row:
        own = std if shares is None else std / math.sqrt(shares.honest)
        pairs = zip(row.certificates, row.rounds, strict=True)
        return replace(row, certificates=tuple(placed(each, grid_for(float(own[k - 1]))) for each, k in pairs))

    return replace(promise, rows=tuple(row_on_grid(*pair) for pair in zip(promise.rows, stds, strict=True)))


def _plan(promises: Sequence[Promise], noise: Stds, shares: Shares | None = None) -> NoisePlan:
    slots = [promise.slot for promise in promises]
    if len(set(slots)) != len(slots):
        raise InputError(
            "Two promises have the same slot, so only one of them would be planned. Give them different names."
        )
    releases: dict[tuple[Slot, int], dict[int | None, NoisyRelease]] = {}
    for promise, table in zip(promises, noise, strict=True):
        for i, row in enumerate(promise.rows):
            for j, k in enumerate(row.rounds):
                release = promise.release(row, j, float(table[i if len(table) > 1 else 0, k - 1]))
                release = release if shares is None else summed(release, shares)
                releases.setdefault((promise.slot, k), {})[None if promise.is_common else row.agent] = release
    return NoisePlan(releases)


def summed(release: NoisyRelease, shares: Shares) -> SummedGaussianRelease:
    """Return a release of a sum as one that is made of the silos' shares."""
    return SummedGaussianRelease(
        certificate=release.certificate,
        noise_std=release.level,
        silos=shares.silos,
        agent=release.agent,
        round=release.round,
        count=release.count,
    )
