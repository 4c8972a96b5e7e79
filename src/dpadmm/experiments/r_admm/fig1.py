"""Fig. 1: convergence of non-private R-ADMM for several gamma, eta = 0.5, N = 5 and N = 20."""

from dataclasses import asdict
from functools import partial
from typing import Any

from dpadmm.algorithms.decentralised import DecentralisedADMM
from dpadmm.algorithms.r_admm import BareRADMM
from dpadmm.experiments.adult import adult
from dpadmm.experiments.figure import Figure, Finding, Order, Part, Verdict
from dpadmm.experiments.r_admm.setting import CHOICES, RecycledSetting
from dpadmm.experiments.race import LOSS
from dpadmm.experiments.style import canvas, draw_curve, finish
from dpadmm.experiments.table import Reading, Rows, Table, chosen, means
from dpadmm.experiments.trials import Trial, run_trials

SETTINGS = (
    RecycledSetting(agents=5, eta=0.5, gamma=0.0, runs=1),
    RecycledSetting(agents=20, eta=0.5, gamma=0.0, runs=1, mean_degree=4.0),
)
GAMMAS = (0.5, 2.0, 8.0)
ORIGINAL = "original ADMM"


def compute(setting: RecycledSetting, order: Order) -> Table:
    """All gammas and the original ADMM on one network."""
    data = adult(order)
    rows, arena = Rows(data.label), setting.arena(data, order)
    methods: dict[str, BareRADMM | DecentralisedADMM] = {ORIGINAL: DecentralisedADMM(setting.eta)}
    methods |= {f"R-ADMM, gamma = {gamma:g}": BareRADMM(setting.eta, gamma) for gamma in GAMMAS}
    for curve, method in methods.items():
        batch = run_trials(
            method, arena.problem, arena.rounds, [Trial.bare(curve)], runs=1, seed=0, network=arena.network
        )
        for k, loss in zip(batch.run.history.rounds, batch.mean_loss, strict=True):
            rows.add(
                panel=f"N = {setting.agents}", curve=curve, reading=Reading.NON_PRIVATE, epsilon=float("inf"), x=k,
                metric=LOSS, values=loss,
            )  # fmt: skip
    return rows.table()


def draw(table: Table, data: str) -> Any:
    """One panel per network."""
    picture, axes = canvas(1, 2, width=5.8, height=4.2)
    for column, setting in enumerate(SETTINGS):
        rows = chosen(table, panel=f"N = {setting.agents}")
        for place, curve in enumerate(dict.fromkeys(rows["curve"])):
            draw_curve(
                axes[0, column], chosen(rows, curve=curve), label=curve, place=None if curve == ORIGINAL else place,
                reading=Reading.NON_PRIVATE,
            )  # fmt: skip
        finish(axes[0, column], f"N = {setting.agents}, eta = {setting.eta:g}", "iteration", LOSS)
    picture.suptitle(f"R-ADMM, Fig. 1: {data}, not private, C = {SETTINGS[0].loss_weight:g}", fontsize=11)
    return picture


def _largest_rise(course: Table) -> float:
    """Return by how much the loss rises at most from an odd iteration to the next, even one; 0 if it never does."""
    steps = course.diff()
    return max(0.0, float(steps[steps.index % 2 == 0].max()))


def findings(table: Table) -> tuple[Finding, ...]:
    """Oscillation, the effect of gamma, and the rate on odd iterations."""
    found = []
    for setting in SETTINGS:
        rows = chosen(table, panel=f"N = {setting.agents}")
        courses = {curve: means(chosen(rows, curve=curve)) for curve in dict.fromkeys(rows["curve"])}
        original = courses.pop(ORIGINAL)
        rises = {curve: _largest_rise(course) for curve, course in courses.items()}
        odd = {curve: float(course[course.index % 2 == 1].iloc[-1]) for curve, course in courses.items()}
        early = {curve: float(course.iloc[len(course) // 5]) for curve, course in courses.items()}
        is_calmer = list(rises.values()) == sorted(rises.values(), reverse=True)
        is_slower = list(early.values()) == sorted(early.values())
        found.append(
            Finding(
                f"larger gamma oscillates less but converges more slowly (N = {setting.agents})",
                "largest rise of the loss in an even iteration, and loss after a fifth of the run: "
                + ", ".join(
                    f"{curve.removeprefix('R-ADMM, ')}: {rises[curve]:.1e}, {early[curve]:.4f}" for curve in rises
                ),
                Verdict.SAME if is_calmer and is_slower else Verdict.PARTLY,
            )
        )
        gap = max(abs(value - float(original.iloc[-1])) for value in odd.values())
        found.append(
            Finding(
                f"on odd iterations R-ADMM converges about as fast as ADMM (N = {setting.agents})",
                f"loss at the last odd iteration: {', '.join(f'{v:.4f}' for v in odd.values())}; ADMM "
                f"{original.iloc[-1]:.4f}"
                f" at the end (largest difference {gap:.1e})",
                Verdict.SAME if gap < 0.02 else Verdict.DIFFERENT,
            )
        )
    return tuple(found)


FIGURE = Figure(
    name="r-admm/fig1",
    title="R-ADMM, Fig. 1: convergence without noise",
    reports=(
        "With eta = 0.5 R-ADMM converges for N = 5 and N = 20; even iterations may raise the loss, odd ones make "
        "up for it; "
        "larger gamma means smaller oscillations and slower convergence."
    ),
    setting={**asdict(SETTINGS[0]), "agents": (5, 20), "gamma": GAMMAS},
    choices=("The values of gamma are not readable: 0.5, 2 and 8.", *CHOICES),
    parts=tuple(
        Part(f"r-admm/fig1/n{setting.agents}", partial(compute, setting), seconds=10.0, needs_adult=True)
        for setting in SETTINGS
    ),
    draw=draw,
    findings=findings,
)
