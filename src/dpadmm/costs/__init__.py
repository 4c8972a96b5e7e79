"""Private ADMM on costs of your own: agents, what ties them together, what is hidden of them, and `minimise`."""

from dpadmm.costs.agents import Allocations, CostAgents, Quadratics
from dpadmm.costs.couplings import Consensus, General, Graph, Sharing
from dpadmm.costs.families import CostFamily, Prox, from_cvxpy
from dpadmm.costs.forecast import CostForecast
from dpadmm.costs.minimise import CostPlan, Result, Rows, minimise, plan
from dpadmm.costs.protection import Amount, Ball, Gap, Limits, Linear, Person, Record, Region, Whole

__all__ = [
    "Allocations",
    "Amount",
    "Ball",
    "Consensus",
    "CostAgents",
    "CostFamily",
    "CostForecast",
    "CostPlan",
    "Gap",
    "General",
    "Graph",
    "Limits",
    "Linear",
    "Person",
    "Prox",
    "Quadratics",
    "Record",
    "Region",
    "Result",
    "Rows",
    "Sharing",
    "Whole",
    "from_cvxpy",
    "minimise",
    "plan",
]
