"""Estimators following scikit-learn conventions, that train with certified privacy from a stated epsilon and delta.

Beside them: what a ledger is made for (`ledger_data`), and a check of pipelines for steps that learn from the rows.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpadmm.core.model import Guarantee, NoiseSummary
from dpadmm.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from dpadmm.estimators.data import ledger_data
from dpadmm.estimators.notices import (
    AssumedBoundsWarning,
    AwkwardCellsWarning,
    HopelessPlanWarning,
    LargeDeltaWarning,
    NoIntervalsWarning,
    NoLedgerWarning,
    SimulatedNoiseWarning,
)
from dpadmm.estimators.regression import PrivateLinearRegression

if TYPE_CHECKING:
    from dpadmm.estimators.pipelines import LearningStep, PipelineCheck, check_pipeline
    from dpadmm.estimators.search import PrivateSearchCV

__all__ = [
    "AssumedBoundsWarning",
    "AwkwardCellsWarning",
    "Guarantee",
    "HopelessPlanWarning",
    "LargeDeltaWarning",
    "LearningStep",
    "NoIntervalsWarning",
    "NoLedgerWarning",
    "NoiseSummary",
    "PipelineCheck",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateSearchCV",
    "SimulatedNoiseWarning",
    "check_pipeline",
    "ledger_data",
]


_LATE = {
    "LearningStep": "pipelines",
    "PipelineCheck": "pipelines",
    "PrivateSearchCV": "search",
    "check_pipeline": "pipelines",
}


def __getattr__(name: str) -> Any:
    """Import the check of pipelines and the search when first asked for: they load much of scikit-learn."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATE[name]}"), name)
