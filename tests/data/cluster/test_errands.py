"""What workers answer, without a cluster: results, errors of ours by their words, others without theirs."""

import pickle
from types import SimpleNamespace

import pytest

pytest.importorskip("distributed", reason="needs the extra dpadmm[cluster]")

from dpadmm.data.cluster import dask_workers
from dpadmm.data.cluster.dask_workers import DaskWorkers, connected, pieces
from dpadmm.data.cluster.errands import Complaint, Errand, differing, perform, versions
from dpadmm.errors import ClusterError, InputError

CELL = "a-private-cell"


def refused(item):
    try:
        int(item)
    except ValueError as problem:
        raise InputError("The table is no good.") from problem


def test_results_come_in_the_order_of_the_items():
    assert perform(Errand(abs, (-2, 1, -3), versions())).get() == (2, 1, 3)


def test_an_error_of_ours_is_raised_by_its_words_alone():
    answer = perform(Errand(refused, (CELL,), versions()))
    assert CELL.encode() not in pickle.dumps(answer)
    with pytest.raises(InputError, match="The table is no good") as raised:
        answer.get()
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None


def test_of_other_errors_the_kind_and_the_place_are_told_and_not_the_text():
    answer = perform(Errand(int, (CELL,), versions()))
    assert isinstance(answer, Complaint)
    assert CELL.encode() not in pickle.dumps(answer)
    with pytest.raises(ClusterError, match=r"ValueError at line \d+ of errands\.py.*stays spent"):
        answer.get()


def test_an_errand_says_nothing_of_what_it_carries():
    errand = Errand(int, (CELL,), versions())
    assert CELL not in repr(errand) + str(errand) + repr(perform(errand)) + repr(perform(Errand(str, (CELL,), ())))


def test_a_worker_with_other_versions_does_nothing():
    known = tuple((name, "0" if name in ("dpadmm", "numpy") else number) for name, number in versions())
    answer = perform(Errand(pytest.fail, ("it was called",), known))
    with pytest.raises(ClusterError, match=r"dpadmm .* instead of 0, numpy .* instead of 0\. Install"):
        answer.get()
    assert differing(versions(), versions()) == ""
    assert "pandas missing" in differing(versions(), versions()[:3])
    assert {"dpadmm", "Python", "numpy", "pandas", "pyarrow", "numba"} <= {name for name, _ in versions()}


@pytest.mark.parametrize(("number", "most"), [(1, 4), (7, 1), (7, 2), (8, 3), (80, 16), (5, 5)])
def test_pieces_are_all_items_in_order_and_even(number, most):
    cut = pieces(range(number), most)
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
    monkeypatch.setattr(dask_workers, "_MOST_ALONE", 0.0)
    gone = Deserted([{"one": 1}, {"one": 1}, {}])
    with pytest.raises(ClusterError, match=r"lost all of its workers.*stays spent"):
        DaskWorkers(gone)._answer(gone)
    assert not list(gone.workers)  # and not before they were


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (5, "must be the address of a Dask scheduler"),
        ("tcp://127.0.0.1:1", "No Dask scheduler answers"),
        ("smoke://127.0.0.1:1", "No Dask scheduler answers"),
    ],
)
def test_what_is_no_cluster_is_refused(cluster, words, monkeypatch):
    monkeypatch.setattr(dask_workers, "_CONNECT", 0.3)
    with pytest.raises(InputError, match=words), connected(cluster):
        pytest.fail("connected")
