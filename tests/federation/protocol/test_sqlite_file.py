"""Arrays and files that survive: read back as large as they are written."""

import io

import numpy as np
import pytest

from dpadmm.errors import InputError
from dpadmm.federation import sqlite_file


@pytest.mark.slow
def test_arrays_of_every_size_are_read_back():
    (found,) = sqlite_file.unpack(sqlite_file.pack([np.ones((9, 2**22))]))
    assert found.shape == (9, 2**22)
    assert found[-1, -1] == 1.0


def test_compressed_arrays_are_refused():
    """`pack` compresses nothing, so what unpacks to more than its length is not its work."""
    target = io.BytesIO()
    np.savez_compressed(target, **{"000": np.zeros(1000)})
    with pytest.raises(InputError, match="unpacks to more"):
        sqlite_file.unpack(target.getvalue())
