"""Attacks by coordinators, strangers and careless owners on what a silo promises; real files, no network."""

import json
import os
import stat
from contextlib import closing
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dpadmm.codec import decode
from dpadmm.data.schema import Schema
from dpadmm.data.tables import encode_table
from dpadmm.errors import InputError, SolverError
from dpadmm.federation import messages
from dpadmm.federation.admin.rehearsal import p_admm_terms, prepare_rehearsal, rehearsal_policy
from dpadmm.federation.coordinator_store import CoordinatorFiles
from dpadmm.federation.errors import printable
from dpadmm.federation.messages import Answer, Joined, Refused
from dpadmm.federation.policy import Policy
from dpadmm.federation.silo import ENDED, Silo
from dpadmm.federation.silo_directory import SiloDirectory
from dpadmm.federation.terms import NoiseOrigin, Terms, stored_terms
from dpadmm.noise.sampler import SecureSampler
from dpadmm.privacy.ledger import ConfirmedLedger
from dpadmm.privacy.protection import View
from dpadmm.settings import CellRules

NOTHING = np.zeros((0, 3))


def counted(monkeypatch, owner, name):
    """Count the calls of a method."""
    original, calls = getattr(owner, name), []

    def wrapped(*args, **kwargs):
        calls.append(name)
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, wrapped)
    return calls


# --- noise drawn twice -----------------------------------------------------------------------------------------------


BROKEN = {
    "a norm beyond the agreed": ({"largest": 1e-9}, None),
    "counts beyond the agreed": ({"largest": 1e-9, "sizes": (2, 2, 2)}, None),
    **{kind.__name__: ({}, kind) for kind in (InputError, SolverError, ValueError, KeyError)},
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_step_is_not_tried_again_whatever_it_failed_with(setups, tmp_path, monkeypatch, name):
    """Each try would be one more look at the same records: what fails before the noise depends on them bare."""
    change, kind = BROKEN[name]
    k, counts = (0, setups.COUNTED) if name.startswith("counts") else (1, {})
    world = setups.make(tmp_path, "fp-federated", {"gamma": 1.0}, noise=NoiseOrigin.SECURE, **counts, **change)
    assert isinstance(world.reply("s0", world.invite()), Joined)
    steps, draws = counted(monkeypatch, Silo, "_compute"), counted(monkeypatch, SecureSampler, "perturb")

    def fail(*_):  # a tolerance that every machine misses is hard to name: some solve this exactly
        raise kind("The residual 2e-3 is above the tolerance.")

    if kind is not None:
        monkeypatch.setattr("dpadmm.federation.silo_round.make_step", fail)
    (answer,) = {world.first.answer(world.ask(k)) for _ in range(5)}
    assert messages.read(answer[64:]).reason == ENDED
    assert "ended the run here" in world.first.store.log()[-1].detail
    for inbox in (np.zeros((2, 3)), np.full((2, 3), 1e-10)):
        world.refuses(world.ask(k + 1, inbox=inbox), ENDED, releases=1)
    world = setups.reopened(world)
    world.refuses(world.ask(k + 1), ENDED, releases=1)
    assert (len(steps), len(draws)) == (1, kind is None)


def test_of_two_processes_that_answer_at_once_one_answer_leaves(setups, tmp_path, monkeypatch):
    """The second has drawn as well by the time the first has stored its answer; its own draw is thrown away."""
    world, others = setups.make(tmp_path, "fp-federated", {"gamma": 1.0}, noise=NoiseOrigin.SECURE), []
    world.reply("s0", world.invite())
    original = Silo._compute

    def overtaken(silo, *args):
        vector = original(silo, *args)
        if not others:
            others.append(None)
            with closing(setups.alone(silo.files.directory)) as second:
                others[0] = second.answer(world.ask(1))
        return vector

    monkeypatch.setattr(Silo, "_compute", overtaken)
    assert [world.first.answer(world.ask(1)), world.first.answer(world.ask(1))] == 2 * others
    assert world.statement("s0").releases == 1


def test_data_changed_after_they_were_confirmed_are_not_used(world, setups, template, tmp_path, monkeypatch):
    calm = setups.copied(template, tmp_path / "calm")
    calm.first.answer(calm.invite())
    expected = calm.first.answer(calm.ask(1))
    world.reply("s0", world.invite())
    original, table, meddled = ConfirmedLedger.check_budget, world.place / "s0.csv", []

    def meddling(*args, **kwargs):
        meddled.append(original(*args, **kwargs))
        lines = table.read_text().splitlines()
        table.write_text("\n".join([lines[0], "3,3,3,9", *lines[2:]]) + "\n")

    monkeypatch.setattr(ConfirmedLedger, "check_budget", meddling)
    assert world.first.answer(world.ask(1)) == expected
    assert meddled


# --- budget ----------------------------------------------------------------------------------------------------------


def test_terms_whose_digests_begin_alike_are_paid_for_separately(setups, tmp_path, monkeypatch):
    """64 bits of a digest in common take a coordinator 2^32 tries at names that nobody looks at, such as the seed."""
    real = Terms.digest.func
    monkeypatch.setattr(Terms, "digest", property(lambda self: "0" * 16 + real(self)[16:]))
    world = setups.make(tmp_path)
    world.drive(world.coordinator())
    once = world.statement("s0").spent_epsilon
    twin = replace(world.terms, seed=6)
    world.approve(twin)
    world.drive(world.coordinator(twin, "twin.db"))
    assert world.statement("s0").releases == 8
    assert world.statement("s0").spent_epsilon > 1.2 * once


def test_terms_that_are_equal_have_one_digest_and_no_others_stand_for_them(world):
    """Terms with mu = 0 and mu = -0 compared equal, so that a second run was taken for the first, and not paid for."""
    settings = (("eta", 0.05), ("gamma", 0.0))
    plus = replace(world.terms, method="p-admm-recycled", settings=settings, mu=0.0)
    minus = replace(plus, mu=-0.0, settings=(("eta", 0.05), ("gamma", -0.0)))
    assert plus == minus
    assert plus.digest == minus.digest
    assert replace(plus, epsilon=1).digest == plus.digest
    assert stored_terms(minus.as_json()).digest == plus.digest
    for wrong in ({"rounds": 4.0}, {"seed": True}):
        with pytest.raises(InputError):
            decode(Terms, json.loads(plus.as_json()) | wrong)


# --- the owner's rules -----------------------------------------------------------------------------------------------


def test_trust_can_be_withdrawn_while_a_run_is_under_way(setups, tmp_path):
    """Bare vectors stop leaving at once: no restart, no new invitation."""
    world = setups.make(tmp_path, "fp-coordinator", {"gamma": 1.0})
    silo = world.first
    world.reply(silo.policy.name, world.invite())
    assert isinstance(world.reply(silo.policy.name, world.ask(1)), Answer)
    setups.changed(silo.policy, view=View.EAVESDROPPER).save(silo.files.policy)
    assert "does not trust" in world.reply(silo.policy.name, world.ask(2, inbox=np.zeros((1, 3)))).reason
    assert "does not trust" in world.reply(silo.policy.name, world.ask(1)).reason
    assert world.statement("s0").releases == 1


def test_rules_are_read_again_for_every_request(world):
    world.reply("s0", world.invite())
    replace(world.first.policy, least_noise=1e6).save(world.first.files.policy)
    assert "times the sensitivity" in world.reply("s0", world.ask(1)).reason
    replace(world.first.policy, least_noise=0.0, methods=("fp-walk",)).save(world.first.files.policy)
    assert "does not allow the method" in world.reply("s0", world.ask(1)).reason
    world.first.files.policy.write_text("methods = nonsense")
    assert isinstance(world.reply("s0", world.ask(1)), Refused)
    assert world.statement("s0").releases == 0


@pytest.mark.parametrize(
    "line",
    [
        "drops_incomplete = false",
        'missing = "drop"',
        "unlisted = 3",
        "colluders = true",
        'methods = "p-admm"',
        'coordinators = "0123"',
        "methods = [1]",
    ],
)
def test_a_mistyped_rule_is_an_error_not_a_licence(world, tmp_path, line):
    name = line.split()[0]
    lines = [kept for kept in world.first.files.policy.read_text().splitlines() if not kept.startswith(name + " ")]
    section = "[screening]" if name in ("missing", "unlisted") else "[protection]" if name == "colluders" else None
    lines.insert(lines.index(section) + 1 if section else 0, line)
    (tmp_path / "p.toml").write_text("\n".join(lines))
    with pytest.raises(InputError, match=name):
        Policy.load(tmp_path / "p.toml")


def test_a_silo_with_empty_cells_keeps_all_its_rows(world, tmp_path):
    table = pd.read_csv(world.first.policy.data)
    table.loc[0, "a"], table.loc[1, "y"] = None, None
    table.to_csv(tmp_path / "gaps.csv", index=False)
    policy = replace(world.first.policy, data=str(tmp_path / "gaps.csv"))
    with pytest.raises(InputError, match="row 1, column 'a': the cell is empty"):
        SiloDirectory(tmp_path / "strict").create(policy, 1.0, 1e-5)
    policy = replace(policy, screening=CellRules(missing="fill"))
    records = SiloDirectory(tmp_path / "filled").create(policy, 1.0, 1e-5)
    assert records.number == len(table)
    schema = Schema.load(policy.schema)
    features, middle = records.cells.rows(schema.by_bounds()), encode_table(schema, table.fillna(0.0))
    np.testing.assert_array_equal(features[1], 0.0)
    np.testing.assert_array_equal(features[0], middle.features[0])
    assert "column 'a': 1 cell empty, filled" in records.cells.notes[0]
    assert "1 of 60 rows blanked" in records.cells.notes[-1]
    made = SiloDirectory(tmp_path / "filled")
    assert Policy.load(made.policy) == replace(policy, schema=str(made.schema.resolve()))


# --- words of strangers ----------------------------------------------------------------------------------------------


def test_a_stranger_cannot_write_to_the_owners_terminal(world):
    body = json.loads(world.ask(1)[64:]) | {"\x1b[2J\napproved: run 'x'" + "y" * 10_000: 1}
    answer = world.reply("s0", world.key.seal(json.dumps(body).encode()))
    detail = world.first.store.log()[-1].detail
    for text in (detail, answer.reason):
        assert text.isprintable()
        assert len(text) < 1000
    assert printable("plain text - with signs: é") == "plain text - with signs: é"


@pytest.mark.parametrize("terms", ["terms", {}, {"format": 3}, 3, {"participants": [[]]}])
def test_terms_that_cannot_be_read_are_refused(world, terms):
    assert isinstance(world.reply("s0", world.forged(terms)), Refused)


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="needs file modes")
def test_nobody_else_reads_a_directory_that_was_there_before(setups, world, tmp_path):
    for name in ("silo", "coordinator"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o755)
    files = SiloDirectory(tmp_path / "silo")
    files.create(world.first.policy, 1.0, 1e-5)
    CoordinatorFiles(tmp_path / "coordinator").create()
    for name in ("silo", "coordinator"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700
        for file in (tmp_path / name).rglob("*"):
            if file.name.endswith((".key", ".db", ".head", "ledger")):
                assert not file.stat().st_mode & 0o077, file


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "..", "a/b", "coordinator", "b\n", "c" * 201])
def test_a_column_cannot_name_files_elsewhere(setups, tmp_path, name):
    """A rehearsal deals a table by a column, whose values become the names of folders."""
    tables = dict(zip(["a", name], setups.tables((10, 10)).values(), strict=True))
    build = p_admm_terms(setups.SCHEMA, 1, 1.0)
    with pytest.raises(InputError, match="cannot keep its name") as refused:
        prepare_rehearsal(tmp_path / "place" / "in", tables, setups.SCHEMA, build, rehearsal_policy, (2.0, 1e-5))
    assert repr(name) not in str(refused.value)  # it is a cell
    assert not list(tmp_path.rglob("outside*"))
