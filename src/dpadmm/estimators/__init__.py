"""The scikit-learn face: estimators that train with certified privacy from a stated epsilon and delta."""

from dpadmm.estimators.bookkeeping import ledger_data
from dpadmm.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from dpadmm.estimators.encoding import RowEncoding, TargetScale
from dpadmm.estimators.metrics import PrivateScore, private_absolute_error, private_accuracy
from dpadmm.estimators.notices import AssumedBoundsWarning, HopelessPlanWarning, SimulatedNoiseWarning
from dpadmm.estimators.regression import PrivateLinearRegression
from dpadmm.estimators.statement import NoiseSummary, PrivacyStatement

__all__ = [
    "AssumedBoundsWarning",
    "HopelessPlanWarning",
    "NoiseSummary",
    "PrivacyStatement",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateScore",
    "RowEncoding",
    "SimulatedNoiseWarning",
    "TargetScale",
    "ledger_data",
    "private_absolute_error",
    "private_accuracy",
]
