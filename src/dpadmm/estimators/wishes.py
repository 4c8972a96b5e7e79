"""What a user asks for, as types: the words of the estimators and of the command line, mapped in one place.

Everything here is done before data are looked at.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from dpadmm import checks
from dpadmm.algorithms.method import by_name, plannable
from dpadmm.checks import nearest, shown
from dpadmm.datasets.raw import RawSilos
from dpadmm.datasets.schema import Schema, Screening
from dpadmm.engines.bought import BoughtProfile
from dpadmm.errors import InputError
from dpadmm.networks.graph import Network, complete, path, ring, star
from dpadmm.noise.draws import Sampler
from dpadmm.noise.promises import Family
from dpadmm.noise.secure import SecureSampler
from dpadmm.noise.simulated import SimulatedSampler
from dpadmm.planning.plan import Plan
from dpadmm.planning.planner import plan as make_plan
from dpadmm.planning.task import ProfileRule, TableShape, Task, nominal_sizes
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.ledger import ConfirmedLedger, Ledger, open_for_reading
from dpadmm.privacy.protection import ONE_RECORD, Protection, Relation, Unit, View, relation_of
from dpadmm.problems.regularisers import L1, ElasticNet, Regulariser, Ridge
from dpadmm.problems.softmax import AnyLoss

_TOPOLOGIES = {"complete": complete, "path": path, "ring": ring, "star": star}
_AUTO = "auto"
_SEVERAL = ("auto", "softmax", "one-vs-rest")
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
                raise InputError("missing, unlisted and out_of_range are for tables with a schema. Give schema= too.")
            return None
        for name in _STATED:
            if parameters.get(name) is not None:
                raise InputError(f"{name} and schema cannot be given together: the schema states it. Leave one out.")
        if isinstance(schema, str | os.PathLike):
            schema = Schema.load(os.fspath(schema))
        if not isinstance(schema, Schema):
            raise InputError(f"schema must be a Schema, the path of its JSON file or None, got {shown(schema)}.")
        if not parameters["fit_intercept"] and schema.constant is not None:
            raise InputError(
                "fit_intercept is False, but the schema has a constant feature for an intercept. Leave one out: "
                "schema.with_constant(None) has none."
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

    @classmethod
    def of(cls, parameters: dict[str, Any], usual: Protection, *, has_persons: bool = False) -> "Wishes":
        """Return the estimator's parameters, checked; what is not said about people and observers is as `usual`.

        has_persons: fit was told whose each row is, so that persons are protected.
        """
        if parameters["delta"] is None:
            raise InputError(
                "delta must be given: there is none that suits every data set. A common choice is well below 1/n for n "
                "people, for instance delta=1e-6."
            )
        protection = protection_from(
            usual,
            unit_of(parameters["unit"], has_persons=has_persons),
            parameters["view"],
            parameters["max_records_per_person"],
            parameters["max_silos_per_person"],
            parameters["colluders"],
            parameters["neighbours"],
        )
        if protection.unit is Unit.PERSON and not has_persons:
            raise InputError(
                "The unit 'person' protects people with all their rows: say whose each row is, fit(..., persons=...)."
            )
        return cls(
            target=Target(
                checks.positive("epsilon", parameters["epsilon"]), checks.open_unit("delta", parameters["delta"])
            ),
            protection=protection,
            method=method_name(parameters["algorithm"]),
            topology=parameters["topology"],
            penalty=penalty_of(parameters["alpha"], parameters["l1_ratio"]),
            seed=seed_of(parameters["random_state"]),
            rules=TableRules.of(parameters),
            profile=ProfileRule.of(parameters["profile"], parameters["profile_share"]),
            nominal_records=nominal_number(protection.relation, parameters["nominal_records"]),
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

    def plan(self, loss: AnyLoss, rows: RawSilos, dimension: int, bought: BoughtProfile | None = None) -> Plan:
        """Return the plan for these rows; all problems share the budget. `bought`: a profile there is already."""
        form = rows.form
        task = Task(
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
        )
        return make_plan(task, method=self.method, problems=len(rows.labels))


def with_public_sizes(rows: RawSilos, nominal_records: int | None) -> RawSilos:
    """Return rows whose silos are told by their nominal sizes, if there is a nominal number of records."""
    if nominal_records is None:
        return rows
    return replace(rows, nominal=nominal_sizes(nominal_records, len(rows.parts)))


def nominal_number(relation: Relation, nominal_records: Any) -> int | None:
    """Return the nominal number of records, which add-remove neighbours need and others do not take."""
    if relation.has_public_sizes:
        if nominal_records is not None:
            raise InputError(
                "nominal_records stands for a secret number of records, which replace-one neighbours do not have. "
                "Leave it out, or take neighbours 'add-remove'."
            )
        return None
    if nominal_records is None:
        raise InputError(
            "add-remove neighbours keep the number of records secret, so that nominal_records must be given: one "
            "public number of about that size, known without counting the records. It decides weights, steps and noise."
        )
    return checks.count("nominal_records", nominal_records)


def unit_of(unit: Any, *, has_persons: bool) -> Any:
    """Return the unit that is asked for: a person, where it is known whose each row is."""
    if not has_persons:
        return unit
    if unit is not None and not (isinstance(unit, str) and unit == Unit.PERSON.value):
        raise InputError(f"persons= protects a person with all their rows, unit={shown(unit)} something else. Say one.")
    return Unit.PERSON.value


def protection_from(
    usual: Protection,
    unit: Any,
    view: Any,
    records: Any,
    silos: Any,
    colluders: Any = None,
    neighbours: Any = None,
) -> Protection:
    """Return the protection that words and numbers name; None stands for the usual one, which is the ledger's."""
    seen_by = usual.view if view is None else checks.member("view", view, View)
    counted = usual.colluders if seen_by is usual.view else None
    hidden = usual.unit if unit is None else checks.member("unit", unit, Unit)
    if records is None and hidden is Unit.PERSON:
        records = 1  # however many rows they are, they count one together
    return replace(
        usual,
        unit=hidden,
        relation=usual.relation if neighbours is None else relation_of(neighbours),
        view=seen_by,
        colluders=counted if colluders is None else checks.count("colluders", colluders, least=0),
        records_per_person=(
            usual.records_per_person if records is None else checks.count("max_records_per_person", records)
        ),
        silos_per_person=usual.silos_per_person if silos is None else checks.count("max_silos_per_person", silos),
    )


def protection_of(ledger: Any) -> Protection:
    """Return what the ledger's budget is about, or the usual protection without one."""
    if ledger is None:
        return ONE_RECORD
    if isinstance(ledger, ConfirmedLedger):
        return ledger.ledger.protection
    if isinstance(ledger, Ledger):
        return ledger.protection
    with open_for_reading(ledger) as book:
        return book.protection


def check_ledger(ledger: Any) -> None:
    """Refuse what is neither a path nor a ledger."""
    if ledger is not None and not isinstance(ledger, Ledger | str | os.PathLike):
        raise InputError(
            f"ledger must be a path, an open Ledger or None, got {type(ledger).__name__}. Create one with "
            "Ledger.create(path, ledger_data(X, y, groups), Budget(epsilon=..., delta=...))."
        )


def method_name(algorithm: Any) -> str | None:
    """Return the registry's name of the method, None where the planner chooses."""
    if isinstance(algorithm, str) and algorithm == _AUTO:
        return None
    known = plannable()
    if isinstance(algorithm, str) and algorithm in by_name() and algorithm not in known:
        raise InputError(
            f"algorithm {algorithm!r} cannot be planned: it adds no noise, or needs settings no public fact decides. "
            f"Run it from Python with run_private, or choose 'auto' or one of {', '.join(known)}."
        )
    if not isinstance(algorithm, str) or algorithm not in known:
        meant = nearest(algorithm, known)
        raise InputError(f"algorithm must be 'auto' or one of {', '.join(known)}, got {shown(algorithm)}.{meant}")
    return algorithm


def is_softmax(word: Any, algorithm: Any, n_classes: int) -> bool:
    """Return whether the classes are trained as one softmax model; else there are two, or each is against the rest.

    "auto" is softmax wherever the algorithm is certified for it (C13).
    """
    if word not in _SEVERAL:
        raise InputError(f"multi_class must be one of {', '.join(map(repr, _SEVERAL))}, got {shown(word)}.")
    name = method_name(algorithm)
    is_certified = name is None or by_name()[name].about.takes_softmax
    if word == "softmax" and not is_certified:
        fit = ", ".join(name for name, method in plannable().items() if method.about.takes_softmax)
        raise InputError(
            f"algorithm {name!r} is not certified for softmax, one model of all classes. Use multi_class "
            f"'one-vs-rest', or one of {fit}."
        )
    return n_classes > 2 and word != "one-vs-rest" and is_certified


def class_weights_of(class_weight: Any, algorithm: Any) -> dict[Any, float] | None:
    """Return the public weights of classes, None where all count the same; classes that are not named count 1."""
    if class_weight is None:
        return None
    if not isinstance(class_weight, Mapping) or not class_weight:
        raise InputError(
            f"class_weight must be None or {{class: weight}} with public numbers, got {shown(class_weight)}. How often "
            "classes occur is private: state weights, or frequencies you know without these data."
        )
    name = method_name(algorithm)
    if name is not None and Family.SAMPLED in by_name()[name].about.noise:
        raise InputError(f"algorithm {name!r} draws batches in which all rows count the same: leave class_weight out.")
    return {each: checks.positive("every weight of a class", weight) for each, weight in class_weight.items()}


def network_of(topology: Any, n_silos: int) -> Network | None:
    """Return the network that a word, a `Network` or a networkx graph names; None where the planner chooses."""
    if topology is None or (isinstance(topology, str) and topology == _AUTO):
        return None
    if isinstance(topology, str):
        if topology not in _TOPOLOGIES:
            known = ["auto", *_TOPOLOGIES]
            raise InputError(
                f"topology must be {', '.join(map(repr, known))} or a graph, got {shown(topology)}."
                f"{nearest(topology, known)}"
            )
        if n_silos < 2:
            raise InputError(
                f"topology {shown(topology)} needs at least 2 silos, got 1. Pass groups= to fit, or leave it out."
            )
        return _TOPOLOGIES[topology](n_silos)
    if isinstance(topology, Network):
        return topology
    try:
        return Network.from_graph(topology)
    except InputError as problem:
        raise InputError(f"topology: {problem}") from problem


def penalty_of(alpha: Any, l1_ratio: Any) -> Regulariser | None:
    """Return `alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2)`; None where the planner chooses."""
    ratio = checks.finite("l1_ratio", l1_ratio)
    if not 0 <= ratio <= 1:
        raise InputError(f"l1_ratio must lie between 0 (ridge) and 1 (lasso), got {shown(l1_ratio)}.")
    if alpha is None:
        if ratio > 0:
            raise InputError("l1_ratio needs alpha, the weight of the penalty, which is public. Give alpha > 0.")
        return None
    weight = checks.non_negative("alpha", alpha)
    if ratio == 0:
        return Ridge(weight)
    return L1(weight) if ratio == 1 else ElasticNet(weight * ratio, weight * (1 - ratio))


def boolean(name: str, value: Any) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, got {shown(value)}.")
    return bool(value)


def seed_of(random_state: Any) -> int | None:
    """Return the seed of simulated noise, None for a release."""
    if random_state is None:
        return None
    is_seed = isinstance(random_state, Integral) and int(random_state) >= 0
    if isinstance(random_state, bool) or not (is_seed or isinstance(random_state, np.random.RandomState)):
        raise InputError(
            "random_state must be None (a release), a whole number of at least 0 or a numpy RandomState, got "
            f"{shown(random_state)}."
        )
    if is_seed:
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
