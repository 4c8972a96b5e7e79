"""A progress bar on a terminal, silence elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Ticker(Protocol):
    """Told once per finished round."""

    def __call__(self) -> None:
        """Advance by one round."""
        ...


@contextmanager
def progress_bar(
    title: str, total: int, *, done: int = 0, is_wanted: bool = True, console: Console | None = None
) -> Iterator[Ticker]:
    """Yield a function that advances the bar; the bar goes to stderr and vanishes when the work ends."""
    console = console if console is not None else Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    if not (is_wanted and console.is_terminal):  # a disabled bar of some versions of rich prints an empty line
        yield lambda: None
        return
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total, completed=done)
        yield lambda: bar.advance(task)
