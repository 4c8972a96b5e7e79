"""The product of a private training: a model that predicts, with all that may be told about it.

Every field is a public fact (sizes, bounds, the plan), a part of the release (coefficients, messages and what follows
from them) or an accounted figure. Nothing here is computed from records in any other way, so a model and its report may
be handed out under the guarantee they state.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from dpadmm import checks
from dpadmm.codec import decode, encode
from dpadmm.data.columns import RealLabel
from dpadmm.data.encoding import RowEncoding
from dpadmm.data.profile import ReleasedProfile
from dpadmm.data.schema import Schema, Screening
from dpadmm.data.tables import Screened, encode_table, screen_cells
from dpadmm.errors import InputError, LedgerError
from dpadmm.methods.base import Topology
from dpadmm.planner.task import Aim
from dpadmm.planner.utility import UtilityPoint
from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.losses import LabelKind, Logistic, ReleasedLoss, Softmax, loss_description
from dpadmm.reporting.files import (
    checked_suffix,
    digest_of,
    read_facts,
    to_bytes,
    write_file,
    write_or_keep,
)
from dpadmm.reporting.intervals import CoefficientTable, CurvatureFacts
from dpadmm.reporting.measurement import Measurement
from dpadmm.reporting.statement import (
    NOT_STATED,
    Accountability,
    Custody,
    Guarantee,
    MethodChoice,
    RoundFacts,
    SiloFacts,
    Spending,
)

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

Place: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True)
class ReleasedModel:
    """A trained model with all that may be told about it, whoever made it: an estimator, `dpadmm fit`, a federation.

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
    custody: Custody = Custody.ONE_PLACE
    spending: Spending | None = None
    measurements: tuple[Measurement, ...] = ()
    profile: ReleasedProfile | None = None
    aim: Aim = Aim.PREDICTION
    curvature: CurvatureFacts | None = None
    about: Accountability = NOT_STATED
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
        """What kind of model it is, in words; they follow from `loss` and are never read back."""
        return loss_description(self.loss)

    @property
    def records(self) -> int:
        """Number of records, or persons, of all silos together; nominal where the true one is secret."""
        return sum(silo.records for silo in self.silos)

    @property
    def records_words(self) -> str:
        """How many records, or persons, there are, as far as that is public."""
        if self.guarantee.protection.relation.has_public_sizes:
            return f"{self.records} {self.guarantee.protection.counted}{self.guarantee.protection.counting_note}"
        return f"a secret number of {self.guarantee.protection.counted} (nominally {self.records})"

    @property
    def connections(self) -> str:
        """Who talks to whom, in words."""
        choice, silos = self.choice, len(self.silos)
        if choice.topology is Topology.STAR:
            return "every silo with a coordinator"
        if choice.topology is Topology.ALONE:
            return "each silo speaks once" if choice.rounds == 1 else "one silo releases on its own"
        pairs = f"{len(choice.edges)} pairs of silos talk"
        if self.custody is Custody.FEDERATED:
            return f"{pairs}, through a relay"
        return "every silo with every other" if 2 * len(choice.edges) == silos * (silos - 1) else pairs

    @property
    def has_ledgers_of_silos(self) -> bool:
        """Whether every silo paid from a ledger of its own."""
        return self.custody is Custody.FEDERATED

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
        """Whether scores tell probabilities, so that there is `predict_proba`."""
        return self.linked is not None or self.softmax is not None

    def read_rows(self, table: Any, where: str, screening: Screening, *, is_labelled: bool) -> Screened:
        """Return the encoded rows of a table by the columns' names, their encoded labels, and which were blanked.

        Of a model that was fitted on an array, rows may also be an array, and are encoded as one, to the bits.
        """
        schema = self.schema
        if not schema.is_array:
            return encode_table(schema, table, where, screening, is_labelled=is_labelled, encoding=self.encoding)
        if not isinstance(table, pd.DataFrame):
            rows = self._array(table, where)
            return Screened(self.encoding.encode(rows), np.empty(0), np.zeros(rows.shape[0], dtype=bool), ())
        found = screen_cells(schema, table, where, screening, is_labelled=is_labelled)
        empty = zip(found.cells, self.encoding.empty, strict=True)
        rows = self.encoding.encode(np.column_stack([np.where(c.missing, usual, c.values) for c, usual in empty]))
        rows[found.blank] = 0.0
        return Screened(rows, found.labels, found.blank, found.notes)

    def _array(self, table: Any, where: str) -> Matrix:
        names = [column.name for column in self.schema.columns]
        rows = sparse.csr_array(table, dtype=np.float64) if sparse.issparse(table) else np.asarray(table)
        if rows.dtype.kind not in "biuf":
            raise InputError(f"{where} must contain numbers, or be a DataFrame with columns {', '.join(names)}.")
        if rows.ndim != 2 or rows.shape[1] != len(names):
            raise InputError(f"{where} must have {len(names)} columns, got an array of shape {rows.shape}.")
        if not np.all(np.isfinite(rows.data if sparse.issparse(rows) else rows)):
            raise InputError(f"{where} contains cells that are not finite numbers. Fill them in.")
        return rows

    def scores(self, rows: Any, *, where: str = "X", screening: Screening | None = None) -> Floats:
        """Return the linear scores (n, problems) of a table or an array; a blanked row has none (NaN).

        Parameters
        ----------
        rows: a DataFrame with the model's columns (the label is not needed); for plain columns an array will do.
        where: what messages call it. screening: what to do about awkward cells; None refuses them.
        """
        found = self.read_rows(rows, where, Screening() if screening is None else screening, is_labelled=False)
        scores = np.asarray(found.features @ self.weights.T)
        scores[found.blank] = np.nan
        return scores

    def past(self, scores: Floats, threshold: float | None) -> Floats:
        """Return scores of two classes that are above 0 where the second class is likelier than the threshold.

        None leaves scores as they are: the likelier class, or the higher score, decides.
        """
        if threshold is None:
            return scores
        if self.linked is None or len(self.schema.label.classes) != 2:
            raise InputError(
                "threshold is for the probability of two classes, which this model does not have. Leave it out."
            )
        share = checks.open_unit("threshold", threshold)
        return np.asarray(self.linked.log_odds(scores) - (np.log(share) - np.log1p(-share)))

    def answers(self, scores: Floats, threshold: float | None = None) -> NDArray[Any]:
        """Return the predictions that scores amount to: classes or numbers, nothing where there is no score.

        A number is in its own units, of a table within its bounds.
        """
        label, past, is_blank = self.schema.label, self.past(scores, threshold), np.isnan(scores[:, 0])
        if isinstance(label, RealLabel):
            return label.decode(past[:, 0], is_clipped=not self.schema.is_array)
        which = past.argmax(axis=1) if self.n_scores > 1 else (past[:, 0] > 0).astype(np.intp)
        found = np.array(label.classes, dtype=None if self.schema.is_array else object)[which]
        if is_blank.any():
            found = found.astype(object)
            found[is_blank] = None
        return found

    def encoded_answers(self, scores: Floats) -> Floats:
        """Return the predictions as labels are encoded by `read`."""
        if self.schema.label.is_real:
            return np.clip(scores[:, 0], -1.0, 1.0)
        if self.n_scores > 1:
            return scores.argmax(axis=1).astype(np.float64)
        return np.where(scores[:, 0] > 0, 1.0, -1.0)

    def table_coefficients(self) -> tuple[Floats, Floats]:
        """Return (coef, intercept), (n_scores, features) and (n_scores,), in the units of the table."""
        coef, intercept = map(np.array, zip(*map(self.encoding.decode, self.weights), strict=True))
        label = self.schema.label
        if isinstance(label, RealLabel):
            return coef * label.half_width, intercept * label.half_width + label.middle
        return coef, intercept

    def probabilities(self, scores: Floats) -> Floats:
        """Return the probability of each class that scores amount to, by the link of the loss that was fitted."""
        if self.softmax is not None:
            return np.exp(self.softmax.log_probabilities(scores))
        if self.linked is None:
            raise InputError(f"A model by {self.loss_description} has no probabilities. Use predict.")
        log_odds = self.linked.log_odds(scores)
        if scores.shape[1] == 1:
            return np.hstack([expit(-log_odds), expit(log_odds)])
        chances = expit(log_odds)
        total = chances.sum(axis=1, keepdims=True)
        even = np.full_like(chances, 1 / chances.shape[1])
        return np.divide(chances, total, out=even, where=~(total <= 0))

    def decision_function(
        self, rows: Any, *, missing: str = "error", unlisted: str = "error", out_of_range: str = "clip"
    ) -> Floats:
        """Return the signed scores: (n,) for two classes, (n, classes) for more; awkward cells as in `predict`."""
        if self.schema.label.is_real:
            raise InputError("A model that predicts a number has no decision function. Use predict.")
        scores = self.scores(rows, screening=Screening.of(missing, unlisted, out_of_range))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(
        self,
        rows: Any,
        *,
        threshold: float | None = None,
        missing: str = "error",
        unlisted: str = "error",
        out_of_range: str = "clip",
    ) -> NDArray[Any]:
        """Return the predicted classes, or numbers, in the words or units of the table.

        With a threshold, the second of two classes is predicted where its probability is above it; choosing one costs
        no privacy, as long as it is not chosen by looking at private records.
        `missing`, `unlisted` and `out_of_range` say what to do about awkward cells, see `Screening`; a blanked row has
        no prediction. They are not kept with the model: one made by an estimator with missing="fill" refuses empty
        cells here unless told so again.
        """
        scores = self.scores(rows, screening=Screening.of(missing, unlisted, out_of_range))
        return self.answers(scores, threshold)

    def predict_proba(
        self, rows: Any, *, missing: str = "error", unlisted: str = "error", out_of_range: str = "clip"
    ) -> Floats:
        """Return the probability of each class; one-vs-rest probabilities are scaled to sum to 1.

        Awkward cells as in `predict`.
        """
        return self.probabilities(self.scores(rows, screening=Screening.of(missing, unlisted, out_of_range)))

    def to_sklearn(self, *, missing: str = "error", unlisted: str = "error", out_of_range: str = "clip") -> "Pipeline":
        """Return the model as a plain scikit-learn pipeline, which is loaded and predicts without this package.

        `missing` may be "error" or "fill", `unlisted` "error" or, with missing="fill", "zero". It takes numbers, and
        categories as they are listed; how else a cell may be written (see `dpadmm.data.cells`) stays behind.
        """
        from dpadmm.reporting.plain_pipeline import plain_pipeline

        return plain_pipeline(self, Screening.of(missing, unlisted, out_of_range))

    def to_plain_json(self) -> str:
        """Return all that predictions take as JSON for readers in any language, see `docs/export.md`."""
        from dpadmm.reporting.plain_json import plain_json

        return plain_json(self)

    @property
    def collusion_lines(self) -> list[tuple[str, str]]:
        """Which silos that look are counted, and what more of them would see; nothing unless only sums are seen."""
        return self.guarantee.collusion_lines(in_one_process=self.custody is Custody.ONE_PLACE)

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
        silos = len(self.silos)
        trained_on = f"{self.records_words} in {checks.plural(silos, 'silo')}; {self.custody.words(silos)}"
        details = [
            ("Trained on", trained_on),
            ("Method", f"{self.choice.method}, {self.choice.rounds} rounds, {self.connections}"),
        ]
        if self.encoding.constant is None:
            details.append(("Intercept", "none, as its owner stated: the model cannot follow every base rate"))
        if self.curvature is not None:
            alone = f"epsilon {self.curvature.epsilon:.3g}"
            details.append(("Intervals", f"from the curvature of the loss (C14), which alone costs {alone} of it"))
        if self.softmax is not None:
            details.append(("Classes", f"{self.n_scores} in one model (softmax)"))
        details += [
            ("Silo", f"{silo.name}: epsilon {silo.cost.epsilon:.6g} at delta {silo.cost.delta:.3g}, in its own ledger")
            for silo in self.silos
            if silo.cost is not None
        ]
        return self.guarantee.text(*details, in_one_process=self.custody is Custody.ONE_PLACE)

    def summary(self, level: float = 0.95) -> CoefficientTable:
        """Return the coefficients in the units of the table, with confidence intervals where these can be told (C14).

        Print it, or take its `frame()` or `records()`. level: of the intervals, in (0, 1); any number of tables may be
        made of one release. Models of two classes only.
        """
        from dpadmm.reporting.summary import summary_of

        return summary_of(self, level)

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
        spending: what the ledger says now, see `spending_now`; without, what it said when the model was trained.
        name: the model's file, as the commands on the page name it; None if there is none.
        purpose, controller, contact: why the data were processed, who answers for it, and whom to ask. The page shows
            them as they are given; what is left out is as the model's file has it, or "not stated".
        budgets: what `dpadmm.planner.utility.utility_curve` expects of other budgets, to be shown beside this one;
            left out, those that the model's file has.
        """
        from dpadmm.reporting.page import report_page

        given = {"purpose": purpose, "controller": controller, "contact": contact}
        about = replace(self.about, **{heading: words for heading, words in given.items() if words})
        shown = replace(self, about=about, budgets=tuple(budgets) or self.budgets)
        page = report_page(shown, spending, name)
        if path is not None:
            write_file(Path(path), page.encode(errors="replace"))
        return page

    @property
    def digest(self) -> str:
        """SHA-256 of every fact and coefficient, as its JSON file states it."""
        return digest_of(self._facts)

    @property
    def _facts(self) -> dict[str, Any]:
        """What its file states."""
        facts: dict[str, Any] = encode(self)
        return facts

    def verify(self, *, digest: str | None = None, ledger: Place | None = None) -> None:
        """Refuse a model that is not what it should be; `load` has found the digest of its file to be right.

        Parameters
        ----------
        digest: what `digest` was when the model was made, told by somebody you trust.
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
        """Return what the ledger says now; refuse one that does not know this training, and tells of other data."""
        from dpadmm.privacy.ledger import open_for_reading
        from dpadmm.reporting.outcome import spending_of

        head = None if self.spending is None else self.spending.head
        with open_for_reading(ledger) as book:  # its own faults come first, in their own words
            is_known = self.run in {run.run for run in book.runs()}
            parts = 2 if self.has_ledgers_of_silos else 1  # with the directory, which says whose ledger it is
            found = spending_of(book, str(Path(*Path(ledger).resolve().parts[-parts:])))
        try:
            with open_for_reading(ledger, expected_head=head):
                pass
        except LedgerError:
            is_known = False
        if not is_known:
            raise InputError(
                f"This is not the ledger the model was trained with, or an older copy of it: {ledger} does not contain "
                "what was recorded then. Give that ledger, or none."
            )
        return found

    def save(self, path: Place) -> Path:
        """Save a model whose privacy is already paid for, as .json or .npz; return where it is.

        If the place has become unwritable meanwhile, the model goes to the folder for temporary files instead: what was
        paid for must not be lost. Compare the returned path with the one given.
        """
        place = checked_suffix(Path(path))
        return write_or_keep(place, to_bytes(self._facts, place.suffix))

    @classmethod
    def load(cls, path: Place) -> "ReleasedModel":
        """Read a saved model; `InputError` for anything else, and nothing in the file is ever executed."""
        place = Path(path)
        try:
            facts = read_facts(place)
            model: ReleasedModel = decode(cls, facts, str(place))
            if encode(model.loss, ReleasedLoss) != facts["loss"]:
                raise InputError(f"{place}.loss must state every parameter: what was fitted is never a default.")
        except InputError as problem:
            if str(place) in str(problem):
                raise
            raise InputError(f"{place}: {problem}") from problem
        return model
