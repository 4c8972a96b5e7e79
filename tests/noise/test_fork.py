"""Processes split off after a draw must not repeat each other's noise."""

import os

import numpy as np
import pytest

from dpadmm.noise.mechanisms import MessageKind
from dpadmm.noise.sampler import Draw, SecureSampler, grid_for
from dpadmm.privacy.protection import Certificate, Protection, Unit, View
from dpadmm.privacy.releases import GaussianRelease, SphericalLaplaceRelease

GRID = grid_for(2.0)
CERTIFICATE = Certificate(
    bound=1.0,
    protection=Protection(unit=Unit.RECORD, view=View.EAVESDROPPER),
    theorem="C1",
    assumptions=("-",),
    grid=GRID,
    grid_dimension=8,
)
RELEASES = (
    GaussianRelease(certificate=CERTIFICATE, noise_std=2.0, agent=0, round=1),
    SphericalLaplaceRelease(certificate=CERTIFICATE, rate=0.5, agent=0, round=1),
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("release", RELEASES, ids=lambda release: type(release).__name__)
def test_forked_processes_draw_different_noise(release):
    def draw():
        return SecureSampler().perturb(np.zeros((1, 8, 1)), release, Draw(MessageKind("m"), 1, [0])).tobytes()

    seen = [draw()]
    for _ in range(3):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, draw())
            os._exit(0)
        os.waitpid(child, 0)
        seen.append(os.read(read, 64))
        os.close(read)
        os.close(write)
    seen.append(draw())
    assert len(set(seen)) == len(seen)
    assert {len(noise) for noise in seen} == {64}
