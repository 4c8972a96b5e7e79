"""Round 0: every silo's noisy counts of its columns (C11), after which all encode their rows alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from dpadmm.core.spec import ReleaseFacts, RunSpec, plan_sum
from dpadmm.errors import InputError
from dpadmm.noise.mechanisms import MessageKind
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.certificates.sums import column_profile, profile_on_grid
from dpadmm.problems.arrays import Floats

if TYPE_CHECKING:  # it reads tables, and accounting does without
    from dpadmm.data.profile import ProfileForm

PROFILE = MessageKind("profile")
"""Where the counts get their noise."""


@dataclass(frozen=True, kw_only=True)
class ColumnProfile:
    """The counts of all columns. n_numeric, n_categorical: columns. size: counts in all.

    Counts of records lie on the grid already (C11); the fractions that a user's rows count are rounded to it.
    """

    n_numeric: int
    n_categorical: int
    size: int
    target: Target

    name: ClassVar[str] = "profile"
    kind: ClassVar[MessageKind] = PROFILE
    round: ClassVar[int] = 0
    reads: ClassVar[tuple[RunSpec, ...]] = ()

    def check(self, form: "ProfileForm | None", sizes: tuple[int, ...], facts: ReleaseFacts) -> None:
        """Refuse rows with other columns, or in other numbers, than are paid for; from public facts alone."""
        if form is None:
            raise InputError("The plan counts columns before training, but the rows are already encoded.")
        if (form.n_numeric, form.n_categorical) != (self.n_numeric, self.n_categorical) or form.size > self.size:
            raise InputError(
                f"The plan pays for a profile of {self.n_numeric} numeric and {self.n_categorical} categorical columns "
                f"with {self.size} bins, but the rows have {form.n_numeric} and {form.n_categorical} with {form.size}. "
                "Nothing was spent; plan for these columns."
            )
        if sizes != facts.sizes:
            raise InputError(
                f"The plan is for silos of {list(facts.sizes)} records; these silos differ. Nothing was spent."
            )

    def noise_plan(self, facts: ReleaseFacts, is_secure: bool) -> NoisePlan:
        """Return the releases of the round."""
        certify = partial(
            column_profile,
            n_numeric=self.n_numeric,
            n_categorical=self.n_categorical,
            protection=facts.protection,
            is_noise_shared=facts.is_pooled,
        )
        on_grid = partial(profile_on_grid, n_bins=self.size, shares=facts.shares)
        return plan_sum(self.kind, self.round, self.target, facts, certify, on_grid, is_secure=is_secure)

    def values(self, source: Any, released: Mapping[str, Any]) -> Floats:
        """Return every silo's counts, (silos, size)."""
        return source.counts()

    def read(self, noisy: Floats, noise_std: float, released: Mapping[str, Any]) -> tuple[Floats, float]:
        """Return the pooled counts and the noise in them; the columns' form makes a `ReleasedProfile` of them."""
        return noisy, noise_std
