"""Data: schemas with public bounds, tables of any kind, encodings, loaders, partitioners, generators."""

from dpadmm import _offer
from dpadmm.data.random_quadratics import random_quadratics as random_quadratics  # else its module hides it

_HOMES = {
    "BinaryLabel": "columns",
    "Categorical": "columns",
    "ClassLabel": "columns",
    "Numeric": "columns",
    "RealLabel": "columns",
    "Schema": "schema",
    "Screening": "schema",
    "TableFormat": "table_format",
    "ThresholdLabel": "columns",
    "encode_table": "tables",
    "load_breast_cancer": "breast_cancer",
    "logistic_table": "generators",
    "random_control": "control",
    "random_quadratics": "random_quadratics",
}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
