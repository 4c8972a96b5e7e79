"""Public weights by which records count, one for each class (C13): from the words of a user to every row's own."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpadmm import checks
from dpadmm.checks import nearest, setting, shown
from dpadmm.data.columns import Label
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats


def of_label(label: Label, weights: Mapping[Any, float]) -> dict[Any, float]:
    """Return weights by the classes of a schema's label, which their names may tell as text."""
    known = {str(each): each for each in label.classes}
    for name in weights:
        if str(name) not in known:
            listed = ", ".join(known) or "none, since the label is a number"
            raise InputError(
                f"{setting('class_weight')} names {shown(name)}, which is no class of the schema: these are "
                f"{listed}.{nearest(str(name), known)}"
            )
    return {known[str(name)]: weight for name, weight in weights.items()}


def shares_of(label: Label, weights: Mapping[Any, float] | None) -> tuple[float, ...]:
    """Return what a record of each class of a schema's label counts, as terms say it; nothing without weights."""
    return () if not weights else class_shares(label.classes, of_label(label, checked(weights)))


def checked(weights: Mapping[Any, float]) -> dict[Any, float]:
    """Return the weights, if all of them are above 0."""
    return {each: checks.positive("every weight of a class", weight) for each, weight in weights.items()}


def class_shares(classes: Sequence[Any], weights: Mapping[Any, float]) -> tuple[float, ...]:
    """Return what a record of each class counts, the heaviest 1; classes without a weight have 1 before that.

    >>> class_shares(("low", "middle", "high"), {"high": 4.0, "low": 2.0})
    (0.5, 0.25, 1.0)
    """
    numbers = np.array([weights.get(each, 1.0) for each in classes], dtype=np.float64)
    return tuple((numbers / numbers.max()).tolist())


def by_class(labels: Floats, shares: Sequence[float]) -> Floats:
    """Return what each row counts, for labels -1/+1 of two classes or numbers of more.

    >>> by_class(np.array([1.0, -1.0]), (0.5, 1.0)).tolist(), by_class(np.array([2.0, 0.0]), (0.5, 0.25, 1.0)).tolist()
    ([1.0, 0.5], [1.0, 0.5])
    """
    return np.array(shares)[(labels > 0 if len(shares) == 2 else labels).astype(np.intp)]


def weight_words(classes: Sequence[Any], weights: Sequence[float]) -> str:
    """Say what a record of each class counts, as statements and terms do."""
    told = ", ".join(f"{each}: {number:g}" for each, number in zip(classes, weights, strict=True))
    return f"records are weighted by their class ({told}); these weights are public and were not taken from the data"
