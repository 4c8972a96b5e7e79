"""The race on Adult: every contender at one or more budgets, loss and accumulated privacy per iteration."""

from collections.abc import Sequence

import numpy as np

from dpadmm.networks import Network
from dpadmm.privacy.accounting import PureTarget
from dpadmm.privacy.releases import GaussianRelease
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.regularisers import ElasticNet
from dpadmm_research.comparison.adult import AdultData
from dpadmm_research.comparison.contenders import ComparisonSetting, Contender, trial
from dpadmm_research.networks import erdos_renyi
from dpadmm_research.reproduction.figure import Order
from dpadmm_research.reproduction.table import Reading, Rows, Table, chosen
from dpadmm_research.reproduction.trials import Trial, run_trials

LOSS, TAIL, CERTIFIED_EPS, CLAIMED_EPS = "average loss", "loss of the tail average", "certified eps", "claimed eps"
FIRST_STD = "largest noise std in round 1"


def logistic_problem(data: AdultData, agents: int, weight: float, ridge: float) -> Problem:
    """Return `sum_i weight f_i(x) + (ridge/2) ||x||^2`, f_i the mean logistic loss of agent i."""
    regulariser = ElasticNet(l2=ridge)
    return Problem(EmpiricalRisk(data.silos(agents), Logistic()), np.full(agents, weight), regulariser)


def random_network(agents: int, mean_degree: float, seed: int) -> Network:
    """Return a random connected network with about this many neighbours each."""
    return erdos_renyi(agents, min(1.0, mean_degree / (agents - 1)), seed)


def race(
    rows: Rows,
    panel: str,
    data: AdultData,
    compared: ComparisonSetting,
    contenders: Sequence[Contender],
    epsilons: Sequence[float],
    order: Order,
    runs: int,
    bare: Contender | None = None,
) -> None:
    """Run every contender, all its budgets and readings in one batch; `bare` also runs without noise."""
    for contender in contenders:
        trials = [
            trial(contender, compared, reading, epsilon)
            for epsilon in epsilons
            for reading in order.accounting.readings
        ]
        if contender is bare:
            trials.append(Trial.bare())
        batch = run_trials(
            contender.method,
            compared.problem,
            compared.rounds,
            trials,
            runs=runs,
            seed=order.seed,
            network=compared.network,
        )
        tail = data.loss(batch.run.tail_average)
        for each, columns in batch:
            for k, losses in zip(batch.run.history.rounds, batch.mean_loss[:, columns], strict=True):
                _add(rows, panel, each, float(k), LOSS, losses)
            _add(rows, panel, each, float(compared.rounds), TAIL, tail[columns])
            if each.plan is not None:
                _add_curves(rows, panel, each, contender, compared)


def _add(rows: Rows, panel: str, each: Trial, x: float, metric: str, values: object) -> None:
    rows.add(
        panel=panel, curve=each.curve, reading=each.reading, epsilon=each.epsilon, x=x, metric=metric,
        values=np.asarray(values),
    )  # fmt: skip


def _add_curves(rows: Rows, panel: str, each: Trial, contender: Contender, compared: ComparisonSetting) -> None:
    """Add the certified epsilon after every iteration, for claimed noise the claimed one, and Gaussian noise's std."""
    is_pure = isinstance(contender.target(compared, each.epsilon), PureTarget)
    rounds = range(1, compared.rounds + 1)
    run_curves = {CERTIFIED_EPS: each.certified_curve(0.0 if is_pure else compared.delta, rounds)}
    if each.reading is Reading.CLAIMED:
        run_curves[CLAIMED_EPS] = contender.claimed_curve(compared, each.epsilon)
    stds = [r.noise_std for r in each.plan if r.round <= 1 and isinstance(r, GaussianRelease)] if each.plan else []
    if stds:
        run_curves[FIRST_STD] = [max(stds)]
    for metric, run_curve in run_curves.items():
        for k, value in enumerate(run_curve, start=1):
            rows.fact(
                panel=panel, curve=each.curve, reading=each.reading, epsilon=each.epsilon, x=k, metric=metric,
                value=value,
            )  # fmt: skip


def reported(epsilon: float) -> str:
    """Return a certified epsilon in words: below some noise level delta alone covers everything."""
    if np.isnan(epsilon):
        return "unknown"
    return f"{epsilon:.3g}" if epsilon > 0 else "0 (delta alone covers it)"


def cost_notes(table: Table, curves: Sequence[str], **wanted: object) -> dict[str, str]:
    """Return, for the legend, what the noise of each curve costs at the end by the certificates.

    wanted: which rows (reading, budget); a curve that has several costs, for several networks, gets their range.
    """
    spent = chosen(table, metric=CERTIFIED_EPS, **wanted)
    notes = {}
    for curve in curves:
        rows = chosen(spent, curve=curve)
        if len(rows):
            costs = rows[rows["x"] == rows["x"].max()]["value"]
            ends = dict.fromkeys((f"{costs.min():.3g}", f"{costs.max():.3g}"))
            notes[curve] = f" (certified eps {' to '.join(ends)})"
    return notes
