"""`dpadmm plan`: from public facts, as text, JSON and plot."""

import xml.etree.ElementTree as ET

import pytest

WORDS = ("plan", "--sizes", "300,200", "--dimension", "4", "--epsilon", "1", "--delta", "1e-5")
SIGNALS = ["weak", "moderate", "strong"]


def test_the_plan_is_that_of_the_training(cli, study, trained):
    said = cli.ask("plan", *study.files, *study.words[2:], "--no-curve")
    assert said["command"] == "plan"
    assert said["task"]["sizes"] == [300, 200]
    assert (said["method"], said["rounds"]) == (trained.said["choice"]["method"], trained.said["choice"]["rounds"])
    assert said["curve"] == []


def test_the_curve_goes_to_the_terminal_and_to_a_file(cli, study, tmp_path):
    place = tmp_path / "curve.svg"
    words = (*WORDS, "--method", "output-perturbation")
    result = cli.run(*words, "--plot", str(place))
    assert result.exit_code == 0, result.output
    for epsilon in ("0.1", "0.3", "1", "3", "10"):
        assert f"│ {epsilon:>7} │" in result.stdout
    assert "Expected AUC against epsilon, if a model without privacy reaches 0.8" in " ".join(result.stdout.split())
    drawn = place.read_text()  # letters are paths; comments hold their text
    assert ET.fromstring(drawn).tag.endswith("svg")
    assert all(f"{signal} signal" in drawn for signal in SIGNALS)
    assert "exists already" in cli.run(*words, "--plot", str(place)).stderr
    png = tmp_path / "curve.png"
    said = cli.ask(*words, "--plot", str(png))
    assert png.read_bytes().startswith(b"\x89PNG")
    assert all([each["signal"] for each in point["signals"]] == SIGNALS for point in said["curve"])
    lows = [point["signals"][1]["low"] for point in said["curve"]]
    assert [point["epsilon"] for point in said["curve"]] == [0.1, 0.3, 1.0, 3.0, 10.0]
    assert lows[-1] > lows[0]


def test_the_curve_is_whole_on_a_narrow_terminal(cli, monkeypatch):
    """Bars that are cut at the same place look alike, whatever they stand for."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = cli.run(*WORDS, "--method", "output-perturbation").stdout.split("against epsilon")[1]
    assert "…" not in shown
    bars = [line.split("│")[3].strip() for line in shown.splitlines() if line.startswith("│") and line[4:9].strip()]
    assert len(bars) == 5
    assert all(len(bar) == 10 and not bar.strip("█·") for bar in bars)


def test_a_plot_is_written_in_whole_or_not_at_all(cli, tmp_path, monkeypatch):
    place = tmp_path / "curve.png"
    words = (*WORDS, "--method", "output-perturbation", "--plot", str(place))
    monkeypatch.setattr("os.replace", raise_interrupt)
    assert cli.run(*words).exit_code != 0
    assert list(tmp_path.iterdir()) == []


def raise_interrupt(*_, **__):
    raise KeyboardInterrupt


def test_the_forecast_is_for_the_base_rate_that_is_stated(cli, study):
    words = (*WORDS, "--method", "output-perturbation", "--prevalence", "0.1")
    said = cli.ask(*words)
    assert said["task"]["prevalence"] == 0.1
    assert [each["signal"] for each in said["expected"]["signals"]] == SIGNALS
    assert all(point["prevalence"] == 0.1 for point in said["curve"])
    shown = cli.run(*words).stdout
    assert "for the stated base rate of 0.1" in shown
    assert "AUC" in shown.split("against epsilon")[1]


def test_the_forecast_is_for_the_signal_that_is_stated(cli, study):
    words = (*WORDS, "--method", "output-perturbation", "--expected-auc", "0.7")
    said = cli.ask(*words)
    assert said["task"]["expected_auc"] == 0.7
    (only,) = said["expected"]["signals"]
    assert (only["signal"], only["non_private"]) == ("stated", 0.7)
    assert [point["signals"][0]["non_private"] for point in said["curve"]] == [0.7] * 5
    shown = cli.run(*words).stdout
    assert f"{only['low']:.2f} to {only['high']:.2f} for a stated signal (0.7 without privacy)" in " ".join(
        shown.split()
    )
    assert "if a model without privacy reaches 0.7" in " ".join(shown.split())
    usual = cli.run(*WORDS, "--method", "output-perturbation").stdout
    assert "state it with --expected-auc" in " ".join(usual.split())
    assert "if a model without privacy reaches 0.8" in " ".join(usual.split())
    numbers = cli.ask(*WORDS, "--method", "output-perturbation", "--predict", "number", "--expected-r2", "0.3")
    assert numbers["expected"]["score"] == "R^2"
    assert numbers["expected"]["signals"][0]["non_private"] == 0.3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--sizes 300,x", "--sizes takes whole numbers"),
        ("--sizes 300,0", "every size must be"),
        ("--dimension 0", "dimension must be"),
        ("--plot curve.gif", "must end in .svg or .png"),
        ("--method magic", "must be 'auto' or one of"),
        ("--loss huber", "Use logistic or svm"),
        ("--expected-r2 0.3", "--expected-r2 is for numbers"),
        ("--expected-auc 0.8 --predict number", "--expected-auc is for classes"),
        ("--prevalence 0.2 --predict number", "but the target is a number"),
    ],
)
def test_what_is_refused(cli, study, words, message):
    result = cli.run(*WORDS, *words.split())
    assert result.exit_code == 2
    assert message in result.stderr


def test_sizes_or_files_and_dimension_or_schema(cli, study):
    assert "not both" in cli.run(*WORDS, study.files[0]).stderr
    assert "not both" in cli.run(*WORDS, "--schema", study.schema).stderr
    assert "Give either the records" in cli.run("plan", "--dimension", "3", "--epsilon", "1", "--delta", "1e-5").stderr


def test_where_sums_are_seen_the_plan_says_the_shares_and_what_they_add_up_to(cli):
    words = ("plan", "--sizes", "300,200,250,150", "--dimension", "4", "--epsilon", "1", "--delta", "1e-5")
    words = (*words, "--no-curve", "--method", "noisy-gradients", "--view", "aggregate")
    said = cli.ask(*words)
    assert (said["task"]["view"], said["task"]["colluders"]) == ("aggregate", 1)
    assert said["share_std"][0] * 3**0.5 == pytest.approx(said["noise_std"][0])
    shown = " ".join(cli.run(*words, "--colluders", "2").stdout.split())
    assert "from the coordinator with up to 2 silos, who see sums" in shown
    assert "on every number a silo sends" in shown
    assert "counts (from 2 honest silos); replacing one record moves the sum" in shown
    assert cli.ask(*WORDS, "--no-curve")["share_std"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--view aggregate", "needs at least 3 silos, got 2"),
        ("--view aggregate --colluders -1", "colluders must"),
        ("--colluders 1", "colluders apply only to the view 'aggregate'"),
        ("--view aggregate --colluders 0 --topology path", "masks cannot hide them"),
    ],
)
def test_sums_that_hide_nobody_are_refused(cli, words, message):
    result = cli.run(*WORDS, "--no-curve", *words.split())
    assert result.exit_code == 2
    assert message in result.stderr
