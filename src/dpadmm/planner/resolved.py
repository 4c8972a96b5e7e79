"""What a fit is asked for, as checked values: the one place where settings of commands and estimators become types.

Everything here is done before data are looked at.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, Self

import numpy as np

from dpadmm import checks
from dpadmm.checks import option_name, safe_repr
from dpadmm.core.budget import ReusedProfile
from dpadmm.core.dataset import Dataset
from dpadmm.core.task import AUTO, INFERENCE_LOSS, Aim, ProfileRule, TableShape, Task, nominal_sizes
from dpadmm.data.columns import Label, RealLabel
from dpadmm.data.profile import ProfileForm
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError
from dpadmm.methods.base import by_name, plannable
from dpadmm.networks.graph import Network, complete, path, ring, star
from dpadmm.noise.mechanisms import Family
from dpadmm.noise.sampler import Sampler, SecureSampler, SimulatedSampler
from dpadmm.planner.planner import Plan
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import ONE_RECORD, NeighbouringRelation, Protection, Unit, View, relation_of
from dpadmm.problems.losses import AnyLoss, Huber, Logistic, Loss, Poisson, SmoothedHinge, Softmax
from dpadmm.problems.regularisers import ElasticNet, Regulariser
from dpadmm.settings import CellRules, FitSettings, TrainingOptions

_TOPOLOGIES = {"complete": complete, "path": path, "ring": ring, "star": star}
_AUTO = "auto"
REAL_LOSSES = ("huber", "poisson")
"""The losses of a number."""

_LOSSES: dict[str, Loss] = {"svm": SmoothedHinge(), "huber": Huber(0.5)}
_NOT_WITH = {"svm": ("slope_cap",)} | dict.fromkeys(REAL_LOSSES, ("slope_cap", "multi_class"))


def nominal_number(relation: NeighbouringRelation, nominal_records: Any) -> int | None:
    """Return the nominal number of records, which add-remove neighbours need and others do not take."""
    if relation.has_public_sizes:
        if nominal_records is not None:
            raise InputError(
                f"{option_name('nominal_records')} replaces a secret number of records, but with replace-one "
                f"neighbours that number is public. Leave it out, or use {option_name('neighbours', 'add-remove')}."
            )
        return None
    if nominal_records is None:
        raise InputError(
            f"add-remove neighbours keep the number of records secret, so {option_name('nominal_records')} must be "
            "given: a public number of about that size, known without counting the records. It determines "
            "weights, steps and noise."
        )
    return int(nominal_records)


def unit_of(unit: Any, *, has_persons: bool) -> Any:
    """Return the unit that is asked for: a person, where the person of each row is known."""
    if not has_persons:
        return unit
    if unit is not None and not (isinstance(unit, str) and unit == Unit.PERSON.value):
        raise InputError(
            f"{option_name('persons')} protects a person with all their rows, but {option_name('unit')} "
            f"{safe_repr(unit)} "
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
    """Return the protection that names and numbers describe; None stands for the usual one, which is the ledger's."""
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


def method_name(method: Any) -> str | None:
    """Return the registry's name of the method, None where the planner chooses."""
    if isinstance(method, str) and method == _AUTO:
        return None
    known = plannable()
    if isinstance(method, str) and method in by_name() and method not in known:
        raise InputError(
            f"{option_name('method', method)} cannot be planned: it adds no noise, or needs settings that public "
            "facts do not determine. Run it from Python with dpadmm.run, or choose 'auto' or one of "
            f"{', '.join(known)}.",
            setting="method",
            code="value",
        )
    checks.one_of("method", method, [_AUTO, *known])
    return str(method)


def network_of(topology: Any, n_silos: int) -> Network | None:
    """Return the network that a choice, a `Network` or a networkx graph names; None where the planner chooses."""
    if topology is None or (isinstance(topology, str) and topology == _AUTO):
        return None
    if isinstance(topology, str):
        checks.one_of("topology", topology, [_AUTO, *_TOPOLOGIES])
        if n_silos < 2:
            raise InputError(
                f"{option_name('topology', topology)} needs at least 2 silos, got 1. Name the silo of every "
                "record with "
                f"{option_name('groups')}, or leave it out."
            )
        return _TOPOLOGIES[topology](n_silos)
    if isinstance(topology, Network):
        return topology
    try:
        return Network.from_graph(topology)
    except InputError as problem:
        raise InputError(f"topology: {problem}") from problem


def penalty_of(alpha: float | None, l1_ratio: float) -> Regulariser | None:
    """Return `alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2)`; None where the planner chooses."""
    if alpha is None:
        if l1_ratio > 0:
            raise InputError(
                f"{option_name('l1_ratio')} needs {option_name('alpha')}, the weight of the penalty, which is "
                "public. Give "
                "one above 0."
            )
        return None
    return ElasticNet(l1=alpha * l1_ratio, l2=alpha * (1 - l1_ratio))


def seed_of(random_state: Any) -> int | None:
    """Return the seed of simulated noise, None for a release."""
    if random_state is None:
        return None
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, bool) or not isinstance(random_state, Integral) or int(random_state) < 0:
        checks.refuse("random_state", "be None (a release), a whole number >= 0 or a numpy RandomState", random_state)
    return int(random_state)


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


@dataclass(frozen=True, kw_only=True)
class ResolvedSettings:
    """Settings as types, all of them public: what fits, plans and evaluations are made from.

    nominal_records: the number that stands for that of all records where this is secret, None where it is not.
    own_loss: an estimator's, of two classes or a number; None goes by the choice and the label.
    """

    settings: FitSettings
    protection: Protection = ONE_RECORD
    method: str | None = None
    penalty: Regulariser | None = None
    profile: ProfileRule = AUTO
    nominal_records: int | None = None
    aim: Aim = Aim.PREDICTION
    screening: CellRules = field(default=CellRules())
    own_loss: Loss | Poisson | None = None

    @classmethod
    def of(
        cls,
        settings: FitSettings,
        usual: Protection = ONE_RECORD,
        *,
        has_persons: bool = False,
        own_loss: Loss | Poisson | None = None,
    ) -> Self:
        """Check settings against each other; what is not stated about people and observers is as `usual`.

        has_persons: the person of each row is known, so that persons are protected.
        """
        privacy, training = settings.privacy, settings.training
        protection = protection_from(
            usual,
            unit_of(privacy.unit, has_persons=has_persons),
            settings.view,
            privacy.records_per_person,
            privacy.silos_per_person,
            privacy.colluders,
            privacy.neighbours,
        )
        aim, method = checks.member("aim", settings.aim, Aim), method_name(settings.method)
        if training.wanted and aim is not Aim.INFERENCE:
            raise InputError(
                f"{option_name('wanted')} names coefficients that must get an interval, which are for "
                f"{option_name('aim', 'inference')}. Add that, or leave it out.",
                setting="wanted",
                code="combination",
            )
        if isinstance(training.topology, str):
            checks.one_of("topology", training.topology, [_AUTO, *_TOPOLOGIES])
        if settings.class_weight is not None:
            _check_class_weight(method)
        made = cls(
            settings=settings,
            protection=protection,
            method=method,
            penalty=penalty_of(settings.alpha, training.l1_ratio),
            profile=ProfileRule(training.profile == "auto", training.profile_share),
            nominal_records=nominal_number(protection.relation, privacy.nominal_records),
            aim=aim,
            screening=settings.cells,
            own_loss=own_loss,
        )
        made.n_models(2)  # refuses a method that does not fit
        return made

    @property
    def target(self) -> Target:
        """The whole budget of the run."""
        return Target(self.settings.epsilon, self.settings.delta)

    @property
    def training(self) -> TrainingOptions:
        """What is fitted and how."""
        return self.settings.training

    @property
    def is_simulated(self) -> bool:
        """Whether the noise comes from a seed."""
        return self.settings.seed is not None

    @property
    def sampler(self) -> Sampler:
        """The source of noise."""
        return SecureSampler() if self.settings.seed is None else SimulatedSampler(self.settings.seed)

    def public_rows(self, rows: Dataset) -> Dataset:
        """Return the rows with their public sizes: where the true ones are secret, nominal ones."""
        is_for_coefficients = self.aim is Aim.INFERENCE
        is_scaled = is_for_coefficients and self.loss(rows.n_classes, rows.schema.label) == INFERENCE_LOSS
        if is_scaled and any(part.labels is None for part in rows.rows):
            raise InputError(
                f"{option_name('aim', 'inference')} for a number needs rows in memory, and these are read in passes. "
                f"Use {option_name('stream', False)}. Nothing was spent."
            )
        rows = replace(rows, for_coefficients=is_for_coefficients, scales_target=is_scaled)
        if self.nominal_records is None:
            return rows
        return replace(rows, nominal=nominal_sizes(self.nominal_records, len(rows.rows)))

    def n_models(self, n_classes: int) -> int | None:
        """Return how many models share the budget: one of two classes, or by softmax (C13), else one for each class.

        None lets the planner choose: "auto", where the method is certified for softmax.
        """
        choice, is_svm = self.training.multi_class, self.training.loss == "svm"
        is_certified = self.method is None or by_name()[self.method].about.takes_softmax
        if choice == "softmax" and not is_certified:
            fit = ", ".join(known for known, kind in plannable().items() if kind.about.takes_softmax)
            raise InputError(
                f"{option_name('method', self.method)} is not certified for softmax, one model of all classes. Use "
                f"{option_name('multi_class', 'one-vs-rest')}, or one of {fit}."
            )
        if n_classes < 3:
            return 1
        if choice == "softmax" and is_svm:
            raise InputError(
                f"{option_name('multi_class', 'softmax')} is for {option_name('loss', 'logistic')}; svm trains "
                "one model "
                "per class. Leave one out."
            )
        if choice == "one-vs-rest" or is_svm or not is_certified:
            return n_classes
        return None if choice == _AUTO else 1

    def loss(self, n_classes: int, label: Label | None = None) -> AnyLoss:
        """Return the loss of so many classes, 0 for a number. label: of the schema; only counts need it."""
        choice, is_real = self.training.loss, n_classes == 0
        if choice == "auto":
            choice = "huber" if is_real else "logistic"
        if (choice in REAL_LOSSES) is not is_real:
            kind, fitting = (
                ("a number", "huber or poisson") if is_real else ("classes", "logistic or svm, or a label with bounds")
            )
            raise InputError(
                f"{option_name('loss', choice)} does not fit: the schema's label has {kind}. Use {fitting}."
            )
        strange = self.training.stated(*_NOT_WITH.get(choice, ()))
        if strange:
            raise InputError(f"{option_name(strange[0])} does not go with {option_name('loss', choice)}. Leave it out.")
        if choice == "poisson":
            return _loss_of_counts(label)
        cap = 1.0 if self.training.slope_cap is None else self.training.slope_cap
        if is_real and self.aim is Aim.INFERENCE:
            if self.own_loss not in (None, _LOSSES["huber"]):
                raise InputError(
                    f"huber_threshold does not go with {option_name('aim', 'inference')}, where residuals are clipped "
                    "at three deviations of the target. Leave it out.",
                    setting="aim",
                    code="combination",
                )
            return INFERENCE_LOSS
        if n_classes < 3 or (self.n_models(n_classes) or 1) > 1:
            return self.own_loss or _LOSSES.get(choice) or Logistic(cap)
        return Softmax(n_classes, cap)

    def with_choices_of(self, made: Plan, n_classes: int) -> Self:
        """Return the settings for plans at other budgets and sizes: where the planner chose, as it has in this plan."""
        if self.n_models(n_classes) is not None:
            return self
        chosen = replace(self.training, multi_class="softmax" if made.run.n_models == 1 else "one-vs-rest")
        return replace(self, settings=replace(self.settings, training=chosen))

    def table_task(self, sizes: tuple[int, ...], schema: Schema) -> Task:
        """Return the task for silos of these sizes with tables of this schema."""
        loss = self.loss(len(schema.label.classes), schema.label)
        target = schema.target_columns if loss == INFERENCE_LOSS and self.aim is Aim.INFERENCE else ()
        form = ProfileForm((*schema.columns, *target))
        return self.task(loss, sizes, schema.dimension, row_norm=schema.row_norm, form=form)

    def task_of(self, rows: Dataset, earlier: ReusedProfile | None) -> Task:
        """Return the task for these rows, from their public sizes."""
        loss, schema = self.loss(rows.n_classes, rows.schema.label), rows.schema
        return self.task(loss, rows.sizes, schema.dimension, row_norm=schema.row_norm, form=rows.form, earlier=earlier)

    def task(
        self,
        loss: AnyLoss,
        sizes: tuple[int, ...],
        dimension: int,
        *,
        row_norm: float = 1.0,
        form: ProfileForm | None = None,
        earlier: ReusedProfile | None = None,
    ) -> Task:
        """Return what a plan is made from: public facts about rows, and what is asked for."""
        training, known = self.training, None if earlier is None else earlier.counts
        n_targets = int(loss == INFERENCE_LOSS and self.aim is Aim.INFERENCE)
        return Task(
            sizes=sizes,
            dimension=dimension,
            loss=loss,
            target=self.target,
            protection=self.protection,
            network=network_of(training.topology, len(sizes)),
            regulariser=self.penalty,
            row_norm=row_norm,
            table=None if form is None else TableShape.of(form, known, n_targets),
            profile=self.profile if earlier is None else self.profile.with_earlier(earlier.counts.run, earlier.m),
            aim=self.aim,
            prevalence=training.prevalence,
            expected_auc=training.expected_auc,
            expected_r2=training.expected_r2,
        )


def _loss_of_counts(label: Label | None) -> Poisson:
    """Return the loss of counts within the label's public bounds."""
    if not isinstance(label, RealLabel) or label.lower != 0 or not label.upper.is_integer():
        raise InputError(
            f"{option_name('loss', 'poisson')} needs the public bounds of the counts, (0, ceiling) with a whole "
            "ceiling: state them as the label of a schema. Counts above the ceiling count as the ceiling.",
            setting="loss",
            code="combination",
        )
    return Poisson(int(label.upper))


def _check_class_weight(method: str | None) -> None:
    """Refuse weights where batches draw all rows alike."""
    if method is not None and Family.SAMPLED in by_name()[method].about.noise:
        raise InputError(
            f"{option_name('method', method)} draws batches in which all rows have the same weight. Leave out "
            f"{option_name('class_weight')}."
        )
