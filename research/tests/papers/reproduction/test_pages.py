"""The pages made from finished results, and the scoreboard's rules on tables whose answers are known."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpadmm.errors import InputError
from dpadmm.privacy.protection import View
from dpadmm_research.reproduction.figure import Size
from dpadmm_research.reproduction.pages import SAME_NOISE, index, readme_block, scoreboard, write_pages
from dpadmm_research.reproduction.registry import ALL, FIGURES
from dpadmm_research.reproduction.runner import named
from dpadmm_research.reproduction.table import NO_RUN, Reading, Rows, chosen
from dpadmm_research.scoreboard import adult as board
from dpadmm_research.scoreboard.entries import ENTRIES, RoundKind, entry_of
from dpadmm_research.scoreboard.measured import AT_LIMIT, BARE
from dpadmm_research.scoreboard.page import LIMIT, MARKS, PLANNED
from dpadmm_research.scoreboard.rows import TRAIN
from dpadmm_research.scoreboard.standings import duels, duels_text, ranking

ROOT = Path(__file__).parents[3]


def facts_file(out, name):
    return out / name / f"{name.rsplit('/', 1)[-1]}.json"


def change_facts(out, name, **changes):
    file = facts_file(out, name)
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.fixture
def full(toy, tmp_path):
    """The toy results, passed off as full ones."""
    out = tmp_path / "out"
    shutil.copytree(toy.out, out, ignore=shutil.ignore_patterns(".parts", "*.svg", "outcome.json"))
    for name in FIGURES:
        change_facts(out, name, size=Size.FULL.value)
    return out


def block_of(text):
    assert text.count(MARKS[0]) == text.count(MARKS[1]) == 1
    return text[text.index(MARKS[0]) : text.index(MARKS[1])]


def test_readme_and_scoreboard_page_show_the_same_numbers():
    readme, page = ROOT / "README.md", ROOT / "docs" / "scoreboard.md"
    if not (readme.is_file() and page.is_file()):
        pytest.skip("not in a checkout: README.md and docs/ are not beside the tests")
    assert block_of(readme.read_text(encoding="utf-8")) == block_of(page.read_text(encoding="utf-8"))


def test_pages_and_the_block_in_readme(full, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n\n{MARKS[0]}\n\nold numbers\n\n{MARKS[1]}\n\nafter\n")
    files = write_pages(full, tmp_path / "docs")
    assert readme in files
    assert all(file.is_file() for file in files)
    text, page = readme.read_text(), (tmp_path / "docs" / "scoreboard.md").read_text()
    assert text == f"before\n\n{readme_block(full)}\n\nafter\n"
    assert block_of(text) == block_of(page)
    assert all(entry.name in page for entry in ENTRIES)
    assert "nan" not in page
    for each in (tmp_path / "docs" / "reproduction").glob("*.md"):
        for line in each.read_text().splitlines():
            if line.startswith("!["):
                assert (each.parent / line.rsplit("(", 1)[1].rstrip(")")).is_file()


@pytest.mark.parametrize("text", [None, "no marks\n"], ids=["no README", "no marks"])
def test_readme_without_marks_is_left_alone(full, tmp_path, text):
    readme = tmp_path / "README.md"
    if text is not None:
        readme.write_text(text)
    assert readme not in write_pages(full, tmp_path / "docs")
    assert (readme.read_text() if readme.is_file() else None) == text


@pytest.mark.parametrize("text", [MARKS[0], MARKS[1] + MARKS[0], MARKS[0] * 2 + MARKS[1]])
def test_readme_with_broken_marks_is_refused_before_anything_is_written(full, tmp_path, text):
    (tmp_path / "README.md").write_text(text)
    with pytest.raises(InputError, match="must have"):
        write_pages(full, tmp_path / "docs")
    assert not (tmp_path / "docs").exists()
    assert (tmp_path / "README.md").read_text() == text


@pytest.mark.parametrize(
    "change", [{"size": Size.TOY.value}, {"runs": 3}, {"accounting": "claimed"}, {"accounting": "certified"}]
)
def test_results_that_are_not_the_papers_are_refused(full, tmp_path, change):
    change_facts(full, "ps-admm/fig3", **change)
    with pytest.raises(InputError, match="ps-admm/fig3"):
        write_pages(full, tmp_path / "docs")
    assert not (tmp_path / "docs").exists()


def test_results_of_toy_size_are_refused(toy, tmp_path):
    with pytest.raises(InputError, match="toy size"):
        write_pages(toy.out, tmp_path / "docs")


def test_time_is_shown_only_of_a_call_that_computed_everything(full):
    parts = len({part.name for figure in ALL for part in figure.parts})
    outcome = {"wall_seconds": 812.4, "processor_seconds": 1590.2, "processes": 2, "computed": parts, "found": 0}
    texts = f"{parts} parts, 1590 s of processor time; 812 s on 2 cores."
    assert "processor time" not in index(full)
    (full / "outcome.json").write_text(json.dumps(outcome))
    assert texts in index(full)
    for change in ({"found": 1, "computed": parts - 1}, {"computed": 1}):
        (full / "outcome.json").write_text(json.dumps(outcome | change))
        assert "processor time;" not in index(full)


@pytest.mark.parametrize(("name", "label", "curve", "metric"), SAME_NOISE, ids=[row[1] for row in SAME_NOISE])
def test_every_row_of_the_same_noise_table_has_numbers(toy, name, label, curve, metric):
    table = toy.table(name)
    assert len(chosen(table, metric=metric, curve=curve, reading=Reading.CLAIMED)), label


def losses(**values):
    """Return a scoreboard table: method -> {eps: losses of the runs}."""
    rows = Rows("toy")
    for name, budgets in values.items():
        entry = entry_of(name.replace("_", "-"))
        for epsilon, runs in budgets.items():
            facts = {"panel": entry.panel, "curve": entry.name, "reading": Reading.CERTIFIED, "epsilon": epsilon}
            rows.add(**facts, x=epsilon, metric=TRAIN, values=runs)
    rows.fact(panel="", curve=BARE, reading=Reading.NON_PRIVATE, epsilon=np.inf, x=1, metric=TRAIN, value=0.3)
    return rows.table()


def test_who_is_hidden_from_an_eavesdropper_competes_in_public_too():
    table = losses(p_admm={1.0: [0.36, 0.38]}, fp_coordinator={1.0: [0.38, 0.40]}, dp_gd={1.0: [0.41, 0.41]})
    assert ranking(table, View.EAVESDROPPER, TRAIN, 1.0) == ["p-admm", "dp-gd"]
    assert ranking(table, View.PUBLIC, TRAIN, 1.0) == ["p-admm", "fp-coordinator", "dp-gd"]


def test_a_method_without_a_number_at_the_budget_comes_last():
    """r-admm has no plan at eps 1; its low loss at eps 10 must not lift it."""
    table = losses(p_admm={1.0: [0.5], 10.0: [0.4]}, r_admm={10.0: [0.31]})
    assert ranking(table, View.EAVESDROPPER, TRAIN, 1.0) == ["p-admm", "r-admm"]


def test_duels_name_the_winner_or_a_tie():
    table = losses(
        p_admm={1.0: [0.36, 0.38], 5.0: [0.351, 0.353], 10.0: [0.35, 0.35]},
        dvp={1.0: [0.60, 0.60], 5.0: [0.60, 0.60], 10.0: [0.34, 0.34]},
        dp_gd={1.0: [0.371, 0.375], 5.0: [0.340, 0.340], 10.0: [0.36, 0.36]},
    )
    found = duels(table, View.EAVESDROPPER, TRAIN)
    # eps 1: 0.370 +- 0.010 against 0.373 +- 0.002; eps 5: 0.352 +- 0.001 against 0.340 exactly.
    assert [duel.winner for duel in found] == [None, RoundKind.GRADIENT, RoundKind.ADMM]
    assert found[2].admm.name == "dvp"
    texts = duels_text(table, View.EAVESDROPPER, TRAIN)
    assert texts.startswith(
        "ADMM is ahead at eps 10; gradient methods are ahead at eps 5; a tie at eps 1 (eps 1: p-admm"
    )


def lines_of(page, name):
    return [line for line in page.splitlines() if line.startswith(f"| {name} |")]


def test_limits_are_marked_and_named_at_the_setting(full):
    """At toy size nothing is searched; a batch of 64 is half of what the silos have at most."""
    file = full / "scoreboard" / "adult" / "adult.parquet"
    table = pd.read_parquet(file)
    sides = table["metric"].str.startswith(AT_LIMIT) & (table["run"] == NO_RUN)
    table.loc[sides, "value"] = 0.0
    table.to_parquet(file)
    assert LIMIT not in "".join(lines_of(scoreboard(full), "dp-sgd"))
    assert LIMIT not in readme_block(full)
    table.loc[sides & (table["metric"] == f"{AT_LIMIT}batch"), "value"] = 1.0
    table.to_parquet(file)
    for line in lines_of(scoreboard(full), "dp-sgd"):
        assert line.count(LIMIT) == 2  # at the loss and at the setting
        assert f"step 8, batch 64{LIMIT} (as many records as there are), rounds 8, " in line
    assert LIMIT not in "".join(lines_of(scoreboard(full), "p-admm"))


def test_the_product_is_a_row_of_every_view_and_says_that_it_is_not_tuned(full):
    page, block = scoreboard(full), readme_block(full)
    rows = [line for line in lines_of(page, PLANNED) if "not tuned; planned: " in line]
    assert [line.split(" | ")[1] for line in rows] == ["messages", "release"]
    assert [line.split(" | ")[1] for line in lines_of(block, PLANNED)] == ["messages", "release"]
    assert "nothing tuned" in block


def test_the_scoreboard_alone_writes_its_own_pages_only(full, tmp_path):
    for name in FIGURES:
        if not name.startswith("scoreboard/"):
            shutil.rmtree(full / name)
    files = write_pages(full, tmp_path / "docs", named(["scoreboard"]))
    assert {file.name for file in files if file.suffix == ".md"} == {
        "scoreboard.md", "scoreboard-adult.md", "scoreboard-lasso.md", "scoreboard-control.md",
    }  # fmt: skip
    with pytest.raises(InputError, match="p-admm/fig1"):
        write_pages(full, tmp_path / "docs")


def test_every_curve_of_the_plot_can_be_shown_from_the_others(toy):
    table = toy.table("scoreboard/adult")
    for ax in board.draw(table, "toy").axes:
        looks = [(line.get_color(), line.get_marker()) for line in ax.lines]
        assert len(looks) == len(set(looks))
        assert {line.get_linestyle() for line in ax.lines} == {"-"}  # dashes mean claimed noise elsewhere
        assert ax.get_yscale() == "log"
