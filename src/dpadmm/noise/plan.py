"""From mechanisms to noise: every release of a run, calibrated to a budget, before the data are touched.

`dpadmm.core.release` draws it as the run goes; what is not planned is refused.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm.checks import safe_repr
from dpadmm.errors import InputError
from dpadmm.noise.masks import MOST_MULTIPLE
from dpadmm.noise.mechanisms import (
    COORDINATOR,
    Constant,
    Family,
    MechanismSpec,
    MessageKind,
    Schedule,
    last_round,
)
from dpadmm.noise.sampler import MOST_GRIDS, grid_for
from dpadmm.noise.split import best_split, is_free_split
from dpadmm.privacy.accounting import (
    Account,
    PureTarget,
    Target,
    account_for,
    calibrate_gaussian,
    calibrate_laplace,
    calibrate_objective,
    calibrate_scale,
)
from dpadmm.privacy.certificates.sums import Shares, masked_sum
from dpadmm.privacy.protection import Certificate, secure_grid
from dpadmm.privacy.releases import NoisyRelease, ObjectiveRelease, SummedGaussianRelease, seen_noise

Floats = NDArray[np.float64]
Stds = list[Floats]
GridRule = Callable[[Certificate, float], Certificate]
"""What rounding to a grid makes of a certificate."""

_UNLIKELY = 40.0  # noise is larger than it is taken to be with probability exp(-40)
_ROUNDED = 8 * 2.0**-52  # of the largest term of a gradient, in 64-bit numbers


@dataclass(frozen=True)
class NoisePlan:
    """Every release of a run: by message kind and round, one per agent, or one that stands for all (key None)."""

    releases: Mapping[tuple[MessageKind, int], Mapping[int | None, NoisyRelease]]

    def __iter__(self) -> Iterator[NoisyRelease]:
        """Yield every release; one that stands for all agents comes once, under the agent of its row."""
        for row in self.releases.values():
            yield from row.values()

    def row(self, kind: MessageKind, k: int) -> Mapping[int | None, NoisyRelease]:
        """Return what is released in this message kind of round k; refuse what was not planned.

        Steps within a round (`kind.step`) share the plan of step 0, with fresh noise each.
        """
        row = self.releases.get((kind if kind.step == 0 else replace(kind, step=0), k))
        if row is None:
            raise InputError(f"No noise was planned for {kind} in round {k}; nothing may be released without it.")
        return row

    def of(self, kind: MessageKind, k: int, agents: NDArray[np.int64]) -> NoisyRelease | list[NoisyRelease]:
        """Return what these agents release in this message kind of round k, in one where it is for all agents."""
        row = self.row(kind, k)
        if None in row:
            return replace(row[None], agent=int(agents[0]))
        try:
            return [row[int(agent)] for agent in agents]
        except KeyError as unknown:
            raise InputError(f"Agent {unknown} has no noise planned for {kind} in round {k}.") from None

    def by(self, agents: range) -> Iterator[NoisyRelease]:
        """Yield what these agents release; a release that stands for all is made by each, a coordinator's once."""
        for row in self.releases.values():
            for agent, release in row.items():
                if agent is None and release.agent >= 0:
                    yield from (replace(release, agent=i) for i in agents)
                elif release.agent < 0 or release.agent in agents:
                    yield release

    def map(self, change: Callable[[NoisyRelease], NoisyRelease]) -> "NoisePlan":
        """Return the plan with every release changed."""
        return NoisePlan(
            {place: {agent: change(release) for agent, release in row.items()} for place, row in self.releases.items()}
        )

    def repeat(self, times: int) -> "NoisePlan":
        """Return the plan of so many runs with fresh noise each."""
        return self if times == 1 else self.map(lambda release: replace(release, count=release.count * times))

    def with_prefix(self, prefix: str) -> "NoisePlan":
        """Return the plan with this before the names of its message kinds, so that several runs stay apart."""
        if not prefix:
            return self
        return NoisePlan({(replace(kind, name=prefix + kind.name), k): row for (kind, k), row in self.releases.items()})

    def noise_in_sum(self, kind: MessageKind, k: int, n_agents: int) -> float:
        """Return the noise in the sum of all agents' values of a message kind and round; 0 where none is planned."""
        row = self.releases.get((kind, k), {})
        squares = [seen_noise(release) ** 2 for release in row.values()]
        return math.sqrt(squares[0] * n_agents if None in row else math.fsum(squares))

    def with_declared(self, declared: tuple[str, ...]) -> "NoisePlan":
        """Return the plan where every bound takes the constants of these parts of a user as declared."""
        if not declared:
            return self

        @cache
        def conditional(certificate: Certificate) -> Certificate:
            return replace(certificate, declared=declared)

        return self.map(lambda release: replace(release, certificate=conditional(release.certificate)))

    def account(self) -> Account:
        """Return what the whole plan costs the worst person, in as many silos as the certificates allow for.

        A release that stands for all agents is made by each, so it counts in each silo of a person. Enough agents are
        named for a person with the most silos; those without releases of their own pay the least.
        """
        named, silos = set[int](), 0
        for row in self.releases.values():
            for agent, release in row.items():
                if release.agent >= 0:
                    named.add(release.agent)
                    if agent is None:
                        silos = max(silos, release.certificate.protection.silos_per_person)
        if silos == 0:
            return account_for(self)
        everybody = sorted(named | set(range(max(named) + 1, max(named) + 1 + silos)))
        listed: list[NoisyRelease] = []
        for row in self.releases.values():
            for agent, release in row.items():
                is_for_all = agent is None and release.agent >= 0
                listed += [replace(release, agent=i) for i in everybody] if is_for_all else [release]
        return account_for(listed)


def check_grids(plan: Iterable[NoisyRelease], n_records: int) -> None:
    """Refuse noise so small that 64-bit multiples of its grid cannot hold a message; from public facts alone.

    One record moves a message by the certified bound at most, so all n of them by n times that. The sampler would
    refuse such a message as well, but only in the run, after it is paid for.
    """
    for release in plan:
        grid = release.certificate.grid
        most = MOST_MULTIPLE / 4 if isinstance(release, SummedGaussianRelease) else MOST_GRIDS
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


def calibrate(
    mechanisms: Sequence[MechanismSpec],
    target: Target | PureTarget,
    schedule: Schedule | None = None,
    *,
    silos_per_person: int = 1,
    on_grid: GridRule | None = None,
    shares: Shares | None = None,
) -> NoisePlan:
    """Return the plan that spends exactly the target, all mechanisms of an agent together.

    Parameters
    ----------
    mechanisms: Gaussian and sampled ones take a `Target`, Laplace and objective ones a `PureTarget`.
    schedule: relative noise over the rounds 1.. of the run (if left out, the mechanisms' own, or else constant).
    on_grid: what rounding to a grid makes of a certificate, if the messages are to leave on one (C8); it then enters
        the certificates before the noise is chosen. For Gaussian noise, and Laplace noise on coordinates; see
        `vector_on_grid`.
    shares: among whom the noise of a coordinator is shared out, where the silos' messages leave under masks (C12).
        They are then on a grid whatever the noise is drawn from.
    """
    if not isinstance(target, Target | PureTarget):
        raise InputError(
            f"The budget must be a Target(epsilon, delta) or a PureTarget(epsilon), got {safe_repr(target)}."
        )
    families = {mechanism.family for mechanism in mechanisms}
    lined_up = [[row.agent for row in mechanism.rows] for mechanism in mechanisms]
    several = [own for own in lined_up if len(own) > 1]
    if any(own != several[0] or len(set(own)) != len(own) for own in several):
        raise InputError("The message kinds of a run must list the same agents in the same order, each once.")
    agents = {agent for own in lined_up for agent in own}
    if agents == {COORDINATOR}:
        silos_per_person = 1  # one noise hides all silos of a person: their changes add up in the certificates
    else:
        rows = (row for mechanism in mechanisms for row in mechanism.rows)
        certified = {each.protection.silos_per_person for row in rows for each in row.certificates}
        silos_per_person = max(silos_per_person, *certified)
    stated = (mechanism.schedule for mechanism in mechanisms)
    shape = schedule or next((each for each in stated if each is not None), Constant())
    choose: Any  # of stds, or of rates
    if families <= {Family.GAUSSIAN, Family.SAMPLED}:
        if isinstance(target, PureTarget):
            raise InputError("Gaussian noise gives no pure epsilon; give a delta as well (Target).")
        if shares is not None and agents != {COORDINATOR}:
            raise InputError("Only values that are used through their sum can be summed under masks (C12).")
        choose, strongest = _gaussian_stds if families == {Family.GAUSSIAN} else _sampled_stds, np.max
    else:
        if shares is not None:
            raise InputError("Only Gaussian noise can be split into shares that add up to it (C12).")
        if on_grid is not None and families != {Family.COORDINATE}:
            raise InputError("There is no exact sampler for spherical Laplace noise (C8); use the Gaussian form.")
        if isinstance(target, Target) or families & {Family.GAUSSIAN, Family.SAMPLED}:
            raise InputError(
                "Laplace noise is pure epsilon-DP: give a PureTarget (no delta), and no Gaussian message kind."
            )
        choose, strongest = _pure_rates, np.min
    noise = _strongest(mechanisms, choose(mechanisms, target, shape, silos_per_person), strongest)
    if on_grid is not None:
        # The grid is a function of the noise alone; its rounding is 2^-24 of it, so one repetition settles.
        mechanisms = _on_grid(mechanisms, noise, on_grid, shares)
        noise = _strongest(mechanisms, choose(mechanisms, target, shape, silos_per_person), strongest)
    return plan_at(mechanisms, noise, shares)


@lru_cache(maxsize=4096)  # rounds mostly share a certificate, and grids are powers of two
def vector_on_grid(
    certificate: Certificate, grid: float, *, dimension: int, shares: Shares | None = None
) -> Certificate:
    """Return what rounding makes of the certificate of a vector (C8), or of a sum of them under masks (C12)."""
    if shares is None:
        return secure_grid(certificate, grid=grid, dimension=dimension)
    return masked_sum(certificate, shares=shares, grid=grid, dimension=dimension)


def _strongest(mechanisms: Sequence[MechanismSpec], noise: Stds, strongest: Callable[..., Floats]) -> Stds:
    """Give a row that stands for all, and all rows where noise is shared, the strongest that any agent needs."""
    found = []
    for mechanism, table in zip(mechanisms, noise, strict=True):
        if len(mechanism.rows) == 1:
            found.append(strongest(table, axis=0, keepdims=True))
        elif mechanism.is_noise_shared:
            found.append(np.broadcast_to(strongest(table, axis=0), table.shape))
        else:
            found.append(table)
    return found


def _side_by_side(mechanisms: Sequence[MechanismSpec], schedule: Schedule) -> tuple[Floats, Floats]:
    """Return bounds (rows, mechanisms * rounds), zero where an agent releases nothing, and the shape of the noise.

    `count` enters as sqrt(count).
    """
    rounds, rows = last_round(mechanisms), max(len(mechanism.rows) for mechanism in mechanisms)
    bounds, shapes = np.zeros((rows, len(mechanisms), rounds)), []
    for p, mechanism in enumerate(mechanisms):
        for i, row in enumerate(mechanism.rows):
            own = np.array([certificate.bound for certificate in row.certificates]) * np.sqrt(mechanism.count)
            bounds[i if len(mechanism.rows) > 1 else slice(None), p, np.array(row.rounds) - 1] = own
        shapes.append(mechanism.relative * schedule.shape(rounds))
    return bounds.reshape(rows, -1), np.concatenate(shapes)


def _gaussian_stds(mechanisms: Sequence[MechanismSpec], target: Target, schedule: Schedule, silos: int) -> Stds:
    """Closed form (C0): the message kinds of an agent side by side; (rows, rounds) for each mechanism."""
    stds = calibrate_gaussian(target, *_side_by_side(mechanisms, schedule), silos_per_person=silos)
    return np.split(np.atleast_2d(stds), len(mechanisms), axis=1)


def _sampled_stds(mechanisms: Sequence[MechanismSpec], target: Target, schedule: Schedule, silos: int) -> Stds:
    """Search over the composition of each agent's releases (PLD); agents with the same releases are searched once."""
    if silos != 1:
        raise InputError("Sampled releases are calibrated for people with records in one silo; got more.")
    rounds = last_round(mechanisms)
    shape = schedule.shape(rounds)
    table = np.empty((max(len(mechanism.rows) for mechanism in mechanisms), len(mechanisms)))
    known: dict[tuple[object, ...], Floats] = {}
    for i in range(len(table)):
        mine = [(mechanism, mechanism.rows[i if len(mechanism.rows) > 1 else 0]) for mechanism in mechanisms]
        # The certificates and rounds decide; whose they are does not.
        key = tuple((row.rounds, row.certificates, row.sampling) for _, row in mine)
        if key not in known:
            relative = (
                best_split(mine, target, shape) if is_free_split(mechanisms) else [p.relative for p in mechanisms]
            )
            releases = [
                mechanism.release(replace(row, agent=0), j, level * float(shape[k - 1]))
                for (mechanism, row), level in zip(mine, relative, strict=True)
                for j, k in enumerate(row.rounds)
            ]
            known[key] = calibrate_scale(target, releases) * np.array(relative)
        table[i] = known[key]
    return [table[:, [p]] * shape[None, :] for p in range(len(mechanisms))]


def _pure_rates(mechanisms: Sequence[MechanismSpec], target: PureTarget, schedule: Schedule, silos: int) -> Stds:
    """Message kinds of different families each spend their own share of epsilon; pure epsilons add up."""
    if len({mechanism.family for mechanism in mechanisms}) == 1:
        rates = _objective_rates if mechanisms[0].family is Family.OBJECTIVE else _spherical_rates
        return rates(mechanisms, target, schedule, silos)
    shares = [mechanism.share for mechanism in mechanisms if mechanism.share is not None]
    if len(shares) != len(mechanisms) or abs(sum(shares) - 1) > 1e-9:
        raise InputError(
            f"Message kinds of different pure noise families need shares of epsilon that sum to 1, got {shares}."
        )
    tables = []
    for mechanism, share in zip(mechanisms, shares, strict=True):
        tables += _pure_rates([mechanism], PureTarget(target.epsilon * share / sum(shares)), schedule, silos)
    return tables


def _spherical_rates(mechanisms: Sequence[MechanismSpec], target: PureTarget, schedule: Schedule, silos: int) -> Stds:
    bounds, shape = _side_by_side(mechanisms, schedule)
    counts = np.repeat([mechanism.count for mechanism in mechanisms], last_round(mechanisms))
    rates = calibrate_laplace(target, bounds * np.sqrt(counts), shape, silos_per_person=silos)  # pure epsilons add up
    return np.split(np.atleast_2d(rates), len(mechanisms), axis=1)


def _objective_rates(mechanisms: Sequence[MechanismSpec], target: PureTarget, schedule: Schedule, silos: int) -> Stds:
    if len(mechanisms) != 1:
        raise InputError("Objective perturbation has one message kind per round.")
    rounds = last_round(mechanisms)
    table = np.zeros((len(mechanisms[0].rows), rounds))
    for i, row in enumerate(mechanisms[0].rows):
        places = np.array(row.rounds) - 1
        shares = 1.0 / schedule.shape(rounds)[places]
        # `count` fresh noises in a round are so many rounds: each gets its part of the round's share.
        each = PureTarget(target.epsilon / mechanisms[0].count)
        table[i, places] = calibrate_objective(each, row.certificates, shares, silos_per_person=silos)
    return [table]


def _on_grid(
    mechanisms: Sequence[MechanismSpec],
    noise: Stds,
    placed: GridRule,
    shares: Shares | None,
) -> list[MechanismSpec]:
    """Return the mechanisms with every value on the grid that its noise asks for."""
    found = []
    for mechanism, table in zip(mechanisms, noise, strict=True):
        rows = []
        for row, std in zip(mechanism.rows, table, strict=True):
            own = 1 / std if mechanism.family is Family.COORDINATE else std
            own = own if shares is None else own / math.sqrt(shares.honest)
            grids = (grid_for(float(own[k - 1])) for k in row.rounds)
            rows.append(replace(row, certificates=tuple(map(placed, row.certificates, grids))))
        found.append(replace(mechanism, rows=tuple(rows)))
    return found


def plan_at(mechanisms: Sequence[MechanismSpec], noise: Stds, shares: Shares | None = None) -> NoisePlan:
    """Return the plan with this noise: for each mechanism (rows, rounds) of stds, or of rates."""
    kinds = set[MessageKind]()
    releases: dict[tuple[MessageKind, int], dict[int | None, NoisyRelease]] = {}
    for mechanism, table in zip(mechanisms, noise, strict=True):
        if mechanism.kind in kinds:
            raise InputError(
                "Two mechanisms have the same kind, so only one of them would be planned. Give them different names."
            )
        kinds.add(mechanism.kind)
        for i, row in enumerate(mechanism.rows):
            for j, k in enumerate(row.rounds):
                release = mechanism.release(row, j, float(table[i if len(table) > 1 else 0, k - 1]))
                if shares is not None:
                    release = SummedGaussianRelease(
                        certificate=release.certificate,
                        noise_std=release.level,
                        silos=shares.silos,
                        agent=release.agent,
                        round=release.round,
                        count=release.count,
                    )
                releases.setdefault((mechanism.kind, k), {})[None if mechanism.is_common else row.agent] = release
    return NoisePlan(releases)
