"""A plan becomes the terms of a federation: the same releases, the same certified epsilon, the same model."""

from dataclasses import replace

import numpy as np
import pytest
from tests.builders import with_rounds

from dpadmm.core.dataset import Dataset
from dpadmm.core.spec import TrainingSpec
from dpadmm.core.task import ProfileRule, TableShape
from dpadmm.data.profile import ProfileForm
from dpadmm.errors import InputError
from dpadmm.federation.outcome import outcome_of
from dpadmm.federation.terms import NoiseOrigin, Participant
from dpadmm.models.federated import federation_model
from dpadmm.networks import path
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.planner import Task, plan
from dpadmm.planner.drafting import federation_terms
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import Protection, Unit, View
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge
from dpadmm.problems.regularisers import Box, ElasticNet
from dpadmm.testing import run_plan

pytestmark = pytest.mark.usefixtures("instant_forecasts")
SIZES = (60, 40, 50)
PEOPLE = tuple(Participant(f"s{i}", n, f"{i}" * 64) for i, n in enumerate(SIZES))
PUBLIC = Protection(view=View.PUBLIC)
MASKED = Protection(view=View.AGGREGATE)


def planned(method=None, rounds=6, **facts):
    facts = {"sizes": SIZES, "dimension": 3, "loss": Logistic(), "target": Target(1.0, 1e-5)} | facts
    made = plan(Task(**facts), method=method)
    return with_rounds(made, rounds)


def terms_of(made, **choices):
    return federation_terms(made, "planned", PEOPLE, "a" * 64, "b" * 64, **choices)


@pytest.mark.parametrize(
    ("method", "facts"),
    [
        ("p-admm", {}),
        ("p-admm", {"regulariser": ElasticNet(l2=0.02), "network": path(3)}),
        ("p-admm-recycled", {}),
        ("dvp", {}),
        ("m-admm", {}),
        ("r-admm", {}),
        ("fp-federated", {"regulariser": ElasticNet(l1=0.001)}),
        ("fp-federated", {"regulariser": ElasticNet(0.001, 0.01)}),
        ("fp-coordinator", {"protection": PUBLIC}),
        ("noisy-gradients", {"protection": PUBLIC}),
        ("noisy-gradients", {"protection": MASKED}),
        ("fp-coordinator", {"protection": MASKED, "regulariser": ElasticNet(l1=0.001)}),
    ],
)
def test_planned_terms_give_the_plans_epsilon_and_the_model_of_the_local_engine(setups, tmp_path, method, facts):
    is_masked = facts.get("protection") is MASKED
    world = setups.make(tmp_path, method, approves=False, **(setups.MASKED if is_masked else {}))
    made, known = planned(method, **facts), world.terms
    people = (known.participants, known.coordinator, known.schema)
    terms = federation_terms(made, "planned", *people, noise=NoiseOrigin.TEST, seed=5)
    world.approve(terms)
    coordinator = world.coordinator(terms)
    world.drive(coordinator)
    outcome = outcome_of(coordinator)
    here = run_plan(made, setups.stacked(world.silos.values()), SimulatedSampler(seed=5), progress=False)
    # Terms keep 1e-11 of a pure budget back, for sums that are rounded up.
    np.testing.assert_allclose(outcome.tail_average, here.model, rtol=0, atol=1e-12 if terms.delta else 1e-9)
    said = made.spec.account().curve.epsilon(terms.delta)
    assert said == pytest.approx(1.0, rel=1e-6)
    assert max(silo.epsilon for silo in outcome.costs) == pytest.approx(said, rel=1e-9)
    if terms.delta:  # a ledger's delta is that of the terms
        assert world.statement("s0").spent_epsilon == pytest.approx(outcome.costs[0].epsilon, rel=1e-9)


COUNTED = {
    "target": Target(20.0, 1e-5),  # so that counts of 150 records stand out from the noise
    "table": TableShape(3, counts=63),
    "profile": ProfileRule(share=0.3),
}


@pytest.mark.parametrize(
    ("method", "facts"),
    [
        ("p-admm", {"network": path(3)}),
        ("p-admm-recycled", {}),
        ("fp-federated", {"regulariser": ElasticNet(l1=0.001)}),
        ("fp-coordinator", {"protection": PUBLIC}),
        ("noisy-gradients", {"protection": MASKED}),
        ("fp-federated", {"profile": ProfileRule(is_wanted=False)}),
    ],
)
def test_planned_terms_encode_as_the_plan_does(setups, tmp_path, method, facts):
    """Round 0 included: the same counts, the same encoding, the same model, the same epsilon."""
    is_masked = facts.get("protection") is MASKED
    terms = setups.MASKED if is_masked else {}
    world = setups.make(tmp_path, method, approves=False, budget=(30.0, 1e-5), **terms)
    columns = setups.SCHEMA.columns
    form = ProfileForm(columns)
    made, known = planned(method, **(COUNTED | {"table": TableShape.of(form)} | facts)), world.terms
    terms = federation_terms(
        made, "planned", known.participants, known.coordinator, known.schema, noise=NoiseOrigin.TEST, seed=5
    )
    has_profile = made.profile is not None
    assert terms.clip_radius == made.clip_radius > 0
    assert (terms.profile.share if terms.profile else 0.0) == pytest.approx(0.3 if has_profile else 0.0, rel=1e-9)
    world.approve(terms)
    coordinator = world.coordinator(terms)
    world.drive(coordinator)
    outcome = outcome_of(coordinator)
    records = [silo._records() for silo in world.silos.values()]
    rows = Dataset(setups.SCHEMA, [r.cells for r in records])
    here = run_plan(made, rows, SimulatedSampler(seed=5), progress=False)
    model = federation_model(outcome, setups.SCHEMA)
    assert outcome.rounds == len(outcome.estimates) == 6
    # A share is known from the epsilon it buys to 1e-12; the noise on counts, and all that follows, as well.
    np.testing.assert_allclose(outcome.tail_average, here.model, rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.encoding.centre, here.encoding.centre, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.encoding.radius, here.encoding.radius, rtol=1e-9)
    assert (outcome.counts is not None) == (model.profile is not None) == (here.profile is not None) == has_profile
    public = setups.SCHEMA.encoding(terms.clip_radius)
    assert (model.encoding == public) == (not has_profile)
    if has_profile:
        for ours, theirs in zip(model.profile.columns, here.profile.columns, strict=True):
            np.testing.assert_allclose(ours.counts, theirs.counts, rtol=1e-9, atol=1e-6)
            assert ours.noise_std == pytest.approx(theirs.noise_std, rel=1e-9)
        assert model.profile.form == form.digest
    said = made.spec.account().curve.epsilon(terms.delta)
    assert said == pytest.approx(20.0, rel=1e-6)
    assert max(silo.epsilon for silo in outcome.costs) == pytest.approx(said, rel=1e-8)
    for agent, (name, silo) in enumerate(zip(world.silos, outcome.costs, strict=True)):
        mine = terms.all_releases(agent)
        assert silo.releases == len(mine) == world.statement(name).releases
        assert sum(release.round == 0 for release in mine) == has_profile
    assert world.statement("s0").spent_epsilon == pytest.approx(outcome.costs[0].epsilon, rel=1e-9)


def test_a_plan_that_counts_on_an_earlier_profile_is_refused():
    with pytest.raises(InputError, match="releases its own column profile"):
        terms_of(planned(**(COUNTED | {"profile": ProfileRule().with_earlier("an earlier run", 0.1)})))


@pytest.mark.parametrize("noise", list(NoiseOrigin))
def test_every_release_of_a_plan_with_a_profile_is_the_plans(noise):
    made = planned(**COUNTED, protection=Protection(records_per_person=3, silos_per_person=2))
    agreed, here = terms_of(made, noise=noise), made.spec.noise_plan(is_secure=noise is NoiseOrigin.SECURE)
    assert [release.round for release in agreed.plan] == [release.round for release in here]
    for ours, theirs in zip(agreed.plan, here, strict=True):
        assert ours.bound == pytest.approx(theirs.bound, rel=1e-9)
        assert ours.noise_std == pytest.approx(theirs.noise_std, rel=1e-9)


@pytest.mark.parametrize("noise", list(NoiseOrigin))
@pytest.mark.parametrize(
    ("loss", "fitted"),
    [(Logistic(), Logistic(0.5)), (Huber(0.3), Huber(0.3)), (SmoothedHinge(), SmoothedHinge())],
)
def test_every_release_is_the_plans(loss, fitted, noise):
    made = planned(loss=loss, protection=Protection(records_per_person=3, silos_per_person=2))
    terms = terms_of(made, noise=noise)
    assert terms.loss == made.task.loss == fitted
    assert list(terms.plan) == list(made.spec.noise_plan(is_secure=noise is NoiseOrigin.SECURE))


@pytest.mark.parametrize(
    ("method", "facts", "message"),
    [
        (None, {"sizes": (60, 40, 51)}, "participants have other sizes"),
        (None, {"protection": Protection(unit=Unit.USER)}, "protects records"),
        ("fp-federated", {"regulariser": Box(-1.0, 1.0)}, "cannot describe the penalty Box"),
        ("dp-gd", {}, "method must be one of"),
    ],
)
def test_a_plan_that_no_terms_describe_is_refused(method, facts, message):
    with pytest.raises(InputError, match=message):
        terms_of(planned(method, **facts))


def test_problems_that_share_rows_are_refused():
    made = planned()
    with pytest.raises(InputError, match="trains one model"):
        terms_of(replace(made, spec=TrainingSpec.of(replace(made.run, n_models=3))))
