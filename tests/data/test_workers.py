"""Threads that make passes: what becomes of them where a process is split off."""

import os
import signal

import pytest

from dpadmm.data.parquet import ThreadWorkers


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_starts_its_own_threads():
    """It has none of its parent's, and would wait for them for ever."""
    workers = ThreadWorkers(2)
    assert list(workers.run(abs, [-1, -2, -3])) == [1, 2, 3]
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        signal.alarm(20)
        os._exit(sum(workers.run(abs, [-1, -2, -3])))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 6
