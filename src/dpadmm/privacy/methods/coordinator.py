"""What methods with the noise at a coordinator share: one noise for everybody's data."""

from dataclasses import dataclass, replace

from dpadmm.errors import InputError
from dpadmm.privacy.certificates.neighbours import adding_words, for_silos
from dpadmm.privacy.methods.method import COORDINATOR, RecordMethod
from dpadmm.privacy.protection import Certificate


@dataclass(frozen=True, kw_only=True)
class CoordinatorMethod(RecordMethod):
    """A method whose only private releases are the coordinator's."""

    @property
    def copies(self) -> int:
        """One noise hides all silos of a person; their changes add up in the bound (`all_silos`)."""
        return 1

    @property
    def _first_agent(self) -> int:
        return COORDINATOR

    def _refuse_persons(self, unit: str) -> None:
        if self.records_per_person != 1 or self.silos_per_person != 1:
            raise InputError(
                f"What is protected is {unit}, so records_per_person and silos_per_person say nothing; leave them at 1."
            )


def all_silos(certificates: tuple[Certificate, ...], silos: int, agents: int) -> tuple[Certificate, ...]:
    """Return certificates of a mean over agents, made for one silo, as those of a person with records in `silos`.

    For fixed broadcasts every agent's state depends on its own data alone, so the mean moves by at most the sum of
    what its silos do: `silos` times the bound. (Squares add only where every silo has noise of its own.)
    """
    if silos > agents:
        raise InputError(f"silos_per_person must be at most the number of agents {agents}, got {silos}.")
    if silos == 1:
        return certificates
    wide = (for_silos(c, bound=silos * c.bound, silos=silos) for c in certificates)
    return tuple(replace(c, assumptions=(*c.assumptions, *adding_words(silos))) for c in wide)
