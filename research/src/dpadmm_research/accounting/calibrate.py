"""`dpadmm calibrate`: the noise that spends a budget, by certificates or, when asked for, by a paper's own formula."""

import inspect
from typing import TYPE_CHECKING, Any

from dpadmm_research.accounting.options import (
    checked_delta,
    delta_option,
    json_option,
    method_app,
    parameter,
    schedule_option,
    shape_of,
)

if TYPE_CHECKING:
    from dpadmm.methods.base import Method
    from dpadmm.privacy.accounting import PureTarget, Target
    from dpadmm_research.accounting.figures import Described
    from dpadmm_research.accounting.one_agent import OneAgent

_TEXTS = (
    "Find the noise that spends a budget exactly, by certificates or (--claimed) by the formula of the method's paper."
    "\n\nExample: dpadmm calibrate p-admm --records 6331 --degree 2 --eta 1e-3 --mu 2e-4 --rounds 40 --epsilon 1 "
    "--delta 1e-5"
)
_CLAIMED = "Calibrate by the formula of the paper: the noise is then CLAIMED, not certified, to meet the budget."


def _options(method: type["Method"]) -> list[inspect.Parameter]:
    return [
        parameter("epsilon", float, "Privacy budget of this run, > 0.", rich_help_panel="Noise"),
        delta_option(method),
        schedule_option(),
        parameter("claimed", bool, _CLAIMED, False, rich_help_panel="Noise"),
        json_option(),
    ]


def _target(agent: "OneAgent", epsilon: float, delta: float) -> "Target | PureTarget":
    from dpadmm.privacy.accounting import PureTarget, Target

    usable = checked_delta(agent, delta)
    return Target(epsilon, usable) if usable > 0 else PureTarget(epsilon)


def _act(described: "Described", options: dict[str, Any]) -> None:
    from dpadmm.cli import terminal
    from dpadmm_research.accounting import figures

    agent = described.agent
    target = _target(agent, options["epsilon"], options["delta"])
    shape = shape_of(agent, options["schedule"])
    schedule = described.on_paper.noise(target, shape) if options["claimed"] else None
    levels = agent.calibrate(target, shape) if schedule is None else agent.levels(schedule.values)
    found = figures.figures(described, levels, options["delta"])
    label = None if schedule is None else figures.label_json(schedule)
    if options["json"]:
        budget = {"epsilon": options["epsilon"], "delta": options["delta"]}
        calibration = {"by": "certificates" if schedule is None else "CLAIM", "claim": label, "target": budget}
        terminal.print_json({"command": "calibrate", "calibration": calibration, **figures.as_json(found)})
        return
    if schedule is None:
        terminal.print_line(f"Calibrated by certificates to epsilon {options['epsilon']:.6g}.")
    else:
        terminal.print_warning(
            f"CLAIMED CALIBRATION {schedule.label}: this noise is NOT certified to give epsilon "
            f"{options['epsilon']:.6g}. Its certified epsilon is {figures.shown(found.epsilon)}."
        )
    figures.print_figures(found)


app = method_app("Calibrate", _TEXTS, _options, _act)
