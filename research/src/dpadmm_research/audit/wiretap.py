"""A recorder for everything that leaves: what an eavesdropper would have on tape after a run."""

import numpy as np

from dpadmm.errors import InputError
from dpadmm.methods.base import NoiseHook, OneNoise, Silence
from dpadmm.noise.mechanisms import MessageKind
from dpadmm.problems.arrays import Floats, Ints


class Wiretap(OneNoise):
    """A noise hook that passes another one's values on and keeps a copy of each.

    What a method hands to its noise hook and gets back is what it sends, so the copies are the messages themselves:
    with noise if `hook` adds some, bare if it is left out.

    >>> tap = Wiretap()
    >>> _ = tap.perturb(MessageKind("message"), 1, np.array([0, 1]), np.zeros((2, 3, 1)))
    >>> tap.tape(MessageKind("message")).shape
    (1, 2, 3, 1)
    """

    def __init__(self, hook: NoiseHook | None = None) -> None:
        self._hook: NoiseHook = hook if hook is not None else Silence()
        self._tapes: dict[MessageKind, dict[int, Floats]] = {}

    def perturb(self, kind: MessageKind, k: int, agents: Ints, values: Floats) -> Floats:
        """Return what the wrapped hook returns, and remember it under its message kind and round."""
        sent = self._hook.perturb(kind, k, agents, values)
        self._tapes.setdefault(kind, {})[k] = sent.copy()
        return sent

    def tape(self, kind: MessageKind) -> Floats:
        """Return the messages of a message kind as (rounds, agents, d, R), in the order of the rounds."""
        rounds = self._tapes.get(kind)
        if rounds is None:
            heard = ", ".join(repr(known.name) for known in self._tapes) or "nothing"
            raise InputError(
                f"Nothing was sent in message kind {kind.name!r}; heard {heard}. Run the method with this tap."
            )
        return np.stack([rounds[k] for k in sorted(rounds)])
