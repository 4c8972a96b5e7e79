"""Attack the estimators as black boxes: real fits with secure noise, told apart by their public outputs alone.

The attacker calls `fit` on two neighbouring data sets, many times each, and reads nothing but `coef_`, `history_` and
`plan_`, as anybody may. The rows have one feature, so that the norms and distances of `history_` give every released
message away up to one sign, and `coef_` that sign: what is attacked is all that the certified figure is about.
Nothing of the noise can be shared between the worlds, so bounds need more runs than those of simulated attacks.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpadmm import TrainingOptions, checks
from dpadmm.core.release import PublicRound
from dpadmm.errors import InputError
from dpadmm.estimators.notices import NoLedgerWarning
from dpadmm.estimators.regression import PrivateLinearRegression
from dpadmm.noise.mechanisms import COORDINATOR
from dpadmm.noise.plan import NoisePlan
from dpadmm.planner.planner import Plan
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import View
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.problem import Problem
from dpadmm.problems.silos import Silos
from dpadmm.testing import LocalEngine, Recording, Stopping
from dpadmm_research.audit.attacks import Scores
from dpadmm_research.audit.audit import STANDARD, AuditResult, Case, judged
from dpadmm_research.audit.estimates import How, checked_confidence
from dpadmm_research.audit.findings import Check, CheckOutcome
from dpadmm_research.audit.likelihood import Lens, log_likelihood_ratio
from dpadmm_research.audit.noise_checks import check_noise
from dpadmm_research.audit.transcripts import Event, Prompter, RunSetup, Transcript, replay

DEFAULT_FITS = 1000
"""Fits attacked, half of them in each world."""

FEWEST_FITS = 40
RECORDS = 60
_FIRST = 40  # of them are in the first of two silos
THRESHOLD = 1e-3
"""Where the Huber loss turns linear. Noise has its scale, so no model comes near the targets: all pulls stay full."""

_SURPRISING = 1e-6  # rounding stays far below

TITLE = "likelihood ratio of coef_ and history_"


@dataclass(frozen=True)
class Product:
    """An estimator on data of so many silos. name: as shown. method: its parameter."""

    name: str
    silos: int
    method: str

    def estimator(self, target: Target) -> PrivateLinearRegression:
        """Return a fresh one, with secure noise."""
        return PrivateLinearRegression(
            epsilon=target.epsilon,
            delta=target.delta,
            method=self.method,
            feature_bounds=(-1, 1),
            target_bounds=(-1, 1),
            huber_threshold=THRESHOLD,
            training=TrainingOptions(row_norm=1.0, fit_intercept=False),
        )

    @property
    def groups(self) -> Ints:
        """The silo of each record; the first of two has more of them."""
        return np.minimum(np.arange(RECORDS) // _FIRST, self.silos - 1)

    def table(self, sign: float) -> tuple[Floats, Floats]:
        """Return one record that pulls to `sign`, in the last silo, among silent ones."""
        rows, targets = np.zeros((RECORDS, 1)), np.zeros(RECORDS)
        rows[-1], targets[-1] = 1.0, sign
        return rows, targets


PRODUCTS = (
    Product("PrivateLinearRegression, one silo", 1, "auto"),
    Product("PrivateLinearRegression, p-admm between two silos", 2, "p-admm"),
)
PAIR = "one record, pulled to opposite sides (saturated Huber), n = 60"


class ProductFindings(NamedTuple):
    """What the attack on a product found, and what the checks of its noise did."""

    result: AuditResult
    findings: tuple[CheckOutcome, ...]


class Fits(NamedTuple):
    """What is public of many fits: the plan, its noise, and the released messages (events) of every world.

    surprise: how far models are from what the messages make, relative to their size.
    """

    plan: Plan
    noise: NoisePlan
    worlds: tuple[Problem, Problem]
    runs: tuple[Transcript, Transcript]
    surprise: float


def audit_products(
    target: Target = STANDARD,
    fits: int = DEFAULT_FITS,
    confidence: float = 0.95,
    tick: Callable[[], None] = lambda: None,
) -> Iterator[ProductFindings]:
    """Attack every product; all bounds hold together with the stated confidence. `tick` is called after every fit."""
    each = 1 - (1 - checked_confidence(confidence)) / len(PRODUCTS)
    for product in PRODUCTS:
        yield audit_product(product, target, fits, each, tick)


def audit_product(
    product: Product,
    target: Target = STANDARD,
    fits: int = DEFAULT_FITS,
    confidence: float = 0.95,
    tick: Callable[[], None] = lambda: None,
) -> ProductFindings:
    """Fit so often, half in each world, and bound from below the epsilon of what came out.

    The noise of every message is checked as well: it is what was released, less what the data would have sent.
    """
    checked_confidence(confidence)
    begin = time.perf_counter()
    found = gather_fits(product, target, fits, tick)
    scores = likelihood_scores(found)
    case = Case(
        method=product.name,
        pair=PAIR,
        view=View.EAVESDROPPER,
        attack=TITLE,
        curve=found.noise.account().curve,
        delta=target.delta,
        how=How.GDP,
        runs=2 * len(scores.p),
        seconds=time.perf_counter() - begin,
        is_paired=False,
    )
    checked = check_noise(_noise_of(found), found.noise, product.name, PAIR)
    made = CheckOutcome(Check.MODEL, product.name, PAIR, found.surprise, "coef_", found.surprise > _SURPRISING)
    return ProductFindings(judged(case, scores, confidence), (*checked, made))


def gather_fits(product: Product, target: Target, fits: int, tick: Callable[[], None] = lambda: None) -> Fits:
    """Fit in both worlds and read the released messages off what is public."""
    number = checks.count("fits", fits, least=FEWEST_FITS) // 2
    fitted: list[list[Any]] = [[], []]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoLedgerWarning)
        for _ in range(number):
            for world, sign in enumerate((1.0, -1.0)):
                fitted[world].append(product.estimator(target).fit(*product.table(sign), product.groups))
                tick()
    plan = fitted[0][0].plan_
    noise = plan.spec.noise_plan()
    worlds = tuple(_problem(product, plan, sign) for sign in (1.0, -1.0))
    runs = [_transcript(plan, noise, worlds[0], models) for models in fitted]
    surprise = max(far for _, far in runs)
    return Fits(plan, noise, (worlds[0], worlds[1]), (runs[0][0], runs[1][0]), surprise)


def likelihood_scores(found: Fits) -> Scores:
    """Return the log likelihood ratio of every fit; positive speaks for P."""
    lens = Lens(found.noise, found.worlds)
    scores = []
    for run in found.runs:
        in_p, in_q = (replay(_stage(found.plan, run), world, run, found.worlds[0]) for world in found.worlds)
        scores.append(log_likelihood_ratio(lens, in_p, in_q))
    return Scores(scores[0], scores[1], 0.0)


def _noise_of(found: Fits) -> Transcript:
    """Return the runs of both worlds as one, each message beside what its own world would have sent without noise."""
    own = [
        replay(_stage(found.plan, run), world, run, world) for run, world in zip(found.runs, found.worlds, strict=True)
    ]
    events = tuple(
        Event(p.kind, p.round, p.agents, np.concatenate([p.clean, q.clean], 2), np.concatenate([p.sent, q.sent], 2))
        for p, q in zip(own[0].events, own[1].events, strict=True)
    )
    return Transcript(events, (), (), np.concatenate([run.estimate for run in own], axis=-1))


def _stage(plan: Plan, run: Transcript) -> RunSetup:
    return RunSetup(plan.run.method, plan.rounds, plan.run.setting.network, run.estimate.shape[-1])


def _problem(product: Product, plan: Plan, sign: float) -> Problem:
    """Return what the estimator solves on a table: with these bounds, rows and targets are encoded as they are."""
    rows, targets = product.table(sign)
    parts = [product.groups == i for i in range(product.silos)]
    return plan.problem(Silos.from_parts([rows[p] for p in parts], [targets[p] for p in parts], row_norm=1.0))


def _transcript(plan: Plan, noise: NoisePlan, world: Problem, models: list[Any]) -> tuple[Transcript, float]:
    """Return the released messages of all fits, with their signs set by the models that came out.

    And by how much models differ from what the messages make, relative to their usual size.
    """
    number = len(models)
    found = np.stack([messages(model.history_[0]) for model in models], axis=-1)  # rounds, senders, fits
    rounds = [each.round for each in models[0].history_[0]]
    kinds = {kind for kind, _ in noise.releases}
    if len(kinds) != 1:
        raise InputError("Only methods that send one kind of message can be read off `history_`.")
    kind, is_sum = kinds.pop(), any(release.agent == COORDINATOR for release in noise)
    agents = np.array([COORDINATOR]) if is_sum else np.arange(found.shape[1])

    def script(values: Floats) -> Transcript:
        events = tuple(
            Event(kind, k, agents, np.zeros_like(sent), sent)
            for k, sent in zip(rounds, values[:, :, None, :], strict=True)
        )
        return Transcript(events, (), (), np.zeros((1, number)))

    reported = script(found)
    engine = LocalEngine(number, plan.run.setting.tolerance, threads=1, recording=Recording(every=0), progress=False)
    hook = Prompter(reported, world, world)
    network = plan.run.setting.network
    modelled = engine.run(plan.run.method, world, Stopping(plan.rounds), network, hook).model(plan.run.output)
    # The map from messages to the model is linear here, and the same in both worlds: whether its sign agrees tells.
    came = np.array([float(model.coef_[0]) for model in models])
    sign = np.sign(modelled[0] * came)
    surprise = float(np.abs(sign * modelled[0] - came).max() / np.abs(came).mean())
    return script(found * sign), surprise


def messages(history: tuple[PublicRound, ...]) -> Floats:
    """Return the messages (rounds, senders) of one or two senders in one dimension, up to one sign for all of them.

    Two senders' norms and their distance tell whether they have the same sign, the movement of their mean tells
    whether that has turned since the round before.

    >>> at = dict(kind="message", noise_norm=1.0)
    >>> first = PublicRound(round=1, norms=(1.0, 3.0), movement=2.0, disagreement=1.0, **at)
    >>> after = PublicRound(round=2, norms=(2.0, 4.0), movement=1.0, disagreement=3.0, **at)
    >>> messages((first, after)).tolist()
    [[1.0, 3.0], [-2.0, 4.0]]
    """
    before, found = 0.0, []
    for each in history:
        sizes = np.array(each.norms)
        if len(sizes) > 2:
            raise InputError(
                f"The signs of {len(sizes)} senders' messages cannot be told from distances.", setting="senders"
            )
        ways = [sizes, sizes * [-1.0, 1.0]] if len(sizes) == 2 else [sizes]
        values = min(ways, key=lambda way: abs(float(np.abs(way - way.mean()).max()) - each.disagreement))
        values = min((values, -values), key=lambda way: abs(abs(float(way.mean()) - before) - each.movement))
        before = float(values.mean())
        found.append(values)
    return np.array(found)
