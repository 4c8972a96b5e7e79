"""The front door: `fit` and `plan` on tables, as the commands of these names; `run` for one method; `load`.

`fit` and `dpadmm fit` are one path (`training.Training`): the same checks, plan, record and files. What plans are
made from is in `planning`; where tables come from is in `sources`.
"""

from dpadmm import _offer

_HOMES = {"RunResult": "arrays", "fit": "tables", "load": "tables", "plan": "tables", "run": "arrays"}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
