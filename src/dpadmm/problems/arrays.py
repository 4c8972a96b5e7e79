"""The shapes every room agrees on.

A *model array* has shape `(agents, d, replicas)`: the agents' models, for many independent noise runs at once.
The replica axis is contiguous, so one pass over the data serves all replicas.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpadmm.errors import InputError, raise_alone

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
# A dense float64 array (C order), a scipy CSR array or `CentredRows`; SciPy carries no types to say so.
Matrix: TypeAlias = Any


def as_numbers(name: str, values: Any) -> Floats:
    """Return an array of finite numbers, in C order."""
    try:
        array = np.asarray(values, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise_alone(InputError(f"{name} must hold numbers, got something else."))
    if not np.isfinite(array).all():
        raise InputError(f"{name} must hold finite numbers, got NaN or infinite values.")
    return array
