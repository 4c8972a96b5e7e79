"""What planner defaults reach on real data: mean of ten runs each, noise seed 0.

A plan sees no data. The planner's own constants (the range of c, the cap of 0.7, how near the best counts as good
enough) were settled with Adult and Heart Disease in view, so these tests guard what is reached there; they are no
measure of how the defaults do on other sets.
"""

import os
from dataclasses import replace

import numpy as np
import pytest
from sklearn import datasets

from dpadmm.datasets import load_breast_cancer, load_heart
from dpadmm.datasets.partition import iid
from dpadmm.datasets.tables import encode_table
from dpadmm.engines.private import simulate
from dpadmm.planning import Task, plan
from dpadmm.privacy.calibration import Target
from dpadmm.problems.losses import Logistic

RUNS = 10
DELTA = 1e-5


def planned_models(silos, epsilon):
    task = Task(
        sizes=tuple(silos.sizes.tolist()),
        dimension=silos.dimension,
        loss=Logistic(),
        target=Target(epsilon, DELTA),
        row_norm=silos.row_norm,
    )
    made = plan(task)
    return simulate(made, made.problem(silos), RUNS, seed=0)


def accuracy(silos, models):
    return float(((silos.features @ models) * silos.labels[:, None] > 0).mean())


@pytest.fixture(scope="module")
def adult_silos(adult):
    train = adult.split(np.random.default_rng(0))[0]
    return train.silos(iid(train.n_rows, 5, np.random.default_rng(1)))


@pytest.mark.parametrize(("epsilon", "at_most"), [(0.1, 0.445), (0.5, 0.392), (1.0, 0.373), (5.0, 0.352)])
def test_adult(adult_silos, epsilon, at_most):
    """Training log-loss with five silos; 0.323 without privacy."""
    margins = (adult_silos.features @ planned_models(adult_silos, epsilon)) * adult_silos.labels[:, None]
    assert 0.323 < np.logaddexp(0, -margins).mean() <= at_most


@pytest.mark.skipif(not os.environ.get("DPADMM_DATA"), reason="needs UCI heart disease: set DPADMM_DATA")
def test_heart_disease_at_four_hospitals():
    silos = load_heart().silos()
    share = float((silos.labels > 0).mean())
    assert accuracy(silos, planned_models(silos, 2.0)) >= max(share, 1 - share) + 0.10


def test_breast_cancer_at_four_hospitals():
    """With the demonstration's encoding: as typical value a quarter of the public upper bound, for all columns.

    Means of ten runs lie between 0.914 and 0.925 over six groups of noise seeds. With the schema's own encoding, which
    has no typical values, what all rows share uses up the norm and accuracy stays below 0.8.
    """
    data = load_breast_cancer()
    columns = tuple(replace(column, typical=0.25 * column.upper) for column in data.schema.columns)
    frame = datasets.load_breast_cancer(as_frame=True).frame
    encoded = encode_table(replace(data.schema, columns=columns, row_norm=0.6), frame)
    silos = replace(data, features=encoded.features, labels=encoded.labels, row_norm=0.6).silos()
    assert accuracy(silos, planned_models(silos, 1.0)) >= 0.91
