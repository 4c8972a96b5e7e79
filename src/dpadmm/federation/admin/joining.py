"""A silo's way into a study: created by its invitation, registered, and sent the terms. Every step may be repeated."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from dpadmm.errors import InputError
from dpadmm.federation import messages
from dpadmm.federation.errors import Refusal, printable
from dpadmm.federation.https.client import (
    FAILURES,
    Address,
    CoordinatorUnavailable,
    describe_failure,
    open_client,
    read_at_most,
)
from dpadmm.federation.keys import open_envelope
from dpadmm.federation.messages import LARGEST_BODY, Join, Register
from dpadmm.federation.policy import FULLY_CERTIFIED, SUMMED, Policy, SiloEntry
from dpadmm.federation.silo import Silo
from dpadmm.federation.silo_directory import Records, SiloDirectory
from dpadmm.federation.studies import Invitation
from dpadmm.federation.terms import Terms
from dpadmm.privacy.protection import View
from dpadmm.settings import CellRules, TableFormat

LOOK_SECONDS = 2.0
"""How often terms are looked for, and a coordinator that was not reached is connected again."""

_LONGEST_REFUSAL = 2048
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class OwnerRules:
    """What a silo's owner decides when joining: the table, how it is read, and the most that it may ever spend."""

    data: Path
    budget_epsilon: float
    screening: CellRules
    written: TableFormat = field(default_factory=TableFormat)
    least_noise: float = 0.0
    trusts_coordinator: bool = False


def create_silo(invitation: Invitation, directory: Path, rules: OwnerRules) -> Records:
    """Create the silo that an invitation is for, whole or not at all; nothing is overwritten."""
    view = invitation.protection.view
    if (view is View.PUBLIC) != rules.trusts_coordinator:
        raise InputError(
            f"In the study {invitation.study!r} messages without noise go to the coordinator, who adds the noise: join "
            "with --trust-coordinator, or do not join."
            if view is View.PUBLIC
            else f"The study {invitation.study!r} needs no trust in the coordinator: leave --trust-coordinator out."
        )
    if rules.budget_epsilon < invitation.epsilon:
        raise InputError(
            f"The study {invitation.study!r} asks for epsilon {invitation.epsilon:g}; a budget of "
            f"{rules.budget_epsilon:g} cannot cover it. Give a larger budget, or do not join."
        )
    policy = Policy(
        name=invitation.silo,
        data=str(rules.data.resolve()),
        schema="",
        written=rules.written,
        methods=FULLY_CERTIFIED + SUMMED * (view is not View.EAVESDROPPER),
        least_noise=rules.least_noise,
        screening=rules.screening,
        protection=invitation.protection,
    )
    with tempfile.TemporaryDirectory() as folder:
        schema = Path(folder) / "schema.json"
        schema.write_text(invitation.schema, encoding="utf-8")
        policy = replace(policy, schema=str(schema))
        return SiloDirectory(directory).create(policy, rules.budget_epsilon, invitation.delta)


def check_silo(invitation: Invitation, silo: Silo) -> SiloEntry:
    """Return the entry of a silo that is there already; refuse one that the study cannot take."""
    entry = silo.entry()
    if entry.name != invitation.silo:
        raise InputError(f"The invitation is for {invitation.silo!r}; this silo is called {entry.name!r}.")
    if entry.schema != invitation.table.digest:
        raise InputError(f"{silo.files.directory} was created with a different schema from the study's.")
    invitation.check_facts(entry)
    return entry


@dataclass(frozen=True)
class InvitedSilo:
    """A silo that was invited but takes part in no run of the study yet."""

    invitation: Invitation
    silo: Silo

    def register(self) -> None:
        """Send the coordinator what terms are drafted from; sending it twice counts once."""
        entry = Register(self.invitation.study, self.invitation.silo, self.silo.entry())
        self._request("PUT", "/entry", self.silo.key.seal(entry.encode()))

    def terms(self) -> Terms | None:
        """Return the terms that the coordinator has signed; None before they are drafted."""
        asked, envelope = self.invitation, self._request("GET", "/terms")
        if not envelope:
            return None
        message = messages.read(open_envelope(envelope, asked.coordinator))
        if not isinstance(message, Join):
            raise Refusal("The coordinator sent something other than terms.")
        self.check_study(message.terms)
        return message.terms

    def check_study(self, terms: Terms) -> None:
        """Refuse terms about something else than the study, before anything is computed from them."""
        asked = self.invitation
        found = (terms.run, terms.coordinator, terms.epsilon, terms.delta, terms.schema)
        if found != (asked.study, asked.coordinator, asked.epsilon, asked.delta, asked.table.digest):
            raise Refusal("The terms are not those of the study: name, coordinator, epsilon, delta or schema differ.")
        terms.agent(asked.silo)  # refuses terms without this silo

    def check_protection(self, terms: Terms) -> None:
        """Refuse terms that protect records less than was announced; the owner has seen them, and the noise is known.

        What they cost is for the owner, and `approve`, to see.
        """
        announced, found = self.invitation.protection, terms.plan.account().protection
        if not announced.is_covered_by(found):
            raise Refusal(f"The terms are {found.describe()}, but the study was announced {announced.describe()}.")

    def _request(self, method: str, path: str, content: bytes | None = None) -> bytes:
        """Return what the coordinator answers; `Refusal` with its message if it refuses."""
        asked, address = self.invitation, Address.parse(self.invitation.address)
        with (
            tempfile.TemporaryDirectory(dir=self.silo.files.directory, prefix=".join-") as folder,
            open_client(address, asked.key, Path(folder) / "tls.pem", [asked.coordinator]) as client,
            client.stream(method, path, content=content) as answer,
        ):
            if answer.status_code in (200, 204):
                return read_at_most(answer, LARGEST_BODY)
            if answer.status_code == 409:
                reason = read_at_most(answer, _LONGEST_REFUSAL).decode(errors="replace")
                raise Refusal(f"The coordinator refuses: {printable(reason)}")
            if answer.status_code == 403:
                raise Refusal("The coordinator no longer knows this invitation. Ask its operator for a new one.")
            raise CoordinatorUnavailable(f"the answer is not one of a dpadmm coordinator (HTTP {answer.status_code})")


def wait_for_terms(invited: InvitedSilo, report: Callable[[str], None]) -> Terms:
    """Return the terms as soon as they are drafted."""
    while (terms := retry_until_reached(invited.terms, report)) is None:
        time.sleep(LOOK_SECONDS)
    return terms


def retry_until_reached(attempt: Callable[[], T], report: Callable[[str], None]) -> T:
    """Try until the coordinator is reached; report what stands in the way, each reason once."""
    reported = ""
    while True:
        try:
            return attempt()
        except FAILURES as problem:
            text = f"{describe_failure(problem)}; trying again"
            if text != reported:
                report(text)
            reported = text
        time.sleep(LOOK_SECONDS)
