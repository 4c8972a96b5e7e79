"""Is the noise of a transcript what was planned? Its scale release by release, and its independence of all other noise.

An attack shows the epsilon of everything together; a round with too little noise, or noise that serves twice, may hide
in that sum. What was sent, less what was to be sent, is the noise itself, and its distribution is known exactly:

    scale         Gaussian: sum (b/std)^2 is chi-square. Laplace, per coordinate or spherical: sum rate ||b|| is Gamma.
                  Half of the noises are positive, half are larger than their median size: Binomial(R, 1/2).
    independence  signs of two noises agree in half of the runs, and so do their sides of the median size, and a
                  noise's side and that of the value under it: all counts are Binomial(R, 1/2), whatever the family.

p-values are exact and multiplied by the number of tests, so the false-alarm rate stated holds for all of them together.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, gammainc, gammaincc, gammaincinv

from dpadmm.errors import InputError
from dpadmm.noise.masks import from_uint64
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.releases import (
    CoordinateLaplaceRelease,
    GaussianRelease,
    NoisyRelease,
    ObjectiveRelease,
    SampledGaussianRelease,
    SphericalLaplaceRelease,
    SummedGaussianRelease,
)
from dpadmm.problems.arrays import Floats
from dpadmm_research.audit.findings import FALSE_ALARM, Check, CheckOutcome
from dpadmm_research.audit.likelihood import releases_of
from dpadmm_research.audit.transcripts import Event, MaskedMessages, Transcript

_MOST_ROWS = 300  # noises compared with each other: 45,000 pairs


Half = tuple[str, NDArray[np.bool_]]
"""A place, and on which side of its median what is there is, run by run."""


class NoiseSize(NamedTuple):
    """The size of each noise vector (R,), which follows Gamma(shape, 1)."""

    values: Floats
    shape: float


@dataclass(frozen=True)
class Stream:
    """The noise of one release in all runs, and what it was put on, (d, R). where: a label."""

    where: str
    noise: Floats
    size: NoiseSize
    value: Floats


def check_noise(transcript: Transcript, plan: NoisePlan, method: str, pair: str) -> tuple[CheckOutcome, CheckOutcome]:
    """Return what the noise of a transcript shows: scale, and independence; of sums under masks, the masks as well."""
    return check_streams(list(streams_of(transcript, plan)), method, pair, _masked(transcript))


def check_streams(
    streams: Sequence[Stream], method: str, pair: str, masked: Sequence[Half] = ()
) -> tuple[CheckOutcome, CheckOutcome]:
    """Return scale and independence of these noises; `masked`: what else must be independent."""
    found = []
    for check, tests in ((Check.SCALE, _scale(streams)), (Check.INDEPENDENCE, _independence(streams, masked))):
        p, where = _smallest(tests)
        found.append(CheckOutcome(check, method, pair, p, where, p < FALSE_ALARM))
    return found[0], found[1]


def streams_of(transcript: Transcript, plan: NoisePlan) -> Iterator[Stream]:
    """Yield the noise of every release; of sums under masks, the share of every silo."""
    for event in transcript.events:
        envelopes = transcript.masked.get((event.kind, event.round))
        for place, release in enumerate(releases_of(plan, event)):
            where = f"{event.kind.name}, round {event.round}, agent {int(event.agents[place])}"
            if event.kind.step:
                where += f", step {event.kind.step}"
            if isinstance(release, SummedGaussianRelease) and envelopes is not None:
                yield from _shares(event, envelopes, release, where)
                continue
            noise = event.sent[place] - event.clean[place]
            yield Stream(where, noise, size_of(release, noise), event.clean[place])


def _shares(event: Event, envelopes: MaskedMessages, release: SummedGaussianRelease, where: str) -> Iterator[Stream]:
    grid, silos = release.certificate.grid, event.silos
    if grid is None or silos is None:
        raise InputError("A sum under masks must have a grid and the values that were added up.")
    # Written out again: shares of all silos but the colluders must amount to what is counted (C12).
    honest = release.silos - release.certificate.protection.n_colluders
    share = replace(release.share(0), noise_std=release.noise_std / math.sqrt(honest))
    for i, own in enumerate(envelopes.own):
        noise = from_uint64(own, grid) - silos[i]
        yield Stream(f"{where}, share of silo {i}", noise, size_of(share, noise), silos[i])


@singledispatch
def size_of(release: NoisyRelease, noise: Floats) -> NoiseSize:
    """Return the size of noise (d, R) as a variable with a Gamma law."""
    raise InputError(f"The law of {type(release).__name__}'s noise is not known; describe it here.")


@size_of.register(GaussianRelease)
@size_of.register(SampledGaussianRelease)
def _(release: GaussianRelease | SampledGaussianRelease, noise: Floats) -> NoiseSize:
    std = release.total_std if isinstance(release, SummedGaussianRelease) else release.noise_std
    return NoiseSize(0.5 * np.square(noise / std).sum(axis=0), len(noise) / 2)


@size_of.register(SphericalLaplaceRelease)
@size_of.register(ObjectiveRelease)
def _(release: SphericalLaplaceRelease | ObjectiveRelease, noise: Floats) -> NoiseSize:
    return NoiseSize(release.rate * np.linalg.norm(noise, axis=0), len(noise))


@size_of.register
def _(release: CoordinateLaplaceRelease, noise: Floats) -> NoiseSize:
    return NoiseSize(np.abs(noise).sum(axis=0) / release.scale, len(noise))


class _Test(NamedTuple):
    """p-values of one kind of test, and the place each is about."""

    p: Floats
    where: Sequence[str]


def _smallest(tests: Sequence[_Test]) -> tuple[float, str]:
    """Return the smallest p-value times the number of all of them, and its place."""
    number = sum(test.p.size for test in tests)
    least = min(tests, key=lambda test: test.p.min(initial=1.0))
    if not least.p.size:
        return 1.0, ""
    place = int(np.argmin(least.p))
    return min(1.0, float(least.p[place]) * number), least.where[place]


def _masked(transcript: Transcript) -> list[Half]:
    """Return the first bit of every word that leaves a silo: a mask that served twice, or none, gives itself away."""
    return [
        (f"words of {kind.name}, round {k}, silo {i}", (sent.view(np.int64) < 0).ravel())
        for (kind, k), envelopes in transcript.masked.items()
        for i, sent in enumerate(envelopes.sent)
    ]


def _scale(streams: Sequence[Stream]) -> list[_Test]:
    """Test the sum of all sizes of every release, their median, and that of the noise itself; NaN fails as well."""
    p = []
    for stream in streams:
        total, shape = float(stream.size.values.sum()), stream.size.shape * stream.size.values.size
        tail = min(float(gammainc(shape, total)), float(gammaincc(shape, total))) if np.isfinite(total) else 0.0
        p.append(min(1.0, 2 * tail))
    signs, sizes = _halves(streams)
    return [_Test(np.array(p), [stream.where for stream in streams]), *(_half(rows) for rows in (signs, sizes))]


def _half(rows: Sequence[Half]) -> _Test:
    """Test that a row is on either side of its median equally often."""
    counts = np.array([np.count_nonzero(side) for _, side in rows])
    return _Test(_binomial(counts, rows[0][1].size if rows else 0), [where for where, _ in rows])


def _halves(streams: Sequence[Stream]) -> tuple[Sequence[Half], Sequence[Half]]:
    """Return which coordinates are positive, and which releases are larger than their median size, run by run."""
    signs: list[Half] = [(stream.where, row > 0) for stream in streams for row in stream.noise]
    sizes: list[Half] = [(stream.where, stream.size.values > gammaincinv(stream.size.shape, 0.5)) for stream in streams]
    return signs, sizes


def _independence(streams: Sequence[Stream], masked: Sequence[Half]) -> list[_Test]:
    """Compare signs of all coordinates, and sizes of all releases: with each other, and with those of the next run."""
    signs, sizes = _halves(streams)
    tests = [test for kind in (signs, sizes) for test in (_between(_thinned(kind)), _next_run(kind))]
    tests += [_on_values(streams, signs, len), _on_values(streams, sizes, lambda _: 1)]
    return [*tests, _half(masked), _between(_thinned(masked))] if masked else tests


def _thinned(rows: Sequence[Half]) -> Sequence[Half]:
    """Return at most so many rows, evenly; neighbours stay neighbours, which is where noise is used again."""
    if len(rows) <= _MOST_ROWS:
        return rows
    starts = np.linspace(0, len(rows) - 2, _MOST_ROWS // 2).astype(int)
    return [rows[i] for i in sorted({*starts.tolist(), *(starts + 1).tolist()})]


def _between(rows: Sequence[Half]) -> _Test:
    """Test all pairs of rows, run by run."""
    sides = np.array([np.where(side, 1.0, -1.0) for _, side in rows])
    runs = sides.shape[1]
    first, second = np.triu_indices(len(rows), 1)
    agree = (sides @ sides.T + runs) / 2
    where = [f"{rows[i][0]} and {rows[j][0]}" for i, j in zip(first.tolist(), second.tolist(), strict=True)]
    return _Test(_binomial(agree[first, second], runs), where)


def _next_run(rows: Sequence[Half]) -> _Test:
    """Test every row against itself, one run later; runs are taken in pairs, so that counts are independent."""
    pairs = rows[0][1].size // 2 if rows else 0
    agree = np.array([np.count_nonzero(side[: 2 * pairs : 2] == side[1 : 2 * pairs : 2]) for _, side in rows])
    return _Test(_binomial(agree, pairs), [f"{where}, of one run and the next" for where, _ in rows])


def _on_values(streams: Sequence[Stream], rows: Sequence[Half], rows_of: Callable[[Floats], int]) -> _Test:
    """Test that noise takes no notice of the value it is put on: whether that is large says nothing about its side."""
    agree, places = [], iter(rows)
    for stream in streams:
        for j in range(rows_of(stream.noise)):
            _, side = next(places)
            agree.append(np.count_nonzero(side == (stream.value[j] > np.median(stream.value[j]))))
    return _Test(_binomial(np.array(agree), rows[0][1].size), [f"{where}, and the value under it" for where, _ in rows])


def _binomial(agree: Floats, number: int) -> Floats:
    """Return two-sided p-values of counts that should be Binomial(number, 1/2)."""
    if number == 0:
        return np.ones(len(agree))
    fewer = np.minimum(agree, number - agree)
    return np.minimum(1.0, 2 * bdtr(np.rint(fewer), number, 0.5))
