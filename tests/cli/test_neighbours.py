"""`--neighbours add-remove`: sizes stay secret from the plan to the saved model, and empty tables take part.

What is refused is in tests/snapshots/terminal/refusals.txt, and in tests/estimators/test_neighbours.py.
"""

import json
import re

import pandas as pd
import pytest
from tests.builders import instant_plans

from dpadmm.core.model import ReleasedModel
from dpadmm.privacy.ledger import open_for_reading
from dpadmm.privacy.protection import NeighbouringRelation

pytestmark = pytest.mark.usefixtures("instant_forecasts")
ADDED = ("--neighbours", "add-remove", "--nominal-records", "640", "--view", "public")


def is_shown(text):
    """Return whether the size of a silo, 287 or 193, or of both, stands in a text, paths left out."""
    return re.search(r"(?<![\w.])(287|193|480)(?![\w.])", re.sub(r"\S*/\S*", "", text)) is not None


@pytest.fixture(scope="module")
def done(cli, study, tmp_path_factory):
    """Train with a new ledger, with an empty third silo, and return the folder and what was said."""
    place = tmp_path_factory.mktemp("added")
    for name, file, size in zip(
        ("north", "south", "empty"), (*study.files, study.files[0]), (287, 193, 0), strict=True
    ):
        pd.read_csv(file).iloc[:size].to_csv(place / f"{name}.csv", index=False)
    args = (*(str(place / f"{name}.csv") for name in ("north", "south", "empty")), *study.args[2:], *ADDED)
    with instant_plans():
        result = cli.run("fit", *args, "--out", str(place / "m.json"), "--ledger", str(place / "l"), "--budget", "3")
    assert result.exit_code == 0, result.output
    return place, args, result


def test_the_model_and_its_ledger_name_the_relation_and_tell_no_size(cli, done):
    place, _, result = done
    model = ReleasedModel.load(place / "m.json")
    assert (model.guarantee.protection.relation.value, model.records) == ("add-or-remove", 640)
    assert "(nominally 640)" in " ".join(result.stdout.split())
    assert not is_shown(result.stdout)
    assert not is_shown(model.statement)
    public = {name: value for name, value in json.loads((place / "m.json").read_text()).items() if name != "schema"}
    assert not is_shown(json.dumps(public))
    shown = cli.run("ledger", "show", str(place / "l")).stdout
    assert "add-or-remove" in shown
    assert not is_shown(shown)
    with open_for_reading(place / "l") as ledger:
        assert ledger.protection.relation is NeighbouringRelation.ADD_OR_REMOVE


def test_a_second_fit_takes_the_relation_from_the_ledger_but_needs_the_number(cli, done):
    place, args, _ = done
    ledger = ("--ledger", str(place / "l"), "--out", str(place / "other.json"))
    asked = [term for term in args if term not in ADDED]
    refused = cli.run("fit", *asked, *ledger)
    assert refused.exit_code != 0
    assert "--nominal-records must be given" in refused.stderr
    again = cli.run("fit", *asked, *ledger, "--nominal-records", "640", "--view", "public")
    assert again.exit_code == 0, again.output
    other = cli.run("fit", *asked, *ledger, "--neighbours", "replace-one", "--force")
    assert other.exit_code != 0
    assert not is_shown(other.stderr)


def test_a_plan_counts_no_rows(cli, done):
    _, args, _ = done
    said = cli.ask("plan", *args, "--no-curve")
    assert (said["task"]["relation"], said["task"]["sizes"]) == ("add-or-remove", [214, 213, 213])
