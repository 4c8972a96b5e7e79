"""How settings did in a world."""

from dataclasses import dataclass

import numpy as np

from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import LabelKind, Loss


@dataclass(frozen=True)
class Trial:
    """Scores on rows the model has not seen, means over runs.

    score: accuracy or R^2, spread: its standard deviation over runs. best: without privacy. trivial: the majority
    class, or the mean label. loss...: mean losses of the same three. norm: of the private models.
    """

    score: float
    spread: float
    best: float
    trivial: float
    loss: float
    loss_best: float
    loss_trivial: float
    norm: float

    @property
    def kept(self) -> float:
        """The part of the learnable loss that survives the noise; 1 is all, below 0 worse than nothing learned."""
        return (self.loss_trivial - self.loss) / max(self.loss_trivial - self.loss_best, 1e-12)


def score_models(loss: Loss, models: Floats, best: Floats, rows: Floats, labels: Floats) -> Trial:
    """Score private models (d, runs) and the best one (d,) on rows with their labels."""
    predictions = rows @ np.column_stack([models, best])
    if loss.target is LabelKind.SIGNS:
        losses = loss.value(predictions * labels[:, None]).mean(axis=0)
        scores = (predictions * labels[:, None] > 0).mean(axis=0)
        share = float((labels > 0).mean())
        constants = np.linspace(-3.0, 3.0, 121)
        flat = share * loss.value(constants) + (1 - share) * loss.value(-constants)
        trivial, loss_trivial = max(share, 1 - share), float(flat.min())
    else:
        losses = loss.value(predictions - labels[:, None]).mean(axis=0)
        errors = ((predictions - labels[:, None]) ** 2).mean(axis=0)
        scores = 1 - errors / max(float(labels.var()), 1e-12)
        trivial, loss_trivial = 0.0, float(loss.value(labels.mean() - labels).mean())
    return Trial(
        score=float(scores[:-1].mean()),
        spread=float(scores[:-1].std()),
        best=float(scores[-1]),
        trivial=trivial,
        loss=float(losses[:-1].mean()),
        loss_best=float(losses[-1]),
        loss_trivial=loss_trivial,
        norm=float(np.linalg.norm(models, axis=0).mean()),
    )
