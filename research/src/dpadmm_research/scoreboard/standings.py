"""Who is ahead on the Adult scoreboard, from the numbers of its table."""

from typing import NamedTuple

import numpy as np

from dpadmm.privacy.protection import View
from dpadmm_research.reproduction.table import Reading, Table, chosen
from dpadmm_research.scoreboard.entries import VIEWS, RoundKind, competing, entry_of

TIE = 2.0
"""Differences below this many standard errors are called ties."""


class Standing(NamedTuple):
    """A method's mean over the runs and the variance of that mean."""

    mean: float
    variance: float
    name: str


def competitors(table: Table, view: View) -> Table:
    """Return the rows of all methods whose certificate holds in this view."""
    return chosen(table, reading=Reading.CERTIFIED, panel=[VIEWS[each].name.upper() for each in competing(view)])


def standings(table: Table, view: View, metric: str, epsilon: float) -> list[Standing]:
    """Return all methods of a view at a budget, lowest first; methods without a plan there are not among them."""
    rows = chosen(competitors(table, view), metric=metric, epsilon=epsilon)
    found = []
    for name, values in rows.groupby("curve")["value"]:
        spread = float(values.var(ddof=1)) / len(values) if len(values) > 1 else 0.0
        found.append(Standing(float(values.mean()), spread, str(name)))
    return sorted(found)


def ranking(table: Table, view: View, metric: str, epsilon: float) -> list[str]:
    """Return all methods of a view by their mean at one budget; those without a number there come last."""
    known = [standing.name for standing in standings(table, view, metric, epsilon)]
    return known + [name for name in dict.fromkeys(competitors(table, view)["curve"]) if name not in known]


class Duel(NamedTuple):
    """The best ADMM and the best gradient method at one budget."""

    epsilon: float
    admm: Standing
    gradient: Standing

    @property
    def is_tie(self) -> bool:
        """Whether the noise of the runs could explain the difference."""
        spread = np.sqrt(self.admm.variance + self.gradient.variance)
        return bool(abs(self.admm.mean - self.gradient.mean) < TIE * spread)

    @property
    def winner(self) -> RoundKind | None:
        """The kind of the lower mean; None for a tie."""
        if self.is_tie:
            return None
        return RoundKind.ADMM if self.admm.mean < self.gradient.mean else RoundKind.GRADIENT


def duels(table: Table, view: View, metric: str) -> list[Duel]:
    """Return the duel at every budget where both kinds have a number."""
    found = []
    for epsilon in sorted(set(competitors(table, view)["epsilon"])):
        here = standings(table, view, metric, epsilon)
        best = {kind: next((s for s in here if entry_of(s.name).kind is kind), None) for kind in RoundKind}
        admm, gradient = best[RoundKind.ADMM], best[RoundKind.GRADIENT]
        if admm is not None and gradient is not None:
            found.append(Duel(epsilon, admm, gradient))
    return found


def duels_text(table: Table, view: View, metric: str) -> str:
    """Say at which budgets which kind has the lower mean, with the numbers."""
    all_of_them = duels(table, view, metric)
    heads = {RoundKind.ADMM: "ADMM is ahead", RoundKind.GRADIENT: "gradient methods are ahead", None: "a tie"}
    summary = []
    for winner, texts in heads.items():
        budgets = [f"{duel.epsilon:g}" for duel in all_of_them if duel.winner is winner]
        if budgets:
            summary.append(f"{texts} at eps {', '.join(budgets)}")
    numbers = [
        f"eps {duel.epsilon:g}: {duel.admm.name} {duel.admm.mean:.4f}, {duel.gradient.name} {duel.gradient.mean:.4f}"
        for duel in all_of_them
    ]
    return "; ".join(summary) + f" ({'; '.join(numbers)})"
