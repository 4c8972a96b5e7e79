"""Who might be looking, what they see, and whether the guarantee covers them."""

from dataclasses import dataclass

from dpadmm.privacy.protection import COVERED, Protection, View
from dpadmm.reporting.facts import Custody


@dataclass(frozen=True)
class Observer:
    """One row of the table of observers."""

    name: str
    sees: str
    is_covered: bool
    verdict: str


_SEEN = {
    View.EAVESDROPPER: ("Someone on the network", "every message of every round, and the final model"),
    View.COORDINATOR: ("The coordinator", "every message that is sent to it"),
    View.PEER: ("Another silo", "the messages that reach it, and its own records"),
    View.PUBLIC: ("Whoever receives the model", "the final model"),
}


# Of masked messages only the sum can be read.
_SEEN_OF_SUMS = {
    View.EAVESDROPPER: ("Someone on the network", "masked messages, of which only the sum can be read, and the model"),
    View.COORDINATOR: ("The coordinator", "the sum of all silos' messages, with the noise of all"),
    View.PUBLIC: _SEEN[View.PUBLIC],
}


_FROM_WHOM = {
    View.EAVESDROPPER: "anyone who sees every message of the training and the final model",
    View.COORDINATOR: "the coordinator, who sees every message that is sent to it, and from whoever receives the model",
    View.PEER: "any other silo, which sees the messages that reach it",
    View.PUBLIC: "anyone who receives what the coordinator publishes, not from the coordinator or an eavesdropper",
}


def from_whom(protection: Protection) -> str:
    """Say whom the guarantee names, in the words of the page.

    >>> from_whom(Protection(view=View.AGGREGATE, colluders=0))
    'the coordinator, who sees sums, and from outsiders, but not from a curious silo'
    """
    if protection.view is not View.AGGREGATE:
        return _FROM_WHOM[protection.view]
    silos = ", but not from a curious silo" if protection.n_colluders == 0 else ""
    return f"{protection.observer}, and from outsiders{silos}"


def observers(
    protection: Protection, has_coordinator: bool, is_release: bool, custody: Custody, n_silos: int = 2
) -> tuple[Observer, ...]:
    """Return everybody who may be looking; a coordinator or another silo only if there is one.

    Last comes whoever has the records as they are: with silos simulated in one place, the machine that read them all.
    """
    absent = {View.COORDINATOR} if not has_coordinator else set()
    absent |= {View.PEER} if n_silos == 1 else set()
    if protection.view is View.AGGREGATE:
        seen = [(each, True) for each in _SEEN_OF_SUMS.values()] + _silos_that_look(protection.n_colluders, n_silos)
    else:
        seen = [(row, each in COVERED[protection.view]) for each, row in _SEEN.items() if each not in absent]
    rows = []
    for who, is_named in seen:
        is_covered = is_release and is_named
        rows.append(Observer(*who, is_covered, "protected" if is_covered else "not protected"))
    holder = ("The silo that holds the record", "its own records")
    if custody is Custody.ONE_PLACE and n_silos > 1:
        holder = ("The machine that ran the training", "all records of all silos")
    return (*rows, Observer(*holder, False, "in the clear"))


def _silos_that_look(counted: int, n_silos: int) -> list[tuple[tuple[str, str], bool]]:
    """Return the silos that see sums: as many as the guarantee counts, and more of them, with what they know."""
    one, several = "the sums, and its own share of the noise", "the sums, and their own shares of the noise"
    some = ("Another silo", one) if counted == 1 else (f"Up to {counted} other silos together", several)
    more = (
        ("Another silo", one)
        if counted == 0
        else (f"More than {counted} other silo{'s' * (counted > 1)} together", several)
    )
    listed = [(some, True)] if counted else []
    return [*listed, (more, False)] if n_silos - 1 > counted else listed
