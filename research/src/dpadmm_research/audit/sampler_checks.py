"""Does the secure sampler draw what it promises, and round as is counted? It is asked, not looked into.

Its noise must have the law of its family, and be fresh in every draw, which attacks with simulated noise cannot show.
Values at both sides of every cell edge tell how it rounds. The certificate counts that a value moves by half a grid at
most (C8). A sampler that rounds to a coarser grid, or cuts off, moves it further: what it returns, less the value on
its own grid, then follows the saw-tooth of the coarser one.
"""

from dataclasses import replace

import numpy as np
from scipy.special import log_ndtr

from dpadmm.noise.mechanisms import MessageKind
from dpadmm.noise.sampler import LEAST_RATIO, Draw, Sampler, SecureSampler, grid_for
from dpadmm.privacy.protection import Certificate, Norm, Protection, Unit, View, secure_grid
from dpadmm.privacy.releases import (
    CoordinateLaplaceRelease,
    GaussianRelease,
    NoisyRelease,
    SphericalLaplaceRelease,
)
from dpadmm.problems.arrays import Floats
from dpadmm_research.audit.findings import FALSE_ALARM, Check, CheckOutcome
from dpadmm_research.audit.noise_checks import Stream, check_streams, size_of

DRAWS = 200_000
VECTORS = 4000
_METHOD, _PAIR = "secure sampler", "values at both sides of the edges of cells"
_COARSER = 12  # powers of two that are tried
_STD, _DIMENSION = 1.0, 3


def check_rounding(sampler: Sampler | None = None, draws: int | None = None, seed: int = 0) -> CheckOutcome:
    """Return whether values are rounded to a coarser grid than the certificate's; `seed` is of the values only.

    The grid is the coarsest that the sampler allows, 2^-10 of the noise: with 200,000 values, rounding to 2^-4 of the
    noise shows surely, and cutting off as well; finer mistakes are for tests that take the noise away.
    """
    grid, draws = _STD / LEAST_RATIO, DRAWS if draws is None else draws
    values = np.random.default_rng(seed).uniform(-8, 8, (1, draws, 1))
    bare = Certificate(
        bound=1.0,
        protection=Protection(unit=Unit.RECORD, view=View.EAVESDROPPER),
        theorem="C1",
        assumptions=("an example",),
    )
    certificate = secure_grid(bare, grid=grid, dimension=draws)
    release = GaussianRelease(certificate=certificate, noise_std=_STD, agent=0, round=1)
    chosen = SecureSampler() if sampler is None else sampler
    sent = chosen.perturb(values, release, Draw(MessageKind("message"), 1, [0]))
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
    return CheckOutcome(
        Check.ROUNDING, _METHOD, _PAIR, p, names[place] if is_on_grid else "off the grid", p < FALSE_ALARM
    )


def check_sampler(sampler: Sampler | None = None, vectors: int | None = None) -> tuple[CheckOutcome, ...]:
    """Return scale and independence of the noise of every family, drawn for many agents and three rounds.

    Every second agent asks for twice the noise: noise of another agent would not do.
    """
    number = VECTORS if vectors is None else vectors
    chosen = SecureSampler() if sampler is None else sampler
    found: list[CheckOutcome] = []
    for family in (_gaussian, _laplace, _spherical):
        streams = []
        for k in (1, 2, 3):
            release, scaled_noise, agents = family(k, _STD), family(k, 2 * _STD), np.arange(number)
            draw = Draw(MessageKind("message"), k, agents)
            asked = [replace(scaled_noise if i % 2 else release, agent=i) for i in range(number)]
            sent = chosen.perturb(np.zeros((number, _DIMENSION, 1)), asked, draw)
            noise = sent[:, :, 0].T / np.where(agents % 2, 2.0, 1.0)
            streams.append(Stream(f"round {k}", noise, size_of(release, noise), np.zeros_like(noise)))
        found.extend(check_streams(streams, _METHOD, type(release).__name__))
    return tuple(found)


def _certificate(norm: Norm = Norm.L2) -> Certificate:
    bare = Certificate(
        bound=1.0,
        protection=Protection(unit=Unit.RECORD, view=View.EAVESDROPPER),
        theorem="C1",
        assumptions=("an example",),
        norm=norm,
    )
    return secure_grid(bare, grid=grid_for(_STD), dimension=_DIMENSION)


def _gaussian(k: int, scale: float) -> NoisyRelease:
    return GaussianRelease(certificate=_certificate(), noise_std=scale, agent=0, round=k)


def _laplace(k: int, scale: float) -> NoisyRelease:
    return CoordinateLaplaceRelease(certificate=_certificate(Norm.L1), scale=scale, agent=0, round=k)


def _spherical(k: int, scale: float) -> NoisyRelease:
    return SphericalLaplaceRelease(certificate=_certificate(), rate=1 / scale, agent=0, round=k)


def _log_p(noise: Floats, tooth: Floats) -> float:
    """Return the log of the two-sided p-value that the noise does not follow the tooth."""
    size = float(np.linalg.norm(tooth)) * _STD
    return float(np.log(2) + log_ndtr(-abs(float(noise @ tooth)) / size))
