"""The five papers, one folder each: what they claim, their theory, their figures, printed and corrected.

A paper's folder has `claims.py` (its privacy theorems as printed), `theory.py` (its convergence bounds, printed and
corrected), `agent.py` (its claims about one agent of a run) and a file for every figure.
"""
