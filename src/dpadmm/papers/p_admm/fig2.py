"""Fig. 2: as Fig. 1 with total eps = 10; and whether another penalty makes the claimed noise bearable."""

import math
from dataclasses import replace
from functools import partial
from typing import Any

from dpadmm.papers.p_admm.regularised import figure
from dpadmm.papers.p_admm.setting import NEAR, AdultRace, arena_of
from dpadmm.papers.race.adult import adult
from dpadmm.papers.race.contenders import PAdmmRacer, trial
from dpadmm.papers.race.race import LOSS
from dpadmm.papers.reproduction.figure import Finding, Ground, Order, Part, Verdict
from dpadmm.papers.reproduction.style import BLACK, Spread, draw_curve, finish
from dpadmm.papers.reproduction.table import Reading, Rows, Table, chosen, mean_at, means
from dpadmm.papers.reproduction.trials import Trial, run_trials

SETTING = AdultRace(epsilons=(10.0,), agents=5, delta=1e-4, decays=(0.9, 0.95, 0.98, 0.995), runs=10)
ETAS_BY_ROUNDS = {50: (0.5, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0), 400: (20.0, 50.0, 100.0, 200.0)}
"""Penalties tried for each number of iterations: at K = 400, R = 0.995 spends slowly, as the paper says."""
TOY_ETAS = (0.5, 50.0)
BY_ETA = "average loss at the end, other eta"
ZERO = math.log(2)
"""The logistic loss of the model 0."""


def sweep(rounds: int, order: Order) -> Table:
    """P-ADMM's claimed noise with other penalties, and the run without noise: x is eta."""
    data = adult(order)
    rows, (epsilon,), count = Rows(data.label), SETTING.epsilons, order.pick(rounds, 6)
    arena = replace(arena_of(SETTING, data, order), rounds=count)
    for eta in order.pick(ETAS_BY_ROUNDS[rounds], TOY_ETAS) if Reading.CLAIMED in order.accounting.readings else ():
        racer = PAdmmRacer(eta, max(SETTING.decays))
        batch = run_trials(
            racer.method, arena.problem, count, [trial(racer, arena, Reading.CLAIMED, epsilon), Trial.bare()],
            runs=order.runs_of(SETTING.runs), seed=order.seed, network=arena.network, every=count,
        )  # fmt: skip
        for each, columns in batch:
            rows.add(
                panel=f"K = {rounds}", curve=each.curve, reading=each.reading, epsilon=each.epsilon, x=eta,
                metric=BY_ETA, values=batch.mean_loss[-1, columns],
            )  # fmt: skip
    return rows.table()


def draw_sweep(ax: Any, table: Table, setting: AdultRace) -> None:
    """Loss at the end against eta, with claimed noise and without any."""
    for place, rounds in enumerate(ETAS_BY_ROUNDS):
        rows = chosen(table, metric=BY_ETA, panel=f"K = {rounds}")
        draw_curve(ax, chosen(rows, reading=Reading.CLAIMED), label=f"{setting.champion}, K = {rounds}", place=place,
                   reading=Reading.CLAIMED, spread=Spread.STD, is_marked=True)  # fmt: skip
        draw_curve(ax, chosen(rows, reading=Reading.NON_PRIVATE), label=f"non-private, K = {rounds}", place=place,
                   reading=Reading.NON_PRIVATE)  # fmt: skip
    ax.axhline(ZERO, color=BLACK, linewidth=1, linestyle=":", label=f"the model 0: {ZERO:.3f}")
    bare = mean_at(table, metric=LOSS, reading=Reading.NON_PRIVATE)
    ax.axhline(bare, color=BLACK, linewidth=1, linestyle="-.")
    ax.annotate(f"non-private, eta = {setting.eta:g}: {bare:.3f}", (0.02, bare), xycoords=("axes fraction", "data"),
                xytext=(0, 3), textcoords="offset points", fontsize=8)  # fmt: skip
    ax.set_ylim(0.9 * bare, 1.3)
    finish(ax, "other penalties, claimed noise", "eta", f"{LOSS} at the end", is_log_x=True, legend="above")


def findings(table: Table) -> tuple[Finding, ...]:
    """Those of Fig. 1, and the sweep over eta."""
    rows = chosen(table, metric=BY_ETA)
    if not len(rows):
        return _RACE.findings(table)
    bare = mean_at(table, metric=LOSS, reading=Reading.NON_PRIVATE)
    told, least = [], math.inf
    for rounds in ETAS_BY_ROUNDS:
        private, without = (
            means(chosen(rows, panel=f"K = {rounds}", reading=reading))
            for reading in (Reading.CLAIMED, Reading.NON_PRIVATE)
        )
        least = min(least, private.min())
        told.append(
            f"K = {rounds}: "
            + ", ".join(f"{private[eta]:.3g} ({without[eta]:.3g}) at eta = {eta:g}" for eta in private.index)
        )
    is_near = least <= (1 + NEAR) * bare
    swept = Finding(
        "P-ADMM is nearly as low as non-private ADMM at some eta, which is not printed (claimed noise)",
        f"least {least:.3g}, the model 0 has {ZERO:.3g} and non-private ADMM {bare:.3g} at eta = {SETTING.eta:g}. Loss "
        f"at the end, in brackets without noise. {'; '.join(told)}",
        Verdict.SAME if is_near else Verdict.DIFFERENT,
        "Theorem 3's noise falls as 1/eta, and the steps get shorter with it"
        + ("" if is_near else ": where the noise is bearable, non-private ADMM itself hardly leaves the start"),
        Ground(
            printed="R = 0.995, total eps = 10, delta = 1e-4, N = 5.",
            used=f"Theorem 3 with V = 1, eta from {min(ETAS_BY_ROUNDS[50]):g} to {max(ETAS_BY_ROUNDS[50]):g} with "
            f"K = {' and '.join(map(str, ETAS_BY_ROUNDS))}; 10 runs each.",
            guessed="eta, K, V, Lambda, the network, the start (0). V = 1 is the least bound that holds; smaller "
            "budgets ask for more noise.",
        ),
    )
    return (*_RACE.findings(table), swept)


_RACE = figure(2, SETTING, draw_sweep)
FIGURE = replace(
    _RACE,
    setting={
        **_RACE.setting,
        **{f"other_etas_K_{rounds}": etas for rounds, etas in ETAS_BY_ROUNDS.items()},
    },
    parts=(
        *_RACE.parts,
        *(
            Part(f"p-admm/fig2/eta{rounds}", partial(sweep, rounds), seconds=seconds, needs_adult=True)
            for rounds, seconds in zip(ETAS_BY_ROUNDS, (10.0, 28.0), strict=True)
        ),
    ),
    findings=findings,
)
