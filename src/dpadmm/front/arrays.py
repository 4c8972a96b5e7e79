"""`dpadmm.run`: a method by its name on arrays of one's own, one result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from dpadmm import checks
from dpadmm.checks import nearest, shown
from dpadmm.core.release import PublicRound
from dpadmm.core.spec import RunSpec, TrainingSpec, mechanisms_of
from dpadmm.core.training import Problems, run_training
from dpadmm.errors import InputError
from dpadmm.estimators.data import ledger_data
from dpadmm.estimators.ledger_file import opened, protection_of
from dpadmm.estimators.resolved import network_of, protection_from
from dpadmm.methods.base import Common, Method, Setting, by_name
from dpadmm.networks.graph import Network, complete
from dpadmm.noise.sampler import SecureSampler, SimulatedSampler
from dpadmm.planner.planner import plan as make_plan
from dpadmm.planner.task import Task
from dpadmm.privacy.accounting import Account, PureTarget, Target
from dpadmm.privacy.ledger import SiloColumns
from dpadmm.privacy.protection import COVERED, Protection, View
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import LOSS_KINDS, Loss
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.regularisers import Regulariser
from dpadmm.problems.silos import Silos, dense


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
    regulariser: Regulariser | None = None,
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
    held = _silos(silos, row_norm)
    chosen = _method(method)
    network = network_of(topology, held.n_agents)
    protection = protection_from(protection_of(ledger), unit, view, None, None)
    target = PureTarget(epsilon) if delta == 0 and chosen.about.is_pure else Target(epsilon, delta)
    if rounds is None and not numbers:
        spec, problem = _planned(method, held, _loss(loss), target, network, regulariser, protection)
    else:
        problem = Problem.of(EmpiricalRisk(held, _loss(loss), mu), regulariser=regulariser)
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
