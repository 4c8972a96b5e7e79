"""What commands say: text as it is, one JSON object, errors as one clear line on stderr, and their exit codes."""

import json
import math
import os
import select
import shlex
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dpadmm.checks import as_parameter, use_option_names
from dpadmm.errors import DpadmmError, raise_alone, without_controls
from dpadmm.settings import TableFormat

if TYPE_CHECKING:
    from rich.text import Text

    from dpadmm.data.sources import AnyTables

EXIT_CODE = 2
"""Exit code: refused, with a message of ours."""

FAULT = 1
"""Exit code: a fault of the program itself."""

ELSEWHERE = 3
"""Exit code: the run is done and paid for, but the model could not be written where it should be."""

CLOSED = 141
"""Exit code: whoever read the output has stopped reading (`dpadmm ... | head`); as shells say it of other programs."""

DEBUG = "DPADMM_DEBUG"
"""Environment variable: show the text of such faults too, which may quote cells."""

_PYTHON = {"groups": "split_by", "persons": "person", "random_state": "seed", "out": "model"}
"""Parameters of Python that commands have under other names."""

_OPTIONS: dict[str, str] = {}
"""What the command that was asked for calls its parameters; both names of a switch."""

_OUTPUTS = (1, 2)  # file descriptors of standard output and standard error


@contextmanager
def report_failures() -> Iterator[None]:
    """Turn a `DpadmmError` into its message and exit code 2; Ctrl-C says what it cost, if anything.

    Where nobody reads the output any more, the command ends quietly: what it has written and paid for is there.
    Of any other error the place is shown and not the text: errors of other packages quote the cells they stumble over.
    """
    try:
        _find_place_for_kernels()
        with use_option_names(_as_option):
            yield
    except KeyboardInterrupt as stop:
        if stop.args:  # what was paid for and lost must be said; click itself only says that it stopped
            typer.echo(f"Interrupted: {stop}", err=True)
        raise
    except DpadmmError as error:
        first, *rest = [
            without_controls(" ".join(line.split())) for line in str(error).splitlines() if line.strip()
        ] or [""]
        typer.echo("\n  - ".join([f"Error: {first}", *rest]), err=True)
        raise typer.Exit(EXIT_CODE) from error
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # how rich ends
            raise_alone(typer.Exit(CLOSED))
        raise
    except Exception as fault:
        if isinstance(fault, BrokenPipeError) and _is_output_closed():
            raise_alone(typer.Exit(CLOSED))
        if os.environ.get(DEBUG):
            raise
        places = "".join(traceback.format_list(traceback.extract_tb(fault.__traceback__)))
        typer.echo(
            f"Traceback (most recent call last):\n{places}{type(fault).__name__}: a fault of the program. Its "
            f"message is hidden because it may quote a cell. Set {DEBUG}=1 to see it.",
            err=True,
        )
        raise_alone(typer.Exit(FAULT))


def remember_options(command: Any) -> None:
    """Let errors call settings as this command, or group of commands, does."""
    _OPTIONS.clear()
    for each in (command, *getattr(command, "commands", {}).values()):
        options = (param for param in each.params if param.param_type_name == "option")
        _OPTIONS.update({param.name: "/".join([param.opts[0], *param.secondary_opts[:1]]) for param in options})


def _as_option(name: str, *value: object) -> str:
    """Return how the command calls a setting; Python's word where it has no option for it."""
    option = _OPTIONS.get(name, _OPTIONS.get(_PYTHON.get(name, "")))
    if option is None:
        return as_parameter(name, *value)
    on, _, off = option.partition("/")
    if value and isinstance(value[0], bool):
        return on if value[0] else off or on
    return " ".join([on, *(shlex.quote(str(each)) for each in value)])


def _find_place_for_kernels() -> None:
    """Give numba a folder of this process alone where it would find none for compiled code, and refuse to load.

    So it is where the program was installed by root and is run by a service's user, who has no home.
    """
    package, home = Path(__file__).parents[1], os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    places = (package, next(each for each in (Path(home), *Path(home).parents) if each.exists()))
    if "NUMBA_CACHE_DIR" in os.environ or any(os.access(place, os.W_OK) for place in places):
        return
    import atexit
    import shutil
    import tempfile

    with suppress(OSError):  # then numba itself says that there is no place
        os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(prefix="dpadmm-kernels-")
        atexit.register(shutil.rmtree, os.environ["NUMBA_CACHE_DIR"], ignore_errors=True)


def _is_output_closed() -> bool:
    """Return whether the output has no reader, and then drop the rest of it: Python would complain of it at its end."""
    if not hasattr(select, "poll"):  # Windows, where no command writes to anything but its output
        return True
    watch = select.poll()
    for place in _OUTPUTS:
        watch.register(place, 0)
    closed = [place for place, event in watch.poll(0) if event & (select.POLLERR | select.POLLHUP)]
    for place in closed:
        os.dup2(os.open(os.devnull, os.O_WRONLY), place)
    return bool(closed)


def log_to_terminal() -> None:
    """Let a service log what it does to standard error, a line each with its time."""
    import logging

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", force=True)
    for name in ("httpx", "uvicorn.error", "asyncio"):  # they report every poll, and what strangers do
        logging.getLogger(name).setLevel(logging.CRITICAL if name == "asyncio" else logging.WARNING)


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON object."""
    typer.echo(json.dumps(document, indent=2, allow_nan=False))


def json_number(value: float) -> float | str:
    """Return a number as strict JSON knows it; an infinite one as text."""
    return value if math.isfinite(value) else "infinite"


def cell(value: object) -> "Text":
    """Return a cell of a table that shows the value as it is: no markup is read, nothing reaches the terminal."""
    from rich.text import Text

    return Text(without_controls(str(value)))


def print_line(text: str, style: str | None = None) -> None:
    """Print text as it is."""
    from rich.console import Console

    shown = "\n".join(without_controls(line) for line in text.split("\n"))
    Console(highlight=False).print(shown, soft_wrap=True, markup=False, style=style)


def print_warning(text: str) -> None:
    """Print one line that must not be overlooked."""
    print_line(text, style="bold red")


def print_notes(notes: Iterable[str]) -> None:
    """Tell the data holder what was done with awkward cells."""
    for number, note in enumerate(notes):
        if number == 0:
            typer.echo("Notes for the data holder, not for publication:", err=True)
        typer.echo(without_controls(f"  {note}"), err=True)


def print_reading(files: "Mapping[str, TableFormat]") -> None:
    """Tell the data holder how text files were read; other formats need no telling."""
    from dpadmm.data.reading import describe_format

    found = {where: describe_format(written) for where, written in files.items() if written.sep is not None}
    if len(set(found.values())) == 1:
        found = {", ".join(found): next(iter(found.values()))}
    for where, texts in found.items():
        typer.echo(without_controls(f"{where} read as: {texts}"), err=True)


def print_streaming(tables: "AnyTables") -> None:
    """Tell which tables stay in their files."""
    from dpadmm.data.sources import in_files

    for table in in_files(tables).values():
        is_again = table.workers.scratch is None
        how = "read in passes" if is_again else "encoded once, into a private file"
        texts = f"{table.where} is streamed: {table.rows:,} rows are {how}, never all in memory"
        typer.echo(without_controls(texts), err=True)


def warn_of_no_ledger() -> None:
    """Say what it means that there is no ledger."""
    typer.echo(
        "Warning: no ledger, so nothing records what is spent on these data.\n"
        "         Keep one with --ledger FILE --budget EPSILON.\n",
        err=True,
    )


def report_other_place(wanted: Path, place: Path) -> None:
    """Say that a model which is paid for lies elsewhere, and end."""
    lost = f"Error: {wanted} could not be written after the run, which is paid for."
    typer.echo(without_controls(f"{lost} The model is in {place}: copy it to a safe place now."), err=True)
    raise typer.Exit(ELSEWHERE)
