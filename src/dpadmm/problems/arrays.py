"""The shapes every room agrees on.

A *model array* has shape `(agents, d, replicas)`: the agents' models, for many independent noise runs at once.
The replica axis is contiguous, so one pass over the data serves all replicas.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
# A dense float64 array (C order), a scipy CSR array or `CentredRows`; SciPy carries no types to say so.
Matrix: TypeAlias = Any
