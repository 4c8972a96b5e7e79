"""The shapes every room agrees on.

A *model array* has shape `(agents, d, replicas)`: the agents' models, for many independent noise runs at once.
The replica axis is contiguous, so one pass over the data serves all replicas.
"""

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
# A dense float64 array (C order), a scipy CSR array or `CentredRows`; SciPy carries no types to say so.
Matrix: TypeAlias = Any


def packed_size(dimension: int) -> int:
    """Return how many numbers a symmetric matrix has."""
    return dimension * (dimension + 1) // 2


def pack(matrix: Floats) -> Floats:
    """Return a symmetric matrix as a vector of the same (Frobenius) norm: the diagonal, sqrt(2) times what is above.

    >>> pack(np.array([[1.0, 2.0], [2.0, 3.0]])).round(4).tolist()
    [1.0, 3.0, 2.8284]
    """
    above = np.triu_indices(len(matrix), 1)
    return np.concatenate([np.diag(matrix), math.sqrt(2) * matrix[above]])


def unpack(vector: Floats, dimension: int) -> Floats:
    """Return the matrix that `pack` made a vector of."""
    matrix = np.zeros((dimension, dimension))
    matrix[np.triu_indices(dimension, 1)] = vector[dimension:] / math.sqrt(2)
    return matrix + matrix.T + np.diag(vector[:dimension])
