"""The report of a trained model: one self-contained HTML page that a data-protection officer can read.

Every text and figure of the page is decided here, in `PageFacts`; the template only prints them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from dpadmm.checks import plural
from dpadmm.core.model import DataLocation, Place, ProcessingDetails, ReleasedModel, SiloFacts
from dpadmm.core.task import Aim
from dpadmm.data.columns import BinaryLabel, Categorical, ThresholdLabel
from dpadmm.inference.intervals import INTERCEPT, CoefficientTable
from dpadmm.methods.base import Topology, by_name
from dpadmm.models.files import write_file
from dpadmm.models.measurement import Basis, Measurement
from dpadmm.models.predict import coefficients_in_units
from dpadmm.models.statement import (
    best_guess,
    collusion_lines,
    connections_text,
    factor_text,
    guess_text,
    location_text,
    meaning_text,
    merge_numbers,
    records_text,
)
from dpadmm.planner.utility import UtilityPoint
from dpadmm.privacy.ledger import Spending
from dpadmm.privacy.ledger.spending import describe_version
from dpadmm.privacy.protection import Strength, View
from dpadmm.report.columns import ColumnPanel, column_panel, format_number, percent
from dpadmm.report.observers import Observer, observed_by, observers

Figures: TypeAlias = Mapping[tuple[str, str], Sequence[float | None]]


class RoundCurve(NamedTuple):
    """One figure per round, with what it means; `rounds` are those in which there is a value."""

    name: str
    meaning: str
    rounds: Sequence[int]
    values: Sequence[float]


class Chart(NamedTuple):
    """A chart with its heading and the curves of its legend."""

    heading: str
    picture: Markup
    curves: Sequence[RoundCurve]


class Mark(NamedTuple):
    """A labelled range of scores, and the measured score in it, if there is one."""

    label: str
    low: float
    high: float
    value: float | None = None


class ScoreStrip(NamedTuple):
    """The ranges that simulations showed and what was measured of the same score, on one scale from low to high."""

    title: str
    caption: str
    marks: Sequence[Mark]
    low: float
    high: float


class Effect(NamedTuple):
    """What one step of a feature adds to the score: a number's step is its scale, a category's is to be it."""

    name: str
    step: str
    change: float


@dataclass(frozen=True, kw_only=True)
class PageFacts:
    """What the page shows of a model beyond what its fields are, in its order."""

    model: ReleasedModel
    spending: Spending | None
    from_whom: str
    meaning: Markup
    responsible: Sequence[tuple[str, str]]
    predicts: str
    method: str
    records: str
    location: str
    connections: str
    proof: str
    collusion: Sequence[tuple[str, str]]
    noise_source: str
    messages: str
    picture_title: str
    observers: Sequence[Observer]
    costs: Sequence[SiloFacts]
    noise: Chart | None
    settling: Chart | None
    panels: Sequence[ColumnPanel]
    panels_cost: str
    coefficients: CoefficientTable | None
    coefficients_picture: Markup | None
    coefficients_note: str
    scores: ScoreStrip | None
    measurements: Sequence[tuple[str, str, str]]
    effects: Sequence[Effect]
    assumptions: Sequence[str]
    commands: Sequence[tuple[str, str]]

    @property
    def is_federated(self) -> bool:
        """Whether every silo kept its records and paid from a ledger of its own."""
        return self.model.location is DataLocation.FEDERATED


def write_report(
    model: ReleasedModel,
    path: Place | None,
    spending: Spending | None,
    name: str | None,
    about: ProcessingDetails,
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
    spending: of the ledger now; left out, as it was when the model was trained.
    place: the model's file, as the commands on the page name it; None if there is none.
    """
    facts = page_facts(model, model.spending if spending is None else spending, place)
    return environment().get_template("report.html").render(facts=facts)


def page_facts(model: ReleasedModel, spending: Spending | None, place: str | None) -> PageFacts:
    """Return what the page shows; see `report_page`."""
    guarantee, known = model.guarantee, by_name().get(model.choice.method)
    noise, settling = _charts(model)
    table, picture, note = _coefficients(model)
    return PageFacts(
        model=model,
        spending=spending,
        from_whom=observed_by(guarantee.protection),
        meaning=_emphasised(meaning_text(guarantee), factor=factor_text(guarantee), guess=guess_text(guarantee)),
        responsible=[(name, " ".join(text.split())) for name, text in vars(model.about).items()],
        predicts=_label_text(model.schema.label),
        method=method_title(model.choice.method) + ("" if known is None else f": {known.about.summary}"),
        records=records_text(model),
        location=location_text(model),
        connections=connections_text(model),
        proof=_proof(model),
        collusion=collusion_lines(guarantee, in_one_process=model.location is DataLocation.ONE_PLACE),
        noise_source=_noise_source(model),
        messages=_messages(model),
        picture_title=f"{plural(len(model.silos), 'silo')}: {connections_text(model)}. "
        f"The guarantee holds against {guarantee.protection.observer}.",
        costs=[silo for silo in model.silos if silo.cost is not None],
        observers=observers(
            guarantee.protection,
            model.choice.topology is Topology.STAR,
            guarantee.is_private_release,
            model.location,
            len(model.silos),
        ),
        noise=noise,
        settling=settling,
        panels=[column_panel(model.profile[column.name]) for column in model.profile.columns] if model.profile else (),
        panels_cost="" if guarantee.profile is None else _part_of(model, guarantee.profile.epsilon),
        coefficients=table,
        coefficients_picture=picture,
        coefficients_note=note,
        scores=_scores(model),
        measurements=[_measurement(each) for each in model.measurements],
        effects=largest_effects(model),
        assumptions=merge_numbers(guarantee.assumptions),
        commands=_commands(model, spending, place),
    )


@cache
def environment() -> Environment:
    """Return what makes pages of templates; it escapes all text."""
    loader = PackageLoader("dpadmm.report")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.globals |= {"percent": percent, "number": figure_text, "best_guess": best_guess, "method_title": method_title}
    made.globals["describe_version"] = describe_version
    return made


def figure_text(value: float) -> str:
    """Return a figure with four digits, an infinite one as text."""
    return f"{value:.4g}" if math.isfinite(value) else "infinite"


def _emphasised(text: str, **facts: str) -> Markup:
    """Return a text in which these figures stand out, each under its name."""
    shown = escape(text)
    for name, figure in facts.items():
        shown = shown.replace(figure, Markup('<strong data-fact="{}">{}</strong>').format(name, figure), 1)
    return shown


def _proof(model: ReleasedModel) -> str:
    """Say what the figure rests on."""
    guarantee = model.guarantee
    declared = f"; the constants declared by {', '.join(guarantee.declared)} are not proved" * bool(guarantee.declared)
    theorems = ", ".join(guarantee.theorems)
    return f"{theorems} of the documentation, proved and tested by attacks; {guarantee.standing}{declared}"


def _noise_source(model: ReleasedModel) -> str:
    """Say where the noise came from."""
    guarantee, source = model.guarantee, "simulated, from a seed"
    if guarantee.is_private_release:
        exact = guarantee.strength is Strength.FULL
        source = "exact discrete noise from the operating system" if exact else "drawn from the operating system"
    return ("" if guarantee.collusion is None else "one share from each silo, which add up in the sum: ") + source


_ENVELOPES = {
    View.EAVESDROPPER: "noisy messages",
    View.AGGREGATE: "masked messages, each with its silo's share of the noise; only their sum can be read",
}


def _messages(model: ReleasedModel) -> str:
    """Say what the envelopes of the picture are, and where the records were."""
    view = model.guarantee.protection.view
    envelopes = f"Lines carry {_ENVELOPES.get(view, 'messages; only the published values carry noise')}."
    if model.location is DataLocation.FEDERATED:
        return f"{envelopes} Records stayed inside the circles."
    if len(model.silos) == 1:
        return envelopes
    return (
        f"{envelopes} In this run the silos were simulated on one machine, which read all records; in a federation, "
        "records stay inside the circles."
    )


def _charts(model: ReleasedModel) -> tuple[Chart | None, Chart | None]:
    """Draw messages beside their noise and what it hides, and how far single rounds and their mean move."""
    rounds, protection = model.history, model.guarantee.protection
    is_sum = protection.view is View.AGGREGATE
    change, what = (protection.change, "the sum") if is_sum else (protection.change_in_one_silo, "a message")
    has_messages = any(each.size is not None for each in rounds)
    of_mean, of_one = ("mean of all messages", "mean message") if has_messages else ("mean estimate", "estimate")
    changed = f"the most that {protection.relation.changing} {change} can move {what} (certified sensitivity)"
    noise: Figures = {
        ("message", f"mean size of {what}, noise included"): [each.size for each in rounds],
        ("noise", f"expected size of the noise in {what}"): [each.noise for each in rounds],
        ("protected change", changed): [each.bound for each in rounds],
    }
    of_previous = f"how far the {of_one} of a round is from that of the previous one, noise included"
    in_mean = [None if each.noise is None else each.noise / math.sqrt(each.messages) for each in rounds]
    movement: Figures = {
        ("average so far", f"how far the {of_mean} so far moved in this round"): [e.average_movement for e in rounds],
        ("one round", of_previous): [each.movement for each in rounds],
        ("noise", "expected size of the noise in the mean message of a round"): in_mean,
    }
    numbers = [each.round for each in rounds]
    return _chart("Noise against signal", numbers, noise), _chart("How the model settles", numbers, movement)


def _chart(heading: str, rounds: Sequence[int], figures: Figures) -> Chart | None:
    """Return a chart of the figures, by name and meaning, that there are in some round."""
    drawn = []
    for (name, meaning), values in figures.items():
        found = {each: value for each, value in zip(rounds, values, strict=True) if value is not None}
        drawn += [RoundCurve(name, meaning, tuple(found), tuple(found.values()))] if found else []
    if not drawn:
        return None
    from dpadmm.report.figures import line_chart  # late: matplotlib is slow to load

    return Chart(heading, line_chart(f"{heading}, by round", drawn), drawn)


def _part_of(model: ReleasedModel, epsilon: float) -> str:
    """Say what a part of the run cost alone."""
    whole = "the ε above" if model.guarantee.is_private_release else "the ε of this run"
    return f"ε = {figure_text(epsilon)} at δ = {figure_text(model.guarantee.delta)}, a part of {whole}"


def _coefficients(model: ReleasedModel) -> tuple[CoefficientTable | None, Markup | None, str]:
    """Return the coefficients of a model that was fitted for them, their picture for one step each, and a note."""
    if model.aim is not Aim.INFERENCE:
        return None, None, ""
    table, picture, steps = model.summary(), None, list[float | None]()
    note = " ".join([table.estimand, *table.notes])
    if model.curvature is not None:
        note += (
            f" The curvature of the loss, which shows how precisely coefficients are known, alone costs "
            f"{_part_of(model, model.curvature.epsilon)}; intervals follow from it and from the noisy gradients, at no "
            "further cost."
        )
    scales = iter(model.encoding.scale)
    for column in model.schema.columns:
        own = [next(scales) for _ in column.feature_names]
        steps += [None] * (len(own) - 1) if isinstance(column, Categorical) else [own[0]]
    if table.has_intervals:
        from dpadmm.report.figures import forest_plot

        bars = []
        for row, step in zip((row for row in table.rows if row.name != INTERCEPT), steps, strict=True):
            if row.low is None or row.high is None:
                continue
            label, times = (row.name, 1.0) if step is None else (f"{row.name} +{format_number(step)}", step)
            bars.append((label, row.low * times, row.coef * times, row.high * times))
        picture = forest_plot("Coefficients with 95 % intervals", bars, table.adds_to)
    return table, picture, note


def _scores(model: ReleasedModel) -> ScoreStrip | None:
    """Return what simulations showed beside what was measured of the same score."""
    expected, measured, caption = model.choice.expected, model.measurements, ""
    if expected is None and not measured:
        return None
    score, marks = measured[0].score if expected is None else expected.score.value, []
    if expected is not None:
        marks = [Mark(f"expected, {each.signal} signal", each.low, each.high) for each in expected.signals]
        ranges = "; ".join(
            f"{each.range} for a {each.signal} signal (a model without privacy reaches {each.non_private:g})"
            for each in expected.signals
        )
        caption = (
            f"{score} on new records, expected before the records were used: the range of {expected.runs} runs on "
            f"synthetic data of the same shape, {ranges}. No plan knows how strong the signal in the records is."
        )
    for each in measured[-3:]:
        found = each.figure(score)
        if found is not None:
            source = "public data" if each.basis is Basis.PUBLIC else "accounted"
            ends = found.value - found.uncertainty, found.value + found.uncertainty
            marks.append(Mark(f"measured ({'in no ledger' if each.is_unrecorded else source})", *ends, found.value))
    if not marks:
        return None
    low, high = min(mark.low for mark in marks), max(mark.high for mark in marks)
    margin = 0.1 * (high - low) or 0.1
    return ScoreStrip(f"Expected and measured {score}", caption, marks, low - margin, high + margin)


def _measurement(measured: Measurement) -> tuple[str, str, str]:
    """Return the figure, on what it was measured, and what allows it to be shown."""
    baseline, others = "", ""
    if measured.baseline is not None:
        trivial = "always the majority class" if measured.score == "accuracy" else "predicting the mean"
        baseline = f" ({trivial}: {measured.baseline:.3f})"
    if measured.others:
        others = f" Also: {', '.join(map(str, measured.others)).replace('+-', '±')}."
    why = "Data declared public: these records are not protected, and the figure costs no privacy."
    if measured.basis is Basis.ACCOUNTED:
        cost = f"cost ε = {figure_text(measured.epsilon)} at δ = {figure_text(measured.delta)} for the records measured"
        no_ledger = ", which no ledger recorded: it is not part of the spending shown" * measured.is_unrecorded
        kind = "Not recorded" if measured.is_unrecorded else "Accounted metric"
        why = f"{kind}: the figure carries noise of its own and {cost}{no_ledger}."
    text = f" on {measured.records} records{baseline}: {measured.on}.{others}"
    return measured.headline.replace("+-", "±"), text, f"{why} {measured.declaration}".strip()


def largest_effects(model: ReleasedModel, most: int = 12) -> list[Effect]:
    """Return the features that move scores most, comparable with each other whatever their units are."""
    slopes, _ = coefficients_in_units(model)
    names = [(column, name) for column in model.schema.columns for name in column.feature_names]
    classes = model.schema.label.classes if model.n_scores > 1 else ("",)
    found = [
        Effect(
            f"{name} (for {each})" if each != "" else name,
            "" if len(column.feature_names) > 1 else f"+{format_number(scale)}",
            float(slope * scale),
        )
        for each, row in zip(classes, slopes, strict=True)
        for (column, name), slope, scale in zip(names, row, model.encoding.scale, strict=True)
    ]
    return sorted(found, key=lambda effect: -abs(effect.change))[:most]


def _commands(model: ReleasedModel, spending: Spending | None, place: str | None) -> list[tuple[str, str]]:
    """Return the commands that check this page, with what each does."""
    guarantee, is_federated = model.guarantee, model.location is DataLocation.FEDERATED
    rows = [
        (
            f"dpadmm audit {model.choice.method} --epsilon {guarantee.epsilon:.6g} --delta {guarantee.delta:g}",
            "Attack the method many times on synthetic records, and compare what the attacker learns with the "
            "certificate. Needs no data.",
        ),
    ]
    if place is not None:
        text = "Print every figure of this page as JSON. A file that was changed is refused."
        rows.append((f"dpadmm report {place} --json", text))
    if is_federated:
        rows.append(_own_ledger(model, place))
    if spending is not None:
        ledger = spending.ledger if is_federated else Path(spending.ledger).name
        rows.append(
            (
                f"dpadmm ledger verify {ledger} --expected-head {spending.head}",
                "Check that the ledger's history is complete and contains the state shown here.",
            )
        )
    return rows


def _own_ledger(model: ReleasedModel, place: str | None) -> tuple[str, str]:
    """Return how the owner of a silo finds the run in its own ledger; a rehearsal over machines has another one."""
    from dpadmm.federation.silo_directory import SiloDirectory
    from dpadmm.federation.terms import NoiseOrigin

    noise = NoiseOrigin.SECURE if model.guarantee.is_private_release else NoiseOrigin.TEST
    ledger = SiloDirectory(Path("SILO")).ledger(noise)
    where = "In each silo, with its own directory for SILO"
    if place is None:
        return f"dpadmm ledger show {ledger}", f"{where}: show what is spent and left, and what this run cost alone."
    text = f"{where}: write a page with what is spent and left there. A ledger without this run is refused."
    return f"dpadmm report {place} --ledger {ledger}", text


_ACRONYMS = {"admm", "ps", "dp", "gd", "sgd", "dgd", "cd", "dvp", "fp"}


def method_title(name: str) -> str:
    """Return a method's name as papers write it.

    >>> method_title("p-admm"), method_title("noisy-gradients"), method_title("dp-sgd")
    ('P-ADMM', 'noisy gradients', 'DP-SGD')
    """
    parts = name.split("-")
    if not any(part in _ACRONYMS for part in parts):
        return " ".join(parts)
    return "-".join(part.upper() if part in _ACRONYMS or len(part) == 1 else part for part in parts)


def _label_text(label: Any) -> str:
    """Return what is predicted.

    >>> _label_text(BinaryLabel("sick", positive=("yes",), negative=("no", "never")))
    'sick: yes, or no / never'
    """
    match label:
        case BinaryLabel():
            return f"{label.name}: {' / '.join(map(str, label.positive))}, or {' / '.join(map(str, label.negative))}"
        case ThresholdLabel():
            return f"{label.name}: whether it is above {label.threshold:g}"
    return label.describe()
