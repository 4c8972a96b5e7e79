"""The in-process engine: the one loop that runs any algorithm, all agents and replicas at once.

A run can be saved and continued later on the same trajectory.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpadmm import checks
from dpadmm.core.history import History, snapshot
from dpadmm.errors import InputError, ResumeError
from dpadmm.methods.anatomy import Agents, NoiseHook, Residuals, Silence, put, take
from dpadmm.methods.method import Method, check_fit
from dpadmm.networks.graph import Network
from dpadmm.parsing import parse_json, read_arrays
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem
from dpadmm.solvers.solution import DEFAULT_TOLERANCE
from dpadmm.solvers.threads import available_threads, one_blas_thread

if TYPE_CHECKING:
    from rich.console import Console


class Ending(Enum):
    """Why a run stopped."""

    ROUNDS = "all rounds done"
    RESIDUAL = "residuals below the threshold"
    INTERRUPTED = "interrupted"


class FinalModel(Enum):
    """Which model a run ends with."""

    LAST = "the last model"
    TAIL_AVERAGE = "the mean of the models of the last rounds"


@dataclass(frozen=True)
class Stopping:
    """Stop after `rounds`, or earlier once every replica's primal and dual residual is at most `residual`."""

    rounds: int
    residual: float | None = None

    def __post_init__(self) -> None:
        """Check both limits."""
        checks.count("rounds", self.rounds)
        if self.residual is not None:
            checks.positive("residual", self.residual)

    def is_reached(self, residuals: Residuals) -> bool:
        """Return whether the residuals allow stopping before all rounds are done."""
        if self.residual is None:
            return False
        return bool(residuals.primal.max() <= self.residual and residuals.dual.max() <= self.residual)


@dataclass(frozen=True)
class Recording:
    """Which rounds go into the history: every `every`-th and the last; 0 keeps none."""

    every: int = 1

    def __post_init__(self) -> None:
        """Refuse negative strides."""
        checks.count("every", self.every, least=0)

    def wants(self, k: int, is_last: bool) -> bool:
        """Return whether round k is to be recorded."""
        return self.every > 0 and (is_last or k % self.every == 0)


_FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """The whole state of a run after `round` rounds; the arrays of `state` in the order of its fields.

    tail: sum of the estimates of rounds `tail_from`.. up to `round` (zeros before).
    """

    round: int
    state: tuple[Floats, ...] = field(repr=False)
    inbox: Floats = field(repr=False)
    tail: Floats = field(repr=False)
    tail_from: int
    passport: str

    def save(self, path: Path) -> None:
        """Write the file atomically: a crash or a full disk leaves the older file as it was."""
        arrays: dict[str, Any] = {f"state_{i}": part for i, part in enumerate(self.state)}
        arrays["inbox"], arrays["tail"] = self.inbox, self.tail
        header = {"format": _FORMAT, "round": self.round, "tail_from": self.tail_from, "passport": self.passport}
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(scratch, path)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: Path, passport: str) -> "Checkpoint":
        """Read a file written by `save` for the same run; anything else is refused by name."""
        try:
            content = path.read_bytes()
            file = read_arrays(content, most=len(content))
            header = parse_json(file["header"].tobytes())
            state = tuple(file[f"state_{i}"] for i in range(sum(name.startswith("state_") for name in file)))
            inbox, tail = file["inbox"], file["tail"]
            version, owner = header["format"], header["passport"]
            if version == _FORMAT:
                done, tail_from = int(header["round"]), int(header["tail_from"])
        except FileNotFoundError as problem:
            raise ResumeError(f"There is no checkpoint at {path}.") from problem
        except (OSError, ValueError, TypeError, KeyError) as problem:
            raise ResumeError(f"{path} is not a usable checkpoint ({problem}). Start the run again.") from problem
        if version != _FORMAT:
            raise ResumeError(f"{path} has checkpoint format {version}; this version reads {_FORMAT}.")
        if owner != passport:
            raise ResumeError(
                f"{path} belongs to another run (algorithm, problem, network or replicas differ). "
                "Use the settings of the saved run, or another file."
            )
        return cls(done, state, inbox, tail, tail_from, passport)


@dataclass(frozen=True)
class Run:
    """The outcome: models (N, d, R), the estimate (d, R), the history, and why it stopped after `rounds`.

    `tail_average` is the mean of the estimates over the last rounds (`tail_from` of the method): free
    post-processing of what was broadcast, and far less noisy in a private run.
    """

    models: Floats = field(repr=False)
    estimate: Floats = field(repr=False)
    tail_average: Floats = field(repr=False)
    rounds: int
    ending: Ending
    history: History = field(repr=False)
    checkpoint: Checkpoint = field(repr=False)

    def model(self, which: FinalModel) -> Floats:
        """Return the models (d, R) that the run ends with."""
        return self.tail_average if which is FinalModel.TAIL_AVERAGE else self.estimate


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C arrived; `.run` holds everything up to the last finished round."""

    def __init__(self, run: Run) -> None:
        super().__init__(f"interrupted after {run.rounds} finished rounds; nothing computed so far is lost")
        self.run = run


@dataclass(frozen=True)
class LocalEngine:
    """Runs algorithms in this process.

    Parameters
    ----------
    replicas: independent noise runs that share every pass over the data, >= 1.
    tolerance: gradient norm to which every local subproblem is solved.
    threads: over agents, and over the rows of agents with many; the default is the number of cores. The result does
        not depend on it.
    recording: which rounds enter the history.
    progress: show a bar on a terminal.
    is_release: the run will be released, so that even whether a solve fails must not depend on the records.

    >>> import numpy as np
    >>> from dpadmm.methods.consensus import ConsensusADMM
    >>> from dpadmm.problems.quadratics import QuadraticAgents
    >>> problem = Problem.of(QuadraticAgents(np.ones((3, 1, 1)), np.array([[1.0], [2.0], [6.0]])))
    >>> run = LocalEngine(progress=False).run(ConsensusADMM(rho=0.3), problem, Stopping(rounds=60))
    >>> run.estimate.round(6).tolist(), run.ending.value
    ([[-3.0]], 'all rounds done')
    """

    replicas: int = 1
    tolerance: float = DEFAULT_TOLERANCE
    threads: int | None = None
    recording: Recording = Recording()
    progress: bool = True
    is_release: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.count("replicas", self.replicas)
        checks.positive("tolerance", self.tolerance)
        if self.threads is not None:
            checks.count("threads", self.threads)

    def run(
        self,
        algorithm: Method,
        problem: Problem,
        stopping: Stopping,
        network: Network | None = None,
        noise: NoiseHook | None = None,
        resume: Path | str | Checkpoint | None = None,
        save_to: Path | str | None = None,
    ) -> Run:
        """Run until `stopping` says so; `resume` continues a saved run, `save_to` is written when the run ends.

        Raises `InputError` before anything is computed if the parts do not fit together, `SolverError` if a local
        subproblem misses its tolerance, and `RunInterrupted` (with the run so far) on Ctrl-C.
        """
        if not isinstance(stopping, Stopping):
            raise InputError(f"stopping must be a Stopping, got {stopping!r}; write Stopping(rounds=...).")
        check_fit(algorithm, problem, network)
        save_to = None if save_to is None else Path(save_to)
        if save_to is not None and (save_to.is_dir() or not save_to.parent.is_dir()):
            raise InputError(f"Cannot save to {save_to}: it is a folder, or its folder does not exist. Name a file.")
        noise = noise if noise is not None else Silence()
        if stopping.residual is not None and not isinstance(noise, Silence):
            raise InputError(
                "A run with noise must stop by rounds: residuals are computed from states without noise, so the "
                "stopping time would reveal something about the data. Leave residual out."
            )
        stamp = self._passport(algorithm, problem, network)  # of secret batches it knows that they are, no seed
        algorithm = algorithm.drawn()
        threads = self.threads if self.threads is not None else available_threads()
        with one_blas_thread():
            agents = Agents.of(problem, network, self.tolerance, threads, is_release=self.is_release)
            trip = _Trip(self, algorithm, problem, network, noise, agents, stamp, resume)
            try:
                trip.travel(stopping)
            except KeyboardInterrupt:
                run = trip.outcome(Ending.INTERRUPTED)
                if save_to is not None:
                    run.checkpoint.save(save_to)
                raise RunInterrupted(run) from None
        run = trip.outcome(trip.ending)
        if save_to is not None:
            run.checkpoint.save(save_to)
        return run

    def _passport(self, algorithm: Method, problem: Problem, network: Network | None) -> str:
        """Return a short fingerprint of what makes two runs the same run."""
        edges = None if network is None else network.edges.tobytes()
        shape = (problem.n_agents, problem.dimension, self.replicas)
        weights, constants = problem.weights.tobytes(), problem.functions.constants
        parts = (algorithm, shape, weights, problem.regulariser, constants, edges)
        return hashlib.sha256("\n".join(repr(part) for part in parts).encode()).hexdigest()[:32]


class _Trip:
    """One run under way: the loop's variables."""

    def __init__(
        self,
        engine: LocalEngine,
        algorithm: Method,
        problem: Problem,
        network: Network | None,
        noise: NoiseHook,
        agents: Agents,
        stamp: str,
        resume: Path | str | Checkpoint | None,
    ) -> None:
        self.engine, self.algorithm, self.problem, self.network = engine, algorithm, problem, network
        self.noise, self.agents, self.stamp = noise, agents, stamp
        self.history, self.ending, self.k = History(), Ending.ROUNDS, 0
        self.state, self.inbox = algorithm.start(agents, engine.replicas)
        self.tail, self.tail_from = np.zeros((agents.dimension, engine.replicas)), 1
        if resume is not None:
            self._restore(resume)

    def _restore(self, resume: Path | str | Checkpoint) -> None:
        saved = resume if isinstance(resume, Checkpoint) else Checkpoint.load(Path(resume), self.stamp)
        if saved.passport != self.stamp:
            raise ResumeError("The checkpoint belongs to another run; use the settings of the saved run.")
        fresh = (*self.state, self.inbox, self.tail)
        if [part.shape for part in fresh] != [part.shape for part in (*saved.state, saved.inbox, saved.tail)]:
            raise ResumeError("The checkpoint's arrays do not have the shapes of this run. Start the run again.")
        self.k, self.state, self.inbox = saved.round, type(self.state)(*saved.state), saved.inbox
        self.tail, self.tail_from = saved.tail.copy(), saved.tail_from

    def travel(self, stopping: Stopping) -> None:
        """Run rounds; the variables change only when a round is complete, so an interrupt loses one round at most."""
        title = type(self.algorithm).__name__
        self._aim_tail(self.algorithm.tail_from(stopping.rounds))
        with progress_bar(title, stopping.rounds, done=self.k, is_wanted=self.engine.progress) as tick:
            while self.k < stopping.rounds:
                state, inbox, residuals = self._round(self.k + 1)
                is_done = stopping.is_reached(residuals)
                is_last = is_done or self.k + 1 == stopping.rounds
                if self.engine.recording.wants(self.k + 1, is_last):
                    row = snapshot(self.k + 1, self.algorithm, self.problem, state, inbox, residuals)
                    self.history.snapshots.append(row)
                estimate = self.algorithm.estimate(state, inbox)
                tail = self.tail + estimate if self.k + 1 >= self.tail_from else self.tail
                self.k, self.state, self.inbox, self.tail = self.k + 1, state, inbox, tail
                tick()
                if is_done:
                    self.ending = Ending.RESIDUAL
                    return

    def _aim_tail(self, first: int) -> None:
        """Begin the tail average at round `first`, or where a resumed run is; what is summed since then is kept."""
        if first <= self.tail_from <= self.k:
            return
        self.tail = np.zeros_like(self.tail)
        self.tail_from = max(first, self.k + 1)

    def _round(self, k: int) -> tuple[Any, Floats, Residuals]:
        who = self.algorithm.participants(k)
        agents = self.agents.take(who)
        mine, messages = self.algorithm.local_step(k, agents, take(self.state, who), self.inbox, self.noise)
        inbox = self.algorithm.exchange(k, self.problem, self.network, self.inbox, messages, self.noise)
        mine = self.algorithm.update(k, agents, mine, inbox)
        state = put(self.state, who, mine)
        before, after = (self.state, self.inbox), (state, inbox)
        return state, inbox, self.algorithm.residuals(self.agents, before, after)

    def outcome(self, ending: Ending) -> Run:
        """Return what the run has reached."""
        estimate = self.algorithm.estimate(self.state, self.inbox)
        averaged = self.k + 1 - self.tail_from
        return Run(
            models=self.algorithm.models(self.state, self.inbox),
            estimate=estimate,
            tail_average=self.tail / averaged if averaged > 0 else estimate,
            rounds=self.k,
            ending=ending,
            history=self.history,
            checkpoint=Checkpoint(self.k, tuple(self.state), self.inbox, self.tail, self.tail_from, self.stamp),
        )


@contextmanager
def progress_bar(
    title: str, total: int, *, done: int = 0, is_wanted: bool = True, console: "Console | None" = None
) -> Iterator[Callable[[], None]]:
    """Yield a function that advances the bar; the bar goes to stderr and vanishes when the work ends."""
    if not is_wanted:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = console if console is not None else Console(stderr=True)
    if not console.is_terminal:  # a disabled bar of some versions of rich prints an empty line
        yield lambda: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total, completed=done)
        yield lambda: bar.advance(task)
