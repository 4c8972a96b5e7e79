"""What is said about an evaluation: a text with a table of at most 80 columns, or JSON."""

from collections.abc import Mapping
from typing import Any

from dpadmm.codec import encode
from dpadmm.evaluation.confusion import PrivateConfusion
from dpadmm.evaluation.evaluate import Evaluation
from dpadmm.evaluation.score_counts import PrivateEvaluation
from dpadmm.models.measurement import DEVIATIONS, EvaluatedFigure, Measurement, OtherFigure

_HEADER = f"{'':24}{'value':>9}  {'noise interval':>19}  {'population interval':>21}"
_INTERVALS = (
    "The noise interval covers the exact figure of these records; the population\n"
    "interval that of the population they were drawn from (95 % confidence each)."
)


def text_of(found: Evaluation, threshold: float | None) -> str:
    """Return the figures as text."""
    measured, parts = found.measurement, []
    if found.counts is not None:
        parts = [_counts_text(found.counts, threshold), f"Saved in {found.place}."]
        parts.append("Further questions to that file are free: use --from.")
    elif measured is not None:
        parts = [_measurement_text(measured)]
    if found.matrix is not None:
        parts.append(_matrix_text(found.matrix))
    if measured is not None and measured.epsilon and measured.declaration:
        parts.append(measured.declaration)
    return "\n".join(parts)


def json_of(found: Evaluation, threshold: float | None) -> dict[str, Any]:
    """Return what was measured as plain values."""
    said: dict[str, Any] = {"epsilon": 0.0}
    if found.measurement is not None:
        said = {"recorded_in": found.recorded_in and str(found.recorded_in)} | encode(found.measurement)
    if found.counts is not None:
        said |= {"evaluation": str(found.place), "figures": figures_json(found.counts, threshold)}
    if found.matrix is not None:
        said |= {"classes": found.matrix.classes, "confusion": found.matrix.counts.tolist()}
    return said


def _measurement_text(found: Measurement) -> str:
    base = "" if found.baseline is None else f"; the best constant prediction has {found.baseline:.4f}"
    others = "".join(f"; {each}" for each in found.others)
    cost = f", cost epsilon {found.epsilon:.4g} at delta {found.delta:.3g}" if found.epsilon else ""
    figure = str(OtherFigure(found.score, found.value, found.uncertainty))
    noise = " (noise)" if "+-" in figure else ""
    return f"{figure}{noise} on {found.records} records ({found.on}){base}{others}{cost}."


def _matrix_text(matrix: PrivateConfusion) -> str:
    """Return the matrix as a table: a row for each class, a column for each prediction."""
    names = [str(each) for each in matrix.classes]
    wide = max(8, *(len(name) + 2 for name in names))
    rows = zip(names, matrix.counts.tolist(), strict=True)
    return "\n".join(
        [
            "Records of each class (rows) by prediction (columns), each "
            f"+- {DEVIATIONS * matrix.noise_std:.0f} by noise (95 %):",
            " " * wide + "".join(f"{name:>{wide}}" for name in names),
            *(f"{name:<{wide}}" + "".join(f"{count:>{wide}.0f}" for count in row) for name, row in rows),
        ]
    )


def _counts_text(found: PrivateEvaluation, threshold: float | None) -> str:
    """Return the table, group by group, the confusion matrix and the calibration of all records."""
    said = found.privacy
    lines = [
        f"{found.records} {said.protection.counted}{said.protection.counting_note}, "
        f"cost: epsilon {said.epsilon:.4g} at delta {said.delta:.3g}.",
        *([f"({found.on})"] if found.on else []),
        "",
        _HEADER,
        *_table(figures_of(found, threshold, None)),
    ]
    for group in found.groups:
        lines += ["", f"{found.by} = {group}", *_table(figures_of(found, threshold, group))]
    at, (no, yes), what = found.confusion(threshold), found.classes, "score"
    if found.has_probabilities:
        what = "probability"
    lines += ["", f"Predicted {yes!r} above a {what} of {at.threshold:g}, else {no!r} (records)"]
    for name in ("true_positives", "false_positives", "false_negatives", "true_negatives"):
        lines.append(f"  {name.replace('_', ' '):22}{_cells(getattr(at, name), 0)}")
    if found.has_probabilities:
        lines += ["", "Share of positives by predicted probability"]
        for part in found.calibration():
            name = f"{part.low:.3f}-{part.high:.3f}, mean {part.predicted:.3f}"
            lines.append(f"  {name:22}{_cells(part.observed, 3)[2 if part.observed.is_visible else 0 :]}")
    return "\n".join([*lines, "", _INTERVALS])


def _table(figures: Mapping[str, EvaluatedFigure]) -> list[str]:
    return [f"  {name:22}{_cells(each) if each.is_determined else f'  {each}'}" for name, each in figures.items()]


def _cells(figure: EvaluatedFigure, digits: int = 4) -> str:
    if not figure.is_visible:
        return "  not visible above the noise"
    noise, population = (
        f"{low:.{digits}f} to {high:.{digits}f}" for low, high in (figure.noise_interval, figure.population_interval)
    )
    return f"{figure.value:9.{digits}f}  {noise:>19}  {population:>21}"


def figures_of(found: PrivateEvaluation, threshold: float | None, group: str | None) -> dict[str, EvaluatedFigure]:
    """Return the figures of one group, or of all records, by their names."""
    at = found.confusion(threshold, group)
    figures = {"AUC": found.roc_auc(group)}
    if found.has_probabilities:
        figures["log-loss"] = found.log_loss(group)
    for name in ("accuracy", "sensitivity", "specificity", "precision"):
        figures[f"{name} at {at.threshold:g}"] = getattr(at, name)
    return figures


def figures_json(found: PrivateEvaluation, threshold: float | None) -> dict[str, Any]:
    """Return every figure with both intervals, of all records and of every group."""

    def one(group: str | None) -> dict[str, Any]:
        at = found.confusion(threshold, group)
        counts = {name: each.as_json() for name, each in vars(at).items() if name != "threshold"}
        said: dict[str, Any] = {
            "roc_auc": found.roc_auc(group).as_json(),
            "confusion": {"threshold": at.threshold} | counts,
        }
        if found.has_probabilities:
            said["log_loss"] = found.log_loss(group).as_json()
            said["calibration"] = [
                vars(part) | {"observed": part.observed.as_json()} for part in found.calibration(group)
            ]
        return said

    return one(None) | {"by": found.by or None, "groups": {group: one(group) for group in found.groups}}
