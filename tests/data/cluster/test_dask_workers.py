"""A cluster of two processes on this machine, shared by all tests here: the same sums, and clear refusals."""

import operator
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("distributed", reason="needs the extra dpadmm[cluster]")

import distributed
from tests.grouped import grouped

import dpadmm
from dpadmm.data import cluster
from dpadmm.data.cluster import DaskWorkers, connect
from dpadmm.data.parquet import ParquetTable
from dpadmm.data.sources import cluster_workers
from dpadmm.errors import ClusterError, InputError
from dpadmm.estimators import SimulatedNoiseWarning

pytestmark = pytest.mark.xdist_group("cluster")

TABLES = ["north.parquet", "south"]
CELL = "a-private-cell"


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as made,
    ):
        yield made


@pytest.fixture
def workers(client):
    return DaskWorkers(client)


def fitted(options, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulatedNoiseWarning)
        return dpadmm.fit(TABLES, **grouped(seed=3, **options, **more))


def logs(client):
    logs = [*client.get_worker_logs().values(), client.get_scheduler_logs()]
    return "\n".join(line for lines in logs for _, line in lines)


def forgotten(client, within=10):
    """Return whether the scheduler soon knows of no task."""
    deadline = time.monotonic() + within
    while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_results_come_in_order_from_as_many_tasks_as_threads(workers, client, monkeypatch):
    sent = []
    plain = client.map
    monkeypatch.setattr(
        client, "map", lambda *arguments, **more: sent.extend(arguments[1]) or plain(*arguments, **more)
    )
    assert list(workers.run(operator.neg, range(7))) == [-i for i in range(7)]
    assert [len(work.items) for work in sent] == [3, 4]
    assert list(workers.run(operator.neg, [])) == []


def test_a_model_has_the_bits_of_the_one_made_in_process(client, places):
    """Paths are relative, and workers are in another folder; one silo is a folder of two files."""
    here = fitted(places.settings, stream=True, scratch="off")
    there = fitted(places.settings, cluster=client)
    assert here.coefficients == there.coefficients
    gradients = {**places.settings, "method": "noisy-gradients", "view": "public"}
    assert fitted(gradients, stream=True).coefficients == fitted(gradients, cluster=client).coefficients
    assert np.abs(here.coefficients).max() > 0
    assert here.silos == there.silos
    assert here.guarantee == there.guarantee
    assert client.status == "running"  # who made it closes it
    assert forgotten(client)  # exact sums do not stay in the cluster


def test_an_address_is_enough(client, monkeypatch):
    warned = []
    with cluster_workers(client.scheduler.address, warned.append) as workers:
        own = workers.client
        assert list(workers.run(abs, [-1])) == [1]
    assert own.status == "closed"
    assert warned == []
    monkeypatch.setattr(cluster, "_is_local", lambda host: False)
    with cluster_workers(client, warned.append):
        assert "without encryption" in warned[0]


def test_long_points_go_to_every_task_without_a_warning(workers):
    point = np.arange(1e6)
    found = list(workers.run(operator.itemgetter(-1), [point, -point]))
    assert found == [point[-1], -point[-1]]


def test_no_cell_is_in_an_error_or_in_a_log(workers, client):
    with pytest.raises(ClusterError, match="ValueError") as raised:
        list(workers.run(int, ["1", CELL, "3"]))
    assert CELL not in str(raised.value)
    assert raised.value.__context__ is None
    assert CELL not in logs(client)
    assert forgotten(client, within=2)  # although the traceback that is kept here knows the futures
    assert list(workers.run(int, ["1", "3"])) == [1, 3]


def test_what_dask_would_say_of_a_failing_task_is_in_the_logs_that_are_searched(client):
    future = client.submit(int, CELL, pure=False)
    with pytest.raises(ValueError, match=CELL):
        future.result()
    assert CELL in logs(client)
    future.release()


def test_a_file_that_changes_is_refused_by_workers(workers, places):
    (table,) = workers.check_tables([ParquetTable.of(Path("north.parquet"))])
    assert all(part.path.is_absolute() for part in table.parts)
    check = operator.methodcaller("check")
    assert list(workers.run(check, table.parts)) == [None] * len(table.parts)
    (places.folder / "north.parquet").write_bytes((places.folder / "south/1.parquet").read_bytes())
    with pytest.raises(InputError, match="has changed"):
        list(workers.run(check, table.parts))


def test_files_that_workers_do_not_see_are_refused_before_a_pass(workers, places):
    tables = [ParquetTable.of(Path(name)) for name in TABLES]
    (places.folder / "south/1.parquet").unlink()
    (places.folder / "north.parquet").write_bytes((places.folder / "south/2.parquet").read_bytes())
    message = r"Worker tcp.* has another file at .*north.*; .*cannot read .*1.parquet.*and 1 more\. Every worker needs"
    with pytest.raises(InputError, match=message):
        workers.check_tables(tables)


def test_other_versions_are_refused_before_and_at_a_task(workers, client):
    def spoil():
        from dpadmm.data import cluster

        cluster.kept, cluster.installed_versions = (
            cluster.installed_versions,
            lambda: (("dpadmm", "0.0.7"), *cluster.kept()[1:]),
        )

    def mend():
        from dpadmm.data import cluster

        cluster.installed_versions = cluster.kept

    one = list(client.nthreads())[:1]
    workers.check()
    client.run(spoil, workers=one)
    try:
        with pytest.raises(InputError, match=rf"{one[0]} .*0\.0\.7"):
            workers.check()
        with pytest.raises(ClusterError, match=r"0\.0\.7"):
            list(workers.run(abs, [1, 2]))
    finally:
        client.run(mend, workers=one)
    workers.check()


def test_a_machine_without_dpadmm_is_refused(workers, client, monkeypatch):
    monkeypatch.setattr(client, "run", lambda *arguments, **more: {"tcp://far:1": ModuleNotFoundError("dpadmm")})
    with pytest.raises(InputError, match="tcp://far:1"):
        workers.check()


def test_a_pass_that_is_given_up_is_cancelled(workers, client):
    begun = workers.run(time.sleep, [0, 0, 1, 1])
    assert next(begun) is None
    begun.close()  # as Ctrl-C does
    assert forgotten(client, within=1)


def test_what_is_kept_is_made_once_and_given_up_at_the_end(client):
    other = "another-private-cell"
    makers, tasks = [partial(np.full, 3, float(i)) for i in range(5)], [operator.methodcaller("sum")] * 5
    with connect(client) as workers:
        assert list(workers.run_kept(makers, tasks)) == [0.0, 3.0, 6.0, 9.0, 12.0]
        first = [(future.key, number) for future, number in workers.kept.values()]
        assert list(workers.run_kept(makers[3:0:-1], tasks[:3])) == [9.0, 6.0, 3.0]
        assert [(future.key, number) for future, number in workers.kept.values()] == first
        with pytest.raises(ClusterError, match="ValueError") as raised:
            list(workers.run_kept([partial(int, other)], [abs]))
        assert other not in str(raised.value)
    assert forgotten(client)
    assert other not in logs(client)


def test_a_scheduler_that_comes_back_gets_the_work_that_is_left(monkeypatch):
    """What was kept is made again; answers that had come are not asked for twice."""
    monkeypatch.setattr(cluster, "_LOOK", 0.1)
    monkeypatch.setattr(cluster, "_CONNECT", 2.0)
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    warned, made = [], []
    first = distributed.LocalCluster(protocol="tcp://", **options)
    port = int(first.scheduler_address.rpartition(":")[2])
    makers, tasks = [partial(operator.neg, i) for i in range(4)], [partial(operator.add, 10)] * 4
    try:
        with connect(first.scheduler_address, warned.append) as workers:
            begun = workers.run_kept(makers, tasks)
            made.append(next(begun))
            first.close()
            first = distributed.LocalCluster(protocol="tcp://", scheduler_port=port, **options)
            made += list(begun)
    finally:
        first.close()
    assert made == [10, 9, 8, 7]


def test_a_client_of_a_lost_scheduler_says_what_to_do(places, monkeypatch):
    monkeypatch.setattr(cluster, "_CONNECT", 0.2)
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as empty:
        client = distributed.Client(empty, set_as_default=False)
        with pytest.raises(InputError, match="no workers"), client:
            DaskWorkers(client).check()
        with pytest.raises(InputError, match="Client"), connect(client):
            pytest.fail("connected")
        with pytest.raises(ClusterError, match=r"scheduler.*spent"):
            list(DaskWorkers(client).run(abs, [1]))


@pytest.mark.parametrize(
    ("tables", "more", "message"),
    [
        (TABLES, {"stream": False}, "cluster reads tables in passes"),
        (["north.csv"], {}, r"north\.csv cannot be streamed"),
        (["north.parquet"], {"split_by": "sex"}, "split_by"),
    ],
)
def test_what_cannot_be_streamed_is_refused(client, places, tables, more, message):
    Path("north.csv").write_text("age,dose,sex,sick\n1,1,F,yes\n")
    with pytest.raises(InputError, match=message):
        dpadmm.fit(tables, **grouped(cluster=client, **places.settings, **more))
