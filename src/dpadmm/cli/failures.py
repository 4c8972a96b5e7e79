"""Errors of ours as one clear line on stderr and exit code 2; anything else keeps its traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from dpadmm.errors import DpadmmError

EXIT_CODE = 2


@contextmanager
def clear_failures() -> Iterator[None]:
    """Turn a `DpadmmError` into its message and exit code 2."""
    try:
        yield
    except DpadmmError as error:
        typer.echo(f"Error: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(EXIT_CODE) from error
