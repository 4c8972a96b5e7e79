"""Profiles that a ledger keeps: paid for, about these very columns, unchanged, and found again at no cost."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from dpadmm.errors import InputError, LedgerError
from dpadmm.privacy.accounting import compose
from dpadmm.privacy.certificates.sums import column_profile, profile_on_grid
from dpadmm.privacy.ledger import Budget, Ledger, ProfiledColumns, SiloColumns, open_for_reading
from dpadmm.privacy.protection import ONE_RECORD, Protection, View
from dpadmm.privacy.releases import GaussianRelease, Origin

BUDGET = Budget(epsilon=30.0, delta=1e-5)
DATA = tuple(
    SiloColumns(name, {"x": np.arange(6.0).reshape(3, 2) + 10 * i, "y": [1, -1, 1]}) for i, name in enumerate("ab")
)
SUBJECT = ProfiledColumns("form", ("x[0]", "x[1]"), 6, ONE_RECORD)
COUNTS = (3.25, -0.1, 1e-17, 12345.678901234567, 0.0)


def released(noise_std: float = 3.0, agents: tuple[int, ...] = (0, 1), **protection) -> list[GaussianRelease]:
    counts = column_profile(n_numeric=2, n_categorical=0, n_records=3, protection=Protection(**protection))
    certificate = profile_on_grid(counts, grid=2.0**-20, n_bins=5)
    return [GaussianRelease(certificate=certificate, noise_std=noise_std, agent=agent, round=0) for agent in agents]


def buy(ledger: Ledger, run: str = "first", noise_std: float = 3.0, subject: ProfiledColumns = SUBJECT) -> None:
    confirmed = ledger.confirm(DATA)
    confirmed.reserve(released(noise_std), run=run, algorithm="p-admm", origin=Origin.SECURE)
    confirmed.keep_profile(subject, run, COUNTS, noise_std * np.sqrt(2))


@pytest.fixture
def opened(path):
    with Ledger.create(path, DATA, BUDGET) as ledger:
        yield ledger


def test_a_profile_is_found_again_bit_for_bit(opened, path, tmp_path):
    buy(opened)
    spent = opened.statement().spent_epsilon
    kept = opened.confirm(DATA).kept_profile(SUBJECT)
    assert kept.counts == COUNTS
    assert (kept.run, kept.noise_std, kept.records, kept.columns) == ("first", 3.0 * np.sqrt(2), 6, 2)
    assert opened.confirm(DATA[::-1]).kept_profile(SUBJECT) == kept  # silos in any order
    assert opened.statement().spent_epsilon == spent
    assert pickle.loads(pickle.dumps(opened)).profiles() == (kept,)
    with open_for_reading(path) as reading:
        assert reading.profiles() == (kept,)
        reading.verify()
        reading.export_json(tmp_path / "export.json")
    entries = json.loads((tmp_path / "export.json").read_text())["entries"]
    assert entries[-1]["body"]["event"] == "profile"
    assert tuple(entries[-1]["body"]["counts"]) == COUNTS
    opened.confirm(DATA).reserve(released(9.0), run="later", algorithm="p-admm", origin=Origin.SECURE)
    opened.verify()


@pytest.mark.parametrize(
    "subject",
    [
        replace(SUBJECT, form="other bins"),
        replace(SUBJECT, columns=("x[1]", "x[0]")),
        replace(SUBJECT, columns=("x[0]",)),
        replace(SUBJECT, columns=("x[0]", "z[0]")),
        replace(SUBJECT, columns=()),
        replace(SUBJECT, records=2),
        replace(SUBJECT, protection=Protection(view=View.PUBLIC)),
        replace(SUBJECT, protection=Protection(records_per_person=2)),
    ],
    ids=["form", "order", "fewer", "unknown", "none", "records", "view", "people"],
)
def test_a_profile_of_anything_else_is_not_used(opened, subject):
    buy(opened)
    assert opened.confirm(DATA).kept_profile(subject) is None


def test_other_values_under_the_same_names_are_other_columns(opened):
    buy(opened)
    renamed = [SiloColumns(each.name, {"x": each.columns["x"][:, ::-1], "y": each.columns["y"]}) for each in DATA]
    assert opened.confirm(renamed).kept_profile(SUBJECT) is None
    alike = [SiloColumns(each.name, {"a": each.columns["x"], "y": each.columns["y"]}) for each in DATA]
    assert opened.confirm(alike).kept_profile(replace(SUBJECT, columns=("a[0]", "a[1]"))) is not None
    with pytest.raises(LedgerError, match="other data"):
        opened.confirm([DATA[0], SiloColumns("b", {"x": np.zeros((3, 2)), "y": [1, -1, 1]})])


def test_the_profile_with_the_least_noise_is_used(opened):
    for run, noise_std in (("first", 3.0), ("second", 2.0), ("third", 4.0)):
        buy(opened, run, noise_std)
    assert opened.confirm(DATA).kept_profile(SUBJECT).run == "second"
    assert opened.statement().profiles == 3


def test_only_what_was_paid_for_is_kept(opened):
    confirmed = opened.confirm(DATA)
    with pytest.raises(InputError, match="not paid"):
        confirmed.keep_profile(SUBJECT, "first", COUNTS, 3.0)
    confirmed.reserve(released(), run="first", algorithm="p-admm", origin=Origin.SECURE)
    training = [replace(each, round=1) for each in released()]
    elsewhere = [replace(each, certificate=replace(each.certificate, theorem="C1 + C8")) for each in released()]
    for run, releases in (("training", training), ("metric", elsewhere)):
        confirmed.reserve(releases, run=run, algorithm="p-admm", origin=Origin.SECURE)
        with pytest.raises(InputError, match="not paid"):
            confirmed.keep_profile(SUBJECT, run, COUNTS, 3.0 * np.sqrt(2))
    noise_std, elsewhere = 3.0 * np.sqrt(2), replace(SUBJECT, columns=("z[0]",))
    for subject, counts, claimed, said in (
        (SUBJECT, COUNTS, 3.0, "were released"),
        *((SUBJECT, counts, noise_std, "finite numbers") for counts in ((np.nan, 1.0), (1.0,), ())),
        (elsewhere, COUNTS, noise_std, "all columns"),
    ):
        with pytest.raises(InputError, match=said):
            confirmed.keep_profile(subject, "first", counts, claimed)
    confirmed.keep_profile(SUBJECT, "first", COUNTS, noise_std)
    with pytest.raises(InputError, match="already stored"):
        confirmed.keep_profile(SUBJECT, "first", COUNTS, noise_std)
    assert len(opened.profiles()) == 1


def test_statement_and_runs_tell_what_the_profile_cost(opened):
    buy(opened)
    rounds = [replace(each, round=k, noise_std=10.0) for k in (1, 2) for each in released()]
    opened.confirm(DATA).reserve(rounds, run="first", algorithm="p-admm", origin=Origin.SECURE)
    opened.confirm(DATA).reserve(rounds, run="second", algorithm="p-admm", origin=Origin.SECURE)
    first, second = opened.runs()
    assert first.profile_epsilon == pytest.approx(compose(released()[:1]).epsilon(1e-5), rel=1e-9)
    assert first.profile_epsilon < first.alone_epsilon
    assert second.profile_epsilon is None
    assert "Profiles   1 kept" in str(opened.statement())


@pytest.mark.parametrize(
    ("facts", "agents", "times"),
    [({}, (0, 1), 1), ({"silos_per_person": 2}, (0, 1), 2), ({"view": View.PUBLIC}, (-1,), 1)],
)
def test_a_model_that_rests_on_it_counts_what_it_cost_the_worst_person(path, facts, agents, times):
    protection, subject = Protection(**facts), replace(SUBJECT, protection=Protection(**facts))
    releases = released(3.0, agents, **facts)
    with Ledger.create(path, DATA, BUDGET, protection=protection) as ledger:
        confirmed = ledger.confirm(DATA)
        confirmed.reserve(releases, run="first", algorithm="p-admm", origin=Origin.SECURE)
        confirmed.keep_profile(subject, "first", COUNTS, 3.0 * np.sqrt(len(agents)))
        one = confirmed.release_of(confirmed.kept_profile(subject))
    square = (releases[0].certificate.bound / 3.0) ** 2
    assert one.cost.m_squared == pytest.approx(times * square, rel=1e-6)
    assert one.cost.m_squared >= times * square
    assert one.agent < 0


def test_of_silos_with_unequal_noise_the_worst_protected_person_counts(opened):
    strong, weak = released(6.0, (0,)), released(3.0, (1,))
    confirmed = opened.confirm(DATA)
    confirmed.reserve([*strong, *weak], run="first", algorithm="p-admm", origin=Origin.SECURE)
    confirmed.keep_profile(SUBJECT, "first", COUNTS, np.hypot(6.0, 3.0))
    one = confirmed.release_of(confirmed.kept_profile(SUBJECT))
    assert one.cost.m_squared == pytest.approx((weak[0].certificate.bound / 3.0) ** 2, rel=1e-6)
