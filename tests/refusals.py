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

LONG = re.compile(r"\d+\.\d{4,}(e[-+]?\d+)?|0x[0-9a-f]+")  # rounding and addresses, which differ between machines
SNAPSHOTS = Path(__file__).parent / "snapshots" / "refusals"


def refusal_of(source: str, names: dict[str, Any]) -> str:
    """Return what is said about a call, nothing about another statement; fail where a call is not refused."""
    if not isinstance(ast.parse(source).body[0], ast.Expr):
        exec(source, names)
        return ""
    try:
        eval(source, names)
    except DpadmmError as error:
        about = " ".join(filter(None, (error.setting, error.code)))
        said = LONG.sub("*", str(error)).replace(f"{Path.cwd()}{os.sep}", "")
        return f"{type(error).__name__}{about and f'[{about}]'}: {said}"
    raise AssertionError("not refused")


def check_refusals(snapshot: Callable[[str, str], None], name: str, *names: Mapping[str, Any]) -> None:
    """Make every call of a table with these names at hand, of which later ones hide earlier ones."""
    lines: list[str] = []
    wrong: list[str] = []
    known = {key: value for each in names for key, value in each.items()}
    for part in DocTestParser().parse((SNAPSHOTS / f"{name}.txt").read_text(encoding="utf-8")):
        if not isinstance(part, str):
            source = part.source.rstrip("\n")
            lines.append(f">>> {source}".replace("\n", "\n... "))
            try:
                lines += refusal_of(source, known).splitlines()
            except Exception as error:  # noqa: BLE001 - shown with the others below
                wrong.append(f"{source}: {error!r}")
        remarks = (part if isinstance(part, str) else part.want).splitlines()
        lines += [line for line in remarks if line.startswith("#")]
    assert not wrong, "\n".join(wrong)
    snapshot(f"refusals/{name}.txt", "\n".join([*lines, ""]))
