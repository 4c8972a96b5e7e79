"""How good a model is: exactly on public data, or by figures of private data that are accounted, one noisy sum each."""

from dpadmm import _offer

_HOMES = {
    "CalibrationPart": "figures",
    "Confusion": "figures",
    "PrivateConfusion": "confusion",
    "PrivateEvaluation": "score_counts",
    "PrivateScore": "score",
    "RocCurve": "figures",
    "private_confusion": "confusion",
    "private_evaluation": "scored_rows",
    "private_score": "score",
}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
