"""`minimise` and `plan`: private ADMM on own costs, on the same core, ledger and noise as everything else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.core.budget import LedgerFile
from dpadmm.core.spec import ReleaseFacts, RunSpec, TrainingSpec
from dpadmm.core.train import Problems, run_training
from dpadmm.costs.agents import CostAgents
from dpadmm.costs.couplings import Consensus, Coupling, General, Graph
from dpadmm.costs.forecast import CostForecast, forecast
from dpadmm.costs.protection import Person, Protect, Record
from dpadmm.costs.setup import TRUST, Setup
from dpadmm.costs.sums import LinearTerms, minimise_total
from dpadmm.errors import InputError
from dpadmm.method_run import run
from dpadmm.noise.mechanisms import Schedule
from dpadmm.noise.sampler import SecureSampler, SimulatedSampler
from dpadmm.privacy.accounting import Account, Target
from dpadmm.privacy.ledger import SiloColumns
from dpadmm.problems.arrays import Floats

_USUAL_ROUNDS = 20
_METHODS = ("auto", "admm", "sums")
_ERROR = 0.3
_KEPT = (
    " What an agent keeps depends on the broadcasts and its own data: kept apart, it costs the others nothing more, "
    "but not where whoever adds up the parts looks."
)


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Silos of records, one pair (X, y) each, in a list or by name; the costs are their mean losses.

    loss: a name or a loss. row_norm: public bound on the norm of a row. mu: a ridge of every silo.
    """

    silos: Any
    loss: Any = "logistic"
    row_norm: float = 1.0
    mu: float = 0.0


@dataclass(frozen=True, eq=False)
class CostPlan:
    """What would be released, fixed before any private number is used.

    step: the rounds of a method, or one noisy sum. numbers: of the method. forecast: None where no public guess of the
    agents is known.
    """

    setup: Setup = field(repr=False)
    step: RunSpec | LinearTerms = field(repr=False)
    numbers: Mapping[str, float]
    forecast: CostForecast | None

    def __getstate__(self) -> dict[str, Any]:
        """Refuse copies on disk: the agents that it was made for would be among them."""
        raise InputError("A plan is not stored: it holds the agents. Store its rounds and numbers.")

    @property
    def rounds(self) -> int:
        """How many rounds it has."""
        return self.step.setting.rounds if isinstance(self.step, RunSpec) else 1

    @property
    def spec(self) -> TrainingSpec:
        """All that will be reserved."""
        sizes = (1,) * self.setup.agents.n_agents
        shared = ReleaseFacts(sizes, self.setup.protection, is_pooled=True)
        return TrainingSpec((self.step,), self.step.facts if isinstance(self.step, RunSpec) else shared)

    @property
    def account(self) -> Account:
        """What it would cost."""
        return self.spec.account()

    def __str__(self) -> str:
        """Say what it would run, and what to expect."""
        unknown = "no forecast" if isinstance(self.setup.coupling, General) else "no forecast without guess="
        said = unknown if self.forecast is None else str(self.forecast)
        numbers = ", ".join(f"{name}={value:.4g}" for name, value in self.numbers.items())
        if not isinstance(self.step, RunSpec):
            return f"one noisy sum of linear terms; {said}"
        return f"{self.step.method.about.name}, {self.rounds} rounds, {numbers}; {said}"


@dataclass(frozen=True, eq=False)
class Result:
    """What a run has released, and what every agent keeps.

    public: the model (consensus, graph), z (general) or the price of the resource (sharing), the mean of the last
    rounds. sums: the noisy sums of all rounds, (K, p), from which everything public is computed. kept: (N, d), row i
    for agent i alone; it is not released. hides: what is protected. With simulated noise nothing is a private release.
    """

    public: Floats
    sums: Floats = field(repr=False)
    kept: Floats | None = field(repr=False)
    plan: CostPlan | None = field(repr=False)
    account: Account = field(repr=False)
    delta: float
    is_private_release: bool
    hides: str

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what belongs to the agents: a copy on disk is for whoever may see what is public."""
        return {**vars(self), "kept": None, "plan": None}

    @property
    def epsilon(self) -> float:
        """The certified epsilon at `delta`."""
        return self.account.curve.epsilon(self.delta)

    @property
    def forecast(self) -> CostForecast | None:
        """What was to be expected."""
        return None if self.plan is None else self.plan.forecast

    @property
    def baseline(self) -> float | None:
        """The gap to the optimum that spending nothing is expected to reach; None without a guess of the agents."""
        return None if self.forecast is None else self.forecast.nothing

    @property
    def statement(self) -> str:
        """What is certified, for whom, against whom, and on which assumptions."""
        kept = "" if self.kept is None else _KEPT
        return f"{self}, if {'; '.join(self.account.assumptions)}.{kept}"

    def __str__(self) -> str:
        """Say what it cost, who is protected, and from whom."""
        observer = self.account.protection.observer
        figure = f"epsilon {self.epsilon:.4g} at delta {self.delta:g} for {self.hides} against {observer}"
        origin = "" if self.is_private_release else "NOT a private release: simulated noise. It would cost "
        return f"{origin}{self.account.standing}: {figure}"


def plan(
    agents: CostAgents | Rows,
    coupling: Coupling,
    *,
    protect: Protect,
    epsilon: float,
    delta: float,
    method: str = "auto",
    rounds: int | None = None,
    trust: str = "sum",
    guess: CostAgents | None = None,
    guess_error: float = _ERROR,
    schedule: str | Schedule | None = None,
    **numbers: float,
) -> CostPlan:
    """Plan a run from public facts; of `agents` only number, shapes, limits and public curvature are read.

    Without data, give public agents in their place. The parameters are those of `minimise`.

    >>> from dpadmm.costs import Allocations, Amount, Sharing
    >>> from dpadmm.problems.regularisers import Quadratic
    >>> fleet = Allocations([6.0] * 400, lower=0.0, upper=[3.0] * 6, costs=(0.1, 0.0))
    >>> grid = Sharing(Quadratic(0.001 * np.eye(6), [0.4, 0.2, 0.0, 0.0, 0.2, 0.4]))
    >>> made = plan(fleet, grid, protect=Amount(3.0), epsilon=1.0, delta=1e-6, guess=fleet)
    >>> made.forecast.private < 0.05, made.rounds in (5, 10, 20, 40)
    (True, True)
    """
    if isinstance(agents, Rows):
        raise InputError("Methods on rows are planned by dpadmm.plan(sizes=..., dimension=..., method=...).")
    target = Target(checks.positive("epsilon", epsilon), checks.open_unit("delta", delta))
    setup = Setup.of(agents, coupling, protect, trust, schedule)
    checks.one_of("method", method, _METHODS)
    error = checks.non_negative("guess_error", guess_error)
    given = {name: checks.positive(name, value) for name, value in numbers.items()}
    rounds = None if rounds is None else checks.count("rounds", rounds)
    setup.method(rounds or 1, given)  # refuses unknown numbers
    if guess is not None and (type(guess) is not type(agents) or guess.dimension != agents.dimension):
        raise InputError(f"guess must be public agents of the same kind and dimension, got {safe_repr(guess)}.")
    stand_in = None  # under a general constraint no x of the agents alone is what a run is judged by
    if not isinstance(coupling, General):
        stand_in = guess if guess is not None else agents.stand_in(protect)
    chosen: Mapping[str, float] = {**setup.names, **given}
    count, made = _USUAL_ROUNDS if rounds is None else rounds, None
    if stand_in is not None and not _is_stated(setup, rounds, given):
        count, numbers_found, made = forecast(setup, stand_in, target, rounds, given, error)
        chosen = {**chosen, **numbers_found}
    is_sum = method == "sums" or (method == "auto" and made is not None and made.is_sum_better)
    if not is_sum:
        return CostPlan(setup, setup.run(count, chosen, target), chosen, made)
    if not setup.has_sums:
        raise InputError(
            "One sum of linear terms tells everything for Quadratics without a box under Consensus with Linear only. "
            "Nothing was spent. Leave out method."
        )
    return CostPlan(setup, LinearTerms(target, setup.protect.distance, agents.dimension), {}, made)  # type: ignore[union-attr]


def _is_stated(setup: Setup, rounds: int | None, given: Mapping[str, float]) -> bool:
    """Whether nothing is left to choose."""
    return rounds is not None and next(iter(setup.names)) in given


def minimise(
    agents: CostAgents | Rows,
    coupling: Coupling,
    *,
    protect: Protect,
    epsilon: float,
    delta: float,
    method: str = "auto",
    rounds: int | None = None,
    trust: str = "sum",
    ledger: Any = None,
    seed: int | None = None,
    guess: CostAgents | None = None,
    guess_error: float = _ERROR,
    schedule: str | Schedule | None = None,
    **numbers: float,
) -> Result:
    """Minimise the sum of the agents' private costs under a coupling, with noise that spends epsilon and delta.

    Parameters
    ----------
    agents : Allocations, Quadratics, CostFamily, Prox or Rows
        The private costs.
    coupling : Consensus, Graph, Sharing or General
        What ties the agents together, public.
    protect : Amount, Linear, Gap, Whole, Record or Person
        What is hidden of an agent.
    epsilon, delta : float
        The privacy budget of this run.
    method : {"auto", "admm", "sums"}
        "admm": rounds. "sums": one noisy sum of linear terms, for `Quadratics` without a box under `Consensus` with
        `Linear`. "auto": the better one of them; refused if neither is expected to do better than spending nothing.
        For `Rows` a name that `dpadmm methods` lists.
    rounds, **numbers : optional
        Rounds and the method's own numbers: rho (sharing), gamma and lam (consensus, general), eta (graph). What is
        left out is chosen by simulation on public agents.
    trust : {"sum", "masks", "nobody"}
        Who sees the agents' messages without noise: whoever adds them up, nobody but as a masked sum, or nobody.
    ledger : path or Ledger, optional
        Where the cost is recorded before noise is drawn, made with `Ledger.create(path, agents.ledger_data(), ...)`.
    seed : int, optional
        Simulated noise; the result is not a private release.
    guess : agents of the same kind, optional
        Public ones, on which the run is simulated (not under `General`); made without a look at what is private.
    guess_error : float
        By how much the guess may be off for all agents together, in the forecast of spending nothing.
    schedule : str or Schedule, optional
        Noise over the rounds: constant, geometric:R (P-ADMM's falling variance), cao:BETA, as for `dpadmm.run`.

    >>> from dpadmm.costs import Allocations, Amount, Sharing
    >>> from dpadmm.problems.regularisers import Quadratic
    >>> fleet = Allocations([2.0, 6.0] * 200, lower=0.0, upper=[3.0] * 6, costs=(0.1, 0.0))
    >>> grid = Sharing(Quadratic(0.001 * np.eye(6), [0.4, 0.2, 0.0, 0.0, 0.2, 0.4]))
    >>> done = minimise(fleet, grid, protect=Amount(3.0), epsilon=1.0, delta=1e-6, rounds=5, rho=0.4)
    >>> done.kept.sum(axis=1).round(6).tolist()[:2], done.public.shape, round(done.epsilon, 6)
    ([2.0, 6.0], (6,), 1.0)
    """
    if seed is not None and ledger is not None:
        raise InputError(
            "seed makes the noise reproducible, so nothing is released or recorded. Leave out seed or ledger."
        )
    if isinstance(agents, Rows):
        checks.one_of("trust", trust, TRUST)
        given = {"epsilon": epsilon, "delta": delta, "rounds": rounds, "ledger": ledger, "seed": seed}
        given |= {"schedule": schedule, **numbers}
        return _minimise_rows(agents, coupling, protect, trust, method, given)
    if guess is agents:
        raise InputError("guess must be public agents; these are the private ones. Nothing was spent.")
    made = plan(
        agents, coupling, protect=protect, epsilon=epsilon, delta=delta, method=method, rounds=rounds, trust=trust,
        guess=guess, guess_error=guess_error, schedule=schedule, **numbers,
    )  # fmt: skip
    if made.forecast is not None and method == "auto" and not made.forecast.is_worthwhile:
        raise InputError(f"Nothing was spent: {made.forecast} To run it all the same, give method='admm'.")
    sampler = SecureSampler() if seed is None else SimulatedSampler(checks.count("seed", seed, least=0))
    source = Problems([made.setup.problem(agents)])
    with LedgerFile.of(ledger).open(partial(_known, agents)) as opened:
        outcome = run_training(made.spec, source, sampler, opened, label="minimise")
    shared: dict[str, Any] = {
        "plan": made,
        "account": outcome.plan.account(),
        "delta": delta,
        "is_private_release": outcome.is_private_release,
        "hides": protect.description,
    }
    if not isinstance(made.step, RunSpec):
        total: Floats = outcome.released[LinearTerms.name]
        model = minimise_total(agents, total, made.setup.g)  # type: ignore[arg-type]
        return Result(public=model, sums=total[None], kept=None, **shared)
    (done,) = outcome.runs(made.step)
    kept = None if done.kept is None else done.kept[:, :, 0]
    sums = np.array([each[0, :, 0] for each in done.sums])
    return Result(public=done.model(made.step.output)[:, 0], sums=sums, kept=kept, **shared)


_ROW_METHOD, _ROW_VIEWS = "fp-coordinator", {"sum": "public", "masks": "aggregate"}


def _minimise_rows(
    rows: Rows, coupling: Coupling, protect: Protect, trust: str, method: str, given: Mapping[str, Any]
) -> Result:
    """Run a method on rows, whose gradients are bounded by their loss: `dpadmm.run`."""
    if not isinstance(protect, Record | Person):
        raise InputError("Of rows, Record() or Person() can be protected. Nothing was spent.")
    if not isinstance(coupling, Consensus | Graph) or getattr(coupling, "metric", None) is not None:
        raise InputError("Rows have one model in common: use Consensus(g) or Graph(network). Nothing was spent.")
    is_graph = isinstance(coupling, Graph)
    usual, view = (_ROW_METHOD, _ROW_VIEWS[trust]) if trust in _ROW_VIEWS else ("fp-federated", "eavesdropper")
    if is_graph:
        usual, view = "p-admm", "eavesdropper"
    done = run(
        usual if method == "auto" else method,
        rows.silos,
        loss=rows.loss,
        row_norm=rows.row_norm,
        mu=rows.mu,
        regulariser=None if is_graph else coupling.g,  # type: ignore[union-attr]
        topology=coupling.network if is_graph else "auto",  # type: ignore[union-attr]
        unit=protect.unit.value,
        view=view,
        **given,
    )
    empty = np.zeros((0, len(done.model)))
    return Result(done.model, empty, None, None, done.account, done.delta, done.is_private_release, protect.description)


def _known(agents: CostAgents, is_whole: bool) -> tuple[SiloColumns, ...]:
    return agents.ledger_data()
