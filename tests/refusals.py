"""Tables of refusals: tests/snapshots/refusals/*.txt, read as Python is typed, a call after `>>>`, what is said below.

New rows are calls alone; `--update-snapshots` adds the kind of error, its setting and code in brackets, and its
sentence, to be read in a diff. An assignment prepares the rows after it, and is not refused.
"""

import ast
import os
import re
from collections.abc import Callable, Mapping
from doctest import DocTestParser
from pathlib import Path
from typing import Any

from dpadmm.errors import DpadmmError

SHORTENED = (
    (re.compile(r"\d+\.\d{4,}(e[-+]?\d+)?|0x[0-9a-f]+"), "*"),  # rounding and addresses, which differ between machines
    (
        re.compile(r"(not valid \w+: )[A-Z][^(\n]*\([^)]*\)"),
        r"\1*",
    ),  # of Python's parsers, which differ in its versions
    (re.compile(r"(?:'?[\w-]+'?, ){12,}"), "..., "),  # long lists, such as of all methods
)
SNAPSHOTS = Path(__file__).parent / "snapshots" / "refusals"


def steady(text: str) -> str:
    """Return a text without what differs between machines and versions, and without long lists."""
    for found, shown in SHORTENED:
        text = found.sub(shown, text)
    return text.replace(f"{Path.cwd()}{os.sep}", "")


def said_of(source: str, names: dict[str, Any], *, may_pass: bool) -> str:
    """Return what is said about a call, nothing about another statement; fail where a call must not pass and does."""
    if not isinstance(ast.parse(source).body[0], ast.Expr):
        exec(source, names)
        return ""
    try:
        found = eval(source, names)
    except DpadmmError as error:
        about = " ".join(filter(None, (error.setting, error.code)))
        return f"{type(error).__name__}{about and f'[{about}]'}: {steady(str(error))}"
    if not may_pass:
        raise AssertionError("not refused")
    return str(found)


def check_refusals(snapshot: Callable[[str, str], None], name: str, *names: Mapping[str, Any]) -> None:
    """Make every call of a table with these names at hand, of which later ones hide earlier ones; all are refused."""
    check_rows(snapshot, name, *names, may_pass=False)


def check_rows(
    snapshot: Callable[[str, str], None], name: str, *names: Mapping[str, Any], may_pass: bool = True
) -> None:
    """Make every call of a table, and compare what is said or returned."""
    lines: list[str] = []
    wrong: list[str] = []
    known = {key: value for each in names for key, value in each.items()}
    for part in DocTestParser().parse((SNAPSHOTS / f"{name}.txt").read_text(encoding="utf-8")):
        if not isinstance(part, str):
            source = part.source.rstrip("\n")
            lines.append(f">>> {source}".replace("\n", "\n... "))
            try:
                lines += said_of(source, known, may_pass=may_pass).splitlines()
            except Exception as error:  # noqa: BLE001 - shown with the others below
                wrong.append(f"{source}: {error!r}")
        remarks = (part if isinstance(part, str) else part.want).splitlines()
        lines += [line for line in remarks if line.startswith("#")]
    assert not wrong, "\n".join(wrong)
    snapshot(f"refusals/{name}.txt", "\n".join([*lines, ""]))
