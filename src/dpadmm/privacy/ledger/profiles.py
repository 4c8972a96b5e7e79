"""Column profiles that a ledger keeps: noisy counts (C11), paid for once, which later fits use at no further cost.

What left with noise may be used again by anybody: that is post-processing. So the counts are an entry of the log, under
the same chain as the releases that paid for them, written as soon as they are drawn. They are the counts of all silos
together, and serve later fits of the very same columns under the same protection only.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy.ledger.entries import Entry, Reservation, read_record
from dpadmm.privacy.ledger.spending import PROFILE_ROUND, SpentBySilo, is_profile
from dpadmm.privacy.protection import Protection
from dpadmm.privacy.releases import GaussianRelease, SummedGaussianRelease, seen_noise

_EVERYONE = -1  # agent of a release that counts for every silo
_ROUNDING = 1e-9


@dataclass(frozen=True)
class ProfiledColumns:
    """What a profile is about: one made for it serves another fit only if all of this is the same.

    form: digest of the public columns and their bins. columns: what `SiloColumns.digests` calls them, in that order.
    records: how many are counted, or users where their rows count as one. protection: that of the run.
    """

    form: str
    columns: tuple[str, ...]
    records: int
    protection: Protection


@dataclass(frozen=True, kw_only=True)
class KeptProfile:
    """The noisy counts of all silos together, as `run` released them.

    form, records, protection: as in `ProfiledColumns`. data: keyed mark of the columns' values. columns: their number.
    noise_std: of the noise in each of the counts.
    """

    run: str
    form: str
    data: str
    columns: int
    records: int
    protection: Protection
    noise_std: float
    counts: tuple[float, ...] = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse what no release can have left."""
        checks.positive("noise_std", self.noise_std)
        checks.count("records", self.records)
        if checks.count("columns", self.columns) > len(self.counts) or not all(map(math.isfinite, self.counts)):
            raise InputError("The counts of a profile must be finite numbers, with at least one for every column.")

    def is_about(self, subject: ProfiledColumns, data: str) -> bool:
        """Return whether it is the profile of these columns, whose values have this mark."""
        wanted = subject.form, subject.records, subject.protection, data
        return (self.form, self.records, self.protection, self.data) == wanted


def released_profile(entries: Iterable[Entry]) -> list[GaussianRelease]:
    """Return the releases of a profile among the entries of one run."""
    found = (read_record(Reservation, entry.content()).release for entry in entries)
    return [release for release in found if isinstance(release, GaussianRelease) and is_profile(release)]


def check_paid(profile: KeptProfile, releases: Sequence[GaussianRelease], kept: Iterable[KeptProfile]) -> None:
    """Refuse counts that the run did not pay for: nothing in a ledger may be used that it has not charged."""
    if any(other.run == profile.run for other in kept):
        raise InputError(f"The profile of run {profile.run!r} is already stored; a run releases only one.")
    if not releases:
        raise InputError(
            f"The ledger has no release of a column profile for run {profile.run!r}, so its counts are not paid for "
            "and cannot be stored. Reserve the release first."
        )
    paid = math.sqrt(math.fsum(release.count * seen_noise(release) ** 2 for release in releases))
    if not math.isclose(paid, profile.noise_std, rel_tol=_ROUNDING):
        raise InputError(
            f"The profile of run {profile.run!r} was reserved with noise of {paid:.6g} on all silos' counts together, "
            f"these have {profile.noise_std:.6g}. Keep the counts that were released."
        )


def as_one_release(releases: Sequence[GaussianRelease], protection: Protection) -> GaussianRelease:
    """Return one release that costs anybody as much as a profile cost the worst person (C0).

    Every agent of that run had records of its own; a person is in as many of them as the protection says.
    """
    spent = SpentBySilo(protection)
    for release in releases:
        spent.add(release, None if release.agent < 0 else str(release.agent))
    worst = max(spent.people().values(), key=lambda reached: reached.squares)
    (merged,) = worst.gaussian()
    first = releases[0]
    certificate = replace(first.certificate, bound=merged.bound, grid=None, grid_dimension=0)
    if isinstance(first, SummedGaussianRelease):  # one for all silos, which remembers whose shares it is made of
        return replace(first, certificate=certificate, noise_std=1.0, count=1)
    return GaussianRelease(certificate=certificate, noise_std=1.0, agent=_EVERYONE, round=PROFILE_ROUND)
