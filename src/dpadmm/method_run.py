"""`dpadmm.run`: one method by its name on arrays, with its own parameters or with those that the planner chooses."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import Enum
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NoReturn, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from dpadmm import checks
from dpadmm.checks import nearest
from dpadmm.core.budget import LedgerFile
from dpadmm.core.release import PublicRound
from dpadmm.core.spec import RunSpec, TrainingSpec, mechanisms_of
from dpadmm.core.task import Task
from dpadmm.core.train import Problems, run_training
from dpadmm.errors import InputError
from dpadmm.estimators.data import ledger_data
from dpadmm.methods.base import Common, Method, Setting, by_name
from dpadmm.methods.batches import Batches
from dpadmm.methods.consensus_dp import FunctionsDiffer
from dpadmm.methods.fixed_point import FederatedADMM, GeneralADMM, LassoADMM, Participation
from dpadmm.networks.graph import Network, complete
from dpadmm.noise.mechanisms import COORDINATOR, Family, Schedule, schedule_of
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import SecureSampler, SimulatedSampler
from dpadmm.planner.planner import plan
from dpadmm.planner.resolved import network_of, protection_from
from dpadmm.privacy.accounting import Account, PureTarget, Target, dynamic_zcdp
from dpadmm.privacy.ledger import SiloColumns
from dpadmm.privacy.protection import COVERED, Protection, Unit, View
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import LOSS_KINDS, Huber, Loss, Squared
from dpadmm.problems.problem import EmpiricalRisk, Problem, PublicFunctions
from dpadmm.problems.regularisers import REGULARISERS, ElasticNet, Regulariser, check_regulariser
from dpadmm.problems.silos import PersonRows, Silos, dense

_LOSSES: Mapping[str, Loss] = {
    "squared": Squared(),
    **{name: cast(Any, kind)() for name, kind in LOSS_KINDS.items() if name not in ("softmax", "huber", "poisson")},
    "huber": Huber(0.5),
}
_RECORDS = ("batches", "blocks", "constraint", "neighbours", "participation", "unit")
"""Parameters of methods that are no numbers and have an argument of their own."""

_HUBER = Huber(0.5)
_ANY_DELTA = 1e-9  # plans of pure epsilon do not depend on it


@dataclass(frozen=True, eq=False)
class RunResult:
    """What a run released.

    model: (d,). account: what it cost whom, certified. spec: what was run, all of it public: method, rounds,
    network; its problem has no rows. plan: of its noise. silos: their names. history: what the noisy messages show,
    round by round. With simulated noise it is not a private release.
    """

    model: Floats
    account: Account = field(repr=False)
    delta: float
    is_private_release: bool
    spec: RunSpec = field(repr=False)
    plan: NoisePlan = field(repr=False)
    silos: tuple[str, ...] = field(repr=False)
    history: tuple[PublicRound, ...] = field(repr=False)

    @cached_property
    def dynamic_zcdp(self) -> Floats:
        """The running rho of zCDP (agents, rounds): what each silo's records have spent after every round."""
        number = self.spec.setting.problem.n_agents
        spent = dynamic_zcdp(self.plan.by(range(number)))
        everybody = spent.pop(COORDINATOR, np.zeros(self.spec.setting.rounds))
        table = np.zeros((number, self.spec.setting.rounds)) + _continued(everybody, self.spec.setting.rounds)
        for agent, row in spent.items():
            table[agent] += _continued(row, self.spec.setting.rounds)
        return table

    def plot_privacy(self, path: str | Path) -> None:
        """Draw what every silo's records have spent against the rounds, as SVG or PNG."""
        from dpadmm.report.figures import draw_privacy  # late: matplotlib is slow to load

        rows = dict(zip(self.silos, self.dynamic_zcdp, strict=True))
        draw_privacy(rows, self.epsilon, self.delta, Path(path))

    @property
    def epsilon(self) -> float:
        """The certified epsilon at `delta`."""
        return self.account.curve.epsilon(self.delta)

    def __str__(self) -> str:
        """Say what was run, what it cost and whom it protects."""
        hidden = self.account.protection
        figure = f"epsilon {self.epsilon:.4g} at delta {self.delta:g} for {hidden} against {hidden.observer}"
        cost = f"{self.account.standing}{':' * bool(self.account.declared)} {figure}"
        method = self.spec.method
        values = {each.name: getattr(method, each.name) for each in fields(cast(Any, method))}
        values |= {name: value.size for name, value in values.items() if isinstance(value, Batches)}
        numbers = [f"{name}={value:.4g}" for name, value in values.items() if isinstance(value, int | float)]
        ran = f"{method.about.name}({', '.join(numbers)}), {self.spec.setting.rounds} rounds"
        return f"{ran}: {cost}" if self.is_private_release else f"{ran}: NOT a private release; it would cost {cost}"


def run(
    method: str,
    silos: Sequence[tuple[Any, ...]] | Mapping[str, tuple[Any, ...]] | Silos,
    *,
    epsilon: float,
    delta: float | None = None,
    loss: str | Loss = "logistic",
    rounds: int | None = None,
    mu: float = 0.0,
    regulariser: str | Regulariser | None = None,
    row_norm: float = 1.0,
    topology: Any = "auto",
    unit: str | None = None,
    view: str | None = None,
    gradient_distance: float | None = None,
    schedule: str | Schedule | None = None,
    batches: int | Batches | None = None,
    participation: int | Participation | None = None,
    constraint: Any = None,
    ledger: Any = None,
    seed: int | None = None,
    **numbers: Any,
) -> RunResult:
    """Run a method on arrays, with noise that spends epsilon and delta exactly.

    Parameters
    ----------
    method : str
        A name that `dpadmm methods` lists.
    silos : list or dict of (X, y) or (X, y, persons), or Silos
        The rows of each silo, in a list or by name. Every row of X has norm at most `row_norm`, a public promise; y is
        -1 or +1 for the classification losses. persons: the person of each row, who is then protected with all their
        rows. A list's silos are called "silo 0", "silo 1", ...
    epsilon : float
        The privacy budget, > 0.
    delta : float, optional
        Probability that the epsilon bound fails. Methods of pure epsilon need none.
    loss : str or Loss
        logistic, smoothed-hinge, huber, quantile (the median), epsilon-insensitive, squared, or a loss.
    rounds : int, optional
        Without rounds and numbers the planner chooses all of them from public facts, the loss's cap and a ridge
        included.
    mu : float
        Ridge of every silo's function, (mu/2) ||w||^2.
    regulariser : str or Regulariser, optional
        none, non-negative, simplex, or a regulariser g that all silos share. The released model lies in its domain.
    row_norm : float
        The public bound on the norm of a row.
    topology : str or graph
        auto (every silo with every other one), ring, path, star, complete, or a graph as of networkx.
    unit : {"record", "person", "user", "function"}, optional
        Who is protected; as for the estimators. A user is a silo.
    view : str, optional
        Whom they are protected from; None: the strongest observer against whom the method is certified.
    gradient_distance : float, optional
        For the unit "function": how far the gradient of a neighbouring function of one silo may be, anywhere.
    schedule : str or Schedule, optional
        Noise over the rounds: constant, geometric:R (variance times R from round to round, as in P-ADMM), cao:BETA, or
        a schedule of `dpadmm.noise`.
    batches : int or Batches, optional
        Records of a batch, drawn in secret; or how batches are drawn.
    participation : int or Participation, optional
        How many silos take part in a round, drawn in advance; or who takes part when.
    constraint : Box or Constraint, optional
        The set that models lie in (dp-dgd, ps-admm), or A, B and c of `Ax + Bz = c` (fp-general).
    ledger : path or Ledger, optional
        Where the cost is recorded before noise is drawn, made with `ledger_data(X, y, groups)` of all silos' rows,
        groups being the silos' names.
    seed : int, optional
        Simulated noise; the result is not a private release.
    **numbers
        The method's own parameters, for instance rounds=40, eta=0.01 for p-admm; choices by their names in lower case
        (noise="gaussian").

    >>> import numpy as np
    >>> import dpadmm
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (600, 4))
    >>> halves = [(X[part::2], np.sign(X[part::2, 0])) for part in (0, 1)]
    >>> done = dpadmm.run("p-admm", halves, epsilon=1.0, delta=1e-5, rounds=20, eta=0.05, mu=0.01)
    >>> round(done.epsilon, 6), done.model.shape, done.is_private_release
    (1.0, (4,), True)
    """
    if seed is not None and ledger is not None:
        raise InputError(
            "seed makes the noise reproducible, so nothing is released or recorded. Leave out seed or ledger.",
            setting="seed",
            code="combination",
        )
    chosen, sampler = _method(method), SecureSampler() if seed is None else SimulatedSampler(seed)
    kept = LedgerFile.of(ledger)
    usual = kept.protection
    function = _named("loss", loss, _LOSSES)
    if isinstance(function, type) or not hasattr(function, "target"):
        checks.refuse("loss", f"be a loss or one of {', '.join(_LOSSES)}", function)
    held, persons = _silos(silos, row_norm, usual.silos_per_person)
    protection = protection_from(usual, "person" if held.people and unit is None else unit, view, None, None)
    if view is None and ledger is None and protection.view not in chosen.about.views(held.n_agents):
        protection = replace(protection, view=View.PUBLIC)
    _check_unit(chosen, protection, held, gradient_distance)
    penalty = _named("regulariser", regulariser, REGULARISERS)
    if penalty is not None:
        check_regulariser("regulariser", penalty)
    neighbours = None if gradient_distance is None else FunctionsDiffer(gradient_distance)
    given = {"batches": batches, "participation": participation, "constraint": constraint, "neighbours": neighbours}
    records = _records(chosen, held, rounds, **given)
    network, shape = network_of(topology, held.n_agents), schedule_of(schedule)
    if rounds is None and not numbers:
        budget, penalty = _target(chosen, epsilon, delta), _with_ridge(penalty, mu)
        spec, problem = _planned(chosen, held, function, budget, network, penalty, protection, records)
        spec = replace(spec, schedule=shape or spec.schedule)
    else:
        problem = Problem.of(EmpiricalRisk(held, function, mu), regulariser=penalty)
        made, setting = _stated(chosen, problem, rounds, numbers, records, network, protection)
        spec = RunSpec(made, setting, _target(made, epsilon, delta), shape)
        if view is not None:
            _check_view(spec)
    drawn = getattr(spec.method, "batches", None)
    if seed is not None and isinstance(drawn, Batches) and drawn.is_secret:  # so that the run can be repeated
        spec = replace(spec, method=replace(cast(Any, spec.method), batches=replace(drawn, seed=seed)))
    with kept.open(partial(_known, held, persons)) as opened:
        source = Problems([problem])
        done = run_training(TrainingSpec.of(spec), source, sampler, opened, label=method, progress=True)
    (ran,) = done.runs(spec)
    return RunResult(
        model=ran.model(spec.output)[:, 0],
        account=done.plan.account(),
        delta=delta or 0.0,
        is_private_release=done.is_private_release,
        spec=_without_rows(spec, held, function, mu),
        plan=done.plan,
        silos=tuple(map(str, held.names)),
        history=ran.history,
    )


def _without_rows(spec: RunSpec, silos: Silos, loss: Loss, mu: float) -> RunSpec:
    """Return what was run, of a problem that has no rows: a result may be copied and stored."""
    public = PublicFunctions.of_loss(silos.sizes, silos.dimension, loss, silos.row_norm, mu)
    problem = replace(spec.setting.problem, functions=public)
    return replace(spec, setting=replace(spec.setting, problem=problem))


def _continued(spent: Floats, rounds: int) -> Floats:
    """Return what was spent up to the last round; nothing more is spent after the last release."""
    return np.concatenate([spent, np.full(rounds - len(spent), spent[-1] if len(spent) else 0.0)])


def _silos(given: Any, row_norm: float, silos_per_person: int) -> tuple[Silos, list[Any] | None]:
    """Return what was given as silos, and the persons of their rows, where they are given.

    Arrays are stacked, and rows that break the promise about their norm refused.
    """
    if isinstance(given, Silos):
        return given, None
    if isinstance(given, Mapping):
        parts = {str(name): given[name] for name in sorted(given, key=str)}
    else:
        if not isinstance(given, Sequence):
            checks.refuse("silos", "list one pair (X, y) of arrays per silo, or have them by name", given)
        digits = len(str(len(given) - 1))
        parts = {f"silo {i:0{digits}}": part for i, part in enumerate(given)}
    widths = {len(part) if isinstance(part, tuple | list) else 0 for part in parts.values()}
    if not widths <= {2} and widths != {3}:
        raise InputError(
            "silos must be one pair (X, y) of arrays per silo: [(X1, y1), (X2, y2)]; or (X, y, persons) in every silo."
        )
    tables, labels, *owners = zip(*parts.values(), strict=True) if parts else ((), ())
    made = Silos.from_parts(tables, labels, row_norm, names=list(parts))
    if not owners:
        return made, None
    persons = [np.asarray(each) for each in owners[0]]
    if [each.shape for each in persons] != [(n,) for n in made.sizes.tolist()]:
        raise InputError("persons must name the person of each row: one column as long as y in every silo.")
    _, seen = np.unique(np.concatenate([np.unique(each) for each in persons]), return_counts=True)
    if seen.max() > silos_per_person:
        raise InputError(
            f"A person has rows in more silos than the {silos_per_person} that are assumed. Give a ledger whose "
            "protection allows for more (silos_per_person), or pool the silos.",
            setting="silos_per_person",
            code="value",
        )
    return replace(made, people=tuple(PersonRows.of(each).people for each in persons)), persons


def _known(silos: Silos, persons: list[NDArray[Any]] | None, is_whole: bool) -> tuple[SiloColumns, ...]:
    """Return the silos as a ledger knows them, which lists them by their names."""
    if list(silos.names) != sorted(set(silos.names)):
        raise InputError("A ledger lists silos in the order of their names. Give the silos in that order.")
    groups = None if is_whole else np.repeat(silos.names, np.diff(silos.offsets))
    owners = None if persons is None else np.concatenate(persons)
    return ledger_data(dense(silos.features), silos.labels, groups, owners)


def _method(name: Any) -> type[Method]:
    """Return the method of this name, if anything protects it."""
    known = {each: method for each, method in by_name().items() if method.about.is_private}
    if not isinstance(name, str) or name not in known:
        checks.refuse("method", f"be one of {', '.join(known)}", name, nearest(name, known))
    return known[name]


def _named(name: str, given: Any, known: Mapping[str, Any]) -> Any:
    """Return a part itself, or the one that a text names."""
    if not isinstance(given, str):
        return given
    if given not in known:
        checks.refuse(name, f"be a {name} or one of {', '.join(known)}", given, nearest(given, known))
    return known[given]


def _check_unit(method: type[Method], protection: Protection, silos: Silos, distance: float | None) -> None:
    """Refuse a unit that no theorem of the method is about, and facts that belong to another one."""
    wrong, unit = method.about.why_not(protection), protection.unit
    if wrong is None and unit is Unit.PERSON and silos.people is None:
        wrong = "the unit 'person' needs the person of each row: give (X, y, persons) for every silo"
    if wrong is None and unit is Unit.FUNCTION and distance is None:
        wrong = "the unit 'function' needs gradient_distance, how far a neighbour's gradient may be anywhere"
    if wrong is None and unit is not Unit.FUNCTION and distance is not None:
        wrong = f"gradient_distance is for the unit 'function', not {unit.value!r}"
    if wrong is not None:
        raise InputError(f"{wrong[0].upper()}{wrong[1:]}. Nothing was spent.", setting="unit", code="combination")


def _with_ridge(regulariser: Regulariser | None, mu: float) -> Regulariser | None:
    """Return the penalty that is planned for, a ridge in every silo's function among it."""
    if checks.non_negative("mu", mu) == 0:
        return regulariser
    if regulariser is None or type(regulariser) is ElasticNet:
        l1, l2 = (0.0, 0.0) if regulariser is None else (regulariser.l1, regulariser.l2)
        return ElasticNet(l1, l2 + mu)
    raise InputError(
        "A plan has one penalty. Leave out mu, or state rounds and the method's numbers.",
        setting="mu",
        code="combination",
    )


def _records(method: type[Method], silos: Silos, rounds: int | None, **given: Any) -> dict[str, Any]:
    """Return the method's parameters that are no numbers, as far as they were given; refuse those it does not take."""
    own = {each.name for each in fields(cast(Any, method))}
    wanted = {name: value for name, value in given.items() if value is not None}
    if "participation" in wanted and "blocks" in own:
        wanted["blocks"] = wanted.pop("participation")
    for name in wanted.keys() - own:
        _refuse_parameter(name, f"{method.about.name} takes no {name}")
    batches, table = wanted.get("batches"), wanted.get("participation")
    if batches is not None and not isinstance(batches, Batches):
        wanted["batches"] = Batches.secret(checks.count("batches", batches))
    if table is not None and not isinstance(table, Participation):
        if rounds is None:
            _refuse_parameter("participation", "A planned run needs a Participation that names who takes part")
        number, rng = checks.count("participation", table), np.random.default_rng(0)
        wanted["participation"] = Participation.subsets(silos.n_agents, number, checks.count("rounds", rounds), rng)
    return wanted


def _refuse_parameter(name: str, text: str) -> NoReturn:
    raise InputError(f"{text}. Nothing was spent.", setting=name, code="combination")


def _target(method: Method | type[Method], epsilon: float, delta: float | None) -> Target | PureTarget:
    """Return the budget; pure epsilon is stronger than a budget with a delta."""
    noise = [each for each in vars(method).values() if isinstance(each, Family)] or method.about.noise
    checks.positive("epsilon", epsilon)
    delta = None if delta is None else checks.finite("delta", delta)
    if all(family.is_pure for family in noise):
        if delta:
            checks.open_unit("delta", delta)
        return PureTarget(epsilon)
    if not delta:
        raise InputError(
            f"{method.about.name} adds Gaussian noise, which has no pure epsilon. Give a delta well below 1 / records.",
            setting="delta",
            code="missing",
        )
    return Target(epsilon, delta)


def _planned(
    method: type[Method],
    silos: Silos,
    loss: Loss,
    target: Target | PureTarget,
    network: Network | None,
    regulariser: Regulariser | None,
    protection: Protection,
    records: Mapping[str, Any],
) -> tuple[RunSpec, Problem]:
    """Return what the planner chooses for this method, and the problem it is run on."""
    if protection.unit is Unit.FUNCTION:
        raise InputError(
            "No public fact says how far apart the functions of silos are, so nothing can be planned for the unit "
            "'function'. Give rounds and rho. Nothing was spent.",
            setting="unit",
            code="combination",
        )
    is_lasso = method is LassoADMM
    task = Task(
        sizes=tuple(silos.sizes.tolist()),
        dimension=silos.dimension,
        loss=_HUBER if is_lasso else loss,
        target=target if isinstance(target, Target) else Target(target.epsilon, _ANY_DELTA),
        network=network,
        regulariser=regulariser,
        protection=protection,
        row_norm=silos.row_norm,
    )
    made = plan(task, method=FederatedADMM.about.name if is_lasso else method.about.name)
    own, planned = dict(records), cast(Any, made.run.method)
    if is_lasso:  # the clip that the Huber loss would amount to; the squared loss has no bounded slope
        problem = Problem.of(EmpiricalRisk(silos, loss), regulariser=regulariser)
        own |= {"gamma": planned.gamma, "clip": planned.gamma * _HUBER.slope_bound * silos.row_norm}
        setting = replace(made.run.setting, problem=problem)
        return replace(made.run, method=LassoADMM(unit=protection.unit, **own), setting=setting), problem
    if isinstance(planned, GeneralADMM) and "constraint" in own:
        own["gamma"] = planned.gamma * own["constraint"].scale
    return replace(made.run, method=replace(planned, **own)), made.problem(silos)


def _stated(
    method: type[Method],
    problem: Problem,
    rounds: int | None,
    numbers: Mapping[str, Any],
    records: Mapping[str, Any],
    network: Network | None,
    protection: Protection,
) -> tuple[Method, Setting]:
    """Return the method and the setting of the rounds and numbers that were given."""
    name, known = method.about.name, _parameters(method)
    given = dict(numbers)
    if "batches" in records:
        given["batch"] = records["batches"].size
    needed = {each.name for each in fields(cast(Any, method)) if each.default is MISSING and each.name in _RECORDS}
    strange = [each for each in given if each not in known]
    lacking = [each for each, usual in known.items() if usual is MISSING and each not in given]
    lacking += sorted(needed - {"batches"} - records.keys())
    if strange or lacking or rounds is None:
        wrong = [f"{each!r} is not one of them.{nearest(each, known)}" for each in strange]
        wrong += [f"{', '.join(lacking)} must be given."] if lacking else []
        wrong += ["rounds must be given too."] if rounds is None else []
        wrong += ["Without rounds and parameters, the planner chooses them."]
        raise InputError(
            f"The parameters of {name} are {', '.join(known) or 'none'}: {' '.join(wrong)}",
            setting=[*strange, *lacking, "rounds"][0],
            code="value" if strange else "missing",
        )
    if network is None and method.about.least_silos > 1:
        network = complete(problem.n_agents)
    hints = get_type_hints(method)
    values = {each: _value(each, value, hints.get(each)) for each, value in given.items()}
    agreed = method.typed({each: value for each, value in values.items() if each in method.numbers()})
    common = Common(checks.count("rounds", rounds), problem.n_agents, network, seed=0)
    made: Any = method.agreed(common, **agreed, **{each: records[each] for each in needed & records.keys()})
    rest = {each: value for each, value in values.items() if each not in agreed} | dict(records)
    if "batch" in given and "batches" not in records:
        rest["batches"] = Batches.secret(made.batches.size)
    if "unit" in hints:
        rest["unit"] = protection.unit
    setting = Setting(problem, rounds, network=network, protection=protection)
    return replace(made, **rest), setting


def _parameters(method: type[Method]) -> dict[str, Any]:
    """Return the method's own numbers and choices with their defaults, MISSING for those that must be given."""
    own = {each.name: each.default for each in fields(cast(Any, method)) if each.name not in _RECORDS}
    return own | {name: MISSING if usual is None else usual for name, usual in method.numbers().items()}


def _value(name: str, value: Any, hint: Any) -> Any:
    """Return a number, or what the name of a choice stands for."""
    if isinstance(hint, type) and issubclass(hint, Enum):
        choices = {each.name.lower().replace("_", "-"): each for each in hint}
        if isinstance(value, hint):
            return value
        if value not in choices:
            checks.refuse(name, f"be one of {', '.join(choices)}", value, nearest(value, choices))
        return choices[value]
    if isinstance(value, tuple) and tuple in {get_origin(each) for each in get_args(hint)}:
        return value
    return value if value is None else checks.finite(name, value)


def _check_view(spec: RunSpec) -> None:
    """Refuse an observer that was asked for and whom the method does not count; masks hide sums from all who look."""
    asked = spec.setting.protection.view
    mechanisms = mechanisms_of(spec.method, spec.setting)
    seen = {row.certificates[0].protection.view for each in mechanisms for row in each.rows}
    if asked is not View.AGGREGATE and not all(asked in COVERED[each] for each in seen):
        raise InputError(
            f"{type(spec.method).__name__} is certified against the {' and '.join(v.value for v in seen)}, "
            f"not against the {asked.value}. Nothing was spent. Choose a view it is certified against, or another "
            "method.",
            setting="view",
            code="combination",
        )
