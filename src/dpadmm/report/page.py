"""The report of a trained model: one self-contained HTML page that a data-protection officer can read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dpadmm.core.model import (
    Accountability,
    DataLocation,
    Place,
    ReleasedModel,
    RoundFacts,
    Spending,
)
from dpadmm.core.task import Aim
from dpadmm.data.columns import BinaryLabel, Categorical, ThresholdLabel
from dpadmm.inference.intervals import INTERCEPT, CoefficientTable
from dpadmm.methods.base import Topology, by_name
from dpadmm.models.files import write_file
from dpadmm.models.measurement import Basis, Measurement
from dpadmm.models.predict import coefficients_in_units
from dpadmm.models.statement import collusion_lines, connections_text, location_text, merged, records_text
from dpadmm.planner.utility import UtilityPoint
from dpadmm.privacy.ledger.spending import version_words
from dpadmm.privacy.protection import COVERED, Protection, View, covers
from dpadmm.report.columns import FIRST_SHOWN, column_panel, percent, plain_words


@dataclass(frozen=True)
class RoundCurve:
    """One figure per round, with what it means; `rounds` are the rounds it was seen in."""

    name: str
    meaning: str
    rounds: tuple[int, ...]
    values: tuple[float, ...]

    @classmethod
    def of(cls, name: str, meaning: str, rounds: Sequence[RoundFacts], values: Sequence[float | None]) -> "RoundCurve":
        """Return the curve of the rounds in which there is a value."""
        seen = [(each.round, value) for each, value in zip(rounds, values, strict=True) if value is not None]
        return cls(name, meaning, tuple(k for k, _ in seen), tuple(value for _, value in seen))


@dataclass(frozen=True)
class ChartPanel:
    """A chart with its heading, its caption and the curves its legend names."""

    heading: str
    caption: str
    picture: Markup
    legend: tuple[RoundCurve, ...]


def write_report(
    model: ReleasedModel,
    path: Place | None,
    spending: Spending | None,
    name: str | None,
    about: Accountability,
    budgets: Sequence[UtilityPoint],
) -> str:
    """Return the page, and write it if a path is given; what is not given is as the model's file has it."""
    given = {heading: text for heading, text in vars(about).items() if text}
    shown = replace(model, about=replace(model.about, **given), budgets=tuple(budgets) or model.budgets)
    page = report_page(shown, spending, name)
    if path is not None:
        write_file(Path(path), page.encode(errors="replace"))
    return page


def report_page(model: ReleasedModel, spending: Spending | None = None, place: str | None = None) -> str:
    """Return the page as HTML text.

    Parameters
    ----------
    spending: what the ledger says now; left out, what it said when the model was trained.
    place: the model's file, as the commands on the page name it; None if there is none.
    """
    guarantee, protected = model.guarantee, model.guarantee.protection
    now, profile = spending if spending is not None else model.spending, model.profile
    return (
        environment()
        .get_template("report.html")
        .render(
            model=model,
            guarantee=guarantee,
            choice=model.choice,
            about=_accountability(model.about),
            method=_method_words(model.choice.method),
            summary=known.about.summary if (known := by_name().get(model.choice.method)) else "",
            budgets=_budget_rows(model.budgets, guarantee.epsilon, guarantee.delta),
            view=protected.view.value,
            title=f"{len(model.silos)} silos: {connections_text(model)}. "
            f"The guarantee holds against {protected.observer}.",
            observers=observers(
                protected,
                model.choice.topology is Topology.STAR,
                guarantee.is_private_release,
                model.custody,
                len(model.silos),
            ),
            protected=protected,
            has_sizes=protected.relation.has_public_sizes,
            collusion=collusion_lines(guarantee, in_one_process=model.custody is DataLocation.ONE_PLACE),
            covers=covers("the model"),
            custody=location_text(model),
            records=records_text(model),
            connections=connections_text(model),
            is_federated=model.custody is DataLocation.FEDERATED,
            from_whom=_from_whom(protected),
            messages=_message_words(model),
            factor=math.exp(min(guarantee.epsilon, 700.0)),
            guess=best_guess(guarantee.epsilon, guarantee.delta),
            one_in=_one_in(guarantee.delta),
            spending=now,
            silos=[silo for silo in model.silos if silo.cost is not None],
            kept="its process kept them" if model.custody is DataLocation.FEDERATED else "rehearsed on one machine",
            noise=_figure("Noise against signal", _NOISE_WORDS, noise_curves(model)),
            history=_figure("How the model settles", _HISTORY_WORDS, settling_curves(model)),
            scores=_scores(model),
            measurements=model.measurements,
            is_public=lambda measurement: measurement.basis is Basis.PUBLIC,
            assumptions=merged(guarantee.assumptions),
            columns=tuple(column.describe() for column in model.schema.columns),
            label=_label_words(model.schema.label),
            panels=[] if profile is None else [column_panel(profile[column.name]) for column in profile.columns],
            first_shown=FIRST_SHOWN,
            effects=largest_effects(model),
            intervals=_intervals(model),
            commands=_commands(model, now, place),
            percent=percent,
            number=figure_words,
            version_words=version_words,
        )
    )


_NOISE_WORDS = (
    "Where messages are well above the noise, the model learns; where the two meet, messages are mostly noise. "
    "The noise is far larger than the protected change can move a message: that is what hides the change."
)
_HISTORY_WORDS = (
    "Every round draws fresh noise, so single rounds never settle, and late ones carry more noise; the released "
    "model is an average, which does settle. Both charts are computed from the noisy values alone, which the "
    "guarantee covers. They show no loss or accuracy on the training records, because that would be a further "
    "release that is not accounted for."
)


_ENVELOPES = {
    View.EAVESDROPPER: "noisy messages",
    View.AGGREGATE: "masked messages, each with its silo's share of the noise; only their sum can be read",
}


def _message_words(model: ReleasedModel) -> str:
    """Return what the envelopes are, and where the records were."""
    view = model.guarantee.protection.view
    envelopes = _ENVELOPES.get(view, "messages; only the published values carry noise")
    if model.custody is DataLocation.FEDERATED:
        return f"Lines carry {envelopes}. Records stayed inside the circles."
    if len(model.silos) == 1:
        return f"Lines carry {envelopes}."
    return (
        f"Lines carry {envelopes}. In this run the silos were simulated on one machine, which read all records; "
        "in a federation, records stay inside the circles."
    )


@cache
def environment() -> Environment:
    """Return what makes pages of templates; it escapes all text."""
    loader = PackageLoader("dpadmm.report")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def _accountability(about: Accountability) -> list[tuple[str, str]]:
    """Return the three with their headings; what is empty, or blank, was not stated."""
    return [(heading.capitalize(), " ".join(text.split())) for heading, text in vars(about).items()]


def _one_in(delta: float) -> str:
    return "never" if delta == 0 else f"1 in {1 / delta:,.0f}"


def figure_words(value: float) -> str:
    """Return a figure with four digits, an infinite one in words."""
    return f"{value:.4g}" if math.isfinite(value) else "infinite"


def noise_curves(model: ReleasedModel) -> tuple[RoundCurve, ...]:
    """Return the sizes of messages, of the noise in them, and of what is hidden by it."""
    rounds, protected = model.history, model.guarantee.protection
    is_sum = protected.view is View.AGGREGATE
    change, what = (protected.change, "the sum") if is_sum else (protected.change_in_one_silo, "a message")
    size = "size of the sum, noise included" if is_sum else "mean size of what was sent, noise included"
    noise = f"expected size of the noise in {what}" + (", the shares of all silos" if is_sum else "")
    bound = f"the most that {protected.relation.changing} {change} can move {what} (certified sensitivity)"
    return (
        RoundCurve.of("message", size, rounds, [each.size for each in rounds]),
        RoundCurve.of("noise", noise, rounds, [each.noise for each in rounds]),
        RoundCurve.of("protected change", bound, rounds, [each.bound for each in rounds]),
    )


def settling_curves(model: ReleasedModel) -> tuple[RoundCurve, ...]:
    """Return how far single rounds move, and the mean of all rounds so far; in a federation, of public estimates."""
    rounds = model.history
    noise = [None if each.noise is None else each.noise / math.sqrt(each.messages) for each in rounds]
    average, one = (
        "how far the mean of all messages so far moved in this round",
        "how far the mean message of a round is from that of the previous round, noise included",
    )
    if all(each.size is None for each in rounds):
        average = "how far the mean of all public estimates so far moved in this round"
        one = "how far the public estimate of a round is from that of the previous round"
    return (
        RoundCurve.of("average so far", average, rounds, [each.average_movement for each in rounds]),
        RoundCurve.of("one round", one, rounds, [each.movement for each in rounds]),
        RoundCurve.of("noise", "expected size of the noise in the mean message of a round", rounds, noise),
    )


def _figure(heading: str, caption: str, curves: Sequence[RoundCurve]) -> ChartPanel | None:
    drawn = tuple(curve for curve in curves if curve.rounds)
    if not drawn:
        return None
    from dpadmm.report.figures import line_chart  # late: matplotlib is slow to load

    return ChartPanel(heading, caption, line_chart(f"{heading}, by round", drawn), drawn)


@dataclass(frozen=True)
class Mark:
    """A labelled range on the strip of scores, and the figure in it, if there is one."""

    label: str
    low: float
    high: float
    value: float | None = None


@dataclass(frozen=True)
class ScoreStrip:
    """The ranges that simulations showed and what was measured of the same score, on one scale from low to high."""

    title: str
    marks: Sequence[Mark]
    low: float
    high: float


def _scores(model: ReleasedModel) -> ScoreStrip | None:
    expected, measured = model.choice.expected, model.measurements
    if expected is None and not measured:
        return None
    score = measured[0].score if expected is None else expected.score.value
    marks = [] if expected is None else [Mark(f"expected, {e.signal} signal", e.low, e.high) for e in expected.signals]
    for every in measured[-3:]:
        found = every.figure(score)
        if found is not None:
            ends = found.value - found.uncertainty, found.value + found.uncertainty
            marks.append(Mark(_measured_words(every), *ends, found.value))
    low, high = min(mark.low for mark in marks), max(mark.high for mark in marks)
    room = 0.1 * (high - low) or 0.1
    return ScoreStrip(f"Expected and measured {score}", marks, low - room, high + room)


def _measured_words(measurement: Measurement) -> str:
    if measurement.is_unrecorded:
        return "measured (in no ledger)"
    return "measured (public data)" if measurement.basis is Basis.PUBLIC else "measured (accounted)"


@dataclass(frozen=True)
class IntervalPanel:
    """The table of coefficients of a model that was fitted for intervals, and their picture if these can be told."""

    table: CoefficientTable
    picture: Markup | None


def _intervals(model: ReleasedModel) -> IntervalPanel | None:
    """Return the table, and the intervals for one step of every number, and for categories as they are."""
    if model.aim is not Aim.INFERENCE:
        return None
    table, shown = model.summary(), []
    for row, step in zip((row for row in table.rows if row.name != INTERCEPT), _steps(model), strict=True):
        if row.low is not None and row.high is not None:
            label, times = (row.name, 1.0) if step is None else (f"{row.name} +{plain_words(step)}", step)
            shown.append((label, row.low * times, row.coef * times, row.high * times))
    if not shown:
        return IntervalPanel(table, None)
    from dpadmm.report.figures import forest_plot

    return IntervalPanel(table, forest_plot("Coefficients with 95 % intervals", shown))


def _steps(model: ReleasedModel) -> list[float | None]:
    """Return how far one step of a number is, its scale; None for every category but the first of a column."""
    found: list[float | None] = []
    scales = iter(model.encoding.scale)
    for column in model.schema.columns:
        own = [next(scales) for _ in column.feature_names]
        found += [None] * (len(own) - 1) if isinstance(column, Categorical) else [own[0]]
    return found


@dataclass(frozen=True)
class Effect:
    """What one step of a feature adds to the score: a number's step is its scale, a category's is to be it."""

    name: str
    step: str
    change: float


def largest_effects(model: ReleasedModel, most: int = 12) -> tuple[Effect, ...]:
    """Return the features that move scores most, comparable with each other whatever their units are."""
    slopes, _ = coefficients_in_units(model)
    names = [(column, name) for column in model.schema.columns for name in column.feature_names]
    classes = model.schema.label.classes if model.n_scores > 1 else ("",)
    found = [
        Effect(
            f"{name} (for {each})" if each != "" else name,
            "" if len(column.feature_names) > 1 else f"+{plain_words(scale)}",
            float(slope * scale),
        )
        for each, row in zip(classes, slopes, strict=True)
        for (column, name), slope, scale in zip(names, row, model.encoding.scale, strict=True)
    ]
    return tuple(sorted(found, key=lambda effect: -abs(effect.change))[:most])


def _commands(model: ReleasedModel, spending: Spending | None, place: str | None) -> tuple[tuple[str, str], ...]:
    guarantee = model.guarantee
    target = f"--epsilon {guarantee.epsilon:.6g} --delta {guarantee.delta:g}"
    rows = [
        (
            f"dpadmm audit {model.choice.method} {target}",
            "Attack the method many times on synthetic records, and compare what the attacker learns with the "
            "certificate. Needs no data.",
        ),
    ]
    if place is not None:
        words = "Print every figure of this page as JSON. A file that was changed is refused."
        rows.append((f"dpadmm report {place} --json", words))
    if model.custody is DataLocation.FEDERATED:
        rows.append(_own_ledger(model, place))
    if spending is not None:
        ledger = spending.ledger if model.custody is DataLocation.FEDERATED else Path(spending.ledger).name
        rows.append(
            (
                f"dpadmm ledger verify {ledger} --expected-head {spending.head}",
                "Check that the ledger's history is complete and contains the state shown here.",
            )
        )
    return tuple(rows)


def _own_ledger(model: ReleasedModel, place: str | None) -> tuple[str, str]:
    """Return how the owner of a silo finds the run in its own ledger; a rehearsal over machines has another one."""
    from dpadmm.federation.agreement import NoiseOrigin
    from dpadmm.federation.silo_directory import SiloDirectory

    noise = NoiseOrigin.SECURE if model.guarantee.is_private_release else NoiseOrigin.TEST
    ledger = SiloDirectory(Path("SILO")).ledger(noise)
    where = "In each silo, with its own directory for SILO"
    if place is None:
        return f"dpadmm ledger show {ledger}", f"{where}: show what is spent and left, and what this run cost alone."
    words = (
        f"{where}: write a page that shows what is spent and left there. A ledger that does not contain this run is "
        "refused."
    )
    return f"dpadmm report {place} --ledger {ledger}", words


def best_guess(epsilon: float, delta: float) -> float:
    """Return the most often anybody can be right about one record between two even choices.

    An (epsilon, delta) guarantee bounds the total variation by `(e^eps - 1 + 2 delta)/(e^eps + 1)`, so the best guess
    is right with probability at most `(e^eps + delta)/(e^eps + 1)`.

    >>> round(best_guess(1.0, 0.0), 3), best_guess(0.0, 0.0)
    (0.731, 0.5)
    """
    return min(1.0, (1.0 + delta * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon)))


def _budget_rows(points: Sequence[UtilityPoint], epsilon: float, delta: float) -> list[dict[str, Any]]:
    """Return a row of the table for each budget; `epsilon` is that of the report."""
    return [
        {
            "epsilon": point.epsilon,
            "judged": point.expected.judged,
            "guess": best_guess(point.epsilon, delta),
            "method": _method_words(point.method),
            "is_own": math.isclose(point.epsilon, epsilon, rel_tol=1e-3),
        }
        for point in points
    ]


_SHORT = {"admm", "ps", "dp", "gd", "sgd", "dgd", "cd", "dvp", "fp"}


def _method_words(name: str) -> str:
    """Return a method's name as papers write it.

    >>> _method_words("p-admm"), _method_words("noisy-gradients"), _method_words("dp-sgd")
    ('P-ADMM', 'noisy gradients', 'DP-SGD')
    """
    parts = name.split("-")
    if not any(part in _SHORT for part in parts):
        return " ".join(parts)
    return "-".join(part.upper() if part in _SHORT or len(part) == 1 else part for part in parts)


def _label_words(label: Any) -> str:
    """Return what is predicted.

    >>> _label_words(BinaryLabel("sick", positive=("yes",), negative=("no", "never")))
    'sick: yes, or no / never'
    """
    match label:
        case BinaryLabel():
            sides = (" / ".join(map(str, values)) for values in (label.positive, label.negative))
            return f"{label.name}: {', or '.join(sides)}"
        case ThresholdLabel():
            return f"{label.name}: whether it is above {label.threshold:g}"
    return label.describe()


@dataclass(frozen=True)
class Observer:
    """One row of the table of observers."""

    name: str
    sees: str
    is_covered: bool
    verdict: str


_SEEN = {
    View.EAVESDROPPER: ("Someone on the network", "every message of every round, and the final model"),
    View.COORDINATOR: ("The coordinator", "every message that is sent to it"),
    View.PEER: ("Another silo", "the messages that reach it, and its own records"),
    View.PUBLIC: ("Whoever receives the model", "the final model"),
}


# Of masked messages only the sum can be read.
_SEEN_OF_SUMS = {
    View.EAVESDROPPER: ("Someone on the network", "masked messages, of which only the sum can be read, and the model"),
    View.COORDINATOR: ("The coordinator", "the sum of all silos' messages, with the noise of all"),
    View.PUBLIC: _SEEN[View.PUBLIC],
}


_FROM_WHOM = {
    View.EAVESDROPPER: "anyone who sees every message of the training and the final model",
    View.COORDINATOR: "the coordinator, who sees every message that is sent to it, and from whoever receives the model",
    View.PEER: "any other silo, which sees the messages that reach it",
    View.PUBLIC: "anyone who receives what the coordinator publishes, not from the coordinator or an eavesdropper",
}


def _from_whom(protection: Protection) -> str:
    """Say whom the guarantee names, in the words of the page.

    >>> _from_whom(Protection(view=View.AGGREGATE, colluders=0))
    'the coordinator, who sees sums, and from outsiders, but not from a curious silo'
    """
    if protection.view is not View.AGGREGATE:
        return _FROM_WHOM[protection.view]
    silos = ", but not from a curious silo" if protection.n_colluders == 0 else ""
    return f"{protection.observer}, and from outsiders{silos}"


def observers(
    protection: Protection, has_coordinator: bool, is_release: bool, location: DataLocation, n_silos: int = 2
) -> tuple[Observer, ...]:
    """Return everybody who may be looking; a coordinator or another silo only if there is one.

    Last comes whoever has the records as they are: with silos simulated in one place, the machine that read them all.
    """
    absent = {View.COORDINATOR} if not has_coordinator else set()
    absent |= {View.PEER} if n_silos == 1 else set()
    if protection.view is View.AGGREGATE:
        seen = [(each, True) for each in _SEEN_OF_SUMS.values()] + _silos_that_look(protection.n_colluders, n_silos)
    else:
        seen = [(row, each in COVERED[protection.view]) for each, row in _SEEN.items() if each not in absent]
    rows = []
    for who, is_named in seen:
        is_covered = is_release and is_named
        rows.append(Observer(*who, is_covered, "protected" if is_covered else "not protected"))
    holder = ("The silo that holds the record", "its own records")
    if location is DataLocation.ONE_PLACE and n_silos > 1:
        holder = ("The machine that ran the training", "all records of all silos")
    return (*rows, Observer(*holder, False, "in the clear"))


def _silos_that_look(counted: int, n_silos: int) -> list[tuple[tuple[str, str], bool]]:
    """Return the silos that see sums: as many as the guarantee counts, and more of them, with what they know."""
    one, several = "the sums, and its own share of the noise", "the sums, and their own shares of the noise"
    some = ("Another silo", one) if counted == 1 else (f"Up to {counted} other silos together", several)
    more = (
        ("Another silo", one)
        if counted == 0
        else (f"More than {counted} other silo{'s' * (counted > 1)} together", several)
    )
    listed = [(some, True)] if counted else []
    return [*listed, (more, False)] if n_silos - 1 > counted else listed
