"""How good a model is: exactly on public data, or by metrics of private data that are accounted, one noisy sum each."""

from dpadmm import _offer

_HOMES = {
    "CalibrationPart": "metrics",
    "Confusion": "metrics",
    "PrivateConfusion": "metrics",
    "PrivateEvaluation": "metrics",
    "PrivateScore": "private",
    "RocCurve": "metrics",
    "private_confusion": "private",
    "private_evaluation": "private",
    "private_score": "private",
}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
