"""Tasks: public facts, checked at the way."""

import inspect

import numpy as np
import pytest

from dpadmm.errors import InputError
from dpadmm.networks import ring
from dpadmm.planner import Task, plan
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import Protection, Unit
from dpadmm.problems.losses import Huber, Logistic, Squared
from dpadmm.problems.problem import EmpiricalRisk, PublicFunctions

FACTS = {"sizes": (40, 60), "dimension": 3, "loss": Logistic(), "target": Target(1.0, 1e-5)}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sizes": ()}, "at least one silo"),
        ({"sizes": (40, 0)}, "every size must be a whole number of at least 1"),
        ({"sizes": 40}, "list the records of each silo"),
        ({"dimension": 0}, "dimension must be a whole number"),
        ({"loss": Squared()}, "Use Huber"),
        ({"loss": Logistic}, "such as Logistic"),
        ({"protection": Protection(unit=Unit.FUNCTION)}, "consensus methods"),
        ({"network": ring(3)}, "has 3 agents, but there are 2 silos"),
        ({"regulariser": 0.1}, r"such as ElasticNet\(l2=0.01\)"),
        ({"row_norm": 0.0}, "row_norm must be greater than 0"),
        ({"protection": Protection(silos_per_person=3)}, "at most the number of silos, 2"),
    ],
)
def test_what_is_no_public_fact_is_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        Task(**{**FACTS, **wrong})


@pytest.mark.parametrize(
    ("wrong", "message"), [({"view": "public"}, "a Unit and a View"), ({"records_per_person": 0}, "records_per_person")]
)
def test_what_is_no_protection_is_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        Protection(**wrong)


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
        with pytest.raises(InputError, match="public facts only"):
            plan(smuggled)
        with pytest.raises(InputError):
            Task(**{**FACTS, "sizes": smuggled})
