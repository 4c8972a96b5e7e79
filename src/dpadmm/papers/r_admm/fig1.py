"""Fig. 1: convergence of non-private R-ADMM for several gamma, eta = 0.5, N = 5 and N = 20."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from dpadmm.algorithms.decentralised import DecentralisedADMM
from dpadmm.algorithms.r_admm import BareRADMM
from dpadmm.papers.r_admm.setting import CHOICES, RecycledSetting
from dpadmm.papers.race.adult import adult
from dpadmm.papers.race.race import LOSS
from dpadmm.papers.reproduction.figure import Figure, Finding, Order, Part, Verdict
from dpadmm.papers.reproduction.style import canvas, draw_curve, finish
from dpadmm.papers.reproduction.table import Reading, Rows, Table, chosen, means
from dpadmm.papers.reproduction.trials import Trial, run_trials

SETTINGS = (
    RecycledSetting(agents=5, eta=0.5, gamma=0.0, runs=1),
    RecycledSetting(agents=20, eta=0.5, gamma=0.0, runs=1, mean_degree=4.0),
)
GAMMAS = (0.5, 2.0, 8.0)
ORIGINAL = "original ADMM"
CLOSE = 0.02
"""Losses that differ by less count as about the same."""


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
        finish(axes[0, column], f"N = {setting.agents}, eta = {setting.eta:g}", "iteration", LOSS, legend="above")
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
        found += [_effect_of_gamma(courses, setting.agents), _rate(courses, original, setting.agents)]
    return tuple(found)


def _effect_of_gamma(courses: Mapping[str, Table], agents: int) -> Finding:
    """The curves come with increasing gamma: rises should fall, and the loss early in the run should grow."""
    rises = [_largest_rise(course) for course in courses.values()]
    early = [float(course.iloc[len(course) // 5]) for course in courses.values()]
    is_calmer = rises == sorted(rises, reverse=True) and rises[0] > rises[-1]
    is_slower = early == sorted(early) and early[0] < early[-1]
    names = [curve.removeprefix("R-ADMM, ") for curve in courses]
    return Finding(
        f"larger gamma oscillates less but converges more slowly (N = {agents})",
        "largest rise of the loss in an even iteration, and loss after a fifth of the run: "
        + ", ".join(f"{n}: {rise:.1e}, {loss:.4f}" for n, rise, loss in zip(names, rises, early, strict=True)),
        (Verdict.DIFFERENT, Verdict.PARTLY, Verdict.SAME)[is_calmer + is_slower],
        "" if max(rises) > 0 else "no even iteration raises the loss here, so that there is nothing to calm",
    )


def _rate(courses: Mapping[str, Table], original: Table, agents: int) -> Finding:
    odd = [float(course[course.index % 2 == 1].iloc[-1]) for course in courses.values()]
    end = float(original.iloc[-1])
    gap = max(abs(value - end) for value in odd)
    return Finding(
        f"on odd iterations R-ADMM converges about as fast as ADMM (N = {agents})",
        f"loss at the last odd iteration: {', '.join(f'{value:.4f}' for value in odd)}; ADMM {end:.4f} at the end "
        f"(largest difference {gap:.1e})",
        Verdict.SAME if gap < CLOSE else Verdict.DIFFERENT,
        f"about as fast: within {CLOSE:g}",
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
    parts=tuple(
        Part(f"r-admm/fig1/n{setting.agents}", partial(compute, setting), seconds=10.0, needs_adult=True)
        for setting in SETTINGS
    ),
    draw=draw,
    findings=findings,
)
