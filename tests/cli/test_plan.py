"""`dpadmm plan`: from public facts, as text, JSON and plot. tests/planner tests what is planned."""

import xml.etree.ElementTree as ET

ARGUMENTS = ("plan", "--sizes", "300,200", "--dimension", "4", "--epsilon", "1", "--delta", "1e-5")
SUMS = ("plan", "--sizes", "300,200,250,150", "--dimension", "4", "--epsilon", "1", "--delta", "1e-5", "--no-curve")
SIGNALS = ["weak", "moderate", "strong"]


def test_the_plan_is_that_of_the_training(cli, study, trained, instant_forecasts):
    said = cli.ask("plan", *study.files, *study.args[2:], "--no-curve")
    assert (said["command"], said["task"]["sizes"], said["curve"]) == ("plan", [300, 200], [])
    assert (said["method"], said["rounds"]) == (trained.said["choice"]["method"], trained.said["choice"]["rounds"])


def test_what_the_terminal_says(cli, snapshot):
    one = cli.run(*ARGUMENTS, "--method", "output-perturbation", "--prevalence", "0.1")
    sums = cli.run(*SUMS, "--method", "noisy-gradients", "--view", "aggregate", "--colluders", "2")
    snapshot("terminal/plan.txt", f"{one.stdout}\n{sums.stdout}")


def test_settings_arrive_and_curves_are_drawn(cli, tmp_path):
    place, png = tmp_path / "curve.svg", tmp_path / "curve.png"
    args = (*ARGUMENTS, "--method", "output-perturbation")
    assert cli.run(*args, "--plot", str(place)).exit_code == 0
    drawn = place.read_text()  # letters are paths; comments hold their text
    assert ET.fromstring(drawn).tag.endswith("svg")
    assert all(f"{signal} signal" in drawn for signal in SIGNALS)
    said = cli.ask(*args, "--prevalence", "0.1", "--plot", str(png))
    assert png.read_bytes().startswith(b"\x89PNG")
    assert [[each["signal"] for each in point["signals"]] for point in said["curve"]] == [SIGNALS] * 5
    assert [point["epsilon"] for point in said["curve"]] == [0.1, 0.3, 1.0, 3.0, 10.0]
    assert (said["task"]["prevalence"], said["curve"][0]["prevalence"]) == (0.1, 0.1)
    numbers = cli.ask(*args, "--predict", "number", "--expected-r2", "0.3")
    assert numbers["expected"]["score"] == "R^2"
    assert [point["signals"][0]["non_private"] for point in numbers["curve"]] == [0.3] * 5
    sums = cli.ask(*SUMS, "--view", "aggregate")["task"]
    assert (sums["view"], sums["colluders"]) == ("aggregate", 1)


def test_the_curve_is_whole_on_a_narrow_terminal(cli, monkeypatch):
    """Bars that are cut at the same place look alike, whatever they stand for."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = cli.run(*ARGUMENTS, "--method", "output-perturbation").stdout.split("against epsilon")[1]
    assert "…" not in shown
    bars = [line.split("│")[3].strip() for line in shown.splitlines() if line.startswith("│") and line[4:9].strip()]
    assert len(bars) == 5
    assert all(len(bar) == 10 and not bar.strip("█·") for bar in bars)


def test_a_plot_is_written_in_whole_or_not_at_all(cli, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupt)
    args = (*ARGUMENTS, "--method", "output-perturbation", "--plot", str(tmp_path / "curve.png"))
    assert cli.run(*args).exit_code != 0
    assert list(tmp_path.iterdir()) == []
