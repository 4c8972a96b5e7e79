"""What a run looked like, for two kinds of reader.

`History` reads the private data (losses) or states without noise: for non-private and simulated runs. `PublicRound`
holds what anyone who saw the released messages can compute: post-processing, and nothing else.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpadmm.algorithms.anatomy import Algorithm, NoiseHook, Residuals, spread
from dpadmm.noise.draws import Slot
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.problem import Problem


@dataclass(frozen=True)
class Snapshot:
    """One row of a history: per replica (R,), per agent and replica (N, R)."""

    round: int
    objective: Floats
    consensus_error: Floats
    agent_loss: Floats
    primal: Floats
    dual: Floats


@dataclass
class History:
    """Snapshots in the order of their rounds, with columns as arrays of shape (rounds, R)."""

    snapshots: list[Snapshot] = field(default_factory=list)

    @property
    def rounds(self) -> Ints:
        """The rounds at which snapshots were taken."""
        return np.array([s.round for s in self.snapshots], dtype=np.int64)

    @property
    def objective(self) -> Floats:
        """sum w_i f_i + g at the estimate."""
        return np.array([s.objective for s in self.snapshots])

    @property
    def consensus_error(self) -> Floats:
        """Largest distance of an agent's model from the mean."""
        return np.array([s.consensus_error for s in self.snapshots])

    @property
    def agent_loss(self) -> Floats:
        """f_i at the agent's own model, (rounds, N, R)."""
        return np.array([s.agent_loss for s in self.snapshots])

    @property
    def primal(self) -> Floats:
        """Primal residuals."""
        return np.array([s.primal for s in self.snapshots])

    @property
    def dual(self) -> Floats:
        """Dual residuals."""
        return np.array([s.dual for s in self.snapshots])


def snapshot(
    k: int, algorithm: Algorithm[Any], problem: Problem, state: Any, inbox: Floats, residuals: Residuals
) -> Snapshot:
    """Measure the state after round k."""
    models = algorithm.models(state, inbox)
    return Snapshot(
        round=k,
        objective=problem.objective(algorithm.estimate(state, inbox)),
        consensus_error=spread(models),
        agent_loss=problem.functions.value(models),
        primal=residuals.primal,
        dual=residuals.dual,
    )


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

    def perturb(self, slot: Slot, k: int, agents: Ints, values: Floats) -> Floats:
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
