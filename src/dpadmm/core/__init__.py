"""What runs methods: one loop over the rounds, for all agents at once, and private runs around it.

`run_private` calibrates noise, records the cost and runs; `LocalEngine` is the loop. Between machines:
`federation`, carried by `federation.https`.
"""

from dpadmm import _offer

_HOMES = {
    "Checkpoint": "local",
    "Course": "private",
    "CourseSearch": "search",
    "CurvatureRound": "curvature",
    "FinalModel": "local",
    "LocalEngine": "local",
    "PrivateRun": "private",
    "PublicRound": "witness",
    "ReleasedCurvature": "curvature",
    "Recording": "local",
    "Run": "local",
    "RunSetting": "private",
    "Stopping": "local",
    "promises_of": "private",
    "run_course": "private",
    "run_private": "private",
    "run_search": "search",
    "simulate": "private",
}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
