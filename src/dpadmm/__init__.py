"""Differentially private distributed optimisation by ADMM, with certified privacy."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__version__ = "0.2.0"


def _offer(package: str, homes: Mapping[str, str]) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package that imports what it offers when first asked for it.

    homes: the module of each name, within the package; a module that is offered itself has no home: "".
    """
    names = sorted(homes)

    def get(name: str) -> Any:
        if name in homes:
            found = import_module(f"{package}.{homes[name] or name}")
            return getattr(found, name) if homes[name] else found
        from dpadmm.checks import nearest

        raise AttributeError(f"module {package!r} has no attribute {name!r}.{nearest(name, names)}")

    return names, get, lambda: names


_HOMES = {
    "CellRules": "settings",
    "Ledger": "privacy.ledger",
    "OutputFiles": "settings",
    "Privacy": "settings",
    "PrivateLinearRegression": "estimators.regression",
    "PrivateLinearSVC": "estimators.classifiers",
    "PrivateLogisticRegression": "estimators.classifiers",
    "PrivatePoissonRegressor": "estimators.counts",
    "PrivateSearchCV": "estimators.search",
    "Schema": "data.schema",
    "TableOptions": "settings",
    "TrainingOptions": "settings",
    "data": "",
    "fit": "api",
    "load": "api",
    "plan": "api",
    "minimise": "costs",
    "run": "method_run",
}
"""Where each public name lives; it is imported when it is first asked for, so that `import dpadmm` stays light."""

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
