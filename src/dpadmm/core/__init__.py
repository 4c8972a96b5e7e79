"""From a training's specification to what it released, in the order in which to read it.

`spec`: what will be released, fixed before any record is touched. `budget`: what it may spend. `release`: reserve,
draw, account. `loop`: the one loop over rounds. `training`: the steps one after the other.
`model`: what is released.
"""

from dpadmm import _offer

_NAMES = {
    "budget": "ReusedProfile reusable_profile share_out account_with",
    "model": (
        "Accountability Collusion DataLocation Guarantee MethodChoice NoiseSummary ProfileCost ReleasedModel "
        "RoundFacts SearchCost SiloCost SiloFacts Spending"
    ),
    "loop": "Round Run rounds run_rounds",
    "release": "OpenRelease open_release",
    "spec": "FinalModel ReleaseFacts RunSpec SumQuery TrainingSpec plan_sum mechanisms_of",
    "training": "Outcome Problems Source run_training simulate",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
