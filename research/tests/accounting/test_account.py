"""`dpadmm account`: golden numbers, independent figures, the table against JSON, and bad input."""

import json
import math
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.pld import PLDAccountant
from scipy.stats import norm

from dpadmm.privacy.protection import NeighbouringRelation, Protection, Unit

GOLDEN = Path(__file__).parents[3] / "tests" / "golden" / "c3.json"


def gdp_delta(m, epsilon):
    """C0's formula as printed."""
    return norm.cdf(-epsilon / m + m / 2) - math.exp(epsilon) * norm.cdf(-epsilon / m - m / 2)


def test_p_admm_golden_sensitivity_and_exact_epsilon(cli):
    args = "account p-admm --records 6331 --degree 2 --eta 1e-3 --mu 2e-4 --rounds 40 --noise-std 5 --delta 1e-5"
    said = cli.ask(*args.split())["certified"]
    (sensitivity,) = said["sensitivities"]
    assert sensitivity["bounds"] == pytest.approx([2 / (6331 * 0.0042)] * 40, rel=1e-14)
    assert gdp_delta(math.sqrt(40) * 2 / (6331 * 0.0042) / 5, said["epsilon"]) == pytest.approx(1e-5, rel=1e-6)
    assert (said["unit"], said["relation"], said["view"]) == ("record", "replace-one", "eavesdropper")
    assert said["certificates"] == ["C1"]
    assert said["strength"] == "certified up to solver error"


def test_consensus_golden_sensitivities(cli):
    row = json.loads(GOLDEN.read_text())["rows"][0]
    case = cli.cases["consensus"]
    said = cli.ask("account", *case.args[:-1], "60", "--noise-rate", "10")
    bounds = said["certified"]["sensitivities"][0]["bounds"]
    assert [bounds[k] for k in (0, 1, 9, 59)] == pytest.approx(
        [row["dz_first"], row["dz_second"], row["dz_tenth"], row["dz_60"]], rel=1e-12
    )
    assert bounds[-1] == pytest.approx(4.684e-5, rel=1e-4)
    assert said["claimed_sensitivity"]["sensitivity"] == pytest.approx(9.24e-3, rel=1e-3)
    assert said["certified"]["epsilon"] == pytest.approx(10 * sum(bounds), rel=1e-12)
    assert said["certified"]["unit"] == "function"
    # Theorem 1 with the paper's H = (G + 3 delta rho/(rho - 2L))/(rho N), G = 2 weight sqrt(d)
    paper_h = (200 * math.sqrt(5) + 15) / 5e4
    assert said["claimed"][0]["epsilon"] == pytest.approx(600 * paper_h, rel=1e-12)


def test_objective_perturbation_by_hand(cli):
    dvp = cli.ask("account", *cli.cases["dvp"].args, "--noise-rate", "5")
    t = 0.25 / (1000 * (0.01 + 2 * 0.05 * 2))
    assert dvp["certified"]["epsilon"] == pytest.approx(20 * (5 * 2 / 1000 + math.log1p(t)), rel=1e-12)
    assert dvp["claimed"][0]["epsilon"] == pytest.approx(20 * (2 / 1000) * (1.4 * 0.25 / 0.21 + 5), rel=1e-12)
    assert dvp["claimed"][0]["provenance"] == "reconstructed"
    logistic = cli.ask("account", *cli.cases["dvp-logistic"].args, "--noise-rate", "50")
    assert logistic["certified"]["epsilon"] == pytest.approx(2 * 20 * 50 * 2 / 1000, rel=1e-12)
    odd = cli.ask("account", *cli.cases["r-admm"].args, "--noise-rate", "5")
    assert odd["noise"]["rounds"] == list(range(1, 22, 2))
    assert odd["certified"]["epsilon"] == pytest.approx(11 * (5 * 2 / 1000 + math.log1p(t)), rel=1e-12)


def test_m_admm_noise_is_inside_the_penalty(cli):
    said = cli.ask("account", *shlex.split("m-admm --records 1000 --degree 2 --eta 0.05 --rounds 1 --noise-rate 3"))
    linear = 3 / (2 * 0.05 * 2)
    assert said["certified"]["epsilon"] == pytest.approx(linear * 2 / 1000 + math.log1p(0.25 / (1000 * 0.2)), rel=1e-12)


def test_fixed_point_by_hand(cli):
    said = cli.ask("account", *cli.cases["fp-federated"].args, "--noise-std", "20", "--delta", "1e-5")
    m = math.sqrt(9) * (4 * 0.5 * 1) / 20  # 2 D_x = 4 gamma L, nine participations
    assert gdp_delta(m, said["certified"]["epsilon"]) == pytest.approx(1e-5, rel=1e-6)
    assert [claim["theorem"] for claim in said["claimed"]] == ["Theorem 3 (central)", "Theorem 10", "Theorem 3 (local)"]
    slope = 8 * 9 * (0.5 / 20) ** 2
    assert said["claimed"][2]["epsilon"] == pytest.approx(slope + 2 * math.sqrt(slope * math.log(1e5)), rel=1e-9)
    whole = cli.ask("account", *cli.cases["fp-federated"].args[:-2], "--noise-std", "20", "--delta", "1e-5")
    assert len(whole["noise"]["levels"]) == 50  # without a drawn schedule a user may be in every round


def test_sampling_against_dp_accounting(cli):
    said = cli.ask("account", *cli.cases["dp-sgd"].args, "--noise-std", "0.01", "--delta", "1e-5")
    accountant = PLDAccountant(NeighboringRelation.REPLACE_ONE)
    step = dp_event.PoissonSampledDpEvent(50 / 2000, dp_event.GaussianDpEvent(0.01 / (0.5 / 50)))
    accountant.compose(dp_event.SelfComposedDpEvent(step, 100))
    assert said["certified"]["epsilon"] == pytest.approx(accountant.get_epsilon(1e-5), rel=5e-3)


def test_ps_admm_with_one_inner_step_is_a_plain_gaussian(cli):
    args = "account ps-admm --records 2000 --rounds 16 --inner-steps 1 --noise-std 0.01 --delta 1e-5"
    said = cli.ask(*args.split())
    assert gdp_delta(4 * (2 / 2000) / 0.01, said["certified"]["epsilon"]) == pytest.approx(1e-5, rel=1e-6)
    more = cli.ask("account", *cli.cases["ps-admm"].args, "--noise-std", "0.05", "--delta", "1e-5")
    alone = math.sqrt(100) * (2 / 2000) / 0.05  # the full gradient's part alone costs less than all
    assert gdp_delta(alone, more["certified"]["epsilon"]) < 1e-5
    everyone = math.sqrt(100) * (2 / 2000 + 4 / 100) / 0.05  # and a full step without sampling more
    assert gdp_delta(everyone, more["certified"]["epsilon"]) > 1e-5


def test_person_in_several_silos(cli):
    local = cli.ask(
        "account", *cli.cases["p-admm"].args, "--silos-per-person", "4", "--noise-std", "0.5", "--delta", "1e-5"
    )
    m = math.sqrt(4 * 20) * (2 / 1000 / 0.21) / 0.5  # squares add: every silo has noise of its own
    assert gdp_delta(m, local["certified"]["epsilon"]) == pytest.approx(1e-5, rel=1e-6)
    args = cli.cases["consensus-gaussian"].args
    two = cli.ask("account", *args, "--noise-std", "0.05", "--delta", "1e-5")["certified"]["sensitivities"][0]
    one = cli.ask("account", *args[:-2], "--noise-std", "0.05", "--delta", "1e-5")["certified"]["sensitivities"][0]
    assert two["bounds"] == pytest.approx(2 * np.array(one["bounds"]), rel=1e-14)  # bounds add: one noise for all


def test_table_shows_what_json_says(cli, case):
    args = ["account", *case.args, *case.level.split(), "--delta", case.delta]
    said, table = cli.ask(*args), cli.run(*args).stdout
    for figure in (said["certified"], *said["claimed"]):
        rows = {line.split("│")[1].strip(): line for line in table.splitlines() if line.startswith("│")}
        assert f"{figure['epsilon']:.6g}" in rows["epsilon"]
        assert f"{figure['delta']:.6g}" in rows["delta"]
    for claim in said["claimed"]:
        assert claim["theorem"] in rows["by"]
        assert ("printed conditions hold" in rows["status"]) == any(c["conditions_hold"] for c in said["claimed"])
    for each in said["certified"]["sensitivities"]:
        assert f"{each['bounds'][0]:.6g}" in rows[f"sensitivity, {each['certificate']}"]
    assert said["certified"]["strength"] in rows["status"]
    for assumption in said["certified"]["assumptions"]:
        assert assumption in table
    facts = said["certified"]
    hidden = Protection(
        unit=Unit(facts["unit"]),
        relation=NeighbouringRelation(facts["relation"]),
        records_per_person=facts["records_per_person"],
        silos_per_person=facts["silos_per_person"],
    )
    assert f"Protects {hidden} from the {facts['view']}" in table
    assert "CLAIMED" in table
    assert (said["claimed"] == []) == (said["no_claim"] is not None)


def test_schedule_changes_the_noise_of_later_rounds(cli):
    args = ["account", *cli.cases["p-admm"].args, "--noise-std", "0.5", "--delta", "1e-5"]
    falling = cli.ask(*args, "--schedule", "geometric:0.81")
    levels = falling["noise"]["levels"]
    assert levels == pytest.approx(0.5 * 0.9 ** np.arange(20), rel=1e-12)
    m = math.sqrt(sum((2 / 1000 / 0.21 / level) ** 2 for level in levels))
    assert gdp_delta(m, falling["certified"]["epsilon"]) == pytest.approx(1e-5, rel=1e-6)
    rho = (1 / (0.05 * 2) / 0.5) ** 2 / 2 * sum(0.81**-k for k in range(20))  # Theorems 2 and 3 by hand
    claimed = rho + 2 * math.sqrt(rho * math.log(1e5))
    assert falling["claimed"][0]["epsilon"] == pytest.approx(claimed, rel=1e-9)
    rising = cli.ask("account", *cli.cases["dvp"].args, "--noise-rate", "5", "--schedule", "cao:15")
    assert rising["noise"]["levels"][:3] == pytest.approx([5, 10, 20], rel=1e-12)


def test_usage_errors_are_typers(cli):
    for args in (["account", "q-admm"], ["account", "dp-gd", "--rounds", "3"], ["account", "dp-gd", "--wrong", "3"]):
        result = cli.run(*args)
        assert result.exit_code == 2
        assert "Usage: " in result.stderr


def test_a_claim_that_cannot_be_evaluated_is_said_and_the_rest_stands(cli):
    args = ["account", *cli.cases["p-admm"].args, "--noise-std", "0.5", "--delta", "1e-5", "--schedule", "cao:1"]
    assert cli.ask(*args)["claimed"][0]["theorem"] == "Theorem 3"  # the Cao shape is geometric too
    args = [
        "account",
        *cli.cases["fp-walk"].args,
        "--noise-std",
        "5",
        "--delta",
        "1e-5",
        "--schedule",
        "geometric:0.9",
    ]
    said = cli.ask(*args)
    assert said["claimed"] == []
    assert "same noise" in said["no_claim"]
    assert said["certified"]["epsilon"] > 0


@pytest.mark.parametrize("level", ["1e12", "1e300"])
def test_sampled_noise_that_leaves_no_loss_to_put_on_a_grid(cli, level):
    said = cli.ask("account", *cli.cases["dp-sgd"].args, "--noise-std", level, "--delta", "1e-5")
    assert said["certified"]["epsilon"] == 0


def test_noise_beyond_the_range_of_a_claim(cli):
    args = ["account", *cli.cases["p-admm"].args, "--noise-std", "1e-300", "--delta", "1e-5"]
    said = cli.ask(*args)
    assert said["certified"]["epsilon"] == "infinite"
    assert said["claimed"] == []
    assert "floating-point" in said["no_claim"]


def test_help_lists_every_method_and_units(cli):
    listing = cli.run("account", "--help").stdout
    for case in cli.cases.values():
        assert case.method in listing
    assert "records of the agent" in cli.run("account", "p-admm", "--help").stdout


def test_the_installed_command():
    script = Path(sys.executable).with_name("dpadmm")
    args = "account dp-gd --records 100 --rounds 4 --noise-std 0.1 --delta 1e-5 --json"
    done = subprocess.run([script, *args.split()], capture_output=True, text=True, check=True)
    assert gdp_delta(2 * 0.02 / 0.1, json.loads(done.stdout)["certified"]["epsilon"]) == pytest.approx(1e-5, rel=1e-6)
    bad = subprocess.run([script, *args.replace("100", "0", 1).split()], capture_output=True, text=True, check=False)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "Traceback" not in bad.stderr
