"""What a user asks for, as types: the words of the estimators and of the command line, mapped in one place.

Everything here is done before data are looked at.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from dpadmm import checks
from dpadmm.checks import nearest, setting, shown
from dpadmm.data.class_weights import checked
from dpadmm.data.raw import RawSilos
from dpadmm.errors import InputError
from dpadmm.methods.method import by_name, plannable
from dpadmm.networks.graph import Network, complete, path, ring, star
from dpadmm.noise.promises import Family
from dpadmm.planner.task import nominal_sizes
from dpadmm.privacy.ledger import Budget, ConfirmedLedger, Ledger, SiloColumns, open_for_reading
from dpadmm.privacy.protection import ONE_RECORD, Protection, Relation, Unit, View, relation_of
from dpadmm.problems.aims import Aim
from dpadmm.problems.regularisers import ElasticNet, Regulariser

_TOPOLOGIES = {"complete": complete, "path": path, "ring": ring, "star": star}
_AUTO = "auto"
_SEVERAL = ("auto", "softmax", "one-vs-rest")


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
                f"{setting('nominal_records')} replaces a secret number of records, but with replace-one "
                f"neighbours that number is public. Leave it out, or use {setting('neighbours', 'add-remove')}."
            )
        return None
    if nominal_records is None:
        raise InputError(
            f"add-remove neighbours keep the number of records secret, so {setting('nominal_records')} must be "
            "given: a public number of about that size, known without counting the records. It determines "
            "weights, steps and noise."
        )
    return checks.count("nominal_records", nominal_records)


def unit_of(unit: Any, *, has_persons: bool) -> Any:
    """Return the unit that is asked for: a person, where it is known whose each row is."""
    if not has_persons:
        return unit
    if unit is not None and not (isinstance(unit, str) and unit == Unit.PERSON.value):
        raise InputError(
            f"{setting('persons')} protects a person with all their rows, but {setting('unit')} {shown(unit)} "
            "protects something else. Leave one out."
        )
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
            usual.records_per_person if records is None else checks.count("records_per_person", records)
        ),
        silos_per_person=usual.silos_per_person if silos is None else checks.count("silos_per_person", silos),
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


@dataclass(frozen=True, kw_only=True)
class Books:
    """The ledger to record in: an existing file, or a new one with a budget; None keeps no record."""

    path: Path | None = None
    budget: float | None = None

    @property
    def name(self) -> str:
        """The ledger's file name, as reports show it."""
        return "" if self.path is None else self.path.name

    @property
    def is_new(self) -> bool:
        """Whether the ledger is still to be made."""
        return self.path is not None and self.budget is not None and not self.path.exists()

    def check(self, epsilon: float) -> None:
        """Refuse a new ledger without a budget, or with one for less than this run, and a budget other than kept."""
        budget = setting("budget")
        if self.path is None:
            if self.budget is not None:
                raise InputError(f"{budget} is for a new ledger. Name its file with {setting('ledger', 'FILE')}.")
            return
        if self.budget is None:
            if not self.path.exists():
                raise InputError(
                    f"{self.path} does not exist yet. To start it, state the most epsilon that these data may "
                    f"ever spend, at the same delta: {budget}."
                )
            return
        if self.path.exists():
            with open_for_reading(self.path) as book:
                kept = book.budget.epsilon
            if kept != self.budget:
                raise InputError(
                    f"{self.path} already has a budget, epsilon {kept:g}. Leave out {budget}, or change it with "
                    "`dpadmm ledger budget`."
                )
        elif checks.positive("budget", self.budget) < epsilon:
            raise InputError(
                f"{setting('budget', self.budget)} is less than this run's {setting('epsilon', epsilon)}. Nothing "
                "was written or spent. State the most that these data may ever spend, including this run."
            )

    @contextmanager
    def open(
        self, data: Sequence[SiloColumns], delta: float, protection: Protection
    ) -> Iterator[ConfirmedLedger | None]:
        """Yield the ledger, found to be that of these data; a new one is created first."""
        if self.path is None:
            yield None
            return
        if self.is_new:  # one that another process has made since is opened as any other
            budget = Budget(epsilon=self.budget or 0.0, delta=delta)
            Ledger.create(self.path, data, budget, protection=protection).close()
        with Ledger.open(self.path) as ledger:
            confirmed = ledger.confirm(data)
            confirmed.check_protection(protection)
            yield confirmed


def method_name(method: Any) -> str | None:
    """Return the registry's name of the method, None where the planner chooses."""
    if isinstance(method, str) and method == _AUTO:
        return None
    known = plannable()
    if isinstance(method, str) and method in by_name() and method not in known:
        raise InputError(
            f"{setting('method', method)} cannot be planned: it adds no noise, or needs settings that public "
            "facts do not determine. Run it from Python with dpadmm.run, or choose 'auto' or one of "
            f"{', '.join(known)}."
        )
    if not isinstance(method, str) or method not in known:
        meant = nearest(method, known)
        raise InputError(
            f"{setting('method')} must be 'auto' or one of {', '.join(known)}, got {shown(method)}.{meant}"
        )
    return method


def problems_of(word: Any, method: Any, n_classes: int) -> int | None:
    """Return how many models share the budget: one of two classes, or by softmax (C13), else one for each class.

    None lets the planner choose: "auto", where the method is certified for softmax.
    """
    if word not in _SEVERAL:
        raise InputError(
            f"{setting('multi_class')} must be one of {', '.join(map(repr, _SEVERAL))}, got {shown(word)}."
        )
    name = method_name(method)
    is_certified = name is None or by_name()[name].about.takes_softmax
    if word == "softmax" and not is_certified:
        fit = ", ".join(known for known, kind in plannable().items() if kind.about.takes_softmax)
        raise InputError(
            f"{setting('method', name)} is not certified for softmax, one model of all classes. Use "
            f"{setting('multi_class', 'one-vs-rest')}, or one of {fit}."
        )
    if n_classes <= 2:
        return 1
    if word == "one-vs-rest" or not is_certified:
        return n_classes
    return None if word == _AUTO else 1


def class_weights_of(class_weight: Any, method: Any) -> dict[Any, float] | None:
    """Return the public weights of classes, None where all count the same; classes that are not named count 1."""
    if class_weight is None:
        return None
    if not isinstance(class_weight, Mapping) or not class_weight:
        raise InputError(
            f"class_weight must be None or {{class: weight}} with public numbers, got {shown(class_weight)}. How often "
            "classes occur is private: state weights, or frequencies you know without these data."
        )
    name = method_name(method)
    if name is not None and Family.SAMPLED in by_name()[name].about.noise:
        raise InputError(
            f"{setting('method', name)} draws batches in which all rows have the same weight. Leave out "
            f"{setting('class_weight')}."
        )
    return checked(class_weight)


def check_class_weight(aim: Aim, class_weight: Any) -> None:
    """Refuse weights where coefficients are to be those of the population, with intervals (C14)."""
    if aim.wants_intervals and class_weight is not None:
        raise InputError(
            f"{setting('aim', aim.value)} tells coefficients of the population as it is, but "
            f"{setting('class_weight')} changes how much its classes count. Leave one out."
        )


def network_of(topology: Any, n_silos: int) -> Network | None:
    """Return the network that a word, a `Network` or a networkx graph names; None where the planner chooses."""
    if topology is None or (isinstance(topology, str) and topology == _AUTO):
        return None
    if isinstance(topology, str):
        if topology not in _TOPOLOGIES:
            known = ["auto", *_TOPOLOGIES]
            raise InputError(
                f"{setting('topology')} must be {', '.join(map(repr, known))} or a graph, got {shown(topology)}."
                f"{nearest(topology, known)}"
            )
        if n_silos < 2:
            raise InputError(
                f"{setting('topology', topology)} needs at least 2 silos, got 1. Name the silo of every record with "
                f"{setting('groups')}, or leave it out."
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
        raise InputError(f"{setting('l1_ratio')} must lie between 0 (ridge) and 1 (lasso), got {shown(l1_ratio)}.")
    if alpha is None:
        if ratio > 0:
            raise InputError(
                f"{setting('l1_ratio')} needs {setting('alpha')}, the weight of the penalty, which is public. Give "
                "one above 0."
            )
        return None
    weight = checks.non_negative("alpha", alpha)
    return ElasticNet(l1=weight * ratio, l2=weight * (1 - ratio))


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


def check_fit_arguments(others: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
    """Refuse further arguments of fit, and say what to do instead of weighting rows."""
    if others.get("sample_weight") is not None:
        has_classes = any(name.endswith("class_weight") for name in parameters)  # also those of a search's estimator
        advice = ", or use class_weight={class: weight} where classes should count differently" if has_classes else ""
        raise InputError(
            "sample_weight is not supported: the noise is certified for records that count the same"
            f"{', or by public weights of their classes' if has_classes else ''}. Leave it out{advice}. Nothing was "
            "spent."
        )
    unknown = [name for name in others if name != "sample_weight"]
    if unknown:
        raise TypeError(f"fit() got an unexpected keyword argument {unknown[0]!r}")
