"""The executor of a silo outlives whatever its node does."""

import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr", reason="needs the extra dpadmm[federation]")

from dpadmm.engines.flower import executor


def test_a_task_whose_end_the_node_refuses_does_not_end_the_service(monkeypatch, tmp_path):
    stop, seen = threading.Event(), []

    def work(address, token):
        seen.append(token)
        if len(seen) == 1:
            raise ConnectionError("the run is gone")
        stop.set()

    task = SimpleNamespace(token="token", HasField=lambda name: True)
    client = SimpleNamespace(AcquireTask=lambda request: task, close=lambda: None)
    monkeypatch.setattr(executor, "_client", lambda address, interceptor: client)
    monkeypatch.setattr(executor, "_work", work)
    executor.serve("127.0.0.1:1", executor.auth_secret(tmp_path), stop)
    assert seen == ["token", "token"]
