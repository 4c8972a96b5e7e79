"""The product of a private training: a model that predicts, its guarantee, and every public fact about both.

Every field is a public fact (sizes, bounds, the plan), a part of the release (coefficients, messages and what follows
from them) or an accounted figure. Nothing here is computed from records in any other way, so a model and its report may
be handed out under the guarantee they state. What is done with a model is in `models`, `inference`, `report`, `export`.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpadmm.codec import encode
from dpadmm.core.task import Aim
from dpadmm.data.encoding import RowEncoding
from dpadmm.data.profile import ReleasedProfile
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError
from dpadmm.methods.base import Topology
from dpadmm.models.measurement import Measurement
from dpadmm.noise.sampler import family_of
from dpadmm.planner.forecast import Forecast
from dpadmm.planner.utility import UtilityPoint
from dpadmm.privacy.accounting import Account, CollusionEpsilon, SiloCost
from dpadmm.privacy.ledger import Spending
from dpadmm.privacy.protection import Protection, Strength, covers, standing
from dpadmm.privacy.releases import NoisyRelease, Origin, Release, SummedGaussianRelease
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import LabelKind, Logistic, ReleasedLoss, Softmax, loss_description
from dpadmm.queries.curvature import CurvatureFacts
from dpadmm.settings import CellRules

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from dpadmm.inference.intervals import CoefficientTable

Place: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True)
class ProfileCost:
    """What the column profile behind a model costs, all of it a part of the model's certified figure.

    columns: how many were counted. epsilon: by themselves. earlier_run: the one that released and paid for them, None
    if it was the model's own. run_epsilon: what the model's own run has spent.
    """

    columns: int
    epsilon: float
    run_epsilon: float
    earlier_run: str | None = None


@dataclass(frozen=True, kw_only=True)
class SearchCost:
    """How settings were chosen among candidates, and what that costs, all of it a part of the certified figure.

    candidates: described, all of them public. trained: how many of them were, each with its share of the budget.
    chosen: the one that was kept. epsilon: of the noisy scores by themselves; None where simulations alone decided.
    """

    candidates: tuple[str, ...]
    trained: int
    chosen: str
    epsilon: float | None

    @property
    def subject(self) -> str:
        """What a statement covers: with the model also the choice, where records decided it."""
        return "the model" if self.epsilon is None else "the model and the choice of its settings"


@dataclass(frozen=True, kw_only=True)
class NoiseSummary:
    """The noise of all releases together: its family, the least and greatest scale, and how many values got it.

    silos: how many add a share each, where values are sums (C12); the scales are those of the sum. None elsewhere.
    """

    family: str
    least_scale: float
    greatest_scale: float
    releases: int
    silos: int | None = None

    @classmethod
    def of(cls, releases: Iterable[Release]) -> "NoiseSummary":
        """Return the summary of what releases promise."""
        given = list(releases)
        sums = [each for each in given if isinstance(each, SummedGaussianRelease)]
        scales = [each.total_std for each in sums] or [each.level for each in given if isinstance(each, NoisyRelease)]
        return cls(
            family=" and ".join(sorted({family_of(each).value for each in given})),
            least_scale=min(scales),
            greatest_scale=max(scales),
            releases=sum(each.count for each in given),
            silos=sums[0].silos if sums else None,
        )


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """A certified figure with everything it must name: for whom, against whom, under what, how far.

    epsilon: at `delta`, of all releases together. theorems: of the certificates it follows from.
    n_models: how many models share it (one per class where each is trained against the rest, else 1).
    origin: where the noise came from; the figures are about a release only if that was secure.
    profile: what the column profile behind a model costs, a part of epsilon; None without one.
    collusion: where only sums are seen, the epsilon if more silos collude than `protection` counts (C12).
    search: how settings were chosen among candidates, a part of epsilon; None where there was no choice.
    declared: the user's own parts on whose declared constants the figure rests: it is certified if these hold.
    """

    epsilon: float
    delta: float
    protection: Protection
    strength: Strength
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...]
    noise: NoiseSummary
    origin: Origin
    n_models: int = 1
    subject: str = "the model"
    profile: ProfileCost | None = None
    collusion: CollusionEpsilon | None = None
    search: SearchCost | None = None
    declared: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what nobody could be promised."""
        if not (self.epsilon >= 0 and 0 <= self.delta < 1):
            raise InputError("The guarantee is damaged: its epsilon or its delta is impossible.")

    @classmethod
    def of(
        cls,
        account: Account,
        releases: Iterable[Release],
        *,
        delta: float,
        origin: Origin,
        assumptions: Sequence[str] = (),
        **others: Any,
    ) -> "Guarantee":
        """Return what an account says at one delta; `assumptions` are made beyond its own."""
        return cls(
            epsilon=account.curve.epsilon(delta),
            delta=delta,
            protection=account.protection,
            strength=account.strength,
            theorems=tuple(account.theorems),
            assumptions=(*account.assumptions, *assumptions),
            noise=NoiseSummary.of(releases),
            origin=origin,
            collusion=CollusionEpsilon.of(account, delta),
            declared=tuple(account.declared),
            **others,
        )

    @property
    def standing(self) -> str:
        """Whether the figure is certified, up to what, and whether only if declared constants hold."""
        return standing(self.strength, self.declared)

    @property
    def is_private_release(self) -> bool:
        """Whether the result may leave under this guarantee: seeded noise protects nobody."""
        return self.origin is Origin.SECURE

    @property
    def covers(self) -> str:
        """What the figure is about, and what it cannot know: an estimator does not see what was done to its rows."""
        return covers(self.subject)

    def __str__(self) -> str:
        """Return the guarantee as a few lines of text."""
        from dpadmm.models.statement import guarantee_text

        return guarantee_text(self)


class DataLocation(Enum):
    """Who held the tables: one machine that read them all and simulated the silos, or each silo its own."""

    ONE_PLACE = "simulated in one place"
    FEDERATED = "federated"


@dataclass(frozen=True, kw_only=True)
class SiloFacts:
    """One holder of records; their number is public where neighbouring data sets have equally many, else nominal.

    cost: what the silo's own ledger was charged, where every silo keeps one (a federation).
    """

    name: str
    records: int
    cost: SiloCost | None = None


@dataclass(frozen=True, kw_only=True)
class MethodChoice:
    """Which method ran, how it was set and why, and what simulations on synthetic data showed before.

    topology: who talks to whom, on a graph the pairs in `edges`. settings: with their names, for readers.
    """

    method: str
    rounds: int
    topology: Topology
    edges: tuple[tuple[int, int], ...]
    settings: tuple[tuple[str, str], ...]
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    is_hopeless: bool
    expected: Forecast | None = None


@dataclass(frozen=True)
class ProcessingDetails:
    """Who answers for the processing and why it was done, as stated by whoever trained or reports."""

    purpose: str = ""
    controller: str = ""
    contact: str = ""


@dataclass(frozen=True, kw_only=True)
class RoundFacts:
    """What can be computed from the released messages of a round; of several kinds of messages, from the first.

    movement: how far the mean message is from that of the round before. average_movement: how far the mean of all
    messages so far moved. messages: how many there are. size: their mean norm, noise included; noise: the expected norm
    of the noise in one; bound: how far one unit can move it. These are None where only estimates are public.
    """

    round: int
    movement: float
    average_movement: float
    messages: int = 1
    size: float | None = None
    noise: float | None = None
    bound: float | None = None


@dataclass(frozen=True, kw_only=True)
class ReleasedModel:
    """A trained model with every public fact about it, whoever made it: an estimator, `dpadmm fit`, a federation.

    schema: what rows may hold. encoding: how they are encoded.
    coefficients: one number per encoded feature; for more than two classes one such vector per class, one after the
    other. profile: the noisy counts of the columns by which they are encoded, if any were released.
    loss: what was fitted, with all of its parameters; probabilities follow from it.
    aim: what it was fitted for. curvature: what intervals for the coefficients are made of, None without any (C14).
    about: who answers for the processing, for the report. budgets: what the planner expects at other budgets, where it
    was asked.
    """

    title: str
    created: str
    package: str
    run: str
    loss: ReleasedLoss
    coefficients: tuple[float, ...]
    schema: Schema
    encoding: RowEncoding
    silos: tuple[SiloFacts, ...]
    guarantee: Guarantee
    choice: MethodChoice
    history: tuple[RoundFacts, ...] = ()
    location: DataLocation = DataLocation.ONE_PLACE
    spending: Spending | None = None
    measurements: tuple[Measurement, ...] = ()
    profile: ReleasedProfile | None = None
    aim: Aim = Aim.PREDICTION
    curvature: CurvatureFacts | None = None
    about: ProcessingDetails = ProcessingDetails()
    budgets: tuple[UtilityPoint, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a loss that does not fit the label, and coefficients that do not fit the features."""
        label, loss = self.schema.label, self.loss
        fits = label.is_real is (loss.target is LabelKind.REALS)
        if isinstance(loss, Softmax):
            fits = not label.is_real and loss.n_classes == self.n_scores
        if not fits:
            raise InputError(f"The loss {self.loss_description} does not fit the label: the model is damaged.")
        if self.encoding.dimension != self.schema.dimension:
            raise InputError(
                f"Rows of {self.encoding.dimension} features for {self.schema.dimension}: the model is damaged."
            )
        wanted = self.n_scores * self.schema.dimension
        if len(self.coefficients) != wanted:
            raise InputError(f"{len(self.coefficients)} coefficients for {wanted} features: the model is damaged.")
        if self.curvature is not None and (len(self.curvature.point) != wanted or self.aim is not Aim.INFERENCE):
            raise InputError(f"A curvature of {len(self.curvature.point)} features for {wanted}: the model is damaged.")

    @property
    def loss_description(self) -> str:
        """What kind of model it is; the text follows from `loss` and is never read back."""
        return loss_description(self.loss)

    @property
    def records(self) -> int:
        """Number of records, or persons, of all silos together; nominal where the true one is secret."""
        return sum(silo.records for silo in self.silos)

    @property
    def n_scores(self) -> int:
        """Scores of a row, and vectors of coefficients: one, or one for each class if there are more than two."""
        return len(self.schema.label.classes) if len(self.schema.label.classes) > 2 else 1

    @cached_property
    def weights(self) -> Floats:
        """The coefficients of encoded features, (n_scores, d)."""
        return np.array(self.coefficients, dtype=np.float64).reshape(self.n_scores, self.schema.dimension)

    @cached_property
    def linked(self) -> Logistic | None:
        """The loss of one score that was fitted and knows what it says about probabilities; None if it has no link."""
        return self.loss if isinstance(self.loss, Logistic) else None

    @cached_property
    def softmax(self) -> Softmax | None:
        """The loss of a model that has one score for each class, all fitted together; None for others."""
        return self.loss if isinstance(self.loss, Softmax) else None

    @property
    def has_probabilities(self) -> bool:
        """Whether probabilities follow from scores, so that there is `predict_proba`."""
        return self.linked is not None or self.softmax is not None

    def decision_function(self, rows: Any, *, cells: CellRules | None = None) -> Floats:
        """Return the signed scores: (n,) for two classes, (n, classes) for more; awkward cells as in `predict`."""
        from dpadmm.models import predict

        if self.schema.label.is_real:
            raise InputError("A model that predicts a number has no decision function. Use predict.")
        scores = predict.score_rows(self, rows, screening=cells)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, rows: Any, *, threshold: float | None = None, cells: CellRules | None = None) -> NDArray[Any]:
        """Return the predicted classes, or numbers, with the names or units of the table.

        With a threshold, the second of two classes is predicted where its probability is above it; choosing one costs
        no privacy, as long as it is not chosen by looking at private records.
        cells: what to do about awkward cells, refused if left out; a blanked row has no prediction. The rules are not
        kept with the model: one made with `CellRules(missing="fill")` refuses empty cells here without them.
        """
        from dpadmm.models import predict

        return predict.predict_from_scores(self, predict.score_rows(self, rows, screening=cells), threshold)

    def predict_proba(self, rows: Any, *, cells: CellRules | None = None) -> Floats:
        """Return the probability of each class; one-vs-rest probabilities are scaled to sum to 1.

        Awkward cells as in `predict`.
        """
        from dpadmm.models import predict

        return predict.probabilities_from_scores(self, predict.score_rows(self, rows, screening=cells))

    def to_sklearn(self, *, cells: CellRules | None = None) -> "Pipeline":
        """Return the model as a plain scikit-learn pipeline, which is loaded and predicts without this package.

        Of `cells`, `missing` may be "error" or "fill", `unlisted` "error" or, with missing="fill", "zero". It takes
        numbers, and categories as they are listed; how else a cell may be written (see `dpadmm.data.cells`) stays
        behind.
        """
        from dpadmm.export.pipeline import plain_pipeline

        return plain_pipeline(self, cells or CellRules())

    def to_plain_json(self) -> str:
        """Return all that predictions take as JSON for readers in any language, see `docs/export.md`."""
        from dpadmm.export.plain_json import model_as_json

        return model_as_json(self)

    def __repr__(self) -> str:
        """Return title, method and cost; `print` shows the whole statement."""
        cost = f"epsilon {self.guarantee.epsilon:.4g} at delta {self.guarantee.delta:g}"
        return f"<ReleasedModel {self.title!r}: {self.choice.method}, {cost}>"

    def __str__(self) -> str:
        """Say who is protected from whom, and by how much."""
        return self.statement

    @property
    def statement(self) -> str:
        """Who is protected from whom, and by how much."""
        from dpadmm.models.statement import model_text

        return model_text(self)

    def summary(self, level: float = 0.95, reference: Mapping[str, str | int] | None = None) -> "CoefficientTable":
        """Return the coefficients in the units of the table, with confidence intervals where there are any (C14).

        Print it, or take its `frame()` or `records()`. level: of the intervals, in (0, 1); any number of tables may be
        made of one release. reference: {column: category to compare others with}, else the commonest.
        """
        from dpadmm.inference.summary import summary_of

        return summary_of(self, level, reference)

    def report(
        self,
        path: Place | None = None,
        *,
        spending: Spending | None = None,
        name: str | None = None,
        purpose: str = "",
        controller: str = "",
        contact: str = "",
        budgets: Sequence[UtilityPoint] = (),
    ) -> str:
        """Return the report as one HTML page, and write it to `path` if that is given.

        Parameters
        ----------
        spending: of the ledger now, see `spending_now`; without, as it was when the model was trained.
        name: the model's file, as the commands on the page name it; None if there is none.
        purpose, controller, contact: why the data were processed, who answers for it, and whom to ask. The page shows
            them as they are given; what is left out is as the model's file has it, or "not stated".
        budgets: what `dpadmm.planner.utility.utility_curve` expects of other budgets, to be shown beside this one;
            left out, those that the model's file has.
        """
        from dpadmm.report.page import write_report

        return write_report(self, path, spending, name, ProcessingDetails(purpose, controller, contact), budgets)

    @property
    def digest(self) -> str:
        """SHA-256 of every fact and coefficient, as its JSON file states it."""
        from dpadmm.models.files import digest_of

        return digest_of(encode(self))

    def verify(self, *, digest: str | None = None, ledger: Place | None = None) -> None:
        """Refuse a model that is not what it should be; `load` has found the digest of its file to be right.

        Parameters
        ----------
        digest: what `digest` was when the model was made, as somebody you trust states it.
        ledger: path of the ledger that it was trained with: refuses one that does not know this training.
        """
        if digest is not None and digest != self.digest:
            raise InputError(
                f"This is another model, or it was changed: its digest is {self.digest}, not {digest}. Give the "
                "original file."
            )
        if ledger is not None:
            self.spending_now(ledger)

    def spending_now(self, ledger: Place) -> Spending:
        """Return what the ledger says now; refuse one that does not know this training, or is of other data."""
        from dpadmm.models.build import current_spending

        return current_spending(self, ledger)

    def save(self, path: Place) -> Path:
        """Save a model whose privacy is already paid for, as .json or .npz; return where it is.

        If the place has become unwritable meanwhile, the model goes to the folder for temporary files instead: what was
        paid for must not be lost. Compare the returned path with the one given.
        """
        from dpadmm.models.files import save_model

        return save_model(self, Path(path))

    @classmethod
    def load(cls, path: Place) -> "ReleasedModel":
        """Read a saved model; `InputError` for anything else, and nothing in the file is ever executed."""
        from dpadmm.models.files import load_model

        return load_model(Path(path))
