"""`--view aggregate`: a model, its ledger, its report and a figure about it, all of sums under masks."""

from pathlib import Path

import pytest

from dpadmm.core.model import ReleasedModel
from dpadmm.privacy.ledger import Ledger
from dpadmm.privacy.protection import Protection, View


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
    words = (*map(str, files), "--schema", study.schema, "--epsilon", "1", "--delta", "1e-5")
    places = ("--out", str(folder / "model.json"), "--ledger", str(folder / "sums.ledger"))
    result = cli.run("fit", *words, *places, "--budget", "3", "--view", "aggregate")
    assert result.exit_code == 0, result.output
    return folder, words, result.stdout


def test_a_fit_says_whom_it_hides_from_and_what_more_would_see(cli, sums):
    folder, _, said = sums
    model = ReleasedModel.load(folder / "model.json")
    assert model.guarantee.protection == Protection(view=View.AGGREGATE, colluders=1)
    assert model.guarantee.epsilon == pytest.approx(1.0, rel=1e-6)
    assert model.guarantee.collusion.if_all == pytest.approx(1.84, abs=0.006)  # sqrt(3) m
    for words in (
        "from the coordinator with up to 1 silo, who see sums",
        "every curious silo counts",
        "epsilon would be 1.83",
        "masks hide nothing from that machine",
    ):
        assert words in said, words
    facts = cli.ask("report", str(folder / "model.json"))["guarantee"]
    assert (facts["protection"]["view"], facts["protection"]["colluders"]) == ("aggregate", 1)


def test_the_ledger_remembers_the_colluders(cli, sums):
    folder, words, _ = sums
    path = folder / "sums.ledger"
    said = cli.ask("ledger", "show", str(path))
    assert (said["view"], said["colluders"]) == ("aggregate", 1)
    shown = " ".join(cli.run("ledger", "show", str(path)).stdout.split())
    assert "from the coordinator with up to 1 silo, who see sums" in shown
    assert "│ in sum │" in shown  # one noise of all silos: not "0 silos"
    for weaker in (("--view", "public"), ("--view", "aggregate", "--colluders", "0")):
        result = cli.run("fit", *words, "--out", str(folder / "no.json"), "--ledger", str(path), *weaker)
        assert result.exit_code == 2
        assert "does not cover that" in result.stderr


def test_a_figure_under_masks_is_paid_for_and_needs_three_silos(cli, sums):
    folder, words, _ = sums
    model, path, files = str(folder / "model.json"), folder / "sums.ledger", words[:4]
    asked = ("--epsilon", "0.5", "--delta", "1e-5", "--no-record", "--view", "aggregate")
    with Ledger.open(path) as ledger:
        before = ledger.statement().spent_epsilon
    found = cli.ask("evaluate", model, *files, *asked, "--ledger", str(path))
    plain = cli.ask("evaluate", model, *files, *asked[:-1], "eavesdropper")
    assert found["uncertainty"] == pytest.approx(plain["uncertainty"] * (4 / 3) ** 0.5, rel=1e-4)
    assert found["on"] == (
        "private records, protected from the coordinator with up to 1 silo, who see sums; recorded in sums.ledger"
    )
    with Ledger.open(path) as ledger:
        assert ledger.statement().spent_epsilon > before
    assert "needs at least 3 silos, got 2" in cli.run("evaluate", model, *files[:2], *asked).stderr
    assert (
        "colluders apply only to the view" in cli.run("evaluate", model, *files, *asked[:-2], "--colluders", "1").stderr
    )


def test_noise_that_cannot_be_drawn_is_refused_before_a_ledger_is_made(cli, sums):
    folder, words, _ = sums
    nominal = ("--view", "aggregate", "--neighbours", "add-remove", "--nominal-records", "1000000000000")
    places = ("--out", str(folder / "no.json"), "--ledger", str(folder / "no.ledger"), "--budget", "3")
    result = cli.run("fit", *words, *nominal, *places)
    assert result.exit_code == 2
    assert "a smaller nominal number of records" in result.stderr
    assert not (folder / "no.ledger").exists()


def test_one_silo_is_told_how_to_name_several(cli, sums):
    folder, words, _ = sums
    result = cli.run("fit", words[0], *words[4:], "--view", "aggregate", "--out", str(folder / "no.json"))
    assert result.exit_code == 2
    assert "got 1" in result.stderr
    assert "Name the silo of every record with --split-by" in " ".join(result.stderr.split())
