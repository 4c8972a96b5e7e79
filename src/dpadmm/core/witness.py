"""What anyone sees of a run: its rounds as the released messages show them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpadmm.methods.anatomy import NoiseHook
from dpadmm.noise.draws import Slot
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.records import ObjectiveRelease, seen_noise
from dpadmm.problems.arrays import Floats, Ints


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


def message_scales(plan: NoisePlan) -> dict[tuple[str, int], float]:
    """Return the largest noise scale of each slot and round in which a noisy value is sent.

    Objective perturbation sends the minimiser; its noise is secret and has no place here.
    """
    scales: dict[tuple[str, int], float] = {}
    for (slot, k), row in plan.releases.items():
        if not any(isinstance(release, ObjectiveRelease) for release in row.values()):
            scales[slot.name, k] = max(seen_noise(release) for release in row.values())
    return scales


class Witness:
    """A noise hook that hands everything on and writes down what leaves; it sees no value before its noise.

    Only the slots in `noise_std` are messages. Noise inside an objective (C2) is not among them: it never leaves, and
    whoever knew its norm could take it off the broadcast minimiser, so it is handed on unseen.
    """

    def __init__(self, hook: NoiseHook, noise_std: dict[tuple[str, int], float]) -> None:
        self._hook, self._noise_std = hook, noise_std
        self._last: dict[str, Floats] = {}
        self._average: dict[str, tuple[int, Floats]] = {}
        self.rounds: list[PublicRound] = []

    def perturb(self, slot: Slot, k: int, agents: Ints, values: Floats) -> Floats:
        """Return what the hook returns."""
        return self._seen(slot, k, self._hook.perturb(slot, k, agents, values))

    def total(self, slot: Slot, k: int, messages: Floats) -> Floats:
        """Return what the hook returns: the sum is all that is seen."""
        return self._seen(slot, k, self._hook.total(slot, k, messages))

    def _seen(self, slot: Slot, k: int, released: Floats) -> Floats:
        noise_std = self._noise_std.get((slot.name, k))
        if noise_std is None:
            return released
        message = released[:, :, 0]
        mean = message.mean(axis=0)
        before = self._last.get(slot.name, np.zeros_like(mean))
        self._last[slot.name] = mean
        seen, average = self._average.get(slot.name, (0, np.zeros_like(mean)))
        step = (mean - average) / (seen + 1)
        self._average[slot.name] = seen + 1, average + step
        self.rounds.append(
            PublicRound(
                round=k,
                slot=slot.name,
                norms=tuple(np.linalg.norm(message, axis=1).tolist()),
                movement=float(np.linalg.norm(mean - before)),
                disagreement=float(np.linalg.norm(message - mean, axis=1).max()),
                noise_norm=noise_std * float(np.sqrt(len(mean))),
                average_movement=float(np.linalg.norm(step)),
            )
        )
        return released
