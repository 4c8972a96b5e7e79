"""The five papers, one folder each: what they claim, their theory, their figures, printed and corrected.

A paper's folder has `claims.py` (its privacy theorems as printed), `theory.py` (its convergence bounds, printed and
corrected), `agent.py` (its claims about one agent of a run) and a file for every figure. What papers share: `claimed`
and `agent_claims` (what a claim is), `claims_of` (whose claim it is), `bounds`, `race` (the methods on Adult),
`reproduction` (how figures are made), `claims_on_trial` (attacks on them) and `scoreboard` (all methods side by side).
Nothing that trains, federates, audits or reports imports from here.
"""
