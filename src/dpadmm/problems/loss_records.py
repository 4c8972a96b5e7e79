"""A loss as a typed record for files and as a description for readers; only the record is ever read back."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from dpadmm import checks
from dpadmm.checks import nearest, shown
from dpadmm.errors import InputError
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge
from dpadmm.problems.softmax import AnyLoss, Softmax

ReleasedLoss: TypeAlias = Logistic | Softmax | SmoothedHinge | Huber
"""The losses that a released model may have been fitted with; every one has a bounded slope."""

LOSS_KINDS: Mapping[str, type[ReleasedLoss]] = {
    "logistic": Logistic,
    "softmax": Softmax,
    "smoothed-hinge": SmoothedHinge,
    "huber": Huber,
}
"""The name of each loss in files and in the terms of a federation."""

_ADVICE = "The file is damaged or was written by another version."


def released_loss(loss: AnyLoss) -> ReleasedLoss:
    """Return the loss if a released model may have it; `InputError` for any other."""
    if type(loss) not in LOSS_KINDS.values():
        raise InputError(f"The loss of a released model must be one of {', '.join(LOSS_KINDS)}, got {shown(loss)}.")
    return cast(ReleasedLoss, loss)


def loss_record(loss: ReleasedLoss) -> dict[str, Any]:
    """Return the kind of a loss with all of its parameters, as JSON values.

    >>> loss_record(Logistic(0.5))
    {'kind': 'logistic', 'cap': 0.5}
    """
    kind = next(name for name, each in LOSS_KINDS.items() if each is type(loss))
    return {"kind": kind} | {name: read(name, getattr(loss, name)) for name, read in _parameters(type(loss)).items()}


def loss_from_record(record: Any, where: str) -> ReleasedLoss:
    """Return the loss that a record states; `InputError` naming the place for anything else. Nothing has a default.

    >>> loss_from_record({"kind": "softmax", "n_classes": 3, "cap": 0.7}, "the model")
    Softmax(n_classes=3, cap=0.7)
    """
    kind = record.get("kind") if isinstance(record, dict) else None
    if not isinstance(kind, str) or kind not in LOSS_KINDS:
        allowed = ", ".join(map(repr, LOSS_KINDS))
        raise InputError(
            f"{where} must be an object with a 'kind' out of {allowed}, got {shown(kind)}.{nearest(kind, LOSS_KINDS)} "
            f"{_ADVICE}"
        )
    wanted = _parameters(LOSS_KINDS[kind])
    if set(record) != {"kind", *wanted}:
        has = ", ".join(sorted(map(shown, set(record) - {"kind"}))) or "none"
        needs = ", ".join(map(repr, wanted)) or "none"
        raise InputError(f"{where}: {kind!r} has the parameters {needs}, got {has}. {_ADVICE}")
    try:
        return LOSS_KINDS[kind](**{name: read(name, record[name]) for name, read in wanted.items()})
    except InputError as problem:
        raise InputError(f"{where}: {problem} {_ADVICE}") from problem


def _parameters(kind: type[ReleasedLoss]) -> dict[str, Any]:
    """Return the parameters of a loss, each with the check that reads it."""
    readers = {int: checks.count, float: checks.finite}
    return {each.name: readers[each.type] for each in dataclasses.fields(kind) if each.init}  # type: ignore[index]


def loss_description(loss: ReleasedLoss) -> str:
    """Return what kind of model a loss makes, for readers; a file states it by `loss_record`.

    >>> loss_description(Logistic(0.7))
    'logistic regression (per-record loss slope capped at 0.7)'
    """
    match loss:
        case Softmax():
            return f"softmax regression of {loss.n_classes} classes{_cap(loss.cap)}"
        case Logistic():
            return f"logistic regression{_cap(loss.cap)}"
        case SmoothedHinge():
            return f"linear support vector machine (smoothed hinge, width {loss.width:g})"
        case Huber():
            return f"linear regression (Huber loss, threshold {loss.threshold:g})"


def _cap(cap: float) -> str:
    return f" (per-record loss slope capped at {cap:g})" if cap < 1 else ""
