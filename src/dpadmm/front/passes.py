"""Who makes the passes over streamed tables: this process, or the workers of a cluster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from dpadmm.checks import setting
from dpadmm.data.workers import Workers
from dpadmm.errors import InputError


@contextmanager
def cluster_workers(cluster: Any, tell: Callable[[str], None]) -> Iterator[Workers | None]:
    """Yield the workers of a cluster, connected and checked, and None without one. tell: says what is to be known."""
    if cluster is None:
        yield None
        return
    if find_spec("distributed") is None:
        raise InputError(
            f"{setting('cluster')} needs the extra `cluster`, which is not installed: run pip install '.[cluster]' in "
            "a checkout of dpadmm, here and on the machines of the cluster."
        )
    from dpadmm.data.cluster.dask_workers import connected

    with connected(cluster) as workers:
        if workers.warning is not None:
            tell(workers.warning)
        yield workers
