"""The coefficients of a released model: what they are of, their intervals, or why there are none."""

from collections.abc import Mapping
from typing import TypeAlias

from dpadmm import checks
from dpadmm.core.model import ReleasedModel
from dpadmm.core.task import Aim
from dpadmm.data.cells import Category
from dpadmm.inference.intervals import (
    CoefficientEstimate,
    CoefficientRow,
    CoefficientTable,
    Contrasts,
    contrasts,
    estimate,
    interval_rows,
    label_of_units,
)
from dpadmm.models.statement import records_text
from dpadmm.privacy.protection import Unit
from dpadmm.problems.losses import Huber, Poisson

_ESTIMAND = (
    "Coefficients of the ordinary {kind} regression without a penalty, in the units of the table: what one unit more "
    "adds to {answer}, other columns unchanged; of a category, what it adds compared with the one named behind "
    "it{ratio}. They are those of the population that the records were drawn from, with weights that depend on columns "
    "alone: a row longer than norm {reach:.3g} in scaled units counts less, by the square of its length.{weight} Where "
    "the {linear} linear in the columns, weights do not move coefficients; where not, by what they change the mix of "
    "records."
)
_UNSETTLED = (
    "Coefficients at which training stopped, in the units of the table. They carry noise and, since no curvature "
    "corrects that training stops early, are usually nearer to 0 than those of the ordinary regression. Use "
    "them to predict; do not report them as effects."
)
_COUNTED = "Intervals count the sampling of {units} and all privacy noise. They assume independent {units}{model}."
_ABOUT_LINEAR = (
    " and, as the usual standard errors of a logistic regression do, that the log-odds are about linear in the columns"
)
_POISSON = " and counts of a Poisson distribution, with rates whose logarithm is about linear in the columns"
_ROBUST = "; how much residuals vary may differ between records"
_CLUSTERED = ", whose rows may depend on each other"
_PREDICTING = (
    "Coefficients of a model that was fitted to predict, in the units of the table: rows were shortened"
    "{cap}, which makes them larger than those of an ordinary logistic regression. They carry noise."
)

_OTHER = (
    "Coefficients of a model that was fitted to predict, in the units of the table, for rows that are not shortened: "
    "of longer ones the deviation from the centre counts by its direction alone. They carry noise."
)
_SEVERAL = (
    "the curvature of several classes is a sum of matrices of several scores, for which no bound is proved (C13), so "
    "that none can be released; fit two classes at a time, with aim='inference', for coefficients with intervals."
)


Reference: TypeAlias = Mapping[str, Category]
"""Of some columns, the category that others are compared with."""


def estimate_with_contrasts(
    model: ReleasedModel, reference: Reference | None = None
) -> tuple[CoefficientEstimate, Contrasts] | None:
    """Return what was found about the coefficients; None where no curvature was released."""
    if model.curvature is None:
        return None
    made = _contrasts(model, reference)
    return estimate(model.curvature, made), made


def _contrasts(model: ReleasedModel, reference: Reference | None) -> Contrasts:
    return contrasts(model.schema.columns, model.encoding, label_of_units(model.schema.label, model.loss), reference)


def summary_of(model: ReleasedModel, level: float = 0.95, reference: Reference | None = None) -> CoefficientTable:
    """Return the table of a model: of one vector of coefficients, or of one for every class."""
    checks.open_unit("level", level)
    found = estimate_with_contrasts(model, reference)
    why_not = reason(model, found)
    made = _contrasts(model, reference) if found is None else found[1]
    adds_to, ratio = _effect(model)
    if found is not None and not why_not:
        rows = interval_rows(found[0], made, level)
    else:
        rows = tuple(
            CoefficientRow(name=f"{title}{name}", against=other, coef=float(coef))
            for title, weights in zip(_titles(model), model.weights, strict=True)
            for name, other, coef in zip(made.names, made.against, made.of(weights), strict=True)
        )
    said = model.guarantee
    simulated = () if said.is_private_release else ("Simulated noise: NOT a private release.",)
    return CoefficientTable(
        title=model.title,
        facts=(
            f"Model     {model.loss_description} of {model.schema.label.name}, fitted for {model.aim.value}",
            f"Records   {records_text(model)}",
            f"Privacy   epsilon {said.epsilon:.4g}, delta {said.delta:.3g}, {said.protection} from "
            f"{said.protection.observer}",
        ),
        rows=rows,
        estimand=_estimand(model, has_intervals=not why_not),
        notes=(*simulated, *(() if why_not else (*_held_text(found), _counted_text(model)))),
        level=level,
        why_not=why_not,
        adds_to=adds_to,
        ratio=ratio,
    )


def _effect(model: ReleasedModel) -> tuple[str, str]:
    """Return what coefficients add to, and what exp() of them is a ratio of, nothing where it is none."""
    if isinstance(model.loss, Poisson):
        return "the logarithm of the rate", "rate"
    if model.schema.label.is_real:
        return model.schema.label.name, ""
    return ("the log-odds", "odds") if model.has_probabilities else ("the score", "")


def _titles(model: ReleasedModel) -> tuple[str, ...]:
    """Return what the coefficients of every score begin with: its class, where there are several."""
    return tuple(f"{each}: " for each in model.schema.label.classes) if model.n_scores > 1 else ("",)


def _held_text(found: tuple[CoefficientEstimate, Contrasts] | None) -> tuple[str, ...]:
    """Say which coefficients the intervals of others take as given."""
    if found is None or not found[0].removed:
        return ()
    names = ", ".join(found[1].names[place] for place in sorted(found[0].removed))
    return (f"{names} held at the value where training stopped. Do not report coefficients without an interval.",)


def _counted_text(model: ReleasedModel) -> str:
    """Say what intervals count, and what they assume."""
    is_of_persons = model.guarantee.protection.unit is Unit.PERSON
    robust = _CLUSTERED if is_of_persons else _ABOUT_LINEAR
    if model.schema.label.is_real and not is_of_persons:
        robust = _POISSON if isinstance(model.loss, Poisson) else _ROBUST
    return _COUNTED.format(units="persons" if is_of_persons else "records", model=robust)


def _estimand(model: ReleasedModel, *, has_intervals: bool) -> str:
    """Say what the coefficients are of."""
    if model.aim is Aim.INFERENCE:
        label = model.schema.label
        kind, answer, ratio, linear = "linear", label.name, "", "mean is"
        if isinstance(model.loss, Poisson):
            kind, answer, linear = "Poisson", f"the logarithm of the expected {label.name}", "logarithm is"
            ratio = "; exp() of it is a rate ratio"
        elif not label.is_real:
            kind, answer, linear = "logistic", f"the log-odds of {label.classes[-1]!r}", "log-odds are"
            ratio = "; exp() of it is an odds ratio"
        reach, weight = model.encoding.radius, _weight_text(model)
        text = _ESTIMAND.format(kind=kind, answer=answer, ratio=ratio, reach=reach, weight=weight, linear=linear)
        return text if has_intervals else _UNSETTLED
    if model.linked is None:
        return _OTHER
    is_capped = model.linked.cap < 1
    return _PREDICTING.format(cap=" and the loss slope of misclassified ones was capped" if is_capped else "")


def _weight_text(model: ReleasedModel) -> str:
    """Say what a record counts on average, where the released curvature tells: of numbers, by the constant feature."""
    found, constant = model.curvature, model.encoding.constant
    if found is None or constant is None or not isinstance(model.loss, Huber):
        return ""
    mean = found.matrix[len(found.point) - 1] / constant**2 / model.records  # the diagonal comes first
    counted = f"{min(max(mean, 0.0), 1.0):.2f}"
    return (
        f" On average a record counts {counted}; residuals beyond three deviations of {model.schema.label.name}, less."
    )


def reason(model: ReleasedModel, found: tuple[CoefficientEstimate, Contrasts] | None) -> str:
    """Say why there are no intervals; nothing where there are."""
    if model.n_scores > 1:
        return _SEVERAL
    if model.aim is not Aim.INFERENCE:
        return (
            f"the model was fitted for {model.aim.value}, and no curvature was released. To have them, fit with "
            "aim='inference' (dpadmm fit --aim inference)."
        )
    if found is None:
        return "too few records for so many columns at this epsilon, as the plan said; nothing was spent on them."
    if not found[0].has_intervals:
        return (
            "the released curvature does not stand out from its noise far enough for any coefficient (its least part "
            f"is {found[0].ratio:.2g} of what noise alone may show). Columns that say much the same, rare categories, "
            "a rare outcome, or too few records for this epsilon make it so. The budget is spent; another fit, with "
            "fewer columns or a larger epsilon, costs its own."
        )
    return ""
