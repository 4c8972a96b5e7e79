"""A released model as a plain scikit-learn pipeline, of classes and functions of scikit-learn and NumPy alone.

It needs nothing of this package to be loaded and to predict. Its steps are those of `RowEncoding`:

    clip, fill, centre and scale the numbers;  one-hot categories, centred: one that is not listed is at the centre
    [v, ||v||, R] / max(R, ||v||)              long rows are shortened: `Normalizer` divides by the largest entry
    a linear model of these                    with the released coefficients; nothing was fitted on anybody's rows

The capped logistic link is one too: with a = log(1 + exp(-s)) and b = log(1 + exp(s)) of the score s, the log-odds are
`max(b, -log cap) - max(a, -log cap)`, a linear model of two features. That of a capped softmax with log-probabilities
l is one of `l` and `max(log(1 - exp(l)), log cap)`, whose sums are log-probabilities up to a constant.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpadmm.core.model import ReleasedModel
from dpadmm.data.columns import Categorical, RealLabel
from dpadmm.data.encoding import RowEncoding
from dpadmm.errors import InputError
from dpadmm.models.predict import clips_numbers
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import Logistic, Poisson, Softmax
from dpadmm.settings import CellRules

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

_EMPTY = ("nan", "None", "<NA>", "NaT", "")
"""How an empty cell reads once cells are text."""


def check_no_counts(model: ReleasedModel) -> None:
    """Refuse counts, for which no exported form is written."""
    if isinstance(model.loss, Poisson):
        raise InputError("A Poisson regression cannot be exported. Use the model file, which `dpadmm.load` reads.")


def plain_pipeline(model: ReleasedModel, screening: CellRules) -> "Pipeline":
    """Return the pipeline; `InputError` for policies that scikit-learn's own classes cannot carry out."""
    _check(model, screening)
    from sklearn.pipeline import Pipeline

    order, encoder = _encoder(model, screening)
    width, constant = len(model.encoding.centre), model.encoding.constant
    weights = model.weights[:, :width][:, order] * model.encoding.reach[1]
    weights = np.hstack([weights, np.zeros((len(weights), width + 1))])  # the norm and the radius beside the row
    intercepts = np.zeros(len(weights)) if constant is None else constant * model.weights[:, -1]
    return Pipeline(
        [
            ("encode", encoder),
            ("shorten", _shortening(width, model.encoding.reach[0])),
            *_final(model, weights, intercepts),
        ]
    )


def _check(model: ReleasedModel, screening: CellRules) -> None:
    check_no_counts(model)
    if screening.out_of_range == "error":
        raise InputError("A plain pipeline clips numbers to their bounds; out_of_range must be 'clip'.")
    if screening.missing == "blank" or screening.unlisted == "blank":
        raise InputError("A plain pipeline predicts for every row: missing and unlisted cannot be 'blank'.")
    if (screening.missing, screening.unlisted) == ("error", "zero"):
        raise InputError("A plain pipeline that accepts unlisted cells accepts missing values too. Add missing='fill'.")
    fitted = model.linked if model.softmax is None else model.softmax
    if isinstance(fitted, Logistic | Softmax) and fitted.cap < 0.5:
        raise InputError(f"With the cap {fitted.cap:g}, scores near 0 are tied. Export the model as JSON instead.")


def _encoder(model: ReleasedModel, screening: CellRules) -> tuple[list[int], Any]:
    """Return the step that makes v of a row, and which encoded feature each of its columns is."""
    encoding = model.encoding
    if model.schema.is_array:
        places = list(range(len(encoding.centre)))
        return places, _numbers(encoding, places, screening)
    from sklearn.compose import ColumnTransformer

    columns = model.schema.columns
    starts = np.cumsum([0, *(len(each.feature_names) for each in columns)]).tolist()
    numeric = [place for place, each in enumerate(columns) if not isinstance(each, Categorical)]
    order, parts = [starts[place] for place in numeric], []
    if numeric:
        parts.append(("numbers", _numbers(encoding, order, screening), [columns[place].name for place in numeric]))
    for place, each in enumerate(columns):
        if isinstance(each, Categorical):
            span = range(starts[place], starts[place + 1])
            parts.append(
                (f"{each.name} ", _categories(each, encoding.centre[span.start : span.stop], screening), [each.name])
            )
            order = [*order, *span]
    example = {each.name: [each.categories[0] if isinstance(each, Categorical) else 0.0] for each in columns}
    whole = ColumnTransformer(parts, sparse_threshold=0.0).fit(pd.DataFrame(example))
    if numeric:
        _set_numbers(whole.named_transformers_["numbers"], encoding, order[: len(numeric)])
    return order, whole


def _numbers(encoding: RowEncoding, features: list[int], screening: CellRules) -> Any:
    """Return the step for numbers: as floats, clipped, empty cells filled if they may be, centred and scaled."""
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    steps: list[tuple[str, Any]] = [("read", FunctionTransformer(np.asarray, kw_args={"dtype": np.float64}))]
    if encoding.lower is not None and encoding.upper is not None:
        sides = {"a_min": np.array(encoding.lower)[features], "a_max": np.array(encoding.upper)[features]}
        steps.append(("clip", FunctionTransformer(np.clip, kw_args=sides)))
    if screening.missing == "fill":
        steps.append(("fill", SimpleImputer()))
    made = Pipeline([*steps, ("scale", StandardScaler())]).fit(np.zeros((1, len(features))))
    _set_numbers(made, encoding, features)
    return made


def _set_numbers(made: Any, encoding: RowEncoding, features: list[int]) -> None:
    """Put the public numbers in the place of what was fitted on a row of zeros."""
    if "fill" in made.named_steps:
        made.named_steps["fill"].statistics_ = np.array(encoding.empty)[features]
    scaler = made.named_steps["scale"]
    scaler.mean_, scaler.scale_ = np.array(encoding.centre)[features], np.array(encoding.scale)[features]
    scaler.var_ = scaler.scale_**2


def _categories(column: Categorical, centre: tuple[float, ...], screening: CellRules) -> Any:
    """Return the step for categories: as text, one-hot, centred; what is not listed is at the centre, so adds nothing.

    A whole number may have become a decimal one, in a column with empty cells: 1 is then written 1.0.
    """
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

    listed = [str(each) for each in column.categories]
    rows = np.eye(len(listed)) - np.array(centre)
    written = {text: rows[place] for place, text in enumerate(listed)}
    for place, text in enumerate(listed):
        if text.isdecimal():
            written.setdefault(f"{int(text)}.0", rows[place])
    if screening.missing == "fill":
        for text in _EMPTY:
            written.setdefault(text, np.zeros(len(listed)))
    unknown = "ignore" if screening.unlisted == "zero" else "error"
    known = np.array(list(written))
    steps = [
        ("read", FunctionTransformer(np.asarray, kw_args={"dtype": str})),
        ("encode", OneHotEncoder(categories=[known], handle_unknown=unknown, sparse_output=False)),
        ("centre", FunctionTransformer(np.dot, kw_args={"b": np.array(list(written.values()))})),
    ]
    return Pipeline(steps)


def _shortening(width: int, radius: float) -> Any:
    """Return the step that divides rows by `max(R, ||v||)`."""
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.preprocessing import FunctionTransformer, Normalizer

    beside = FeatureUnion(
        [
            ("row", FunctionTransformer()),
            ("norm", FunctionTransformer(np.linalg.norm, kw_args={"axis": 1, "keepdims": True})),
            ("radius", FunctionTransformer(np.full_like, kw_args={"fill_value": radius})),
        ]
    )
    return Pipeline([("beside", beside), ("divide", Normalizer(norm="max"))]).fit(np.ones((1, width)))


def _final(model: ReleasedModel, weights: Floats, intercepts: Floats) -> list[tuple[str, Any]]:
    """Return the model itself, with a step for its link if that is capped."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    if model.schema.label.is_real:
        return [("predict", _regression(model, weights, intercepts))]
    if model.softmax is not None:
        return _softmax(model, weights, intercepts, model.softmax.cap)
    if model.linked is None:
        return [("predict", _classifier(model, LinearSVC(), weights, intercepts))]
    if model.linked.cap == 1:
        return [("predict", _classifier(model, LogisticRegression(), weights, intercepts))]
    many = len(weights)
    signs = np.hstack([-np.eye(many), np.eye(many)])
    link = _capped(weights, intercepts, model.linked.cap)
    return [("link", link), ("predict", _classifier(model, LogisticRegression(), signs, np.zeros(many)))]


def _capped(weights: Floats, intercepts: Floats, cap: float) -> Any:
    """Return the step to `max(log(1 + exp(-s)), -log cap)`, and the same of -s, for the scores s."""
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer

    both = np.vstack([np.hstack([-weights.T, weights.T]), np.hstack([-intercepts, intercepts])])
    steps = [
        ("one", FunctionTransformer(np.pad, kw_args={"pad_width": ((0, 0), (0, 1)), "constant_values": 1.0})),
        ("scores", FunctionTransformer(np.dot, kw_args={"b": both})),
        ("exp", FunctionTransformer(np.exp)),
        ("log", FunctionTransformer(np.log1p)),
        ("cap", FunctionTransformer(np.clip, kw_args={"a_min": -math.log(cap), "a_max": None})),
    ]
    return Pipeline(steps).fit(np.ones((1, weights.shape[1])))


def _softmax(model: ReleasedModel, weights: Floats, intercepts: Floats, cap: float) -> list[tuple[str, Any]]:
    """Return a softmax model of all classes, with a step for its link if that is capped."""
    from scipy.special import log_softmax
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.preprocessing import FunctionTransformer

    def fitted(coefficients: Floats, constants: Floats) -> Any:
        made = LogisticRegression().fit(np.eye(len(weights), coefficients.shape[1]), np.arange(len(weights)))
        made = _with_coefficients(made, coefficients, constants)
        made.classes_ = np.array(model.schema.label.classes)
        return made

    if cap == 1:
        return [("predict", fitted(weights, intercepts))]
    pad = {"pad_width": ((0, 0), (0, 1)), "constant_values": 1.0}
    shares = [
        ("exp", FunctionTransformer(np.exp)),
        ("below one", FunctionTransformer(np.clip, kw_args={"a_min": None, "a_max": 1 - 2.0**-53})),
        ("negative", FunctionTransformer(np.negative)),
        ("log", FunctionTransformer(np.log1p)),
        ("cap", FunctionTransformer(np.clip, kw_args={"a_min": math.log(cap), "a_max": None})),
    ]
    steps = [
        ("one", FunctionTransformer(np.pad, kw_args=pad)),
        ("scores", FunctionTransformer(np.dot, kw_args={"b": np.vstack([weights.T, intercepts])})),
        ("softmax", FunctionTransformer(log_softmax, kw_args={"axis": 1})),
        ("both", FeatureUnion([("logs", FunctionTransformer()), ("others", Pipeline(shares))])),
    ]
    link = Pipeline(steps).fit(np.ones((1, weights.shape[1])))
    many = len(weights)
    return [("link", link), ("predict", fitted(np.hstack([np.eye(many)] * 2), np.zeros(many)))]


def _classifier(model: ReleasedModel, kind: Any, weights: Floats, intercepts: Floats) -> Any:
    """Return a classifier of this kind with these coefficients, one against the rest for more than two classes.

    It is fitted on made-up rows first, so that it has every attribute that its version of scikit-learn wants.
    """
    from sklearn.multiclass import OneVsRestClassifier

    classes = np.array(model.schema.label.classes)
    rows = np.eye(len(classes), weights.shape[1])
    if len(classes) == 2:
        made = _with_coefficients(kind.fit(rows, [0, 1]), weights, intercepts)
        made.classes_ = classes
        return made
    whole = OneVsRestClassifier(kind).fit(rows, classes)
    for place, each in enumerate(whole.estimators_):
        _with_coefficients(each, weights[place : place + 1], intercepts[place : place + 1])
    return whole


def _with_coefficients(made: Any, weights: Floats, intercepts: Floats) -> Any:
    made.coef_, made.intercept_ = np.ascontiguousarray(weights), intercepts.copy()
    return made


def _regression(model: ReleasedModel, weights: Floats, intercepts: Floats) -> Any:
    """Return a linear regression in the units of the label; of a table within its bounds."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.preprocessing import FunctionTransformer

    label, zeros = model.schema.label, np.zeros((2, weights.shape[1]))
    made, whole = LinearRegression().fit(zeros, [0.0, 0.0]), None
    assert isinstance(label, RealLabel)
    if clips_numbers(model):
        sides = {"a_min": label.lower, "a_max": label.upper}
        within = FunctionTransformer(inverse_func=np.clip, inv_kw_args=sides, check_inverse=False)
        whole = TransformedTargetRegressor(LinearRegression(), transformer=within).fit(zeros, [0.0, 0.0])
        made = whole.regressor_
    made.coef_ = weights[0] * label.half_width
    made.intercept_ = float(intercepts[0] * label.half_width + label.middle)
    return made if whole is None else whole
