"""Errors of ours as one clear line on stderr (a list has a line each) and exit code 2; of others, the place."""

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from dpadmm.errors import DpadmmError, raise_alone, without_controls

EXIT_CODE = 2
FAULT = 1
"""Exit code: a fault of the program itself."""

DEBUG = "DPADMM_DEBUG"
"""Environment variable: show the text of such faults too, which may quote cells."""


@contextmanager
def clear_failures() -> Iterator[None]:
    """Turn a `DpadmmError` into its message and exit code 2; Ctrl-C says what it cost, if anything.

    Of any other error the place is shown and not the text: errors of other packages quote the cells they stumble over.
    """
    try:
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
    except Exception as fault:
        if os.environ.get(DEBUG):
            raise
        places = "".join(traceback.format_list(traceback.extract_tb(fault.__traceback__)))
        typer.echo(
            f"Traceback (most recent call last):\n{places}{type(fault).__name__}: a fault of the program. Its text is "
            f"not shown, since it may quote a cell; {DEBUG}=1 shows it to you.",
            err=True,
        )
        raise_alone(typer.Exit(FAULT))


@contextmanager
def clear_federation_failures() -> Iterator[None]:
    """As `clear_failures`; where the extra is not installed, say so before anything is read, made or asked."""
    with clear_failures():
        from dpadmm.engines.federation.keys import need_extra

        need_extra()
        yield
