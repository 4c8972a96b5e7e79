"""The product and what is told about it: the released model, its statement, file and page.

Every field is a public fact, a part of the release or an accounted figure, so a model and its report may be handed out
under the guarantee they state.
"""

from dpadmm import _offer

_HOMES = {
    "Basis": "measurement",
    "CoefficientRow": "intervals",
    "CoefficientTable": "intervals",
    "Collusion": "statement",
    "CurvatureFacts": "intervals",
    "Custody": "statement",
    "EvaluatedFigure": "measurement",
    "Guarantee": "statement",
    "Measurement": "measurement",
    "MethodChoice": "statement",
    "NoiseSummary": "statement",
    "OtherFigure": "measurement",
    "ProfileCost": "statement",
    "ReleasedModel": "model",
    "RoundFacts": "statement",
    "SiloCost": "statement",
    "SiloFacts": "statement",
    "Spending": "statement",
}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
