"""Data: schemas with public bounds, loaders, partitioners, generators."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpadmm.datasets.random_quadratics import random_quadratics  # called as its module is, so not when first asked for

if TYPE_CHECKING:
    from dpadmm.datasets.adult import Source, load_adult
    from dpadmm.datasets.adult_synthetic import adult_like, adult_like_frame
    from dpadmm.datasets.breast_cancer import load_breast_cancer
    from dpadmm.datasets.cells import Screened
    from dpadmm.datasets.columns import BinaryLabel, Categorical, ClassLabel, Numeric, RealLabel, ThresholdLabel
    from dpadmm.datasets.control import ControlProblem, random_control
    from dpadmm.datasets.dataset import Dataset
    from dpadmm.datasets.generators import Planted, label_skewed_silos, logistic_table, sparse_regression
    from dpadmm.datasets.heart import load_heart
    from dpadmm.datasets.nist_acs import load_nist_acs
    from dpadmm.datasets.schema import EmptyCells, OutOfRange, Schema, Screening, UnlistedCells
    from dpadmm.datasets.tables import encode_table

__all__ = [
    "BinaryLabel",
    "Categorical",
    "ClassLabel",
    "ControlProblem",
    "Dataset",
    "EmptyCells",
    "Numeric",
    "OutOfRange",
    "Planted",
    "RealLabel",
    "Schema",
    "Screened",
    "Screening",
    "Source",
    "ThresholdLabel",
    "UnlistedCells",
    "adult_like",
    "adult_like_frame",
    "encode_table",
    "label_skewed_silos",
    "load_adult",
    "load_breast_cancer",
    "load_heart",
    "load_nist_acs",
    "logistic_table",
    "random_control",
    "random_quadratics",
    "sparse_regression",
]

_ROOMS = {
    "BinaryLabel": "columns",
    "Categorical": "columns",
    "ClassLabel": "columns",
    "ControlProblem": "control",
    "Dataset": "dataset",
    "EmptyCells": "schema",
    "Numeric": "columns",
    "OutOfRange": "schema",
    "Planted": "generators",
    "RealLabel": "columns",
    "Schema": "schema",
    "Screened": "cells",
    "Screening": "schema",
    "Source": "adult",
    "ThresholdLabel": "columns",
    "UnlistedCells": "schema",
    "adult_like": "adult_synthetic",
    "adult_like_frame": "adult_synthetic",
    "encode_table": "tables",
    "label_skewed_silos": "generators",
    "load_adult": "adult",
    "load_breast_cancer": "breast_cancer",
    "load_heart": "heart",
    "load_nist_acs": "nist_acs",
    "logistic_table": "generators",
    "random_control": "control",
    "sparse_regression": "generators",
}


def __getattr__(name: str) -> Any:
    """Import what is first asked for: plans need columns alone, not the loaders and pandas."""
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)
