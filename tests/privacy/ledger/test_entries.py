"""Releases survive the trip through canonical JSON exactly."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.privacy.ledger import tools

from dpadmm.codec import canonical, decode
from dpadmm.privacy.ledger.entries import encode_release
from dpadmm.privacy.protection import Certificate, NeighbouringRelation, Norm, Protection, Strength, Unit, View
from dpadmm.privacy.releases import (
    KINDS,
    BareRelease,
    CoordinateLaplaceRelease,
    FixedSizeSampling,
    GaussianRelease,
    ObjectiveRelease,
    PoissonSampling,
    Release,
    SampledGaussianRelease,
    SphericalLaplaceRelease,
    SummedGaussianRelease,
)

QUICK = settings(deadline=None, derandomize=True, max_examples=60)
AMOUNT = st.floats(min_value=0, max_value=1.7e308, allow_subnormal=True)
COUNT = st.integers(1, 2**40)
INDEX = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(min_size=1, max_size=8)

protections = st.builds(
    Protection,
    unit=st.sampled_from([Unit.RECORD, Unit.USER, Unit.FUNCTION]),
    relation=st.sampled_from(NeighbouringRelation),
    view=st.sampled_from([view for view in View if view is not View.AGGREGATE]),
    records_per_person=COUNT,
    silos_per_person=COUNT,
)
certificates = st.builds(
    Certificate,
    bound=AMOUNT,
    protection=protections | st.builds(Protection, view=st.just(View.AGGREGATE), colluders=st.integers(0, 9)),
    theorem=TEXT,
    assumptions=st.lists(TEXT, min_size=1, max_size=3).map(tuple),
    norm=st.sampled_from(Norm),
    strength=st.sampled_from(Strength),
    log_jacobian=AMOUNT,
    jacobian_free_rate=st.none() | AMOUNT,
)
samplings = st.builds(PoissonSampling, rate=st.floats(1e-300, 1)) | st.builds(
    lambda a, b: FixedSizeSampling(size=min(a, b), population=max(a, b)), COUNT, COUNT
)
PLACE = {"agent": INDEX, "round": INDEX, "count": COUNT}
BY_TYPE = {
    GaussianRelease: st.builds(GaussianRelease, certificate=certificates, noise_std=AMOUNT, **PLACE),
    SummedGaussianRelease: st.builds(
        SummedGaussianRelease,
        certificate=certificates,
        noise_std=AMOUNT,
        silos=st.integers(min_value=2, max_value=2**40),
        **PLACE,
    ),
    SampledGaussianRelease: st.builds(
        SampledGaussianRelease, certificate=certificates, noise_std=AMOUNT, sampling=samplings, **PLACE
    ),
    SphericalLaplaceRelease: st.builds(SphericalLaplaceRelease, certificate=certificates, rate=AMOUNT, **PLACE),
    CoordinateLaplaceRelease: st.builds(CoordinateLaplaceRelease, certificate=certificates, scale=AMOUNT, **PLACE),
    ObjectiveRelease: st.builds(ObjectiveRelease, certificate=certificates, rate=AMOUNT, **PLACE),
    BareRelease: st.builds(BareRelease, reason=TEXT, **PLACE),
}


def test_every_kind_of_release_is_tried():
    assert set(BY_TYPE) == set(KINDS)


@pytest.mark.parametrize("kind", list(BY_TYPE), ids=lambda kind: kind.__name__)
def test_round_trip_is_exact(kind):
    @QUICK
    @given(BY_TYPE[kind])
    def check(release):
        text = canonical(encode_release(release))
        assert text.isascii()
        back = decode(Release, json.loads(text))
        assert back == release
        assert type(back) is kind
        assert canonical(encode_release(back)) == text

    check()


def test_equal_records_give_equal_text():
    plain = tools.gaussian(3, ratio=1.0)
    disguised = replace(
        plain, certificate=replace(plain.certificate, bound=np.float32(1)), round=np.int64(3), noise_std=1
    )
    assert canonical(encode_release(disguised)) == canonical(encode_release(plain))
    zero = replace(plain, certificate=replace(plain.certificate, bound=0.0))
    minus = replace(plain, certificate=replace(plain.certificate, bound=-0.0))
    assert canonical(encode_release(zero)) == canonical(encode_release(minus))
