"""Loaders against published facts about the data, and against small hand-written files."""

import gzip
import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import optimize
from scipy.special import expit
from sklearn import datasets as sklearn_datasets

from dpadmm.data import examples, load_breast_cancer
from dpadmm.errors import InputError
from dpadmm.problems.silos import row_norms
from dpadmm_research.datasets import adult, nist_acs
from dpadmm_research.datasets.adult import Source, load_adult
from dpadmm_research.datasets.heart import load_heart
from dpadmm_research.datasets.nist_acs import load_nist_acs

GOLDEN = json.loads((Path(__file__).parents[3] / "tests" / "golden" / "adult.json").read_text(encoding="utf-8"))

needs_data = pytest.mark.skipif(
    not os.environ.get("DPADMM_DATA"), reason="set DPADMM_DATA to the folder with adult/, heart_disease/, nist_acs/"
)


def positive_rates(silos):
    return [float((silos.part(i)[1] > 0).mean()) for i in range(silos.n_agents)]


@needs_data
def test_adult_files_are_the_published_ones():
    folder = Path(os.environ["DPADMM_DATA"]) / "adult"
    for name, start, end in (("adult.data", "5b002646", "6603d"), ("adult.test", "a2a9044b", "9c05")):
        digest = hashlib.sha256(gzip.decompress((folder / f"{name}.gz").read_bytes())).hexdigest()
        assert digest.startswith(start)
        assert digest.endswith(end)


@needs_data
def test_adult_has_its_published_size_and_the_golden_optimum():
    data = load_adult()
    assert data.features.shape == (GOLDEN["n"], GOLDEN["d"])
    assert len(adult._read_files(None)) == 48_842
    assert data.notes == ()
    assert (data.labels > 0).mean() == pytest.approx(GOLDEN["positive_rate"], abs=1e-15)
    norms = row_norms(data.features)
    assert norms.max() <= 1 + 1e-12
    assert norms.min() >= 1 - 1e-12  # eight one-hot cells make every row longer than 1 before shortening
    row = GOLDEN["rows"][0]
    mu, rows = row["mu"], data.features * data.labels[:, None]

    def objective(w):
        margins = rows @ w
        value = np.logaddexp(0, -margins).mean() + mu / 2 * w @ w
        return value, -(rows.T @ expit(-margins)) / data.n_rows + mu * w

    found = optimize.minimize(
        objective, np.zeros(data.dimension), jac=True, method="L-BFGS-B",
        options={"maxiter": 2000, "ftol": 0, "gtol": 1e-8},
    )  # fmt: skip
    assert found.fun == pytest.approx(row["objective"], abs=1e-9)
    assert np.linalg.norm(found.x) == pytest.approx(row["w_norm"], rel=1e-4)


def test_adult_ranges_are_the_documented_ones():
    short = {"capital-gain": "gain", "capital-loss": "loss", "hours-per-week": "hours"}
    stated = {c.name: [c.lower, c.upper] for c in adult.SCHEMA.columns if hasattr(c, "lower")}
    assert {short.get(name, name): bounds for name, bounds in stated.items()} == GOLDEN["numeric_ranges_used"]
    assert adult.SCHEMA.dimension == 105  # with the constant


LINE = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, {}, 0, 40, {}, {}"


@pytest.fixture
def tiny_adult(tmp_path):
    """Five people: one with a missing country, one in the test file."""
    lines = [LINE.format(0, "?", "<=50K"), LINE.format(99999, "Cuba", ">50K"), LINE.format(0, "Peru", "<=50K"), ""]
    (tmp_path / "adult.data").write_text("\n".join(lines), encoding="utf-8")
    with gzip.open(tmp_path / "adult.test.gz", "wt", encoding="utf-8") as file:
        file.write("|1x3 Cross validator\n" + LINE.format(0, "Laos", ">50K.") + "\n\n")
    return tmp_path


def test_adult_reads_plain_and_gzipped_files_comment_line_and_full_stops(tiny_adult):
    data = load_adult(tiny_adult)
    assert data.labels.tolist() == [1.0, -1.0, 1.0]
    names = list(adult.SCHEMA.feature_names)
    row = data.features.toarray()[0] * np.linalg.norm([1.0] * 9 + [22 / 73, 64024 / 1476908, 12 / 15, 39 / 98])
    expected = {"age": 22 / 73, "capital-gain": 1.0, "native-country=Cuba": 1.0, "hours-per-week": 39 / 98}
    for name, value in expected.items():
        assert row[names.index(name)] == pytest.approx(value)


@pytest.mark.parametrize(
    ("lines", "setting", "column"),
    [
        ("1, 2, 3\n", "columns", ""),
        ("", "path", ""),
        (LINE.format(0, "Atlantis", ">50K") + "\n", "", "'native-country'"),
        (LINE.format(0, "Cuba", "50K") + "\n", "", "'income'"),
        (None, "path", ""),
    ],
    ids=["columns", "empty", "country", "income", "broken archive"],
)
def test_adult_refuses_broken_files(tiny_adult, lines, setting, column):
    (tiny_adult / "adult.data").unlink()
    if lines is None:
        (tiny_adult / "adult.data.gz").write_bytes(b"\x1f\x8b broken")
    else:
        (tiny_adult / "adult.data").write_text(lines, encoding="utf-8")
    with pytest.raises(InputError) as refusal:
        load_adult(tiny_adult)
    assert refusal.value.setting == setting
    assert column in str(refusal.value)
    assert "Atlantis" not in str(refusal.value)


def test_adult_from_openml_is_the_same_table(tiny_adult, monkeypatch):
    frame = pd.concat([adult._read(tiny_adult / "adult.data", 0), adult._read(tiny_adult / "adult.test.gz", 1)])
    frame["income"] = frame["income"].str.removesuffix(".").astype("category")
    frame["native-country"] = frame["native-country"].fillna("?").astype("category")

    def fetch(name, *, version, as_frame, parser):
        assert (name, version, as_frame) == ("adult", 2, True)
        return type("Bunch", (), {"frame": frame.rename(columns={"income": "class"})})

    monkeypatch.setattr(sklearn_datasets, "fetch_openml", fetch)
    data = load_adult(source=Source.OPENML)
    np.testing.assert_array_equal(data.features.toarray(), load_adult(tiny_adult).features.toarray())

    def offline(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr(sklearn_datasets, "fetch_openml", offline)
    with pytest.raises(InputError) as refusal:
        load_adult(source=Source.OPENML)
    assert refusal.value.setting == "source"


@needs_data
def test_heart_has_four_hospitals():
    data = load_heart()
    silos = data.silos()
    assert silos.names == ("cleveland", "hungarian", "switzerland", "va")
    assert silos.sizes.tolist() == [303, 261, 46, 130]
    assert np.round(positive_rates(silos), 2).tolist() == [0.46, 0.38, 0.98, 0.78]
    names = list(data.schema.feature_names)
    unmeasured = silos.features[:, names.index("chol_measured=0")] > 0
    shares = [unmeasured[silos.offsets[i] : silos.offsets[i + 1]].mean() for i in range(4)]
    assert np.round(shares, 2).tolist() == [0.0, 0.0, 1.0, 0.25]
    assert (silos.features[unmeasured, names.index("chol")] == 0).all()
    # The only impossible cell is a resting pressure of 0 at Long Beach.
    moved = "1 cell outside the bounds, moved to the nearest one"
    assert data.notes == (f"heart_disease, column 'trestbps': {moved}",)


HEART = "63.0,1.0,1.0,145.0,{},1.0,2.0,150.0,0.0,2.0,3.0,0.0,6.0,{}"


def test_heart_separates_unmeasured_from_missing_cholesterol(tmp_path):
    for hospital in ("cleveland", "hungarian", "switzerland", "va"):
        lines = [HEART.format(200, 0), HEART.format(0, 3), HEART.format("?", 1)]
        (tmp_path / f"processed.{hospital}.data").write_text("\n".join(lines), encoding="utf-8")
    data = load_heart(tmp_path)
    assert data.silos().sizes.tolist() == [2, 2, 2, 2]
    assert data.labels[:2].tolist() == [-1.0, 1.0]
    names = list(data.schema.feature_names)
    chol, measured = data.features[:, names.index("chol")], data.features[:, names.index("chol_measured=1")]
    assert chol[0] / measured[0] == pytest.approx(150 / 600)
    assert (chol[1], measured[1]) == (0.0, 0.0)
    for line, setting in (("a,b\n", "path"), ("1,2\n", "columns")):
        (tmp_path / "processed.va.data").write_text(line, encoding="utf-8")
        with pytest.raises(InputError) as refusal:
            load_heart(tmp_path)
        assert refusal.value.setting == setting


@needs_data
def test_nist_has_twenty_regions():
    data = load_nist_acs()
    silos = data.silos()
    assert data.n_rows == 22_062
    assert silos.n_agents == 20
    assert (silos.sizes.min(), silos.sizes.max()) == (611, 1958)
    rates = positive_rates(silos)
    assert (round(min(rates), 3), round(max(rates), 3)) == (0.098, 0.655)
    assert len(data.notes) == 1
    assert "column 'NOC'" in data.notes[0]
    assert row_norms(data.features).max() <= 1 + 1e-12


def nist_row(**changes):
    record = dict.fromkeys((column.name for column in nist_acs.SCHEMA.columns), "1")
    return record | {"PUMA": "01-1", "PINCP": "50001", "AGEP": "40", "NOC": "N", "INDP_CAT": "N"} | changes


def test_nist_keeps_adults_with_income(tmp_path):
    rows = [
        nist_row(),
        nist_row(AGEP="17"),
        nist_row(PINCP="N"),
        nist_row(PUMA="02-2", PINCP="50000.0", AGEP="18", NOC="19"),
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "national2019.csv", index=False)
    data = load_nist_acs(tmp_path)
    assert data.labels.tolist() == [1.0, -1.0]
    assert data.groups.tolist() == ["01-1", "02-2"]
    assert data.notes == ("nist_acs, column 'NOC': 1 cell outside the bounds, moved to the nearest one",)
    for lacking in ("PINCP", "EDU"):
        pd.DataFrame(rows).drop(columns=lacking).to_csv(tmp_path / "national2019.csv", index=False)
        with pytest.raises(InputError, match=lacking):
            load_nist_acs(tmp_path)


def test_breast_cancer_is_scikit_learns_with_stated_bounds():
    data = load_breast_cancer()
    raw = sklearn_datasets.load_breast_cancer()
    assert data.schema.feature_names == tuple(raw.feature_names)
    assert data.notes == ()
    np.testing.assert_array_equal(data.labels, np.where(raw.target == 0, 1.0, -1.0))
    uppers = np.array([column.upper for column in examples.BREAST_CANCER_SCHEMA.columns])
    scaled = raw.data / uppers
    expected = scaled / np.maximum(1, np.linalg.norm(scaled, axis=1, keepdims=True))
    np.testing.assert_allclose(data.features, expected, rtol=1e-12)
    assert not np.isin(uppers, raw.data.max(axis=0)).any()  # bounds must not be the data's own extremes
    sizes = dict(zip(data.silos().names, data.silos().sizes.tolist(), strict=True))
    assert sizes == {"university": 228, "city": 171, "county": 113, "rural": 57}
