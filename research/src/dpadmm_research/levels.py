"""Plans of noise whose levels were chosen by other means than a budget, such as a paper's claim."""

import math
from collections.abc import Sequence
from functools import singledispatch

import numpy as np
from numpy.typing import ArrayLike

from dpadmm.errors import InputError
from dpadmm.methods.base import Method, Setting
from dpadmm.methods.m_admm import MADMM
from dpadmm.methods.ps_admm import PSADMM
from dpadmm.noise.mechanisms import MechanismSpec, last_round
from dpadmm.noise.plan import NoisePlan, plan_at
from dpadmm.problems.arrays import Floats


def at_levels(mechanisms: Sequence[MechanismSpec], levels: Sequence[ArrayLike]) -> NoisePlan:
    """Return the plan with noise levels chosen by other means, such as a paper's claim; its statement tells the cost.

    levels: for each mechanism (rounds,) or (rows, rounds), all > 0: stds, or rates for the Laplace families; entry k-1
        belongs to round k.
    """
    if len(levels) != len(mechanisms):
        raise InputError(f"{len(mechanisms)} mechanisms need as many tables of noise levels, got {len(levels)}.")
    tables = [np.atleast_2d(np.asarray(table, dtype=np.float64)) for table in levels]
    for mechanism, table in zip(mechanisms, tables, strict=True):
        if table.shape[1] != last_round([mechanism]) or len(table) not in (1, len(mechanism.rows)):
            raise InputError(
                f"{mechanism.kind} needs noise levels for {last_round([mechanism])} rounds and one or "
                f"{len(mechanism.rows)} rows, got {table.shape}."
            )
        if not np.all(np.isfinite(table) & (table > 0)):
            raise InputError(f"{mechanism.kind} needs noise levels that are finite and greater than 0.")
    return plan_at(mechanisms, tables)


@singledispatch
def split_noise(method: Method, setting: Setting, levels: Floats) -> tuple[Floats, ...]:
    """Return the noise of an agent's mechanisms, one level a private round each, where the paper's has these.

    Stds, or rates. Almost all methods have one mechanism, and its noise is the paper's.
    """
    return (levels,)


@split_noise.register
def _(method: MADMM, setting: Setting, levels: Floats) -> tuple[Floats, ...]:
    """The paper's rates are those of e_i; the linear term is `2 eta_i(t) deg_i e_i`."""
    number, rounds = setting.problem.n_agents, range(1, setting.rounds + 1)
    penalties = np.array([method.penalties(t, number)[0] for t in rounds])
    return (levels / (2 * int(setting.degrees[0]) * penalties),)


@split_noise.register
def _(method: PSADMM, setting: Setting, levels: Floats) -> tuple[Floats, ...]:
    """The paper's noise is that of a whole inner step: the two parts' variances add up to it."""
    if method.inner_steps == 1:
        return (levels,)
    if method.noise_ratio is not None:
        shares = np.full(levels.shape, 1 / (1 + method.noise_ratio**2))
    else:
        full, part = method.certificates(setting, 0)
        rate = method.batches.size / int(setting.problem.functions.sizes[0])
        known = {std: share_at(full.bound / std, part.bound / std, rate) for std in set(levels.tolist())}
        shares = np.array([known[std] for std in levels.tolist()])
    return levels * np.sqrt(shares), levels * np.sqrt(1 - shares)


def share_at(full: float, part: float, rate: float) -> float:
    """Return a share of the variance for the Gaussian mechanism that is near the best at a given noise; any is sound.

    full, part: the mechanisms' bounds over the std of both noises together; rate: chance that a record takes part. The
    share t minimises the sum of the second-order losses, `full^2/t + 4 rate^2 sinh(part^2/(1-t))`.
    """
    from scipy.optimize import minimize_scalar  # slow to load, and only sampled pairs need it

    def loss(log_odds: float) -> float:
        share = 1 / (1 + math.exp(-log_odds))
        spread = part**2 / (1 - share)
        sampled = math.log(4 * rate * rate) + (math.log(math.sinh(spread)) if spread < 700 else spread)
        return float(np.logaddexp(2 * math.log(full) - math.log(share), sampled))

    found = minimize_scalar(loss, bounds=(-16.0, 8.0), method="bounded", options={"xatol": 1e-4})
    return float(1 / (1 + math.exp(-found.x)))
