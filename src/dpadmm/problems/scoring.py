"""How badly models predict single records, on a scale that does not depend on how they were fitted."""

import numpy as np
from scipy.special import log_expit

from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import LabelKind, LinkedLoss, Loss
from dpadmm.problems.softmax import AnyLoss, Softmax


def record_losses(loss: AnyLoss, scores: Floats, labels: Floats) -> Floats:
    """Return how badly the scores (n, problems) predict each of the labels (n,), lower being better.

    Where the fitted loss has a link: the log-loss of the probabilities that it gives. Numbers: the absolute error, in
    the units of the encoded target. Else 1 for a wrong class and 0 for a right one.

    labels: -1/+1 for one score a record, the numbers of classes for several; or encoded numbers.

    >>> from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge
    >>> scores, labels = np.array([[2.0], [0.5]]), np.array([1.0, -1.0])
    >>> [record_losses(each, scores, labels).round(3).tolist() for each in (Logistic(), SmoothedHinge(), Huber(1.0))]
    [[0.127, 0.974], [0.0, 1.0], [1.0, 1.5]]
    """
    if isinstance(loss, Softmax):
        logs = loss.log_probabilities(scores)
        return np.asarray(-logs[np.arange(len(labels)), labels.astype(np.intp)])
    if loss.target is LabelKind.REALS:
        return np.abs(scores[:, 0] - labels)
    if scores.shape[1] > 1:
        return _against_rest(loss, scores, labels.astype(np.intp))
    margins = scores[:, 0] * labels
    if isinstance(loss, LinkedLoss):
        return np.asarray(-log_expit(loss.log_odds(margins)))
    return (margins <= 0).astype(np.float64)


def _against_rest(loss: Loss, scores: Floats, codes: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Floats:
    """Return the losses of one model for each class, whose probabilities are scaled to sum to 1."""
    places = np.arange(len(codes))
    if not isinstance(loss, LinkedLoss):
        return (scores.argmax(axis=1) != codes).astype(np.float64)
    logs = log_expit(loss.log_odds(scores))
    return np.asarray(np.logaddexp.reduce(logs, axis=1) - logs[places, codes])
