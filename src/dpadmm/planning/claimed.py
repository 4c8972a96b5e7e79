"""What a paper claims for the noise of a plan: shown beside the certified figure, never mixed with it."""

from collections.abc import Callable
from typing import Any

from dpadmm.errors import DpadmmError
from dpadmm.noise.plan import NoisePlan
from dpadmm.planning.plan import Plan
from dpadmm.privacy.claims import ClaimedEpsilon
from dpadmm.privacy.methods import Dvp, Method, PAdmm, RAdmm
from dpadmm.privacy.records import GaussianRelease, ObjectiveRelease, SphericalLaplaceRelease

NO_PAPER = "no paper studied here claims a figure for this method and unit"


def _p_admm(agent: dict[str, Any]) -> Method:
    return PAdmm(**agent)


def _recycled(agent: dict[str, Any]) -> Method:
    return PAdmm(**agent, recycled=True)


def _dvp(agent: dict[str, Any]) -> Method:
    return Dvp(**agent)


def _r_admm(agent: dict[str, Any]) -> Method:
    return RAdmm(**agent)


_METHODS: dict[str, Callable[[dict[str, Any]], Method]] = {
    "p-admm": _p_admm,
    "p-admm-recycled": _recycled,
    "dvp": _dvp,
    "r-admm": _r_admm,
}
"""The graph methods: their papers speak of one agent, its records, its neighbours and the penalty on an edge."""


def claimed_by_papers(plan: Plan, noise: NoisePlan) -> tuple[tuple[ClaimedEpsilon, ...], str | None]:
    """Return the claimed figures for the agent for whom the paper promises least, or why there are none."""
    build = _METHODS.get(plan.method)
    if build is None or plan.network is None:
        return (), NO_PAPER
    worst: tuple[ClaimedEpsilon, ...] = ()
    for agent in range(plan.task.n_silos):
        try:
            found = build(_agent(plan, agent)).claimed_epsilon(_levels(noise, agent), plan.task.target.delta)
        except DpadmmError as reason:
            return (), str(reason).rstrip(".")
        except ArithmeticError:
            return (), "its formula leaves the range of floating-point numbers here"
        if found and (not worst or found[0].value > worst[0].value):
            worst = tuple(found)
    return (worst, None) if worst else ((), NO_PAPER)


def _agent(plan: Plan, agent: int) -> dict[str, Any]:
    """Return the settings of one agent, as the method's record of `dpadmm.privacy.methods` names them."""
    assert plan.network is not None
    functions = plan.task.functions(plan.mu)
    return {
        "records": plan.task.sizes[agent],
        "degree": int(plan.network.degrees[agent]),
        "eta": plan.algorithm.eta,
        "mu": plan.mu,
        "rounds": plan.rounds,
        "gradient_bound": functions.constants.record_gradient,
        "weight": float(plan.weights.weights(functions.sizes)[agent]),
        "records_per_person": plan.task.protection.records_per_person,
        "silos_per_person": plan.task.protection.silos_per_person,
    }


def _levels(noise: NoisePlan, agent: int) -> list[float]:
    """Return the noise of one agent's broadcasts in order of rounds: stds, or rates."""
    levels: dict[int, float] = {}
    for row in noise.releases.values():
        release = row.get(agent, row.get(None))
        if isinstance(release, GaussianRelease):
            levels[release.round] = release.noise_std
        elif isinstance(release, SphericalLaplaceRelease | ObjectiveRelease):
            levels[release.round] = release.rate
    return [levels[k] for k in sorted(levels)]
