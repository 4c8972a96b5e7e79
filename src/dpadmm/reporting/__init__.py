"""The product and what is told about it: the released model, its statement, file and page, and evaluations.

Every field is a public fact, a part of the release or an accounted figure, so a model and its report may be handed out
under the guarantee they state.
"""

from dpadmm import _offer

_HOMES = {
    "Basis": "measurement",
    "CalibrationPart": "evaluation_figures",
    "CoefficientRow": "intervals",
    "CoefficientTable": "intervals",
    "Collusion": "statement",
    "Confusion": "evaluation_figures",
    "CurvatureFacts": "intervals",
    "Custody": "statement",
    "EvaluatedFigure": "evaluation_figures",
    "Guarantee": "statement",
    "Measurement": "measurement",
    "MethodChoice": "statement",
    "NoiseSummary": "statement",
    "OtherFigure": "measurement",
    "PrivateEvaluation": "evaluation",
    "ProfileCost": "statement",
    "ReleasedModel": "model",
    "RocCurve": "evaluation_figures",
    "RoundCurve": "statement",
    "SiloCost": "statement",
    "SiloFacts": "statement",
    "Spending": "statement",
    "Wiring": "statement",
}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
