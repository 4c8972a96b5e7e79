"""Columns and labels of a schema: what they allow, and how the numbers in them are put to use.

Nothing here refuses a cell: awkward ones are marked, row by row, and `tables.encode_table` decides by the policies.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from dpadmm import checks
from dpadmm.checks import nearest, option_name, safe_repr
from dpadmm.codec import encode
from dpadmm.data.cells import Category, Cells, listed_cells, number_cells
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats

if TYPE_CHECKING:
    import pandas as pd

_FEW_CLASSES = 12  # are named in a message
_USUAL_CENTRE, _USUAL_SCALE = 0.3, 0.15  # of the public range


@dataclass(frozen=True)
class ColumnScale:
    """How the features of one column are encoded: clipped to their bounds, centred, divided by their scale.

    Each is one number per feature. empty: what stands for an empty cell. spread: expected square of the encoded part.
    """

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    empty: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    spread: float


@dataclass(frozen=True)
class _Named:
    """What columns and labels share: a name, without spaces around as is done with those of a table."""

    name: str
    allowed: ClassVar[Any] = ""
    """What cells may be, as text."""
    is_real: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse what is no name."""
        if not isinstance(self.name, str) or not self.name.strip():
            raise InputError(f"A column or label must have a name (non-empty text), got {safe_repr(self.name)}.")
        object.__setattr__(self, "name", self.name.strip())

    def describe(self) -> str:
        """Say the name and what is allowed."""
        return f"{self.name}: one of {self.allowed}"


@dataclass(frozen=True)
class _Range(_Named):
    """A number with public bounds."""

    lower: float
    upper: float

    def __post_init__(self) -> None:
        """Make the bounds floats if they and their distance are finite and `lower < upper`."""
        super().__post_init__()
        name, lower, upper = self.name, self.lower, self.upper
        low, high = checks.finite(f"lower of {name!r}", lower), checks.finite(f"upper of {name!r}", upper)
        if not low < high:
            raise InputError(
                f"{name!r}: lower must be less than upper, got lower={safe_repr(lower)}, upper={safe_repr(upper)}."
            )
        if not math.isfinite(high - low):
            raise InputError(
                f"{name!r}: upper - lower is too large for a number. Give bounds that are closer together."
            )
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)

    @property
    def allowed(self) -> str:
        """The range."""
        return f"{self.lower:g} to {self.upper:g}"


@dataclass(frozen=True)
class Numeric(_Range):
    """A number with public bounds.

    The bounds are knowledge about the world (an age lies between 0 and 120), never the extremes of the data:
    the largest value of a private column is somebody's value. A `typical` value, public as well, may be stated: what
    all rows share then takes no room in the row's norm, and noise disturbs predictions less. It is seldom needed:
    usual columns crowd below the middle of their bounds, and noisy counts show more (`dpadmm.data.profile`).

    >>> import pandas as pd
    >>> Numeric("age", 0, 100).read(pd.Series([25, "50", 130])).values.tolist()
    [25.0, 50.0, 100.0]
    >>> Numeric("age", 0, 100).usual_scale().centre, Numeric("age", 0, 100, typical=50).usual_scale().centre
    ((30.0,), (50.0,))
    """

    typical: float | None = None
    kind: ClassVar[str] = "numeric"

    def __post_init__(self) -> None:
        """Refuse empty or endless ranges."""
        super().__post_init__()
        if self.typical is not None:
            typical = checks.finite(f"typical of {self.name!r}", self.typical)
            if not self.lower <= typical <= self.upper:
                raise InputError(
                    f"{self.name!r}: typical must lie between lower and upper, got {safe_repr(self.typical)}."
                )
            object.__setattr__(self, "typical", typical)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One feature, named as the column."""
        return (self.name,)

    def read(self, cells: "pd.Series") -> Cells:
        """Return the numbers, moved within the public bounds."""
        return number_cells(cells, self._middle, self.lower, self.upper)

    def usual_scale(self) -> ColumnScale:
        """Centre at the typical value, or else at .3 of the range; scale .15 of the range; empty cells at the centre.

        Columns whose bounds are public knowledge crowd in the lower half of them.
        """
        width = self.upper - self.lower
        centre = self.lower + _USUAL_CENTRE * width if self.typical is None else self.typical
        return self.scale_at(centre, _USUAL_SCALE * width)

    def scale_at(
        self, centre: float, scale: float, lower: float | None = None, upper: float | None = None
    ) -> ColumnScale:
        """Return the encoding with this centre and scale; empty cells are at the centre."""
        low, high = self.lower if lower is None else lower, self.upper if upper is None else upper
        return ColumnScale((centre,), (scale,), (centre,), (low,), (high,), 1.0)

    def scale_by_bounds(self) -> ColumnScale:
        """Origin at the typical value, or else at the lower bound; divided by the range."""
        origin, width = self.lower if self.typical is None else self.typical, self.upper - self.lower
        return ColumnScale((origin,), (width,), (self._middle,), (self.lower,), (self.upper,), 1.0)

    @property
    def _middle(self) -> float:
        return 0.5 * (self.lower + self.upper) if self.typical is None else self.typical

    def describe(self) -> str:
        """Say the range."""
        usual = "" if self.typical is None else f", typically {self.typical:g}"
        return f"{self.name}: a number from {self.allowed}{usual}"


@dataclass(frozen=True)
class AnyNumber(Numeric):
    """A number of an array for which no bounds were stated: whole rows are shortened, and nothing can be counted."""

    lower: float = field(default=-math.inf, init=False)
    upper: float = field(default=math.inf, init=False)
    typical: None = field(default=None, init=False)
    kind: ClassVar[str] = "any number"
    allowed: ClassVar[str] = "any number"
    _middle: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        """Refuse a column without a name."""
        _Named.__post_init__(self)

    def usual_scale(self) -> ColumnScale:
        """Refuse: a scale follows from bounds."""
        raise InputError(f"{self.name!r} has no public bounds, so that nothing tells its scale. State its bounds.")

    scale_by_bounds = usual_scale

    def describe(self) -> str:
        """Say that every number will do."""
        return f"{self.name}: {self.allowed}"


@dataclass(frozen=True)
class Categorical(_Named):
    """One of a public list of categories, encoded one-hot: one feature per category, in the order given.

    Categories are all text or all whole numbers. A cell is a category if it is the same text or, where no other
    category is that number too, the same number.

    >>> import pandas as pd
    >>> Categorical("sex", ("F", "M")).read(pd.Series(["M", " F", "?"])).codes.tolist()
    [1, 0, -1]
    >>> Categorical("ward", ("01", "02")).read(pd.Series(["02", 1, 2.0, 3])).codes.tolist()
    [1, 0, 1, -1]
    """

    categories: tuple[Category, ...]
    kind: ClassVar[str] = "categorical"

    def __post_init__(self) -> None:
        """Refuse empty, repeated or mixed lists."""
        super().__post_init__()
        object.__setattr__(self, "categories", _checked_categories(self.name, self.categories))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """`column=category`, one per category."""
        return tuple(f"{self.name}={category}" for category in self.categories)

    @property
    def allowed(self) -> str:
        """The list."""
        return ", ".join(map(repr, self.categories))

    def read(self, cells: "pd.Series") -> Cells:
        """Look every cell up in the list; an empty or unlisted one has code -1."""
        return replace(listed_cells(cells, self.categories), is_category=True)

    def usual_scale(self) -> ColumnScale:
        """Centred as if all categories were equally frequent, not scaled."""
        return self.scale_at((1 / len(self.categories),) * len(self.categories))

    def scale_at(self, frequencies: tuple[float, ...]) -> ColumnScale:
        """Return the encoding that is centred at these frequencies; a cell that is none of the categories as well."""
        ones, zeros = (1.0,) * len(frequencies), (0.0,) * len(frequencies)
        spread = math.fsum(f * (1 - f) for f in frequencies)
        return ColumnScale(frequencies, ones, frequencies, zeros, ones, spread)

    def scale_by_bounds(self) -> ColumnScale:
        """Indicators as they are."""
        return self.scale_at((0.0,) * len(self.categories))


@dataclass(frozen=True)
class BinaryLabel(_Named):
    """Two classes by listed values: +1 for a value in `positive`, -1 for one in `negative`.

    >>> label = BinaryLabel("income", positive=(">50K",), negative=("<=50K",))
    >>> import pandas as pd
    >>> label.read(pd.Series([">50K", "<=50K"])).values.tolist(), label.classes
    ([1.0, -1.0], ('<=50K', '>50K'))
    """

    positive: tuple[Category, ...]
    negative: tuple[Category, ...]
    kind: ClassVar[str] = "binary"

    def __post_init__(self) -> None:
        """Refuse empty or overlapping classes."""
        super().__post_init__()
        positive = _checked_categories(f"{self.name} (positive)", self.positive)
        negative = _checked_categories(f"{self.name} (negative)", self.negative)
        _checked_categories(f"{self.name} (positive and negative)", positive + negative)
        object.__setattr__(self, "positive", positive)
        object.__setattr__(self, "negative", negative)

    @property
    def classes(self) -> tuple[Category, ...]:
        """The first value of each class."""
        return self.negative[0], self.positive[0]

    @property
    def allowed(self) -> str:
        """The two lists together."""
        return ", ".join(map(repr, self.positive + self.negative))

    def read(self, cells: "pd.Series") -> Cells:
        """Return -1 or +1 per row."""
        found = listed_cells(cells, self.positive + self.negative)
        return replace(found, values=np.where(found.codes < len(self.positive), 1.0, -1.0))

    def describe(self) -> str:
        """Say the two lists."""
        return f"{self.name}: +1 for {list(self.positive)!r}, -1 for {list(self.negative)!r}"


@dataclass(frozen=True)
class ArrayLabel(_Named):
    """The classes of an array, two or more: texts, numbers or truth values, which predictions give back as they are.

    >>> import pandas as pd
    >>> ArrayLabel("label", (False, True)).read(pd.Series([True, False])).values.tolist()
    [1.0, -1.0]
    """

    classes: tuple[str | bool | int | float, ...]
    kind: ClassVar[str] = "array classes"

    def __post_init__(self) -> None:
        """Refuse what is no list of classes."""
        super().__post_init__()
        object.__setattr__(self, "classes", tuple(self.classes))
        if len(self.classes) < 2 or not all(isinstance(each, str | bool | int | float) for each in self.classes):
            raise InputError(f"{self.name!r}: list at least 2 classes: texts, numbers or truth values.")

    @property
    def allowed(self) -> str:
        """The classes."""
        return ", ".join(map(repr, self.classes))

    def read(self, cells: "pd.Series") -> Cells:
        """Return -1 or +1 for two classes, the number of the class for more."""
        found = listed_cells(cells, self.classes)
        numbers = np.maximum(found.codes, 0).astype(np.float64)
        return replace(found, values=2 * numbers - 1 if len(self.classes) == 2 else numbers)


@dataclass(frozen=True)
class ClassLabel(ArrayLabel):
    """One of three classes or more, listed in public: the number of the class, from 0.

    >>> import pandas as pd
    >>> ClassLabel("ward", ("A", "B", "C")).read(pd.Series(["C", "A"])).values.tolist()
    [2.0, 0.0]
    """

    classes: tuple[Category, ...]
    kind: ClassVar[str] = "classes"

    def __post_init__(self) -> None:
        """Refuse fewer than three classes, or equal ones."""
        _Named.__post_init__(self)
        object.__setattr__(self, "classes", _checked_categories(self.name, self.classes))
        if len(self.classes) < 3:
            raise InputError(f"{self.name!r}: list three classes or more; for two there is the kind 'binary'.")


@dataclass(frozen=True)
class ThresholdLabel(_Named):
    """Two classes by a public threshold: +1 above it, -1 at or below.

    >>> import pandas as pd
    >>> ThresholdLabel("income", 50_000).read(pd.Series([50_000, "50001"])).values.tolist()
    [-1.0, 1.0]
    """

    threshold: float
    kind: ClassVar[str] = "threshold"
    allowed: ClassVar[str] = "a number"

    def __post_init__(self) -> None:
        """Refuse thresholds that are no numbers."""
        super().__post_init__()
        object.__setattr__(self, "threshold", checks.finite(f"threshold of {self.name!r}", self.threshold))

    @property
    def classes(self) -> tuple[Category, ...]:
        """On which side of the threshold."""
        return f"at most {self.threshold:g}", f"above {self.threshold:g}"

    def read(self, cells: "pd.Series") -> Cells:
        """Return -1 or +1 per row."""
        found = number_cells(cells, self.threshold, -np.inf, np.inf)
        return replace(found, values=np.where(found.values > self.threshold, 1.0, -1.0))

    def describe(self) -> str:
        """Say the threshold."""
        return f"{self.name}: +1 above {self.threshold:g}, otherwise -1"


@dataclass(frozen=True)
class RealLabel(_Range):
    """A bounded target for regression, mapped from [lower, upper] onto [-1, 1]; `decode` maps back.

    >>> label = RealLabel("price", 0, 200)
    >>> import pandas as pd
    >>> encoded = label.read(pd.Series([50.0, 999.0]))
    >>> encoded.values.tolist(), encoded.outside.tolist(), label.decode(encoded.values).tolist()
    ([-0.5, 1.0], [False, True], [50.0, 200.0])
    """

    kind: ClassVar[str] = "real"
    is_real: ClassVar[bool] = True
    classes: ClassVar[tuple[Category, ...]] = ()

    @property
    def half_width(self) -> float:
        """Half the range: a score of 1 in the units of the table."""
        return (self.upper - self.lower) / 2

    @property
    def middle(self) -> float:
        """The middle of the range."""
        return self.lower + self.half_width

    def read(self, cells: "pd.Series") -> Cells:
        """Return numbers in [-1, 1]."""
        found = number_cells(cells, self.lower, self.lower, self.upper)
        return replace(found, values=self.encode(found.values))

    def encode(self, numbers: Floats) -> Floats:
        """Return numbers, moved within the range, as numbers in [-1, 1]."""
        return 2.0 * (np.clip(numbers, self.lower, self.upper) - self.lower) / (self.upper - self.lower) - 1.0

    def decode(self, scores: Floats, *, is_clipped: bool = True) -> Floats:
        """Map scores back to the units of the table; clipped: those beyond [-1, 1] to the ends of the range."""
        within = np.clip(scores, -1.0, 1.0) if is_clipped else scores
        return self.lower + (within + 1.0) * (self.upper - self.lower) / 2.0

    def describe(self) -> str:
        """Say the range."""
        return f"{self.name}: a number from {self.allowed}, mapped onto [-1, 1]"


Column: TypeAlias = Numeric | Categorical
"""One column of the table and the features it becomes."""

Label: TypeAlias = BinaryLabel | ClassLabel | ArrayLabel | ThresholdLabel | RealLabel
"""The column to predict and the number it becomes."""


def record_of(part: Column | Label) -> dict[str, Any]:
    """Return a column or a label as a JSON record."""
    return {"kind": part.kind} | {name: value for name, value in encode(part).items() if value is not None}


def _checked_categories(name: str, categories: Sequence[Any]) -> tuple[Category, ...]:
    """Return the categories, without spaces around, if they are distinct and all text or all whole numbers."""
    if isinstance(categories, str) or not isinstance(categories, Sequence) or len(categories) == 0:
        raise InputError(f"{name!r}: categories must be a non-empty list, got {safe_repr(categories)}.")
    whole = all(isinstance(c, Integral) and not isinstance(c, bool) for c in categories)
    if not whole and not all(isinstance(c, str) for c in categories):
        found = ", ".join(sorted({type(c).__name__ for c in categories}))
        raise InputError(f"{name!r}: categories must be all text or all whole numbers, got {found}.")
    stripped = tuple(int(c) if whole else str(c).strip() for c in categories)
    if len(set(stripped)) < len(stripped):
        raise InputError(f"{name!r}: categories must be distinct, got {safe_repr(list(categories))}.")
    return stripped


def name_classes(label: Label, weights: Mapping[Any, float]) -> dict[Any, float]:
    """Return weights by the classes of a label, which the user may have named by their text."""
    known = {str(each): each for each in label.classes} | {each: each for each in label.classes}
    named = {name: name if name in known else str(name) for name in weights}
    for name, key in named.items():
        if key not in known:
            texts = [str(each) for each in label.classes]
            listed = ", ".join(texts) if len(texts) <= _FEW_CLASSES else safe_repr(texts)
            raise InputError(
                f"{option_name('class_weight')} names {safe_repr(name)}, which is no class: the classes are "
                f"{listed or 'none, since the label is a number'}.{nearest(key, texts)}",
                setting="class_weight",
                code="value",
            )
    return {known[key]: weights[name] for name, key in named.items()}


def label_shares(label: Label, weights: Mapping[Any, float] | None) -> tuple[float, ...]:
    """Return what a record of each class of a schema's label counts, as terms say it; nothing without weights."""
    for weight in (weights or {}).values():
        checks.positive("every weight of a class", weight)
    return () if not weights else class_shares(label.classes, name_classes(label, weights))


def class_shares(classes: Sequence[Any], weights: Mapping[Any, float]) -> tuple[float, ...]:
    """Return what a record of each class counts, the heaviest 1; classes without a weight have 1 before that.

    >>> class_shares(("low", "middle", "high"), {"high": 4.0, "low": 2.0})
    (0.5, 0.25, 1.0)
    """
    numbers = np.array([weights.get(each, 1.0) for each in classes], dtype=np.float64)
    return tuple((numbers / numbers.max()).tolist())


def weights_by_class(labels: Floats, shares: Sequence[float]) -> Floats:
    """Return what each row counts, for labels -1/+1 of two classes or numbers of more.

    >>> weights_by_class(np.array([1.0, -1.0]), (0.5, 1.0)).tolist()
    [1.0, 0.5]
    >>> weights_by_class(np.array([2.0, 0.0]), (0.5, 0.25, 1.0)).tolist()
    [1.0, 0.5]
    """
    return np.array(shares)[(labels > 0 if len(shares) == 2 else labels).astype(np.intp)]


def describe_class_weights(classes: Sequence[Any], weights: Sequence[float]) -> str:
    """Say what a record of each class counts, as statements and terms do."""
    listed = ", ".join(f"{each}: {number:g}" for each, number in zip(classes, weights, strict=True))
    return f"records are weighted by their class ({listed}); these weights are public and were not taken from the data"
