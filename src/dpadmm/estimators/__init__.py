"""Estimators following scikit-learn conventions, that train with certified privacy from a stated epsilon and delta.

Beside them: what a ledger is made for (`ledger_data`), private figures about a model, and a check of pipelines for
steps that learn from the rows.
"""

from typing import TYPE_CHECKING, Any

from dpadmm.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from dpadmm.estimators.data import ledger_data
from dpadmm.estimators.evaluation import private_evaluation
from dpadmm.estimators.metrics import PrivateScore, private_absolute_error, private_accuracy
from dpadmm.estimators.notices import (
    AssumedBoundsWarning,
    AwkwardCellsWarning,
    HopelessPlanWarning,
    LargeDeltaWarning,
    NoIntervalsWarning,
    NoLedgerWarning,
    PipelineWarning,
    SimulatedNoiseWarning,
)
from dpadmm.estimators.regression import PrivateLinearRegression
from dpadmm.reporting.evaluation import PrivateEvaluation
from dpadmm.reporting.statement import NoiseSummary, PrivacyStatement

if TYPE_CHECKING:
    from dpadmm.estimators.pipelines import LearningStep, PipelineCheck, check_pipeline

__all__ = [
    "AssumedBoundsWarning",
    "AwkwardCellsWarning",
    "HopelessPlanWarning",
    "LargeDeltaWarning",
    "LearningStep",
    "NoIntervalsWarning",
    "NoLedgerWarning",
    "NoiseSummary",
    "PipelineCheck",
    "PipelineWarning",
    "PrivacyStatement",
    "PrivateEvaluation",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateScore",
    "SimulatedNoiseWarning",
    "check_pipeline",
    "ledger_data",
    "private_absolute_error",
    "private_accuracy",
    "private_evaluation",
]


def __getattr__(name: str) -> Any:
    """Import the check of pipelines when it is first asked for: it names classes from all over scikit-learn."""
    if name not in ("LearningStep", "PipelineCheck", "check_pipeline"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dpadmm.estimators import pipelines

    return getattr(pipelines, name)
