"""MaskedMessages over real TLS on the loopback keep the contract of all transports."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from tests.contracts.transport_contract import TransportContract

from dpadmm.federation.silo_directory import SiloDirectory


class TestHttps(TransportContract):
    @pytest.fixture
    def carry(self, ports, threads):
        @contextmanager
        def carried(world):
            port = ports.Port(world.key, {name: silo.key for name, silo in world.silos.items()}, world.place)
            silos = {name: SiloDirectory(world.place / name) for name in world.silos}
            staff = threads.Staff(SimpleNamespace(silos=silos, address=f"{ports.HERE}:{port.number}"))
            for name in silos:
                staff.start(name)
            box = port.queue.open(world.terms)
            try:
                yield box
            finally:
                box.close()
                staff.ask_to_stop()
                port.server.should_exit = True  # which lets go whoever waits for letters
                for thread in staff.threads.values():
                    thread.join(ports.SECONDS)
                port.close()

        return carried
