"""What is solved: losses, regularisers and each silo's function, with the constants that certificates need.

Constants (Lipschitz, smoothness, strong convexity) follow from public facts alone, and a contract test tries to break
them. `Silos` holds the rows; `Problem` is what a method runs on.
"""

from dpadmm import _offer

_NAMES = {
    "losses": (
        "Constants EpsilonInsensitive Huber LabelKind LinkedLoss Logistic Loss Poisson Quantile SmoothedHinge Squared"
    ),
    "problem": "EmpiricalRisk LocalFunctions Problem PublicFunctions Weighting",
    "quadratics": "QuadraticAgents",
    "regularisers": "Box ElasticNet GroupLasso Quadratic Regulariser Simplex",
    "silos": "Silos",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
