"""Addresses at which there is no scheduler: one error that says what to do, and no wait for what never was."""

import socket
import subprocess
import sys
import threading

import pytest

from dpadmm.data.cluster import connect
from dpadmm.errors import InputError

ASK = """
from dpadmm.data.cluster import connect
try:
    with connect("nonsense"):
        pass
except Exception as error:
    print(type(error).__name__)
"""


def test_whoever_is_no_scheduler_is_refused():
    """Dask takes the first bytes of an answer for a length, and asks for so much memory."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            other, _ = server.accept()
            other.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            other.close()

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(InputError, match=address), connect(address):
            pytest.fail("connected")
        thread.join()


def test_a_refused_address_leaves_no_client_to_wait_for():
    """Left open, it would be closed when the process ends, after twenty seconds and with a traceback."""
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("InputError\n", "")
