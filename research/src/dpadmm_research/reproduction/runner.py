"""Runs figures: finished parts are kept, the others computed in parallel, each figure written when it is whole."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, connection, get_context, parent_process
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm_research.reproduction.figure import Figure, Order, Part
from dpadmm_research.reproduction.output import (
    Timing,
    check_folder,
    is_finished,
    load_part,
    part_path,
    save_part,
    write_figure,
    write_text,
)
from dpadmm_research.reproduction.registry import FIGURES
from dpadmm_research.reproduction.table import joined

_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Outcome:
    """What a call did: files written, parts computed now, parts found finished, processor and wall-clock seconds."""

    files: tuple[Path, ...]
    computed: int
    found: int
    processor_seconds: float
    wall_seconds: float

    def as_json(self, processes: int) -> str:
        """Return what it took, for the pages."""
        facts = {"processes": processes, "computed": self.computed, "found": self.found}
        return json.dumps(
            {**facts, "wall_seconds": self.wall_seconds, "processor_seconds": self.processor_seconds}, indent=2
        )


def named(names: Sequence[str]) -> tuple[Figure, ...]:
    """Return the figures with these names, all of a paper for the paper's; refuse unknown ones with those there are."""
    found = {name: [figure for figure in FIGURES.values() if name in (figure.name, figure.paper)] for name in names}
    unknown = [name for name, figures in found.items() if not figures]
    if unknown or not names:
        raise InputError(
            f"No figure is called {', '.join(unknown) or '(nothing)'}; the figures are {', '.join(FIGURES)}.",
            setting="figure",
        )
    return tuple({figure.name: figure for figures in found.values() for figure in figures}.values())


def reproduce(
    names: Sequence[str],
    order: Order,
    out: Path,
    *,
    processes: int = 2,
    console: Console | None = None,
) -> Outcome:
    """Compute, draw and write figures into `out`; parts that an earlier call has finished are not computed again."""
    figures = named(names)
    checks.count("processes", processes)
    check_folder(out, figures, order)
    begin = time.monotonic()
    parts = {part.name: part for figure in figures for part in figure.parts}
    owners = {part.name: figure.name for figure in figures for part in figure.parts}
    paths = {name: part_path(out, part, order) for name, part in parts.items()}
    missing = [part for name, part in parts.items() if not is_finished(paths[name])]
    files: list[Path] = []
    left, waiting = list(figures), {part.name for part in missing}

    def finish_whole_figures() -> None:
        for figure in [f for f in left if not any(part.name in waiting for part in f.parts)]:
            loaded = [load_part(paths[part.name]) for part in figure.parts]
            table = joined([table for table, _ in loaded])
            files.extend(write_figure(out, figure, order, table, [timing for _, timing in loaded]))
            left.remove(figure)

    finish_whole_figures()
    try:
        with _bar(missing, console) as tick:
            jobs = [(owners[part.name], part, paths[part.name]) for part in sorted(missing, key=lambda p: -p.seconds)]
            for part in _computed(jobs, order, processes):
                tick(part)
                waiting.discard(part.name)
                finish_whole_figures()
    except KeyboardInterrupt:
        for draft in (out / ".parts").glob(".*"):  # of workers that were stopped while they wrote
            draft.unlink(missing_ok=True)
        kept = len(parts) - len(waiting)
        raise KeyboardInterrupt(
            f"{kept} of {len(parts)} parts are kept in {out}; the same command continues from there."
        ) from None
    used = sum(load_part(path)[1].processor for path in paths.values())
    outcome = Outcome(tuple(files), len(missing), len(parts) - len(missing), used, time.monotonic() - begin)
    if len(figures) == len(FIGURES) and not outcome.found:
        write_text(out / "outcome.json", outcome.as_json(processes))
    elif outcome.computed:  # what the whole took is not known any more
        (out / "outcome.json").unlink(missing_ok=True)
    return outcome


def _computed(jobs: Sequence[tuple[str, Part, Path]], order: Order, processes: int) -> Iterator[Part]:
    """Yield each part when it is done; long ones start first."""
    if processes == 1 or len(jobs) < 2:
        for owner, part, path in jobs:
            compute_part(owner, part.name, order, path)
            yield part
        return
    context = get_context("spawn")
    with _one_thread_each(), ProcessPoolExecutor(processes, mp_context=context, initializer=end_with_parent) as pool:
        with _interrupts_wait():
            pending: dict[Future[None], Part] = {
                pool.submit(compute_part, owner, part.name, order, path): part for owner, part, path in jobs
            }
        try:
            while pending:
                done, _ = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
                    yield pending.pop(future)
        finally:
            for worker in active_children() if pending else []:  # nobody waits for what they are computing
                worker.terminate()


def compute_part(owner: str, name: str, order: Order, path: Path) -> None:
    """Compute one part of a figure and keep its numbers; runs in a process of its own."""
    part = next(part for part in FIGURES[owner].parts if part.name == name)
    processor, wall = time.process_time(), time.monotonic()
    table = part.compute(order)
    save_part(path, table, Timing(time.process_time() - processor, time.monotonic() - wall))


def end_with_parent() -> None:
    """Let this worker end when the process that started it does, even by a kill, and leave Ctrl-C to that process."""
    parent = parent_process()
    if parent is None:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="parent").start()


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Hold Ctrl-C back while workers are started: they inherit that, so that it never stops one in an import."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let each worker use one core: parts, not matrix products, are what runs in parallel."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _bar(parts: Sequence[Part], console: Console | None) -> Iterator[Callable[[Part], None]]:
    """Yield a function to call after each part; the bar counts expected seconds, so that the rest can be told."""
    console = console if console is not None else Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"{len(parts)} parts to compute", total=sum(part.seconds for part in parts))

        def tick(part: Part) -> None:
            bar.update(task, advance=part.seconds, description=f"done: {part.name}")

        yield tick
