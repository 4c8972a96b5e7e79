"""`dpadmm calibrate`: what it finds costs what was asked, by certificates or by claims; nothing is mixed."""

import math
import shlex

import pytest


def spend(cli, case, levels, delta):
    """Account the noise levels through the library, the round's levels given one by one."""
    said = cli.ask("account", *case.args, case.level.split()[0], repr(levels[0]), "--delta", delta)
    assert said["noise"]["levels"] == pytest.approx(levels, rel=1e-12)
    return said["certified"]["epsilon"]


@pytest.mark.parametrize("epsilon", ["0.6", "3"])
def test_account_of_calibrate_is_epsilon(cli, case, epsilon):
    said = cli.ask("calibrate", *case.args, "--epsilon", epsilon, "--delta", case.delta)
    assert said["calibration"]["by"] == "certificates"
    assert said["calibration"]["claim"] is None
    spent = spend(cli, case, said["noise"]["levels"], case.delta)
    loss = 4e-3 if case.method == "ps-admm" else 1.1e-3 if case.method in ("dp-sgd", "dp-prox-sgd") else 1e-6
    assert float(epsilon) * (1 - loss) <= spent <= float(epsilon) * (1 + 1e-12)
    assert said["certified"]["epsilon"] == pytest.approx(spent, rel=1e-9)


@pytest.mark.parametrize("schedule", ["geometric:0.9", "cao:0.5", "optimal"])
@pytest.mark.parametrize("name", ["p-admm", "dvp", "dvp-logistic", "m-admm", "consensus", "fp-coordinator"])
def test_schedules_spend_the_budget_too(cli, name, schedule):
    case = cli.cases[name]
    said = cli.ask("calibrate", *case.args, "--epsilon", "2", "--delta", case.delta, "--schedule", schedule)
    assert 2 * (1 - 1e-6) <= said["certified"]["epsilon"] <= 2 * (1 + 1e-12)


def test_schedule_of_a_sampled_method(cli):
    args = shlex.split("calibrate dp-sgd --records 2000 --batch 50 --clip 0.5 --rounds 3 --epsilon 2 --delta 1e-5")
    said = cli.ask(*args, "--schedule", "geometric:0.5")
    assert 2 * (1 - 1.1e-3) <= said["certified"]["epsilon"] <= 2 * (1 + 1e-12)
    assert said["noise"]["levels"][2] == pytest.approx(said["noise"]["levels"][0] / 2, rel=1e-12)


def test_shapes(cli):
    case = cli.cases["consensus"]
    cao = cli.ask("calibrate", *case.args, "--epsilon", "1", "--schedule", "cao:15")["noise"]["levels"]
    assert cao[1] / cao[0] == pytest.approx(2, rel=1e-12)
    best = cli.ask("calibrate", *case.args, "--epsilon", "1", "--schedule", "optimal")
    bounds, rates = best["certified"]["sensitivities"][0]["bounds"], best["noise"]["levels"]
    assert rates[0] / rates[-1] == pytest.approx((bounds[-1] / bounds[0]) ** (1 / 3), rel=1e-12)
    plain = cli.ask("calibrate", *case.args, "--epsilon", "1")["noise"]["levels"]
    assert sum(rate**-2 for rate in rates) < sum(rate**-2 for rate in plain)


def test_jacobian_free_branch_is_taken_when_it_pays(cli):
    args = shlex.split("calibrate dvp --records 1000 --degree 2 --eta 0.05 --mu 0.01 --rounds 10")
    rich = cli.ask(*args, "--epsilon", "1", "--logistic")["noise"]["levels"]
    assert rich == pytest.approx([0.1 * 1000 / 2] * 10, rel=1e-9)  # rate 50 is above G/s = 4.76
    poor = cli.ask(*args, "--epsilon", "0.05", "--logistic")["noise"]["levels"]
    jacobian = math.log1p(0.25 / (1000 * 0.21))
    assert poor == pytest.approx([(0.005 - jacobian) * 500] * 10, rel=1e-9)


CLAIMED = ["p-admm", "dvp", "m-admm", "r-admm", "consensus", "ps-admm", "fp-centralised", "fp-federated", "fp-walk"]


@pytest.mark.parametrize("name", CLAIMED)
def test_claimed_calibration_is_labelled_and_certified_beside(cli, name):
    case = cli.cases[name]
    args = ["calibrate", *case.args, "--epsilon", "1", "--delta", case.delta, "--claimed"]
    said, text = cli.ask(*args), cli.run(*args).stdout
    assert said["calibration"]["by"] == "CLAIM"
    assert said["calibration"]["claim"]["label"].startswith("[claimed: ")
    assert said["claimed"][0]["epsilon"] == pytest.approx(1, rel=1e-9)
    assert said["certified"]["epsilon"] == pytest.approx(
        spend(cli, case, said["noise"]["levels"], case.delta), rel=1e-9
    )
    assert "CLAIMED CALIBRATION" in text
    assert "NOT certified" in text
    assert f"Its certified epsilon is {said['certified']['epsilon']:.6g}." in text


def test_claimed_figures_against_formulas_by_hand(cli):
    walk = cli.ask("calibrate", *cli.cases["ps-admm"].args, "--epsilon", "0.5", "--delta", "1e-3", "--claimed")
    assert walk["noise"]["levels"][0] == pytest.approx(math.sqrt(100 * math.log(1e3)) / (2000 * 0.5), rel=1e-12)
    assert not walk["claimed"][0]["conditions_hold"]
    args = ["calibrate", *cli.cases["consensus"].args, "--epsilon", "0.1", "--claimed"]
    paper_h = (200 * math.sqrt(5) + 15) / 5e4
    assert sum(cli.ask(*args)["noise"]["levels"]) == pytest.approx(0.1 / paper_h, rel=1e-12)
    q = 1.3**0.25
    rates = cli.ask(*args, "--schedule", "cao:0.3")["noise"]["levels"]  # eq. (21), K - 1 = 12 noisy rounds
    first = 0.1 / paper_h * (q - 1) / (q**12 - 1)
    assert rates == pytest.approx([first * q**k for k in range(12)], rel=1e-10)
