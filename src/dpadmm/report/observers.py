"""Who may be looking at a training, what each of them sees, and whom the guarantee names."""

from typing import NamedTuple

from dpadmm.checks import plural
from dpadmm.core.model import DataLocation
from dpadmm.privacy.protection import COVERED, Protection, View


class Observer(NamedTuple):
    """One row of the table of observers."""

    name: str
    sees: str
    verdict: str


_SEEN = {
    View.EAVESDROPPER: ("Someone on the network", "every message of every round, and the final model"),
    View.COORDINATOR: ("The coordinator", "every message that is sent to it"),
    View.PEER: ("Another silo", "the messages that reach it, and its own records"),
    View.PUBLIC: ("Whoever receives the model", "the final model"),
}
_SEEN_OF_SUMS = (
    ("Someone on the network", "masked messages, of which only the sum can be read, and the model"),
    ("The coordinator", "the sum of all silos' messages, with the noise of all"),
    _SEEN[View.PUBLIC],
)
_FROM_WHOM = {
    View.EAVESDROPPER: "anyone who sees every message of the training and the final model",
    View.COORDINATOR: "the coordinator, who sees every message that is sent to it, and from whoever receives the model",
    View.PEER: "any other silo, which sees the messages that reach it",
    View.PUBLIC: "anyone who receives what the coordinator publishes, not from the coordinator or an eavesdropper",
}


def observed_by(protection: Protection) -> str:
    """Say whom the guarantee names.

    >>> observed_by(Protection(view=View.AGGREGATE, colluders=0))
    'the coordinator, who sees sums, and from outsiders, but not from a curious silo'
    """
    if protection.view is not View.AGGREGATE:
        return _FROM_WHOM[protection.view]
    silos = ", but not from a curious silo" if protection.n_colluders == 0 else ""
    return f"{protection.observer}, and from outsiders{silos}"


def observers(
    protection: Protection, has_coordinator: bool, is_release: bool, location: DataLocation, n_silos: int = 2
) -> list[Observer]:
    """Return everybody who may be looking; a coordinator or another silo only if there is one.

    Last comes whoever has the records as they are: with silos simulated in one place, the machine that read them all.
    """
    absent = {View.COORDINATOR: not has_coordinator, View.PEER: n_silos == 1}
    seen = [(row, view in COVERED[protection.view]) for view, row in _SEEN.items() if not absent.get(view)]
    if protection.view is View.AGGREGATE:
        seen = [(row, True) for row in _SEEN_OF_SUMS] + _curious_silos(protection.n_colluders, n_silos)
    rows = [Observer(*row, "protected" if is_release and is_named else "not protected") for row, is_named in seen]
    if location is DataLocation.ONE_PLACE and n_silos > 1:
        return [*rows, Observer("The machine that ran the training", "all records of all silos", "in the clear")]
    return [*rows, Observer("The silo that holds the record", "its own records", "in the clear")]


def _curious_silos(counted: int, n_silos: int) -> list[tuple[tuple[str, str], bool]]:
    """Return the silos that see sums: as many as the guarantee counts, and more of them, with what they know."""
    one = ("Another silo", "the sums, and its own share of the noise")
    several = "the sums, and their own shares of the noise"
    more = one if counted == 0 else (f"More than {plural(counted, 'other silo')} together", several)
    some = one if counted == 1 else (f"Up to {counted} other silos together", several)
    return [(some, True)] * (counted > 0) + [(more, False)] * (n_silos - 1 > counted)
