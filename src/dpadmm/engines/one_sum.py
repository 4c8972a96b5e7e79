"""A sum over the silos that is released once, beside the rounds of training: by every silo, or with one noise."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from dpadmm.algorithms.anatomy import NoiseHook
from dpadmm.algorithms.method import Setting
from dpadmm.noise.draws import COORDINATOR, Slot
from dpadmm.noise.plan import NoisePlan, calibrated, summed
from dpadmm.noise.promises import Constant, Family, Promise, Row
from dpadmm.noise.secure import grid_for
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.certificates.masked import Shares
from dpadmm.privacy.protection import Certificate
from dpadmm.privacy.records import NoisyRelease, SummedGaussianRelease, seen_noise
from dpadmm.problems.arrays import Floats


@dataclass(frozen=True)
class OneSum:
    """Where the sum gets its noise: a slot, in a round that no other release of it has."""

    slot: Slot
    round: int

    def plan(
        self,
        target: Target,
        setting: Setting,
        certified: Callable[[int], Certificate],
        placed: Callable[[Certificate, float], Certificate],
        *,
        is_pooled: bool,
        is_secure: bool,
        shares: Shares | None = None,
    ) -> NoisePlan:
        """Return the releases that spend the target; `is_pooled`: one noise hides the sum of all silos.

        It is the coordinator's, or the silos' shares of one where their values leave under masks.
        certified: the certificate of a silo of so many records, or of all of them. placed: the same on a grid.
        """
        sizes = setting.problem.functions.sizes.tolist()
        certificates = [certified(n) for n in ([int(sum(sizes))] if is_pooled else sizes)]
        agents = [COORDINATOR] if is_pooled else range(len(sizes))
        is_common = not is_pooled and len(set(certificates)) == 1
        rows = tuple(Row(agent, (1,), (each,)) for agent, each in zip(agents, certificates, strict=True))
        promise = Promise(self.slot, Family.GAUSSIAN, rows[:1] if is_common else rows, is_common=is_common)
        row = self._calibrated(promise, target, setting)
        if is_secure or shares is not None:
            on_grid = tuple(_on_grid(release, placed, shares) for release in row.values())
            row = self._calibrated(replace(promise, rows=on_grid), target, setting)
        if shares is not None:
            row = {agent: summed(release, shares) for agent, release in row.items()}
        here = {agent: replace(release, round=self.round) for agent, release in row.items()}
        return NoisePlan({(self.slot, self.round): here})

    def _calibrated(self, promise: Promise, target: Target, setting: Setting) -> Mapping[int | None, NoisyRelease]:
        silos = setting.protection.silos_per_person
        return calibrated([promise], target, Constant(), silos_per_person=silos).releases[self.slot, 1]

    def noisy(self, plan: NoisePlan, values: Floats, noise: NoiseHook) -> Floats:
        """Return what leaves, (senders, d, replicas): each silo's values with its noise, or their sum with one.

        Before they are added up the values of every silo are rounded to the grid, if there is one, so that sums are
        exact.
        """
        pooled = next((release for release in plan if release.agent == COORDINATOR), None)
        if isinstance(pooled, SummedGaussianRelease):
            return noise.total(self.slot, self.round, values)
        if pooled is None:
            return noise.perturb(self.slot, self.round, np.arange(len(values)), values)
        grid = pooled.certificate.grid
        exact = values if grid is None else np.rint(values / grid) * grid
        return noise.perturb(self.slot, self.round, np.array([COORDINATOR]), exact.sum(axis=0, keepdims=True))

    def pooled_noise(self, plan: NoisePlan, n_agents: int) -> float:
        """Return the noise in the sum of all agents' values."""
        row = plan.releases[self.slot, self.round]
        squares = [seen_noise(release) ** 2 for release in row.values()]
        return math.sqrt(squares[0] * n_agents if None in row else math.fsum(squares))


def _on_grid(release: NoisyRelease, placed: Callable[[Certificate, float], Certificate], shares: Shares | None) -> Row:
    """The certificate on the grid of its noise."""
    own = release.level if shares is None else release.level / math.sqrt(shares.honest)
    return Row(release.agent, (1,), (placed(release.certificate, grid_for(own)),))
