"""Federations here lose processes, never power: files are written as always, but nobody waits for the disk."""

import pytest

from dpadmm.federation import sqlite_file
from dpadmm.federation.terms import NoiseOrigin
from dpadmm.privacy.ledger import store


def _unsynced(original, place):
    def changed(*args, **kwargs):
        made = original(*args, **kwargs)
        (made if place is None else args[place]).execute("PRAGMA synchronous = OFF")
        return made

    return changed


@pytest.fixture(scope="session", autouse=True)
def unsynced():
    """What the system has been given survives the end of a process; that it reaches the disk is SQLite's business."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_file, "connect", _unsynced(sqlite_file.connect, None))
        patch.setattr(store, "_make_durable", _unsynced(store._make_durable, 0))
        yield


@pytest.fixture(scope="session")
def masked_template(setups, tmp_path_factory):
    """Three silos, noisy gradients under masks, four rounds, test noise, approved; closed, to be copied."""
    made = setups.make(tmp_path_factory.mktemp("masked"), "noisy-gradients", {"step": 0.5}, **setups.MASKED)
    for silo in made.silos.values():
        silo.close()
    return made


@pytest.fixture
def masked_world(setups, masked_template, tmp_path):
    """A copy of that template."""
    made = setups.copied(masked_template, tmp_path)
    yield made
    for silo in made.silos.values():
        silo.close()


@pytest.fixture(scope="session")
def star_template(setups, tmp_path_factory):
    """Three silos on a star with secure noise, three rounds, approved; closed, to be copied."""
    terms = {"noise": NoiseOrigin.SECURE, "rounds": 3, "edges": (), "epsilon": 0.5}
    return setups.closed(setups.make(tmp_path_factory.mktemp("star"), "fp-federated", {"gamma": 1.0}, **terms))


@pytest.fixture
def star(setups, star_template, tmp_path):
    """A copy of that template."""
    made = setups.copied(star_template, tmp_path / "star")
    yield made
    setups.closed(made)
