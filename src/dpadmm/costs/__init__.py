"""Private ADMM on costs of your own: agents, what ties them together, what is hidden of them, and `minimise`."""

from dpadmm.costs.agents import Agents, Allocations, Quadratics
from dpadmm.costs.couplings import Consensus, General, Graph, Sharing
from dpadmm.costs.forecast import Forecast
from dpadmm.costs.minimise import CostPlan, Result, minimise, plan
from dpadmm.costs.protection import Amount, Ball, Gap, Limits, Linear, Person, Record, Region, Whole

__all__ = [
    "Agents",
    "Allocations",
    "Amount",
    "Ball",
    "Consensus",
    "CostPlan",
    "Forecast",
    "Gap",
    "General",
    "Graph",
    "Limits",
    "Linear",
    "Person",
    "Quadratics",
    "Record",
    "Region",
    "Result",
    "Sharing",
    "Whole",
    "minimise",
    "plan",
]
