"""Every figure at toy size: files, shapes, labels, and facts that hold whatever the noise."""

import json
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib.image
import numpy as np
import pandas as pd
import pytest

from dpadmm.errors import InputError
from dpadmm_research.reproduction import output, runner
from dpadmm_research.reproduction.figure import Accounting, Order, Size, Verdict
from dpadmm_research.reproduction.output import is_finished
from dpadmm_research.reproduction.registry import ALL, FIGURES
from dpadmm_research.reproduction.runner import reproduce
from dpadmm_research.reproduction.style import LINES
from dpadmm_research.reproduction.table import COLUMNS, NO_RUN, Reading, chosen, joined, mean_at

NAMES = list(FIGURES)
TOY = Order(Size.TOY)
IDS = [name.replace("/", "-") for name in NAMES]
PAPERS = {
    "p-admm": ("fig1", "fig2", "fig3", "fig4"),
    "r-admm": ("fig1", "fig2", "fig3"),
    "consensus": ("fig2a", "fig2b", "fig2c", "fig2d", "fig3"),
    "ps-admm": ("fig2", "fig3"),
    "fixed-point": ("fig1",),
    "scoreboard": ("adult", "lasso", "control"),
}


def test_every_figure_of_the_papers_is_there():
    assert [f"{paper}/{fig}" for paper, figs in PAPERS.items() for fig in figs] == NAMES


def test_parts_have_one_owner_and_the_same_name_in_every_process():
    """An address in a name would make every call compute everything again."""
    by_name = {}
    for part in (part for figure in ALL for part in figure.parts):
        assert by_name.setdefault(part.name, part) == part
        assert " at 0x" not in repr(getattr(part.compute, "args", ()))


@pytest.mark.parametrize("name", NAMES, ids=IDS)
class TestEveryFigure:
    def test_the_table_is_tidy_and_has_the_runs_that_were_asked_for(self, toy, name):
        table = toy.table(name)
        assert tuple(table.columns) == COLUMNS
        assert len(table)
        assert set(table["reading"]) <= {reading.value for reading in Reading}
        assert table["value"].notna().all()
        key = ["panel", "curve", "reading", "epsilon", "x", "metric"]
        assert not table.duplicated([*key, "run"]).any()
        csv = pd.read_csv(toy.file(name, "csv"), keep_default_na=False)
        np.testing.assert_allclose(csv["value"].astype(float), table["value"], rtol=1e-12)
        drawn = table[(table["run"] != NO_RUN) & table["reading"].isin(["claimed", "certified"])]
        counts = drawn.groupby(key).size()
        assert name == "r-admm/fig1" or (len(counts) and (counts == 2).all())

    def test_plots_and_settings_are_written(self, toy, name):
        assert ET.parse(toy.file(name, "svg")).getroot().tag.endswith("svg")
        picture = matplotlib.image.imread(toy.file(name, "png"))
        assert min(picture.shape[:2]) > 300
        assert np.ptp(picture) > 0.5
        facts = json.loads(toy.file(name, "json").read_text())
        assert (facts["figure"], facts["noise_seed"]) == (name, 0)
        assert {"dpadmm", "numpy", "python"} <= set(facts["versions"])
        assert facts["setting"]

    def test_the_picture_keeps_the_rules_of_plots(self, toy, name):
        picture, data = toy.pictures[name], toy.table(name)["data"].iloc[0]
        title = picture.get_suptitle() + "".join(ax.get_title() for ax in picture.axes)
        assert "Adult" not in data or "SYNTHETIC" in title  # invented data must be called so
        assert "delta" in picture.get_suptitle()
        for ax in picture.axes:
            assert all((ax.get_xlabel(), ax.get_ylabel(), ax.get_title(), ax.lines))
            labels = [text.get_text() for text in ax.get_legend().get_texts()]
            assert 0 < len(labels) == len(set(labels))
        for ax in [each for panel in picture.axes for each in (panel, *panel.child_axes)]:
            styles = {line.get_linestyle() for line in ax.lines if not line.get_label().startswith("_")}
            assert not {LINES["claimed"], LINES["certified"]} <= styles  # they have panels of their own
            assert len(ax.get_legend_handles_labels()[1]) <= 5
            ticks = [label for axis in (ax.xaxis, ax.yaxis) for label in axis.get_ticklabels()]
            ticks += [label for axis in (ax.xaxis, ax.yaxis) for label in axis.get_ticklabels(minor=True)]
            assert not [label for label in ticks if is_needless_power(label.get_text())]

    def test_findings_answer_with_numbers_and_state_what_they_rest_on(self, toy, name):
        figure, found = FIGURES[name], FIGURES[name].findings(toy.table(name))
        assert found
        for finding in found:
            assert isinstance(finding.verdict, Verdict)
            assert any(sign.isdigit() for sign in finding.seen)
            assert "nan" not in finding.seen
            ground = figure.ground_of(finding)
            if not name.startswith("scoreboard/"):
                assert all(text.strip() for text in (ground.printed, ground.used, ground.guessed))


POWER = re.compile(r"(?:([\d.]+)\s*\\(?:cdot|times)\s*)?10\^\{?(-?\d+)\}?")


def is_needless_power(text):
    """Return whether a tick label is a power of ten, or a multiple of one, that people write as a plain number."""
    found = POWER.search(text)
    return found is not None and 1e-4 < float(found[1] or 1) * 10.0 ** int(found[2]) < 2e4


def test_which_tick_labels_are_needless_powers():
    needless = (r"$\mathdefault{10^{2}}$", "$10^{-3}$", r"$2 \cdot 10^{-3}$")
    fine = ("0.01", "", "$10^{-7}$", r"$\mathdefault{10^{5}}$", r"$\mathdefault{5\times10^{4}}$")
    assert all(map(is_needless_power, needless))
    assert not any(map(is_needless_power, fine))


READ = [name for name in NAMES if not name.startswith("scoreboard/") and name != "r-admm/fig1"]
"""Figures that `--accounting` changes: not scoreboards, with one accounting for each method, nor runs without noise."""


def check_answers(figure, table, picture):
    """Claims are answered, and curves drawn, from numbers alone."""
    found = figure.findings(table)
    assert found
    assert all(ax.lines for ax in picture.axes)
    texts = [text for finding in found for text in (finding.claim, finding.seen, finding.why)]
    texts += [picture.get_suptitle(), *(ax.get_title() for ax in picture.axes)]
    texts += [text.get_text() for ax in picture.axes for text in ax.get_legend().get_texts()]
    assert not [text for text in texts if re.search(r"\b(nan|unknown)\b", text)]


@pytest.mark.parametrize("name", READ)
def test_both_accountings_answer_and_draw_from_numbers_alone(toy, name):
    check_answers(FIGURES[name], toy.table(name), toy.pictures[name])


# Each figure under one of the two, in turn: parts that figures share are computed under either.
@pytest.mark.parametrize(
    ("name", "accounting"),
    [
        pytest.param(
            name, accounting, marks=[pytest.mark.slow] if (number + turn) % 2 else [], id=f"{name}-{accounting.value}"
        )
        for number, name in enumerate(READ)
        for turn, accounting in enumerate((Accounting.CLAIMED, Accounting.CERTIFIED))
    ],
)
def test_one_accounting_leaves_the_other_out_and_answers(name, accounting):
    order, figure = Order(Size.TOY, runs=1, accounting=accounting), FIGURES[name]
    table = joined([part.compute(order) for part in figure.parts])
    left_out = {"claimed", "certified"} - {reading.value for reading in accounting.readings}
    # What both accountings are compared with has one accounting of its own.
    simulated = table[(table["run"] != NO_RUN) & ~table["curve"].str.startswith(("DP-prox-SGD", "DP-DGD"))]
    assert not left_out & set(simulated["reading"])
    check_answers(figure, table, figure.draw(table, "data"))


PRIVATE_RACES = ["p-admm/fig1", "p-admm/fig2", "p-admm/fig3", "r-admm/fig2", "r-admm/fig3"]


@pytest.mark.parametrize("name", PRIVATE_RACES)
def test_privacy_accumulates_and_ends_at_the_budget(toy, name):
    table = toy.table(name)
    for metric, reading in (("certified eps", "certified"), ("claimed eps", "claimed")):
        rows = table[(table["metric"] == metric) & (table["reading"] == reading)]
        assert len(rows)
        for (_, _, epsilon), group in rows.groupby(["panel", "curve", "epsilon"]):
            curve = group.sort_values("x")["value"].to_numpy()
            assert (np.diff(curve) >= -1e-12).all()
            assert curve[-1] == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("name", ["consensus/fig2a", "consensus/fig2b", "consensus/fig2d", "consensus/fig3"])
def test_certified_noise_costs_its_budget_and_claimed_noise_far_less(toy, name):
    rows = chosen(toy.table(name), metric="certified epsilon")
    certified = rows[rows["reading"] == "certified"]
    np.testing.assert_allclose(certified["value"], certified["epsilon"], rtol=1e-6)
    claimed = rows[rows["reading"] == "claimed"]
    assert (claimed["value"] < 0.5 * claimed["epsilon"]).all()


@pytest.mark.parametrize("name", PRIVATE_RACES)
def test_non_private_is_the_best_in_expectation(toy, name):
    """At toy size the noise is so large that its mean effect dwarfs its spread."""
    table = chosen(toy.table(name), metric="average loss")
    bare = mean_at(table, reading=Reading.NON_PRIVATE)
    private = table[table["reading"].isin(["claimed", "certified"])]
    last = private[private["x"] == private["x"].max()].groupby(["curve", "reading", "epsilon"])["value"].mean()
    assert last.mean() > bare
    assert (last > bare - 0.02).all()


def test_exact_expectation_is_never_below_the_noise_free_error(toy):
    table = toy.table("consensus/fig2a")
    for reading in ("claimed", "certified"):
        expected = chosen(table, metric="exact expectation", reading=reading).set_index("x")["value"]
        bare = chosen(table, metric="relative error", reading=Reading.NON_PRIVATE).set_index("x")["value"]
        assert (expected >= bare - 1e-12).all()


def test_scoreboard_methods_meet_their_budget(toy):
    rows = chosen(toy.table("scoreboard/adult"), metric="certified eps")
    assert rows["curve"].nunique() >= 12
    assert (rows["value"] <= rows["epsilon"] * (1 + 1e-9)).all()
    assert (rows["value"] >= rows["epsilon"] * (1 - 2e-3)).all()


def test_finished_parts_are_not_computed_again(toy, monkeypatch):
    out, name = toy.out, "r-admm/fig1"
    assert toy.outcome.computed == len({part.name for figure in ALL for part in figure.parts})
    monkeypatch.setattr(runner, "write_figure", lambda *about: [])
    again = reproduce([name], TOY, out, processes=1)
    assert (again.computed, again.found) == (0, 2)
    (part,) = (out / ".parts").glob("r-admm-fig1-n5-*.parquet")
    part.unlink()
    third = reproduce([name], TOY, out, processes=1)
    assert (third.computed, third.found) == (1, 1)
    assert not [file for file in out.rglob(".*") if file.is_file()]  # drafts begin with a dot
    part.write_bytes(b"PAR1 half a file")
    with pytest.warns(RuntimeWarning, match="computed again"):
        fourth = reproduce([name], TOY, out, processes=1)
    assert (fourth.computed, fourth.found) == (1, 1)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_the_command_however_it_ends(tmp_path, how):
    program = str(Path(sys.executable).with_name("dpadmm"))
    with (tmp_path / "errors").open("wb") as errors:
        command = subprocess.Popen(
            [program, "reproduce", "--all", "--toy", "--out", str(tmp_path / "out")],
            stderr=errors,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
        )
        try:
            wait_for(lambda: len(workers_of(command.pid)) == 2)
            workers = workers_of(command.pid)
            command.send_signal(how)
            command.wait(60)
        finally:
            command.kill()
            command.wait()
    wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    if how is signal.SIGINT:
        assert "Traceback" not in (tmp_path / "errors").read_text()
        assert not list((tmp_path / "out" / ".parts").glob(".*"))
    kept = list((tmp_path / "out" / ".parts").glob("*.parquet"))
    assert all(is_finished(path) for path in kept)


def workers_of(parent: int) -> list[int]:
    """Return the spawned worker processes of a process."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            owner = int(status.read_text().rsplit(")", 1)[1].split()[1])
            if owner == parent and b"spawn_main" in status.with_name("cmdline").read_bytes():
                found.append(int(status.parent.name))
        except OSError:  # it has ended in between
            continue
    return found


def wait_for(is_true) -> None:
    end = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_same_seed_same_numbers_and_other_seed_other_numbers(toy):
    name = "r-admm/fig3"
    same, other = (
        joined([part.compute(Order(Size.TOY, seed=seed)) for part in FIGURES[name].parts]) for seed in (0, 1)
    )
    pd.testing.assert_frame_equal(toy.table(name), same)
    assert not np.allclose(toy.table(name)["value"], other["value"])


def test_a_part_is_named_after_all_the_code_it_rests_on(monkeypatch):
    """The scoreboard's LASSO uses the consensus paper's files: a change there is a change of the part."""
    part = FIGURES["scoreboard/lasso"].parts[0]
    before = output.part_path(Path("out"), part, TOY)
    plain = output._code
    for changed in ("papers/consensus/lasso.py", "privacy/curves.py", "solvers/kernels.py"):
        with monkeypatch.context() as patch:
            output._library.cache_clear()
            patch.setattr(output, "_code", lambda file, end=changed: f"{plain(file)}{file.as_posix().endswith(end)}")
            after = output.part_path(Path("out"), part, TOY)
            patch.setattr(output, "_code", lambda file: f"{plain(file)}False")
            output._library.cache_clear()
            unchanged = output.part_path(Path("out"), part, TOY)
        assert after != unchanged, changed
    output._library.cache_clear()
    assert output.part_path(Path("out"), part, TOY) == before


def test_refusals(toy, tmp_path, monkeypatch):
    taken = tmp_path / "taken"
    taken.write_text("x")
    for order, out, setting in (
        (Order(Size.FULL), toy.out, "size"),
        (Order(Size.TOY), taken, "out"),
        (Order(Size.TOY), taken / "below", "out"),
    ):
        with pytest.raises(InputError) as refusal:
            reproduce(["p-admm/fig1"], order, out)
        assert refusal.value.setting == setting
    monkeypatch.setenv("DPADMM_DATA", str(toy.out / "nowhere"))
    with pytest.raises(InputError) as refusal:
        reproduce(["p-admm/fig1"], Order(Size.TOY), toy.out)
    assert refusal.value.setting == "DPADMM_DATA"
