"""Federations over real TLS on the loopback: the model of the in-process engine, and what is told on the way."""

import logging
import os
import socket
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from email.utils import formatdate

import numpy as np
import pytest
from tests.waiting import wait_until

pytest.importorskip("httpx", reason="needs the extra dpadmm[federation]")


from dpadmm.core.release import PlannedNoise
from dpadmm.federation.admin.rehearsal import (
    Rehearsal,
    p_admm_terms,
    prepare_rehearsal,
    rehearsal_policy,
    run_rehearsal,
)
from dpadmm.federation.coordinator import open_run
from dpadmm.federation.errors import FederationStopped
from dpadmm.federation.https.service import request_run
from dpadmm.federation.inbox import encoding_of
from dpadmm.federation.outcome import FederationOutcome
from dpadmm.federation.policy import FULLY_CERTIFIED, SUMMED
from dpadmm.federation.silo import Silo
from dpadmm.federation.terms import NoiseOrigin, read_federation
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.ledger import open_for_reading
from dpadmm.privacy.protection import Protection, View
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import Silos
from dpadmm.testing import LocalEngine, Stopping
from dpadmm_research.datasets import heart

MASKED = {"method": "noisy-gradients", "settings": (("step", 0.5),), "edges": ()}
MASKED |= {"protection": Protection(view=View.AGGREGATE)}


def in_process(terms, silos: Silos):
    """Return the run of the in-process engine with the same terms, data and test noise."""
    problem = Problem.of(EmpiricalRisk(silos, Logistic(), terms.mu))
    noise = PlannedNoise(terms.plan, SimulatedSampler(seed=terms.seed))
    return LocalEngine(progress=False).run(
        terms.algorithm, problem, Stopping(rounds=terms.rounds), terms.network, noise
    )


def stacked(setups, rehearsal: Rehearsal, outcome: FederationOutcome, schema) -> Silos:
    """Return all data in one place, encoded by what round 0 has shown, for comparison."""
    encoding = encoding_of(outcome.terms, schema, outcome.counts)
    names = [person.name for person in outcome.terms.participants]
    silos = [Silo(rehearsal.silos[name].directory) for name in names]
    made, weights = setups.stacked(silos, encoding), outcome.terms.class_weights
    if weights:
        made = replace(made, row_weights=np.where(made.labels > 0, weights[1], weights[0]))
    for silo in silos:
        silo.close()
    return made


def check_end(setups, rehearsal: Rehearsal, outcome: FederationOutcome, schema) -> None:
    """The model is that of the in-process engine, and every ledger shows the certified epsilon."""
    run = in_process(outcome.terms, stacked(setups, rehearsal, outcome, schema))
    np.testing.assert_allclose(outcome.estimate, run.estimate[:, 0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(outcome.tail_average, run.tail_average[:, 0], rtol=0, atol=1e-12)
    assert outcome.rounds == rehearsal.terms.rounds
    assert not outcome.terms.is_secure
    for said, files in zip(outcome.costs, rehearsal.silos.values(), strict=True):
        with open_for_reading(files.ledger(NoiseOrigin.TEST)) as ledger:
            paid = {run.run: run for run in ledger.runs()}[outcome.terms.paid_run]
        assert paid.releases == outcome.rounds + (outcome.counts is not None)
        assert paid.alone_epsilon == pytest.approx(said.epsilon, rel=1e-9)
        assert said.epsilon == pytest.approx(rehearsal.terms.epsilon, rel=2e-9)


def made(setups, place, tables, schema, rounds, budget=2.0, **change) -> Rehearsal:
    """Return a federation that is ready to run, of P-ADMM with a round 0 unless it is said otherwise."""
    build = p_admm_terms(schema, rounds, 1.0, clip_radius=0.6, profile_share=0.2)
    hidden = change.get("protection")

    def terms(people, key, digest):
        return replace(build(people, key, digest), **change)

    def policy(name, data, schema):
        rules = rehearsal_policy(name, data, schema)
        return replace(rules, methods=FULLY_CERTIFIED + SUMMED, **({"protection": hidden} if hidden else {}))

    return prepare_rehearsal(place, tables, schema, terms, policy, (budget, 1e-5))


def small(setups, place, rounds=2, silos=2, **change) -> Rehearsal:
    return made(setups, place, setups.tables((40, 30, 50)[:silos]), setups.SCHEMA, rounds, **change)


def test_a_short_federation_of_processes(setups, tmp_path):
    rehearsal = small(setups, tmp_path)
    assert read_federation(tmp_path / "federation.toml").digest == rehearsal.terms.digest
    shown = []
    with run_rehearsal(rehearsal):
        outcome = rehearsal.federate(shown.append)
        pids = [process.popen.pid for process in rehearsal.nodes.values()]
    check_end(setups, rehearsal, outcome, setups.SCHEMA)
    assert outcome.counts.shape == (rehearsal.terms.n_counts,)
    assert [shown[0].round, shown[-1].round] == [-1, 2]
    assert dict(shown[-1].epsilon)["s0"] == pytest.approx(1.0, rel=2e-9)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    said = (rehearsal.silos["s0"].directory / "silo.log").read_text()
    for args in (
        "silo 's0' is running; approved: 'rehearsal'",
        "TLS 1.3; waiting for requests",
        "joined: run 'rehearsal'",
        "answered: round 2 of 2, run 'rehearsal'; epsilon 1 so far",
        "silo 's0' ends",
    ):
        assert args in said
    assert "UnexpectedFailure" not in said
    assert rehearsal.federate().estimate.tolist() == outcome.estimate.tolist()  # done: nothing is asked again


@pytest.mark.parametrize(
    "change", [{"clip_radius": 0.0, "profile": None}, {}, MASKED], ids=["bare", "profile", "masks"]
)
def test_heart_disease_with_its_four_hospitals(setups, tmp_path, threads, change):
    if not os.environ.get("DPADMM_DATA"):
        pytest.skip("needs UCI heart disease: set DPADMM_DATA to the folder that holds heart_disease/")
    folder = heart.data_folder("heart_disease", None)
    wanted = [*heart.SCHEMA.column_names, heart.SCHEMA.label.name]
    tables = {hospital: heart._read(folder, hospital).dropna(subset=wanted) for hospital in heart.HOSPITALS}
    rehearsal = made(setups, tmp_path, tables, heart.SCHEMA, 6, **change)
    with threads.staffed(rehearsal):
        outcome = request_run(rehearsal.coordinator, rehearsal.terms)
    check_end(setups, rehearsal, outcome, heart.SCHEMA)
    assert [each.records for each in outcome.terms.participants] == [303, 261, 46, 130]
    assert {cost.view for cost in outcome.costs} == {"aggregate" if change is MASKED else "eavesdropper"}


def test_two_runs_at_once(setups, tmp_path, threads):
    rehearsal = small(setups, tmp_path, rounds=3)
    other = replace(rehearsal.terms, run="another", seed=8)
    for files in rehearsal.silos.values():
        with closing(Silo(files.directory)) as silo:
            silo.approve(other)
    outcomes = {}
    with threads.staffed(rehearsal):
        watchers = [
            threading.Thread(
                target=lambda terms=terms: outcomes.update({terms.run: request_run(rehearsal.coordinator, terms)})
            )
            for terms in (rehearsal.terms, other)
        ]
        for watcher in watchers:
            watcher.start()
        for watcher in watchers:
            watcher.join(60)
    for outcome in outcomes.values():
        check_end(setups, replace(rehearsal, terms=outcome.terms), outcome, setups.SCHEMA)
    assert sorted(outcomes) == ["another", "rehearsal"]


def test_a_refusal_reaches_who_watches_and_the_run_goes_on_when_it_is_asked_for_again(setups, tmp_path, threads):
    rehearsal = small(setups, tmp_path)
    policy = rehearsal.silos["s1"].policy
    rules = policy.read_text()
    policy.write_text(rules.replace("least_noise = 0.0", "least_noise = 1e9"))
    with threads.staffed(rehearsal):
        with pytest.raises(FederationStopped, match=r"s1 refuses: s1 requires noise of at least 1e\+09"):
            request_run(rehearsal.coordinator, rehearsal.terms)
        policy.write_text(rules)
        outcome = request_run(rehearsal.coordinator, rehearsal.terms)
    check_end(setups, rehearsal, outcome, setups.SCHEMA)


def test_nobody_serves(setups, tmp_path):
    rehearsal = small(setups, tmp_path)
    with pytest.raises(FederationStopped, match=r"No process serves(.|\n)*coordinator run"):
        request_run(rehearsal.coordinator, rehearsal.terms, away_seconds=0.2)


def test_a_coordinator_that_is_started_again_goes_on(setups, tmp_path, threads):
    """The first one ends while a silo is missing; watchers stay."""
    rehearsal = small(setups, tmp_path)
    with threads.staffed(rehearsal, "s1"):
        wait_until(lambda: _is_joining(rehearsal), 30, "the other silo")
    ended = []
    watcher = threading.Thread(target=lambda: ended.append(request_run(rehearsal.coordinator, rehearsal.terms)))
    watcher.start()
    with threads.staffed(rehearsal):
        watcher.join(60)
    check_end(setups, rehearsal, ended[0], setups.SCHEMA)


def _is_joining(rehearsal: Rehearsal) -> bool:
    with closing(open_run(rehearsal.coordinator, rehearsal.terms)) as run:
        run.ask()
    with closing(Silo(rehearsal.silos["s0"].directory)) as silo:
        return any(entry.event == "joined" for entry in silo.store.log())


@pytest.mark.parametrize("whose", ["s0/rehearsal.db", "coordinator.db"])
def test_a_disk_that_is_full_is_waited_for(setups, tmp_path, threads, monkeypatch, caplog, whose):
    """SQLite itself finds no room for a while; then the run goes on, and nothing was paid for or drawn twice."""
    from dpadmm.federation import sqlite_file
    from dpadmm.privacy.ledger import store

    calls, until = [], []

    def fill(connection) -> None:
        (_, _, file), *_ = connection.execute("PRAGMA database_list").fetchall()
        calls.append(whose in file)
        if calls[-1] and sum(calls) == (4 if "coordinator" in whose else 2):
            until.append(time.monotonic() + 0.4)
        is_full = bool(until) and time.monotonic() < until[0]
        pages = connection.execute("PRAGMA page_count").fetchone()[0] if is_full else 10**6
        if calls[-1]:
            connection.execute(f"PRAGMA max_page_count = {pages}")
        if calls[-1] and is_full:
            connection.execute("CREATE TABLE filler AS SELECT zeroblob(100000)")

    @contextmanager
    def exclusive(connection, original=sqlite_file.exclusive):
        with original(connection):
            fill(connection)
            yield

    def append(connection, entries, original=store.append):
        fill(connection)
        original(connection, entries)

    monkeypatch.setattr("dpadmm.federation.https.service.RETRY_SECONDS", 0.1)
    rehearsal = small(setups, tmp_path)
    monkeypatch.setattr(sqlite_file, "exclusive", exclusive)
    monkeypatch.setattr(store, "append", append)
    with caplog.at_level(logging.INFO), threads.staffed(rehearsal):
        outcome = request_run(rehearsal.coordinator, rehearsal.terms)
    check_end(setups, rehearsal, outcome, setups.SCHEMA)
    assert any("disk is full" in record.message for record in caplog.records)


def test_a_clock_that_is_wrong_is_shown_of(setups, tmp_path, threads, monkeypatch, caplog):
    """The coordinator's is 90 s behind; nothing else depends on it. A poll that has taken long is no wrong clock."""
    monkeypatch.setattr(
        "dpadmm.federation.https.server.formatdate", lambda usegmt: formatdate(time.time() - 90, usegmt=usegmt)
    )
    rehearsal = small(setups, tmp_path)
    with caplog.at_level(logging.INFO), threads.staffed(rehearsal):
        request_run(rehearsal.coordinator, rehearsal.terms)
    reported = [record.message for record in caplog.records if "ahead of the coordinator's" in record.message]
    assert len(reported) == 2
    assert all("NTP" in each and "9" in each for each in reported)


def test_a_port_that_is_taken(setups, tmp_path):
    from dpadmm.errors import InputError
    from dpadmm.federation.https.service import serve_coordinator

    rehearsal = small(setups, tmp_path)
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(InputError, match="Cannot listen on"),
        serve_coordinator(rehearsal.coordinator, "127.0.0.1", taken.getsockname()[1]),
    ):
        pass
