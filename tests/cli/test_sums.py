"""`--view aggregate`: a model, its ledger and a figure about it, all of sums under masks. tests/privacy proves them."""

from pathlib import Path

import pytest
from tests.builders import instant_plans

from dpadmm.core.model import ReleasedModel
from dpadmm.privacy.protection import Protection, View

pytestmark = pytest.mark.usefixtures("instant_forecasts")


@pytest.fixture(scope="module")
def sums(cli, study, tmp_path_factory):
    """Four silos of the study's rows, and what `fit` said about them."""
    folder = tmp_path_factory.mktemp("sums")
    files = []
    for file in study.files:
        header, *rows = Path(file).read_text().splitlines()
        for part in range(2):
            files.append(folder / f"silo{len(files)}.csv")
            files[-1].write_text("\n".join([header, *rows[part::2]]) + "\n")
    args = (*map(str, files), "--schema", study.schema, "--epsilon", "1", "--delta", "1e-5")
    places = ("--out", str(folder / "model.json"), "--ledger", str(folder / "sums.ledger"))
    with instant_plans():
        result = cli.run("fit", *args, *places, "--budget", "3", "--view", "aggregate")
    assert result.exit_code == 0, result.output
    return folder, args, result.stdout


def test_a_fit_says_whom_it_hides_from_and_what_more_would_see(sums):
    folder, _, said = sums
    model = ReleasedModel.load(folder / "model.json")
    assert model.guarantee.protection == Protection(view=View.AGGREGATE, colluders=1)
    assert model.guarantee.epsilon == pytest.approx(1.0, rel=1e-6)
    assert model.guarantee.collusion.if_all == pytest.approx(1.84, abs=0.006)  # sqrt(3) m
    assert "1.83" in said


def test_the_ledger_remembers_the_colluders(cli, sums):
    folder, args, _ = sums
    path = str(folder / "sums.ledger")
    said = cli.ask("ledger", "show", path)
    assert (said["view"], said["colluders"]) == ("aggregate", 1)
    assert "│ in sum │" in " ".join(cli.run("ledger", "show", path).stdout.split())  # one noise: not "0 silos"
    for weaker in (("--view", "public"), ("--view", "aggregate", "--colluders", "0")):
        assert cli.run("fit", *args, "--out", str(folder / "no.json"), "--ledger", path, *weaker).exit_code == 2


def test_noise_that_cannot_be_drawn_is_refused_before_a_ledger_is_made(cli, sums):
    folder, args, _ = sums
    nominal = ("--view", "aggregate", "--neighbours", "add-remove", "--nominal-records", "1000000000000")
    places = ("--out", str(folder / "no.json"), "--ledger", str(folder / "no.ledger"), "--budget", "3")
    result = cli.run("fit", *args, *nominal, *places)
    assert (result.exit_code, "nominal number" in result.stderr) == (2, True)
    assert not (folder / "no.ledger").exists()
