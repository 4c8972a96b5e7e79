"""One sub-command per method, its options read off what the method says about itself (`public_facts`).

The methods are imported when a sub-command is asked for, so that `dpadmm --help` stays fast.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from dpadmm.cli.terminal import remember_options, report_failures
from dpadmm.errors import InputError

if TYPE_CHECKING:
    from dpadmm.methods.base import Method
    from dpadmm.problems.arrays import Floats
    from dpadmm_research.accounting.figures import Described
    from dpadmm_research.accounting.one_agent import OneAgent

Action = Callable[["Described", dict[str, Any]], None]
"""What a sub-command does with the agent its options describe and the options that are not the agent's."""

_LATE = ("tolerance", "records_per_person", "silos_per_person")
_TEXTS = {
    "eta": "penalty on an edge, in the first round where it grows; > 0",
    "rho": "penalty to the consensus model, > 0",
    "gamma": "step of the prox, > 0",
    "lam": "lam, relaxation of a step",
    "growth": "q >= 1; the penalty of round t = 1, 2, ... is eta q^t",
    "inner_steps": "S, inner steps of a round",
    "step": "first step size, > 0",
    "power": "the step decays as k^(-power)",
    "decay": "factor by which the step shrinks from round to round",
}
_SHOWN = {"lam": "relaxation", "growth": "penalty_growth"}
SCHEDULES = "constant, geometric:R (variance ratio R in (0, 1]), cao:BETA (BETA > 0) or optimal"


def parameter(
    name: str, kind: Any, texts: str, default: Any = inspect.Parameter.empty, **more: Any
) -> inspect.Parameter:
    """Return one option as a parameter of a typer command."""
    decls = (f"--{name.replace('_', '-')}",)
    annotation = Annotated[kind, typer.Option(*decls, help=texts, **more)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def settings_of(method: type["Method"]) -> dict[str, inspect.Parameter]:
    """Return a method's numbers and the facts it asks for as options: what must be given first, people last."""
    from dpadmm_research.accounting.facts import AgentFacts
    from dpadmm_research.accounting.public_facts import asked, numbers

    hints, texts = get_type_hints(AgentFacts), {each.name: each.metadata["help"] for each in fields(AgentFacts)}
    own, facts = numbers(method), asked(method)
    kinds = {name: _kind(method, name) for name in own} | {name: hints[name] for name in facts}
    found = {}
    for name, default in sorted((own | facts).items(), key=lambda item: (item[0] in _LATE, item[1] is not MISSING)):
        shown = _shown(method, name)
        kind = _without_none(kinds[name]) if default is MISSING else kinds[name]
        said = _TEXTS.get(name, f"{name} of the method") if name in own else texts[name]
        panel = "Assumptions" if name in _LATE else "Settings"
        start = inspect.Parameter.empty if default is MISSING else default
        found[name] = parameter(shown, kind, f"{said}.", start, rich_help_panel=panel)
    return found


def _shown(method: type["Method"], name: str) -> str:
    """Return a number's name on the command line; the fixed-point methods speak of users and their loss."""
    from dpadmm.privacy.protection import Unit

    is_user = Unit.USER in method.about.units
    texts = {"number": "users" if is_user else "agents"} | ({"gradient_bound": "lipschitz"} if is_user else {})
    return (_SHOWN | texts).get(name, name)


def _kind(method: type["Method"], name: str) -> Any:
    hint = get_type_hints(method)[name]
    return int if hint is int else float


def _without_none(kind: Any) -> Any:
    return next((each for each in getattr(kind, "__args__", (kind,)) if each is not type(None)), kind)


class MethodGroup(TyperGroup):
    """A group whose sub-commands are the methods; `extra` and `act` are given by `method_app`.

    Contexts and commands are of click's types, which older versions of typer import and newer ones contain: they are
    not named here.
    """

    extra: Callable[[type["Method"]], list[inspect.Parameter]]
    act: Action
    verb: str

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the methods in the order of the registry."""
        return list(_accountable())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Build the command of one method; None for a name that is none."""
        method = _accountable().get(cmd_name)
        if method is None:
            return None
        found = self._command(method)
        remember_options(found)
        return found

    def _command(self, method: type["Method"]) -> Any:
        act, own, about = type(self).act, settings_of(method), method.about

        def run(**values: Any) -> None:
            from dpadmm_research.accounting.figures import Described

            with report_failures():
                chosen = {name: values.pop(each.name) for name, each in own.items()}
                act(Described.by(method, {own[name].name: name for name in own}, chosen), values)

        parameters = [*own.values(), *type(self).extra(method)]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        app = typer.Typer(add_completion=False)
        app.command(about.name, help=f"{self.verb} {about.name}, {about.summary}: noise on {about.noised}.")(run)
        command = typer.main.get_command(app)
        command.name = about.name
        return command


def _accountable() -> dict[str, type["Method"]]:
    """Return the methods that numbers alone describe; the others take choices that no option can express."""
    from dpadmm.methods.base import by_name
    from dpadmm_research.accounting.public_facts import is_accountable

    return {name: method for name, method in by_name().items() if is_accountable(method)}


def method_app(
    verb: str, texts: str, extra: Callable[[type["Method"]], list[inspect.Parameter]], act: Action
) -> typer.Typer:
    """Return the typer app with one sub-command per method."""
    members = {"extra": staticmethod(extra), "act": staticmethod(act), "verb": verb}
    app = typer.Typer(cls=type("MethodGroup", (MethodGroup,), members), help=texts, no_args_is_help=True)
    app.callback(help=texts)(_nothing)  # without one typer takes it for a single command
    return app


def _nothing() -> None:
    """Do nothing before a sub-command."""


def levels_of(method: type["Method"]) -> tuple[str, ...]:
    """Return by which options the noise may be told: by its std, by its rate, or by either where it can be chosen."""
    from dpadmm_research.accounting.public_facts import asked

    if "noise" in asked(method):
        return ("noise_rate", "noise_std") if method.about.is_pure else ("noise_std", "noise_rate")
    return ("noise_rate",) if method.about.is_pure else ("noise_std",)


def delta_option(method: type["Method"]) -> inspect.Parameter:
    """Return --delta: required where only Gaussian noise is known, else 0 unless given."""
    texts = "Probability that the epsilon bound fails, in (0, 1)"
    if "noise_rate" in levels_of(method):
        return parameter(
            "delta", float, f"{texts}; 0 for pure epsilon (Laplace noise only).", 0.0, rich_help_panel="Noise"
        )
    return parameter("delta", float, f"{texts}.", rich_help_panel="Noise")


def schedule_option() -> inspect.Parameter:
    """Return --schedule."""
    return parameter("schedule", str, f"Noise over the rounds: {SCHEDULES}.", "constant", rich_help_panel="Noise")


def json_option() -> inspect.Parameter:
    """Return --json."""
    return parameter("json", bool, "Print one JSON object and nothing else.", False, rich_help_panel="Output")


def shape_of(agent: "OneAgent", text: str) -> "Floats":
    """Return the noise shape a schedule's text describes."""
    from dpadmm.noise.mechanisms import schedule_of

    if text == "optimal":
        return agent.optimal_shape()
    schedule = schedule_of(text)
    assert schedule is not None
    return schedule.shape(len(agent.private_rounds))


def checked_delta(agent: "OneAgent", delta: float) -> float:
    """Return delta if the agent's noise can have it: Gaussian noise never gives 0."""
    from dpadmm import checks

    if agent.family.is_pure and delta == 0:
        return 0.0
    if delta == 0:
        raise InputError("Gaussian noise cannot give pure epsilon. Give --delta greater than 0.")
    return checks.open_unit("delta", delta)


def plain(value: Any) -> Any:
    """Return a setting as a JSON value."""
    return value.value if isinstance(value, Enum) else value
