"""Which loss to fit: the one asked for, or a relative of it whose records pull less, where noise is what hurts.

`CappedLogistic` holds the pull of badly misclassified records at `cap` instead of 1: all noise shrinks by that factor,
for a bias that noise drowns. Where there is hardly any noise the loss asked for is kept, so that its optimum is found.
"""

import math
from dataclasses import replace
from functools import singledispatch

from dpadmm.algorithms.method import Method
from dpadmm.planning.candidates import room
from dpadmm.planning.task import Task
from dpadmm.problems.losses import CappedLogistic, Logistic, Loss

_CAP = 0.7
_MOST_ROOM = 3000.0  # Theta beyond which bias would cost more than noise


def task_to_fit(task: Task, method: type[Method]) -> Task:
    """Return the task with the loss that is fitted; the same where a cap would not help or is not proved (C2)."""
    if method.about.is_pure:
        return task
    return replace(task, loss=capped(task.loss, room(task, method)))


@singledispatch
def capped(loss: Loss, room: float = math.inf) -> Loss:
    """Return the loss to fit; `room` is Theta (see `candidates.room`)."""
    return loss


@capped.register
def _(loss: Logistic, room: float = math.inf) -> Loss:
    return CappedLogistic(_CAP) if room < _MOST_ROOM else loss


@singledispatch
def judged_by(loss: Loss) -> Loss:
    """Return the loss by which a fit of `loss` is judged."""
    return loss


@judged_by.register
def _(loss: CappedLogistic) -> Loss:
    return Logistic()
