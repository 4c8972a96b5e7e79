"""What a paper claims for the noise of a plan, as facts of the page; never mixed with the certified figure."""

from dpadmm.algorithms.claimed import claimed_of_plan
from dpadmm.noise.plan import NoisePlan
from dpadmm.planning.plan import Plan
from dpadmm.reporting.facts import Claim


def claims_of(plan: Plan, noise: NoisePlan) -> tuple[tuple[Claim, ...], str | None]:
    """Return the claimed figures for the agent for whom the paper promises least, or why there are none."""
    found, reason = claimed_of_plan(plan.algorithm, plan.setting, noise, plan.task.target.delta)
    return tuple(Claim(epsilon=claim.value, delta=claim.delta, label=claim.label) for claim in found), reason
