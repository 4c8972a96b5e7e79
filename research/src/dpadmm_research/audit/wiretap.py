"""Noise hooks of attacks: a recorder for everything that leaves, and several budgets in one run."""

from collections.abc import Sequence

import numpy as np

from dpadmm.core.release import PlannedNoise
from dpadmm.errors import InputError
from dpadmm.methods.base import NoiseHook, OneNoise, Silence
from dpadmm.noise.mechanisms import MessageKind
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import Sampler
from dpadmm.problems.arrays import Floats, Ints


class NoiseByBudget(OneNoise):
    """Seeded noise of several plans in one run, plan b for the replicas from b*replicas_each on."""

    def __init__(self, plans: Sequence[NoisePlan], sampler: Sampler, replicas_each: int) -> None:
        groups = (range(b * replicas_each, (b + 1) * replicas_each) for b in range(len(plans)))
        self._hooks = [PlannedNoise(plan, sampler, group) for plan, group in zip(plans, groups, strict=True)]

    def perturb(self, kind: MessageKind, k: int, agents: Ints, values: Floats) -> Floats:
        """Return the values with the noise of each plan on its replicas."""
        parts = zip(self._hooks, np.split(values, len(self._hooks), axis=2), strict=True)
        return np.concatenate([hook.perturb(kind, k, agents, part) for hook, part in parts], axis=2)


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
                f"Nothing was sent in message kind {kind.name!r}; heard {heard}. Run the method with this tap.",
                setting="kind",
            )
        return np.stack([rounds[k] for k in sorted(rounds)])
