"""What is around a released model: its file, its statement, what it predicts, how it is built, what was measured."""

from dpadmm import _offer

_HOMES = {
    "Basis": "measurement",
    "EvaluatedFigure": "measurement",
    "Measurement": "measurement",
    "OtherFigure": "measurement",
    "released_model": "build",
}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
