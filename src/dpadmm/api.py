"""What `import dpadmm` offers to call: `fit` and `plan` on tables, as the commands; `run` for one method; `load`.

`fit` and `dpadmm fit` are one path (`estimators.tables.TableFit`): the same checks, plan, record and files.
"""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm import checks
from dpadmm.checks import as_parameter, nearest, settings_called, shown
from dpadmm.core.budget import opened, protection_of
from dpadmm.core.model import ReleasedModel
from dpadmm.core.release import PublicRound
from dpadmm.core.spec import RunSpec, TrainingSpec, mechanisms_of
from dpadmm.core.task import Task
from dpadmm.core.train import Problems, run_training
from dpadmm.data.sources import AnyTables, cluster_workers, paths_of, public_schema, read_tables
from dpadmm.errors import InputError
from dpadmm.estimators.data import ledger_data
from dpadmm.estimators.notices import (
    AwkwardCellsWarning,
    NoLedgerWarning,
    SimulatedNoiseWarning,
    no_ledger_notice,
    warn_once,
)
from dpadmm.estimators.tables import PublicFacts, TableFit
from dpadmm.methods.base import Common, Method, Setting, by_name
from dpadmm.networks.graph import Network, complete
from dpadmm.noise.sampler import SecureSampler, SimulatedSampler
from dpadmm.planner.planner import Plan
from dpadmm.planner.planner import plan as make_plan
from dpadmm.planner.resolved import network_of, protection_from
from dpadmm.privacy.accounting import Account, PureTarget, Target
from dpadmm.privacy.ledger import SiloColumns
from dpadmm.privacy.protection import COVERED, Protection, View
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import LOSS_KINDS, Loss
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.regularisers import REGULARISERS, Regulariser
from dpadmm.problems.silos import Silos, dense
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
        `TrainingOptions(loss="huber")`. Bounds and categories are never read off the data.
    split_by : str, optional
        The column that says which silo a row of the one table belongs to; its values become public names.
    person : str, optional
        The column with the person ID of each row, where people have several; each is protected with all their rows.
    view : {"eavesdropper", "coordinator", "peer", "public", "aggregate"}, optional
        Whom it is protected from. None: the ledger's, else the eavesdropper, who sees every message.
    aim : {"prediction", "inference"}
        With "inference", coefficients are told with confidence intervals, for a part of the budget.
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
            raise InputError(_ARRAYS.format(shown(target)))
        said = FitSettings(**given)
        made = TableFit.of(said, paths_of(data))
        with cluster_workers(said.table.cluster, lambda words: warnings.warn(words, stacklevel=5)) as workers:
            protection = made.settings.protection
            tables = read_tables(data, said.table, protection, split_by=split_by, person=person, workers=workers)
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
        said = FitSettings(**given)
        is_real = said.training.loss == "huber"
        known = None if schema is None else public_schema(schema, target, is_real=is_real)
        return PublicFacts.of(said, data, sizes, dimension, known, is_real=is_real).plan()


def load(path: str | os.PathLike[str]) -> ReleasedModel:
    """Return the released model that is kept in a file, whether an estimator, a fit or a federation saved it."""
    return ReleasedModel.load(Path(path))


_PARAMETERS = {"groups": "split_by", "persons": "person"}


@contextmanager
def _own_names() -> Iterator[None]:
    """Let messages call columns as they are called here, where no array tells silos and persons."""
    with settings_called(lambda name, *value: as_parameter(_PARAMETERS.get(name, name), *value)):
        yield


def _fit_tables(training: TableFit, tables: AnyTables) -> ReleasedModel:
    """Read the tables, train and save; say as warnings what the command says on the terminal."""
    prepared = training.read(tables)
    for note in prepared.notes:
        warnings.warn(f"For the data holder, not for publication: {note}", AwkwardCellsWarning, stacklevel=3)

    def tell(_: Plan) -> None:
        if training.settings.is_simulated:
            warnings.warn(_SIMULATED, SimulatedNoiseWarning, stacklevel=7)
        elif training.ledger.path is None:
            warn_once(_NO_LEDGER, NoLedgerWarning, stacklevel=8)

    done = training.train(prepared, tell)
    if done.unread is not None:
        warnings.warn(f"The model is paid for, but its ledger cannot be read: {done.unread}", stacklevel=3)
    wanted = training.said.out.model
    if done.place != wanted:
        warnings.warn(
            f"{wanted} could not be written. The model is in {done.place}: copy it to a safe place.", stacklevel=3
        )
    return done.model


@dataclass(frozen=True, eq=False)
class RunResult:
    """What a run released.

    model: (d,). account: what it cost whom, certified. spec: what was run, all of it public: method, rounds,
    network. history: what the noisy messages show, round by round. With simulated noise it is not a private release.
    """

    model: Floats
    account: Account = field(repr=False)
    delta: float
    is_private_release: bool
    spec: RunSpec = field(repr=False)
    history: tuple[PublicRound, ...] = field(repr=False)

    @property
    def epsilon(self) -> float:
        """The certified epsilon at `delta`."""
        return self.account.curve.epsilon(self.delta)

    def __str__(self) -> str:
        """Say what was run, what it cost and whom it protects."""
        hidden = self.account.protection
        figure = f"epsilon {self.epsilon:.4g} at delta {self.delta:g} for {hidden} against {hidden.observer}"
        cost = f"{self.account.standing}{':' * bool(self.account.declared)} {figure}"
        ran = f"{self.spec.method}, {self.spec.setting.rounds} rounds"
        return f"{ran}: {cost}" if self.is_private_release else f"{ran}: NOT a private release; it would cost {cost}"


def run(
    method: str,
    silos: Sequence[tuple[Any, Any]] | Mapping[str, tuple[Any, Any]] | Silos,
    *,
    epsilon: float,
    delta: float,
    loss: str | Loss = "logistic",
    rounds: int | None = None,
    mu: float = 0.0,
    regulariser: str | Regulariser | None = None,
    row_norm: float = 1.0,
    topology: Any = "auto",
    unit: str | None = None,
    view: str | None = None,
    ledger: Any = None,
    seed: int | None = None,
    **numbers: float,
) -> RunResult:
    """Run a method on arrays, with noise that spends epsilon and delta exactly.

    Parameters
    ----------
    method: a name that `dpadmm methods` lists.
    silos: one pair (X, y) per silo, in a list or by name. Every row of X has norm at most `row_norm`, a public promise;
        y is -1 or +1 for the classification losses. A list's silos are called "silo 0", "silo 1", ...
    loss: logistic, smoothed-hinge, huber, ... or a loss. mu: ridge of every silo's function, (mu/2) ||w||^2.
    regulariser: none, non-negative, simplex, or a regulariser. The released model lies in its domain.
    rounds, **numbers: the method's own, for instance rounds=40, eta=0.01 for p-admm. Left out, the planner chooses all
        of them from public facts, the loss's cap and a ridge included.
    topology: auto (every silo with every other one), ring, path, star, complete, or a networkx graph.
    unit, view: who is protected from whom; as for the estimators.
    ledger: where the cost is recorded before noise is drawn, made with `ledger_data(X, y, groups)` of all silos' rows,
        groups being the silos' names. seed: simulated noise; the result is not a private release.

    >>> import numpy as np
    >>> import dpadmm
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (600, 4))
    >>> halves = [(X[part::2], np.sign(X[part::2, 0])) for part in (0, 1)]
    >>> done = dpadmm.run("p-admm", halves, epsilon=1.0, delta=1e-5, rounds=20, eta=0.05, mu=0.01)
    >>> round(done.epsilon, 6), done.model.shape, done.is_private_release
    (1.0, (4,), True)
    """
    held, penalty = _silos(silos, row_norm), _regulariser(regulariser)
    chosen = _method(method)
    network = network_of(topology, held.n_agents)
    protection = protection_from(protection_of(ledger), unit, view, None, None)
    target = PureTarget(epsilon) if delta == 0 and chosen.about.is_pure else Target(epsilon, delta)
    if rounds is None and not numbers:
        spec, problem = _planned(method, held, _loss(loss), target, network, penalty, protection)
    else:
        problem = Problem.of(EmpiricalRisk(held, _loss(loss), mu), regulariser=penalty)
        spec = _stated(chosen, problem, rounds, numbers, target, network, protection)
        if view is not None:
            _check_view(spec)
    if seed is not None and ledger is not None:
        raise InputError(
            "seed makes the noise reproducible, so nothing is released or recorded. Leave out seed or ledger."
        )
    sampler = SecureSampler() if seed is None else SimulatedSampler(checks.count("seed", seed, least=0))
    with opened(ledger, partial(_known, held)) as book:
        source = Problems([problem])
        done = run_training(TrainingSpec.of(spec), source, sampler, book, label=method, progress=True)
    (run,) = done.runs(spec)
    return RunResult(
        model=run.model(spec.output)[:, 0],
        account=done.plan.account(),
        delta=delta,
        is_private_release=done.is_private_release,
        spec=spec,
        history=run.history,
    )


def _silos(given: Any, row_norm: float) -> Silos:
    """Return what was given as silos; arrays are stacked, and rows that break the promise about their norm refused."""
    if isinstance(given, Silos):
        return given
    if isinstance(given, Mapping):
        pairs = {str(name): given[name] for name in sorted(given, key=str)}
    else:
        digits = len(str(len(given) - 1))
        pairs = {f"silo {i:0{digits}}": pair for i, pair in enumerate(given)}
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs.values()):
        raise InputError("silos must be one pair (X, y) of arrays per silo: [(X1, y1), (X2, y2)].")
    tables, labels = zip(*pairs.values(), strict=True) if pairs else ((), ())
    return Silos.from_parts(tables, labels, row_norm, names=list(pairs))


def _known(silos: Silos, is_whole: bool) -> tuple[SiloColumns, ...]:
    """Return the silos as a ledger knows them, which lists them by their names."""
    if list(silos.names) != sorted(set(silos.names)):
        raise InputError("A ledger lists silos in the order of their names. Give the silos in that order.")
    groups = None if is_whole else np.repeat(silos.names, silos.sizes)
    return ledger_data(dense(silos.features), silos.labels, groups)


def _method(name: Any) -> type[Method]:
    """Return the method of this name, if anything protects it."""
    known = {each: method for each, method in by_name().items() if method.about.is_private}
    if name not in known:
        raise InputError(f"method must be one of {', '.join(known)}, got {shown(name)}.{nearest(name, known)}")
    return known[name]


def _loss(given: str | Loss) -> Loss:
    if not isinstance(given, str):
        return given
    losses: dict[str, Any] = {name: kind for name, kind in LOSS_KINDS.items() if name != "softmax"}
    if given not in losses:
        raise InputError(
            f"loss must be a loss or one of {', '.join(losses)}, got {shown(given)}.{nearest(given, losses)}"
        )
    made: Loss = losses[given](0.5) if given == "huber" else losses[given]()
    return made


def _regulariser(given: str | Regulariser | None) -> Regulariser | None:
    if not isinstance(given, str):
        return given
    if given not in REGULARISERS:
        raise InputError(
            f"regulariser must be a regulariser or one of {', '.join(REGULARISERS)}, got {shown(given)}."
            f"{nearest(given, REGULARISERS)}"
        )
    return REGULARISERS[given]


def _planned(
    method: str,
    silos: Silos,
    loss: Loss,
    target: Target | PureTarget,
    network: Network | None,
    regulariser: Regulariser | None,
    protection: Protection,
) -> tuple[RunSpec, Problem]:
    """Return what the planner chooses for this method, and the problem it is run on."""
    if isinstance(target, PureTarget):
        raise InputError("The planner needs delta > 0. Give delta, or rounds and the method's own parameters.")
    task = Task(
        sizes=tuple(silos.sizes.tolist()),
        dimension=silos.dimension,
        loss=loss,
        target=target,
        network=network,
        regulariser=regulariser,
        protection=protection,
        row_norm=silos.row_norm,
    )
    made = make_plan(task, method=method)
    return made.run, made.problem(silos)


def _stated(
    method: type[Method],
    problem: Problem,
    rounds: int | None,
    numbers: Mapping[str, float],
    target: Target | PureTarget,
    network: Network | None,
    protection: Protection,
) -> RunSpec:
    """Return the run with the rounds and numbers that were given."""
    name, known = method.about.name, method.numbers()
    strange = [each for each in numbers if each not in known]
    lacking = [each for each, usual in known.items() if usual is None and each not in numbers]
    if strange or lacking or rounds is None:
        wrong = [f"{each!r} is not one of them.{nearest(each, known)}" for each in strange]
        wrong += [f"{', '.join(lacking)} must be given."] if lacking else []
        wrong += ["rounds must be given too."] if rounds is None else []
        raise InputError(f"The parameters of {name} are {', '.join(known) or 'none'}: {' '.join(wrong)}")
    if network is None and method.about.least_silos > 1:
        network = complete(problem.n_agents)
    agreed = Common(checks.count("rounds", rounds), problem.n_agents, network, seed=0)
    made: Any = method.agreed(agreed, **method.typed(numbers))
    return RunSpec(made, Setting(problem, rounds, network=network, protection=protection), target)


def _check_view(spec: RunSpec) -> None:
    """Refuse an observer that was asked for and whom the method does not count; masks hide sums from all who look."""
    asked = spec.setting.protection.view
    mechanisms = mechanisms_of(spec.method, spec.setting)
    seen = {row.certificates[0].protection.view for each in mechanisms for row in each.rows}
    if asked is not View.AGGREGATE and not all(asked in COVERED[each] for each in seen):
        raise InputError(
            f"{type(spec.method).__name__} is certified against the {' and '.join(v.value for v in seen)}, "
            f"not against the {asked.value}. Nothing was spent. Choose a view it is certified against, or another "
            "method."
        )
