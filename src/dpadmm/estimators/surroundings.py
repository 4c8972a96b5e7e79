"""Where a fit was called from: inside a pipeline, a search or a cross-validation, it does not stand alone."""

import sys
from types import FrameType
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator

from dpadmm.estimators.base import PrivateLinearModel

_FITS = frozenset({"fit", "fit_transform", "fit_predict", "partial_fit"})
# Rooms of scikit-learn whose functions only pass a call on; their estimators are judged by `check_pipeline`.
_PASSING = (
    "sklearn.base",
    "sklearn.utils",
    "sklearn.pipeline",
    "sklearn.compose",
    "sklearn.callback",
    "sklearn.model_selection._classification_threshold",
)
_SEARCH = (
    "this fit runs inside scikit-learn's model selection, which returns exact scores of the rows it is given; every "
    "fold and candidate is a release of its own. The certified figure is about one fit: not about scores, the sum of "
    "all fits, or the choice made by them. Let the planner choose, or search on public data."
)
_HELP = "dpadmm.check_pipeline(...) says what to use instead."


class Leak(NamedTuple):
    """What around a fit learns from its rows, and which kind of surroundings it is."""

    topic: str
    text: str


def leak_around() -> Leak | None:
    """Return what around the fit that is running learns from its rows too, None if nothing is seen.

    Walks up the stack of calls. Of the estimators whose fit is running the outermost counts, with all it holds.
    """
    outermost, passed = None, None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        room = frame.f_globals.get("__name__", "")
        if room.startswith("sklearn.model_selection") and not _is_fixed_threshold(_owner(frame)):
            return Leak("search", _SEARCH)
        if frame.f_code.co_name in _FITS:
            owner = _owner(frame)
            outermost = owner if owner is not None else outermost
        elif room.startswith("sklearn.") and not room.startswith(_PASSING):
            passed = room  # such as the worker of an ensemble, in a process of its own
        frame = frame.f_back
    if outermost is not None:
        return _words(outermost)
    if passed is None:
        return None
    return Leak("several", f"this fit is one of several inside {passed}, whose costs add up. {_HELP}")


def _owner(frame: FrameType) -> Any:
    """Return the estimator whose fit this frame is, None if it is one of ours or no estimator's."""
    names = frame.f_code.co_varnames
    owner = frame.f_locals.get(names[0]) if names else None
    return owner if isinstance(owner, BaseEstimator) and not isinstance(owner, PrivateLinearModel) else None


def _is_fixed_threshold(owner: Any) -> bool:
    """Return whether an estimator is the one of scikit-learn's model selection that only passes rows on."""
    from sklearn.model_selection import FixedThresholdClassifier

    return isinstance(owner, FixedThresholdClassifier)


def _words(outermost: Any) -> Leak | None:
    from dpadmm.estimators.pipelines import check_pipeline  # loads much of scikit-learn, which this process has used

    found = check_pipeline(outermost).findings
    if not found:
        return None
    listed = ", ".join(f"{each.place} ({each.step})" for each in found)
    return Leak(
        "steps",
        f"this fit runs inside a {type(outermost).__name__} with steps that learn from the same rows without noise: "
        f"{listed}. The certified figure does not cover them. {_HELP}",
    )
