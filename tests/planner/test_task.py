"""Tasks: public facts, checked at the way."""

import inspect

import numpy as np
import pytest

from dpadmm.errors import InputError
from dpadmm.planner import Task, plan
from dpadmm.privacy.accounting import Target
from dpadmm.problems.losses import Huber, Logistic
from dpadmm.problems.problem import EmpiricalRisk, PublicFunctions

FACTS = {"sizes": (40, 60), "dimension": 3, "loss": Logistic(), "target": Target(1.0, 1e-5)}


def test_the_public_side_of_the_functions_has_the_constants_and_no_values(make_silos):
    for loss in (Logistic(), Huber(0.3)):
        task = Task(**{**FACTS, "loss": loss})
        risk = EmpiricalRisk(make_silos((40, 60), is_regression=isinstance(loss, Huber)), loss, mu=0.2)
        public = task.functions(mu=0.2)
        assert public.constants == risk.constants
        assert public.sizes.tolist() == risk.sizes.tolist()
        assert isinstance(public.take(np.array([1])), PublicFunctions)
        for read in (public.value, public.gradient):
            with pytest.raises(InputError, match="no data"):
                read(np.zeros((2, 3, 1)))


def test_planning_takes_public_facts_only(make_silos):
    """Nothing that holds records fits into a task, and planning has no other way."""
    silos = make_silos((40, 60))
    assert set(inspect.signature(plan).parameters) == {"task", "method", "n_models", "is_federated"}
    for smuggled in (silos, EmpiricalRisk(silos, Logistic()), silos.features):
        with pytest.raises(InputError, match="public facts"):
            plan(smuggled)
        with pytest.raises(InputError):
            Task(**{**FACTS, "sizes": smuggled})
