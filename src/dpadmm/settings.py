"""Every setting of a fit, listed once: type, default, help, panel of the command line, and check.

The commands' options, `dpadmm.fit`, `dpadmm.plan` and the estimators read these fields. Common settings are
fields of `FitSettings`; the rest are in small frozen records, which the command line spells as plain options.
"""

import codecs
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache, partial
from inspect import cleandoc
from pathlib import Path
from textwrap import indent
from types import UnionType
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, get_args, get_origin

from dpadmm import checks
from dpadmm.errors import InputError

CELLS, MODEL, OUTPUT, PRIVACY, TABLES = "Awkward cells", "Model", "Output", "Privacy", "How tables are written"
READERS = "For the readers of the report"

Check = Callable[[str, Any], object]
Record = TypeVar("Record", bound="SettingsRecord")


def setting(
    default: Any,
    help_text: str,
    *,
    panel: str | None = None,
    check: Check | None = None,
    option: str | None = None,
    metavar: str | None = None,
    typed: Any = None,
    on_command_line: bool = True,
) -> Any:
    """Return the field of a setting.

    help_text: for --help and docstrings. panel: of the command line, where it is not that of its record. check: refuses
    values that no data could make right; a default of None is not checked. option: its name on the command line, where
    that differs. typed: its type there, where it is simpler than in Python.
    """
    facts = {"help": help_text, "panel": panel, "check": check, "option": option, "metavar": metavar, "typed": typed}
    return field(default=default, metadata=facts | {"on_command_line": on_command_line})


def like(record: type, name: str) -> Any:
    """Return a field with the default of this setting of a record."""
    (found,) = (each for each in fields(record) if each.name == name)
    return field(default=found.default, metadata=found.metadata)


def _documented(made: type[Record]) -> type[Record]:
    """Give the docstring of a record an entry for each of its settings."""
    entries = [f"{name} : {type_text(type_)}\n{indent(by_name(made)[name].metadata['help'], '    ')}"
               for name, type_ in types_of(made).items()]  # fmt: skip
    made.__doc__ = "\n".join([cleandoc(made.__doc__ or ""), "", "Parameters", "----------", *entries])
    return made


def types_of(record: Any) -> dict[str, Any]:
    """Return the types of a record's settings by name."""
    return {each.name: each.type for each in fields(record)}


def by_name(record: Any) -> dict[str, "Field[Any]"]:
    """Return the fields of a record by name."""
    return {each.name: each for each in fields(record)}


def type_text(kind: Any) -> str:
    """Return a type as docstrings write it.

    >>> type_text(Literal["auto", "off"] | None), type_text(float)
    ("'auto', 'off' or None", 'float')
    """
    if get_origin(kind) is Literal:
        return ", ".join(map(repr, get_args(kind)))
    if isinstance(kind, UnionType) or type(None) in get_args(kind):
        return " or ".join(map(type_text, get_args(kind)))
    return "None" if kind is type(None) else getattr(kind, "__name__", str(kind))


def literals(kind: Any) -> tuple[Any, ...]:
    """Return the values of a `Literal` in a type; none where there is none."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return next((found for each in get_args(kind) if (found := literals(each))), ())


@cache
def _rules(record: Any) -> tuple[tuple["Field[Any]", bool, tuple[str, ...]], ...]:
    """Return the fields of a record, whether each is a path, and the literals that it allows."""
    return tuple((each, Path in get_args(each.type), literals(each.type)) for each in fields(record))


@dataclass(frozen=True, kw_only=True)
class SettingsRecord:
    """What records of settings share: every value is checked when it is set; defaults are valid."""

    panel: ClassVar[str] = PRIVACY

    def __post_init__(self) -> None:
        """Refuse what no data could make right; take paths as text, and lists as tuples."""
        record: Any = type(self)
        for each, is_path, allowed in _rules(record):
            name, value = each.name, getattr(self, each.name)
            if value is each.default:
                continue
            if is_path and isinstance(value, str | os.PathLike):
                object.__setattr__(self, name, Path(value))
            if isinstance(value, list) and get_origin(each.type) is tuple:
                object.__setattr__(self, name, tuple(value))
            if allowed:
                checks.one_of(name, value, allowed)
            if each.type is bool:
                checks.boolean(name, value)
            if each.metadata.get("check") is not None:
                each.metadata["check"](name, value)

    def stated(self, *names: str) -> list[str]:
        """Return those of these settings that differ from their defaults."""
        return [name for name in names if getattr(self, name) != getattr(type(self), name, MISSING)]


def _count(least: int) -> Check:
    return partial(checks.count, least=least)


def _ratio(name: str, value: Any) -> None:
    if not 0 <= checks.finite(name, value) <= 1:
        checks.refuse(name, "lie between 0 (ridge) and 1 (lasso)", value)


def _auc(name: str, value: Any) -> None:
    if not 0.5 < checks.finite(name, value) < 1:
        more = " It is the AUC that a model without privacy reaches on new records."
        checks.refuse(name, "lie strictly between 0.5 and 1", value, more)


def _weights(name: str, value: Any) -> None:
    if not isinstance(value, Mapping) or not value:
        more = " How often classes occur is private: state weights, or frequencies you know without these data."
        checks.refuse(name, "be None or {class: weight} with public numbers", value, more)
    for weight in value.values():
        checks.positive("every weight of a class", weight)


@_documented
@dataclass(frozen=True, kw_only=True)
class Privacy(SettingsRecord):
    """Who is protected, and what is assumed about people, beside epsilon, delta and view."""

    unit: Literal["record", "person", "user"] | None = setting(
        None,
        "What is protected: one record, a person with all their rows (see --person), or a user with all records "
        "of a silo. Default: person with --person, else the ledger's, else record.",
    )
    neighbours: Literal["replace-one", "add-remove"] | None = setting(
        None,
        "Neighbouring data sets: one record replaced (sizes are public), or one added or removed (sizes are "
        "secret). Default: the ledger's, else replace-one.",
    )
    nominal_records: int | None = setting(
        None, "With add-remove: a public number in place of the secret one of records.", check=checks.count
    )
    records_per_person: int | None = setting(
        None, "Most records that one person has in a silo. Default: the ledger's, else 1.", check=checks.count
    )
    silos_per_person: int | None = setting(
        None, "Most silos in which one person has records. Default: the ledger's, else 1.", check=checks.count
    )
    keep: int | None = setting(
        None,
        "With --person: use at most so many rows of a person in each silo, the first. The guarantee is the same.",
        check=checks.count,
    )
    colluders: int | None = setting(
        None, "With --view aggregate: how many silos may collude with the coordinator. Default: 1.", check=_count(0)
    )


_NAMED = {"tab": "\t", r"\t": "\t", "comma": ",", "semicolon": ";", "bar": "|", "point": "."}
_WITH_STATE = ("iso2022", "hz", "utf_7")


def _separator(name: str, value: Any) -> None:
    if not isinstance(value, str) or len(value) != 1 or value in '"\r\n' or value.isalnum():
        checks.refuse(name, "be one character between cells, such as , or ; (or tab)", value)


def _mark(name: str, value: Any) -> None:
    if value not in (".", ","):
        checks.refuse(name, "be . or , (a point or a comma)", value)


def _encoding(name: str, value: Any) -> None:
    try:
        codec = codecs.lookup(value).name.replace("-", "_")
        "".encode(codec)
    except (LookupError, TypeError, ValueError):
        checks.refuse(name, "name a text encoding, such as utf-8, cp1252 or latin-1", value)
    if codec.startswith(_WITH_STATE):
        more = " There one cell may decide how all later ones are read. Save the file as UTF-8."
        checks.refuse(name, "be an encoding without states", value, more)


def _texts(name: str, values: Any) -> None:
    if not isinstance(values, list | tuple) or not all(isinstance(each, str) for each in values):
        checks.refuse(name, "be a list of strings", values)


@_documented
@dataclass(frozen=True, kw_only=True)
class TableFormat(SettingsRecord):
    """How tables are written, where they do not show it themselves; None where nothing was stated."""

    panel = TABLES

    sep: str | None = setting(
        None, "Separator of text files: , ; | or tab. Default: that of the header.", check=_separator
    )
    decimal: str | None = setting(
        None,
        "Decimal mark of text files, . or , (1.234,5). Default: a point; between semicolons, the mark of each cell, "
        "and one that either mark fits (1.234) is refused.",
        check=_mark,
    )
    encoding: str | None = setting(None, "Encoding of text files, such as cp1252. Default: utf-8.", check=_encoding)
    na_values: tuple[str, ...] = setting(
        (), "Word for a missing value; may be repeated.", metavar="WORD", typed=list[str] | None, check=_texts
    )
    header: bool | None = setting(
        None,
        "Whether the first line names the columns. Without a header they are column1, column2, ...",
        option="--header/--no-header",
        check=checks.boolean,
    )

    def __post_init__(self) -> None:
        """Take names of marks as the marks."""
        for name in ("sep", "decimal"):
            value = getattr(self, name)
            object.__setattr__(self, name, _NAMED.get(value, value) if isinstance(value, str) else value)
        super().__post_init__()
        if self.sep == self.decimal == ".":
            raise InputError("The separator and the decimal mark cannot both be a point. Change one of them.")

    @property
    def has_header(self) -> bool:
        """Whether the first line names the columns, as it does unless stated otherwise."""
        return self.header is not False


@_documented
@dataclass(frozen=True, kw_only=True)
class TableOptions(TableFormat):
    """How tables are written, and how they are read."""

    stream: bool | None = setting(
        None,
        "Read Parquet files in passes, in little memory. Left out, files of more than 1 GB of cells are.",
        option="--stream/--no-stream",
    )
    scratch: str | None = setting(
        None,
        "Folder for a private copy of a streamed table's encoded rows, which is gone when the run ends: that for "
        "temporary files, if left out. With off, every pass reads and encodes the table again.",
        metavar="FOLDER",
    )
    cluster: Any = setting(
        None,
        "Let the workers of a Dask cluster read the Parquet files: tcp:// or tls://HOST:PORT of its scheduler, in "
        "Python also a Client. They must see the same files.",
        metavar="ADDRESS",
        typed=str | None,
    )


Missing: TypeAlias = Literal["error", "fill", "blank"]
Unlisted: TypeAlias = Literal["error", "zero", "blank"]
OutOfRange: TypeAlias = Literal["clip", "error"]


@_documented
@dataclass(frozen=True, kw_only=True)
class CellRules(SettingsRecord):
    """What to do with awkward cells of a table with a schema. An empty or unlisted label always blanks its row.

    A blank row is counted, but all its features are 0, so it says nothing.
    """

    panel = CELLS

    missing: Missing = setting(
        "error", "Missing value: refuse it (error), fill in the column's centre, or blank the row."
    )
    unlisted: Unlisted = setting(
        "error",
        "Category that the schema does not list: refuse it (error), encode it as none (zero), or blank the row.",
    )
    out_of_range: OutOfRange = setting(
        "clip", "Number outside its bounds: move it to the nearest (clip), or refuse it (error)."
    )


@_documented
@dataclass(frozen=True, kw_only=True)
class TrainingOptions(SettingsRecord):
    """What is fitted and how, beside aim, method and alpha."""

    panel = MODEL

    l1_ratio: float = setting(0.0, "Share of the L1 norm in the penalty: 0 is ridge, 1 is lasso.", check=_ratio)
    fit_intercept: bool = setting(
        True,
        "Whether the model has an intercept: a constant feature, penalised like the rest.",
        option="--intercept/--no-intercept",
    )
    loss: Literal["auto", "logistic", "svm", "huber", "poisson"] = setting(
        "auto", "Loss. auto: logistic, or huber for a number. poisson: for counts with public bounds (0, ceiling)."
    )
    exposure: str | None = setting(
        None, "With poisson: numeric column of the schema with what each count was taken over, such as days."
    )
    slope_cap: float | None = setting(
        None,
        "Logistic loss: cap the slope of a record's loss, in (0, 1), so that less noise is needed (try 0.7). Scores "
        "are then no log-odds; probabilities follow the loss that was fitted.",
        check=checks.open_unit,
    )
    multi_class: Literal["auto", "softmax", "one-vs-rest"] = setting(
        "auto", "Three or more classes: one softmax model, or one per class. auto: by simulation."
    )
    topology: Any = setting(
        "auto",
        "Which silos talk to each other, for methods without a coordinator; in Python also a graph.",
        typed=Literal["auto", "complete", "ring", "path", "star"],
    )
    profile: Literal["auto", "off"] = setting(
        "auto",
        "Noisy counts of the columns, for a part of the budget: where they pay, or never.",
    )
    profile_share: float | None = setting(
        None,
        "Share of the squared budget m^2 for the column profile, in (0, 1). Default: chosen by the planner.",
        check=checks.open_unit,
    )
    prevalence: float | None = setting(
        None, "Share of the positive class, if it is public; plans are then for it.", check=checks.open_unit
    )
    expected_auc: float | None = setting(
        None, "AUC that a model without privacy reaches, if known from elsewhere, never from these records.", check=_auc
    )
    expected_r2: float | None = setting(
        None, "As --expected-auc, if the target is a number: its R^2.", check=checks.open_unit
    )
    row_norm: float | None = setting(
        None,
        "For arrays: public bound on the norm of a row; longer rows are shortened. With feature_bounds, features "
        "are then scaled to -1..1 and nothing is counted.",
        check=checks.positive,
        on_command_line=False,
    )
    threshold: float | None = setting(
        None, "For estimators: predict the second of two classes above this probability.", on_command_line=False
    )
    wanted: tuple[str, ...] = setting(
        (),
        "With inference: a column, or column=category, without which the fit is of no use; may be repeated. If there "
        "is no hope of its interval, the fit stops with only the column profile spent.",
        metavar="COEFFICIENT",
        typed=list[str] | None,
        check=_texts,
    )
    anyway: bool = setting(False, "Train even if no useful model is expected. Estimators always do, with a warning.")


@_documented
@dataclass(frozen=True, kw_only=True)
class OutputFiles(SettingsRecord):
    """Files to write, and what reports say about the processing."""

    panel = OUTPUT

    model: Path | None = setting(None, "Model file to write, .json or .npz. Default: model.json.", option="--out")
    report: Path | None = setting(None, "Also write the HTML report here.")
    title: str | None = setting(None, "Title of the report.")
    purpose: str = setting("", "Why the data are processed.", panel=READERS)
    controller: str = setting("", "Who is responsible for the processing.", panel=READERS)
    contact: str = setting("", "Whom to ask, such as a data-protection officer.", panel=READERS)
    force: bool = setting(False, "Replace existing files.")


@_documented
@dataclass(frozen=True, kw_only=True)
class FitSettings(SettingsRecord):
    """What a fit takes, beside its data."""

    epsilon: float = setting(MISSING, "Privacy budget of this run, > 0.", check=checks.positive)
    delta: float = setting(
        MISSING, "Probability that the epsilon bound fails, in (0, 1), well below 1 / records.", check=checks.open_unit
    )
    schema: Any = setting(
        None, "Schema: public bounds and categories. Draft one with `dpadmm schema init`.", panel="", typed=Path | None
    )
    target: str | None = setting(None, "Column to predict; must be the label of the schema.", panel="")
    split_by: str | None = setting(None, "Column whose values split one file into silos.", panel="", metavar="COLUMN")
    person: str | None = setting(
        None,
        "Person ID of each row. A person is protected with all their rows, which together count as one record.",
        metavar="COLUMN",
    )
    view: Literal["eavesdropper", "coordinator", "peer", "public", "aggregate"] | None = setting(
        None,
        "Whom it is protected from: eavesdropper sees every message, aggregate sums of masked messages. Default: the "
        "ledger's, else eavesdropper.",
    )
    aim: Literal["prediction", "inference"] = setting(
        "prediction",
        "inference: ordinary regression coefficients with confidence intervals, for a part of the budget.",
        panel=MODEL,
    )
    method: str = setting("auto", "Method: auto, or a name from `dpadmm methods`.", panel=MODEL)
    alpha: float | None = setting(
        None,
        "Weight of the penalty, >= 0. Default: a small ridge, chosen by the planner.",
        panel=MODEL,
        check=checks.non_negative,
    )
    class_weight: Mapping[Any, float] | None = setting(
        None,
        "Public weight of the records of a class, 1 if not named; may be repeated.",
        panel=MODEL,
        check=_weights,
        metavar="CLASS=WEIGHT",
        typed=list[str] | None,
    )
    ledger: Any = setting(
        None, "Ledger that records what is spent on these data, and enforces their budget.", typed=Path | None
    )
    budget: float | None = setting(None, "For a new ledger: the most epsilon these data may ever spend.")
    seed: int | None = setting(
        None,
        "Use seeded noise. The result is not a private release.",
        option="--simulate",
        metavar="SEED",
        check=_count(0),
    )
    out: OutputFiles = setting(None, "Model file to write, .json or .npz, or an `OutputFiles`.")
    privacy: Privacy = setting(None, "Who is protected, and what is assumed about people.")
    table: TableOptions = setting(None, "How tables are written and read.")
    cells: CellRules = setting(None, "What to do with awkward cells.")
    training: TrainingOptions = setting(None, "What is fitted and how.")

    def __post_init__(self) -> None:
        """Take a path for the files to write, and None for records of all defaults."""
        if isinstance(self.out, str | os.PathLike):
            object.__setattr__(self, "out", OutputFiles(model=Path(self.out)))
        super().__post_init__()
        for name, kind in RECORDS.items():
            value = getattr(self, name)
            if value is None:
                object.__setattr__(self, name, kind())
            elif not isinstance(value, kind):
                checks.refuse(name, f"be a dpadmm.{kind.__name__}(...) or None", value)


RECORDS: dict[str, type[SettingsRecord]] = {
    "out": OutputFiles,
    "privacy": Privacy,
    "table": TableOptions,
    "cells": CellRules,
    "training": TrainingOptions,
}
"""The records that stand for several settings, by the names of their parameters."""


_NOT_WITH = {
    "": "",
    "public": "epsilon delta budget person view threshold by plot out earlier",
    "epsilon": "declare earlier",
    "earlier": "delta declare ledger budget split_by person view by out",
}


@_documented
@dataclass(frozen=True, kw_only=True)
class EvaluationSettings(SettingsRecord):
    """How a model is measured: exactly on public data, by figures of private data, or by an earlier evaluation."""

    public: str | None = setting(
        None, "Declare these data public, and say why. The figures are then exact and cost nothing.", metavar="WHY"
    )
    declare: Literal["held-out", "published"] | None = setting(
        None,
        "With --public: no row was used for training (held-out), or all rows are public. Recorded in the model file.",
    )
    epsilon: float | None = setting(
        None, "For private data: what all figures together may spend, > 0.", check=checks.positive
    )
    delta: float | None = setting(
        None, "With --epsilon: probability that the epsilon bound fails, in (0, 1).", check=checks.open_unit
    )
    ledger: Path | None = setting(None, "Ledger of these data; with --public: of the training data.")
    budget: float | None = setting(None, "For a new ledger: the most epsilon these data may ever spend.")
    person: str | None = like(FitSettings, "person")
    view: Literal["eavesdropper", "aggregate"] = setting(
        "eavesdropper",
        "With --epsilon: whom it is protected from. aggregate sees only sums of masked counts (one file per silo).",
    )
    split_by: str | None = like(FitSettings, "split_by")
    threshold: float | None = setting(
        None, "Two classes: predict the positive class above this probability. Default: 0.5.", panel=MODEL
    )
    by: str | None = setting(
        None, "Also show figures by group: a column whose categories the schema lists.", panel=OUTPUT, metavar="COLUMN"
    )
    plot: Path | None = setting(None, "Draw ROC and calibration curves, .svg or .png.", panel=OUTPUT)
    out: Path | None = setting(
        None, "File for the private evaluation, .json. Default: a new file beside the model.", panel=OUTPUT
    )
    earlier: Path | None = setting(
        None,
        "Show figures of an earlier private evaluation: reads no data, costs nothing.",
        panel="",
        option="--from",
        metavar="FILE",
    )
    record: bool = setting(True, "Record the figures in the model file.", panel=OUTPUT, option="--record/--no-record")
    force: bool = like(OutputFiles, "force")

    def __post_init__(self) -> None:
        """Refuse what does not belong together: there are three ways to measure, each with settings of its own."""
        super().__post_init__()
        called, basis = checks.option_name, next(iter(self.stated("public", "epsilon", "earlier")), "")
        public, strange = str(self.public), next(iter(self.stated(*_NOT_WITH[basis].split())), "")
        wrong = [
            (
                "epsilon",
                "missing",
                not basis
                and f"Add {called('public', 'WHY')} if the data are not private, or {called('epsilon')} and "
                f"{called('delta')} for noisy figures of private data.",
            ),
            (strange, "combination", strange and f"{called(strange)} does not go with {called(basis)}. Leave it out."),
            (
                "delta",
                "missing",
                (basis, self.delta) == ("epsilon", None)
                and f"{called('epsilon')} needs {called('delta')} as well, for instance 1e-6.",
            ),
            (
                "public",
                "value",
                not public.strip()
                and f"{called('public')} needs a reason, such as 'published by the registry in 2020'.",
            ),
            (
                "declare",
                "missing",
                (basis, self.declare) == ("public", None)
                and "Exact figures of training records would reveal something about them. Add "
                f"{called('declare', 'held-out')} (no row was used for training) or {called('declare', 'published')} "
                "(all rows are published). The declaration is recorded.",
            ),
            (
                "ledger",
                "combination",
                (self.declare, self.ledger is None) == ("published", False)
                and f"Published rows need no ledger. Leave out {called('ledger')}, or declare them held-out.",
            ),
        ]
        for name, code, text in wrong:
            if text:
                raise InputError(text, setting=name, code=code)
        for name, suffixes in (("plot", (".svg", ".png")), ("out", (".json",))):
            place = getattr(self, name)
            if place is not None and place.suffix not in suffixes:
                checks.refuse(name, f"end in {' or '.join(suffixes)}", str(place))
