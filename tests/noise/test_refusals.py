"""What draws, schedules, plans, shares and masks refuse: every row of tests/snapshots/refusals/noise.txt."""

import hashlib
from dataclasses import replace
from functools import partial
from math import inf, nan

import numpy as np
from tests.contracts import noise_contract
from tests.contracts.noise_contract import certificate, message
from tests.refusals import check_refusals

from dpadmm.core.release import PlannedNoise
from dpadmm.noise import mechanisms
from dpadmm.noise.masks import MOST_MULTIPLE, MaskKey, PairwiseMasks, to_uint64
from dpadmm.noise.mechanisms import COORDINATOR, AgentReleases, Family, MechanismSpec, MessageKind
from dpadmm.noise.plan import calibrate, check_grids, vector_on_grid
from dpadmm.noise.sampler import Draw, SecureSampler, SimulatedSampler, family_of, grid_for
from dpadmm.privacy.accounting import PureTarget, Target, calibrate_gaussian
from dpadmm.privacy.certificates.sums import Shares
from dpadmm.privacy.protection import Norm, View
from dpadmm.privacy.releases import BareRelease, CoordinateLaplaceRelease, PoissonSampling

MESSAGE, OTHER = MessageKind("message"), MessageKind("other")
TARGET, GRID = Target(epsilon=1.0, delta=1e-5), 2.0**-31
ON_GRID = partial(vector_on_grid, dimension=6, shares=Shares(5))
KEYS = [MaskKey.of(hashlib.sha256(f"test key {i}".encode()).digest()) for i in range(3)]
PUBLIC = [key.public for key in KEYS]
# The points of small order: RFC 7748, section 6.1.
POINTS = (
    *(0, 1, 325606250916557431795983626356110631294008115727848805560023387167927233504),
    *(39382357235489614581723060781553021112529911719440698176882885853963445705823, 2**255 - 20),
)
SMALL_ORDER = [point.to_bytes(32, "little").hex() for point in POINTS]
# With the ignored top bit set, a copied key would pass for another one.
COPIED = bytes.fromhex(PUBLIC[0])[:31].hex() + f"{bytes.fromhex(PUBLIC[0])[31] | 0x80:02x}"


def drawn(agents, replicas=1, round=1):
    return Draw(MESSAGE, round, agents, replicas)


def simulated(releases, values=None, sampler=SimulatedSampler(1)):  # noqa: B008 - a frozen value
    return sampler.perturb(np.zeros((2, 3, 1)) if values is None else values, releases, message(agents=2))


secure = partial(simulated, sampler=SecureSampler())


def mechanism(agents=(0,), kind=MESSAGE, family=Family.GAUSSIAN, rounds=(1,), norm=Norm.L2, sampling=None, **more):
    own = certificate(norm=norm, grid=None, grid_dimension=None, view=View.PUBLIC)
    rows = [AgentReleases(agent, rounds, (own,) * len(rounds), sampling) for agent in agents]
    return MechanismSpec(kind, family, tuple(rows), **more)


def shared():
    return calibrate([mechanism((COORDINATOR,), rounds=(1, 2))], TARGET, on_grid=ON_GRID, shares=Shares(5))


def masks(agent, key, *listed):
    return PairwiseMasks.of(agent, key, listed, b"run")


def test_refused(snapshot):
    assert KEYS[1].shared_with(COPIED) == KEYS[1].shared_with(PUBLIC[0])
    check_grids(shared(), n_records=10**6)
    check_refusals(snapshot, "noise", vars(noise_contract), vars(mechanisms), globals())
