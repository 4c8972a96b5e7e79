"""Warnings of the estimators, each with a class of its own so that it can be silenced, or made an error, by name.

All are given before anything is spent, so whoever turns them into errors loses nothing.
"""

import warnings
from dataclasses import fields

from dpadmm.checks import safe_repr
from dpadmm.privacy.protection import ONE_RECORD, Protection, Unit

_USUAL_DELTA = 1e-6  # where a release asks for none


class SimulatedNoiseWarning(UserWarning):
    """The noise came from a seed: the result is a simulation and must not be released."""


class AssumedBoundsWarning(UserWarning):
    """No public bounds were given, so fixed ones that know nothing about the data were applied."""


class HopelessPlanWarning(UserWarning):
    """The planner expects the model to be no better than the majority class (or the mean) at this budget."""


class NoIntervalsWarning(UserWarning):
    """Intervals were asked for, and the planner expects none at this budget: nothing is spent on them."""


class LargeDeltaWarning(UserWarning):
    """delta is above 1/n, which allows publishing somebody's record outright."""


class NoLedgerWarning(UserWarning):
    """A release without a ledger: nothing records what is spent on the data. Given once per process."""


class AwkwardCellsWarning(UserWarning):
    """Cells of a table were filled, clipped or blanked, as asked for. How many is for the data's holder alone."""


_NO_LEDGER = (
    "no ledger is given, so nothing records what is spent on these data, although every further fit or figure adds to "
    "it."
)


def no_ledger_notice(call: str, budget: str) -> str:
    """Return what a fit without a ledger means, with the arguments that start one.

    >>> no_ledger_notice("fit", "2").endswith("fit(..., ledger='data.ledger', budget=2). (This warning appears once.)")
    True
    """
    return (
        f"{_NO_LEDGER} Start one with the most epsilon that these data may ever spend: {call}(..., "
        f"ledger='data.ledger', budget={budget}). (This warning appears once.)"
    )


def figure_without_ledger_notice(
    epsilon: float, delta: float | None, protection: Protection, *, has_groups: bool
) -> str:
    """Return what a figure without a ledger means, with lines to copy that make one, for two such figures."""
    changed = {
        field.name: safe_repr(getattr(protection, field.name))
        for field in fields(Protection)
        if getattr(protection, field.name) != getattr(ONE_RECORD, field.name)
    }
    listed = ", ".join(f"{name}={value}" for name, value in changed.items())
    argument = ", persons=persons" if protection.unit is Unit.PERSON else ""
    budget = f"Budget(epsilon={2 * epsilon:g}, delta={min(2 * (delta or _USUAL_DELTA), 0.5):g})"
    lines = (
        f"{_NO_LEDGER} Create a ledger once, with the most that these data may ever spend:",
        "    from dpadmm.estimators import ledger_data",
        "    from dpadmm.privacy.ledger import Budget, Ledger",
        *(
            ["    from dpadmm.privacy.protection import ONE_RECORD, Protection, NeighbouringRelation, Unit, View"]
            if changed
            else []
        ),
        f"    Ledger.create('data.ledger', ledger_data(X, y{', groups' if has_groups else ''}{argument}), {budget}"
        f"{f', protection=Protection({listed})' if changed else ''}).close()",
        "and pass ledger='data.ledger' from then on. (This warning appears once.)",
    )
    return "\n".join(lines)


_WARNED: set[type[Warning]] = set()


def warn_once(text: str, kind: type[Warning], stacklevel: int) -> None:
    """Warn, the first time in this process; a warning that was raised as an error comes again."""
    if kind not in _WARNED:
        warnings.warn(text, kind, stacklevel=stacklevel)
        _WARNED.add(kind)
