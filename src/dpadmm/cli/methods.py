"""One sub-command per method of `dpadmm.privacy.methods`, its options read off the method's settings.

The methods are imported when a sub-command is asked for, so that `dpadmm --help` stays fast.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from dpadmm.cli.terminal import clear_failures
from dpadmm.errors import InputError

if TYPE_CHECKING:
    from dpadmm.privacy.methods import Levels, Method

Action = Callable[["Method", dict[str, Any]], None]
"""What a sub-command does with the method its options describe and the options that are not the method's."""

_LATE = ("tolerance", "records_per_person", "silos_per_person")
SCHEDULES = "constant, geometric:R (variance ratio R in (0, 1]), cao:BETA (BETA > 0) or optimal"


def parameter(
    name: str, kind: Any, words: str, default: Any = inspect.Parameter.empty, **more: Any
) -> inspect.Parameter:
    """Return one option as a parameter of a typer command."""
    decls = (f"--{name.replace('_', '-')}",)
    annotation = Annotated[kind, typer.Option(*decls, help=words, **more)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _of_field(each: Field[Any], kind: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if each.default is MISSING else each.default
    panel = "Assumptions" if each.name in _LATE else "Settings"
    return parameter(each.name, kind, f"{each.metadata['help']}.", default, rich_help_panel=panel)


def settings_of(method: type["Method"]) -> list[inspect.Parameter]:
    """Return the settings of a method as options: what must be given first, what is assumed of people last."""
    hints = get_type_hints(method)
    return [_of_field(each, hints[each.name]) for each in sorted(fields(method), key=_order)]


def _order(each: Field[Any]) -> tuple[bool, bool]:
    return each.name in _LATE, each.default is not MISSING


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
        from dpadmm.privacy.methods import METHODS

        return list(METHODS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Build the command of one method; None for a name that is none."""
        from dpadmm.privacy.methods import METHODS

        method = METHODS.get(cmd_name)
        return None if method is None else self._command(method)

    def _command(self, method: type["Method"]) -> Any:
        act, own = type(self).act, settings_of(method)

        def run(**values: Any) -> None:
            with clear_failures():
                chosen = {each.name: values.pop(each.name) for each in own}
                act(method(**chosen), values)

        parameters = [*own, *type(self).extra(method)]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        app = typer.Typer(add_completion=False)
        app.command(method.name, help=f"{self.verb} {method.title}: noise on {method.noised}.")(run)
        command = typer.main.get_command(app)
        command.name = method.name
        return command


def method_app(
    verb: str, words: str, extra: Callable[[type["Method"]], list[inspect.Parameter]], act: Action
) -> typer.Typer:
    """Return the typer app with one sub-command per method."""
    members = {"extra": staticmethod(extra), "act": staticmethod(act), "verb": verb}
    return typer.Typer(cls=type("MethodGroup", (MethodGroup,), members), help=words, no_args_is_help=True)


def delta_option(method: type["Method"]) -> inspect.Parameter:
    """Return --delta: required where only Gaussian noise is known, else 0 unless given."""
    from dpadmm.privacy.methods import Family

    words = "Delta of the guarantee, in (0, 1)"
    if Family.LAPLACE in method.families:
        return parameter(
            "delta", float, f"{words}; 0 for pure epsilon (Laplace noise only).", 0.0, rich_help_panel="Noise"
        )
    return parameter("delta", float, f"{words}.", rich_help_panel="Noise")


def schedule_option() -> inspect.Parameter:
    """Return --schedule."""
    return parameter("schedule", str, f"Course of the noise: {SCHEDULES}.", "constant", rich_help_panel="Noise")


def json_option() -> inspect.Parameter:
    """Return --json."""
    return parameter("json", bool, "Print one JSON object and nothing else.", False, rich_help_panel="Output")


def shape_of(method: "Method", text: str) -> "Levels":
    """Return the noise shape a schedule's text describes."""
    from dpadmm.noise.schedules import CaoOptimal, Constant, Geometric, Schedule

    name, _, value = text.partition(":")
    simple: dict[str, Callable[[], Schedule]] = {"constant": Constant}
    given: dict[str, Callable[[float], Schedule]] = {"geometric": Geometric, "cao": CaoOptimal}
    rounds = len(method.private_rounds())
    if text == "optimal":
        return method.optimal_shape()
    if name in simple and not value:
        return simple[name]().shape(rounds)
    if name in given and value:
        return given[name](_number(text, value)).shape(rounds)
    raise InputError(f"the schedule {text!r} is unknown; give {SCHEDULES}.")


def _number(text: str, value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise InputError(f"the schedule {text!r} needs a number after the colon; give {SCHEDULES}.") from error


def checked_delta(method: "Method", delta: float) -> float:
    """Return delta if the method's noise can have it: Gaussian noise never gives 0."""
    from dpadmm import checks
    from dpadmm.privacy.methods import Family

    if method.family is Family.LAPLACE and delta == 0:
        return 0.0
    if delta == 0:
        raise InputError("Gaussian noise gives no pure epsilon: give --delta greater than 0.")
    return checks.open_unit("delta", delta)


def plain(value: Any) -> Any:
    """Return a setting as a JSON value."""
    return value.value if isinstance(value, Enum) else value
