"""`dpadmm silo join`: what it leaves as it was until the owner has approved, and when it asks whatever it was told."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

from dpadmm.cli.approval import confirm, remaining_budget_text
from dpadmm.cli.main import app
from dpadmm.data import Numeric, Schema, ThresholdLabel
from dpadmm.errors import InputError
from dpadmm.federation.admin.joining import InvitedSilo
from dpadmm.federation.coordinator_store import CoordinatorFiles
from dpadmm.federation.errors import Refusal
from dpadmm.federation.keys import SigningKey, fingerprint
from dpadmm.federation.silo import Silo
from dpadmm.federation.studies import Invitation, Studies
from dpadmm.federation.terms import Participant, Terms
from dpadmm.privacy.protection import Protection, View

SCHEMA = Schema((Numeric("age", 0, 120), Numeric("dose", 0, 10)), ThresholdLabel("result", 0))


def join(*args: str, typed: str = ""):
    return CliRunner().invoke(app, ["silo", "join", "north.invite", *args, "--no-run"], input=typed)


@pytest.fixture
def key(request, tmp_path, monkeypatch):
    """The coordinator's key; the invitation of `north` and its table lie here, and registering succeeds."""
    monkeypatch.chdir(tmp_path)
    files = CoordinatorFiles(tmp_path / "coordinator")
    key = files.create()
    hidden = Protection(view=View(getattr(request, "param", "eavesdropper")))
    announced = {"study": "asthma", "address": "host:1", "epsilon": 1.0, "delta": 1e-6, "protection": hidden}
    asked = Invitation(coordinator=key.public, schema=SCHEMA.to_json(), **announced)
    with closing(files.open_store()) as store:
        Studies(store, key).invite(asked, ["north", "south", "west"])[0].save(tmp_path / "north.invite")
    rng = np.random.default_rng(1)
    cells = {"age": rng.integers(20, 90, 40), "dose": rng.integers(0, 10, 40), "result": rng.choice([-1, 1], 40)}
    pd.DataFrame(cells).to_csv("north.csv", index=False)
    monkeypatch.setattr(InvitedSilo, "register", lambda invited: None)
    return key


@pytest.fixture
def terms(key, monkeypatch):
    """Terms of the study, which the guest is told."""
    reported: list[Terms] = []

    def fetch(invited: InvitedSilo) -> Terms:
        if not reported:
            keys = (invited.silo.public_key, SigningKey.new().public, SigningKey.new().public)
            people = tuple(map(Participant, ("north", "south", "west"), (40, 30, 20), keys))
            is_plain = invited.invitation.protection.view is View.EAVESDROPPER
            reported.append(
                Terms(
                    run="asthma",
                    method="p-admm" if is_plain else "noisy-gradients",
                    settings=(("eta", 0.05),) if is_plain else (("step", 0.1),),
                    rounds=3,
                    epsilon=1.0,
                    delta=1e-6,
                    participants=people,
                    coordinator=key.public,
                    schema=SCHEMA.digest,
                    dimension=SCHEMA.dimension,
                    row_norm=SCHEMA.row_norm,
                    edges=((0, 1), (1, 2)) if is_plain else (),
                    mu=0.01,
                    protection=Protection(view=View.EAVESDROPPER if is_plain else View.AGGREGATE),
                )
            )
        invited.check_study(reported[-1])
        return reported[-1]

    monkeypatch.setattr(InvitedSilo, "terms", fetch)
    return reported


NEW = ("--data", "north.csv", "--budget-epsilon", "3")


def test_the_address_is_that_of_the_last_study_that_was_approved(terms, tmp_path):
    address = tmp_path / "north" / "address"
    declined = join(*NEW, typed="n\n")
    assert "Approve these terms?" in declined.output
    assert not address.exists()
    assert Silo("north").store.all_terms() == []
    assert join(typed="y\n").exit_code == 0
    assert address.read_text() == "host:1\n"
    assert Silo("north").store.all_terms() == terms


def test_a_refused_silo_is_made_and_can_try_again(key, terms, monkeypatch):
    def refused(invited):
        raise Refusal("The coordinator refuses: not today.")

    with monkeypatch.context() as patch:
        patch.setattr(InvitedSilo, "register", refused)
        said = join(*NEW)
    assert said.exit_code == 2
    assert "not today" in said.output
    assert join("--yes").exit_code == 0


def test_other_terms_of_a_study_that_was_approved_are_never_approved_unseen(terms):
    assert join(*NEW, "--yes").exit_code == 0
    again = join("--yes")
    assert "approved already" in again.output
    terms.append(replace(terms[0], rounds=4))
    for typed in ("", "n\n"):
        said = join("--yes", typed=typed)
        assert said.exit_code == 1
        assert "Other terms of this study were approved here before" in said.output
    assert Silo("north").store.all_terms() == terms[:1]
    assert join("--yes", typed="y\n").exit_code == 0
    assert {each.digest for each in Silo("north").store.all_terms()} == {each.digest for each in terms}


def test_what_is_left_is_shown_before_the_silo_registers(terms, monkeypatch):
    def refused(invited):
        raise Refusal("The coordinator refuses: not today.")

    monkeypatch.setattr(InvitedSilo, "register", refused)
    said = join(*NEW)
    assert "Left in this silo's ledger: epsilon 3 at delta 1e-06\n" in said.stdout


def test_that_runs_are_counted_together_is_shown_once_something_is_spent(federation):
    silo = Silo(federation.north.directory)
    assert "counted together" not in remaining_budget_text(silo)
    federation.drive(answers=12)
    assert "(runs are composed" in remaining_budget_text(silo)


@pytest.mark.parametrize("budget", ["0", "-1", "nan", "inf"])
def test_a_budget_that_is_none_is_refused_and_not_asked_for_again(terms, budget, tmp_path):
    said = join("--data", "north.csv", "--budget-epsilon", budget, typed="1\ny\n")
    assert said.exit_code == 2
    assert "Error" in said.output
    assert not (tmp_path / "north").exists()


@pytest.mark.parametrize("key", ["aggregate"], indirect=True)
def test_fingerprints_come_from_the_owner_and_are_shown_when_they_agree(terms):
    unasked = join(*NEW, "--yes")
    assert unasked.exit_code == 2
    assert "south, west are not confirmed" in unasked.output
    south, west = (fingerprint(each.key) for each in terms[0].participants[1:])
    assert south not in unasked.output
    stranger = fingerprint(SigningKey.new().public)
    asked = join(typed=f"yes\n{stranger}\n{west}\n")
    assert asked.output.count("Fingerprint of south, as its owner reads it to you") == 4
    assert "must be 32 hex digits" in asked.output
    assert asked.output.count("The key of south in the terms does not have the fingerprint") == 2
    assert south not in asked.output
    assert Silo("north").store.all_terms() == []
    agreed = join(typed=f"{south}\n{west}\ny\n")
    assert agreed.exit_code == 0
    assert f"{south}  confirmed" in agreed.output
    assert Silo("north").store.all_terms() == terms


@pytest.mark.parametrize("key", ["aggregate"], indirect=True)
def test_a_mistyped_fingerprint_leaves_a_confirmed_one_as_it_was(terms):
    join("--data", "north.csv", "--budget-epsilon", "2", typed="")
    silo, terms = Silo("north"), terms[0]
    for each in terms.participants[1:]:
        silo.confirm_peer(each.name, fingerprint(each.key))
    with pytest.raises(InputError, match="The key of south in the terms"):
        confirm(silo, terms, f"south={fingerprint(SigningKey.new().public)}")
    assert silo.unconfirmed(terms) == []


def test_terms_are_not_drafted_under_a_key_that_no_invitation_names(key):
    place = CoordinatorFiles(Path("coordinator"))
    place.key_file.unlink()
    SigningKey.create(place.key_file)
    args = ["federate", "run", "--study", "asthma", "--coordinator", "coordinator", "--yes"]
    refused = CliRunner().invoke(app, args)
    assert refused.exit_code == 2
    assert "name an earlier key of this coordinator" in refused.stderr
