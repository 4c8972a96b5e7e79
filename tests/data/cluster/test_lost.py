"""Workers that are killed in the middle of whole runs: what is repeated, what is spent, what is said."""

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="needs the extra dpadmm[cluster]")

import distributed
from tests.grouped import grouped

import dpadmm
from dpadmm.errors import ClusterError
from dpadmm.estimators import SimulatedNoiseWarning
from dpadmm.privacy.ledger import open_for_reading

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]

TABLES = ["north.parquet", "south"]


@pytest.fixture
def client():
    """Two workers, each with a nanny that starts it again."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as made,
    ):
        yield made


def deadly(mark: str, after: int) -> Callable[[], None]:
    """Return what makes a worker leave a mark and kill itself when it has made some sums over rows that it keeps.

    It is a function within one, which workers need no module for.
    """

    def prepare() -> None:
        import os
        import signal
        from pathlib import Path

        from dpadmm.data import encoded

        calls, plain = [], encoded.LabelledTask.__call__

        def call(self, block):
            calls.append(block)
            if len(calls) > after:
                Path(mark).write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
            return plain(self, block)

        encoded.LabelledTask.__call__ = call

    return prepare


@pytest.mark.parametrize("after", [0, 3])
def test_a_worker_lost_in_a_pass_changes_no_bit(client, places, after):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulatedNoiseWarning)
        calm = dpadmm.fit(TABLES, **grouped(seed=3, cluster=client, **places.settings))
        (one, _) = client.nthreads()
        client.run(deadly(str(places.folder / "mark"), after), workers=[one])
        stormy = dpadmm.fit(TABLES, **grouped(seed=3, cluster=client, **places.settings))
    assert int(Path("mark").read_text())  # it did die
    assert one not in client.nthreads()
    assert calm.coefficients == stormy.coefficients
    assert calm.guarantee == stormy.guarantee


def test_a_worker_lost_in_a_pass_costs_nothing_more(client, places):
    (one, _) = client.nthreads()
    client.run(deadly(str(places.folder / "mark"), 2), workers=[one])
    spent = {}
    for name, cluster in (("cluster", client), ("process", None)):
        model = dpadmm.fit(
            TABLES, **grouped(ledger=f"{name}.ledger", budget=3.0, stream=True, cluster=cluster, **places.settings)
        )
        with open_for_reading(f"{name}.ledger") as ledger:
            (run,) = ledger.runs()
            said = ledger.statement()
        assert said.spent_epsilon == pytest.approx(model.guarantee.epsilon, abs=1e-9)
        spent[name] = (run.releases, run.alone_epsilon, said.spent_epsilon, said.releases, said.entries, said.refusals)
    assert Path("mark").exists()
    assert spent["cluster"] == spent["process"]


def test_workers_that_all_die_of_the_same_part_end_the_run(client, places):
    class Plugin(distributed.WorkerPlugin):
        """Spoils workers that are started again, too."""

        def setup(self, worker):
            import os
            import signal

            from dpadmm.data import encoded

            encoded.RowBlock.__call__ = lambda self: os.kill(os.getpid(), signal.SIGKILL)

    client.register_plugin(Plugin())
    with pytest.raises(ClusterError, match=r"several workers") as raised:
        dpadmm.fit(TABLES, **grouped(ledger="data.ledger", budget=3.0, cluster=client, **places.settings))
    assert raised.value.__cause__ is None
    with open_for_reading("data.ledger") as ledger:
        (run,) = ledger.runs()
        assert run.alone_epsilon > 0
