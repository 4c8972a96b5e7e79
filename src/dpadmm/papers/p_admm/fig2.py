"""Fig. 2: as Fig. 1 with total eps = 10; and whether another penalty makes the claimed noise bearable."""

import math
from dataclasses import replace

from dpadmm.papers.p_admm.regularised import figure
from dpadmm.papers.p_admm.setting import NEAR, AdultRace, arena_of
from dpadmm.papers.race.adult import adult
from dpadmm.papers.race.contenders import PAdmmRacer, trial
from dpadmm.papers.race.race import LOSS
from dpadmm.papers.reproduction.figure import Finding, Order, Part, Verdict
from dpadmm.papers.reproduction.table import Reading, Rows, Table, chosen, mean_at, means
from dpadmm.papers.reproduction.trials import run_trials

SETTING = AdultRace(epsilons=(10.0,), agents=5, delta=1e-4, decays=(0.9, 0.95, 0.98, 0.995), runs=10)
OTHER_ETAS = (0.05, 0.5, 5.0)
BY_ETA = "average loss at the end, other eta"


def sweep(order: Order) -> Table:
    """P-ADMM's claimed noise with other penalties: x is eta."""
    data = adult(order)
    rows, arena = Rows(data.label), arena_of(SETTING, data, order)
    (epsilon,) = SETTING.epsilons
    for eta in OTHER_ETAS if Reading.CLAIMED in order.accounting.readings else ():
        racer = PAdmmRacer(eta, max(SETTING.decays))
        batch = run_trials(
            racer.method, arena.problem, arena.rounds, [trial(racer, arena, Reading.CLAIMED, epsilon)],
            runs=order.runs_of(SETTING.runs), seed=order.seed, network=arena.network,
        )  # fmt: skip
        rows.add(
            panel="eta", curve=racer.label, reading=Reading.CLAIMED, epsilon=epsilon, x=eta, metric=BY_ETA,
            values=batch.mean_loss[-1],
        )  # fmt: skip
    return rows.table()


def findings(table: Table) -> tuple[Finding, ...]:
    """Those of Fig. 1, and the sweep over eta."""
    others = means(chosen(table, metric=BY_ETA))
    if not len(others):
        return _RACE.findings(table)
    bare = mean_at(table, metric=LOSS, reading=Reading.NON_PRIVATE)
    own = mean_at(table, metric=LOSS, reading=Reading.CLAIMED, curve=SETTING.champion)
    losses = {SETTING.eta: own, **others.to_dict()}
    is_near = min(losses.values()) <= (1 + NEAR) * bare
    swept = Finding(
        "P-ADMM is nearly as low as non-private ADMM at some eta, which is not printed (claimed noise)",
        ", ".join(f"eta = {eta:g}: {loss:.3g}" for eta, loss in losses.items())
        + f"; non-private {bare:.4g}, the model 0 has {math.log(2):.4g}",
        Verdict.SAME if is_near else Verdict.DIFFERENT,
        "Theorem 3's noise falls as 1/eta, and the steps get shorter with it"
        + ("" if is_near else "; none of these eta gives the paper's curves with the printed noise"),
    )
    return (*_RACE.findings(table), swept)


_RACE = figure(2, SETTING)
FIGURE = replace(
    _RACE,
    setting={**_RACE.setting, "other_etas": OTHER_ETAS},
    parts=(*_RACE.parts, Part("p-admm/fig2/eta", sweep, seconds=11.0, needs_adult=True)),
    findings=findings,
)
