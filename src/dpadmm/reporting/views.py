"""Who might be looking, what they see, and whether the guarantee covers them."""

from dataclasses import dataclass

from dpadmm.privacy.protection import COVERED, View
from dpadmm.reporting.facts import Custody


@dataclass(frozen=True)
class Observer:
    """One row of the table of observers."""

    name: str
    sees: str
    is_covered: bool
    verdict: str


_SEEN = {
    View.EAVESDROPPER: ("Somebody on the network", "every message of every round, and the final model"),
    View.COORDINATOR: ("The coordinator", "every message that is sent to it"),
    View.PEER: ("Another silo", "the messages that reach it, and its own records"),
    View.PUBLIC: ("Whoever receives the model", "the final model"),
}


FROM_WHOM = {
    View.EAVESDROPPER: "anyone who sees every message of the training and the final model",
    View.COORDINATOR: "the coordinator, who sees every message that is sent to it, and from whoever receives the model",
    View.PEER: "any other silo, which sees the messages that reach it",
    View.PUBLIC: "anyone who receives what the coordinator publishes, but not from the coordinator itself or a wiretap",
}
"""Whom the guarantee names, in the words of the page."""


def observers(
    view: View, has_coordinator: bool, is_release: bool, custody: Custody, n_silos: int = 2
) -> tuple[Observer, ...]:
    """Return everybody who may be looking; a coordinator or another silo only if there is one.

    Last comes whoever has the records as they are: with silos simulated in one place, the machine that read them all.
    """
    absent = {View.COORDINATOR} if not has_coordinator else set()
    absent |= {View.PEER} if n_silos == 1 else set()
    listed = [each for each in View if each not in absent]
    rows = []
    for each in listed:
        is_covered = is_release and each in COVERED[view]
        rows.append(Observer(*_SEEN[each], is_covered, "protected" if is_covered else "not protected"))
    holder = ("The silo that holds the record", "its own records")
    if custody is Custody.ONE_PLACE and n_silos > 1:
        holder = ("The machine that ran the training", "all records of all silos")
    return (*rows, Observer(*holder, False, "in the clear"))
