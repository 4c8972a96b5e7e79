"""Candidates from theory: which methods can serve a task, how long to descend, in how many rounds, with which loss.

Every method here is, for the mean of its models, a descent on the pooled objective `F = sum_i w_i f_i` with steps of
some size t: explicit for gradients, implicit for ADMM. A method says itself what t makes of its settings (`at_step`).

Let tau be the noise of the pooled gradient, per coordinate, were the whole budget (m-GDP) spent on one round. For
Gaussian noise K rounds multiply it by sqrt(K), and after a total time `T = K t` a coordinate of the model carries about
`tau T`, however many rounds T is made of:

    noise at every silo          tau = 2 G q sqrt(N s)/m          q = r/n (records), max w_i (users)
    noise at the coordinator     tau = 2 G q s f/m                f = sqrt(1 + t L/2) (C6; users: 1; gradients: 1)
    shares of it under masks     the same times sqrt(N/(N - t))   t colluders (C12)
    pure noise at every silo     tau = 2 G q sqrt(N) s sqrt(K d)/epsilon       at the coordinator: without sqrt(N)

r records and s silos per person (persons with all their rows: n counts them, r is 1); where records are added or
removed, 2 G is G and n is nominal. A prediction then carries `R tau T`, R the row norm, whatever the dimension.
Descending longer learns finer directions, down to curvatures of about 1/T; shorter keeps predictions cleaner. The
best T leaves noise of the order of the loss's own scale S (1 for margins; for Huber its threshold):
`T = c S/(R tau)`, with c from 1/2 to 8 depending on the data. Simulations choose c.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpadmm.checks import nearest, safe_repr
from dpadmm.checks import option_name as named
from dpadmm.core.spec import FinalModel, RunSpec, mechanisms_of
from dpadmm.core.task import INFERENCE_LOSS, Aim, Task
from dpadmm.errors import InputError
from dpadmm.methods.base import Method, Setting, Topology, plannable
from dpadmm.methods.decentralised import is_ridge
from dpadmm.methods.fixed_point import CentralisedADMM, CoordinatorADMM, FederatedADMM
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.methods.p_admm import PADMM
from dpadmm.methods.preconditioned import MOST_FEATURES, PreconditionedGradients, PreconditionedSilos
from dpadmm.networks.graph import complete
from dpadmm.noise.mechanisms import Constant, Family, Tail
from dpadmm.privacy.accounting import PureTarget, Target, least_objective_epsilon
from dpadmm.privacy.certificates.sums import column_profile
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.protection import NeighbouringRelation, Unit, View
from dpadmm.problems.losses import AnyLoss, Huber, LabelKind, Logistic, Poisson, Softmax
from dpadmm.problems.problem import Problem
from dpadmm.problems.regularisers import Regulariser


@dataclass(frozen=True)
class RowForm:
    """How a world's rows are encoded.

    clip_radius: in units of a usual row's norm; None where the user states a norm: columns are standardised.
    noise: of a share of the pooled records in the column profile; None encodes by bounds and categories alone.
    """

    clip_radius: float | None = None
    noise: float | None = None


STANDARD = RowForm()
"""Columns with their true means and deviations, which no private encoding knows."""


NOISE_RATIOS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""The values of c that are compared."""

RULE_OF_THUMB = 2.0
"""The value of c to begin with, and to keep unless another is clearly better."""

_LEAST_ROUNDS, _MOST_ROUNDS = 40, 400
_LEAST_GRADIENTS, _MOST_STEPS, _MOMENTUM = 16, 200, 0.9
_FEW_ROUNDS, _FEW_ON_PROFILE = 16, 24
_PROFILE_SHARE, _PROFILE_AVERAGED = 0.02, 0.75  # of preconditioned rounds on rows that a profile has scaled
_LEAST_CLEARANCE = 250.0  # of `n m/sqrt(N d)`: below it the noise of the matrix can cost more than fewer rounds save
_LEAST_SAVED, _LEAST_SAVED_OF_TABLES = 2e8, 2e9  # numbers that fewer passes do not read: less takes no time
_PASSES_OF_SOLVES = 3  # of a round with local solves, about
_PURE_ROUNDS = 10  # pure budgets add up, so that every round costs much
_MOST_GRADIENTS = 4000
_STEEPEST = 50.0  # largest t L of one round: beyond it silos that differ come to agree too slowly
_PLENTY = 120.0  # rounds from which on they have time to, so that steps may grow as rounds do
_STEEPEST_ALONE = 3000.0  # one silo has nobody to agree with; beyond it local solves get hard
_MOST_PEERS = 50  # a complete graph of more has too many edges
_CONVERGED = 25.0  # mu T from which on the ridge has decided everything
_CAP, _LOOSER_CAP = 0.5, 0.7
_CLIP_RADIUS = 0.6
WIDE_CLIP_RADIUS = 1.5
"""The radius for numbers whose rows are shortened too much otherwise (`planner._form_for_numbers`)."""
INFERENCE_CLIP_RADIUS = 1.0
"""The length from which on rows count less where coefficients are estimated, in units of a usual row."""

_TARGET_SCALE = 0.25  # of a number's deviation: how much noise on a prediction matters, times the rule of thumb
_LEAST_SHARE, _MOST_SHARE, _SHARE_SEEN, _MOST_PROFILE_NOISE = 0.01, 0.1, 0.005, 0.08
_NOISELESS = 1e5  # Theta beyond which noise is nothing
_MOST_HEADROOM = 3000.0  # Theta beyond which the bias of a capped loss would cost more than noise


def ratios_for(task: Task, method: type[Method]) -> tuple[float, ...]:
    """Return the ratios that are compared; for gradients the rule of thumb at most.

    There c is what a ridge leaves, and a smaller ridge lets noise grow for longer than the small worlds show. For many
    classes it is the rule of thumb alone: nothing better is known, and simulations take long. So it is for intervals,
    which were tested with it.
    """
    if task.n_classes > 1 or task.aim is Aim.INFERENCE or issubclass(method, PreconditionedGradients):
        return (RULE_OF_THUMB,)
    return NOISE_RATIOS[: NOISE_RATIOS.index(RULE_OF_THUMB) + 1] if method is NoisyGradients else NOISE_RATIOS


@dataclass(frozen=True)
class Candidate:
    """A method with its numbers, all on one scale, for the task with the loss that is fitted.

    rounds: K. step: time per round t. mu: ridge weight. form: how rows are encoded. ratio: the c that led to these.
    """

    task: Task
    method: type[Method]
    rounds: int
    step: float
    mu: float = 0.0
    form: RowForm = STANDARD
    ratio: float = RULE_OF_THUMB


def methods_for(task: Task) -> tuple[type[Method], ...]:
    """Return the methods worth comparing, at least one; all of them trust the same parties.

    Where one noise can hide all silos - the coordinator is trusted, messages are masked, or there is one silo - noisy
    gradients of the sum, and fixed-point ADMM. Else every silo hides alone: graph methods where peers talk and the
    penalty can be shared out, or fixed-point ADMM, which is the same descent through a coordinator. Intervals are made
    from noisy gradients.
    """
    if task.aim is Aim.INFERENCE:
        if why_not(task, NoisyGradients) is None:
            return (NoisyGradients,)
        raise InputError(
            f"No intervals are offered against {task.protection.observer} among several silos: they follow from noisy "
            "sums over all silos (C14). Use the view 'aggregate' or 'public', one silo, or "
            f"{named('aim', 'prediction')}. Nothing was spent."
        )
    if isinstance(task.loss, Poisson):
        if why_not(task, NoisyGradients) is None:
            return (NoisyGradients,)
        raise InputError(
            f"Counts are not fitted against {task.protection.observer} among several silos: their loss is certified "
            "for noisy sums over all silos (C20). Use the view 'aggregate' or 'public', or one silo. Nothing was spent."
        )
    exact = CentralisedADMM if task.n_silos == 1 else CoordinatorADMM
    # Where hardly anything is hidden, exact local steps find the very optimum, which gradients only come near.
    is_exact_best = why_not(task, exact) is None and headroom(task, NoisyGradients) >= _NOISELESS
    wanted = (exact,) if is_exact_best else (NoisyGradients, exact)
    summed = [each for each in wanted if why_not(task, each) is None]
    if summed and task.network is None:
        return tuple(summed if task.n_classes == 1 else summed[:1])  # local solves of many classes are slow to simulate
    if (task.network is not None or task.n_silos <= _MOST_PEERS) and why_not(task, PADMM) is None:
        return (PADMM,)
    if why_not(task, FederatedADMM) is None:
        return (FederatedADMM,)
    raise InputError(
        f"No method is certified for {task.protection} against {task.protection.observer} with this penalty. "
        "Change the unit, the view or the penalty."
    )


def preconditioned_method(task: Task) -> type[Method] | None:
    """Return the preconditioned method where few rounds save enough passes and lose no accuracy, else None.

    Tried for records of a linear model with one score. Without a column profile it was as good or better from
    `n m/sqrt(N d)` = 250 on, N being the noises in a sum; with one, as good: there it is taken for many records only.
    """
    wanted = (PreconditionedGradients, PreconditionedSilos)
    method = next((each for each in wanted if why_not(task, each) is None), None)
    is_tried = isinstance(task.loss, Logistic | Huber) and task.protection.unit is Unit.RECORD
    if method is None or not is_tried or task.network is not None or max(task.n_silos, 2) > _MOST_PEERS:
        return None
    noise = unit_noise(task, method) / (2 * task.loss.slope_bound * task.row_norm)
    if task.dimension > MOST_FEATURES or noise * math.sqrt(task.dimension) * _LEAST_CLEARANCE > 1:
        return None
    usual = candidate_at(task, NoisyGradients if method.about.trusts_coordinator else PADMM, RULE_OF_THUMB)
    passes = usual.rounds * (1 if method.about.trusts_coordinator else _PASSES_OF_SOLVES)
    saved = passes - candidate_at(task, method, RULE_OF_THUMB).rounds - task.dimension / 10  # the matrix: d/10 passes
    least = _LEAST_SAVED if task.table is None else _LEAST_SAVED_OF_TABLES
    return method if saved * task.n_records * task.dimension >= least else None


def method_called(task: Task, name: str) -> type[Method]:
    """Return the method of this name; refuse one that cannot serve the task."""
    known = plannable()
    if name not in known:
        raise InputError(
            f"The planner does not know the method {safe_repr(name)}; choose one of {', '.join(known)}."
            f"{nearest(name, known)}"
        )
    problem = why_not(task, known[name])
    if problem is not None:
        raise InputError(
            f"The method does not fit this task: {problem}. Let the planner choose the method (None or auto)."
        )
    return known[name]


def headroom(task: Task, method: type[Method]) -> float:
    """Return `Theta = L S/(R tau)`: how far the steepest curvature stands above the noise at c = 1."""
    tau = unit_noise(task, method, _PURE_ROUNDS if method.about.is_pure else 1)
    return task.functions().constants.smoothness * margin_scale(task.loss) / (task.row_norm * tau)


def candidate_at(task: Task, method: type[Method], ratio: float, form: RowForm = STANDARD) -> Candidate:
    """Return the method's candidate, whose rounds, step and ridge leave noise of `ratio` S on a prediction."""
    mu, proximal = split_penalty(task)
    aim = ratio * margin_scale(task.loss) / task.row_norm
    if method.about.is_one_shot:
        least = unit_noise(task, method) / aim  # the noise of a minimiser is tau/mu
        mu = mu if task.regulariser is not None else max(mu, least)
        return Candidate(task, method, 1, 1.0, mu, form, ratio)
    if method is NoisyGradients:
        return Candidate(task, method, *gradient_rule(task, mu, ratio), form, ratio)
    if issubclass(method, PreconditionedGradients):
        rounds = _FEW_ROUNDS if form.noise is None else _FEW_ON_PROFILE
        ridge = mu if task.regulariser is not None else max(mu, unit_noise(task, method) / (2 * aim))
        return Candidate(task, method, 1 + rounds, 1.0, ridge, form, ratio)  # the first one for the matrix
    smoothness = task.functions(mu).constants.smoothness
    rounds = _PURE_ROUNDS if method.about.is_pure else _LEAST_ROUNDS
    time = aim / unit_noise(task, method, rounds)
    if method.about.trusts_coordinator and task.protection.unit is not Unit.USER and not method.about.is_pure:
        # tau grows with the step: more rounds, shorter steps, and T from T sqrt(1 + T L/(2 K)) = aim/tau_0.
        rounds = _MOST_ROUNDS
        time = _coordinator_time(time, smoothness / (2.0 * rounds))
    # A proximal step far longer than the penalty's scale forgets the loss, so that one silo must not hurry either.
    is_alone = task.n_silos == 1 and proximal is None
    steepest = _STEEPEST_ALONE if is_alone else _STEEPEST
    curvature = mu if task.regulariser is None else max(mu, float(task.regulariser.strong_convexity))
    if curvature > 0:
        time = min(time, _CONVERGED / curvature)
    time = min(time, steepest * _MOST_ROUNDS / smoothness)
    if not method.about.is_pure:
        needed = time * smoothness / steepest
        if not is_alone and needed >= _PLENTY:
            # Silos that differ agree in the steepest directions after about t L rounds. From `_PLENTY` rounds on there
            # are as many for every t L if steps and rounds grow alike: K/(t L) stays what it is there, K^2 grows as T.
            needed = math.sqrt(_PLENTY * needed)
        rounds = max(rounds, min(math.ceil(needed), _MOST_ROUNDS))
    rounds = max(rounds, min(math.ceil(time * smoothness / method.about.longest_step), _MOST_GRADIENTS))
    rounds += rounds % 2  # so that the tail average has exactly the second half
    if method.about.topology is Topology.WALK:
        rounds *= task.n_silos  # the token is with one silo at a time
    step = time / rounds
    while _costs_too_much(made := Candidate(task, method, rounds, step, mu, form, ratio)):
        step /= 2
    return made


def _costs_too_much(candidate: Candidate) -> bool:
    """Whether noise in the objective costs more than half of a round's epsilon however strong it is (C2).

    Shorter steps mean larger penalties, which make that as small as is needed.
    """
    if Family.OBJECTIVE not in candidate.method.about.noise:
        return False
    run, silos = run_of(candidate), candidate.task.protection.silos_per_person
    spent = 1 / run.schedule.shape(candidate.rounds) if run.schedule is not None else np.ones(candidate.rounds)
    for row in (row for mechanism in mechanisms_of(run.method, run.setting) for row in mechanism.rows):
        own = spent[np.array(row.rounds) - 1]
        least = max(least_objective_epsilon(each) / part for each, part in zip(row.certificates, own, strict=True))
        if 2 * silos * least * own.sum() > candidate.task.target.epsilon:
            return True
    return False


def gradient_rule(task: Task, mu: float, ratio: float) -> tuple[int, float, float]:
    """Return rounds, step and ridge of noisy gradients: full steps, and a ridge in place of stopping early.

    A ridge tau/c leaves noise of about c on a prediction, as descending for a time c/tau does. With momentum beta a
    direction of curvature mu settles in about `1.5 (1 - beta)/(mu t)` rounds of length t.
    """
    scale = _TARGET_SCALE if task.loss == INFERENCE_LOSS and task.aim is Aim.INFERENCE else margin_scale(task.loss)
    drag = max(mu, unit_noise(task, NoisyGradients) * task.row_norm / (ratio * scale))
    ridge = mu if task.regulariser is not None else drag
    step = 1.0 / task.functions(ridge).constants.smoothness
    rounds = math.ceil(1.5 * (1 - _MOMENTUM) / (drag * step))
    return min(max(rounds, _LEAST_GRADIENTS), _MOST_STEPS), step, ridge


def _coordinator_time(bare: float, slope: float) -> float:
    """Solve `T sqrt(1 + slope T) = bare` by bisection in the logarithm; the left side grows."""
    low, high = bare / math.sqrt(1.0 + slope * bare), bare
    for _ in range(60):
        middle = math.sqrt(low * high)
        if middle * math.sqrt(1.0 + slope * middle) < bare:
            low = middle
        else:
            high = middle
    return high


def split_penalty(task: Task) -> tuple[float, Regulariser | None]:
    """Return the weight of the ridge in every silo's function, and the penalty that needs a proximal step instead.

    The ridge is the user's, none beside another penalty of the user's, else the planner's 1/n. That is what one record
    weighs among n (scikit-learn's C = 1): too little to bias what noise leaves visible, enough to make the optimum
    unique and to say when a run has settled.
    """
    if task.regulariser is None:
        return task.row_norm**2 / task.n_records, None
    if is_ridge(task.regulariser, task.dimension):
        return float(task.regulariser.strong_convexity), None
    return 0.0, task.regulariser


def margin_scale(loss: AnyLoss) -> float:
    """Return S: how much noise on a prediction begins to matter; a score of counts is a logarithm."""
    return loss.slope_bound if loss.target is LabelKind.REALS and not isinstance(loss, Poisson) else 1.0


def unit_noise(task: Task, method: type[Method], rounds: int = 1) -> float:
    """Return tau (without the factor f of noise at the coordinator)."""
    share = (
        task.protection.records_per_person / task.n_records
        if task.protection.unit is not Unit.USER
        else max(task.sizes) / task.n_records
    )
    moved = 2.0 if task.protection.relation is NeighbouringRelation.REPLACE_ONE else 1.0
    slope = moved * task.loss.slope_bound * task.row_norm * share
    silos = task.protection.silos_per_person
    if method.about.is_pure:
        sources = 1 if method.about.trusts_coordinator else task.n_silos
        reach = silos * math.sqrt(sources * rounds * task.dimension)
        return slope * reach / task.target.epsilon
    m = m_of(task.target.epsilon, task.target.delta)
    if not method.about.trusts_coordinator:
        return slope * math.sqrt(task.n_silos * silos) / m
    return slope * silos * _shared_out(task) / m


def _shared_out(task: Task) -> float:
    """Return by how much the noise of the sum exceeds what is counted: colluders know their shares (C12)."""
    people = task.protection
    return math.sqrt(task.n_silos / (task.n_silos - people.n_colluders)) if people.view is View.AGGREGATE else 1.0


def why_not(task: Task, method: type[Method]) -> str | None:
    """Return why the method cannot serve the task, None if it can."""
    about = method.about
    if task.aim is Aim.INFERENCE and method is not NoisyGradients:
        return f"intervals follow from the sums of gradients that noisy-gradients releases (C14), not from {about.name}"
    if isinstance(task.loss, Poisson) and method is not NoisyGradients:
        return f"counts are fitted by noisy-gradients (C20), not by {about.name}"
    if task.n_silos < about.least_silos:
        return f"{about.name} needs at least {about.least_silos} silos, got {task.n_silos}"
    if task.n_silos > about.most_silos:
        return f"{about.name} needs all records in one silo, got {task.n_silos} silos"
    people = task.protection
    if Family.SAMPLED in about.noise and max(people.records_per_person, people.silos_per_person) > 1:
        return f"{about.name} draws records one by one, which hides one record of a person, in one silo (C4)"
    if task.protection.view not in about.views(task.n_silos):
        views = " or ".join(sorted(repr(each.value) for each in about.views(task.n_silos)))
        return f"{about.name} is not certified against {task.protection.observer}, but for the view {views}"
    if task.n_classes > 1 and not about.takes_softmax:
        return f"{about.name} is not certified for one model of {task.n_classes} classes; use one-vs-rest"
    uncertified = about.why_not(task.protection)
    if uncertified is not None:
        return uncertified
    mu, proximal = split_penalty(task)
    if about.needs_ridge and proximal is None and mu == 0:
        return f"{about.name} needs a ridge, a weight alpha above 0"
    if proximal is not None and not about.takes_any_regulariser:
        return f"{about.name} has no proximal step for {proximal}"
    if proximal is not None and about.topology is Topology.GRAPH:
        return (
            f"{about.name} is planned with a ridge only, not with {proximal}; state rounds and numbers with dpadmm.run"
        )
    return None


def form_of(task: Task, method: type[Method], share: float) -> RowForm:
    """Return how rows will be encoded if a profile gets this share of m^2, or by the one that was paid for before.

    Norms of rows say little, and long rows would leave less room to all others: most rows get the same norm. Ordinary
    coefficients, which intervals are about, are those of rows that are hardly ever shortened.
    """
    if task.table is None:
        return STANDARD
    clip_radius = INFERENCE_CLIP_RADIUS if task.aim is Aim.INFERENCE else _CLIP_RADIUS
    if task.profile.earlier_m > 0:
        share = (task.profile.earlier_m / m_of(task.target.epsilon, task.target.delta)) ** 2
    return RowForm(clip_radius, profile_noise(task, method) / math.sqrt(share) if share else None)


def profile_share(task: Task, method: type[Method]) -> float:
    """Return the part of m^2 that a column profile is worth, 0 for none.

    What must be seen are shares of the records of about `_SHARE_SEEN`; where even a tenth of the budget leaves noise
    of `_MOST_PROFILE_NOISE` on them, nothing would be, and the public encoding serves better.
    """
    rule, table = task.profile, task.table
    if table is None or not rule.is_wanted or rule.earlier_run is not None or not method.about.has_gaussian_noise:
        return 0.0
    if rule.share is not None:
        return rule.share
    return worthwhile_share(profile_noise(task, method), seen=_SHARE_SEEN, most=_MOST_PROFILE_NOISE)


def worthwhile_share(noise: float, *, seen: float, most: float) -> float:
    """Return the part of m^2 to spend on a sum in which `noise` is left where all of it is spent; 0 where it is lost.

    seen: the noise that is aimed at. most: what a tenth of the budget may leave at most.

    >>> [round(worthwhile_share(noise, seen=0.005, most=0.08), 3) for noise in (0.0001, 0.001, 0.02, 0.03)]
    [0.01, 0.04, 0.1, 0.0]
    """
    if noise > most * math.sqrt(_MOST_SHARE):
        return 0.0
    return float(min(max((noise / seen) ** 2, _LEAST_SHARE), _MOST_SHARE))


def profile_noise(task: Task, method: type[Method]) -> float:
    """Return the noise of a share of the pooled records, were the whole budget spent on the profile."""
    table, people = task.table, task.protection
    if table is None:
        return math.inf
    is_pooled = method.about.trusts_coordinator and task.n_silos > 1
    total = task.n_silos if people.unit is Unit.USER else sum(task.sizes)
    bound = column_profile(
        n_numeric=table.n_numeric + table.n_targets,
        n_categorical=len(table.categories),
        n_records=total,
        protection=people,
        is_noise_shared=is_pooled,
    ).bound
    return noise_of_sum(task, method, bound)


def noise_of_sum(task: Task, method: type[Method], bound: float) -> float:
    """Return the noise of a mean over all records whose sum moves by `bound`, were the whole budget spent on it."""
    people = task.protection
    m = m_of(task.target.epsilon, task.target.delta)
    is_pooled = method.about.trusts_coordinator and task.n_silos > 1
    total = task.n_silos if people.unit is Unit.USER else sum(task.sizes)
    shared = _shared_out(task) if is_pooled else math.sqrt(task.n_silos * people.silos_per_person)
    return bound * shared / (m * total)


def losses_for(task: Task, method: type[Method]) -> tuple[AnyLoss, ...]:
    """Return the losses that may be fitted: relatives whose records pull less, where noise is what hurts.

    `Logistic(cap)` holds the pull of badly misclassified records at `cap` instead of 1: all noise shrinks by that
    factor, for a bias that noise drowns; so does a capped softmax. Where there is hardly any noise, or a cap is not
    proved (C2), the loss asked for is kept, so that its optimum is found.
    """
    loss, is_kept = task.loss, method.about.is_pure or task.aim is Aim.INFERENCE
    if not isinstance(loss, Softmax) and (is_kept or type(loss) is not Logistic):
        return (loss,)
    if loss.cap < 1 or headroom(task, method) >= _MOST_HEADROOM:
        return (loss,)
    return replace(loss, cap=_CAP), replace(loss, cap=_LOOSER_CAP), loss


def run_of(candidate: Candidate, n_models: int = 1) -> RunSpec:
    """Return what running the candidate means; `n_models` models share its rows.

    Peers talk over the user's graph, else a complete one. Pure epsilon is stronger than (epsilon, delta). Solvers stop
    at a gradient of 1e-4 of what one record can move, so that it costs no noise (C7), but never at less than 64-bit
    numbers of the gradients' size can reach: that would fail after the run was paid for.
    """
    task, about = candidate.task, candidate.method.about
    functions = task.functions(candidate.mu)
    network = None
    if about.topology is Topology.GRAPH:
        network = task.network if task.network is not None else complete(task.n_silos)
    bound = functions.constants.record_gradient
    size = max(1.0, bound)
    tolerance = float(np.clip(1e-4 * (2.0 * bound / task.n_records), 1e-12 * size, 1e-7 * size))
    problem = Problem.of(functions, regulariser=split_penalty(task)[1])
    setting = Setting(problem, candidate.rounds, tolerance, network, task.protection)
    made: Any = candidate.method.at_step(setting, candidate.step)
    if isinstance(made, PreconditionedGradients) and candidate.form.noise is not None:
        made = replace(made, share=_PROFILE_SHARE, averaged=_PROFILE_AVERAGED)
    target: Target | PureTarget = PureTarget(task.target.epsilon) if about.is_pure else task.target
    if about.is_one_shot:
        return RunSpec(made, setting, target, Constant(), FinalModel.LAST, n_models)
    # Gradients forget old noise quickly, so late rounds must not carry more of it.
    schedule = Constant() if about.longest_step < math.inf else Tail()
    return RunSpec(made, setting, target, schedule, FinalModel.TAIL_AVERAGE, n_models)
