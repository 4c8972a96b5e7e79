"""What is solved: losses, regularisers and each silo's function, with the constants that certificates need.

Constants (Lipschitz, smoothness, strong convexity) follow from public facts alone, and a contract test tries to break
them. `Silos` holds the rows; `Problem` is what a method runs on.
"""

from dpadmm import _offer

_HOMES = {
    "Aim": "aims",
    "Box": "regularisers",
    "Constants": "functions",
    "ElasticNet": "regularisers",
    "EmpiricalRisk": "problem",
    "Huber": "losses",
    "LabelKind": "losses",
    "LinkedLoss": "losses",
    "LocalFunctions": "functions",
    "Logistic": "losses",
    "Loss": "losses",
    "Problem": "problem",
    "PublicFunctions": "problem",
    "Quadratic": "regularisers",
    "QuadraticAgents": "quadratics",
    "Regulariser": "regularisers",
    "Silos": "silos",
    "SmoothedHinge": "losses",
    "Squared": "losses",
    "Weighting": "problem",
}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
