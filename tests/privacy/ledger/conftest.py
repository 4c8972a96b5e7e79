"""Ledgers of small data."""

from pathlib import Path

import pytest
from tests.privacy.ledger import tools

from dpadmm.privacy.ledger import Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "clinic.ledger"


@pytest.fixture
def closed(path: Path) -> Path:
    """A closed ledger with three releases."""
    with Ledger.create(path, tools.data, tools.budget) as ledger:
        for k in range(3):
            tools.reserve(ledger, tools.gaussian(k))
    return path


@pytest.fixture
def ledger(path: Path):
    """A fresh ledger under the small accountant."""
    with Ledger.create(path, tools.data, tools.budget) as fresh:
        yield fresh
