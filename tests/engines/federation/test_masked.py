"""Sums under masks in a federation: the model of the in-process run bit for bit, on the same terms, durably."""

from dataclasses import replace

import numpy as np
import pytest

from dpadmm.datasets.profile import ProfileForm
from dpadmm.engines.federation import messages
from dpadmm.engines.federation.agreement import Aggregation, Agreement, Missing, NoiseOrigin, Participant
from dpadmm.engines.federation.columns import encoding_of
from dpadmm.engines.federation.messages import Keyed, Masked
from dpadmm.engines.federation.outcome import outcome_of
from dpadmm.engines.federation.terms import agreed_run
from dpadmm.engines.local import LocalEngine
from dpadmm.engines.private import masks_of, run_course
from dpadmm.engines.round_zero import draw_profile
from dpadmm.errors import InputError
from dpadmm.noise.planned import PlannedNoise
from dpadmm.noise.simulated import SimulatedSampler
from dpadmm.privacy.protection import View
from dpadmm.problems.problem import Problem

METHODS = {
    "noisy-gradients": {"step": 0.5},
    "fp-coordinator": {"gamma": 1.0},
    "consensus-gaussian": {"rho": 0.3},
}


def make(worlds, place, method="noisy-gradients", **terms):
    return worlds.make(place, method, METHODS[method], **(worlds.MASKED | terms))


@pytest.mark.parametrize("method", METHODS)
def test_the_model_is_that_of_the_in_process_run_bit_for_bit(worlds, tmp_path, method):
    """With masks and without, and with masks in the process."""
    world = make(worlds, tmp_path, method, rounds=6, ridge=0.01)
    coordinator = world.coordinator()
    carried = world.drive(coordinator).carried
    terms, outcome = coordinator.terms, outcome_of(coordinator)
    problem = world.problem()
    sampler, engine = SimulatedSampler(seed=world.agreement.seed), LocalEngine(progress=False)
    (here,) = run_course(terms.course, [problem], sampler, label="here", engine=engine)
    assert outcome.estimate.tolist() == here.run.estimate[:, 0].tolist()
    assert outcome.tail_average.tolist() == pytest.approx(here.run.tail_average[:, 0].tolist(), rel=1e-14)
    words = [messages.read(one.envelope[64:]) for one in carried if not one.is_request]
    assert sum(isinstance(one, Masked) for one in words) == 3 * 6
    assert not any(isinstance(one, messages.Stepped) for one in words)
