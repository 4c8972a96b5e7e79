"""The coefficients of a released model: what they are of, their intervals, or why there are none."""

from dpadmm import checks
from dpadmm.core.model import ReleasedModel
from dpadmm.core.task import Aim
from dpadmm.data.columns import Numeric
from dpadmm.errors import InputError
from dpadmm.inference.intervals import (
    CoefficientEstimate,
    CoefficientRow,
    CoefficientTable,
    Contrasts,
    contrasts,
    estimate,
    interval_rows,
)
from dpadmm.models.statement import records_text

_ESTIMAND = (
    "Coefficients of the ordinary logistic regression without a penalty, in the units of the table: what one unit more "
    "adds to the log-odds of {answer!r}, other columns unchanged; of a category, what it adds compared with the one "
    "named behind it; exp() of it is an odds ratio. They are those of the population that the records were drawn "
    "from, its values clipped to the encoding's range and rows longer than {reach} shortened to that; where many rows "
    "are, they differ from coefficients of rows as they are.{ranges}"
)
_UNSETTLED = (
    "Coefficients at which training stopped, in the units of the table. They carry noise and, since no curvature "
    "corrects that training stops early, are usually nearer to 0 than those of the ordinary logistic regression. Use "
    "them to predict; do not report them as effects."
)
_COUNTED = (
    "Intervals count the sampling of the records and all privacy noise. They assume independent records and, as the "
    "usual standard errors of a logistic regression do, that the log-odds are about linear in the columns."
)
_PREDICTING = (
    "Coefficients of a model that was fitted to predict, in the units of the table: rows were shortened"
    "{cap}, which makes them larger than those of an ordinary logistic regression. They carry noise."
)

_OTHER = "Coefficients of a model that was fitted to predict, in the units of the table. They carry noise."


def estimate_with_contrasts(model: ReleasedModel) -> tuple[CoefficientEstimate, Contrasts] | None:
    """Return what was found about the coefficients; None where no curvature was released."""
    if model.curvature is None:
        return None
    made = contrasts(model.schema.columns, model.encoding)
    return estimate(model.curvature, made), made


def summary_of(model: ReleasedModel, level: float = 0.95) -> CoefficientTable:
    """Return the table of a model of one vector of coefficients."""
    if len(model.schema.label.classes) != 2:
        raise InputError(
            "A summary is for models of two classes; this one predicts a number or has coefficients for every class. "
            "The report shows its largest coefficients, and `dpadmm export --to FILE.json` writes all of them."
        )
    checks.open_unit("level", level)
    found = estimate_with_contrasts(model)
    why_not = reason(model, found)
    made = contrasts(model.schema.columns, model.encoding) if found is None else found[1]
    if found is not None and not why_not:
        rows = interval_rows(found[0], made, level)
    else:
        coefs = made.rows @ model.weights[0]
        rows = tuple(
            CoefficientRow(name=name, against=other, coef=float(coef))
            for name, other, coef in zip(made.names, made.against, coefs, strict=True)
        )
    said = model.guarantee
    simulated = () if said.is_private_release else ("Simulated noise: NOT a private release.",)
    held = _held_text(found)
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
        notes=(*simulated, *(() if why_not else (*held, _COUNTED))),
        level=level,
        why_not=why_not,
    )


def _held_text(found: tuple[CoefficientEstimate, Contrasts] | None) -> tuple[str, ...]:
    """Say which coefficients the intervals of others take as given."""
    if found is None or not found[0].removed:
        return ()
    names = ", ".join(found[1].names[place] for place in sorted(found[0].removed))
    return (f"{names} held at the value where training stopped. Do not report coefficients without an interval.",)


def _estimand(model: ReleasedModel, *, has_intervals: bool) -> str:
    """Say what the coefficients are of."""
    if model.aim is Aim.INFERENCE:
        reach = f"norm {model.encoding.radius:.3g} in scaled units"
        text = _ESTIMAND.format(answer=model.schema.label.classes[-1], reach=reach, ranges=_range_text(model))
        return text if has_intervals else _UNSETTLED
    if model.linked is None:
        return _OTHER
    is_capped = model.linked.cap < 1
    return _PREDICTING.format(cap=" and the loss slope of misclassified ones was capped" if is_capped else "")


def _range_text(model: ReleasedModel) -> str:
    """Say how far numbers count, where that is less than their public bounds: by clipping, or by a row's length."""
    encoding, found, place = model.encoding, [], 0
    if encoding.lower is None or encoding.upper is None:
        return ""
    for column in model.schema.columns:
        if isinstance(column, Numeric):
            far = encoding.radius * encoding.scale[place]
            low = max(encoding.lower[place], encoding.centre[place] - far)
            high = min(encoding.upper[place], encoding.centre[place] + far)
            ends = f"{low:.4g} to {high:.4g}"
            if ends != f"{column.lower:.4g} to {column.upper:.4g}":
                found.append(f"{column.name} {ends}")
        place += len(column.feature_names)
    return f" At most these ranges count: {', '.join(found)}." if found else ""


def reason(model: ReleasedModel, found: tuple[CoefficientEstimate, Contrasts] | None) -> str:
    """Say why there are no intervals; nothing where there are."""
    if model.aim is not Aim.INFERENCE:
        return (
            f"the model was fitted for {model.aim.value}, and no curvature was bought. To have them, fit with "
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
