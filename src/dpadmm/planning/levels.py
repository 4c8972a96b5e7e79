"""The noise level of a release, read and changed: one word for the kinds of noise the planned methods use."""

from dataclasses import replace
from functools import singledispatch

from dpadmm.errors import InputError
from dpadmm.privacy.records import GaussianRelease, ObjectiveRelease, Release, SphericalLaplaceRelease


@singledispatch
def level_of(release: Release) -> float:
    """Return the noise's std per coordinate, or the scale 1/rate of spherical Laplace noise."""
    raise InputError(f"{type(release).__name__} is not a release that planned methods make.")


@level_of.register
def _(release: GaussianRelease) -> float:
    return release.noise_std


@level_of.register(SphericalLaplaceRelease)
@level_of.register(ObjectiveRelease)
def _(release: SphericalLaplaceRelease | ObjectiveRelease) -> float:
    return 1.0 / release.rate


@singledispatch
def louder(release: Release, factor: float) -> Release:
    """Return the release with its noise multiplied: for simulations in small."""
    raise InputError(f"{type(release).__name__} is not a release that planned methods make.")


@louder.register
def _(release: GaussianRelease, factor: float) -> Release:
    return replace(release, noise_std=release.noise_std * factor)


@louder.register(SphericalLaplaceRelease)
@louder.register(ObjectiveRelease)
def _(release: SphericalLaplaceRelease | ObjectiveRelease, factor: float) -> Release:
    return replace(release, rate=release.rate / factor)


def bound_of(release: Release) -> float:
    """Return how far one unit moves the value before its noise."""
    level_of(release)  # refuses bare releases, which have no certificate
    return float(release.certificate.bound)  # type: ignore[union-attr]
