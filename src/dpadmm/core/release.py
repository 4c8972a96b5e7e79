"""Reserve, draw, account: written once, for everything that is released.

`open_release` reserves a whole plan in the ledger and lends its noise; what is lent is taken off what was reserved,
and anything else is refused. It does not end before all of it was drawn.
"""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from traceback import clear_frames
from typing import Any

import numpy as np

from dpadmm.checks import shown
from dpadmm.core.spec import SumQuery
from dpadmm.errors import InputError, ResumeError, raise_alone
from dpadmm.methods.base import NoiseHook
from dpadmm.noise.draws import COORDINATOR, Sampler
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.planned import PlannedNoise
from dpadmm.noise.sums import Masks
from dpadmm.privacy.ledger import ConfirmedLedger, Receipt
from dpadmm.privacy.records import NoisyRelease, Origin, SummedGaussianRelease
from dpadmm.problems.arrays import Floats

INTERRUPTED = "The run {!r} was interrupted and none of its results are kept; what was reserved for it stays spent."
_MOST_MASKED = 50  # silos


class OpenRelease:
    """An open reservation: it lends noise, and no more than was reserved."""

    def __init__(self, plan: NoisePlan, sampler: Sampler, run: str, receipts: tuple[Receipt, ...]) -> None:
        self.plan, self.sampler, self.run, self.receipts = plan, sampler, run, receipts
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
        """Lend the noise of a part of the plan, for good.

        number: of the model, so that seeded noise differs. prefix: of the slots' names in the reservation.
        """
        self._take_off(part.prefixed(prefix))
        masks = None
        shared = next((each for each in part if isinstance(each, SummedGaussianRelease)), None)
        if shared is not None and self.sampler.is_secure:
            masks = masks_of(shared.silos, f"{self.run}, {len(self.hooks)}")
        hook = PlannedNoise(part, self.sampler.apart(number), replicas, masks, keeps_sums=keeps_sums)
        self.hooks.append(hook)
        return hook

    def total(self, query: SumQuery, part: NoisePlan, values: Floats) -> tuple[Floats, float]:
        """Return the noisy sum (d,) of the silos' values (silos, d), and the noise in it."""
        noisy = noisy_values(query, part, values[:, :, None], self.noise(part))
        return noisy[:, :, 0].sum(axis=0), part.noise_in_sum(query.slot, query.round, len(values))

    @property
    def origin(self) -> Origin:
        """Where the noise came from; secure only if all of it did."""
        return next((hook.origin for hook in self.hooks if hook.origin is not Origin.SECURE), Origin.SECURE)

    def check_drawn(self) -> None:
        """Refuse to go on where noise that was reserved was not drawn: what was computed there may be bare."""
        for hook in self.hooks:
            hook.check_drawn()
        for (slot, k), agent in self._left:
            raise InputError(
                f"Noise was reserved for slot {slot.name!r} of round {k} (agent {agent}) and never drawn. Nothing of "
                "the run was released; whatever was reserved for it stays spent."
            )

    def _take_off(self, part: NoisePlan) -> None:
        """Take what is lent off what was reserved; refuse what was not reserved, with this very noise."""
        for place, row in part.releases.items():
            for agent, wanted in row.items():
                reserved, count = self._left.get((place, agent), (None, 0))
                if reserved is None or count < wanted.count or not _is_same(reserved, wanted):
                    slot, k = place
                    raise InputError(
                        f"The noise asked for in slot {slot.name!r} of round {k} was not reserved, or was lent before. "
                        "Nothing is drawn that the ledger has not recorded."
                    )
                if count == wanted.count:
                    del self._left[place, agent]
                else:
                    self._left[place, agent] = (reserved, count - wanted.count)


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
        raise InputError(f"sampler must be a sampler such as SecureSampler(), got {shown(sampler)}.")
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
    slot, k = query.slot, query.round
    pooled = plan.releases[slot, k].get(COORDINATOR)
    if pooled is None:
        return noise.perturb(slot, k, np.arange(len(values)), values)
    grid = pooled.certificate.grid
    if query.rounds_first and grid is not None and not isinstance(pooled, SummedGaussianRelease):
        values = np.rint(values / grid) * grid
    return noise.total(slot, k, values)


def masks_of(n_silos: int, context: str) -> Sequence[Masks] | None:
    """Return masks for the silos of a run in which only sums are seen; None for very many silos.

    All silos are in this process, from which masks hide nothing: they are there so that what runs here is what runs in
    a federation. Every silo has a mask with every other one, so that more than `_MOST_MASKED` would take too long.
    """
    if n_silos > _MOST_MASKED:
        return None
    from dpadmm.noise.masks import pairwise_masks

    return pairwise_masks(n_silos, context.encode())
