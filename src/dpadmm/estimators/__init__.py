"""The scikit-learn face: estimators that train with certified privacy from a stated epsilon and delta."""

from dpadmm.datasets.encoding import RowEncoding, TargetScale
from dpadmm.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from dpadmm.estimators.data import ledger_data
from dpadmm.estimators.metrics import PrivateScore, private_absolute_error, private_accuracy
from dpadmm.estimators.notices import (
    AssumedBoundsWarning,
    HopelessPlanWarning,
    LargeDeltaWarning,
    NoLedgerWarning,
    PipelineWarning,
    SimulatedNoiseWarning,
)
from dpadmm.estimators.pipelines import LearningStep, PipelineCheck, check_pipeline
from dpadmm.estimators.regression import PrivateLinearRegression
from dpadmm.estimators.statement import NoiseSummary, PrivacyStatement

__all__ = [
    "AssumedBoundsWarning",
    "HopelessPlanWarning",
    "LargeDeltaWarning",
    "LearningStep",
    "NoLedgerWarning",
    "NoiseSummary",
    "PipelineCheck",
    "PipelineWarning",
    "PrivacyStatement",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateScore",
    "RowEncoding",
    "SimulatedNoiseWarning",
    "TargetScale",
    "check_pipeline",
    "ledger_data",
    "private_absolute_error",
    "private_accuracy",
]
