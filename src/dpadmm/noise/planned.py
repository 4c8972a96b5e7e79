"""The noise hook of a run: draws what a plan says, as often as it says, and sums under masks where that is planned."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm import checks
from dpadmm.checks import plural
from dpadmm.errors import InputError
from dpadmm.noise.draws import COORDINATOR, Draw, Recipients, Releases, Sampler, Slot
from dpadmm.noise.plan import Floats, NoisePlan
from dpadmm.noise.sums import Masks, Words, from_words, masked, sum_words, to_words
from dpadmm.privacy.records import NoisyRelease, ObjectiveRelease, Origin, SummedGaussianRelease, seen_noise

_COORDINATOR_ALONE = np.array([COORDINATOR])


@dataclass(frozen=True)
class PublicRound:
    """One round, as anyone who saw the released messages can compute it: post-processing, and nothing else.

    norms: of each sender's message. movement: distance of their mean from that of the round before (of the mean
    itself in the first). disagreement: largest distance of a message from their mean. noise_norm: the expected norm
    of the noise on one message, a public number. average_movement: as movement, of the mean of all rounds so far.
    """

    round: int
    slot: str
    norms: tuple[float, ...]
    movement: float
    disagreement: float
    noise_norm: float
    average_movement: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**vars(self), "norms": list(self.norms)}


class PlannedNoise:
    """The noise hook of a run: draws what the plan says, for each group of replicas by its own plan.

    Secure noise is handed out only as often as the plan pays for it: `count` times in a slot, round and agent. A second
    value under the same name would be a second release. Seeded noise may be drawn again, it is the same. Whoever lets
    values leave asks first whether all of their noise was drawn (`check_drawn`): a plan is no noise.

    masks: of every silo, where sums are taken under masks in one process; the sum is the same without.
    history: what leaves, of a single run, as anyone can compute it from the noisy messages; no value is seen before
    its noise. Noise inside an objective (C2) never leaves, and whoever knew its norm could take it off the broadcast
    minimiser, so it is not in there. sums: all noisy sums, if `keeps_sums`.
    """

    def __init__(
        self,
        plan: NoisePlan,
        sampler: Sampler,
        replicas: int = 1,
        masks: Sequence[Masks] | None = None,
        *,
        keeps_sums: bool = False,
    ) -> None:
        self.masks, self.keeps_sums = masks, keeps_sums
        self.history: list[PublicRound] = []
        self.sums: list[Floats] = []
        self._means: dict[str, tuple[int, Floats, Floats]] = {}  # messages so far, mean of the last, mean of all
        self.groups = [(np.arange(checks.count("replicas", replicas)), plan)]
        self.sampler = sampler
        self._drawn: defaultdict[tuple[str, int], list[NDArray[np.int64]]] = defaultdict(list)  # who, draw by draw
        self._origins: set[Origin] = set()

    def __getstate__(self) -> dict[str, Any]:
        """Refuse copies of secure noise: every one would draw what is paid for once."""
        if self.sampler.is_secure:
            raise InputError(
                "Secure noise is not copied, nor sent elsewhere: what is paid for once would be drawn twice."
            )
        return vars(self).copy()

    @property
    def plan(self) -> NoisePlan:
        """What is drawn, for the first replicas."""
        return self.groups[0][1]

    @property
    def origin(self) -> Origin:
        """Where the noise drawn so far came from; secure only if all of it did."""
        worst_first = (Origin.NONE, Origin.SIMULATED, Origin.SECURE)
        return next((origin for origin in worst_first if origin in self._origins), Origin.NONE)

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
            draw = Draw(slot, k, Recipients.of(agents, columns))
            part = np.ascontiguousarray(values[:, :, columns])
            planned = plan.of(slot, k, agents)
            if any(isinstance(each, SummedGaussianRelease) for each in _listed(planned)):
                raise InputError(
                    f"The noise of {slot} is split among the silos: only the sum over all silos contains it (C12)."
                )
            drawn = self.sampler.perturb(part, planned, draw)
            self._origins.add(drawn.origin)
            if drawn.is_private_release:
                self._check_paid(slot, k, agents, planned)
            self._drawn[slot.name, k].append(agents)
            out[:, :, columns] = drawn.values
        self._see(slot, k, out)
        return out

    def total(self, slot: Slot, k: int, messages: Floats) -> Floats:
        """Return the noisy sum (1, d, R) of all silos' messages: with one noise, or with the shares of all (C12)."""
        plan = self.groups[0][1]
        (release,) = _listed(plan.of(slot, k, _COORDINATOR_ALONE))
        if not isinstance(release, SummedGaussianRelease):
            out = self.perturb(slot, k, _COORDINATOR_ALONE, messages.sum(axis=0, keepdims=True))
        elif len(self.groups) > 1 or len(messages) != release.silos:
            raise InputError(f"A sum under masks is planned for one budget and {release.silos} silos.")
        else:
            out = from_words(sum_words(self.sent(slot, k, messages)), _grid_of(release))[None]
            self._see(slot, k, out)
        if self.keeps_sums:
            self.sums.append(out)
        return out

    def sent(self, slot: Slot, k: int, messages: Floats) -> list[Words]:
        """Return what leaves all silos: each one's share, under its masks where there are any."""
        parts = self.shares(slot, k, np.arange(len(messages)), messages)
        if self.masks is None:
            return parts
        return [
            masked(part.ravel(), masks, slot.name, k).reshape(part.shape)
            for part, masks in zip(parts, self.masks, strict=True)
        ]

    def shares(self, slot: Slot, k: int, agents: NDArray[np.int64], values: Floats) -> list[Words]:
        """Return what silos send where only sums are seen: each one's values with its share of the noise, as words."""
        plan = self.groups[0][1]
        (release,) = _listed(plan.of(slot, k, _COORDINATOR_ALONE))
        if not isinstance(release, SummedGaussianRelease):
            raise InputError(f"The noise of {slot} in round {k} is not split among silos.")
        if slot.step != 0 or release.count != 1:
            raise InputError(f"Masks serve one vector each: {slot} in round {k} has room for one sum (C12).")
        draw = Draw(slot, k, Recipients.of(agents, self.groups[0][0]))
        drawn = self.sampler.perturb(
            np.ascontiguousarray(values), [release.share(int(agent)) for agent in agents], draw
        )
        self._origins.add(drawn.origin)
        if drawn.is_private_release:
            self._check_paid(slot, k, agents, release)
        self._drawn[slot.name, k].append(agents)
        return [to_words(part, _grid_of(release)) for part in drawn.values]

    def check_drawn(self, k: int | None = None, agent: int | None = None) -> None:
        """Refuse to go on where noise was planned and not drawn: what was computed is bare there, and must not leave.

        k: the only round to look at. agent: the only one that draws here (`COORDINATOR` for the coordinator).
        """
        for _, plan in self.groups:
            for (slot, when), row in plan.releases.items():
                for who, release in row.items() if k in (None, when) else ():
                    if isinstance(release, SummedGaussianRelease):
                        for each in range(release.silos) if agent is None else [agent] * (agent >= 0):
                            self._check_all(self._times(slot, when, each), release, slot)
                        continue
                    is_for_all = who is None and release.agent >= 0
                    if agent is None or agent == release.agent or (is_for_all and agent >= 0):
                        anybody = is_for_all and agent is None
                        drawn = self._times(slot, when, None if anybody else release.agent if agent is None else agent)
                        self._check_all(drawn, release, slot)

    def _see(self, slot: Slot, k: int, released: Floats) -> None:
        """Write down what a slot of a single run has released."""
        row = self.plan.releases.get((replace(slot, step=0), k), {})
        if released.shape[2] != 1 or not row or any(isinstance(each, ObjectiveRelease) for each in row.values()):
            return
        message = released[:, :, 0]
        mean = message.mean(axis=0)
        seen, last, average = self._means.get(slot.name, (0, np.zeros_like(mean), np.zeros_like(mean)))
        step = (mean - average) / (seen + 1)
        self._means[slot.name] = seen + 1, mean, average + step
        noise_std = max(seen_noise(each) for each in row.values())
        self.history.append(
            PublicRound(
                round=k,
                slot=slot.name,
                norms=tuple(np.linalg.norm(message, axis=1).tolist()),
                movement=float(np.linalg.norm(mean - last)),
                disagreement=float(np.linalg.norm(message - mean, axis=1).max()),
                noise_norm=noise_std * float(np.sqrt(len(mean))),
                average_movement=float(np.linalg.norm(step)),
            )
        )

    def _check_all(self, drawn: int, release: NoisyRelease, slot: Slot) -> None:
        if drawn < release.count:
            raise InputError(
                f"The method promised {plural(release.count, 'noisy value')} in slot {slot.name!r} of round "
                f"{release.round} and drew noise for {drawn}: what it computed there is not private. It was not "
                "released; whatever was reserved for it stays spent. Call noise.perturb for everything that is "
                "promised."
            )

    def _times(self, slot: Slot, k: int, agent: int | None) -> int:
        """Return how often noise was drawn for an agent; for whomever, if None."""
        drawn = self._drawn.get((slot.name, k), [])
        return len(drawn) if agent is None else sum(bool(np.any(agents == agent)) for agents in drawn)

    def _check_paid(self, slot: Slot, k: int, agents: NDArray[np.int64], planned: Releases) -> None:
        """Refuse a secure draw that the plan has not paid for, before its values are handed out."""
        paid = planned if isinstance(planned, Sequence) else [planned] * len(agents)
        for agent, release in zip(agents.tolist(), paid, strict=True):
            if self._times(slot, k, agent) >= release.count:
                raise InputError(
                    f"Agent {agent} has released all that was planned for slot {slot.name!r} in round {k}; another "
                    "value would not be accounted for. Plan for it (count), or, if the first was never sent, use a new "
                    "PlannedNoise."
                )


def _listed(planned: NoisyRelease | list[NoisyRelease]) -> list[NoisyRelease]:
    return planned if isinstance(planned, list) else [planned]


def _grid_of(release: NoisyRelease) -> float:
    grid = release.certificate.grid
    if grid is None:
        raise InputError("A sum under masks needs a grid, and its certificate counts none.")
    return grid
