"""`dpadmm account`: what a method costs at a given noise, certified and claimed side by side."""

import inspect
from typing import TYPE_CHECKING, Any

from dpadmm.cli.methods import (
    checked_delta,
    delta_option,
    json_option,
    method_app,
    parameter,
    schedule_option,
    shape_of,
)
from dpadmm.errors import InputError

if TYPE_CHECKING:
    from dpadmm.privacy.methods import Family, Method

_WORDS = "What a method costs at a given noise: the certified epsilon, and beside it what the method's paper claims."


def _level_option(family: "Family", is_only: bool, noised: str) -> inspect.Parameter:
    from dpadmm.privacy.methods import Family

    words = {
        Family.GAUSSIAN: (
            "noise_std",
            f"Standard deviation of the Gaussian noise on {noised}, first private round, > 0.",
        ),
        Family.LAPLACE: ("noise_rate", f"Rate of the noise exp(-rate ||v||) on {noised}, first private round, > 0."),
    }[family]
    if is_only:
        return parameter(words[0], float, words[1], rich_help_panel="Noise")
    return parameter(words[0], float | None, words[1], None, rich_help_panel="Noise")


def _options(method: type["Method"]) -> list[inspect.Parameter]:
    levels = [_level_option(family, len(method.families) == 1, method.noised) for family in method.families]
    return [*levels, schedule_option(), delta_option(method), json_option()]


def _level(method: "Method", noise_std: float | None, noise_rate: float | None) -> float:
    """Return the one level that belongs to the method's noise."""
    from dpadmm import checks
    from dpadmm.privacy.methods import Family

    wanted, other = (noise_std, noise_rate) if method.family is Family.GAUSSIAN else (noise_rate, noise_std)
    name, wrong = ("noise_std", "noise_rate") if method.family is Family.GAUSSIAN else ("noise_rate", "noise_std")
    if wanted is None or other is not None:
        asked, refused = (f"--{each.replace('_', '-')}" for each in (name, wrong))
        raise InputError(f"{method.family.value} noise is told by {asked}: give it, and not {refused}.")
    return checks.positive(name, wanted)


def _act(method: "Method", options: dict[str, Any]) -> None:
    from dpadmm.cli import figures, terminal

    delta = checked_delta(method, options["delta"])
    level = _level(method, options.get("noise_std"), options.get("noise_rate"))
    found = figures.figures(method, method.at_level(level, shape_of(method, options["schedule"])), delta)
    if options["json"]:
        terminal.print_json({"command": "account", **figures.as_json(found)})
    else:
        figures.print_figures(found)


app = method_app("Account", _WORDS, _options, _act)
