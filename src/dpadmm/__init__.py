"""Differentially private distributed optimisation by ADMM, with certified privacy."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_FROM_ESTIMATORS = (
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "check_pipeline",
    "ledger_data",
    "private_absolute_error",
    "private_accuracy",
    "private_evaluation",
)


def __getattr__(name: str) -> Any:
    """Import the estimators when they are first asked for: `import dpadmm` alone stays light."""
    if name not in _FROM_ESTIMATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("dpadmm.estimators"), name)


def __dir__() -> list[str]:
    """List what can be asked for."""
    return sorted([*globals(), *_FROM_ESTIMATORS])
