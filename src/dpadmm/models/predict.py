"""What a released model predicts: rows to scores, scores to classes, numbers and probabilities."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from dpadmm import checks
from dpadmm.core.model import ReleasedModel
from dpadmm.core.task import Aim
from dpadmm.data.columns import RealLabel
from dpadmm.data.tables import Screened, encode_table, screen_cells
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.losses import Poisson
from dpadmm.settings import CellRules


def read_rows(model: ReleasedModel, table: Any, where: str, screening: CellRules, *, is_labelled: bool) -> Screened:
    """Return the encoded rows of a table by the columns' names, their encoded labels, and which were blanked.

    Of a model that was fitted on an array, rows may also be an array, and are encoded as one, to the bits.
    """
    schema = model.schema
    if not schema.is_array:
        return encode_table(schema, table, where, screening, is_labelled=is_labelled, encoding=model.encoding)
    if not isinstance(table, pd.DataFrame):
        rows = _read_array(model, table, where)
        return Screened(model.encoding.encode(rows), np.empty(0), np.zeros(rows.shape[0], dtype=bool), ())
    found = screen_cells(schema, table, where, screening, is_labelled=is_labelled)
    empty = zip(found.cells, model.encoding.empty, strict=True)
    rows = model.encoding.encode(np.column_stack([np.where(c.missing, usual, c.values) for c, usual in empty]))
    rows[found.blank] = 0.0
    return Screened(rows, found.labels, found.blank, found.notes)


def _read_array(model: ReleasedModel, table: Any, where: str) -> Matrix:
    names = [column.name for column in model.schema.columns]
    rows = sparse.csr_array(table, dtype=np.float64) if sparse.issparse(table) else np.asarray(table)
    if rows.dtype.kind not in "biuf":
        raise InputError(f"{where} must contain numbers, or be a DataFrame with columns {', '.join(names)}.")
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise InputError(f"{where} must have {len(names)} columns, got an array of shape {rows.shape}.")
    if not np.all(np.isfinite(rows.data if sparse.issparse(rows) else rows)):
        raise InputError(f"{where} contains cells that are not finite numbers. Fill them in.")
    return rows


def score_rows(model: ReleasedModel, rows: Any, *, where: str = "X", screening: CellRules | None = None) -> Floats:
    """Return the linear scores (n, problems) of a table or an array; a blanked row has none (NaN).

    Parameters
    ----------
    rows: a DataFrame with the model's columns (the label is not needed); for plain columns an array will do.
    where: what messages call it. screening: what to do about awkward cells; None refuses them.
    """
    found = read_rows(model, rows, where, CellRules() if screening is None else screening, is_labelled=False)
    scores = np.asarray(found.features @ model.weights.T)
    scores[found.blank] = np.nan
    return scores


def shift_to_threshold(model: ReleasedModel, scores: Floats, threshold: float | None) -> Floats:
    """Return scores of two classes that are above 0 where the second class is likelier than the threshold.

    None leaves scores as they are: the likelier class, or the higher score, decides.
    """
    if threshold is None:
        return scores
    if model.linked is None or len(model.schema.label.classes) != 2:
        raise InputError(
            "threshold is for the probability of two classes, which this model does not have. Leave it out."
        )
    share = checks.open_unit("threshold", threshold)
    return np.asarray(model.linked.log_odds(scores) - (np.log(share) - np.log1p(-share)))


def predict_from_scores(model: ReleasedModel, scores: Floats, threshold: float | None = None) -> NDArray[Any]:
    """Return the predictions that scores amount to: classes or numbers, nothing where there is no score.

    A number is in its own units, of a table within its bounds unless coefficients were estimated.
    """
    label, shifted, is_blank = model.schema.label, shift_to_threshold(model, scores, threshold), np.isnan(scores[:, 0])
    if isinstance(model.loss, Poisson):
        return _expected_counts(scores)
    if isinstance(label, RealLabel):
        return label.decode(shifted[:, 0], is_clipped=clips_numbers(model))
    which = shifted.argmax(axis=1) if model.n_scores > 1 else (shifted[:, 0] > 0).astype(np.intp)
    found = np.array(label.classes, dtype=None if model.schema.is_array else object)[which]
    if is_blank.any():
        found = found.astype(object)
        found[is_blank] = None
    return found


def clips_numbers(model: ReleasedModel) -> bool:
    """Return whether predicted numbers are moved within the label's range: of tables, unless coefficients matter."""
    return not model.schema.is_array and model.aim is Aim.PREDICTION


def encode_predictions(model: ReleasedModel, scores: Floats) -> Floats:
    """Return the predictions as labels are encoded by `read`."""
    if isinstance(model.loss, Poisson) and isinstance(model.schema.label, RealLabel):
        return model.schema.label.encode(_expected_counts(scores))
    if model.schema.label.is_real:
        return np.clip(scores[:, 0], -1.0, 1.0)
    if model.n_scores > 1:
        return scores.argmax(axis=1).astype(np.float64)
    return np.where(scores[:, 0] > 0, 1.0, -1.0)


def _expected_counts(scores: Floats) -> Floats:
    """Return the expected counts over an exposure of 1; the greatest that a float holds beyond."""
    with np.errstate(over="ignore"):
        return np.nan_to_num(np.exp(scores[:, 0]), nan=np.nan)


def coefficients_in_units(model: ReleasedModel) -> tuple[Floats, Floats]:
    """Return (coef, intercept), (n_scores, features) and (n_scores,), in the units of the table."""
    coef, intercept = map(np.array, zip(*map(model.encoding.decode, model.weights), strict=True))
    label = model.schema.label
    if isinstance(label, RealLabel) and not isinstance(model.loss, Poisson):
        return coef * label.half_width, intercept * label.half_width + label.middle
    return coef, intercept


def probabilities_from_scores(model: ReleasedModel, scores: Floats) -> Floats:
    """Return the probability of each class that scores amount to, by the link of the loss that was fitted."""
    if model.softmax is not None:
        return np.exp(model.softmax.log_probabilities(scores))
    if model.linked is None:
        raise InputError(f"A model by {model.loss_description} has no probabilities. Use predict.")
    log_odds = model.linked.log_odds(scores)
    if scores.shape[1] == 1:
        return np.hstack([expit(-log_odds), expit(log_odds)])
    chances = expit(log_odds)
    total = chances.sum(axis=1, keepdims=True)
    even = np.full_like(chances, 1 / chances.shape[1])
    return np.divide(chances, total, out=even, where=~(total <= 0))
