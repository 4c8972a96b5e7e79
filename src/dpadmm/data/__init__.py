"""Data: schemas with public bounds, tables of any kind, encodings, loaders, partitioners, generators."""

from dpadmm import _offer
from dpadmm.data.random_quadratics import random_quadratics as random_quadratics  # else its module hides it

_HOMES = {
    "BinaryLabel": "columns",
    "Categorical": "columns",
    "ClassLabel": "columns",
    "ColumnCounts": "profile",
    "ColumnStatistics": "column_statistics",
    "ControlProblem": "control",
    "Dataset": "dataset",
    "EmptyCells": "schema",
    "NoisyFigure": "column_statistics",
    "Numeric": "columns",
    "OutOfRange": "schema",
    "Planted": "generators",
    "RealLabel": "columns",
    "ReleasedProfile": "profile",
    "RowEncoding": "encoding",
    "Schema": "schema",
    "SchemaDraft": "draft",
    "Screened": "cells",
    "Screening": "schema",
    "TableFormat": "table_format",
    "TargetScale": "encoding",
    "ThresholdLabel": "columns",
    "UnlistedCells": "schema",
    "by_column": "partition",
    "by_sizes": "partition",
    "dirichlet_label_skew": "partition",
    "encode_table": "tables",
    "iid": "partition",
    "load_breast_cancer": "breast_cancer",
    "logistic_table": "generators",
    "random_control": "control",
    "random_quadratics": "random_quadratics",
    "read_table": "tables",
}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
