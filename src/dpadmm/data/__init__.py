"""Data: schemas with public bounds, tables of any kind, encodings, loaders, partitioners, generators."""

from dpadmm import _offer

_HOMES = {
    "BinaryLabel": "columns",
    "Categorical": "columns",
    "ClassLabel": "columns",
    "Numeric": "columns",
    "RealLabel": "columns",
    "Schema": "schema",
    "ThresholdLabel": "columns",
    "encode_table": "tables",
    "load_breast_cancer": "examples",
    "logistic_table": "examples",
    "random_quadratics": "examples",
}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
