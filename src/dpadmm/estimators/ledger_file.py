"""The ledger of a fit: an existing file, or a new one with a budget; and what to say where there is none."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias

from dpadmm import checks
from dpadmm.checks import setting, shown
from dpadmm.errors import InputError
from dpadmm.privacy.ledger import Budget, ConfirmedLedger, Ledger, SiloColumns, open_for_reading
from dpadmm.privacy.protection import ONE_RECORD, Protection, Unit

LedgerData: TypeAlias = Callable[[bool], Sequence[SiloColumns]]
"""The silos of a fit as a ledger knows them; if asked so, all rows as one silo, which some ledgers are about."""

_USUAL_DELTA = 1e-6  # where a release asks for none


def protection_of(ledger: Any) -> Protection:
    """Return what the ledger's budget is about, or the usual protection without one."""
    if ledger is None:
        return ONE_RECORD
    if isinstance(ledger, ConfirmedLedger):
        return ledger.ledger.protection
    if isinstance(ledger, Ledger):
        return ledger.protection
    with open_for_reading(ledger) as book:
        return book.protection


def check_ledger(ledger: Any) -> None:
    """Refuse what is neither a path nor a ledger."""
    if ledger is not None and not isinstance(ledger, Ledger | str | os.PathLike):
        raise InputError(
            f"ledger must be a path, an open Ledger or None, got {type(ledger).__name__}. Create one with "
            "Ledger.create(path, ledger_data(X, y, groups), Budget(epsilon=..., delta=...))."
        )


@contextmanager
def opened(ledger: Any, data: LedgerData) -> Iterator[ConfirmedLedger | None]:
    """Yield the ledger, a path or open, found to be that of these very data; None without one.

    A confirmed one, which only this package hands in, was shown the table of which the data are an encoding.
    """
    if ledger is None or isinstance(ledger, ConfirmedLedger):
        yield ledger
        return
    book = ledger.here() if isinstance(ledger, Ledger) else Ledger.open(ledger)
    try:
        yield book.confirm(data(len(book.silos) == 1))
    finally:
        if book is not ledger:
            book.close()


@dataclass(frozen=True, kw_only=True)
class LedgerFile:
    """The ledger to record in: an existing file, a new one with a budget, or one that is open; None keeps no record."""

    path: Path | None = None
    budget: float | None = None
    held: Ledger | None = None

    @property
    def name(self) -> str:
        """The ledger's file name, as reports show it."""
        path = self.path if self.held is None else self.held.path
        return "" if path is None else path.name

    @property
    def is_wanted(self) -> bool:
        """Whether a record is kept."""
        return self.path is not None or self.held is not None

    @property
    def is_new(self) -> bool:
        """Whether the ledger is still to be made."""
        return self.path is not None and self.budget is not None and not self.path.exists()

    @property
    def is_kept(self) -> bool:
        """Whether there is a ledger already."""
        return self.held is not None or (self.path is not None and self.path.exists())

    @property
    def protection(self) -> Protection:
        """What the budget of an existing ledger is about, else the usual protection."""
        return protection_of((self.held or self.path) if self.is_kept else None)

    def check(self, epsilon: float) -> None:
        """Refuse a new ledger without a budget, or with one for less than this run, and a budget other than kept."""
        budget = setting("budget")
        if self.path is None:
            if self.budget is not None:
                raise InputError(f"{budget} is for a new ledger. Name its file with {setting('ledger', 'FILE')}.")
            return
        if self.budget is None:
            if not self.path.exists():
                raise InputError(
                    f"{self.path} does not exist yet. To start it, state the most epsilon that these data may "
                    f"ever spend, at the same delta: {budget}."
                )
            return
        if self.path.exists():
            with open_for_reading(self.path) as book:
                kept = book.budget.epsilon
            if kept != self.budget:
                raise InputError(
                    f"{self.path} already has a budget, epsilon {kept:g}. Leave out {budget}, or change it with "
                    "`dpadmm ledger budget`."
                )
        elif checks.positive("budget", self.budget) < epsilon:
            raise InputError(
                f"{setting('budget', self.budget)} is less than this run's {setting('epsilon', epsilon)}. Nothing "
                "was written or spent. State the most that these data may ever spend, including this run."
            )

    @contextmanager
    def open(self, data: LedgerData, delta: float, protection: Protection) -> Iterator[ConfirmedLedger | None]:
        """Yield the ledger, found to be that of these data; a new one is created first."""
        if self.path is not None and self.is_new:  # one that another process has made since is opened as any other
            budget = Budget(epsilon=self.budget or 0.0, delta=delta)
            Ledger.create(self.path, data(False), budget, protection=protection).close()
        with opened(self.held or self.path, data) as ledger:
            if ledger is not None:
                ledger.check_protection(protection)
            yield ledger


_NO_LEDGER = (
    "no ledger is given, so nothing records what is spent on these data, although every further fit or figure adds to "
    "it."
)


def no_ledger_words(call: str, budget: str) -> str:
    """Return what a fit without a ledger means, with the arguments that start one.

    >>> no_ledger_words("fit", "2").endswith("fit(..., ledger='data.ledger', budget=2). (This warning appears once.)")
    True
    """
    return (
        f"{_NO_LEDGER} Start one with the most epsilon that these data may ever spend: {call}(..., "
        f"ledger='data.ledger', budget={budget}). (This warning appears once.)"
    )


def figure_without_ledger_words(
    epsilon: float, delta: float | None, protection: Protection, *, has_groups: bool
) -> str:
    """Return what a figure without a ledger means, with lines to copy that make one, for two such figures."""
    changed = {
        field.name: shown(getattr(protection, field.name))
        for field in fields(Protection)
        if getattr(protection, field.name) != getattr(ONE_RECORD, field.name)
    }
    listed = ", ".join(f"{name}={value}" for name, value in changed.items())
    whose = ", persons=persons" if protection.unit is Unit.PERSON else ""
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
        f"    Ledger.create('data.ledger', ledger_data(X, y{', groups' if has_groups else ''}{whose}), {budget}"
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
