"""What a model is for: to predict, or to learn about coefficients."""

from enum import Enum
from typing import Any

from dpadmm.checks import member


class Aim(Enum):
    """To predict as well as noise allows, or to tell coefficients with confidence intervals (C14)."""

    PREDICTION = "prediction"
    INFERENCE = "inference"

    @property
    def wants_intervals(self) -> bool:
        """Whether coefficients are to be told with intervals."""
        return self is Aim.INFERENCE


def aim_of(word: Any) -> Aim:
    """Return the aim that a word names.

    >>> aim_of("inference").wants_intervals
    True
    """
    return member("aim", word, Aim)
