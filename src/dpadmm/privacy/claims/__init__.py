"""The papers' privacy theorems as printed, one module a paper: *claimed* figures, never mixed with certified ones.

Each module evaluates a theorem under its own name and, where the paper calibrates by it, inverts it. What is wrong or
loose in each is in `docs/errata.md`, with the test that shows it.
"""

from dpadmm.privacy.claims import consensus, dvp, fixed_point, m_admm, p_admm, ps_admm, r_admm
from dpadmm.privacy.claims.figures import (
    ClaimedEpsilon,
    ClaimedFigure,
    ClaimedNoise,
    ClaimedRdp,
    ClaimedSchedule,
    ClaimedSensitivity,
    ClaimedValue,
    ClaimedZcdp,
    Condition,
    NoiseKind,
    Paper,
    Provenance,
    largest,
)

__all__ = [
    "ClaimedEpsilon",
    "ClaimedFigure",
    "ClaimedNoise",
    "ClaimedRdp",
    "ClaimedSchedule",
    "ClaimedSensitivity",
    "ClaimedValue",
    "ClaimedZcdp",
    "Condition",
    "NoiseKind",
    "Paper",
    "Provenance",
    "consensus",
    "dvp",
    "fixed_point",
    "largest",
    "m_admm",
    "p_admm",
    "ps_admm",
    "r_admm",
]
