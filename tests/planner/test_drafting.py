"""Terms drafted from the entries of silos: whole, runnable, within the budget; and silos that do not fit together."""

from dataclasses import replace

import pytest
from tests.protections import changed

from dpadmm.errors import InputError
from dpadmm.federation.policy import FULLY_CERTIFIED, SUMMED, SiloEntry
from dpadmm.federation.terms import read_federation, write_federation
from dpadmm.planner.drafting import draft
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import NeighbouringRelation, Protection, View
from dpadmm_research.datasets.heart import SCHEMA

SIZES = (303, 261, 46, 130)
SUMS = {"methods": FULLY_CERTIFIED + SUMMED, "protection": Protection()}
ENTRIES = tuple(
    SiloEntry(name=name, key=f"{i}" * 64, schema=SCHEMA.digest, **SUMS, records=size)
    for i, (name, size) in enumerate(zip(("cleveland", "hungary", "zurich", "veterans"), SIZES, strict=True))
)
KEY = "c" * 64
TARGET = Target(2.0, 1e-6)


def test_terms_need_no_invented_number(tmp_path):
    planned = draft(ENTRIES, SCHEMA, TARGET)
    made = planned.terms("heart", KEY)
    terms = made
    assert [(each.name, each.records) for each in made.participants] == [(e.name, e.records) for e in ENTRIES]
    assert made.method == planned.plan.method
    assert made.rounds == planned.plan.rounds
    assert made.schema == SCHEMA.digest
    for agent in range(4):
        assert 1.9 < terms.spent_epsilon(agent, made.rounds) <= 2.0
    write_federation(tmp_path / "federation.toml", made)
    assert read_federation(tmp_path / "federation.toml").digest == made.digest


def test_weights_of_classes_are_terms():
    _, yes = SCHEMA.label.classes
    plain, weighted = draft(ENTRIES, SCHEMA, TARGET), draft(ENTRIES, SCHEMA, TARGET, class_weight={str(yes): 4})
    terms = weighted.terms("heart", KEY)
    assert terms.class_weights == (0.25, 1.0)
    assert replace(terms, class_weights=()) == plain.terms("heart", KEY)  # forecasts and noise do not know of them


def test_silos_that_let_sums_alone_be_seen_send_under_masks():
    entries = [changed(each, view=View.AGGREGATE, colluders=1 + (i == 2)) for i, each in enumerate(ENTRIES)]
    terms = draft(entries, SCHEMA, TARGET).terms("heart", KEY)
    assert terms.is_masked
    assert terms.protection.colluders == 2  # the most that any owner asks for


def test_secret_sizes_have_one_nominal_number():
    entries = [
        changed(each, relation=NeighbouringRelation.ADD_OR_REMOVE, records=None, view=View.PUBLIC) for each in ENTRIES
    ]
    terms = draft(entries, SCHEMA, TARGET, nominal_records=802).terms("heart", KEY)
    assert [each.records for each in terms.participants] == [201, 201, 200, 200]


def test_entries_are_read_back_and_others_are_refused(tmp_path):
    for entry in (ENTRIES[0], changed(ENTRIES[0], view=View.AGGREGATE, records=None)):
        entry.save(tmp_path / "a.entry")
        assert SiloEntry.load(tmp_path / "a.entry") == entry
    text = (tmp_path / "a.entry").read_text()
    for wrong in ("", "name = 1", text.replace("cleveland", ""), text + "more = 1\n", text.replace("aggregate", "web")):
        (tmp_path / "b.entry").write_text(wrong)
        with pytest.raises(InputError, match=r"b\.entry"):
            SiloEntry.load(tmp_path / "b.entry")
