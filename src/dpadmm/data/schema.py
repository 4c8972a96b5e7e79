"""A schema: what a table may hold, stated before anybody looks at the private rows."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dpadmm import checks
from dpadmm.checks import nearest, plural, safe_repr
from dpadmm.codec import decode
from dpadmm.data.columns import (
    AnyNumber,
    ArrayLabel,
    BinaryLabel,
    Categorical,
    ClassLabel,
    Column,
    Label,
    Numeric,
    RealLabel,
    ThresholdLabel,
    record_of,
)
from dpadmm.data.encoding import CONSTANT, RowEncoding
from dpadmm.data.profile import ProfileForm, ReleasedProfile
from dpadmm.errors import InputError
from dpadmm.files import parse_json, read_text

if TYPE_CHECKING:
    import pandas as pd

    from dpadmm.data.draft import SchemaDraft

FORMAT = "dpadmm-schema"
VERSION = 1
UNSTATED: Any = "default"
"""Of a schema's `constant`: there is an intercept, as always unless the schema states None."""

MARK = "FILL IN"
"""How the placeholders of a draft begin."""

ASKED = {
    "lower": "the lowest value it can take, as a number, known without looking at the data (such as 0)",
    "upper": "the highest value it can take, as a number, known without looking at the data (such as 120)",
    "typical": "null, or a usual value, as a number, known without looking at the data (such as 45)",
    "categories": 'every value it can take, known without looking at the data (such as ["F", "M"])',
    "positive": 'the values that mean yes (such as ["sick"]; three classes or more: --predict several-classes)',
    "negative": 'the values that mean no (such as ["healthy"])',
    "classes": 'every class, three or more, known without looking at the data (such as ["early", "middle", "late"])',
}
"""What a draft asks for, by the key where it is to be written."""

_COLUMNS: dict[str, Callable[..., Column]] = {kind.kind: kind for kind in (Numeric, Categorical, AnyNumber)}
_LABELS: dict[str, Callable[..., Label]] = {
    kind.kind: kind for kind in (BinaryLabel, ClassLabel, ThresholdLabel, RealLabel, ArrayLabel)
}

_LARGEST_NORM = 1e100  # beyond which squares are no numbers any more
_KEYS = {"format", "version", "row_norm", "constant", "label", "columns", "is_array"}
_REMEDY = "Correct it, or draft a new schema with `dpadmm schema init`."

T = TypeVar("T")


@dataclass(frozen=True)
class Schema:
    """Ordered columns, a label and the norm bound that every encoded row keeps.

    Rows of centred and scaled numbers and one-hot categories are shortened to a radius and brought to the norm
    `row_norm` (`encoding.RowEncoding`). A last feature of value `constant` is added for an intercept, and the whole row
    still keeps the norm. Nothing here depends on the data: bounds, categories and norm are stated, not fitted, so
    encoding one row does not depend on another.

    Fits add the constant feature, or leave it out, as their setting `fit_intercept` says; a federation takes the schema
    as it is.

    Parameters
    ----------
    columns: one or more `Numeric` or `Categorical` columns, with distinct names.
    label: `BinaryLabel`, `ClassLabel`, `ThresholdLabel` or `RealLabel`, or of an array `ArrayLabel`; not a column.
    row_norm: the bound > 0 on the Euclidean norm of an encoded row.
    constant: the intercept's feature, in (0, row_norm); left out, 0.3 times row_norm. None states that there is no
        intercept: columns are centred, so such a model predicts even odds, or the middle of the range, for a row in
        the centre, whatever the base rate is.
    is_array: its columns are those of an array of numbers, from left to right (see `of_array`). Rows to predict may
        then be an array, predicted classes have the type of the classes, and predicted numbers may leave the range.

    >>> schema = Schema((Numeric("age", 0, 100), Categorical("sex", ("F", "M"))), ThresholdLabel("pay", 1000))
    >>> schema.feature_names
    ('age', 'sex=F', 'sex=M', 'constant')
    """

    columns: tuple[Column, ...]
    label: Label
    row_norm: float = 1.0
    constant: float | None = UNSTATED
    is_array: bool = False

    def __post_init__(self) -> None:
        """Refuse schemas that contradict themselves."""
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "row_norm", checks.positive("row_norm", self.row_norm))
        if self.row_norm > _LARGEST_NORM:
            raise InputError(f"row_norm must be at most {_LARGEST_NORM:g}, got {self.row_norm:g}.")
        if self.constant is UNSTATED:
            object.__setattr__(self, "constant", CONSTANT * self.row_norm)
        if not self.columns:
            raise InputError("A schema needs at least one column; got none.")
        names = Counter([*self.column_names, self.label.name])
        repeated = sorted(name for name, number in names.items() if number > 1)
        if repeated:
            raise InputError(f"Column and label names must be distinct; repeated: {', '.join(repeated)}.")
        if self.constant is not None and not 0 < checks.finite("constant", self.constant) < self.row_norm:
            raise InputError(
                f"constant must lie strictly between 0 and row_norm {self.row_norm:g}, got {safe_repr(self.constant)}."
            )

        if self.is_array and any(isinstance(column, Categorical) for column in self.columns):
            raise InputError("The columns of an array are numbers. Leave out is_array, or the categories.")

    @classmethod
    def of_array(
        cls,
        names: Sequence[str],
        label: Label,
        bounds: tuple[Sequence[float], Sequence[float]] | None = None,
        *,
        has_intercept: bool = True,
    ) -> "Schema":
        """Return the schema of an array of numbers, from the names of its columns and, if stated, their bounds.

        >>> Schema.of_array(["age", "pay"], ArrayLabel("sick", (0, 1))).columns[1].describe()
        'pay: any number'
        """
        columns: list[Column]
        if bounds is None:
            columns = [AnyNumber(name) for name in names]
        else:
            columns = [Numeric(name, low, high) for name, low, high in zip(names, *bounds, strict=True)]
        return cls(tuple(columns), label, constant=UNSTATED if has_intercept else None, is_array=True)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns in the table, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded features, in order."""
        names = tuple(name for column in self.columns for name in column.feature_names)
        return names if self.constant is None else (*names, "constant")

    @property
    def dimension(self) -> int:
        """Number of encoded features d."""
        return len(self.feature_names)

    def encoding(self, clip_radius: float, profile: ReleasedProfile | None = None) -> RowEncoding:
        """Return how rows are encoded: by public knowledge alone, or by a profile that was released.

        clip_radius: the radius to which rows are shortened, in units of a usual row's norm.
        """
        scales = [each.usual_scale() for each in self.columns] if profile is None else profile.scales(self.columns)
        return RowEncoding.of(scales, clip_radius=clip_radius, row_norm=self.row_norm, constant=self.constant)

    def encoding_for_coefficients(
        self, radius: float, profile: ReleasedProfile | None = None, *, scales_target: bool = False
    ) -> RowEncoding:
        """Return the encoding whose rows keep their length, within public bounds alone; long ones count less.

        A number to predict is centred and scaled by the profile, which counts it after the columns.
        """
        counted = [*self.columns, *(self.target_columns if scales_target else ())]
        scales = [each.usual_scale() for each in counted] if profile is None else profile.scales(counted)
        columns = [
            replace(scale, lower=public.lower, upper=public.upper)
            for scale, public in zip(scales, (each.scale_by_bounds() for each in self.columns), strict=False)
        ]
        made = RowEncoding.of(columns, clip_radius=radius, row_norm=self.row_norm, constant=self.constant)
        made = replace(made, keeps_length=True)
        if not scales_target or not isinstance(self.label, RealLabel):
            return made
        (centre,), (scale,) = scales[-1].centre, scales[-1].scale
        is_centred = profile is not None and self.constant is not None  # what a constant feature can make up for
        middle, half = self.label.middle, self.label.half_width
        return replace(made, target_centre=(centre - middle) / half if is_centred else 0.0, target_scale=scale / half)

    def count_target(self, labels: Any, row_weights: Any) -> Any:
        """Return the counts of encoded numbers to predict; row_weights: what each row counts as, None for 1."""
        assert isinstance(self.label, RealLabel)
        numbers = self.label.decode(labels)
        return ProfileForm(self.target_columns).counts_of_numbers(numbers[:, None], row_weights)

    @property
    def target_columns(self) -> tuple[Column, ...]:
        """The number to predict as a column; none for classes."""
        label = self.label
        return (Numeric(label.name, label.lower, label.upper),) if isinstance(label, RealLabel) else ()

    def by_bounds(self) -> RowEncoding:
        """Return the plain encoding: numbers in [0, 1], one-hot categories, rows longer than the norm shortened."""
        scales = [column.scale_by_bounds() for column in self.columns]
        made = RowEncoding.of(scales, clip_radius=1.0, row_norm=self.row_norm, constant=self.constant)
        return replace(made, radius=made.share)

    def describe(self) -> str:
        """Say, line by line, what the schema allows."""
        lines = [column.describe() for column in self.columns]
        intercept = "without an intercept" if self.constant is None else "with an intercept"
        norm = f"row norm at most {self.row_norm:g}, {intercept}"
        return "\n".join([*lines, f"label {self.label.describe()}", norm])

    def with_constant(self, constant: float | None) -> "Schema":
        """Return the same schema with (or, for None, without) an intercept feature."""
        return replace(self, constant=constant)

    def with_intercept(self, fit_intercept: bool) -> "Schema":
        """Return the same schema with an intercept feature, of the usual value if it has none, or without one."""
        if bool(fit_intercept) is (self.constant is not None):
            return self
        return self.with_constant(UNSTATED if fit_intercept else None)

    def to_json(self) -> str:
        """Return the schema as JSON text."""
        record = {
            "format": FORMAT,
            "version": VERSION,
            "row_norm": self.row_norm,
            "constant": self.constant,
            "label": record_of(self.label),
            "columns": [record_of(column) for column in self.columns],
        } | ({"is_array": True} if self.is_array else {})
        return json.dumps(record, indent=2, ensure_ascii=False)

    @property
    def digest(self) -> str:
        """SHA-256 of the JSON text, by which the terms of a federation name it."""
        return hashlib.sha256(self.to_json().encode(errors="backslashreplace")).hexdigest()

    @classmethod
    def from_json(cls, text: str, *, origin: str = "the schema") -> "Schema":
        """Read a schema from JSON text; `origin` names it in messages. A draft is refused with what to write where."""
        try:
            record = parse_json(text)
        except InputError as problem:
            raise InputError(f"{origin} cannot be used: {problem}. {_REMEDY}") from problem
        _check_record(record, origin)
        columns = [
            _build(f"{origin}, column {_called(part, place)}", part, _COLUMNS)
            for place, part in enumerate(record["columns"], start=1)
        ]
        label = _build(f"{origin}, label", record["label"], _LABELS)
        is_array = checks.boolean("is_array", record.get("is_array", False))
        return cls(tuple(columns), label, record["row_norm"], record.get("constant", UNSTATED), is_array)

    @staticmethod
    def draft(
        frame: "pd.DataFrame",
        target: str,
        *,
        is_number: bool = False,
        has_several_classes: bool = False,
        leave_out: Sequence[str] = (),
    ) -> "SchemaDraft":
        """Return a draft of a schema from the names and types of a table's columns.

        No cell is used, but types may depend on cells, so a draft is private until you have read it. Fill it in from
        public knowledge, with `filled` or as a file. target: the column to predict; is_number: whether it is a number,
        has_several_classes: one of three classes or more; else it is one of two. leave_out: columns not to learn from.
        """
        from dpadmm.data.draft import TargetKind, draft_of  # it knows schemas

        if is_number and has_several_classes:
            raise InputError("The target is a number or one of several classes, not both. Leave one out.")
        predict = TargetKind.NUMBER if is_number else TargetKind.SEVERAL if has_several_classes else TargetKind.TWO
        return draft_of(frame, target, predict, leave_out)

    def save(self, path: str | Path) -> None:
        """Write the schema as a JSON file."""
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Schema":
        """Read a schema from a JSON file."""
        try:
            text = read_text(Path(path))
        except InputError as problem:
            raise InputError(f"Cannot read the schema file {str(path)!r}: {problem}. {_REMEDY}") from problem
        return cls.from_json(text, origin=str(path))


def column_of(name: str, known: Any) -> Column:
    """Return the column about which this is publicly known: a pair of bounds, or a list of categories.

    >>> column_of("age", (0, 120)).describe(), column_of("ward", [1, 2]).describe()
    ('age: a number from 0 to 120', 'ward: one of 1, 2')
    """
    if isinstance(known, tuple) and known and all(isinstance(side, Real) for side in known):
        if len(known) == 2:
            return Numeric(name, *known)
        raise InputError(
            f"A tuple of numbers is a pair (low, high) of bounds, but the column {name!r} has {len(known)}. Give "
            "categories that are numbers as a list."
        )
    if isinstance(known, list | tuple) and known:
        return Categorical(name, tuple(known))
    raise InputError(
        f"The schema of the column {name!r} must be a pair (low, high) or a list of categories, got {safe_repr(known)}."
    )


def numbered_names(number: int) -> list[str]:
    """Return the names of columns that have none.

    >>> numbered_names(2)
    ['column1', 'column2']
    """
    return [f"column{place}" for place in range(1, number + 1)]


def unfilled(record: Any) -> tuple[str, ...]:
    """Return what is still to be filled in of a draft, one sentence each; empty for what is no draft."""
    if not isinstance(record, dict):
        return ()
    columns = record.get("columns")
    parts = [("column", part) for part in columns] if isinstance(columns, list) else []
    return tuple(
        f"{what} {part.get('name')!r}: write in {key!r} {ASKED.get(key, 'the value')}"
        for what, part in [("label", record.get("label")), *parts]
        if isinstance(part, dict)
        for key, value in part.items()
        if key != "name"
        if any(isinstance(v, str) and v.startswith(MARK) for v in (value if isinstance(value, list) else [value]))
    )


def _check_record(record: Any, origin: str) -> None:
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise InputError(f"{origin} is not a schema: it must be a JSON object with format {FORMAT!r}.")
    if record.get("version") != VERSION:
        raise InputError(
            f"{origin} has schema version {safe_repr(record.get('version'))}; this package reads version {VERSION}."
        )
    left = unfilled(record)
    if left:
        number = plural(len(left), "placeholder")
        head = f"{origin} still has {number}. Fill in each from public knowledge, or delete the column:"
        raise InputError("\n".join([head, *(f"{sentence}." for sentence in left)]))
    lacking = [key for key in ("row_norm", "label", "columns") if key not in record]
    if lacking:
        raise InputError(f"{origin} lacks {', '.join(map(repr, lacking))}. Add what is missing.")
    strange = [key for key in record if key not in _KEYS]
    if strange:
        raise InputError(
            f"{origin} has no {', '.join(map(safe_repr, strange))}. Remove it.{nearest(strange[0], _KEYS)}"
        )
    if not isinstance(record["columns"], list):
        raise InputError(f"{origin}: 'columns' must be a list, got {type(record['columns']).__name__}.")


def _called(record: Any, place: int) -> str:
    """Return a column's name; its place, counted from 1, where it has none."""
    name = record.get("name") if isinstance(record, dict) else None
    return safe_repr(name) if isinstance(name, str) else str(place)


def _build(where: str, record: Any, kinds: dict[str, Callable[..., T]]) -> T:
    kind = record.get("kind") if isinstance(record, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise InputError(
            f"{where}: 'kind' must be one of {', '.join(map(repr, kinds))}, got "
            f"{safe_repr(kind)}.{nearest(kind, kinds)}"
        )
    return decode(kinds[kind], {key: value for key, value in record.items() if key != "kind"}, where)


def label_of(name: str, known: Any, *, is_real: bool = False) -> Label:
    """Return the label about which this is publicly known: a range, or what is yes and what is no, or all classes.

    >>> label_of("sick", ("yes", ["no", "never"])).describe(), label_of("pay", (0, 9), is_real=True).allowed
    ("sick: +1 for ['yes'], -1 for ['no', 'never']", '0 to 9')
    """
    number = len(known) if isinstance(known, list | tuple) else 0
    if number < 2 or (is_real and number > 2):
        sides = "a pair (low, high)" if is_real else "a pair (yes, no), or a list of all classes"
        raise InputError(f"The schema of the target {name!r} must be {sides}, got {safe_repr(known)}.")
    if number > 2:
        return ClassLabel(name, tuple(known))
    if is_real:
        return RealLabel(name, *known)
    yes, no = (tuple(each) if isinstance(each, list | tuple) else (each,) for each in known)
    return BinaryLabel(name, positive=yes, negative=no)
