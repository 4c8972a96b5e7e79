"""Warnings of the estimators, each with a class of its own so that it can be silenced, or made an error, by name.

All are given before anything is spent, so whoever turns them into errors loses nothing.
"""

import warnings

NO_LEDGER = (
    "no ledger is given, so nothing remembers what these data have spent: every further fit or figure adds to it, and "
    "nobody counts. Create a ledger once with Ledger.create(path, ledger_data(X, y), Budget(epsilon, delta)) and give "
    "ledger=path. (Said once.)"
)


class SimulatedNoiseWarning(UserWarning):
    """The noise came from a seed: the result is a simulation and must not be released."""


class AssumedBoundsWarning(UserWarning):
    """No public bounds were given, so fixed ones that know nothing about the data were applied."""


class HopelessPlanWarning(UserWarning):
    """The planner expects the model to be no better than the majority class (or the mean) at this budget."""


class LargeDeltaWarning(UserWarning):
    """delta is above 1/n, which allows publishing somebody's record outright."""


class NoLedgerWarning(UserWarning):
    """A release without a ledger: nothing remembers what the data have spent. Given once per process."""


class PipelineWarning(UserWarning):
    """A fit inside a pipeline with steps that learn from the rows, or inside a search. Given once per process."""


_SAID: set[type[Warning]] = set()


def warn_once(text: str, kind: type[Warning], depth: int) -> None:
    """Warn the caller `depth` frames above, the first time in this process; raised as an error, it is not yet said."""
    if kind not in _SAID:
        warnings.warn(text, kind, stacklevel=depth + 1)
        _SAID.add(kind)
