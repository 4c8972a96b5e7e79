"""Cost of sums under masks, for one silo: keys once, masks every round, and its share of the noise by itself.

Processor time, the best of several repetitions; the other silos' keys are there already.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from dpadmm.noise.masks import MaskKey, PairwiseMasks, add_masks, to_uint64
from dpadmm.noise.mechanisms import MessageKind
from dpadmm.noise.sampler import Draw, SecureSampler, grid_for
from dpadmm.privacy.certificates.sums import Shares, masked_sum
from dpadmm.privacy.protection import Certificate, Protection, Unit, View
from dpadmm.privacy.releases import SummedGaussianRelease
from table import Row

SILOS, DIMENSIONS = (5, 20, 100), {104: 30, 100_000: 5}
"""How many silos; how many numbers in a message, and how often that is measured."""


def rows() -> list[Row]:
    """Return the measurements."""
    table: list[Row] = []
    for n_silos in SILOS:
        keys = [MaskKey.create() for _ in range(n_silos)]
        publics = [key.public for key in keys]
        table.append(_row(f"keys of a run, {n_silos} silos", _best(partial(_set_up, publics), 7)))
        masks = PairwiseMasks.of(0, keys[0], publics, b"benchmark")
        for dimension, times in DIMENSIONS.items():
            texts = np.zeros(dimension, dtype=np.uint64)
            spent = _best(partial(add_masks, texts, masks, "broadcast", 1), times)
            table.append(_row(f"masks of a round, {n_silos} silos, d = {dimension:,}", spent))
    for dimension, times in DIMENSIONS.items():
        table.append(_row(f"share of the noise, exact, d = {dimension:,}", _best(_share(dimension), times)))
    return table


def _row(name: str, spent: float) -> Row:
    return Row(name, 1e3 * spent, "ms", "")


def _set_up(publics: list[str]) -> PairwiseMasks:
    """What a silo does once: a key of its own, and a secret with every other one."""
    mine = MaskKey.create()
    return PairwiseMasks.of(0, mine, [mine.public, *publics[1:]], b"benchmark")


def _share(dimension: int) -> Callable[[], object]:
    plain = Certificate(
        bound=1.0,
        protection=Protection(unit=Unit.RECORD, view=View.PUBLIC),
        theorem="benchmark",
        assumptions=("none: nothing is released",),
    )
    grid = grid_for(1.5)
    certificate = masked_sum(plain, shares=Shares(5, 1), grid=grid, dimension=dimension)
    whole = SummedGaussianRelease(certificate=certificate, noise_std=3.0, silos=5, agent=-1, round=1)
    draw, values, sampler = (
        Draw(MessageKind("broadcast"), 1, [0]),
        np.zeros((1, dimension, 1)),
        SecureSampler(),
    )
    return lambda: to_uint64(sampler.perturb(values, [whole.share(0)], draw), grid)


def _best(work: Callable[[], object], times: int) -> float:
    work()
    spent = []
    for _ in range(times):
        begin = time.process_time()
        work()
        spent.append(time.process_time() - begin)
    return min(spent)
