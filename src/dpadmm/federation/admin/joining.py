"""A silo's way into a study: made by its invitation, registered, and told the terms. Every step may be repeated."""

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dpadmm.data.reading import TableFormat
from dpadmm.data.schema import Screening
from dpadmm.errors import InputError
from dpadmm.federation import messages
from dpadmm.federation.agreement import Agreement
from dpadmm.federation.invitations import Invitation
from dpadmm.federation.keys import open_envelope
from dpadmm.federation.messages import LARGEST_BODY, Join, Register
from dpadmm.federation.policy import FULLY_CERTIFIED, SUMMED, Policy, SiloEntry
from dpadmm.federation.refusal import Refusal, printable
from dpadmm.federation.silo import Silo
from dpadmm.federation.silo_files import Records, SiloFiles
from dpadmm.federation.terms import agreed_run
from dpadmm.privacy.protection import View

if TYPE_CHECKING:
    import httpx

LOOK_SECONDS = 2.0
"""How often terms are looked for, and a coordinator that was not reached is dialled again."""

_MOST_WORDS = 2048
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class OwnRules:
    """What a silo's owner decides when joining: the table, how it is read, and the most that it may ever spend."""

    data: Path
    budget_epsilon: float
    screening: Screening
    written: TableFormat = field(default_factory=TableFormat)
    least_noise: float = 0.0
    trusts_coordinator: bool = False


def make_silo(invitation: Invitation, directory: Path, rules: OwnRules) -> Records:
    """Make the silo that an invitation is for, whole or not at all; nothing is overwritten."""
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
    files = SiloFiles(directory)
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
    with tempfile.TemporaryDirectory() as place:
        schema = Path(place) / "schema.json"
        schema.write_text(invitation.schema, encoding="utf-8")
        return files.create(replace(policy, schema=str(schema)), rules.budget_epsilon, invitation.delta)


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
class Guest:
    """A silo that was invited but takes part in no run of the study yet; it dials the coordinator when it likes."""

    invitation: Invitation
    silo: Silo

    def register(self) -> None:
        """Tell the coordinator what terms are drafted from; telling it the same twice counts once."""
        told = Register(self.invitation.study, self.invitation.silo, self.silo.entry())
        with (
            self._client() as client,
            client.stream("PUT", "/entry", content=self.silo.key.seal(told.encode())) as sent,
        ):
            _check(sent)

    def terms(self) -> Agreement | None:
        """Return the terms that the coordinator has signed; None before they are drafted."""
        with self._client() as client, client.stream("GET", "/terms") as answer:
            envelope = _check(answer)
        if not envelope:
            return None
        told = messages.read(open_envelope(envelope, self.invitation.coordinator))
        if not isinstance(told, Join):
            raise Refusal("The coordinator sent something other than terms.")
        self._check_terms(told.terms)
        return told.terms

    def _check_terms(self, terms: Agreement) -> None:
        """Refuse terms about something else than the study, before anything is computed from them."""
        asked = self.invitation
        told = (terms.run, terms.coordinator, terms.epsilon, terms.delta, terms.schema)
        if told != (asked.study, asked.coordinator, asked.epsilon, asked.delta, asked.table.digest):
            raise Refusal("The terms are not those of the study: name, coordinator, epsilon, delta or schema differ.")
        terms.agent(asked.silo)  # refuses terms without this silo

    def check_protection(self, terms: Agreement) -> None:
        """Refuse terms that protect records less than was announced; the owner has seen them, and the noise is known.

        What they cost is for the owner, and `approve`, to see.
        """
        asked, protection = self.invitation, agreed_run(terms).plan.account().protection
        if not asked.protection.is_covered_by(protection):
            raise Refusal(
                f"The terms are {protection.words()}, but the study was announced {asked.protection.words()}."
            )

    @contextlib.contextmanager
    def _client(self) -> "Iterator[httpx.Client]":
        from dpadmm.federation.https.line import dialled

        invitation, directory = self.invitation, self.silo.files.directory
        with tempfile.TemporaryDirectory(dir=directory, prefix=".join-") as place:
            certificate = Path(place) / "tls.pem"
            with dialled(invitation.address, invitation.key, certificate, [invitation.coordinator]) as client:
                yield client


def wait_for_terms(guest: Guest, say: Callable[[str], None]) -> Agreement:
    """Return the terms as soon as they are drafted."""
    while (terms := until_reached(guest.terms, say)) is None:
        time.sleep(LOOK_SECONDS)
    return terms


def until_reached(attempt: Callable[[], T], say: Callable[[str], None]) -> T:
    """Dial until the coordinator is reached; say what stands in the way, each reason once."""
    from dpadmm.federation.https.trouble import FAILURES, words_for

    said = ""
    while True:
        try:
            return attempt()
        except FAILURES as problem:
            words = f"{words_for(problem)}; trying again"
            if words != said:
                say(words)
            said = words
        time.sleep(LOOK_SECONDS)


def _check(answer: "httpx.Response") -> bytes:
    """Return what the coordinator says to a guest; `Refusal` with its words if it says no."""
    from dpadmm.federation.https.line import read_at_most
    from dpadmm.federation.https.trouble import CutOff

    if answer.status_code in (200, 204):
        return read_at_most(answer, LARGEST_BODY)
    if answer.status_code == 409:
        words = read_at_most(answer, _MOST_WORDS).decode(errors="replace")
        raise Refusal(f"The coordinator refuses: {printable(words)}")
    if answer.status_code == 403:
        raise Refusal("The coordinator no longer knows this invitation. Ask its operator for a new one.")
    raise CutOff(f"the answer is not one of a dpadmm coordinator (HTTP {answer.status_code})")
