"""Real SuperLink, real SuperNodes, TLS and registered keys on the loopback; nothing is left behind."""

import os
import socket
import ssl
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra dpadmm[federation]")

from dpadmm.datasets import heart, load_heart
from dpadmm.engines.federation.agreement import Aggregation, Missing, NoiseOrigin, read_federation
from dpadmm.engines.federation.columns import encoding_of
from dpadmm.engines.federation.outcome import FederationOutcome
from dpadmm.engines.federation.policy import SUMMED
from dpadmm.engines.federation.rehearsal_terms import p_admm_terms, rehearsal_policy
from dpadmm.engines.federation.silo import Silo
from dpadmm.engines.federation.terms import agreed_run
from dpadmm.engines.flower.rehearsal import Rehearsal, prepared, running
from dpadmm.engines.local import LocalEngine, Stopping
from dpadmm.noise.planned import PlannedNoise
from dpadmm.noise.simulated import SimulatedSampler
from dpadmm.privacy.ledger import open_for_reading
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import Silos


def in_process(rehearsal: Rehearsal, silos: Silos):
    """Return the run of the in-process engine with the same terms, data and test noise."""
    terms = agreed_run(rehearsal.agreement)
    problem = Problem.of(EmpiricalRisk(silos, Logistic(), rehearsal.agreement.mu))
    noise = PlannedNoise(terms.plan, SimulatedSampler(seed=rehearsal.agreement.seed))
    stopping = Stopping(rounds=rehearsal.agreement.rounds)
    return LocalEngine(progress=False).run(terms.algorithm, problem, stopping, terms.network, noise)


def check_end(rehearsal: Rehearsal, outcome: FederationOutcome, silos: Silos) -> None:
    """The model is that of the in-process engine, and every ledger shows the certified epsilon."""
    run = in_process(rehearsal, silos)
    np.testing.assert_allclose(outcome.estimate, run.estimate[:, 0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(outcome.tail_average, run.tail_average[:, 0], rtol=0, atol=1e-12)
    assert outcome.rounds == rehearsal.agreement.rounds
    assert not outcome.is_private_release
    for said, files in zip(outcome.silos, rehearsal.silos.values(), strict=True):
        with open_for_reading(files.ledger(NoiseOrigin.TEST)) as ledger:
            statement = ledger.statement()
        assert statement.releases == outcome.rounds + (outcome.counts is not None)
        assert statement.spent_epsilon == pytest.approx(said.epsilon, rel=1e-9)
        assert said.epsilon == pytest.approx(rehearsal.agreement.epsilon, rel=2e-9)


def stacked(worlds, rehearsal: Rehearsal, outcome: FederationOutcome) -> Silos:
    """Return all data in one place, encoded by what round 0 has shown, for comparison."""
    encoding = encoding_of(agreed_run(outcome.agreement), worlds.SCHEMA, outcome.counts)
    return worlds.stacked([Silo(files.directory) for files in rehearsal.silos.values()], encoding)


def is_gone(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return True
    return False


def small(worlds, place, rounds, silos=2, **change):
    """Return a small federation that is ready to run, with a round 0."""
    build = p_admm_terms(worlds.SCHEMA, rounds, 1.0, reach=0.6, profile_share=0.2)
    tables = worlds.tables((40, 30, 50)[:silos])

    def terms(people, key, digest):
        return replace(build(people, key, digest), **change)

    return prepared(place, tables, worlds.SCHEMA, terms, rehearsal_policy, (2.0, 1e-5))


def test_a_short_federation_over_tls(worlds, tmp_path):
    rehearsal = small(worlds, tmp_path, rounds=2)
    assert read_federation(tmp_path / "federation.toml").digest == rehearsal.agreement.digest
    shown = []
    with running(rehearsal):
        plain_clients_are_refused(rehearsal)
        outcome = rehearsal.federate(shown.append)
        pids = [process.popen.pid for process in (*rehearsal.nodes.values(), rehearsal.superlink)]
    check_end(rehearsal, outcome, stacked(worlds, rehearsal, outcome))
    assert outcome.counts.shape == (rehearsal.agreement.n_counts,)
    assert all(is_gone(pid) for pid in pids)
    assert shown[-1].round == 2
    assert shown[0].round == -1
    assert dict(shown[-1].epsilon)["s0"] == pytest.approx(1.0, rel=2e-9)
    assert rehearsal.federate().estimate.tolist() == outcome.estimate.tolist()  # done: nothing is asked again


def plain_clients_are_refused(rehearsal: Rehearsal) -> None:
    """The SuperLink speaks TLS only, under a certificate of the federation's own CA."""
    host, port = "127.0.0.1", rehearsal.port
    with socket.create_connection((host, port), timeout=10) as plain:
        plain.sendall(b"POST /v1/fleet/pull-messages HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        assert b"200 OK" not in plain.recv(100)
    strangers = ssl.create_default_context()  # knows the world's CAs, not the federation's
    with (
        socket.create_connection((host, port), timeout=10) as raw,
        pytest.raises(ssl.SSLCertVerificationError),
        strangers.wrap_socket(raw, server_hostname=host),
    ):
        pass
    ours = ssl.create_default_context(cafile=str(rehearsal.coordinator.directory / "ca.pem"))
    with socket.create_connection((host, port), timeout=10) as raw, ours.wrap_socket(raw, server_hostname=host) as safe:
        assert safe.version() in ("TLSv1.2", "TLSv1.3")


@pytest.mark.slow
def test_heart_disease_with_its_four_hospitals(tmp_path):
    """Ten rounds of P-ADMM between Cleveland, Hungary, Switzerland and Long Beach."""
    if not os.environ.get("DPADMM_DATA"):
        pytest.skip("needs UCI heart disease: set DPADMM_DATA to the folder that holds heart_disease/")
    folder = heart.data_folder("heart_disease", None)
    wanted = [*heart.SCHEMA.column_names, heart.SCHEMA.label.name]
    tables = {hospital: heart._read(folder, hospital).dropna(subset=wanted) for hospital in heart.HOSPITALS}
    build = p_admm_terms(heart.SCHEMA, rounds=10, epsilon=1.0)
    rehearsal = prepared(tmp_path, tables, heart.SCHEMA, build, rehearsal_policy, (2.0, 1e-5))
    with running(rehearsal):
        outcome = rehearsal.federate()
    check_end(rehearsal, outcome, load_heart().silos())
    assert [silo.records for silo in outcome.silos] == [303, 261, 46, 130]


@pytest.mark.slow
def test_sums_under_masks(worlds, tmp_path):
    """Round 0 included; the same model as in this process, bit for bit."""
    build = p_admm_terms(worlds.SCHEMA, 2, 1.0, reach=0.6, profile_share=0.2)
    method = {"method": "noisy-gradients", "settings": (("step", 0.5),), "edges": (), "aggregation": Aggregation.MASKED}

    def terms(people, key, digest):
        return replace(build(people, key, digest), **method)

    def policy(name, data, schema):
        return replace(rehearsal_policy(name, data, schema), methods=SUMMED)

    tables = worlds.tables((40, 30, 50))
    rehearsal = prepared(tmp_path, tables, worlds.SCHEMA, terms, policy, (2.0, 1e-5), is_summed=True)
    with running(rehearsal):
        outcome = rehearsal.federate()
    rows = stacked(worlds, rehearsal, outcome)
    check_end(rehearsal, outcome, rows)
    assert outcome.estimate.tolist() == in_process(rehearsal, rows).estimate[:, 0].tolist()
    assert [silo.view for silo in outcome.silos] == ["aggregate"] * 3


@pytest.mark.slow
def test_a_silo_that_never_comes_back_is_gone_on_without(worlds, tmp_path):
    """Killed after its first answer; the other two finish under their own certificates, within the same budget."""
    change = {"missing": Missing.WITHOUT, "wait_seconds": 25.0}
    rehearsal = small(worlds, tmp_path, rounds=4, silos=3, **change)
    with running(rehearsal):

        def watch_out(progress) -> None:
            if progress.round >= 1 and rehearsal.nodes["s1"].is_alive:
                rehearsal.nodes["s1"].kill()

        outcome = rehearsal.federate(watch_out)
    assert outcome.agreement.left == ("s1",)
    assert [silo.name for silo in outcome.silos] == ["s0", "s2"]
    heir = replace(rehearsal, agreement=outcome.agreement, silos={n: rehearsal.silos[n] for n in ("s0", "s2")})
    run = in_process(heir, stacked(worlds, heir, outcome))
    np.testing.assert_allclose(outcome.estimate, run.estimate[:, 0], rtol=0, atol=1e-12)
    for files in heir.silos.values():
        with open_for_reading(files.ledger(NoiseOrigin.TEST)) as ledger:
            assert 7 <= ledger.statement().releases <= 9  # counted twice, once by all and once by those who are left
            assert ledger.statement().spent_epsilon <= 1.0
