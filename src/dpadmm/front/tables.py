"""`dpadmm.fit` and `dpadmm.plan`: the commands of these names, in Python, on files, data frames or arrays."""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpadmm.checks import as_parameter, settings_called
from dpadmm.data.schema import Screening
from dpadmm.data.table_format import TableFormat
from dpadmm.data.tables import check_split
from dpadmm.errors import InputError
from dpadmm.estimators.base import PrivateLinearModel
from dpadmm.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from dpadmm.estimators.notices import (
    AwkwardCellsWarning,
    HopelessPlanWarning,
    NoIntervalsWarning,
    NoLedgerWarning,
    SimulatedNoiseWarning,
    no_ledger_words,
    warn_once,
)
from dpadmm.estimators.regression import PrivateLinearRegression
from dpadmm.estimators.wishes import Books
from dpadmm.front.asked import TaskWords, check_person, counts_of, protection_of, task_of
from dpadmm.front.passes import cluster_workers
from dpadmm.front.sources import AnyTables, Streaming, public_schema, source_of
from dpadmm.front.training import Training, check_outputs
from dpadmm.planner.plan import Plan
from dpadmm.planner.planner import plan as make_plan
from dpadmm.planner.task import ProfileRule, check_signal
from dpadmm.problems.aims import aim_of
from dpadmm.reporting.facts import Accountability
from dpadmm.reporting.files import check_apart
from dpadmm.reporting.model import ReleasedModel

_ESTIMATORS: dict[str, Callable[..., PrivateLinearModel]] = {
    "logistic": PrivateLogisticRegression,
    "svm": PrivateLinearSVC,
    "huber": PrivateLinearRegression,
}
_SIMULATED = "seed is set, so the noise is simulated: the result is NOT a private release. Leave out seed to make one."


_NO_LEDGER = no_ledger_words("fit", "...")


def fit(
    data: Any,
    target: Any = None,
    *,
    epsilon: float,
    delta: float,
    schema: Any = None,
    bounds: Any = None,
    classes: Any = None,
    target_bounds: Any = None,
    split_by: Any = None,
    person: Any = None,
    keep: int | None = None,
    ledger: str | os.PathLike[str] | None = None,
    budget: float | None = None,
    out: str | os.PathLike[str] | None = None,
    report: str | os.PathLike[str] | None = None,
    title: str | None = None,
    purpose: str = "",
    controller: str = "",
    contact: str = "",
    force: bool = False,
    unit: str | None = None,
    view: str | None = None,
    colluders: int | None = None,
    records_per_person: int | None = None,
    silos_per_person: int | None = None,
    neighbours: str | None = None,
    nominal_records: int | None = None,
    aim: str = "prediction",
    prevalence: float | None = None,
    expected_auc: float | None = None,
    expected_r2: float | None = None,
    loss: str = "auto",
    multi_class: str = "auto",
    class_weight: Mapping[Any, float] | None = None,
    method: str = "auto",
    topology: str = "auto",
    alpha: float | None = None,
    l1_ratio: float = 0.0,
    profile: str = "auto",
    profile_share: float | None = None,
    missing: str = "error",
    unlisted: str = "error",
    out_of_range: str = "clip",
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    na_values: Sequence[str] | None = None,
    header: bool | None = None,
    stream: bool | None = None,
    cluster: Any = None,
    anyway: bool = False,
    seed: int | None = None,
) -> ReleasedModel:
    """Train one private model over the tables of one or several silos, as `dpadmm fit` does.

    Everything is checked and planned before the data are used, and recorded in the ledger before noise is drawn.

    Parameters
    ----------
    data: a table, or one per silo in a list or by name, as paths of files (CSV, Parquet, Arrow, Excel) or data frames;
        or an array (n, d) of numbers.
    target: the column to predict; with a `Schema` it may be left out. For an array, its labels (n,).
    epsilon, delta: what this run may spend; delta well below 1 / records.
    schema: a `Schema`, the path of its file, or what is publicly known about columns and target by name: a pair
        (low, high) for a number, a list of categories, for the target (yes, no) or all classes, or (low, high)
        with loss="huber". Bounds and categories are never read off the data.
    bounds, classes, target_bounds: for arrays, in place of a schema: (low, high) of the features (`feature_bounds` of
        the estimators), all classes, and (low, high) of a number to predict. split_by and person are arrays (n,) then.
    split_by: the column that tells the silo of a row of the one table; its values become public names. person: the
        column that tells whose a row is, where people have several; keep: how many rows of a person are used in a silo.
    ledger: the file that records what these data have spent, and stops at their budget. budget: for a new one, the
        epsilon that these data may ever spend, at the same delta.
    prevalence: the share of the positive class, if it is public; plans are for it, and whether intervals are expected.
    expected_auc: the AUC on new records that a model without privacy is thought to reach, above 0.5, from earlier
        studies or public data (expected_r2: the R^2, for numbers). The forecast is for it, and whether a target is
        hopeless; otherwise for weak, moderate and strong signals. It must not be measured on the private records.
    out, report: files to write, a model (.json or .npz) and its page; force replaces those that are there.
    title, purpose, controller, contact: for reports: what it is about, why the data are processed, who is responsible,
        and whom to ask. The model keeps them.
    stream: True reads Parquet files in passes, so that memory does not grow with their rows; False reads them into
        memory. Left out, files whose cells take more than 1 GB are streamed. A folder of Parquet files is one silo,
        always streamed.
    cluster: the address of a Dask scheduler, or a `dask.distributed.Client`, whose workers read the Parquet files that
        they all see; the model is the same (`docs/cluster.md`).
    anyway: train even if the planner expects nothing, or no intervals where aim="inference" asks for them.
    seed: simulated noise; the result is not a private release.
    sep, decimal, encoding, na_values, header: how text files are written, where they do not show it themselves.
    All others: as for `PrivateLogisticRegression` and for the options of `dpadmm fit`.

    >>> import numpy as np
    >>> import pandas as pd
    >>> age = np.random.default_rng(0).integers(20, 90, 600)
    >>> table = pd.DataFrame({"age": age, "sick": np.where(age > 55, "yes", "no"), "town": ["A", "B"] * 300})
    >>> known = {"age": (0, 120), "sick": ("yes", "no")}
    >>> model = fit(table, "sick", epsilon=2.0, delta=1e-6, schema=known, split_by="town")
    >>> len(model.silos), model.guarantee.epsilon <= 2.0, model.predict(table).shape
    (2, True, (600,))
    """
    with _own_names():
        book, place, page = (None if each is None else Path(each) for each in (ledger, out, report))
        is_array = not (target is None or isinstance(target, str))
        source = None if is_array else source_of(data)
        stated = Path(schema) if isinstance(schema, str | os.PathLike) else None
        check_apart({"out": place, "report": page}, [stated, *(source.files if source else ())], book)
        words = TaskWords(
            epsilon=epsilon,
            delta=delta,
            protection=protection_of(
                book,
                unit,
                view,
                records_per_person,
                silos_per_person,
                colluders,
                neighbours,
                has_persons=person is not None,
            ),
            loss=loss,
            multi_class=multi_class,
            class_weight=class_weight,
            method=method,
            topology=topology,
            alpha=alpha,
            l1_ratio=l1_ratio,
            profile=ProfileRule.of(profile, profile_share),
            nominal_records=nominal_records,
            aim=aim_of(aim),
            prevalence=prevalence,
            expected_auc=expected_auc,
            expected_r2=expected_r2,
        )
        about = Accountability(purpose=purpose, controller=controller, contact=contact)
        screening = Screening.of(missing, unlisted, out_of_range)
        written = TableFormat.of(sep, decimal, encoding, na_values, header)
        if source is None:
            if schema is not None:
                raise InputError(
                    "schema= is for tables, where target= names a column. For arrays, pass bounds= instead."
                )
            number = loss == "huber" or (loss == "auto" and target_bounds is not None)
            others = (title, stream, cluster, prevalence)
            if screening != Screening() or written != TableFormat() or any(each is not None for each in others):
                raise InputError(
                    "title, missing, unlisted, out_of_range, sep, decimal, encoding, na_values, header, cluster, "
                    "stream and prevalence are for tables. Leave them out for arrays, or pass a DataFrame with schema=."
                )
            if (number or loss == "svm") and multi_class != "auto":
                raise InputError(f"multi_class is for loss='logistic', got {multi_class!r}. Leave it out.")
            if number and class_weight is not None:
                raise InputError("class_weight is for classes, but the target is a number. Leave it out.")
            model = _ESTIMATORS["huber" if number else "logistic" if loss == "auto" else loss](
                epsilon,
                delta,
                alpha=alpha,
                l1_ratio=l1_ratio,
                feature_bounds=bounds,
                profile=profile,
                profile_share=profile_share,
                unit=unit,
                view=view,
                method=method,
                topology=topology,
                records_per_person=records_per_person,
                silos_per_person=silos_per_person,
                keep=keep,
                colluders=colluders,
                neighbours=neighbours,
                nominal_records=nominal_records,
                ledger=book,
                budget=budget,
                random_state=seed,
            )
            check_signal(expected_auc, expected_r2, is_real=number)
            if number:
                own: dict[str, Any] = {"target_bounds": target_bounds, "expected_r2": expected_r2}
            else:
                own = {"classes": classes, "class_weight": class_weight, "expected_auc": expected_auc}
            model.set_params(**own)
            if loss in ("auto", "logistic") and not number:
                model.set_params(multi_class=multi_class, aim=aim)
            elif words.aim.wants_intervals:
                raise InputError("aim='inference' is for the logistic regression of two classes. Leave it out.")
            rows = (data, target, split_by, person)
            return _array_model(model, rows, place, page, about, force=force, anyway=anyway)
        if not (bounds is classes is target_bounds is None):
            raise InputError("bounds, classes and target_bounds are for arrays. For tables, the schema states them.")
        training = Training(
            schema=public_schema(schema, target, is_real=loss == "huber"),
            words=words,
            screening=screening,
            books=Books(path=book, budget=budget),
            out=place,
            report=page,
            about=about,
            title=title,
            split_by=split_by,
            person=person,
            keep=keep,
            seed=seed,
            may_replace=force,
            is_hopeless_allowed=anyway,
            has_progress=False,
        )
        training.check_words()
        with cluster_workers(cluster, lambda words: warnings.warn(words, stacklevel=5)) as workers:
            streaming = Streaming.of(stream, written, split_by=split_by, person=person, workers=workers)
            return _trained(training, source.read(split_by, written, streaming, words.protection))


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
    unit: str | None = None,
    view: str | None = None,
    colluders: int | None = None,
    records_per_person: int | None = None,
    silos_per_person: int | None = None,
    neighbours: str | None = None,
    nominal_records: int | None = None,
    aim: str = "prediction",
    loss: str = "auto",
    multi_class: str = "auto",
    method: str = "auto",
    topology: str = "auto",
    alpha: float | None = None,
    l1_ratio: float = 0.0,
    profile: str = "auto",
    profile_share: float | None = None,
    prevalence: float | None = None,
    expected_auc: float | None = None,
    expected_r2: float | None = None,
) -> Plan:
    """Plan a run, as `dpadmm plan` does: method, rounds, noise and what to expect. Nothing is spent.

    Parameters
    ----------
    data, target, schema: as for `fit`; of the tables only rows, or persons, are counted.
    sizes: instead of data, the records of each silo. dimension: instead of a schema, the number of encoded features;
        the target is then one of two classes, or a number with loss="huber".
    All others: as for `fit`.

    >>> made = plan(sizes=(400, 400, 400), dimension=6, epsilon=1.0, delta=1e-5)
    >>> made.method, made.is_hopeless
    ('p-admm', False)
    """
    with _own_names():
        people = (records_per_person, silos_per_person, colluders, neighbours)
        words = TaskWords(
            epsilon=epsilon,
            delta=delta,
            protection=protection_of(None, unit, view, *people, has_persons=person is not None),
            loss=loss,
            multi_class=multi_class,
            method=method,
            topology=topology,
            alpha=alpha,
            l1_ratio=l1_ratio,
            profile=ProfileRule.of(profile, profile_share),
            nominal_records=nominal_records,
            aim=aim_of(aim),
            prevalence=prevalence,
            expected_auc=expected_auc,
            expected_r2=expected_r2,
        )
        if (sizes is None) is (data is None):
            raise InputError("Give either the records of each silo (sizes=(228, 171, ...)) or the tables, not both.")
        is_real = loss == "huber"
        known = None if schema is None else public_schema(schema, target, is_real=is_real)
        if known is not None:
            check_split(split_by, known.columns, known.label)
        if sizes is not None:
            if nominal_records not in (None, sum(sizes)):
                raise InputError(
                    f"sizes must add up to nominal_records {nominal_records}: with add-remove, sizes are nominal too."
                )
            counts = tuple(sizes)
        else:
            check_person(person, None, words.protection, known, split_by)
            streaming = Streaming.of(None, TableFormat(), split_by=split_by, person=person)
            tables = source_of(data).read(split_by, TableFormat(), streaming, words.protection)
            counts = counts_of(tables, person, words)
        task = task_of(words, counts, dimension, known, is_real=is_real)
        return make_plan(task, method=words.method_name(), problems=words.problems(known))


def load(path: str | os.PathLike[str]) -> ReleasedModel:
    """Return the released model that is kept in a file, whether an estimator, a fit or a federation saved it."""
    return ReleasedModel.load(Path(path))


_PARAMETERS = {"groups": "split_by", "persons": "person"}


@contextmanager
def _own_names() -> Iterator[None]:
    """Let messages call columns as they are called here, where no array tells silos and persons."""
    with settings_called(lambda name, *value: as_parameter(_PARAMETERS.get(name, name), *value)):
        yield


def _array_model(
    model: PrivateLinearModel,
    rows: tuple[Any, Any, Any, Any],
    out: Path | None,
    report: Path | None,
    about: Accountability,
    *,
    force: bool,
    anyway: bool,
) -> ReleasedModel:
    """Fit an estimator on arrays: X, y, the silo and the person of each row; write what is asked for."""
    check_outputs(out, report, may_replace=force)
    with warnings.catch_warnings():
        if not anyway:
            warnings.simplefilter("error", HopelessPlanWarning)  # warnings come before anything is spent
            warnings.simplefilter("error", NoIntervalsWarning)
        try:
            model.fit(*rows)
        except (HopelessPlanWarning, NoIntervalsWarning) as hopeless:
            told = str(hopeless)
            raise InputError(f"{told} Nothing was spent. To train anyway, add anyway=True.") from hopeless
    released = replace(model.released_, about=about)
    place = None if out is None else released.save(out)
    if report is not None:
        released.report(report, name=None if place is None else place.name)
    _tell_place(out, place)
    return released


def _tell_place(wanted: Path | None, place: Path | None) -> None:
    if place != wanted:
        warnings.warn(f"{wanted} could not be written. The model is in {place}: copy it to a safe place.", stacklevel=4)


def _trained(training: Training, tables: AnyTables) -> ReleasedModel:
    """Check, plan and carry out; say as warnings what the command says on the terminal."""
    prepared = training.check(tables)
    for note in prepared.notes:
        warnings.warn(f"For the data holder, not for publication: {note}", AwkwardCellsWarning, stacklevel=3)
    plan = training.plan(prepared)
    if training.seed is not None:
        warnings.warn(_SIMULATED, SimulatedNoiseWarning, stacklevel=3)
    elif training.books.path is None:
        warn_once(_NO_LEDGER, NoLedgerWarning, stacklevel=4)
    done = training.carry_out(prepared, plan)
    if done.unread is not None:
        warnings.warn(f"The model is paid for, but its ledger cannot be read: {done.unread}", stacklevel=3)
    _tell_place(training.out, done.place)
    return done.model
