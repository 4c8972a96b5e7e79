"""`dpadmm audit`: its table, its JSON, what it writes, and what it refuses."""

import json
from dataclasses import replace

import pytest

from dpadmm.noise.sampler import SimulatedSampler
from dpadmm_research.audit import audit as engine
from dpadmm_research.audit import catalogue
from dpadmm_research.audit.catalogue import subjects_of

FEW = ("--runs", "400")


def test_json_holds_what_the_library_finds(cli):
    found = cli.ask("audit", "fp-coordinator", *FEW, "--confidence", "0.9", "--epsilon", "2")
    assert found["confidence"] == 0.9
    subjects = subjects_of("fp-coordinator", 0)
    each = 1 - 0.1 / sum(len(subject.views) for subject in subjects)
    target = engine.Target(epsilon=2.0, delta=1e-5)
    expected = [r for s in subjects for r in engine.examine(s, target, tuple(s.views), 400, each)]
    assert [row["audited_epsilon"] for row in found["results"]] == [r.estimate.epsilon_lower for r in expected]
    assert [row["view"] for row in found["results"]] == [r.view.value for r in expected]
    for row in found["results"]:
        assert row["certified_epsilon"] == pytest.approx(2.0, rel=1e-6)
        assert row["is_violation"] is False


def test_every_pair_is_checked(cli):
    found = cli.ask("audit", "dp-gd", *FEW)
    kinds = [(row["check"], row["is_broken"]) for row in found["checks"]]
    assert kinds == [("sensitivity", False), ("scale", False), ("independence", False)] * len(subjects_of("dp-gd"))


def test_a_broken_build_fails_release_by_release(cli, monkeypatch):
    """Too little noise in one round: no attack sees it at so few runs, the check does."""
    right = SimulatedSampler.perturb

    def soft(self, values, releases, draw):
        drawn = right(self, values, releases, draw)
        factor = 0.7 if draw.round == 2 else 1.0
        return values + factor * (drawn - values)

    monkeypatch.setattr(SimulatedSampler, "perturb", soft)
    result = cli.run("audit", "dp-gd", *FEW, "--json")
    assert result.exit_code == 4
    found = json.loads(result.stdout)
    assert not any(row["is_violation"] for row in found["results"])
    assert any(row["is_broken"] and "round 2" in row["where"] for row in found["checks"])


def test_a_view_narrows_it_down(cli):
    found = cli.ask("audit", "p-admm", *FEW, "--view", "public")
    assert {row["view"] for row in found["results"]} == {"public"}
    assert len(found["results"]) == len(subjects_of("p-admm", 0))


def test_plots_are_written_where_asked_and_of_all_methods_unasked(cli, tmp_path, monkeypatch):
    """With two methods in the catalogue's place: the whole one takes minutes."""
    monkeypatch.chdir(tmp_path)
    cli.run("audit", "dp-gd", *FEW)
    assert list(tmp_path.iterdir()) == []
    result = cli.run("audit", "dp-gd", *FEW, "--out", "new/plots")
    assert result.exit_code == 0, result.output
    names = {path.name for path in (tmp_path / "new" / "plots").iterdir()}
    assert names == {"dp-gd-trade-off.png", "dp-gd-trade-off.svg"}
    assert all(subject.pair in result.stdout for subject in subjects_of("dp-gd", 0))
    two = (*subjects_of("dp-gd", 0), *subjects_of("dvp", 0))
    monkeypatch.setattr(catalogue, "all_subjects", lambda seed: two)
    assert cli.run("audit", "--all", *FEW).exit_code == 0
    assert {path.name for path in (tmp_path / "audit").glob("*.svg")} == {"dp-gd-trade-off.svg", "dvp-trade-off.svg"}


def test_a_refuted_certificate_fails_the_command(cli, monkeypatch):
    genuine = engine.examine

    def broken(*arguments, **options):
        return tuple(replace(result, is_violation=True) for result in genuine(*arguments, **options))

    monkeypatch.setattr(engine, "examine", broken)
    result = cli.run("audit", "dp-gd", *FEW, "--json")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["results"][0]["is_violation"] is True
