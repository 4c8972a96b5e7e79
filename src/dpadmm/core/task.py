"""What a plan is made from: public facts about the silos, the loss and the budget. No record is among them."""

from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from dpadmm import checks
from dpadmm.checks import option_name, safe_repr
from dpadmm.data.profile import CategoryBins, ProfileForm, ReleasedProfile
from dpadmm.errors import InputError
from dpadmm.networks.graph import Network
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import ONE_RECORD, Protection, Unit, View
from dpadmm.problems.losses import AnyLoss, Huber, LabelKind, Logistic, Poisson, Softmax, loss_kind
from dpadmm.problems.problem import CountRisk, EmpiricalRisk, PublicFunctions, SoftmaxRisk, risk_of
from dpadmm.problems.regularisers import Regulariser
from dpadmm.problems.silos import ROW_NORM_SLACK, Silos
from dpadmm.problems.streams import SiloStream, StreamedRisk

_LEAST = 1e-100
_USUAL_BINS = 21  # of a column of numbers


INFERENCE_LOSS = Huber(3.0)
"""What linear regressions with intervals fit to a number in units of its deviation: squares, residuals clipped at 3."""


class Aim(Enum):
    """To predict as well as noise allows, or to estimate coefficients with confidence intervals (C14)."""

    PREDICTION = "prediction"
    INFERENCE = "inference"


@dataclass(frozen=True)
class TableShape:
    """Public facts about a table that is encoded as the plan says.

    n_numeric: columns of numbers. categories: how many each categorical column has. counts: bins of a profile in all.
    n_targets: numbers to predict that a profile counts beside the columns, 0 or 1.
    shares: of the records in each of these categories, by a profile that was released before; none without one.
    """

    n_numeric: int
    categories: tuple[int, ...] = ()
    counts: int = 0
    shares: tuple[tuple[float, ...], ...] = field(default=(), repr=False)
    n_targets: int = 0

    def __post_init__(self) -> None:
        """Refuse a table without columns."""
        if checks.count("n_numeric", self.n_numeric, least=0) + len(self.categories) == 0:
            raise InputError("A table needs at least one column, got none.")
        object.__setattr__(self, "categories", tuple(checks.count("categories", k) for k in self.categories))
        if not self.counts:  # as many as usual columns have
            numbers = self.n_numeric + self.n_targets
            object.__setattr__(self, "counts", _USUAL_BINS * numbers + sum(k + 1 for k in self.categories))

    @classmethod
    def of(cls, form: ProfileForm, profile: ReleasedProfile | None = None, n_targets: int = 0) -> "TableShape":
        """Return the shape of a table with these public columns; profile: of them, if it was released before."""
        categories = tuple(b.n_categories for b in form.bins if isinstance(b, CategoryBins))
        scales = () if profile is None else profile.scales(form.columns)
        shares = tuple(scale.centre for scale, b in zip(scales, form.bins, strict=False) if isinstance(b, CategoryBins))
        return cls(form.n_numeric - n_targets, categories, form.size, shares, n_targets)


@dataclass(frozen=True)
class ProfileRule:
    """Whether a column profile may be released before training, for how much, or whether there is one already.

    share: part of the squared budget m^2, in (0, 1); None leaves it to the planner, which may do without.
    earlier_run: name of the run that released the one there is, at no further cost; None where there is none.
    earlier_m: what that one cost, as m of C0. A model reveals what its profile reveals, so of the budget asked for only
        what is left beside that is spent on training; the ledger is charged for the training alone.
    """

    is_wanted: bool = True
    share: float | None = None
    earlier_run: str | None = None
    earlier_m: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a share of nothing."""
        if self.share is not None:
            checks.open_unit("profile_share", self.share)
            if not self.is_wanted:
                raise InputError(
                    f"{option_name('profile_share')} is for {option_name('profile', 'auto')}; otherwise nothing "
                    "is spent on a "
                    "column profile. Leave one out.",
                    setting="profile_share",
                    code="combination",
                )

    def with_earlier(self, run: str, m: float) -> "ProfileRule":
        """Return the rule where this run has released a profile already, for m of C0."""
        return replace(self, earlier_run=run, earlier_m=m)


AUTO = ProfileRule()
"""The planner decides."""


@dataclass(frozen=True)
class Task:
    """The public facts of a training task.

    Parameters
    ----------
    sizes: records per silo, or persons where these are protected with all their rows, each at least 1; nominal ones
        where records are added or removed (`nominal_sizes`).
    dimension: d, at least 1 (an intercept column counts).
    loss: a loss with a bounded slope (`Logistic`, `Huber`, `SmoothedHinge`; `Softmax` for more than two classes, with d
        coefficients each).
    target: the whole budget (epsilon, delta). protection: who is protected from whom; not the unit of functions.
    network: who talks to whom; None lets the planner choose (a complete graph of peers, or a coordinator).
    regulariser: the user's own penalty, kept as it is; None lets the planner add a small ridge.
    row_norm: the public bound on a record's features.
    table: its columns, where the plan decides how they are encoded; None where that is settled.
    profile: whether columns may be counted before training, with noise.
    prevalence: the share of +1 (the positive class) in (0, 1), if it is public; forecasts are then for it.
    expected_auc: the AUC on new records that a model without privacy is thought to reach, in (0.5, 1), from earlier
        studies or public data; of several classes the mean of one against the rest. Forecasts are then for it, else for
        weak, moderate and strong signals (0.65, 0.8, 0.95). expected_r2: the same for numbers, in (0, 1): their R^2.
    aim: to predict, or to estimate coefficients with intervals (C14).

    >>> from dpadmm.problems.losses import Logistic
    >>> task = Task(sizes=(300, 200), dimension=10, loss=Logistic(), target=Target(1.0, 1e-5))
    >>> task.n_records, task.n_silos, task.functions().constants.record_gradient
    (500, 2, 1.0)
    """

    sizes: tuple[int, ...]
    dimension: int
    loss: AnyLoss
    target: Target
    protection: Protection = ONE_RECORD
    network: Network | None = None
    regulariser: Regulariser | None = None
    row_norm: float = 1.0
    table: TableShape | None = None
    profile: ProfileRule = AUTO
    prevalence: float | None = None
    expected_auc: float | None = None
    expected_r2: float | None = None
    aim: Aim = Aim.PREDICTION
    n_silos: int = field(init=False, repr=False, compare=False)
    n_records: int = field(init=False, repr=False, compare=False)
    n_classes: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check every fact; `sizes` may be any list of whole numbers."""
        try:
            sizes = tuple(self.sizes)
        except TypeError as problem:
            raise InputError(f"sizes must list the records of each silo, got {safe_repr(self.sizes)}.") from problem
        if not sizes:
            raise InputError("sizes must name at least one silo, got none.")
        object.__setattr__(self, "sizes", tuple(checks.count("every size", size) for size in sizes))
        object.__setattr__(self, "n_silos", len(sizes))
        object.__setattr__(self, "n_records", sum(self.sizes))
        if isinstance(self.loss, type) or not hasattr(self.loss, "slope_bound"):
            checks.refuse("loss", "be a loss such as Logistic()", self.loss)
        if self.regulariser is not None and not hasattr(self.regulariser, "prox"):
            checks.refuse("regulariser", "be a regulariser such as ElasticNet(l2=0.01)", self.regulariser)
        object.__setattr__(self, "n_classes", self.loss.n_classes if isinstance(self.loss, Softmax) else 1)
        checks.count("dimension", self.dimension)
        _moderate("row_norm", self.row_norm)
        if not np.isfinite(self.loss.slope_bound):
            raise InputError(
                f"{type(self.loss).__name__} has no bounded slope, so no guarantee exists. Use Huber(threshold) for "
                "regression, Logistic() or SmoothedHinge() for classification."
            )
        _moderate("the loss's slope", self.loss.slope_bound)
        if not np.isfinite(self.loss.curvature_bound):
            raise InputError(f"{self.loss} has corners, so no step can be planned. Give it a width, or state rounds.")
        self._check_protection()
        if self.aim is Aim.INFERENCE:
            self._check_inference()
        if self.prevalence is not None and self.loss.target is not LabelKind.SIGNS:
            raise InputError(
                "prevalence is the share of one of two classes, but the target is a number or has more classes. "
                "Leave it out.",
                setting="prevalence",
                code="combination",
            )
        is_real = self.loss.target is LabelKind.REALS
        stated, other = ("expected_r2", "expected_auc") if is_real else ("expected_auc", "expected_r2")
        if getattr(self, other) is not None:
            raise InputError(
                f"{option_name(other)} is for {'classes' if is_real else 'numbers'}, but the target is a "
                f"{'number' if is_real else 'class'}. Give {option_name(stated)} instead.",
                setting=other,
                code="combination",
            )

    def _check_protection(self) -> None:
        """Refuse who cannot be protected, a graph of other silos, and what is not certified for added records."""
        hidden, network = self.protection, self.network
        hidden.check_silos(self.n_silos)
        if hidden.unit is Unit.FUNCTION:
            raise InputError("unit must be record, person or user; the function unit is for the consensus methods.")
        if network is not None and network.n_agents != self.n_silos:
            raise InputError(f"The network has {network.n_agents} agents, but there are {self.n_silos} silos.")
        if hidden.relation.has_public_sizes:
            return
        if hidden.unit is Unit.USER:
            raise InputError("add-remove neighbours are certified for records, not for users. Use unit 'record'.")
        if self.n_silos > 1 and hidden.view not in (View.PUBLIC, View.AGGREGATE):
            raise InputError(
                "add-remove neighbours among several silos are certified only where one noise covers the sum of "
                f"all silos: use the view 'aggregate' or 'public', got {hidden.view.value!r}."
            )
        if network is not None:
            raise InputError(
                "add-remove neighbours are certified for sums, not for messages over a graph of silos. Leave out the "
                "network."
            )

    def _check_inference(self) -> None:
        """Refuse what no intervals are proved or tested for (C14)."""
        for is_wrong, why in (
            (
                self.loss not in (Logistic(), INFERENCE_LOSS) and not isinstance(self.loss, Poisson),
                "gives intervals for the plain logistic regression of two classes and regressions of a number or "
                f"count, not for a {'capped ' * isinstance(self.loss, Logistic)}{loss_kind(self.loss)}. Several "
                "classes have a curvature of other matrices, for which no bound is proved (C13): fit two of them. "
                "Leave out a loss or a cap, or use aim='prediction'.",
            ),
            (
                self.regulariser is not None,
                f"is about coefficients without a penalty. Leave out {option_name('alpha')}; the planner adds a small "
                "ridge, whose effect is taken off again.",
            ),
            (
                self.protection.unit is Unit.PERSON and isinstance(self.loss, Poisson),
                "takes counts for independent of each other, which several rows of one person are not. Use the unit "
                "'record' with one row per person.",
            ),
            (
                self.protection.unit is Unit.USER,
                "takes persons for independent of each other and needs many of them in every silo, not one user. Use "
                "the unit 'record', or 'person' where a person has several rows.",
            ),
            (
                self.network is not None,
                "needs sums over all silos, not messages over a graph. Leave out the network.",
            ),
        ):
            if is_wrong:
                raise InputError(f"{option_name('aim', 'inference')} {why}", setting="aim", code="combination")

    def functions(self, mu: float = 0.0) -> PublicFunctions:
        """Return the silos' functions as far as they are public: sizes and constants, no values."""
        sizes = np.array(self.sizes, dtype=np.int64)
        return PublicFunctions.of_loss(sizes, self.dimension, self.loss, self.row_norm, mu)

    def risk(self, silos: Silos | SiloStream, mu: float) -> EmpiricalRisk | SoftmaxRisk | CountRisk | StreamedRisk:
        """Return the functions of these silos; refuse silos that are not the task's."""
        if not self.protection.relation.has_public_sizes and silos.n_agents == self.n_silos:
            silos = silos.with_nominal(self.sizes)  # how many rows there are decides nothing
        sizes = tuple(silos.sizes.tolist())
        if sizes != self.sizes:
            found = f"{sizes}" if self.protection.relation.has_public_sizes else f"{silos.n_agents} silos"
            raise InputError(f"The plan is for silos of {self.sizes} records, got {found}. Plan again.")
        if silos.dimension != self.dimension:
            raise InputError(f"The plan is for dimension {self.dimension}, got {silos.dimension}. Plan again.")
        if silos.row_norm > self.row_norm * (1 + ROW_NORM_SLACK):
            raise InputError(
                f"The plan is for rows of norm {self.row_norm:g}, the silos allow {silos.row_norm:g}. Plan again."
            )
        return risk_of(silos, self.loss, mu)


def nominal_sizes(n_records: int, n_silos: int) -> tuple[int, ...]:
    """Return the nominal sizes of silos whose true ones are secret: one public number, split evenly.

    >>> nominal_sizes(1000, 3)
    (334, 333, 333)
    """
    if checks.count("nominal_records", n_records) < n_silos:
        raise InputError(f"nominal_records must be at least the {n_silos} silos there are, got {n_records}.")
    return tuple(n_records // n_silos + (i < n_records % n_silos) for i in range(n_silos))


def _moderate(name: str, value: float) -> None:
    """Refuse numbers whose squares 64-bit numbers cannot hold: they would fail in a run that is paid for."""
    if not _LEAST <= checks.positive(name, value) <= 1 / _LEAST:
        raise InputError(
            f"{name} must be between {_LEAST:g} and {1 / _LEAST:g}, got {safe_repr(value)}. Rescale the problem."
        )
