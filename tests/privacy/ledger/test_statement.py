"""What a ledger says can be read, and checked without it."""

import hashlib
import json

import pytest
from tests.privacy.ledger import tools

from dpadmm.errors import LedgerError
from dpadmm.privacy.ledger import Budget, Ledger
from dpadmm.privacy.protection import Protection, Strength, Unit, View


def test_an_empty_ledger_has_spent_nothing(ledger):
    statement = ledger.statement()
    assert (statement.spent_epsilon, statement.left_epsilon, statement.releases) == (0.0, 1.0, 0)
    assert statement.strength is Strength.FULL
    assert statement.silos == ()


def test_strength_is_the_weakest(ledger):
    for k, strength in enumerate((Strength.FULL, Strength.UP_TO_SOLVER_ERROR, Strength.UP_TO_FLOATING_POINT)):
        tools.reserve(ledger, tools.gaussian(k, ratio=0.01, strength=strength))
    statement = ledger.statement()
    assert statement.strength is Strength.UP_TO_SOLVER_ERROR
    assert set(statement.strengths) == set(Strength)
    for strength in Strength:
        assert strength.value in str(statement)


def test_whether_the_figure_holds_for_noise_chosen_on_the_way(ledger):
    tools.reserve(ledger, tools.gaussian(0))
    assert ledger.statement().holds_adaptively
    tools.reserve(ledger, tools.pure(1, epsilon=0.01))
    assert not ledger.statement().holds_adaptively
    assert "planned beforehand" in str(ledger.statement())


def test_text_names_all_that_a_figure_must(path):
    silos = tools.silos[:2]
    with Ledger.create(path, silos, tools.budget) as ledger:
        tools.reserve(ledger, *(tools.gaussian(0, agent=agent) for agent in (-1, 0, 1)), data=silos)
        text, head = str(ledger.statement()), ledger.head
    expected = tools.compose([tools.gaussian(count=2)]).epsilon(1e-5)
    assert f"  b: epsilon {expected:.6g} in 2 releases" in text
    for part in (f"{expected:.6g} of 1", "1e-05", "one record", "replace-one", "eavesdropper", "certified", "one silo"):
        assert part in text
    assert head in text


@pytest.mark.parametrize(
    "protection", [Protection(records_per_person=40), Protection(unit=Unit.USER, view=View.PUBLIC)]
)
def test_text_counts_a_persons_records(path, protection):
    with Ledger.create(path, tools.data, tools.budget, protection=protection) as ledger:
        assert f"{protection} from {protection.observer}" in str(ledger.statement())


def test_export_can_be_checked_by_hand(ledger, tmp_path):
    tools.reserve(ledger, tools.gaussian(0), tools.pure(1))
    ledger.set_budget(Budget(epsilon=2.0, delta=1e-6), reason="für die zweite Studie")
    ledger.export_json(tmp_path / "export.json")
    document = json.loads((tmp_path / "export.json").read_text())
    previous = "0" * 64
    for number, entry in enumerate(document["entries"], start=1):
        body = json.dumps(entry["body"], sort_keys=True, separators=(",", ":"))
        assert hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest() == entry["digest"]
        assert entry["body"]["seq"] == number
        previous = entry["digest"]
    assert previous == document["head"] == ledger.head == ledger.verify()
    assert [entry["body"]["event"] for entry in document["entries"]] == ["created", "release", "release", "budget"]
    assert document["budget"] == {"epsilon": 2.0, "delta": 1e-6}
    assert document["spent_epsilon"] == ledger.statement().spent_epsilon
    with pytest.raises(LedgerError, match="be created"):
        ledger.export_json(tmp_path / "export.json")
