"""`dpadmm demo`: four hospitals, secure noise, a certified model and its report."""

import json

from dpadmm.core.model import ReleasedModel
from dpadmm.privacy.ledger import Ledger


def test_the_demonstration_ends_in_a_report(cli, study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = cli.run("demo")
    assert result.exit_code == 0, result.output
    folder = tmp_path / "dpadmm-demo"
    model = ReleasedModel.load(folder / "model.json")
    assert model.guarantee.is_private_release
    assert 0.999 < model.guarantee.epsilon <= 1.0 + 1e-9
    assert [silo.records for silo in model.silos] == [228, 171, 113, 57]
    with Ledger.open(folder / "study.ledger") as ledger:
        assert ledger.statement().spent_epsilon <= 1.0
    (measured,) = model.measurements
    # Far below what is expected (about 0.9): secure noise cannot be seeded, and one run may be unlucky.
    assert measured.value > 0.7
    (forecast,) = model.choice.expected.signals
    assert forecast.non_private == 0.99  # known: the data set is published
    assert forecast.low < 0.9 <= forecast.high  # what is reached usually lies within
    assert "Breast cancer at four hospitals" in (folder / "report.html").read_text()


def test_the_files_can_be_used_by_hand(cli, study, tmp_path, monkeypatch):
    """The demonstration's tables and schema work with the other commands."""
    from dpadmm.cli.demo import _hospitals
    from dpadmm.data.examples import BREAST_CANCER_SCHEMA, HOSPITALS

    monkeypatch.chdir(tmp_path)
    BREAST_CANCER_SCHEMA.save("schema.json")
    for name, frame in zip(HOSPITALS, _hospitals(), strict=True):
        frame.to_csv(f"{name}.csv", index=False)
    result = cli.run(
        "schema", "check", "schema.json", "university.csv", "city.csv", "county.csv", "rural.csv", "--json"
    )
    assert json.loads(result.stdout)["silos"] == {"university": 228, "city": 171, "county": 113, "rural": 57}
