"""Errors of ours as one clear line on stderr (a list has a line each) and exit code 2; others keep their traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from dpadmm.errors import DpadmmError

EXIT_CODE = 2


@contextmanager
def clear_failures() -> Iterator[None]:
    """Turn a `DpadmmError` into its message and exit code 2; Ctrl-C says what it cost, if anything."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if stop.args:  # what was paid for and lost must be said; click itself only says that it stopped
            typer.echo(f"Interrupted: {stop}", err=True)
        raise
    except DpadmmError as error:
        first, *rest = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()] or [""]
        typer.echo("\n  - ".join([f"Error: {first}", *rest]), err=True)
        raise typer.Exit(EXIT_CODE) from error


@contextmanager
def clear_federation_failures() -> Iterator[None]:
    """As `clear_failures`; where the extra is not installed, say so before anything is read, made or asked."""
    with clear_failures():
        from dpadmm.engines.flower.keys import need_extra

        need_extra()
        yield
