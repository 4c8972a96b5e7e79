"""The loss that a model was fitted with, in the words of its file and back."""

import re

from dpadmm.problems.losses import CappedLogistic, Huber, LinkedLoss, Logistic, Loss, SmoothedHinge

# A number between 0 and 1 as Python writes it; earlier versions wrote six digits, so a cap near 1 as "1".
_CAPPED = re.compile(r"logistic regression \(no record pulls harder than (0\.\d+|\d(?:\.\d+)?e-\d+)\)")


def loss_words(loss: Loss) -> str:
    """Return what kind of model a loss makes, in words that say the cap exactly.

    >>> loss_words(CappedLogistic(0.7))
    'logistic regression (no record pulls harder than 0.7)'
    """
    match loss:
        case CappedLogistic():
            return f"logistic regression (no record pulls harder than {float(loss.cap)!r})"
        case Logistic():
            return "logistic regression"
        case SmoothedHinge():
            return "linear support vector machine (smoothed hinge)"
        case Huber():
            return f"linear regression (Huber loss, threshold {loss.threshold:g})"
    return repr(loss)


def linked_loss(words: str) -> LinkedLoss | None:
    """Return the loss that turns a model's scores into probabilities; None if the words tell of one without a link.

    A logistic model whose words say no cap has log-odds as scores.

    >>> linked_loss("logistic regression (no record pulls harder than 0.7)")
    CappedLogistic(cap=0.7)
    """
    capped = _CAPPED.fullmatch(words)
    if capped is not None:
        return CappedLogistic(float(capped[1]))
    return Logistic() if words.startswith("logistic") else None
