"""Cold starts: processor time of a fresh interpreter until it is ready, beside that of what it cannot do without.

The median of several processes counts, with the least and the most in brackets; ours and the reference take turns.
"""

import os
import statistics
import subprocess
import sys

from table import Row

REPETITIONS = 7
_BASE = "import sklearn.base"
_SCRIPT = """
import sys, typer
app = typer.Typer(pretty_exceptions_enable=False)
app.command("one")(lambda: None)
app.command("two")(lambda: None)
sys.argv = ["script", "--help"]
app()
"""
_HELP = "import sys; from dpadmm.cli.main import app; sys.argv = ['dpadmm', '--help']; app()"


def rows() -> list[Row]:
    """Return the measurements: seconds of processor time, and how they compare with the reference."""
    return [
        _row("import dpadmm", "import dpadmm", "an empty program", "pass"),
        _row("import dpadmm.estimators", "import dpadmm.estimators", _BASE, _BASE),
        _row("dpadmm --help", _HELP, "--help of a typer script with two commands", _SCRIPT),
    ]


def _row(name: str, ours: str, reference: str, theirs: str) -> Row:
    for program in (ours, theirs):
        _processor_seconds(program)  # writes the bytecode, fills the file cache
    spent = [(_processor_seconds(ours), _processor_seconds(theirs)) for _ in range(REPETITIONS)]
    mine, base = zip(*spent, strict=True)
    value, other = statistics.median(mine), statistics.median(base)
    return Row(
        f"cold start: {name}", value, f"s of CPU ({min(mine):.2f}-{max(mine):.2f})", reference, other, other / value
    )


def _processor_seconds(program: str) -> float:
    """Return the user and system time of a fresh interpreter that runs the program."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"The program ended with {child.returncode}: {program}")
    return usage.ru_utime + usage.ru_stime
