"""What accounting, calibration, certificates and fingerprints refuse: every row of snapshots/refusals/privacy.txt."""

from dataclasses import dataclass, replace
from math import inf, nan

import numpy as np
from tests.contracts.certificates import changed
from tests.contracts.local_facts import local_function, of
from tests.refusals import check_refusals

from dpadmm.core.budget import account_with
from dpadmm.noise.mechanisms import MessageKind
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy import accounting, curves, protection, releases
from dpadmm.privacy.certificates import gradients, hidden_state, local, objective, sharing, sums
from dpadmm.privacy.certificates.sums import Shares
from dpadmm.privacy.ledger import SiloColumns
from dpadmm.privacy.ledger.entries import encode_release
from dpadmm.privacy.ledger.fingerprints import SiloFingerprint
from dpadmm.privacy.protection import Certificate, NeighbouringRelation, Protection, View
from dpadmm.privacy.releases import GaussianRelease, PoissonSampling, SampledGaussianRelease, SummedGaussianRelease

ADDED = NeighbouringRelation.ADD_OR_REMOVE
BASE = Certificate(bound=1.0, protection=Protection(), theorem="C1", assumptions=("norm <= 1",))
PLAIN = changed(BASE, view=View.PUBLIC)
WIDE = sharing.SingularValues(0.0, 1.0, 1.0)


@dataclass(frozen=True)
class Unknown:
    """A release of no kind."""

    agent: int = 0


def gaussian(std=1.0, count=1, **terms):
    return GaussianRelease(certificate=changed(BASE, **terms), noise_std=std, agent=0, round=0, count=count)


def sampled(std=2.0, agent=0, **terms):
    sampling = PoissonSampling(rate=0.1)
    return SampledGaussianRelease(
        certificate=changed(BASE, **terms), noise_std=std, sampling=sampling, agent=agent, round=0
    )


def summed(shares, silos=5):
    certificate = sums.masked_sum(PLAIN, shares=shares, grid=2.0**-20, dimension=1)
    return SummedGaussianRelease(certificate=certificate, noise_std=1.0, silos=silos, agent=-1, round=1)


def plan_of(release):
    return NoisePlan({(MessageKind("broadcast"), 1): {-1: replace(release, agent=-1)}})


def certify(theorem, **facts):
    return of(theorem, **{"gradient_bound": 1, "n_records": 10} | facts)


def perturbed(**facts):
    return certify(objective.objective_perturbation, **{"curvature_bound": 0.25, "quadratic_curvature": 1.0} | facts)


def broadcast(**facts):
    paper = {"gradient_distance": 1.0, "n_agents": 9, "penalty": 5.0, "strong_convexity": 1.0, "smoothness": 2.0}
    return hidden_state.consensus_broadcast(rounds=3, **paper | facts)


def profile(**facts):
    return sums.column_profile(
        **{"n_numeric": 1, "n_categorical": 1, "n_records": 9, "protection": Protection()} | facts
    )


def columns(given):
    return SiloFingerprint.of(SiloColumns("s", given), bytes(32))


gradient = certify(gradients.full_gradient)
inside = certify(objective.dvp, curvature_bound=0.25, edge_penalty=1, degree=1)


def test_refused(snapshot):
    modules = (accounting, curves, protection, releases, gradients, hidden_state, local, objective, sharing, sums)
    check_refusals(snapshot, "privacy", *map(vars, modules), globals())
