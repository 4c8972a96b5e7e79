"""What a user wishes, as types: the words of estimators and of the command line, checked before data are looked at."""

from dataclasses import dataclass, replace
from typing import Any

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.estimators.validation import method_name, network_of, penalty_of, seed_of, word
from dpadmm.noise.draws import Sampler
from dpadmm.noise.secure import SecureSampler
from dpadmm.noise.simulated import SimulatedSampler
from dpadmm.planning.plan import Plan
from dpadmm.planning.planner import plan as make_plan
from dpadmm.planning.task import Task
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.protection import Protection, Unit, View
from dpadmm.problems.losses import Loss
from dpadmm.problems.regularisers import Regulariser


@dataclass(frozen=True)
class Wishes:
    """What the user asked for, as types; all of it public."""

    target: Target
    protection: Protection
    method: str | None
    topology: Any
    penalty: Regulariser | None
    seed: int | None

    @classmethod
    def of(cls, parameters: dict[str, Any], usual: Protection) -> "Wishes":
        """Return the estimator's parameters, checked; what is not said about people and observers is as `usual`."""
        if parameters["delta"] is None:
            raise InputError(
                "delta must be given: there is none that suits every data set. A common choice is well below 1/n for n "
                "people, for instance delta=1e-6."
            )
        return cls(
            target=Target(
                checks.positive("epsilon", parameters["epsilon"]), checks.open_unit("delta", parameters["delta"])
            ),
            protection=protection_from(
                usual,
                parameters["unit"],
                parameters["view"],
                parameters["max_records_per_person"],
                parameters["max_silos_per_person"],
            ),
            method=method_name(parameters["algorithm"]),
            topology=parameters["topology"],
            penalty=penalty_of(parameters["alpha"], parameters["l1_ratio"]),
            seed=seed_of(parameters["random_state"]),
        )

    @property
    def is_simulated(self) -> bool:
        """Whether the noise comes from a seed."""
        return self.seed is not None

    @property
    def sampler(self) -> Sampler:
        """The source of noise."""
        return SecureSampler() if self.seed is None else SimulatedSampler(self.seed)

    def plan(self, loss: Loss, sizes: tuple[int, ...], dimension: int, row_norm: float, problems: int = 1) -> Plan:
        """Return the plan for silos of these sizes; `problems` share the budget."""
        task = Task(
            sizes=sizes,
            dimension=dimension,
            loss=loss,
            target=self.target,
            protection=self.protection,
            network=network_of(self.topology, len(sizes)),
            regulariser=self.penalty,
            row_norm=row_norm,
        )
        return make_plan(task, method=self.method, problems=problems)


def protection_from(usual: Protection, unit: Any, view: Any, records: Any, silos: Any) -> Protection:
    """Return the protection that words and numbers name; None stands for the usual one, which is the ledger's."""
    return replace(
        usual,
        unit=usual.unit if unit is None else word("unit", unit, Unit),
        view=usual.view if view is None else word("view", view, View),
        records_per_person=(
            usual.records_per_person if records is None else checks.count("max_records_per_person", records)
        ),
        silos_per_person=usual.silos_per_person if silos is None else checks.count("max_silos_per_person", silos),
    )
