"""What anyone who saw the released messages can compute about a run: post-processing, and nothing else."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm.algorithms.anatomy import NoiseHook
from dpadmm.noise.draws import Slot
from dpadmm.problems.arrays import Floats


@dataclass(frozen=True)
class PublicRound:
    """One round, as the released messages show it.

    norms: of each sender's message. movement: distance of their mean from that of the round before (of the mean
    itself in the first). disagreement: largest distance of a message from their mean. noise_norm: the expected norm
    of the noise on one message, a public number.
    """

    round: int
    slot: str
    norms: tuple[float, ...]
    movement: float
    disagreement: float
    noise_norm: float

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**vars(self), "norms": list(self.norms)}


class Witness:
    """A noise hook that hands everything on and writes down what leaves; it sees no value before its noise.

    Only the slots in `noise_std` are messages. Noise inside an objective (C2) is not among them: it never leaves, and
    whoever knew its norm could take it off the broadcast minimiser, so it is handed on unseen.
    """

    def __init__(self, hook: NoiseHook, noise_std: dict[tuple[str, int], float]) -> None:
        self._hook, self._noise_std = hook, noise_std
        self._last: dict[str, Floats] = {}
        self.rounds: list[PublicRound] = []

    def perturb(self, slot: Slot, k: int, agents: NDArray[np.int64], values: Floats) -> Floats:
        """Return what the hook returns."""
        released = self._hook.perturb(slot, k, agents, values)
        noise_std = self._noise_std.get((slot.name, k))
        if noise_std is None:
            return released
        message = released[:, :, 0]
        mean = message.mean(axis=0)
        before = self._last.get(slot.name, np.zeros_like(mean))
        self._last[slot.name] = mean
        self.rounds.append(
            PublicRound(
                round=k,
                slot=slot.name,
                norms=tuple(np.linalg.norm(message, axis=1).tolist()),
                movement=float(np.linalg.norm(mean - before)),
                disagreement=float(np.linalg.norm(message - mean, axis=1).max()),
                noise_norm=noise_std * float(np.sqrt(len(mean))),
            )
        )
        return released
