"""The five papers, one folder each: what they claim, their theory, their figures, printed and corrected.

A paper's folder has `claims.py` (its privacy theorems as printed), `theory.py` (its convergence bounds, printed and
corrected), `agent.py` (its claims about one agent of a run) and a file for every figure. What papers share: `claimed`
and `agent_claims` (what a claim is), `claims_of` (whose claim it is), `bounds`, `race` (the methods on Adult),
`reproduction` (how figures are made), `claims_on_trial` (attacks on them) and `scoreboard` (all methods side by side).
Nothing that trains, federates, audits or reports imports from here.
"""

from dpadmm import _offer

_HOMES = {
    "Bound": "bounds",
    "ClaimTrial": "claims_on_trial",
    "ClaimedAgent": "claims_of",
    "ClaimedEpsilon": "claimed",
    "ClaimedFigure": "claimed",
    "ClaimedSensitivity": "claimed",
    "Claims": "agent_claims",
    "Paper": "claimed",
    "Provenance": "claimed",
    "all_trials": "claims_on_trial",
}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
