"""From a training's specification to what it released, in the order in which to read it.

`spec`: what will be released, fixed before any record is touched. `budget`: what it may spend. `release`: reserve,
draw, account. `loop`: the one loop over rounds. `training`: the steps one after the other.
"""

from dpadmm import _offer

_NAMES = {
    "budget": "LedgerFile ReusedProfile reusable_profile share_out account_with",
    "loop": "Outcome Round Run rounds run_rounds simulate",
    "release": "OpenRelease open_release",
    "spec": "FinalModel ReleaseFacts RunSpec SumQuery TrainingSpec plan_sum mechanisms_of",
    "task": "Aim Task",
    "train": "Problems Source Trained run_training train",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
