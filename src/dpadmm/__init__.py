"""Differentially private distributed optimisation by ADMM, with certified privacy."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "Budget": "dpadmm.privacy.ledger",
    "Ledger": "dpadmm.privacy.ledger",
    "PrivateLinearRegression": "dpadmm.estimators",
    "PrivateLinearSVC": "dpadmm.estimators",
    "PrivateLogisticRegression": "dpadmm.estimators",
    "ReleasedModel": "dpadmm.reporting.model",
    "Schema": "dpadmm.datasets",
    "check_pipeline": "dpadmm.estimators",
    "ledger_data": "dpadmm.estimators",
    "load": "dpadmm.front",
    "plan": "dpadmm.planning",
    "private_absolute_error": "dpadmm.estimators",
    "private_accuracy": "dpadmm.estimators",
    "private_evaluation": "dpadmm.estimators",
    "run": "dpadmm.front",
}
"""Where each public name lives; it is imported when it is first asked for, so that `import dpadmm` stays light."""

_ROOMS = ("datasets",)

__all__ = sorted([*_HOMES, *_ROOMS])


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name in _ROOMS:
        return import_module(f"dpadmm.{name}")
    if name not in _HOMES:
        from dpadmm.checks import nearest

        raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{nearest(name, __all__)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """List what is offered, and nothing else."""
    return __all__
