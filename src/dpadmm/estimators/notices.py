"""Warnings of the estimators, each with a class of its own so that it can be silenced, or made an error, by name."""


class SimulatedNoiseWarning(UserWarning):
    """The noise came from a seed: the result is a simulation and must not be released."""


class AssumedBoundsWarning(UserWarning):
    """No public bounds were given, so fixed ones that know nothing about the data were applied."""


class HopelessPlanWarning(UserWarning):
    """The planner expects the model to be no better than the majority class (or the mean) at this budget."""
