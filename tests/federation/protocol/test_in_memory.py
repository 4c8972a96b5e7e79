"""The transport in memory keeps the contract of all transports."""

from contextlib import contextmanager

import pytest
from tests.contracts.transport_contract import TransportContract

from dpadmm.federation.silo import Silo


class TestInMemory(TransportContract):
    @pytest.fixture
    def carry(self, setups):
        @contextmanager
        def carried(world):
            silos = {name: Silo(world.place / name) for name in world.silos}
            yield setups.InMemory({name: (lambda silo=silo: silo) for name, silo in silos.items()}, world.terms)
            for silo in silos.values():
                silo.close()

        return carried
