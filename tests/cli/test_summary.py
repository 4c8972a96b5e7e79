"""`dpadmm fit --aim inference` and `dpadmm summary`: the table, its JSON, and plain refusals."""

import json

import numpy as np
import pandas as pd
import pytest

from dpadmm.data.columns import BinaryLabel, Categorical, Numeric
from dpadmm.data.schema import Schema

N = 6000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("inference")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.normal(50, 12, N).clip(0, 100).round(1), "sex": rng.choice(["F", "M"], N)})
    score = -2.0 + 0.04 * table["age"] + 0.5 * (table["sex"] == "M")
    table["sick"] = np.where(rng.random(N) < 1 / (1 + np.exp(-score)), "yes", "no")
    table.to_csv(place / "t.csv", index=False)
    columns = (Numeric("age", 0, 100), Categorical("sex", ("F", "M")))
    schema = Schema(columns, BinaryLabel("sick", ("yes",), ("no",)), constant=0.3)
    (place / "schema.json").write_text(schema.to_json())
    return place


def fit(cli, folder, *more):
    known = ("--schema", folder / "schema.json", "--delta", "1e-5")
    args = ("fit", folder / "t.csv", *known, "--out", folder / "m.json", "--force", *more)
    return cli.run(*map(str, args))


def test_fit_prints_the_table_and_summary_prints_it_again(cli, folder):
    done = fit(cli, folder, "--epsilon", "3", "--aim", "inference", "--simulate", "1", "--report", folder / "r.html")
    assert done.exit_code == 0, done.output
    for args in ("std err", "P>|z|", "sex=M (against F)", "ordinary logistic", "NOT a private release"):
        assert args in done.output
    assert "Coefficients and their intervals" in (folder / "r.html").read_text()
    again = cli.run("summary", str(folder / "m.json"))
    assert again.exit_code == 0
    assert again.output.strip() in done.output
    facts = json.loads(cli.run("summary", str(folder / "m.json"), "--json", "--level", "0.9").output)
    assert facts["command"] == "summary"
    assert facts["level"] == 0.9
    assert facts["why_no_intervals"] is None
    assert [each["name"] for each in facts["coefficients"]] == ["age", "sex=M", "(intercept)"]
    assert facts["coefficients"][0]["low"] < facts["coefficients"][0]["coef"] < facts["coefficients"][0]["high"]


def test_plan_and_fit_say_beforehand_where_there_can_be_none(cli, folder):
    known = ("--schema", folder / "schema.json", "--epsilon", "0.05", "--delta", "1e-5", "--aim", "inference")
    planned = cli.run("plan", *map(str, (folder / "t.csv", *known, "--no-curve")))
    assert planned.exit_code == 0
    assert "no intervals" in " ".join(planned.output.split())
    refused = fit(cli, folder, "--epsilon", "0.05", "--aim", "inference")
    assert refused.exit_code != 0
    assert "--anyway" in refused.output
    assert "Nothing was spent" in " ".join(refused.output.split())


def test_a_model_that_predicts_says_how_to_have_them(cli, folder):
    assert fit(cli, folder, "--epsilon", "3", "--simulate", "1").exit_code == 0
    said = " ".join(cli.run("summary", str(folder / "m.json")).output.split())
    assert "No intervals" in said
    assert "--aim inference" in said
