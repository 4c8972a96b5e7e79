"""What an estimator's parameters ask for, as types; all of it is checked before data are looked at."""

import os
from dataclasses import dataclass
from typing import Any

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.core.budget import ReusedProfile
from dpadmm.data.raw import RawSilos
from dpadmm.data.schema import Schema, Screening
from dpadmm.errors import InputError
from dpadmm.estimators.wishes import (
    method_name,
    network_of,
    nominal_number,
    penalty_of,
    protection_from,
    seed_of,
    unit_of,
    with_public_sizes,
)
from dpadmm.noise.draws import Sampler
from dpadmm.noise.secure import SecureSampler
from dpadmm.noise.simulated import SimulatedSampler
from dpadmm.planner.plan import Plan
from dpadmm.planner.planner import plan as make_plan
from dpadmm.planner.task import ProfileRule, TableShape, Task, check_signal
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.protection import Protection, Unit
from dpadmm.problems.aims import Aim, aim_of
from dpadmm.problems.regularisers import Regulariser
from dpadmm.problems.softmax import AnyLoss

_AGREEMENT = {
    True: "pass fit_intercept=False for a model without one, or leave `constant` out of the schema for one",
    False: "use schema.with_constant(None) for a model without one, or leave fit_intercept out for one",
}
_STATED = ("feature_bounds", "row_norm", "classes", "target_bounds")


@dataclass(frozen=True)
class TableRules:
    """How tables are read: by a public schema, with these policies for awkward cells."""

    schema: Schema
    screening: Screening

    @classmethod
    def of(cls, parameters: dict[str, Any]) -> "TableRules | None":
        """Return the rules that an estimator's parameters name, None without a schema."""
        schema = parameters["schema"]
        screening = Screening.of(*(parameters[name] for name in ("missing", "unlisted", "out_of_range")))
        if schema is None:
            if screening != Screening():
                raise InputError("missing, unlisted and out_of_range are for tables with a schema. Pass schema= too.")
            return None
        for name in _STATED:
            if parameters.get(name) is not None:
                raise InputError(
                    f"{name} and schema cannot be given together, because the schema states it. Leave one out."
                )
        if isinstance(schema, str | os.PathLike):
            schema = Schema.load(os.fspath(schema))
        if not isinstance(schema, Schema):
            raise InputError(f"schema must be a Schema, the path of its JSON file or None, got {shown(schema)}.")
        if bool(parameters["fit_intercept"]) is (schema.constant is None):
            raise InputError(
                f"fit_intercept is {bool(parameters['fit_intercept'])}, but the schema states "
                f"{'no' if schema.constant is None else 'an'} intercept. The schema decides; make them agree: "
                f"{_AGREEMENT[schema.constant is None]}."
            )
        return cls(schema, screening)


@dataclass(frozen=True)
class Wishes:
    """What the user asked for, as types; all of it public.

    nominal_records: the number that stands for that of all records where this is secret, None where it is not.
    """

    target: Target
    protection: Protection
    method: str | None
    topology: Any
    penalty: Regulariser | None
    seed: int | None
    rules: TableRules | None
    profile: ProfileRule
    nominal_records: int | None = None
    aim: Aim = Aim.PREDICTION
    expected_auc: float | None = None
    expected_r2: float | None = None

    @classmethod
    def of(cls, parameters: dict[str, Any], usual: Protection, *, has_persons: bool = False) -> "Wishes":
        """Return the estimator's parameters, checked; what is not said about people and observers is as `usual`.

        has_persons: fit was told whose each row is, so that persons are protected.
        """
        if parameters["delta"] is None:
            raise InputError(
                "delta must be given: no default suits every data set. Choose one well below 1/n for n people, "
                "for instance delta=1e-6."
            )
        protection = protection_from(
            usual,
            unit_of(parameters["unit"], has_persons=has_persons),
            parameters["view"],
            parameters["records_per_person"],
            parameters["silos_per_person"],
            parameters["colluders"],
            parameters["neighbours"],
        )
        if protection.unit is Unit.PERSON and not has_persons:
            raise InputError(
                "The unit 'person' protects people with all their rows. Say which person each row belongs to: "
                "fit(..., persons=...)."
            )
        check_signal(parameters.get("expected_auc"), parameters.get("expected_r2"))
        return cls(
            target=Target(
                checks.positive("epsilon", parameters["epsilon"]), checks.open_unit("delta", parameters["delta"])
            ),
            protection=protection,
            method=method_name(parameters["method"]),
            topology=parameters["topology"],
            penalty=penalty_of(parameters["alpha"], parameters["l1_ratio"]),
            seed=seed_of(parameters["random_state"]),
            rules=TableRules.of(parameters),
            profile=ProfileRule.of(parameters["profile"], parameters["profile_share"]),
            nominal_records=nominal_number(protection.relation, parameters["nominal_records"]),
            aim=aim_of(parameters.get("aim", Aim.PREDICTION)),  # not every model tells intervals
            expected_auc=parameters.get("expected_auc"),
            expected_r2=parameters.get("expected_r2"),
        )

    @property
    def is_simulated(self) -> bool:
        """Whether the noise comes from a seed."""
        return self.seed is not None

    @property
    def sampler(self) -> Sampler:
        """The source of noise."""
        return SecureSampler() if self.seed is None else SimulatedSampler(self.seed)

    def public_rows(self, rows: RawSilos) -> RawSilos:
        """Return the rows with their public sizes: where the true ones are secret, nominal ones."""
        return with_public_sizes(rows, self.nominal_records)

    def plan(
        self,
        loss: AnyLoss,
        rows: RawSilos,
        dimension: int,
        problems: int | None,
        bought: ReusedProfile | None = None,
    ) -> Plan:
        """Return the plan for these rows; all problems share the budget. `bought`: a profile there is already."""
        return make_plan(self.task(loss, rows, dimension, bought), method=self.method, problems=problems)

    def task(self, loss: AnyLoss, rows: RawSilos, dimension: int, bought: ReusedProfile | None = None) -> Task:
        """Return what a plan is made from: public facts about these rows, and what is asked for."""
        form = rows.form
        return Task(
            sizes=rows.sizes,
            dimension=dimension,
            loss=loss,
            target=self.target,
            protection=self.protection,
            network=network_of(self.topology, len(rows.sizes)),
            regulariser=self.penalty,
            row_norm=rows.encoder.row_norm,
            table=None if form is None else TableShape.of(form),
            profile=self.profile if bought is None else self.profile.with_bought(bought.counts.run, bought.m),
            aim=self.aim,
            expected_auc=self.expected_auc,
            expected_r2=self.expected_r2,
        )
