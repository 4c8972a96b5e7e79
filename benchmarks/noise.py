"""Cost of noise: seeded normals beside NumPy's in the same run, and exact secure noise.

Large draws go through the public interface, in place, so that neither allocation nor page faults are counted. One
thread is measured in processor time, two in wall-clock time; the best of several repetitions counts.
"""

import time
from collections.abc import Callable

import numpy as np
import opendp.prelude as dp

from dpadmm.noise.mechanisms import MessageKind
from dpadmm.noise.sampler import Draw, Sampler, SecureSampler, SimulatedSampler, grid_for
from dpadmm.privacy.protection import Certificate, Norm, Protection, Unit, View
from dpadmm.privacy.releases import CoordinateLaplaceRelease, GaussianRelease, SphericalLaplaceRelease
from table import Row

REPETITIONS = 15
SHAPES = {"1,000 agents, d = 64, 16 replicas": (1000, 64, 16), "100,000 agents, d = 16": (100_000, 16, 1)}
dp.enable_features("contrib")
DOMAIN = dp.vector_domain(dp.atom_domain(T="i64"))
OPENDP_GAUSSIAN = dp.m.make_gaussian(DOMAIN, dp.l2_distance(T="f64"), 2.0**24)
OPENDP_LAPLACE = dp.m.make_laplace(DOMAIN, dp.l1_distance(T="i64"), 2.0**24)
NUMPY = "NumPy Generator.standard_normal"


def rows() -> list[Row]:
    """Return the measurements: name, value, unit, reference, ratio (how many times faster than the reference)."""
    table: list[Row] = []
    for label, shape in SHAPES.items():
        table += _normal_rows(label, shape)
    table += [
        _row("discrete Gaussian, secure", _secure(_gaussian()), "us a number", "OpenDP", _opendp(OPENDP_GAUSSIAN)),
        _row("discrete Laplace, secure", _secure(_laplace()), "us a number", "OpenDP", _opendp(OPENDP_LAPLACE)),
        _row("spherical Laplace, secure", _secure(_spherical()), "us a number"),
    ]
    return table


def _row(name: str, value: float, unit: str, reference: str = "", base: float | None = None) -> Row:
    return Row(name, value, unit, reference, base, None if base is None else base / value)


def _normal_rows(label: str, shape: tuple[int, int, int]) -> list[Row]:
    """Measure NumPy and both samplers in turns, so that a busy machine slows all of them alike."""
    values, numbers = np.zeros(shape), shape[0] * shape[1] * shape[2]
    draw = Draw(MessageKind("message"), 1, shape[0], shape[2])
    generator = np.random.default_rng(1)

    def perturb(sampler: Sampler, release: GaussianRelease | SphericalLaplaceRelease) -> Callable[[], object]:
        return lambda: sampler.perturb(values, release, draw)

    def numpy_normals() -> object:
        return generator.standard_normal(values.shape)

    one = SimulatedSampler(1)
    work = [numpy_normals, perturb(one, _gaussian()), perturb(one, _spherical())]
    reference, normal, spherical = (1e9 * t / numbers for t in _best(work, time.thread_time))
    return [
        _row(f"{NUMPY}, {label}", reference, "ns a normal"),
        _row(f"seeded normal, one thread, {label}", normal, "ns a normal", NUMPY, reference),
        _row(f"seeded spherical Laplace, one thread, {label}", spherical, "ns a number", NUMPY, reference),
    ]


def _best(work: list[Callable[[], object]], clock: Callable[[], float]) -> list[float]:
    times = [[0.0] * REPETITIONS for _ in work]
    for task in work:
        task()  # compiles
    for repetition in range(REPETITIONS):
        for task, spent in zip(work, times, strict=True):
            start = clock()
            task()
            spent[repetition] = clock() - start
    return [min(spent) for spent in times]


def _secure(release: GaussianRelease | CoordinateLaplaceRelease | SphericalLaplaceRelease) -> float:
    """Return microseconds a number for the message of five silos, d = 105."""
    values = np.zeros((5, 105, 1))
    draw = Draw(MessageKind("message"), 1, 5)
    (best,) = _best([lambda: SecureSampler().perturb(values, release, draw)], time.thread_time)
    return 1e6 * best / values.size


def _opendp(measurement: Callable[[list[int]], list[int]]) -> float:
    """Return microseconds a number of OpenDP's sampler for as many numbers."""
    zeros = [0] * 525
    (best,) = _best([lambda: measurement(zeros)], time.thread_time)
    return 1e6 * best / len(zeros)


def _certificate(norm: Norm = Norm.L2) -> Certificate:
    return Certificate(
        bound=1.0,
        protection=Protection(unit=Unit.RECORD, view=View.EAVESDROPPER),
        theorem="benchmark",
        assumptions=("none: nothing is released",),
        norm=norm,
        grid=grid_for(1.5),
        grid_dimension=105,
    )


def _gaussian() -> GaussianRelease:
    return GaussianRelease(certificate=_certificate(), noise_std=1.5, agent=0, round=1)


def _laplace() -> CoordinateLaplaceRelease:
    return CoordinateLaplaceRelease(certificate=_certificate(Norm.L1), scale=1.5, agent=0, round=1)


def _spherical() -> SphericalLaplaceRelease:
    return SphericalLaplaceRelease(certificate=_certificate(), rate=1 / 1.5, agent=0, round=1)
