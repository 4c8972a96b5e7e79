"""`dpadmm report`: the page, its facts as JSON, and the ledger as it stands."""

import shutil

from tests.page_facts import facts_of

from dpadmm.core.model import ReleasedModel


def test_the_page_is_written_once(cli, trained, tmp_path):
    model = tmp_path / "m.json"
    shutil.copy(trained.model, model)
    result = cli.run("report", str(model))
    assert result.exit_code == 0
    page = (tmp_path / "m.html").read_text()
    assert ReleasedModel.load(model).run in page
    assert "exists already" in cli.run("report", str(model)).stderr
    assert cli.run("report", str(model), "--force").exit_code == 0


def test_facts_for_programs(cli, trained, tmp_path):
    said = cli.ask("report", str(trained.model))
    assert said["page"] is None
    assert said["guarantee"] == trained.said["guarantee"]
    assert said["spending"]["budget_epsilon"] == 3.0
    assert len(said["history"]) == said["choice"]["rounds"]


def test_the_ledger_as_it_stands_now(cli, trained, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(trained.model.parent, folder)
    args = ("--epsilon", "2.5", "--delta", "1e-5", "--reason", "test")
    assert cli.run("ledger", "budget", str(folder / "study.ledger"), *args).exit_code == 0
    said = cli.ask("report", str(folder / "model.json"), "--ledger", str(folder / "study.ledger"))
    assert said["spending"]["budget_epsilon"] == 2.5
    assert said["spending"]["head"] != ReleasedModel.load(trained.model).spending.head


def test_who_answers_for_it_stands_on_the_page(cli, trained, tmp_path):
    place = tmp_path / "page.html"
    args = ("--purpose", "asthma study", "--controller", "<i>Clinic</i>", "--out", str(place))
    assert cli.run("report", str(trained.model), *args).exit_code == 0
    facts = facts_of(place.read_text())
    assert (facts["purpose"], facts["contact"]) == (["asthma study"], ["not stated"])
    assert "<i>Clinic</i>" in facts["controller"][0]
