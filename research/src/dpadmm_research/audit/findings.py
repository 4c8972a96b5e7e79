"""Checks of transcripts: each looks for one kind of violation and bounds its false-alarm rate."""

from dataclasses import dataclass
from enum import Enum

FALSE_ALARM = 1e-7
"""Largest probability with which a statistical check calls a sound build broken."""


class Check(Enum):
    """What is checked; the value says what a sound build does."""

    SENSITIVITY = "values before noise move no further than the certificate says, whatever was sent before"
    SCALE = "every release has the noise that is planned for it"
    INDEPENDENCE = "noise is independent across rounds, agents, releases, coordinates and runs"
    SAMPLING = "every record is in every batch with the stated probability, independently of other batches"
    MODEL = "the model is computed from released messages alone"
    ROUNDING = "values are rounded to the grid that the certificate counts, and to no coarser one"


@dataclass(frozen=True)
class CheckOutcome:
    """The outcome of one check on one subject.

    worst: for SENSITIVITY the largest distance over the certified bound (it may not pass 1), for MODEL the largest
    relative distance (no chance is involved in either); for the others the smallest p-value of all tests, times their
    number. where: the release it was found at.
    """

    check: Check
    method: str
    pair: str
    worst: float
    where: str
    is_broken: bool
