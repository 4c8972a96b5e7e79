"""What workers answer, without a cluster: results, errors of ours by their words, others without theirs."""

import pickle
from types import SimpleNamespace

import pytest

pytest.importorskip("distributed", reason="needs the extra dpadmm[cluster]")

from dpadmm.data import cluster
from dpadmm.data.cluster import (
    ClusterTask,
    DaskWorkers,
    connect,
    cut_evenly,
    describe_difference,
    installed_versions,
    run_task,
)
from dpadmm.errors import ClusterError, InputError

CELL = "a-private-cell"


def refused(item):
    try:
        int(item)
    except ValueError as problem:
        raise InputError("The table is no good.") from problem


def test_results_come_in_the_order_of_the_items():
    assert run_task(ClusterTask(abs, (-2, 1, -3), installed_versions())).get() == (2, 1, 3)


def test_an_error_of_ours_is_raised_by_its_texts_alone():
    answer = run_task(ClusterTask(refused, (CELL,), installed_versions()))
    assert CELL.encode() not in pickle.dumps(answer)
    with pytest.raises(InputError, match="no good") as raised:
        answer.get()
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None


def test_of_other_errors_the_kind_and_the_place_are_stated_and_not_the_text():
    answer = run_task(ClusterTask(int, (CELL,), installed_versions()))
    assert CELL.encode() not in pickle.dumps(answer)
    with pytest.raises(ClusterError, match=r"ValueError.*cluster\.py.*spent"):
        answer.get()


def test_a_task_says_nothing_of_what_it_carries():
    work = ClusterTask(int, (CELL,), installed_versions())
    assert CELL not in repr(work) + str(work) + repr(run_task(work)) + repr(run_task(ClusterTask(str, (CELL,), ())))


def test_a_worker_with_other_versions_does_nothing():
    known = tuple((name, "0" if name in ("dpadmm", "numpy") else number) for name, number in installed_versions())
    answer = run_task(ClusterTask(pytest.fail, ("it was called",), known))
    with pytest.raises(ClusterError, match=r"dpadmm.*numpy"):
        answer.get()
    assert describe_difference(installed_versions(), installed_versions()) == ""
    assert "pandas missing" in describe_difference(installed_versions(), installed_versions()[:3])
    assert {"dpadmm", "Python", "numpy", "pandas", "pyarrow", "numba"} <= {name for name, _ in installed_versions()}


@pytest.mark.parametrize(("number", "most"), [(1, 4), (7, 1), (7, 2), (8, 3), (80, 16), (5, 5)])
def test_pieces_are_all_items_in_order_and_even(number, most):
    cut = cut_evenly(range(number), most)
    assert [item for piece in cut for item in piece] == list(range(number))
    assert len(cut) == min(number, most)
    assert max(map(len, cut)) - min(map(len, cut)) <= 1


@pytest.mark.parametrize(
    ("address", "is_open"),
    [
        ("tcp://10.0.0.1:8786", True),
        ("tcp://cluster.example.org:8786", True),
        ("ws://[2001:db8::1]:8786", True),
        ("tls://10.0.0.1:8786", False),
        ("tcp://127.0.0.1:8786", False),
        ("tcp://[::1]:8786", False),
        ("tcp://localhost:8786", False),
        ("inproc://10.0.0.1/1/1", False),
    ],
)
def test_connections_that_others_may_use_are_warned_of(address, is_open):
    workers = DaskWorkers(SimpleNamespace(scheduler=SimpleNamespace(address=address)))
    assert (workers.warning is not None) is is_open
    assert not is_open or address in workers.warning


class Deserted:
    """A cluster whose workers are gone, and do not come back; or do, at the third look."""

    scheduler = SimpleNamespace(address="tcp://127.0.0.1:1")

    def __init__(self, workers):
        self.workers = iter(workers)

    def nthreads(self):
        return next(self.workers)

    def result(self, timeout):
        raise TimeoutError


def test_a_pass_without_workers_ends(monkeypatch):
    monkeypatch.setattr(cluster, "_MOST_ALONE", 0.0)
    gone = Deserted([{"one": 1}, {"one": 1}, {}])
    with pytest.raises(ClusterError, match=r"workers.*spent"):
        DaskWorkers(gone)._wait_for(gone)
    assert not list(gone.workers)  # and not before they were


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (5, "must be the address of a Dask scheduler"),
        ("tcp://127.0.0.1:1", "No Dask scheduler answers"),
        ("smoke://127.0.0.1:1", "No Dask scheduler answers"),
    ],
)
def test_what_is_no_cluster_is_refused(address, message, monkeypatch):
    monkeypatch.setattr(cluster, "_CONNECT", 0.3)
    with pytest.raises(InputError, match=message), connect(address):
        pytest.fail("connected")
