"""Reserve, draw, account: written once, for everything that is released.

`open_release` reserves a whole plan in the ledger and lends its noise; what is lent is taken off what was reserved,
and anything else is refused. It does not end before all of it was drawn.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from traceback import clear_frames
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm.checks import plural, safe_repr
from dpadmm.core.spec import SumQuery
from dpadmm.errors import InputError, ResumeError, raise_alone
from dpadmm.methods.base import NoiseHook
from dpadmm.noise.masks import Masks, Uint64s, add_masks, from_uint64, pairwise_masks, sum_uint64, to_uint64
from dpadmm.noise.mechanisms import COORDINATOR, MessageKind
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import Draw, Releases, Sampler, sum_on_grid
from dpadmm.privacy.ledger import ConfirmedLedger, Receipt
from dpadmm.privacy.releases import NoisyRelease, ObjectiveRelease, Origin, SummedGaussianRelease, seen_noise
from dpadmm.problems.arrays import Floats

_COORDINATOR_ALONE = np.array([COORDINATOR])


@dataclass(frozen=True)
class PublicRound:
    """One round, as anyone who saw the released messages can compute it: post-processing, and nothing else.

    norms: of each sender's message. movement: distance of their mean from that of the round before (of the mean
    itself in the first). disagreement: largest distance of a message from their mean. noise_norm: the expected norm
    of the noise on one message, a public number. average_movement: as movement, of the mean of all rounds so far.
    """

    round: int
    kind: str
    norms: tuple[float, ...]
    movement: float
    disagreement: float
    noise_norm: float
    average_movement: float = 0.0


class PlannedNoise:
    """The noise hook of a run: draws what the plan says.

    Secure noise is handed out only as often as the plan pays for it: `count` times in a kind, round and agent. A second
    value under the same name would be a second release. Seeded noise may be drawn again, it is the same. Whoever lets
    values leave asks first whether all of their noise was drawn (`check_drawn`): a plan is no noise.

    replicas: of the run, their number or indices. masks: of every silo, where sums are taken under masks in one
    process; the sum is the same without.
    history: what leaves, of a single run, as anyone can compute it from the noisy messages; no value is seen before
    its noise. Noise inside an objective (C2) never leaves, and whoever knew its norm could take it off the broadcast
    minimiser, so it is not in there. sums: all noisy sums, if `keeps_sums`.
    """

    def __init__(
        self,
        plan: NoisePlan,
        sampler: Sampler,
        replicas: int | Sequence[int] = 1,
        masks: Sequence[Masks] | None = None,
        *,
        keeps_sums: bool = False,
    ) -> None:
        self.plan, self._sampler, self.replicas = plan, sampler, replicas
        self.masks, self.keeps_sums = masks, keeps_sums
        self.history: list[PublicRound] = []
        self.sums: list[Floats] = []
        self._means: dict[str, tuple[int, Floats, Floats]] = {}  # messages so far, mean of the last, mean of all
        self._drawn: defaultdict[tuple[str, int], list[NDArray[np.int64]]] = defaultdict(list)  # who, draw by draw

    def __getstate__(self) -> dict[str, Any]:
        """Refuse copies of secure noise: every one would draw what is paid for once."""
        if self._sampler.is_secure:
            raise InputError(
                "Secure noise is not copied, nor sent elsewhere: what is paid for once would be drawn twice."
            )
        return vars(self).copy()

    def perturb(self, kind: MessageKind, k: int, agents: NDArray[np.int64], values: Floats) -> Floats:
        """Return `values` (agents, d, R) with the planned noise added."""
        planned = self.plan.of(kind, k, agents)
        if any(isinstance(each, SummedGaussianRelease) for each in _as_list(planned)):
            raise InputError(
                f"The noise of {kind} is split among the silos: only the sum over all silos contains it (C12)."
            )
        out = self._draw(kind, k, agents, values, planned, planned)
        self._record(kind, k, out)
        return out

    def total(self, kind: MessageKind, k: int, messages: Floats) -> Floats:
        """Return the noisy sum (1, d, R) of all silos' messages: with one noise, or with the shares of all (C12)."""
        (release,) = _as_list(self.plan.of(kind, k, _COORDINATOR_ALONE))
        if not isinstance(release, SummedGaussianRelease):
            far, near = sum_on_grid(messages, release.certificate.grid)
            out = far + self._draw(kind, k, _COORDINATOR_ALONE, near, release, release)
            self._record(kind, k, out)
        elif len(messages) != release.silos:
            raise InputError(f"A sum under masks is planned for {release.silos} silos, got {len(messages)}.")
        else:
            out = from_uint64(sum_uint64(self.sent(kind, k, messages)), _grid_of(release))[None]
            self._record(kind, k, out)
        if self.keeps_sums:
            self.sums.append(out)
        return out

    def sent(self, kind: MessageKind, k: int, messages: Floats) -> list[Uint64s]:
        """Return what leaves all silos: each one's share, under its masks where there are any."""
        parts = self.shares(kind, k, np.arange(len(messages)), messages)
        if self.masks is None:
            return parts
        return [
            add_masks(part.ravel(), masks, kind.name, k).reshape(part.shape)
            for part, masks in zip(parts, self.masks, strict=True)
        ]

    def shares(self, kind: MessageKind, k: int, agents: NDArray[np.int64], values: Floats) -> list[Uint64s]:
        """Return what silos send where only sums are seen: each one's values with its share of the noise, as words."""
        (release,) = _as_list(self.plan.of(kind, k, _COORDINATOR_ALONE))
        if not isinstance(release, SummedGaussianRelease):
            raise InputError(f"The noise of {kind} in round {k} is not split among silos.")
        if kind.step != 0 or release.count != 1:
            raise InputError(f"Masks serve one vector each: {kind} in round {k} has room for one sum (C12).")
        shares = [release.share(int(agent)) for agent in agents]
        drawn = self._draw(kind, k, agents, values, shares, release)
        return [to_uint64(part, _grid_of(release)) for part in drawn]

    def _draw(
        self,
        kind: MessageKind,
        k: int,
        agents: NDArray[np.int64],
        values: Floats,
        releases: Releases,
        planned: Releases,
    ) -> Floats:
        """Draw the noise of the releases; refuse secure noise that the plan has not paid for.

        planned: who may draw how often. The values are handed out only after that is checked.
        """
        drawn = self._sampler.perturb(np.ascontiguousarray(values), releases, Draw(kind, k, agents, self.replicas))
        if self._sampler.is_secure:
            paid = planned if isinstance(planned, Sequence) else [planned] * len(agents)
            for agent, release in zip(agents.tolist(), paid, strict=True):
                if self._times(kind, k, agent) >= release.count:
                    raise InputError(
                        f"Agent {agent} has released all that was planned for {kind.name!r} in round {k}; another "
                        "value would not be accounted for. Plan for it (count), or, if the first was never sent, use "
                        "a new PlannedNoise."
                    )
        self._drawn[kind.name, k].append(agents)
        return drawn

    def check_drawn(self, k: int | None = None, agent: int | None = None) -> None:
        """Refuse to go on where noise was planned and not drawn: what was computed is bare there, and must not leave.

        k: the only round to look at. agent: the only one that draws here (`COORDINATOR` for the coordinator).
        """
        for (kind, when), row in self.plan.releases.items():
            for who, release in row.items() if k in (None, when) else ():
                if isinstance(release, SummedGaussianRelease):
                    for each in range(release.silos) if agent is None else [agent] * (agent >= 0):
                        self._check_all(self._times(kind, when, each), release, kind)
                    continue
                is_for_all = who is None and release.agent >= 0
                if agent is None or agent == release.agent or (is_for_all and agent >= 0):
                    anybody = is_for_all and agent is None
                    drawn = self._times(kind, when, None if anybody else release.agent if agent is None else agent)
                    self._check_all(drawn, release, kind)

    def _record(self, kind: MessageKind, k: int, released: Floats) -> None:
        """Write down what a message kind of a single run has released."""
        row, noise_std = self.plan.row(kind, k), 0.0
        if released.shape[2] != 1:
            return
        for release in row.values():
            if isinstance(release, ObjectiveRelease):
                return
            noise_std = max(noise_std, seen_noise(release))
        message = released[:, :, 0]
        mean = message.mean(axis=0)
        seen, last, average = self._means.get(kind.name, (0, np.zeros_like(mean), np.zeros_like(mean)))
        step = (mean - average) / (seen + 1)
        self._means[kind.name] = seen + 1, mean, average + step
        self.history.append(
            PublicRound(
                round=k,
                kind=kind.name,
                norms=tuple(np.linalg.norm(message, axis=1).tolist()),
                movement=float(np.linalg.norm(mean - last)),
                disagreement=float(np.linalg.norm(message - mean, axis=1).max()),
                noise_norm=noise_std * float(np.sqrt(len(mean))),
                average_movement=float(np.linalg.norm(step)),
            )
        )

    def _check_all(self, drawn: int, release: NoisyRelease, kind: MessageKind) -> None:
        if drawn < release.count:
            raise InputError(
                f"The method promised {plural(release.count, 'noisy value')} in message kind {kind.name!r} of round "
                f"{release.round} and drew noise for {drawn}: what it computed there is not private. It was not "
                "released; whatever was reserved for it stays spent. Call noise.perturb for everything that is "
                "promised."
            )

    def _times(self, kind: MessageKind, k: int, agent: int | None) -> int:
        """Return how often noise was drawn for an agent; for whomever, if None."""
        drawn = self._drawn.get((kind.name, k), [])
        return len(drawn) if agent is None else sum(bool(np.any(agents == agent)) for agents in drawn)


def _as_list(planned: NoisyRelease | list[NoisyRelease]) -> list[NoisyRelease]:
    return planned if isinstance(planned, list) else [planned]


def _grid_of(release: NoisyRelease) -> float:
    grid = release.certificate.grid
    if grid is None:
        raise InputError("A sum under masks needs a grid, and its certificate counts none.")
    return grid


INTERRUPTED = "The run {!r} was interrupted and none of its results are kept; what was reserved for it stays spent."
_MOST_MASKED = 50  # silos


class OpenRelease:
    """An open reservation: it lends noise, and no more than was reserved.

    origin: where the noise comes from.
    """

    def __init__(self, plan: NoisePlan, sampler: Sampler, run: str, receipts: tuple[Receipt, ...]) -> None:
        self.plan, self.sampler, self.run, self.receipts = plan, sampler, run, receipts
        self.origin = Origin.SECURE if sampler.is_secure else Origin.SIMULATED
        self.hooks: list[PlannedNoise] = []
        self._left = {
            (place, agent): (release, release.count)
            for place, row in plan.releases.items()
            for agent, release in row.items()
        }

    def __getstate__(self) -> dict[str, Any]:
        """Refuse to be copied: every copy would lend what was reserved once."""
        raise InputError("An open reservation is not copied, nor sent elsewhere: its noise would be drawn twice.")

    def noise(
        self, part: NoisePlan, *, number: int = 0, prefix: str = "", replicas: int = 1, keeps_sums: bool = False
    ) -> PlannedNoise:
        """Lend the noise of a part of the plan, for good: it is taken off what was reserved.

        Refused: what was not reserved, with this very noise. number: of the model, so that seeded noise differs.
        prefix: of the message kinds' names in the reservation.
        """
        shared: SummedGaussianRelease | None = None
        for (kind, k), row in part.with_prefix(prefix).releases.items():
            for agent, wanted in row.items():
                reserved, count = self._left.get(((kind, k), agent), (None, 0))
                if reserved is None or count < wanted.count or not _is_same(reserved, wanted):
                    raise InputError(
                        f"The noise asked for as {kind.name!r} of round {k} was not reserved, or was lent before. "
                        "Nothing is drawn that the ledger has not recorded."
                    )
                if count == wanted.count:
                    del self._left[(kind, k), agent]
                else:
                    self._left[(kind, k), agent] = (reserved, count - wanted.count)
                if isinstance(wanted, SummedGaussianRelease):
                    shared = wanted
        masks = None
        if shared is not None and self.sampler.is_secure:
            masks = masks_of(shared.silos, f"{self.run}, {len(self.hooks)}")
        hook = PlannedNoise(part, self.sampler.apart(number), replicas, masks, keeps_sums=keeps_sums)
        self.hooks.append(hook)
        return hook

    def total(self, query: SumQuery, part: NoisePlan, values: Floats) -> tuple[Floats, float]:
        """Return the noisy sum (d,) of the silos' values (silos, d), and the noise in it."""
        noisy = noisy_values(query, part, values[:, :, None], self.noise(part))
        return noisy[:, :, 0].sum(axis=0), part.noise_in_sum(query.kind, query.round, len(values))

    def check_drawn(self) -> None:
        """Refuse to go on where noise that was reserved was not drawn: what was computed there may be bare."""
        for hook in self.hooks:
            hook.check_drawn()
        for (kind, k), agent in self._left:
            raise InputError(
                f"Noise was reserved for {kind.name!r} of round {k} (agent {agent}) and never drawn. Nothing of "
                "the run was released; whatever was reserved for it stays spent."
            )


def _is_same(reserved: NoisyRelease, wanted: NoisyRelease) -> bool:
    """Whether two releases differ in their counts at most."""
    return type(reserved) is type(wanted) and vars(reserved) | {"count": 0} == vars(wanted) | {"count": 0}


@contextmanager
def open_release(
    plan: NoisePlan,
    sampler: Sampler,
    ledger: ConfirmedLedger | None = None,
    *,
    label: str,
    n_agents: int,
    run: str | None = None,
) -> Iterator[OpenRelease]:
    """Reserve all of `plan`, lend its noise, and refuse to end where planned noise was not drawn.

    label: what the ledger calls the work. run: its name there, a fresh one if left out; one that is already recorded
    is refused, since a second draw would be a second release. What was reserved stays spent, whatever happens inside.
    """
    if isinstance(sampler, type) or not hasattr(sampler, "perturb"):
        raise InputError(f"sampler must be a sampler such as SecureSampler(), got {safe_repr(sampler)}.")
    if ledger is not None and not sampler.is_secure:
        raise InputError(
            "Simulated noise cannot be recorded as a release: use SecureSampler(), or leave out the ledger."
        )
    run = run if run is not None else f"{label}-{uuid.uuid4()}"
    receipts: tuple[Receipt, ...] = ()
    if ledger is not None:
        is_known = ledger.ledger.newest_round(run) is not None
        if not is_known:
            receipts = (ledger.reserve(plan.by(range(n_agents)), run=run, algorithm=label, origin=Origin.SECURE),)
            is_known = not all(receipts[0].fresh)  # another process has reserved it meanwhile, and draws by that
        if is_known:
            raise ResumeError(
                f"The run {run!r} is already recorded. Its messages are not stored here, so they cannot be sent "
                "again, and fresh noise would be a new release: choose another name."
            )
    release = OpenRelease(plan, sampler, run, receipts)
    is_interrupted = False
    try:
        yield release
    except KeyboardInterrupt as interrupt:
        if not sampler.is_secure:
            raise
        _forget(interrupt)
        is_interrupted = True
    if is_interrupted:  # raised here, not in the handler: the traceback there holds states without noise
        raise_alone(KeyboardInterrupt(INTERRUPTED.format(run)))
    release.check_drawn()


def _forget(error: BaseException | None) -> None:
    """Empty an exception's frames: what is raised in its place leads to it through the context manager's own."""
    while error is not None:
        clear_frames(error.__traceback__)
        error = error.__context__


def noisy_values(query: SumQuery, plan: NoisePlan, values: Floats, noise: NoiseHook) -> Floats:
    """Return what leaves, (senders, d, replicas): each silo's values with its noise, or their sum with one."""
    kind, k = query.kind, query.round
    pooled = plan.releases[kind, k].get(COORDINATOR)
    if pooled is None:
        return noise.perturb(kind, k, np.arange(len(values)), values)
    return noise.total(kind, k, values)


def masks_of(n_silos: int, context: str) -> Sequence[Masks] | None:
    """Return masks for the silos of a run in which only sums are seen; None for very many silos.

    All silos are in this process, from which masks hide nothing: they are there so that what runs here is what runs in
    a federation. Every silo has a mask with every other one, so that more than `_MOST_MASKED` would take too long.
    """
    return pairwise_masks(n_silos, context.encode()) if n_silos <= _MOST_MASKED else None
