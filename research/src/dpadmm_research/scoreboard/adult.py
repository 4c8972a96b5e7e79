"""The scoreboard on Adult: training loss, test loss and test error of every method at equal certified epsilon."""

from functools import partial
from typing import Any

from dpadmm.privacy.protection import View
from dpadmm_research.reproduction.figure import Figure, Finding, Part, Verdict
from dpadmm_research.reproduction.style import COLOURS, MARKERS, canvas, finish, headline
from dpadmm_research.reproduction.table import Reading, Table, chosen, mean_at, means
from dpadmm_research.scoreboard.entries import ENTRIES, MOST_ROUNDS, VIEWS
from dpadmm_research.scoreboard.measured import BARE, compute, compute_reference
from dpadmm_research.scoreboard.method_run import PRICE, TUNING_RUNS
from dpadmm_research.scoreboard.planned import compute_planned, planned_name
from dpadmm_research.scoreboard.rows import DELTA, EPSILONS, PROFILE_SHARE, RUNS, SILOS, TRAIN
from dpadmm_research.scoreboard.standings import TIE, competitors, duels_text, standings

SECONDS_OF = {
    "p-admm": 35.0, "p-admm-recycled": 17.0, "dvp": 14.0, "m-admm": 13.0, "r-admm": 8.0, "dp-dgd": 20.0,
    "linearised-admm": 19.0, "ps-admm": 400.0, "dp-gd": 25.0, "dp-sgd": 88.0, "fp-federated": 38.0,
    "output-perturbation": 4.0, "consensus-gaussian": 111.0, "consensus": 39.0, "fp-coordinator": 67.0,
    "noisy-gradients": 17.0, "dp-gd (records pooled)": 19.0, "dp-sgd (records pooled)": 53.0,
}  # fmt: skip
"""Rough processor time of each method's part."""

# Every method has a colour and a marker of its own; with a trusted coordinator it keeps those it has without.
PALETTE = (*COLOURS, "#1B2A6B", "#66A61E", "#B2182B", "#00A6A6", "#E7298A", "#4D4D00")
SIGNS = (*MARKERS, ">", "h", "d", "p", "H", "8")
TRUSTING = {"fp-coordinator": "fp-federated", "dp-gd (records pooled)": "dp-gd", "dp-sgd (records pooled)": "dp-sgd"}
PLACES = {name: place for place, name in enumerate(e.name for e in ENTRIES if e.name not in TRUSTING)}
GROUPS = (
    (
        "ADMM, Gaussian noise",
        View.EAVESDROPPER,
        ("p-admm", "p-admm-recycled", "linearised-admm", "ps-admm", "fp-federated"),
    ),
    ("objective and output perturbation", View.EAVESDROPPER, ("dvp", "m-admm", "r-admm", "output-perturbation")),
    ("gradient methods", View.EAVESDROPPER, ("dp-dgd", "dp-gd", "dp-sgd")),
    ("ADMM", View.PUBLIC, ("consensus", "consensus-gaussian", "fp-coordinator")),
    ("gradient methods", View.PUBLIC, ("noisy-gradients", "dp-gd (records pooled)", "dp-sgd (records pooled)")),
)
"""Who shares a panel: title, view, methods."""
TRUST = {View.EAVESDROPPER: "trusting nobody", View.PUBLIC: "trusting the coordinator"}
LEAST_EXCESS, MOST_EXCESS = 2e-4, 0.5


def draw(table: Table, data: str) -> Any:
    """Training loss above the non-private one against eps: a panel per group of methods, and the best of each."""
    picture, axes = canvas(2, 3, width=5.0, height=4.4)
    bare = mean_at(table, metric=TRAIN, curve=BARE)
    losses = chosen(table, metric=TRAIN, reading=Reading.CERTIFIED)
    for place, (title, view, names) in enumerate(GROUPS):
        ax, last = axes.flat[place], axes.flat[-1]
        envelope = "ABCDE"[place]
        for order, name in enumerate(names):
            own = PLACES[TRUSTING.get(name, name)]
            _draw_excess(ax, means(chosen(losses, curve=name)) - bare, own, name, order)
        lowest = chosen(losses, curve=list(names)).groupby(["x", "curve"])["value"].mean().groupby("x").min() - bare
        _draw_excess(last, lowest, place, f"lowest of {envelope}", place)
        planned = means(chosen(losses, curve=planned_name(view))) - bare
        ax.plot(planned.index, planned.clip(lower=LEAST_EXCESS), color="black", label="_planned", zorder=5)
        _finish(ax, f"{envelope}. {title}, {TRUST[view]}")
    _finish(axes.flat[-1], "the lowest of each panel")
    headline(
        picture, "Scoreboard", data=f"{data}, {SILOS} silos", privacy=f"certified eps, delta = {DELTA:g}",
        shown=f"mean of the runs minus the non-private {bare:.4f}; {LEAST_EXCESS:g}: that or less; thin black line: "
        "dpadmm as planned, not tuned",
    )  # fmt: skip
    return picture


def _draw_excess(ax: Any, excess: Any, place: int, label: str, order: int) -> None:
    """Draw one curve; earlier ones are wider, so that they show under a later one that lies on them."""
    shown = excess.clip(lower=LEAST_EXCESS)  # a loss may also be below the non-private: see the choices
    ax.plot(
        shown.index, shown, color=PALETTE[place], marker=SIGNS[place], label=label, markersize=10 - 1.3 * order,
        linewidth=3.2 - 0.5 * order,
    )  # fmt: skip


def _finish(ax: Any, title: str) -> None:
    ax.set_xlim(0.8 * EPSILONS[0], 1.25 * EPSILONS[-1])
    ax.set_ylim(0.85 * LEAST_EXCESS, MOST_EXCESS)
    finish(ax, title, "certified eps", "training loss above the non-private", is_log_x=True, is_log_y=True,
           legend="lower left")  # fmt: skip


def findings(table: Table) -> tuple[Finding, ...]:
    """The best method for each view and budget, and how ADMM fares against gradient methods."""
    found = []
    bare = mean_at(table, metric=TRAIN, curve=BARE)
    for view in VIEWS:
        firsts = [(e, standings(table, view, TRAIN, e)) for e in sorted(set(competitors(table, view)["epsilon"]))]
        texts = [f"eps {epsilon:g}: {here[0].name} {here[0].mean:.4f}" for epsilon, here in firsts]
        lowest = "; ".join(texts) + f"; non-private {bare:.4f}"
        own = means(chosen(table, metric=TRAIN, curve=planned_name(view)))
        planned = "; ".join(f"eps {epsilon:g}: {loss:.4f}" for epsilon, loss in own.items())
        found += [
            Finding(f"(ours) dpadmm as planned, not tuned, {VIEWS[view].text}", planned, Verdict.NOT_COMPARABLE),
            Finding(f"(ours) lowest training loss, {VIEWS[view].text}", lowest, Verdict.NOT_COMPARABLE),
            Finding(
                f"(ours) ADMM against gradient methods, {VIEWS[view].text}", duels_text(table, view, TRAIN),
                Verdict.NOT_COMPARABLE,
            ),
        ]  # fmt: skip
    return tuple(found)


def _starts() -> str:
    """Return which methods begin their search where."""
    methods: dict[str, list[str]] = {}
    for entry in ENTRIES:
        methods.setdefault(entry.start_text, []).append(entry.name)
    return ". ".join(f"{', '.join(names)}: {start}" for start, names in methods.items())


FIGURE = Figure(
    name="scoreboard/adult",
    title="Scoreboard: Adult at equal certified epsilon",
    reports="Not in any paper: every method with noise by the certificates, at the same budget and unit, and what the "
    "planner makes of the same problem.",
    setting={
        "epsilons": EPSILONS, "delta": DELTA, "silos": SILOS, "runs": RUNS, "tuning_runs": TUNING_RUNS,
        "least_gain_of_twice_the_work": PRICE, "most_rounds": MOST_ROUNDS,
        "profile_share_of_least_budget": PROFILE_SHARE,
    },
    choices=(
        "Rows are encoded as the planner encodes them, alike for all methods: by a column profile (C11), noisy counts "
        "that every silo releases before the first round, with the planner's radius and constant. It is drawn once, "
        f"and costs {PROFILE_SHARE:g} of m^2 at eps {min(EPSILONS):g}, the same for all budgets; every certified eps "
        "here counts it. Non-private is the least training loss of any linear model of these rows, without a ridge.",
        "No model has a ridge, but for output-perturbation, which is not certified without one: its ridge is one of "
        "its numbers, searched like a step. It is not part of the loss that is shown.",
        "Settings are searched for each budget: first all combinations of a few values, then every number doubled and "
        "halved by itself from the best point, until neither gains. So nothing here is at the edge of a grid. The "
        f"criterion is the mean training loss over {TUNING_RUNS} noise runs of the last iterate or of the tail "
        f"average, whichever is lower; twice the rounds, or twice the batch, must gain {PRICE:g} to be chosen. The "
        f"method is then run {RUNS} times with other noise. The search looks at the data without noise and is not paid "
        "for: it shows what a method can reach. It may stop next to a better point that no single step reaches, and "
        "with so few runs it may be unlucky.",
        f"Where searches begin. {_starts()}.",
        "\"dpadmm as planned\" is the product: `PrivateLogisticRegression` with epsilon, delta, public bounds and "
        "categories and the view, nothing else. Nothing is tuned on the data. Each run buys a profile of its own "
        "within the same epsilon, where the planner finds it worth its price. The planner may also hold the pull of a "
        "record below 1, vary the noise over the rounds, average more of them and add a small ridge, which the other "
        "rows do not: it can be ahead of them all, and of the non-private model, which is bound to the other profile.",
        "The numbers of a method that are not named are fixed: ten inner steps of ps-admm, about as long as is "
        "certified, growth of penalties, rho of linearised-admm. Noise is constant over the rounds. ps-admm's rounds "
        "are expensive, so at most 64 are tried; the smaller its rho the better here, down to zero.",
        "Methods that are certified for an eavesdropper compete in the public view too: what is released is made of "
        "the messages. \"Records pooled\" takes a coordinator who is trusted with the records; one who adds the same "
        "noise to the sum of the silos' noise-free gradients would do as well.",
        f"70 % of Adult dealt at random to {SILOS} equal silos; unit: record.",
        "DVP, M-ADMM, R-ADMM and consensus with Laplace noise are pure by themselves; the profile has its delta. The "
        "first three are certified up to solver error, Laplace noise, sampled batches, linearised ADMM and DP-DGD up "
        "to floating point.",
        "fp-centralised is left out: its certificate (C5) and its iterates are those of fp-federated.",
        f"Ties between ADMM and gradient methods: differences below {TIE:g} standard errors.",
    ),
    parts=(
        *(
            Part(f"scoreboard/adult/{number}", partial(compute, number), seconds=SECONDS_OF[entry.name],
                 needs_adult=True)
            for number, entry in enumerate(ENTRIES)
        ),
        *(
            Part(f"scoreboard/adult/planned/{VIEWS[view].name}", partial(compute_planned, view), seconds=100.0,
                 needs_adult=True)
            for view in VIEWS
        ),
        Part("scoreboard/adult/reference", compute_reference, seconds=3.0, needs_adult=True),
    ),
    draw=draw,
    findings=findings,
)  # fmt: skip
