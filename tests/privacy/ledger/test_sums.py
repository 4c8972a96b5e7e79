"""Sums under masks in a ledger: admitted where its observers are covered, counted once for all, and said so."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.contracts.certificates import changed

from dpadmm.codec import encode
from dpadmm.errors import InputError
from dpadmm.privacy.accounting import account_for
from dpadmm.privacy.certificates.sums import Shares, column_profile, masked_sum, profile_on_grid
from dpadmm.privacy.ledger import Budget, Ledger, ProfiledColumns, SiloColumns, open_for_reading
from dpadmm.privacy.protection import Certificate, Norm, Protection, Unit, View
from dpadmm.privacy.releases import CoordinateLaplaceRelease, GaussianRelease, Origin, SummedGaussianRelease

BUDGET = Budget(epsilon=3.0, delta=1e-5)
DATA = tuple(SiloColumns(name, {"x": [i + 0.5, 1.0], "y": [1, -1]}) for i, name in enumerate("abcde"))
PLAIN = Certificate(
    bound=1.0, protection=Protection(unit=Unit.RECORD, view=View.PUBLIC), theorem="C9", assumptions=("bounded",)
)


def sums(colluders: int) -> Protection:
    return Protection(view=View.AGGREGATE, colluders=colluders)


def summed(colluders: int, noise_std: float = 5.0, k: int = 1) -> SummedGaussianRelease:
    certificate = masked_sum(PLAIN, shares=Shares(5, colluders), grid=2.0**-30, dimension=2)
    return SummedGaussianRelease(certificate=certificate, noise_std=noise_std, silos=5, agent=-1, round=k)


def made(path, protection: Protection) -> Ledger:
    return Ledger.create(path, DATA, BUDGET, protection=protection)


def reserve(ledger: Ledger, *releases) -> None:
    ledger.confirm(DATA).reserve(releases, run="run", algorithm="noisy-gradients", origin=Origin.SECURE)


def test_a_budget_for_sums_takes_noise_of_every_kind_and_says_whom_it_counts(path, tmp_path):
    own = changed(PLAIN, view=View.EAVESDROPPER)
    laplace = CoordinateLaplaceRelease(certificate=replace(own, norm=Norm.L1), scale=4.0, agent=0, round=1)
    gaussian = GaussianRelease(certificate=own, noise_std=9.0, agent=0, round=2)
    with made(path, sums(1)) as ledger:
        reserve(ledger, summed(1, k=3), summed(2, k=4), laplace, gaussian)
        said = ledger.statement()
        assert said.spent_epsilon > 0.25
        assert str(sums(1).observer) in str(said)
        assert "up to 1" in str(said)
    with open_for_reading(path) as read:
        assert read.protection == sums(1)
        assert read.statement().spent_epsilon == said.spent_epsilon
        read.export_json(tmp_path / "export.json")
    exported = json.loads((tmp_path / "export.json").read_text())
    assert exported["protection"] == encode(sums(1))
    assert [each["body"]["release"].get("silos") for each in exported["entries"][1:]] == [5, 5, None, None]


def test_a_budget_for_sums_needs_two_honest_silos(path):
    with pytest.raises(InputError, match="6 silos"):
        made(path, sums(4))
    assert not path.exists()


def test_a_kept_profile_remembers_whose_shares_it_is_made_of(path):
    counts = column_profile(n_numeric=1, n_categorical=0, n_records=10, protection=sums(1), is_noise_shared=True)
    shares = Shares(5, 1)
    certificate = profile_on_grid(counts, grid=2.0**-20, n_bins=3, shares=shares)
    release = SummedGaussianRelease(certificate=certificate, noise_std=8.0, silos=5, agent=-1, round=0)
    subject = ProfiledColumns("form", ("x[0]",), 10, sums(1))
    with made(path, sums(1)) as ledger:
        reserve(ledger, release)
        confirmed = ledger.confirm(DATA)
        with pytest.raises(InputError, match="noise"):
            confirmed.keep_profile(subject, "run", (1.0, 2.0, 3.0), release.noise_std)
        confirmed.keep_profile(subject, "run", (1.0, 2.0, 3.0), release.total_std)
        kept = confirmed.kept_profile(subject)
        paid = confirmed.release_of(kept)
        assert confirmed.kept_profile(replace(subject, protection=sums(2))) is None
    found, own = account_for([paid]), account_for([release])
    assert found.curve.epsilon(1e-5) == pytest.approx(own.curve.epsilon(1e-5), rel=1e-9)
    assert found.if_all_collude.epsilon(1e-5) == pytest.approx(own.if_all_collude.epsilon(1e-5), rel=1e-9)
    assert np.isclose(kept.noise_std, 8.0 * np.sqrt(5 / 4))
