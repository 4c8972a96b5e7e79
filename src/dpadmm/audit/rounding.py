"""Is the secure sampler's rounding the one that is counted? Values at both sides of every cell edge tell.

The certificate counts that a value moves by half a grid at most (C8). A sampler that rounds to a coarser grid, or cuts
off, moves it further: what it returns, less the value on its own grid, then follows the saw-tooth of the coarser one.
"""

import numpy as np
from scipy.special import log_ndtr

from dpadmm.audit.findings import FALSE_ALARM, Check, Finding
from dpadmm.noise.draws import Draw, Recipients, Sampler, Slot
from dpadmm.noise.secure import LEAST_RATIO, SecureSampler
from dpadmm.privacy.protection import Certificate, Unit, View, secure_grid
from dpadmm.privacy.records import GaussianRelease
from dpadmm.problems.arrays import Floats

DRAWS = 200_000
_METHOD, _PAIR = "secure sampler", "values at both sides of the edges of cells"
_COARSER = 12  # powers of two that are tried
_STD = 1.0


def check_rounding(sampler: Sampler | None = None, draws: int | None = None, seed: int = 0) -> Finding:
    """Return whether values are rounded to a coarser grid than the certificate's; `seed` is of the values only.

    The grid is the coarsest that the sampler allows, 2^-10 of the noise: with 200,000 values, rounding to 2^-4 of the
    noise shows surely, and cutting off as well; finer mistakes are for tests that take the noise away.
    """
    grid, draws = _STD / LEAST_RATIO, DRAWS if draws is None else draws
    values = np.random.default_rng(seed).uniform(-8, 8, (1, draws, 1))
    bare = Certificate(bound=1.0, unit=Unit.RECORD, view=View.EAVESDROPPER, theorem="C1", assumptions=("an example",))
    certificate = secure_grid(bare, grid=grid, dimension=draws)
    release = GaussianRelease(certificate=certificate, noise_std=_STD, agent=0, round=1)
    chosen = SecureSampler() if sampler is None else sampler
    sent = chosen.perturb(values, release, Draw(Slot("message"), 1, Recipients.one(0))).values
    v, noise = values[0, :, 0], (sent - np.rint(values / grid) * grid)[0, :, 0]
    names, logs = [], []
    for power in range(_COARSER):
        coarse = grid * 2**power
        ways = {
            "to the nearest": np.rint(v / coarse),
            "down": np.floor(v / coarse),
            "towards zero": np.trunc(v / coarse),
        }
        for name, cells in ways.items():
            tooth = cells * coarse - v
            names.append(f"rounded {name} multiple of {2**power} grids")
            logs.append(_log_p(noise, tooth - tooth.mean()))
    is_on_grid = bool(np.all(sent % grid == 0))
    place = int(np.argmin(logs))
    p = min(1.0, len(logs) * float(np.exp(logs[place]))) if is_on_grid else 0.0
    return Finding(Check.ROUNDING, _METHOD, _PAIR, p, names[place] if is_on_grid else "off the grid", p < FALSE_ALARM)


def _log_p(noise: Floats, tooth: Floats) -> float:
    """Return the log of the two-sided p-value that the noise does not follow the tooth."""
    size = float(np.linalg.norm(tooth)) * _STD
    return float(np.log(2) + log_ndtr(-abs(float(noise @ tooth)) / size))
