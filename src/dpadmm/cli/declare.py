"""Options of commands, made from the fields of `dpadmm.settings`."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from functools import wraps
from typing import Annotated, Any, TypeAlias

import typer

from dpadmm.errors import InputError
from dpadmm.settings import RECORDS, FitSettings, SettingsRecord, by_name, types_of

Command: TypeAlias = Callable[..., None]


def takes(**records: type[SettingsRecord] | tuple[type[SettingsRecord], str]) -> Callable[[Command], Command]:
    """Give a command the options of these records; it takes each record as one value, by the name given here.

    A pair is a record and the names of the settings to offer, all of them if none is named; `-name` leaves one out.
    """

    def give(command: Command) -> Command:
        given = inspect.signature(command)
        wanted = {name: each if isinstance(each, tuple) else (each, "") for name, each in records.items()}
        made = {name: list(_options(kind, names.split())) for name, (kind, names) in wanted.items()}
        own = [each for each in given.parameters.values() if each.name not in records]

        @wraps(command)
        def with_options(**values: Any) -> None:
            values_by_record = {
                name: {each.name: values.pop(each.name) for each in listed} for name, listed in made.items()
            }
            built = {name: _build(wanted[name][0], each) for name, each in values_by_record.items()}
            command(**values, **built)

        listed = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
        listed += [option for options in made.values() for option in options]
        with_options.__signature__ = given.replace(parameters=listed)  # type: ignore[attr-defined]
        with_options.__annotations__ = {each.name: each.annotation for each in listed}
        return with_options

    return give


def _options(record: type[SettingsRecord], names: list[str]) -> Iterator[inspect.Parameter]:
    """Yield a parameter for every setting of a record, and of the records in it."""
    left_out = [name for name in names if name.startswith("-")]
    for each in fields(record):
        facts = each.metadata
        if f"-{each.name}" in left_out or (len(names) > len(left_out) and each.name not in names):
            continue
        if record is FitSettings and each.name in RECORDS:
            yield from _options(RECORDS[each.name], left_out)
        elif facts["on_command_line"]:
            kind: Any = facts["typed"] or types_of(record)[each.name]
            default = inspect.Parameter.empty if each.default is MISSING else each.default
            annotation: Any = Annotated[kind, option_of(record, each.name)]
            yield inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def option_of(record: type[SettingsRecord], name: str) -> Any:
    """Return the option of a setting, with its help."""
    facts = by_name(record)[name].metadata
    term = facts["option"] or "--" + name.replace("_", "-")
    panel = record.panel if facts["panel"] is None else facts["panel"] or None
    return typer.Option(term, help=facts["help"], rich_help_panel=panel, metavar=facts["metavar"])


def _build(record: type[SettingsRecord], values: dict[str, Any]) -> SettingsRecord:
    """Return the record that these options say."""
    own = {each.name for each in fields(record)}
    found = {name: value for name, value in values.items() if name in own}
    if "class_weight" in found:
        found["class_weight"] = weights_of(found["class_weight"])
    for name, kind in RECORDS.items() if record is FitSettings else ():
        parts = {each.name: values[each.name] for each in fields(kind) if each.name in values}
        found[name] = kind(**parts)
    return record(**found)


def weights_of(text: list[str] | None) -> dict[str, float] | None:
    """Return the classes' weights that `--class-weight` gives, None without any."""
    found: dict[str, float] = {}
    for term in text or ():
        name, _, number = term.rpartition("=")
        if name.strip() in found:
            raise InputError(f"--class-weight names {name.strip()!r} twice. Give each class one weight.")
        try:
            found[name.strip()] = float(number)
        except ValueError:
            raise InputError(f"--class-weight takes CLASS=NUMBER, such as late=2; got {term!r}.") from None
    return found or None
