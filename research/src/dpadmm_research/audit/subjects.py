"""What is attacked: whatever is private, on neighbouring data sets chosen to hurt it, with an attack for each view.

Methods run as users run them, on tiny problems: guarantees do not depend on the size, and tiny problems can be run
ten thousand times at once. The catalogue itself is in `dpadmm_research.audit.catalogue`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from dpadmm.errors import InputError
from dpadmm.methods.base import Method, Setting
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import Schedule
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.accounting import PureTarget, Target
from dpadmm.privacy.protection import ONE_RECORD, Protection, View
from dpadmm.testing import LocalEngine, plan_noise
from dpadmm_research.audit.attacks import Attack, Worlds
from dpadmm_research.audit.transcripts import TOLERANCE, RunSetup, Stage


@dataclass(frozen=True, kw_only=True)
class Subject(ABC):
    """Something private on a pair of neighbouring data sets, with an attack for every view.

    method: what it is called. pair: in words, what differs and why it hurts. worlds: the data, P and Q. views: the
    attack of each viewer, the certified view first.
    """

    method: str
    pair: str
    worlds: Worlds
    views: Mapping[View, Attack]

    @property
    @abstractmethod
    def is_pure(self) -> bool:
        """Whether the guarantee is pure epsilon."""

    @abstractmethod
    def plan(self, target: Target, is_secure: bool = False) -> NoisePlan:
        """Return the noise the library itself would use for this budget (pure methods take its epsilon)."""

    @abstractmethod
    def stage(self, plan: NoisePlan, replicas: int) -> Stage:
        """Return where so many runs take place at once."""

    def attack(self, view: View | None) -> tuple[View, Attack]:
        """Return the attack of this view (None: the one the certificate is about)."""
        chosen = next(iter(self.views)) if view is None else view
        if chosen not in self.views:
            known = ", ".join(v.value for v in self.views)
            raise InputError(f"{self.method} is audited for {known}; got {chosen!r}.", setting="view")
        return chosen, self.views[chosen]


@dataclass(frozen=True, kw_only=True)
class MethodSubject(Subject):
    """A method, by its name in the registry, on a pair of neighbouring problems."""

    algorithm: Method
    rounds: int
    network: Network | None = None
    schedule: Schedule | None = None
    protection: Protection = ONE_RECORD

    @property
    def setting(self) -> Setting:
        """The public facts of the method's run, the same in both worlds."""
        return Setting(self.worlds[0], self.rounds, TOLERANCE, self.network, self.protection)

    @property
    def is_pure(self) -> bool:
        """Whether the guarantee is pure epsilon."""
        return all(mechanism.family.is_pure for mechanism in self.algorithm.mechanisms(self.setting))

    def plan(self, target: Target, is_secure: bool = False) -> NoisePlan:
        """Return the noise the library itself would use for this budget (pure methods take its epsilon)."""
        budget = PureTarget(target.epsilon) if self.is_pure else target
        engine = LocalEngine(tolerance=TOLERANCE)
        return plan_noise(
            self.algorithm,
            self.worlds[0],
            self.rounds,
            budget,
            self.network,
            self.schedule,
            engine,
            self.protection,
            is_secure=is_secure,
        )

    def stage(self, plan: NoisePlan, replicas: int) -> RunSetup:
        """Return the run through the engine."""
        return RunSetup(self.algorithm, self.rounds, self.network, replicas)
