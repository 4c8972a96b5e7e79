"""A plan: everything that is fixed before the data are touched, with its reasons; for this process or a federation."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpadmm import checks
from dpadmm.checks import plural
from dpadmm.core.budget import share_of
from dpadmm.core.spec import RunSpec, TrainingSpec
from dpadmm.errors import InputError
from dpadmm.federation.agreement import Agreement, CountedColumns, NoiseOrigin, Participant
from dpadmm.federation.terms import agreed_run
from dpadmm.methods.base import Method, Topology
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import Tail
from dpadmm.planner.candidates import STANDARD, Candidate, RowForm, Settings, unit_noise
from dpadmm.planner.forecast import Extent, Forecast, ScoreKind
from dpadmm.planner.task import Task, loss_kind, task_json
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import Unit, View
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import Logistic, Softmax, released_loss
from dpadmm.problems.problem import Problem
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.problems.silos import Silos
from dpadmm.problems.streams import SiloStream
from dpadmm.queries.column_profile import ColumnProfile
from dpadmm.queries.curvature import Curvature


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """A training's specification, with the task it serves, what to expect, and why.

    spec: what will be released, in order: a column profile perhaps, one run, the curvature perhaps.
    expected: what simulations on synthetic data show for the stated signal, or for three; simulated: how large these
    were. simulated_score: what plans are compared by, minus the log-loss in the worlds of simulations, or where there
    is none accuracy or R^2; no forecast for anybody's data. signal: norm of the models learned there,
    against which `noise_std` can be held. is_hopeless: for the stated or a moderate signal, a simulated model was
    hardly better than one that learned nothing. whole: the budget of everything together; the task's is that of one
    problem. form: how rows will be encoded, and were in simulations.
    reasons: why; the first is about the method, the last about how the settings were chosen.
    """

    spec: TrainingSpec
    task: Task
    whole: Target
    settings: Settings
    expected: Forecast
    simulated_score: float
    simulated: Extent
    form: RowForm = STANDARD
    signal: float
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_hopeless: bool = False

    @property
    def run(self) -> RunSpec:
        """The rounds of its method."""
        return self.spec.runs[0]

    @property
    def algorithm(self) -> Method:
        """The method with its numbers."""
        return self.run.method

    @property
    def n_models(self) -> int:
        """How many models are trained on the same rows: one, or one for each class."""
        return self.run.n_models

    @property
    def profile(self) -> ColumnProfile | None:
        """What is released before the first round; None for nothing."""
        return next((step for step in self.spec.sums if isinstance(step, ColumnProfile)), None)

    @property
    def curvature(self) -> Curvature | None:
        """What is released after the last, for intervals; None for nothing."""
        return next((step for step in self.spec.sums if isinstance(step, Curvature)), None)

    @property
    def lacks_intervals(self) -> bool:
        """Whether intervals were asked for and none are bought, since none could be told; the last warning says so."""
        return self.task.aim.wants_intervals and self.curvature is None

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.settings.method.about.name

    @property
    def reach(self) -> float | None:
        """The radius to which rows are shortened, in units of a usual row; None where their encoding is settled."""
        return self.form.reach

    @property
    def rounds(self) -> int:
        """Number of rounds K."""
        return self.run.setting.rounds

    @property
    def network(self) -> Network | None:
        """The graph that it runs on, None for a coordinator."""
        return self.run.setting.network

    @property
    def mu(self) -> float:
        """Weight of the ridge inside every silo's function: the user's, or the planner's own."""
        return self.settings.mu

    @cached_property
    def _levels(self) -> tuple[Floats, Floats]:
        """Sensitivity and noise per silo, means over the releases (a coordinator's noise counts for each)."""
        n = self.task.n_silos
        totals, counts = np.zeros((2, n)), np.zeros(n)
        for row in self.run.noise_plan(is_secure=False).releases.values():
            for agent, release in row.items():
                own = slice(None) if agent is None or agent < 0 else agent
                totals[0, own] += release.bound
                totals[1, own] += release.level
                counts[own] += 1
        return totals[0] / counts, totals[1] / counts

    @property
    def sensitivity(self) -> Floats:
        """How far one unit can move a message, per silo."""
        return self._levels[0]

    @property
    def noise_std(self) -> Floats:
        """Noise per coordinate of a message (spherical Laplace: scale), per silo."""
        return self._levels[1]

    def problem(self, silos: Silos | SiloStream) -> Problem:
        """Return the problem on these silos; refuse silos that are not the ones planned for."""
        return replace(self.run.setting.problem, functions=self.task.risk(silos, self.mu))

    def terms(
        self,
        run: str,
        participants: Sequence[Participant],
        coordinator: str,
        schema: str,
        *,
        class_weights: Sequence[float] = (),
        noise: NoiseOrigin = NoiseOrigin.SECURE,
        seed: int = 0,
    ) -> Agreement:
        """Return the plan as terms of a federation, for `write_federation` and the silos' owners to approve.

        run: a new name. participants: the silos planned for, in their order. coordinator: its public key. schema: the
        schema's digest. class_weights: what records of each class count; forecasts do not know. What is done about
        silos that do not answer can be chosen with `dataclasses.replace`.
        """
        task, settings, usual = self.task, vars(self.algorithm), self.settings.method.numbers()
        if tuple(participant.records for participant in participants) != task.sizes:
            raise InputError(
                f"The plan is for silos of {task.sizes} records, but the participants have other sizes. Plan again."
            )
        if self.n_models != 1 or task.protection.unit is not Unit.RECORD:
            raise InputError(
                "A federation trains one model and protects records, not persons with several rows. Plan for two "
                "classes, or softmax, with unit 'record'."
            )
        if task.aim.wants_intervals:
            raise InputError("Silos of a federation release no curvature, so no intervals (C14). Plan to predict.")
        if task.profile.has_earlier:
            raise InputError("A federation releases its own column profile. Plan without an earlier one.")
        penalty = self.run.setting.problem.regulariser
        if type(penalty) is not ElasticNet:  # a subclass may be another function
            raise InputError(f"Terms cannot describe the penalty {penalty}; they can describe l1 and ridge weights.")
        is_masked, counted = self.spec.facts.shares is not None, self.profile
        protection = task.protection if is_masked else replace(task.protection, view=View.EAVESDROPPER, colluders=None)
        agreement = Agreement(
            run=run,
            method=self.method,
            settings=tuple((name, x) for name, x in settings.items() if x != usual.get(name, x)),
            rounds=self.rounds,
            epsilon=self.whole.epsilon,
            delta=self.run.target.delta if isinstance(self.run.target, Target) else 0.0,
            participants=tuple(participants),
            coordinator=coordinator,
            schema=schema,
            dimension=task.n_classes * task.dimension,
            protection=protection,
            class_weights=tuple(class_weights),
            edges=() if self.network is None else tuple((int(i), int(j)) for i, j in self.network.edges),
            row_norm=task.row_norm,
            loss=released_loss(task.loss),
            mu=self.mu,
            penalty=penalty,
            tolerance=self.run.setting.tolerance,
            tail_power=self.run.schedule.power if isinstance(self.run.schedule, Tail) else 0.0,
            noise=noise,
            seed=seed,
            reach=0.0 if self.reach is None else self.reach,
            profile=None
            if counted is None
            else CountedColumns(
                share=share_of(counted.target, self.whole),
                n_numeric=counted.n_numeric,
                n_categorical=counted.n_categorical,
                size=counted.size,
            ),
        )
        agreed = agreed_run(agreement).run
        if agreed.method != self.algorithm:
            raise InputError(f"The terms of a federation cannot express {self.algorithm}. Choose another method.")
        if not math.isclose(agreed.target.epsilon, self.run.target.epsilon, rel_tol=1e-8):
            raise InputError(
                "The terms of a federation split the budget in squares (C0), but this plan does not. Plan without a "
                "column profile."
            )
        return agreement

    def describe(self) -> str:
        """Return what a reader needs of the plan, a fact a line, at most 80 columns wide; `as_json` has all of it."""
        task = self.task
        hidden = task.protection
        number = f"{plural(task.n_records, hidden.counted.removesuffix('s'))}{hidden.counting_note}"
        nominal = "" if hidden.relation.has_public_sizes else "nominally "
        each = "" if self.n_models == 1 else f" of each of {self.n_models} classes against the rest"
        facts = [
            ("Task", f"{loss_kind(task.loss)}{each} on {nominal}{number} in {plural(task.n_silos, 'silo')}"),
            ("Features", f"{task.dimension} after encoding"),
            ("Budget", f"epsilon {self.whole.epsilon:g}, delta {self.whole.delta:g}"),
            ("Protects", f"{hidden} from {hidden.observer}"),
            *(("Encoding", words) for words in self._encoding_words()),
            *(("Intervals", words) for words in self._interval_words()),
            ("Method", f"{self.method}, {plural(self.rounds, 'round')}"),
            *(
                ("" if k else "Why", words)
                for k, words in enumerate(dict.fromkeys(self.reasons[:1] + self.reasons[-1:]))
            ),
            ("Noise", self._noise_words()),
            *(("Expected" if k == 0 else "", words) for k, words in enumerate(self.expected.lines())),
            *(("Simulated", words) for words in [self.simulated.words(task, self.rounds)] if words),
            *(("Warning", warning) for warning in self.warnings),
        ]
        return "\n".join(_line(label, words) for label, words in facts)

    def _noise_words(self) -> str:
        """Say what is added to messages, and what it hides; of shares also what they add up to."""
        hidden, counted, moved = self.task.protection, self.noise_std.mean(), f"{self.sensitivity.mean():.3g}"
        change = hidden.relation.changing
        shares = self.spec.facts.shares
        if shares is None:
            alone = hidden.change_in_one_silo
            return f"{counted:.3g} on every number sent; {change} {alone} moves a message by at most {moved}"
        share = counted / math.sqrt(shares.honest)
        total = share * math.sqrt(shares.silos)
        return (
            f"{share:.3g} on every number a silo sends, {total:.3g} in the sum, of which {counted:.3g} counts (from "
            f"{plural(shares.honest, 'honest silo')}); {change} {hidden.change} moves the sum by at most {moved}"
        )

    def _encoding_words(self) -> list[str]:
        """Say how rows are encoded."""
        if self.reach is None:
            return []
        if self.profile is not None:
            return [f"by a column profile (noisy counts), released first for epsilon {self.profile.target.epsilon:.3g}"]
        if self.task.profile.has_earlier:
            return [f"by the column profile that run {self.task.profile.earlier_run!r} released, at no further cost"]
        return ["by public bounds and categories alone"]

    def _interval_words(self) -> list[str]:
        """Say what intervals cost; why there are none is a warning."""
        if self.curvature is None:
            return []
        cost = f"epsilon {self.curvature.target.epsilon:.3g}"
        return [f"for the coefficients, from the curvature of the loss, released last for {cost}"]

    def __str__(self) -> str:
        """As `describe`."""
        return self.describe()

    def as_json(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        shares = self.spec.facts.shares
        return {
            "task": task_json(self.task),
            "method": self.method,
            "algorithm": repr(self.algorithm),
            "rounds": self.rounds,
            "step": self.settings.step,
            "schedule": repr(self.run.schedule),
            "output": self.run.output.name.lower(),
            "edges": None if self.network is None else self.network.edges.tolist(),
            "mu": self.mu,
            "weights": "pooled",
            "whole_epsilon": self.whole.epsilon,
            "reach": self.reach,
            "profile_epsilon": None if self.profile is None else self.profile.target.epsilon,
            "curvature_epsilon": None if self.curvature is None else self.curvature.target.epsilon,
            "tolerance": self.run.setting.tolerance,
            "noise_std": self.noise_std.tolist(),
            "share_std": None if shares is None else (self.noise_std / math.sqrt(shares.honest)).tolist(),
            "sensitivity": self.sensitivity.tolist(),
            "signal": self.signal,
            "expected": self.expected.as_json(),
            "simulated": vars(self.simulated) | {"limits": self.simulated.words(self.task, self.rounds)},
            "reasons": list(self.reasons),
            "warnings": list(self.warnings),
            "is_hopeless": self.is_hopeless,
        }


def _line(label: str, words: str) -> str:
    """Return a fact under its label, wrapped."""
    indent = f"{label:<10}"
    return textwrap.fill(
        words,
        80,
        initial_indent=indent,
        subsequent_indent=" " * len(indent),
        break_long_words=False,
        break_on_hyphens=False,
    )


def reasons_of(chosen: Candidate, n_tried: int, share: float) -> tuple[str, ...]:
    """Return why these settings."""
    task, settings = chosen.task, chosen.settings
    tau = unit_noise(task, settings.method, settings.rounds)
    is_settled = settings.method is NoisyGradients and task.regulariser is None
    time = 1 / settings.mu if is_settled else settings.step * settings.rounds
    one = task.protection.counted.removesuffix("s")
    ridge = "it takes the place of stopping early" if is_settled else f"the weight of one {one} among all"
    chosen_so = (
        "the ridge is chosen so that noise shifts the score of a record by about {}: a larger ridge would learn less, "
        "a smaller one would let in more noise"
        if is_settled
        else "rounds and step sizes are chosen so that noise shifts the score of a record by about {}: a shorter run "
        "would learn less, a longer one would collect more noise"
    )
    said = []
    if share:
        said.append(f"a share of {share:.2g} of the squared budget pays for a column profile, to centre and scale rows")
    elif task.table is not None and task.profile.is_wanted and not task.profile.has_earlier:
        said.append("no column profile: its noise would hide too much to be worth the cost")
    if isinstance(task.loss, Logistic | Softmax) and task.loss.cap < 1:
        cap = f"{task.loss.cap:g} instead of 1"
        said.append(f"the pull of badly misclassified records is capped at {cap}, so that less noise is needed")
    return (
        chosen_so.format(f"{tau * time * task.row_norm:.2g}"),
        f"ridge {settings.mu:.3g}: " + ("as given" if task.regulariser is not None else ridge),
        *said,
        f"chosen among {checks.plural(n_tried, 'candidate')} by simulation on synthetic data; no private record was "
        "used",
    )


def warnings_of(task: Task, method: type[Method], is_hopeless: bool, expected: Forecast) -> tuple[str, ...]:
    """Return what to know before spending the budget."""
    found = []
    if task.network is not None and method.about.topology is not Topology.GRAPH:
        found.append(
            f"{method.about.name} runs through a coordinator, not over the given graph: no graph method is certified "
            "for this penalty, unit or view."
        )
    if is_hopeless:
        found.append(hopeless_words(task, expected))
    if task.target.delta * task.n_records > 1:
        found.append(large_delta_words(task.target.delta, task.n_records))
    if task.target.epsilon > 10:
        found.append(f"epsilon {task.target.epsilon:g} gives hardly any protection. Use it for comparisons only.")
    return tuple(found)


def hopeless_words(task: Task, expected: Forecast) -> str:
    """Say that nothing is to be expected, and what would help."""
    nominal = "" if task.protection.relation.has_public_sizes else "nominally "
    unit = (
        f"{task.n_silos} users"
        if task.protection.unit is Unit.USER
        else f"{nominal}{min(task.sizes)} {task.protection.counted} per silo"
    )
    judged, is_real = expected.judged, expected.score is ScoreKind.R2
    simplest, score = ("predicting the mean", "an R^2 of") if is_real else ("the majority class", "an AUC of")
    name = checks.setting("expected_r2" if is_real else "expected_auc")
    known = "" if judged.is_stated else f"; if your signal is stronger, state it with {name}"
    return (
        f"{unit} with {checks.plural(task.dimension, 'feature')} are too few for epsilon {task.target.epsilon:g}: "
        f"expect no better than {simplest}, if a model without privacy reaches {score} {judged.non_private:g}. Use "
        f"more records or silos, fewer features, or a larger epsilon{known}."
    )


def large_delta_words(delta: float, n_records: int) -> str:
    """Say what a delta above 1/n allows."""
    return (
        f"delta {delta:g} is above 1/n = {1 / n_records:.2g}: such a guarantee allows somebody's record to be "
        "published outright. Choose a delta well below 1/n."
    )
