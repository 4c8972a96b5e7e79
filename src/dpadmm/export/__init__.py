"""A released model for readers without this package: plain JSON, and a scikit-learn pipeline."""

from dpadmm import _offer

_HOMES = {"model_as_json": "plain_json", "plain_pipeline": "pipeline"}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
