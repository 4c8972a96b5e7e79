"""`dpadmm reproduce` from the shell."""

from typer.testing import CliRunner

from dpadmm.cli.main import app
from dpadmm.errors import InputError
from dpadmm_research.comparison import adult as race

RUN = CliRunner()


def call(*arguments):
    return RUN.invoke(app, ["reproduce", *map(str, arguments)])


def test_list():
    result = call("--list")
    assert result.exit_code == 0
    for name in ("p-admm/fig1", "r-admm/fig3", "consensus/fig2a", "ps-admm/fig3", "fixed-point/fig1", "scoreboard"):
        assert name in result.output


def test_one_figure_at_toy_size(tmp_path):
    result = call("consensus/fig2a", "--toy", "--runs", 3, "--accounting", "claimed", "--out", tmp_path, "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert "3 parts computed" in result.output
    assert (tmp_path / "consensus" / "fig2a" / "fig2a.svg").is_file()
    again = call("consensus/fig2a", "--toy", "--runs", 3, "--accounting", "claimed", "--out", tmp_path, "--jobs", 1)
    assert "0 parts computed, 3 found finished" in again.output


def test_pages_are_not_made_from_an_invented_table(monkeypatch, tmp_path):
    """Said before a quarter of an hour is spent."""

    def nothing(**options):
        raise InputError("no network")

    monkeypatch.delenv("DPADMM_DATA", raising=False)
    monkeypatch.setattr(race, "load_adult", nothing)
    race._adult.cache_clear()
    result = call("--all", "--out", tmp_path / "out", "--docs", tmp_path / "docs")
    race._adult.cache_clear()
    assert result.exit_code == 2
    assert "DPADMM_DATA" in result.output
    assert list(tmp_path.iterdir()) == []
