"""Estimators following scikit-learn conventions, that train with certified privacy from a stated epsilon and delta.

Beside them: what a ledger is made for (`ledger_data`), and a check of pipelines for steps that learn from the rows.
"""

from dpadmm import _offer

_NAMES = {
    "classifiers": "PrivateLinearSVC PrivateLogisticRegression",
    "counts": "PrivatePoissonRegressor",
    "data": "ledger_data",
    "notices": (
        "AssumedBoundsWarning AwkwardCellsWarning HopelessPlanWarning LargeDeltaWarning NoIntervalsWarning "
        "NoLedgerWarning SimulatedNoiseWarning"
    ),
    "pipelines": "LearningStep PipelineCheck check_pipeline",
    "regression": "PrivateLinearRegression",
    "search": "PrivateSearchCV",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
