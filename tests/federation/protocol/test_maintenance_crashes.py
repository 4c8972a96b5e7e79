"""New data and new keys, ended at every durable step: the old, the new, or words that say what to do."""

import shutil
from contextlib import closing
from dataclasses import replace

import pytest
from tests.contracts.in_memory import Crashed
from tests.federation.protocol.durable_steps import DurableSteps

from dpadmm.errors import LedgerError, ResumeError
from dpadmm.federation import keys
from dpadmm.federation.admin.maintenance import change_data, rotate_coordinator_key, rotate_silo_key
from dpadmm.federation.coordinator_store import ENDED, CoordinatorFiles
from dpadmm.federation.keys import SigningKey
from dpadmm.federation.policy import Policy, SiloEntry
from dpadmm.federation.terms import NoiseOrigin
from dpadmm.privacy.ledger import Ledger


def crash_everywhere(setups, template, tmp_path, work, check):
    """Do some work in a copy of a world, ended at every durable step and done again; check the copy after each."""
    steps = DurableSteps()
    made = setups.copied(template, tmp_path / "calm")
    with steps.watched():
        work(made)
    check(setups.closed(made), None)
    for number, point in enumerate(steps.points([""])):
        made = setups.copied(template, tmp_path / str(number))
        setups.closed(made)
        with DurableSteps(point).watched(), pytest.raises(Crashed):
            work(made)
        check(made, point)
        work(made)
        check(made, None)
        shutil.rmtree(made.place)
    return {name for _, name in steps.seen}


@pytest.fixture(scope="module")
def half_way(setups, star_template, tmp_path_factory):
    """A world whose first silo has answered a round, with its entry; closed, to be copied."""
    made = setups.copied(star_template, tmp_path_factory.mktemp("half way"))
    setups.answered(made)
    made.first.entry().save(made.first.files.entry)
    setups.grown(made)
    made.coordinator(name="run.db").close()
    return setups.closed(made)


def type_text(silo, terms) -> str:
    """Return '' if the silo takes terms for its present table and key, else what it says."""
    me, *others = terms.participants
    mine = replace(me, records=silo.records, key=silo.public_key)
    try:
        silo.check_terms(replace(terms, run="probe", participants=(mine, *others)))
    except LedgerError as refusal:
        return str(refusal)
    return ""


def test_a_crash_at_any_step_of_new_data_leaves_the_old_the_new_or_says_what_to_do(setups, half_way, tmp_path):
    def work(world):
        place = world.place / "s0-later.csv"
        policy = replace(Policy.load(world.first.files.policy), data=str(place))
        change_data(world.first.files, policy, may_close=True)

    outcomes = set()

    def check(world, point):
        with closing(setups.alone(world.first.files.directory)) as silo:
            silo.ledger.verify()
            said = silo.ledger.statement()
            args = type_text(silo, world.terms)
            is_new = silo.policy.data.endswith("later.csv")
            assert said.releases == 1
            assert said.version == 2 or not is_new
            if point is None:
                assert (args, is_new, said.version) == ("", True, 2)
                assert (silo.records, SiloEntry.load(silo.files.entry).records) == (61, 61)
                assert silo.unfinished() == []
            else:
                assert not args or "dpadmm silo new-data" in args
                outcomes.add((is_new, said.version, bool(args)))

    steps = crash_everywhere(setups, half_way, tmp_path, work, check)
    assert {"transaction", "write_anchor", "save_toml"} <= steps
    assert outcomes == {(False, 1, False), (False, 2, True), (True, 2, False)}


@pytest.mark.parametrize("is_old_kept", [True, False])
def test_a_crash_at_any_step_of_a_new_key_leaves_the_old_the_new_or_says_what_to_do(
    setups, half_way, tmp_path, is_old_kept
):
    old, outcomes = SigningKey.load(half_way.first.files.key).public, set()

    def work(world):
        rotate_silo_key(world.first.files, is_old_kept=is_old_kept, may_close=True)

    def check(world, point):
        files, args = world.first.files, ""
        key = SigningKey.load(files.key).public  # there is one at every moment
        try:
            with closing(setups.alone(files.directory)) as silo:
                args = type_text(silo, world.terms)
                assert point is not None or not silo.unfinished()
        except ResumeError as refusal:
            args = str(refusal)
            assert f"dpadmm silo rotate-key {files.directory}" in args
        outcomes.add((key != old, bool(args)))
        assert key == old or SiloEntry.load(files.entry).key == key  # the new key comes last
        if point is None:
            asides = list(files.directory.glob("silo-*.key"))
            assert (key != old, args, SiloEntry.load(files.entry).key) == (True, "", key)
            found = {SigningKey.load(each).public for each in asides}
            assert (old in found, len(found) > 0) == (is_old_kept, is_old_kept)
            assert not keys.next_place(files.key).exists()
            assert oct(files.key.stat().st_mode & 0o777) == "0o600"
            with Ledger.open(files.ledger(NoiseOrigin.SECURE)) as ledger:
                assert ledger.statement().releases == 1

    steps = crash_everywhere(setups, half_way, tmp_path, work, check)
    assert {"transaction", "write_private", "save_toml", "replace"} <= steps
    assert outcomes == {(False, False), (False, True), (True, False)}


def test_a_crash_at_any_step_of_a_coordinators_new_key_leaves_a_key_and_its_runs(setups, half_way, tmp_path):
    old = SigningKey.load(half_way.place / "coordinator.key").public

    def files_of(world):
        files = CoordinatorFiles(world.place / "office")
        if not files.directory.exists():
            files.directory.mkdir()
            shutil.copy2(world.place / "coordinator.key", files.key_file)
            shutil.copy2(world.place / "run.db", files.database)
        return files

    def work(world):
        rotate_coordinator_key(files_of(world), is_old_kept=True, may_close=True)

    def check(world, point):
        files = files_of(world)
        is_new = files.key().public != old
        with closing(files.open_store()) as file:
            assert file.runs(ENDED) == file.runs() or not is_new
        if point is None:
            assert is_new
            assert old in {SigningKey.load(each).public for each in files.directory.glob("coordinator-*.key")}

    steps = crash_everywhere(setups, half_way, tmp_path, work, check)
    assert {"exclusive", "write_private", "link", "replace"} <= steps
