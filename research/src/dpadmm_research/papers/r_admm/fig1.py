"""Fig. 1: convergence of non-private R-ADMM for several gamma, eta = 0.5, N = 5 and N = 20."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from dpadmm.methods.decentralised import DecentralisedADMM
from dpadmm.methods.r_admm import BareRADMM
from dpadmm_research.comparison.adult import adult
from dpadmm_research.comparison.compare import LOSS
from dpadmm_research.papers.r_admm.setting import CHOICES, GUESSED, PRINTED, USED, RecycledSetting
from dpadmm_research.reproduction.figure import Figure, Finding, Ground, Order, Part, Verdict
from dpadmm_research.reproduction.style import BLACK, COLOURS, canvas, draw_curve, finish, headline, tell_apart
from dpadmm_research.reproduction.table import Reading, Rows, Table, chosen, means
from dpadmm_research.reproduction.trials import Trial, run_trials

SETTINGS = (
    RecycledSetting(agents=5, eta=0.5, gamma=0.0, runs=1),
    RecycledSetting(agents=20, eta=0.5, gamma=0.0, runs=1, mean_degree=4.0),
)
GAMMAS = (0.5, 2.0, 8.0)
ORIGINAL = "original ADMM"
CLOSE = 0.005
"""Losses that differ by less count as about the same."""
SHOWN = 20
"""How many iterations the panel of the oscillation has."""


def compute(setting: RecycledSetting, order: Order) -> Table:
    """All gammas and the original ADMM on one network."""
    data = adult(order)
    rows, compared = Rows(data.label), setting.comparison(data, order)
    methods: dict[str, BareRADMM | DecentralisedADMM] = {ORIGINAL: DecentralisedADMM(setting.eta)}
    methods |= {f"R-ADMM, gamma = {gamma:g}": BareRADMM(setting.eta, gamma) for gamma in GAMMAS}
    for curve, method in methods.items():
        batch = run_trials(
            method, compared.problem, compared.rounds, [Trial.bare(curve)], runs=1, seed=0, network=compared.network
        )
        for k, loss in zip(batch.run.history.rounds, batch.mean_loss, strict=True):
            rows.add(
                panel=f"N = {setting.agents}", curve=curve, reading=Reading.NON_PRIVATE, epsilon=float("inf"), x=k,
                metric=LOSS, values=loss,
            )  # fmt: skip
    return rows.table()


def draw(table: Table, data: str) -> Any:
    """Above, the loss; below, how far it is from the original ADMM's in the first iterations: a zigzag if it swings."""
    picture, axes = canvas(2, 2, width=6.0, height=4.0)
    for column, setting in enumerate(SETTINGS):
        rows = chosen(table, panel=f"N = {setting.agents}")
        curves = list(dict.fromkeys(rows["curve"]))
        for place, curve in enumerate(curves):
            draw_curve(
                axes[0, column], chosen(rows, curve=curve), label=curve, place=None if curve == ORIGINAL else place,
                reading=Reading.NON_PRIVATE,
            )  # fmt: skip
            if curve != ORIGINAL:
                _draw_swing(axes[1, column], _above_original(rows, curve), curve, COLOURS[place])
        tell_apart(axes[0, column], every=8)
        axes[1, column].axhline(0.0, color=BLACK, linestyle="-.", label=ORIGINAL)
        axes[1, column].set_xticks(range(2, SHOWN + 1, 2))
        where = f"N = {setting.agents}, eta = {setting.eta:g}"
        finish(axes[0, column], where, "iteration", LOSS)
        finish(axes[1, column], f"{where}: the first {SHOWN} iterations (odd: filled, even: hollow)", "iteration",
               "loss above that of ADMM")  # fmt: skip
    headline(
        picture, "R-ADMM, Fig. 1", data=data, privacy="not private: no noise, no eps, no delta",
        shown=f"C = {SETTINGS[0].loss_weight:g}, one run",
    )  # fmt: skip
    return picture


def _above_original(rows: Table, curve: str) -> Table:
    """Return a curve's loss minus the original ADMM's, for the first iterations."""
    gap = means(chosen(rows, curve=curve)) - means(chosen(rows, curve=ORIGINAL))
    return gap[gap.index <= SHOWN]


def _draw_swing(axes: Any, gap: Table, label: str, colour: str) -> None:
    """One line with filled markers at odd and hollow ones at even iterations."""
    even = gap[gap.index % 2 == 0]
    axes.plot(gap.index, gap.to_numpy(), "-.", color=colour, marker="o", label=label)
    axes.plot(even.index, even.to_numpy(), "o", color=colour, markerfacecolor="white")


def _largest_rise(run_curve: Table) -> float:
    """Return by how much the loss rises at most from an odd iteration to the next, even one; 0 if it never does."""
    steps = run_curve.diff()
    return max(0.0, float(steps[steps.index % 2 == 0].max()))


def findings(table: Table) -> tuple[Finding, ...]:
    """Oscillation, the effect of gamma, and the rate on odd iterations."""
    found = []
    for setting in SETTINGS:
        rows = chosen(table, panel=f"N = {setting.agents}")
        run_curves = {curve: means(chosen(rows, curve=curve)) for curve in dict.fromkeys(rows["curve"])}
        original = run_curves.pop(ORIGINAL)
        found += [_effect_of_gamma(run_curves, setting.agents), _rate(run_curves, original, setting.agents)]
    return tuple(found)


def _effect_of_gamma(run_curves: Mapping[str, Table], agents: int) -> Finding:
    """The curves come with increasing gamma: rises should fall, and the loss early in the run should grow."""
    rises = [_largest_rise(run_curve) for run_curve in run_curves.values()]
    early = [float(run_curve.iloc[len(run_curve) // 5]) for run_curve in run_curves.values()]
    is_calmer = rises == sorted(rises, reverse=True) and rises[0] > rises[-1]
    is_slower = early == sorted(early) and early[0] < early[-1]
    names = [curve.removeprefix("R-ADMM, ") for curve in run_curves]
    return Finding(
        f"larger gamma oscillates less but converges more slowly (N = {agents})",
        "largest rise of the loss in an even iteration, and loss after a fifth of the run: "
        + ", ".join(f"{n}: {rise:.4f}, {loss:.4f}" for n, rise, loss in zip(names, rises, early, strict=True)),
        (Verdict.DIFFERENT, Verdict.PARTLY, Verdict.SAME)[is_calmer + is_slower],
        "" if max(rises) > 0 else "no even iteration raises the loss here, so that there is nothing to calm",
    )


def _rate(run_curves: Mapping[str, Table], original: Table, agents: int) -> Finding:
    """Odd iterations beside the same iterations of ADMM."""
    gaps = [float((run_curve - original)[run_curve.index % 2 == 1].abs().max()) for run_curve in run_curves.values()]
    names = [curve.removeprefix("R-ADMM, ") for curve in run_curves]
    return Finding(
        f"on odd iterations R-ADMM converges about as fast as ADMM (N = {agents})",
        f"ADMM's loss falls from {original.iloc[0]:.4f} to {original.iloc[-1]:.4f}; largest difference from it on odd "
        "iterations: " + ", ".join(f"{name}: {gap:.4f}" for name, gap in zip(names, gaps, strict=True)),
        Verdict.SAME if max(gaps) < CLOSE else Verdict.DIFFERENT,
        f"about as fast: within {CLOSE:g} at every odd iteration",
    )


FIGURE = Figure(
    name="r-admm/fig1",
    title="R-ADMM, Fig. 1: convergence without noise",
    reports=(
        "With eta = 0.5 R-ADMM converges for N = 5 and N = 20; even iterations may raise the loss, odd ones make "
        "up for it; larger gamma means smaller oscillations and slower convergence."
    ),
    setting={**asdict(SETTINGS[0]), "agents": (5, 20), "gamma": GAMMAS},
    choices=("The values of gamma are not readable: 0.5, 2 and 8.", *CHOICES),
    ground=Ground(
        printed=f"{PRINTED}; N = 5 and N = 20, eta = 0.5, several gamma, an axis of 50 iterations.",
        used=f"{USED}; N = 5 and N = 20, eta = 0.5, gamma = 0.5, 2 and 8.",
        guessed=f"{GUESSED}, and the values of gamma.",
    ),
    parts=tuple(
        Part(f"r-admm/fig1/n{setting.agents}", partial(compute, setting), seconds=6.0, needs_adult=True)
        for setting in SETTINGS
    ),
    draw=draw,
    findings=findings,
)
