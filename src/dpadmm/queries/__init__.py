"""Single noisy sums that a training may release beside the rounds of a method: one file each."""

from dpadmm import _offer

_HOMES = {
    "CandidateScores": "candidate_scores",
    "ColumnProfile": "column_profile",
    "Comparison": "candidate_scores",
    "Curvature": "curvature",
    "CurvatureFacts": "curvature",
    "ReleasedCurvature": "curvature",
}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
