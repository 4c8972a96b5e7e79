"""What `import dpadmm` offers to call: `fit` and `plan` on tables, as the commands; `run` for one method; `load`.

`fit` and `dpadmm fit` are one path (`estimators.tables.TableFit`): the same checks, plan, record and files.
"""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpadmm.checks import as_parameter, safe_repr, use_option_names
from dpadmm.core.model import ReleasedModel
from dpadmm.data.sources import AnyTables, cluster_workers, paths_of, public_schema, read_tables
from dpadmm.errors import InputError
from dpadmm.estimators.notices import (
    AwkwardCellsWarning,
    NoLedgerWarning,
    SimulatedNoiseWarning,
    no_ledger_notice,
    warn_once,
)
from dpadmm.estimators.tables import PublicFacts, TableFit
from dpadmm.planner.planner import Plan
from dpadmm.planner.resolved import REAL_LOSSES
from dpadmm.settings import CellRules, FitSettings, OutputFiles, Privacy, TableOptions, TrainingOptions

_SIMULATED = "seed is set, so the noise is simulated: the result is NOT a private release. Leave out seed to make one."
_NO_LEDGER = no_ledger_notice("fit", "...")
_ARRAYS = (
    "target must be the name of a column, got {}. Arrays are fitted by the estimators: PrivateLogisticRegression("
    "epsilon=..., delta=..., feature_bounds=(low, high)).fit(X, y, groups=silos, persons=persons)."
)


def fit(
    data: Any,
    target: str | None = None,
    *,
    epsilon: float,
    delta: float,
    schema: Any = None,
    split_by: str | None = None,
    person: str | None = None,
    view: str | None = None,
    aim: str = "prediction",
    method: str = "auto",
    alpha: float | None = None,
    class_weight: Mapping[Any, float] | None = None,
    ledger: str | os.PathLike[str] | None = None,
    budget: float | None = None,
    seed: int | None = None,
    out: str | os.PathLike[str] | OutputFiles | None = None,
    privacy: Privacy | None = None,
    table: TableOptions | None = None,
    cells: CellRules | None = None,
    training: TrainingOptions | None = None,
) -> ReleasedModel:
    """Train one private model over the tables of one or several silos, as `dpadmm fit` does.

    Everything is checked and planned before the data are used, and recorded in the ledger before noise is drawn.

    Parameters
    ----------
    data : path, DataFrame, or several
        A table, or one per silo in a list or by name, as paths of files (CSV, Parquet, Arrow, Excel) or data frames. A
        folder of Parquet files is one silo.
    target : str, optional
        The column to predict; with a `Schema` it may be left out.
    epsilon : float
        The privacy budget of this run, > 0.
    delta : float
        Probability that the epsilon bound fails, in (0, 1), well below 1 / records.
    schema : Schema, path or dict
        A `Schema`, the path of its file, or what is publicly known about columns and target by name: a pair (low, high)
        for a number, a list of categories, for the target (yes, no) or all classes, or (low, high) with
        `TrainingOptions(loss="huber")`, or (0, ceiling) with `loss="poisson"`. Bounds and categories are never read off
        the data.
    split_by : str, optional
        The column that says which silo a row of the one table belongs to; its values become public names.
    person : str, optional
        The column with the person ID of each row, where people have several; each is protected with all their rows.
    view : {"eavesdropper", "coordinator", "peer", "public", "aggregate"}, optional
        Whom it is protected from. None: the ledger's, else the eavesdropper, who sees every message.
    aim : {"prediction", "inference"}
        With "inference", coefficients are stated with confidence intervals, for a part of the budget.
    method : str
        "auto", or a method's name from `dpadmm methods`.
    alpha : float, optional
        Weight of the penalty, >= 0. None: a small ridge, chosen by the planner.
    class_weight : {class: weight}, optional
        Public weights by which records count, 1 for a class that is not named.
    ledger : path, optional
        The file that records what these data have spent, and stops at their budget.
    budget : float, optional
        For a new ledger, the epsilon that these data may ever spend, at the same delta.
    seed : int, optional
        Simulated noise; the result is not a private release.
    out : path or OutputFiles, optional
        The model file to write, .json or .npz; with `OutputFiles` also its report, and what reports say.
    privacy : Privacy, optional
        Unit, neighbours, and what is assumed about people.
    table : TableOptions, optional
        How text files are written, whether Parquet files are streamed, and by which cluster.
    cells : CellRules, optional
        What to do with missing, unlisted and out-of-range cells.
    training : TrainingOptions, optional
        Whatever else is fitted and how: l1_ratio, fit_intercept, loss, multi_class, topology, profile, ...

    >>> import numpy as np
    >>> import pandas as pd
    >>> age = np.random.default_rng(0).integers(20, 90, 600)
    >>> table = pd.DataFrame({"age": age, "sick": np.where(age > 55, "yes", "no"), "town": ["A", "B"] * 300})
    >>> known = {"age": (0, 120), "sick": ("yes", "no")}
    >>> model = fit(table, "sick", epsilon=2.0, delta=1e-6, schema=known, split_by="town")
    >>> len(model.silos), model.guarantee.epsilon <= 2.0, model.predict(table).shape
    (2, True, (600,))
    """
    given = {name: value for name, value in locals().items() if name != "data"}
    with _own_names():
        if not isinstance(target, str | None):
            raise InputError(_ARRAYS.format(safe_repr(target)))
        settings = FitSettings(**given)
        made = TableFit.of(settings, paths_of(data))
        with cluster_workers(settings.table.cluster, lambda text: warnings.warn(text, stacklevel=5)) as workers:
            protection = made.settings.protection
            tables = read_tables(data, settings.table, protection, split_by=split_by, person=person, workers=workers)
            return _fit_tables(made, tables)


def plan(
    data: Any = None,
    target: str | None = None,
    *,
    epsilon: float,
    delta: float,
    sizes: Sequence[int] | None = None,
    dimension: int | None = None,
    schema: Any = None,
    split_by: str | None = None,
    person: str | None = None,
    view: str | None = None,
    aim: str = "prediction",
    method: str = "auto",
    alpha: float | None = None,
    privacy: Privacy | None = None,
    table: TableOptions | None = None,
    training: TrainingOptions | None = None,
) -> Plan:
    """Plan a run, as `dpadmm plan` does: method, rounds, noise and what to expect. Nothing is spent.

    Parameters
    ----------
    data, target, schema
        As for `fit`; of the tables only rows, or persons, are counted.
    sizes : list of int, optional
        Instead of data, the records of each silo.
    dimension : int, optional
        Instead of a schema, the number of encoded features; the target is then one of two classes, or a number with
        `TrainingOptions(loss="huber")`.
    epsilon, delta, split_by, person, view, aim, method, alpha, privacy, table, training
        As for `fit`.

    >>> made = plan(sizes=(400, 400, 400), dimension=6, epsilon=1.0, delta=1e-5)
    >>> made.method, made.is_hopeless
    ('p-admm', False)
    """
    given = {name: value for name, value in locals().items() if name not in ("data", "sizes", "dimension")}
    with _own_names():
        settings = FitSettings(**given)
        is_real = settings.training.loss in REAL_LOSSES
        known = None if schema is None else public_schema(schema, target, is_real=is_real)
        return PublicFacts.of(settings, data, sizes, dimension, known, is_real=is_real).plan()


def load(path: str | os.PathLike[str]) -> ReleasedModel:
    """Return the released model that is kept in a file, whether an estimator, a fit or a federation saved it."""
    return ReleasedModel.load(Path(path))


_PARAMETERS = {"groups": "split_by", "persons": "person"}


@contextmanager
def _own_names() -> Iterator[None]:
    """Let messages call columns as they are called here, where no array names silos and persons."""
    with use_option_names(lambda name, *value: as_parameter(_PARAMETERS.get(name, name), *value)):
        yield


def _fit_tables(training: TableFit, tables: AnyTables) -> ReleasedModel:
    """Read the tables, train and save; say as warnings what the command says on the terminal."""
    prepared = training.read(tables)
    for note in prepared.notes:
        warnings.warn(f"For the data holder, not for publication: {note}", AwkwardCellsWarning, stacklevel=3)

    def warn(_: Plan) -> None:
        if training.settings.is_simulated:
            warnings.warn(_SIMULATED, SimulatedNoiseWarning, stacklevel=7)
        elif training.ledger.path is None:
            warn_once(_NO_LEDGER, NoLedgerWarning, stacklevel=8)

    done = training.train(prepared, warn)
    if done.unread is not None:
        warnings.warn(f"The model is paid for, but its ledger cannot be read: {done.unread}", stacklevel=3)
    wanted = training.options.out.model
    if done.place != wanted:
        warnings.warn(
            f"{wanted} could not be written. The model is in {done.place}: copy it to a safe place.", stacklevel=3
        )
    return done.model
