"""What can go wrong, by name. Every message says what came, what is allowed and what to do, and quotes no cell."""

from typing import NoReturn


class DpadmmError(Exception):
    """Base of every error raised on purpose by this package.

    setting: the setting that it is about, by its name in `dpadmm.settings`, "" where it is about none. code: what is
    wrong with it: `value`, `missing`, or `combination` with others. Both are stable; the text is not.
    """

    def __init__(self, *args: object, setting: str = "", code: str = "") -> None:
        """Keep the message, and what it is about."""
        super().__init__(*args)
        self.setting, self.code = setting, code


class InputError(DpadmmError, ValueError):
    """An argument or a data set is not usable as given; nothing was computed or spent."""


class SolverError(DpadmmError, ArithmeticError):
    """A local subproblem was not solved to its tolerance, so no guarantee about its value holds."""


class BudgetError(DpadmmError):
    """A release was refused because it would spend more privacy than the data set's budget allows."""


class LedgerError(DpadmmError):
    """A ledger file cannot be used: corrupt, foreign, of another version, or edited by hand."""


class ClusterError(DpadmmError):
    """The machines that make passes over the tables are gone, or failed; what was reserved for a run stays spent."""


class ResumeError(DpadmmError):
    """A saved state does not belong to the run that tries to continue it."""


def without_controls(text: str) -> str:
    r"""Return text that others had a hand in, fit for a log and a terminal: what cannot be printed is written out.

    >>> print(without_controls("north\x1b[2J\n"))
    north\x1b[2J\n
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def raise_alone(error: BaseException) -> NoReturn:
    """Raise `error` without the one being handled, whose text may quote a private cell.

    `raise ... from None` only hides that one from tracebacks; whoever reports errors may still follow `__context__`.

    >>> try:
    ...     try:
    ...         float("a cell")
    ...     except ValueError:
    ...         raise_alone(InputError("A cell is no number."))
    ... except InputError as error:
    ...     error.__context__ is None and error.__cause__ is None
    True
    """
    try:
        raise error
    finally:
        error.__context__ = None
