"""Where sampling protects, every silo draws its batches from a secret of its own, not from terms that all know."""

import pytest

from dpadmm.federation.terms import NoiseOrigin
from dpadmm.methods import ps_admm

SETTINGS = {"rho": 0.3, "step": 0.3, "inner_steps": 2, "batch": 5}


@pytest.fixture
def seeds(monkeypatch):
    """The seeds of all batches that are drawn, in the order of the draws."""
    found, original = [], ps_admm.batch_gradients

    def spied(batches, *args, **kwargs):
        found.append(batches.seed)
        return original(batches, *args, **kwargs)

    monkeypatch.setattr(ps_admm, "batch_gradients", spied)
    return found


def test_batches_of_a_release_come_from_each_silos_own_secret(setups, tmp_path, seeds):
    """Of 128 bits: whoever can try all seeds knows the batches, and sampling then hides nobody."""
    kind = {"noise": NoiseOrigin.SECURE, "rounds": 2, "edges": (), "sizes": (12, 10)}
    world = setups.make(tmp_path, "ps-admm", SETTINGS, **kind)
    world.drive(world.coordinator())
    assert len(seeds) > len(set(seeds)) == len(world.silos)
    assert all(seed.bit_length() > 64 for seed in seeds)
    kept = {silo.store.joined(world.terms.digest)[1] for silo in world.silos.values()}
    assert set(seeds) == kept
    setups.closed(world)
