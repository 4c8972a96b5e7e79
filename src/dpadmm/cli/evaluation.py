"""What `dpadmm evaluate` says about a private evaluation: a table of at most 80 columns, or JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpadmm import checks
from dpadmm.cli.scoring import without_python_words
from dpadmm.cli.terminal import print_json, print_line, say_elsewhere
from dpadmm.core.dataset import ledger_columns
from dpadmm.data.persons import Persons
from dpadmm.data.schema import Screening
from dpadmm.data.tables import SiloTable
from dpadmm.errors import InputError
from dpadmm.estimators.evaluation import ScoredRows, buy, group_column
from dpadmm.estimators.ledger_file import LedgerFile
from dpadmm.estimators.noisy_sums import Asked
from dpadmm.estimators.resolved import ResolvedSettings
from dpadmm.privacy.protection import Unit
from dpadmm.reporting.evaluation import PrivateEvaluation
from dpadmm.reporting.evaluation_figures import EvaluatedFigure
from dpadmm.reporting.files import check_apart, check_writable
from dpadmm.reporting.measurement import Basis, Measurement, OtherFigure
from dpadmm.reporting.model import ReleasedModel

_HEADER = f"{'':24}{'value':>9}  {'noise interval':>19}  {'population interval':>21}"

INTERVALS = (
    "The noise interval covers the exact figure of these records; the population\n"
    "interval that of the population they were drawn from (95 % confidence each)."
)


@dataclass(frozen=True)
class Questions:
    """What is asked of an evaluation, and where it is kept and drawn."""

    threshold: float | None = None
    by: str | None = None
    plot: Path | None = None
    out: Path | None = None

    @staticmethod
    def fit(model: ReleasedModel) -> bool:
        """Whether scores of this model can be counted: it tells two classes apart."""
        return not model.schema.label.is_real and model.rows.problems == 1

    def check(self, model: ReleasedModel, *, is_private: bool, may_replace: bool) -> None:
        """Refuse what could not be answered or written, before anything is spent."""
        if not (is_private and self.fit(model)):
            if any(each is not None for each in vars(self).values()):
                raise InputError(
                    "--threshold, --by, --plot and --out are for private evaluations (--epsilon) of models with two "
                    "classes. Leave them out."
                )
            return
        if self.threshold is not None and model.has_probabilities:
            checks.open_unit("--threshold", self.threshold)
        if self.by is not None:
            group_column(model, self.by)
        if self.plot is not None and self.plot.suffix not in (".svg", ".png"):
            raise InputError(f"--plot must end in .svg or .png, got {str(self.plot)!r}.")
        if self.out is not None and self.out.suffix != ".json":
            raise InputError(f"--out must end in .json, got {str(self.out)!r}.")
        for place in (self.plot, self.out):
            if place is not None:
                check_writable(place, may_replace=may_replace)

    def ask_again(self, model: Path, earlier: Path, *, may_replace: bool, is_json: bool) -> None:
        """Answer from an evaluation that was bought before."""
        released, found = ReleasedModel.load(model), PrivateEvaluation.load(earlier)
        if found.model != released.run:
            raise InputError(
                f"{earlier} is an evaluation of another model, not of {model}. Give the model that was evaluated."
            )
        check_apart({"--plot": self.plot}, [model, earlier])
        self.check(released, is_private=True, may_replace=may_replace)
        show(Kept(found, earlier, earlier), self, {"command": "evaluate", "epsilon": 0.0} if is_json else None)


@dataclass(frozen=True)
class Kept:
    """An evaluation, where it was to be kept, and where it is."""

    figures: PrivateEvaluation
    wanted: Path
    place: Path


def keep(found: PrivateEvaluation, model: Path, asked: Questions) -> Kept:
    """Write what was bought, before anything else is done with it."""
    wanted = asked.out or place_beside(model)
    return Kept(found, wanted, found.save(wanted))


def show(kept: Kept, asked: Questions, head: dict[str, Any] | None) -> None:
    """Draw what is to be drawn, and print the table; as JSON, if there is a head for it."""
    found, plot = kept.figures, asked.plot
    if plot is not None:
        from dpadmm.reporting.figures import draw_evaluation

        draw_evaluation(found, plot)
    if head is not None:
        places = {"evaluation": str(kept.place), "plot": plot and str(plot)}
        print_json(head | places | {"figures": json_of(found, asked.threshold)})
    else:
        print_line(text_of(found, asked.threshold))
        print_line(f"Saved in {kept.place}.\nFurther questions to that file are free: use --from.")
        if plot is not None:
            print_line(f"Drew {plot}.")
    if kept.place != kept.wanted:
        say_elsewhere(kept.wanted, kept.place)


def place_beside(model: Path) -> Path:
    """Return a new name beside the model's, so that no evaluation that was paid for is replaced."""
    names = (model.with_suffix(f".evaluation{number}.json") for number in ("", *(f"-{k}" for k in range(2, 10**6))))
    return next(name for name in names if not name.exists())


def counted_tables(tables: Mapping[str, SiloTable], persons: Persons | None) -> list[SiloTable]:
    """Return the rows that are measured, silo by silo: of persons, the first row in each silo."""
    if persons is None:
        return list(tables.values())
    kept = zip(tables.values(), replace(persons, keep=1).rows(), strict=True)
    return [replace(table, frame=table.frame.iloc[own.kept]) for table, own in kept]


@without_python_words()
def evaluate_privately(
    model: ReleasedModel,
    tables: Mapping[str, SiloTable],
    screening: Screening,
    words: ResolvedSettings,
    books: LedgerFile,
    by: str | None,
    persons: Persons | None = None,
) -> PrivateEvaluation:
    """Read the rows, find room in the ledger, record and draw; of persons, the first row in each silo is counted."""
    counted = counted_tables(tables, persons)
    rows = ScoredRows.of(model, [(table.frame, table.where) for table in counted], screening, by)
    silos = [name for name, table in zip(tables, counted, strict=True) for _ in range(table.rows)]
    said = words.protection
    people = (said.view.value, said.records_per_person, said.silos_per_person, said.colluders)
    with books.open(lambda _: ledger_columns(tables, persons), words.target.delta, words.protection) as ledger:
        asked = Asked.of(rows, words.target.epsilon, words.target.delta, people, ledger, None, silos, False, said.unit)
        return buy(rows, asked, rows.scores, rows.labels, on=what_is_counted(words, books))


def what_is_counted(words: ResolvedSettings, books: LedgerFile) -> str:
    """Say what a bought figure is about, and where its cost is recorded."""
    kept = "" if books.path is None else f"; recorded in {books.name}"
    what = "persons, the first row of each" if words.protection.unit is Unit.PERSON else "records"
    return f"private {what}, protected from {words.protection.observer}{kept}"


def measurement_of(found: PrivateEvaluation, *, is_recorded: bool) -> Measurement:
    """Return what the model file keeps: accuracy, and beside it AUC and log-loss, as far as they are visible.

    A log-loss that noise leaves open is left out; of an AUC it is said.
    """
    accuracy, others = found.confusion().accuracy, {"AUC": found.roc_auc()}
    if found.has_probabilities:
        others["log-loss"] = found.log_loss()
    seen = {name: each for name, each in others.items() if each.is_determined or (each.is_visible and name == "AUC")}
    return Measurement(
        score="accuracy",
        value=accuracy.value if accuracy.is_visible else 0.5,
        records=found.records,
        on=found.on,
        basis=Basis.ACCOUNTED,
        epsilon=found.privacy.epsilon,
        delta=found.privacy.delta,
        time=found.time,
        uncertainty=accuracy.noise_error if accuracy.is_visible else 0.5,
        others=tuple(OtherFigure(name, each.value, each.noise_error) for name, each in seen.items()),
        is_recorded=is_recorded,
    )


def figures_of(found: PrivateEvaluation, threshold: float | None, group: str | None) -> dict[str, EvaluatedFigure]:
    """Return the figures of one group, or of all records, by their names."""
    at = found.confusion(threshold, group)
    where = f"at {at.threshold:g}"
    probable = {"log-loss": found.log_loss(group)} if found.has_probabilities else {}
    return (
        {"AUC": found.roc_auc(group)}
        | probable
        | {
            f"accuracy {where}": at.accuracy,
            f"sensitivity {where}": at.sensitivity,
            f"specificity {where}": at.specificity,
            f"precision {where}": at.precision,
        }
    )


def text_of(found: PrivateEvaluation, threshold: float | None) -> str:
    """Return the table, group by group, the confusion matrix and the calibration of all records."""
    said = found.privacy
    lines = [
        f"{found.records} {said.protection.counted}{said.protection.counting_note}, "
        f"cost: epsilon {said.epsilon:.4g} at delta {said.delta:.3g}.",
        f"({found.on})" if found.on else "",
        "",
        _HEADER,
        *_table(figures_of(found, threshold, None)),
    ]
    for group in found.groups:
        lines += ["", f"{found.by} = {group}", *_table(figures_of(found, threshold, group))]
    lines += ["", *_confusion(found, threshold)]
    if found.has_probabilities:
        lines += ["", *_calibration(found)]
    return "\n".join([*(line for line in lines[:2] if line), *lines[2:], "", INTERVALS])


def _table(figures: Mapping[str, EvaluatedFigure]) -> list[str]:
    return [f"  {name:22}{_cells(each) if each.is_determined else f'  {each}'}" for name, each in figures.items()]


def _cells(figure: EvaluatedFigure, digits: int = 4) -> str:
    if not figure.is_visible:
        return "  not visible above the noise"
    noise, population = (
        f"{low:.{digits}f} to {high:.{digits}f}" for low, high in (figure.noise_interval, figure.population_interval)
    )
    return f"{figure.value:9.{digits}f}  {noise:>19}  {population:>21}"


def _confusion(found: PrivateEvaluation, threshold: float | None) -> list[str]:
    at, (no, yes) = found.confusion(threshold), found.classes
    what = "probability" if found.has_probabilities else "score"
    rows = [
        ("true positives", at.true_positives),
        ("false positives", at.false_positives),
        ("false negatives", at.false_negatives),
        ("true negatives", at.true_negatives),
    ]
    return [
        f"Predicted {yes!r} above a {what} of {at.threshold:g}, else {no!r} (records)",
        *(f"  {name:22}{_cells(each, 0)}" for name, each in rows),
    ]


def _calibration(found: PrivateEvaluation) -> list[str]:
    lines = ["Share of positives by predicted probability"]
    for part in found.calibration():
        name = f"{part.low:.3f}-{part.high:.3f}, mean {part.predicted:.3f}"
        lines.append(f"  {name:22}{_cells(part.observed, 3)[2 if part.observed.is_visible else 0 :]}")
    return lines


def json_of(found: PrivateEvaluation, threshold: float | None) -> dict[str, Any]:
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
                {"low": part.low, "high": part.high, "predicted": part.predicted, "records": part.records}
                | {"observed": part.observed.as_json()}
                for part in found.calibration(group)
            ]
        return said

    return one(None) | {"by": found.by or None, "groups": {group: one(group) for group in found.groups}}
