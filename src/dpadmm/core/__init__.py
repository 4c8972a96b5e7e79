"""From rows to the released model, in the order in which to read it.

`dataset`: the rows of all silos before they are encoded. `task`: the public facts of a plan. `spec`: what will
be released, fixed before any record is touched. `budget`: what it may spend, and the ledger that records it. `release`:
reserve, draw, account. `loop`: the one loop over rounds. `model`: what is released. `train`: check, plan,
reserve, and take step after step.
"""

from dpadmm import _offer

_NAMES = {
    "dataset": "ArrayRows Dataset SiloRows",
    "task": "Aim ProfileRule TableShape Task",
    "spec": "FinalModel ReleaseFacts RunSpec SumQuery TrainingSpec plan_sum",
    "release": "OpenRelease open_release",
    "loop": "Outcome Round Run rounds run_rounds simulate",
    "model": "Guarantee NoiseSummary ReleasedModel",
    "train": "Problems TrainingRows Trained run_training",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
