"""The losses of released models: their names, and descriptions for readers, which are never read back."""

from collections.abc import Mapping
from typing import TypeAlias, cast

from dpadmm.checks import shown
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
"""The name of each loss in messages and in the terms of a federation."""


def released_loss(loss: AnyLoss) -> ReleasedLoss:
    """Return the loss if a released model may have it; `InputError` for any other."""
    if type(loss) not in LOSS_KINDS.values():
        raise InputError(f"The loss of a released model must be one of {', '.join(LOSS_KINDS)}, got {shown(loss)}.")
    return cast(ReleasedLoss, loss)


def loss_description(loss: ReleasedLoss) -> str:
    """Return what kind of model a loss makes, for readers.

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
