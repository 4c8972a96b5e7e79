"""`dpadmm account`: what a method costs at a given noise, certified and claimed side by side."""

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpadmm.errors import InputError
from dpadmm_research.accounting.options import (
    checked_delta,
    delta_option,
    json_option,
    levels_of,
    method_app,
    parameter,
    schedule_option,
    shape_of,
)

if TYPE_CHECKING:
    from dpadmm.methods.base import Method
    from dpadmm_research.accounting.figures import Described
    from dpadmm_research.accounting.one_agent import OneAgent

_TEXTS = (
    "Show what a method costs at a given noise: the certified epsilon, next to what its paper claims.\n\n"
    "Example: dpadmm account p-admm --records 6331 --degree 2 --eta 1e-3 --mu 2e-4 --rounds 40 --noise-std 5 "
    "--delta 1e-5"
)
_PLOT = "Draw the rho spent against the rounds (dynamic zCDP), as .svg or .png."
_LEVELS = {
    "noise_std": "Standard deviation of the Gaussian noise on {noised}, first private round, > 0.",
    "noise_rate": "Rate of the noise exp(-rate ||v||) on {noised}, first private round, > 0.",
}


def _options(method: type["Method"]) -> list[inspect.Parameter]:
    names = levels_of(method)
    kind, default = (float, inspect.Parameter.empty) if len(names) == 1 else (float | None, None)
    texts = {name: _LEVELS[name].format(noised=method.about.noised) for name in names}
    levels = [parameter(name, kind, texts[name], default, rich_help_panel="Noise") for name in names]
    plot = parameter("plot", Path | None, _PLOT, None, rich_help_panel="Output")
    return [*levels, schedule_option(), delta_option(method), json_option(), plot]


def _level(agent: "OneAgent", reported: dict[str, float | None]) -> float:
    """Return the one level that belongs to the agent's noise."""
    from dpadmm import checks

    name, wrong = ("noise_rate", "noise_std") if agent.family.is_pure else ("noise_std", "noise_rate")
    level = reported.get(name)
    if level is None or reported.get(wrong) is not None:
        asked, refused = (f"--{each.replace('_', '-')}" for each in (name, wrong))
        noise = "laplace" if agent.family.is_pure else "gaussian"
        raise InputError(f"{noise} noise is set by {asked}. Give {asked}, not {refused}.")
    return checks.positive(name, level)


def _act(described: "Described", options: dict[str, Any]) -> None:
    from dpadmm.cli import terminal
    from dpadmm_research.accounting import figures

    agent = described.agent
    delta = checked_delta(agent, options["delta"])
    level = _level(agent, {name: options.get(name) for name in _LEVELS})
    found = figures.figures(described, agent.at_level(level, shape_of(agent, options["schedule"])), delta)
    if options["plot"] is not None:
        from dpadmm.report.figures import draw_privacy

        draw_privacy({found.described.name: found.dynamic_zcdp}, found.epsilon, delta, options["plot"])
    if options["json"]:
        terminal.print_json({"command": "account", **figures.as_json(found)})
    else:
        figures.print_figures(found)


app = method_app("Account", _TEXTS, _options, _act)
