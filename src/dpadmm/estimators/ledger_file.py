"""The ledger of a fit: an existing file, or a new one with a budget; and what an existing one's budget is about."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpadmm import checks
from dpadmm.checks import setting
from dpadmm.errors import InputError
from dpadmm.privacy.ledger import Budget, ConfirmedLedger, Ledger, SiloColumns, open_for_reading
from dpadmm.privacy.protection import ONE_RECORD, Protection


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


@dataclass(frozen=True, kw_only=True)
class LedgerFile:
    """The ledger to record in: an existing file, or a new one with a budget; None keeps no record."""

    path: Path | None = None
    budget: float | None = None

    @property
    def name(self) -> str:
        """The ledger's file name, as reports show it."""
        return "" if self.path is None else self.path.name

    @property
    def is_new(self) -> bool:
        """Whether the ledger is still to be made."""
        return self.path is not None and self.budget is not None and not self.path.exists()

    @property
    def protection(self) -> Protection:
        """What the budget of an existing file is about, else the usual protection."""
        return protection_of(self.path if self.path is not None and self.path.exists() else None)

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
    def open(
        self, data: Sequence[SiloColumns], delta: float, protection: Protection
    ) -> Iterator[ConfirmedLedger | None]:
        """Yield the ledger, found to be that of these data; a new one is created first."""
        if self.path is None:
            yield None
            return
        if self.is_new:  # one that another process has made since is opened as any other
            budget = Budget(epsilon=self.budget or 0.0, delta=delta)
            Ledger.create(self.path, data, budget, protection=protection).close()
        with Ledger.open(self.path) as ledger:
            confirmed = ledger.confirm(data)
            confirmed.check_protection(protection)
            yield confirmed
