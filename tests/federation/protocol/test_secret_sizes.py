"""Terms for records that are added or removed: nominal sizes, which no silo compares with its own; empty silos."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from dpadmm.codec import encode
from dpadmm.core.release import PlannedNoise
from dpadmm.federation.errors import Refusal
from dpadmm.federation.inbox import encoding_of, released_profile
from dpadmm.federation.outcome import outcome_of
from dpadmm.federation.terms import NoiseOrigin, Participant
from dpadmm.models.federated import federation_model
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.planner import Task, plan
from dpadmm.planner.drafting import federation_terms
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import NeighbouringRelation, Protection, View
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.problems.silos import Silos
from dpadmm.testing import LocalEngine, Stopping

SIZES = (67, 0, 53)  # true ones
NOMINAL = 45  # of each silo


def make(setups, place, sizes=SIZES, **terms):
    """Return a federation whose terms give every silo the same nominal number of records."""
    sums = {
        "method": "noisy-gradients",
        "settings": {"step": 0.5},
        "edges": (),
        "relation": NeighbouringRelation.ADD_OR_REMOVE,
    }
    rules = {"relation": NeighbouringRelation.ADD_OR_REMOVE, "view": View.PUBLIC}
    return setups.make(place, sizes=sizes, nominal=NOMINAL, policy=rules, **(sums | terms))


def stacked(world, encoding):
    """Return all data in one place, with the nominal sizes."""
    records = [silo._records() for silo in world.silos.values()]
    parts = [each.cells.rows(encoding) for each in records], [each.cells.labels for each in records]
    return Silos.from_parts(*parts, row_norm=1.0, nominal=[NOMINAL] * len(records))


@pytest.mark.parametrize("is_counted", [False, True])
def test_an_empty_silo_takes_part_and_the_model_is_that_of_the_local_engine(setups, tmp_path, is_counted):
    world = make(setups, tmp_path, **(setups.COUNTED if is_counted else {}))
    coordinator = world.coordinator()
    world.drive(coordinator)
    outcome, terms = outcome_of(coordinator), world.terms
    assert outcome.rounds == 4
    encoding = encoding_of(terms, setups.SCHEMA, outcome.counts)
    risk = EmpiricalRisk(stacked(world, encoding), Logistic(), world.terms.mu)
    noise = PlannedNoise(terms.plan, SimulatedSampler(seed=5))
    engine = LocalEngine(tolerance=world.terms.tolerance, progress=False)
    run = engine.run(terms.algorithm, replace(terms.problem, functions=risk), Stopping(rounds=4), None, noise)
    np.testing.assert_allclose(outcome.estimate, run.estimate[:, 0], rtol=0, atol=1e-12)
    if is_counted:
        profile = released_profile(terms, setups.SCHEMA, outcome.counts)
        assert (profile.is_nominal, profile.records) == (True, 3 * NOMINAL)


def test_what_is_shown_does_not_depend_on_the_sizes(setups, tmp_path):
    """Outcomes, model files, ledgers and silos' logs: no true size, and the same words whatever they are."""
    reported = []
    for i, sizes in enumerate((SIZES, (59, 71, 0))):
        world = make(setups, tmp_path / str(i), sizes, noise=NoiseOrigin.SECURE, **setups.COUNTED)
        coordinator = world.coordinator()
        world.drive(coordinator)
        outcome = outcome_of(coordinator)
        model = federation_model(outcome, setups.SCHEMA)
        statements = [str(world.statement(name)).split("Head")[0] for name in world.silos]
        logs = [
            [(entry.event, entry.detail.replace(world.terms.digest, "")) for entry in silo.store.log()]
            for silo in world.silos.values()
        ]
        others = ("coefficients", "profile", "created")  # numbers of their own: a minute can be 59
        public = {name: value for name, value in encode(model).items() if name not in others}
        for text in (model.statement, json.dumps(public), str(statements), str(outcome.costs)):
            assert not any(re.search(rf"(?<![\w.]){n}(?![\w.])", str(text)) for n in (*sizes[:2], sum(sizes)) if n)
        assert model.guarantee.protection.relation.value == "add-or-remove"
        assert "nominally 135" in model.statement
        reported.append((model.statement, statements, outcome.costs, str(logs).replace(world.terms.digest[:16], "")))
    assert reported[0] == reported[1]


def test_a_silos_entry_tells_its_size_only_where_that_is_public(setups, tmp_path):
    assert make(setups, tmp_path / "secret", approves=False).first.entry().records is None
    public = setups.make(tmp_path / "public", approves=False)
    assert public.first.entry().records == public.first.records


def test_no_silo_refuses_by_its_size_and_all_refuse_the_other_relation(setups, tmp_path):
    world = make(setups, tmp_path, approves=False)
    for records in (1, 40, 66, 67, 68, 10**6):
        people = tuple(replace(each, records=records) for each in world.terms.participants)
        world.approve(replace(world.terms, run=f"of {records}", participants=people))
    with pytest.raises(Refusal, match="add-or-remove neighbours only"):
        world.first.approve(setups.changed(world.terms, relation=NeighbouringRelation.REPLACE_ONE))


def test_the_certificate_is_half_of_that_for_replaced_records(setups, tmp_path):
    terms = make(setups, tmp_path, approves=False).terms
    both = terms, setups.changed(terms, relation=NeighbouringRelation.REPLACE_ONE)
    added, replaced = (next(iter(each.plan)).certificate for each in both)
    assert added.bound == pytest.approx(replaced.bound / 2, rel=1e-6)
    assert (added.protection.relation, added.protection.view) == (NeighbouringRelation.ADD_OR_REMOVE, View.PUBLIC)


def test_a_plan_writes_the_relation_into_the_terms(instant_forecasts):
    hidden = Protection(relation=NeighbouringRelation.ADD_OR_REMOVE, view=View.PUBLIC)
    target = Target(1.0, 1e-5)
    made = plan(Task(sizes=(NOMINAL,) * 2, dimension=3, loss=Logistic(), target=target, protection=hidden))
    people = tuple(Participant(f"s{i}", NOMINAL, f"{i}" * 64) for i in range(2))
    terms = federation_terms(made, "planned", people, "a" * 64, "b" * 64)
    assert terms.plan.account().protection.relation is NeighbouringRelation.ADD_OR_REMOVE
