"""Warnings of the estimators, each with a class of its own so that it can be silenced, or made an error, by name.

All are given before anything is spent, so whoever turns them into errors loses nothing.
"""


class SimulatedNoiseWarning(UserWarning):
    """The noise came from a seed: the result is a simulation and must not be released."""


class AssumedBoundsWarning(UserWarning):
    """No public bounds were given, so fixed ones that know nothing about the data were applied."""


class HopelessPlanWarning(UserWarning):
    """The planner expects the model to be no better than the majority class (or the mean) at this budget."""


class NoIntervalsWarning(UserWarning):
    """Intervals were asked for, and the planner expects that none could be told at this budget: none are bought."""


class LargeDeltaWarning(UserWarning):
    """delta is above 1/n, which allows publishing somebody's record outright."""


class NoLedgerWarning(UserWarning):
    """A release without a ledger: nothing records what is spent on the data. Given once per process."""


class AwkwardCellsWarning(UserWarning):
    """Cells of a table were filled, clipped or blanked, as asked for. How many is for the data's holder alone."""
