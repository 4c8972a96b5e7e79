"""A silo: answers a coordinator's requests about its private records, or refuses; independent of any transport.

For each request: check the signature, the terms, the order; if the round was answered before, return that answer bit
for bit. Otherwise compute and draw, then make the payment, the state and the answer durable in one commit, and only
then let the answer leave. A crash before the commit leaves nothing of the round, one after it leaves the answer to be
sent again. A step that fails ends the run here, and is paid for: if it could be asked for again, with fresh noise, each
failure would be one more look at the records.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import singledispatchmethod
from pathlib import Path
from typing import cast

from dpadmm.errors import DpadmmError, LedgerError
from dpadmm.federation import messages, sqlite_file
from dpadmm.federation.agreement import Agreement
from dpadmm.federation.errors import (
    MessageError,
    NotApproved,
    Refusal,
    public_reason,
    reason_of,
    refusing_unexpected,
)
from dpadmm.federation.inbox import (
    counts_to_send,
    encoding_of,
    take_counts,
    taken_inbox,
)
from dpadmm.federation.keys import SIGNATURE_BYTES, SigningKey, body_of, check_key, open_envelope
from dpadmm.federation.masked_sums import answer_of
from dpadmm.federation.messages import (
    ConfirmationRequest,
    Confirmations,
    Confirmed,
    ConfirmPeers,
    Join,
    Joined,
    Message,
    PeersConfirmed,
    Refused,
    Step,
)
from dpadmm.federation.policy import Policy, SiloEntry
from dpadmm.federation.rollback_detection import Session, is_confirmed, make_confirmation
from dpadmm.federation.silo_directory import Records, SiloDirectory, policy_records
from dpadmm.federation.silo_round import State, agents_of_silo, make_step
from dpadmm.federation.silo_store import SiloStore, paid_labels
from dpadmm.federation.terms import PROFILE_ROUND, AgreedRun, agreed_run
from dpadmm.methods.base import Agents
from dpadmm.noise.masks import Masks
from dpadmm.privacy.ledger import Ledger
from dpadmm.problems.arrays import Floats

ENDED = "A step of this silo could not be released; the run has ended here, and the reason is in the silo's own log."
"""What others learn of a failed step: that it failed, once."""

MOST_AWAITED = 64
"""Terms without approval of which a silo remembers that it has logged them."""


@dataclass(frozen=True, eq=False)
class Due:
    """What a round starts from: the last answered round of training, the state after it, and the checked inbox.

    counts: what all silos' columns amount to, after round 0. masks: under which the answer leaves; None for plain ones.
    """

    last: int | None = None
    state: State | None = field(default=None, repr=False)
    inbox: Floats | None = field(default=None, repr=False)
    counts: Floats | None = field(default=None, repr=False)
    masks: Masks | None = field(default=None, repr=False)


class Silo:
    """The silo in a directory made by `SiloDirectory.create`; one object per process, any number of processes.

    `answer` is the whole interface for a transport: an envelope in, an envelope out.
    """

    def __init__(
        self,
        directory: Path,
        *,
        read: Callable[[Policy, Path], Records] = policy_records,
        session: Session | None = None,
    ) -> None:
        """Open the silo; its data are read when they are first needed.

        read: how the table is read, by the owner's rules and the schema's file.
        session: what earlier processes of the same service remember; a new one unless a transport keeps it in memory.
        """
        self.files = SiloDirectory(directory)
        self.files.check()
        self.policy = Policy.load(self.files.policy)
        self.key = SigningKey.load(self.files.key)
        self.session = Session() if session is None else session
        self.ledger = Ledger.open(self.files.ledger(self.policy.noise), expected_head=self.session.head)
        self.store = SiloStore(self.ledger)
        try:
            check_key(self.store.key(), self.ledger.path, self.files.key, self.key)
        except BaseException:
            self.close()
            raise
        self._read, self._held = read, cast("tuple[object, Records] | None", None)
        self._agents: dict[tuple[str, int, bytes], Agents] = {}
        self._awaited: set[str] = set()

    @property
    def public_key(self) -> str:
        """The key that its answers are signed with."""
        return self.key.public

    def entry(self) -> SiloEntry:
        """Return what terms are drafted from."""
        return self.files.entry_of(self.policy, self.public_key, self.records)

    @property
    def records(self) -> int:
        """How many records it holds: public where the policy's neighbours have equally many."""
        return self._records().number

    def close(self) -> None:
        """Close the file."""
        self.ledger.close()

    def approve(self, terms: Agreement) -> None:
        """Approve these terms for the owner; refuse them now if the policy or the budget does."""
        self.check_terms(terms)
        with self.store.transaction():
            self.store.approve(terms)
            self.store.note("approved", f"run {terms.run!r}, digest {terms.digest}")

    def check_terms(self, terms: Agreement) -> None:
        """Refuse terms that this silo would not run now. Nothing is reserved for them: others may spend it first."""
        self.check_rules(terms)
        self._admitted(terms)

    def check_rules(self, terms: Agreement) -> None:
        """Refuse terms that the owner's rules or this silo's own facts rule out, before any noise is computed."""
        self._load_policy()
        self.store.check_open(terms.digest)
        self._checked(terms)

    def _load_policy(self) -> None:
        """Read the rules, which the owner may have changed; but a rehearsal stays one, with a ledger of its own."""
        policy, made = Policy.load(self.files.policy), self.policy.noise
        if policy.noise is not made:
            raise Refusal(f"{policy.name} was made for {made.value} noise. For other noise make another silo.")
        self.policy = policy

    def confirm_peer(self, name: str, reported: str) -> None:
        """Keep the fingerprint of another participant's identity key, as its owner stated it over another channel."""
        with self.store.transaction():
            self.store.confirm(name, reported)
            self.store.note("confirmed", f"the identity key of {name}: {reported}")

    def unconfirmed(self, terms: Agreement) -> list[str]:
        """Return the participants in these terms with identity keys that the owner has not confirmed."""
        return self.store.unconfirmed(terms, self.policy.name)

    def answer(self, envelope: bytes) -> bytes:
        """Return the signed answer to a signed request; a refusal is an answer, and is logged.

        Whatever is sent, only a failure of the machine (`refusal.MACHINE_FAILURES`) is raised, as by a full disk: ask
        again when it is healed.
        """
        try:
            with refusing_unexpected():
                self._load_policy()
                body = body_of(envelope)
                reply = self._dispatch(messages.read(body), envelope)
        except DpadmmError as refusal:
            if sqlite_file.is_machines(refusal):
                raise OSError(str(refusal)) from refusal
            reply = self.key.seal(self._refused(refusal, envelope).encode())
        return reply

    def _refused(self, refusal: DpadmmError, envelope: bytes) -> Refused:
        """Log a refusal and return it as an answer; who waits for the owner asks often, and is logged once.

        What cannot be logged is no answer: the file is damaged, or was replaced while it was in use.
        """
        note = f"{type(refusal).__name__}: {refusal}"
        is_waiting = isinstance(refusal, NotApproved)
        if not is_waiting or note not in self._awaited:
            try:
                self.store.note("refused", note)
            except LedgerError as problem:
                raise OSError(str(problem)) from problem
        if is_waiting:
            if len(self._awaited) >= MOST_AWAITED:  # whoever invents terms without end fills no memory
                self._awaited.clear()
            self._awaited.add(note)
        asked = messages.mark(envelope[SIGNATURE_BYTES:])
        return Refused(asked, public_reason(refusal), "not_approved" if is_waiting else "refused")

    @singledispatchmethod
    def _dispatch(self, request: Message, envelope: bytes) -> bytes:
        raise MessageError(f"A silo does not accept messages of the kind {type(request).__name__}.")

    @_dispatch.register
    def _(self, request: Join, envelope: bytes) -> bytes:
        agreement = request.terms
        open_envelope(envelope, agreement.coordinator)
        self.store.check_approved(agreement)
        terms, agent = self._admitted(agreement)
        with self.store.transaction():
            if self.store.join(agreement):
                self.store.note("joined", f"run {agreement.run!r}, digest {agreement.digest}")
            mask_key = self.store.mask_key(agreement.digest) if terms.is_masked else None
        return self.key.seal(Joined(agreement.digest, agent, terms.mark, mask_key).encode())

    @_dispatch.register
    def _(self, request: Step, envelope: bytes) -> bytes:
        terms, secret, agent = self._requested(request, envelope)
        asked, records = messages.mark(body_of(envelope)), self._records()
        confirmed = self.ledger.confirm([records.table])  # other data are refused, even for an answered round
        if (kept := self.store.find(request, asked)) is not None:
            with self.store.transaction():  # moves the anchor, if a crash left it behind this very answer
                return kept
        records.check_number(terms.agreement, agent)
        with self.store.transaction() if terms.is_masked else nullcontext():  # a roster of mask keys is taken for good
            due = self._due(terms, agent, request)
        if request.digest not in self.session.confirmed:
            return self._request_confirmation(request.digest, agent)
        labels, releases = paid_labels(terms.agreement), terms.releases(agent, request.round)
        if releases:
            self.policy.check_releases(releases)
            confirmed.check_budget(releases, **labels)
        state, reply, event = self._answer_round(terms, agent, records, secret, request, asked, due)
        with self.store.transaction(confirmed) as work:
            if (kept := self.store.find(request, asked)) is not None:  # by another process, meanwhile
                return kept
            self._check_order(terms, agent, *self.store.last(request.digest), request.round)
            if releases:
                work.reserve(releases, **labels)
            self.store.add_answer(request, asked, state, reply)
            if state is None or request.round == terms.agreement.rounds:
                self.store.erase_masks(request.digest)
            self.store.note(*event)
        self.session.head = self.ledger.head
        return reply

    @_dispatch.register
    def _(self, request: ConfirmPeers, envelope: bytes) -> bytes:
        terms, _, agent = self._requested(request, envelope)
        answered = self.store.rounds()
        if len(request.relay) > len(terms.agreement.participants):
            raise MessageError("More silos ask for confirmations than take part.")
        reported = [self.key.seal(make_confirmation(terms, agent, answered, each).encode()) for each in request.relay]
        return self.key.seal(PeersConfirmed(request.digest, agent, tuple(reported)).encode())

    @_dispatch.register
    def _(self, request: Confirmations, envelope: bytes) -> bytes:
        terms, _, agent = self._requested(request, envelope)
        nonce, relay = self.session.nonce, request.relay
        if not is_confirmed(terms, agent, nonce, lambda digest: self.store.last(digest)[0], relay):
            return self._request_confirmation(request.digest, agent)  # perhaps they are for a process that has ended
        self.session.confirmed.add(request.digest)
        return self.key.seal(Confirmed(request.digest, agent).encode())

    def _request_confirmation(self, digest: str, agent: int) -> bytes:
        return self.key.seal(ConfirmationRequest(digest, agent, self.session.nonce).encode())

    def _requested(self, request: Step | ConfirmPeers | Confirmations, envelope: bytes) -> tuple[AgreedRun, int, int]:
        """Return the run that a request of its coordinator is about, with its secret and this silo's number."""
        terms, secret = self._joined(request.digest)
        open_envelope(envelope, terms.agreement.coordinator)
        agent = terms.agreement.agent(self.policy.name)
        if request.agent != agent:
            raise Refusal(f"The request is for silo {request.agent}; this is silo {agent}.")
        return terms, secret, agent

    def _due(self, terms: AgreedRun, agent: int, request: Step) -> Due:
        """Return what the round starts from; refuse a request that is not due or not as agreed."""
        last, state = self.store.last(request.digest)
        self._check_order(terms, agent, last, state, request.round)
        masks: Masks | None = None
        if terms.is_masked:
            masks, request = self.store.take_masks(terms, agent, request)
        if not terms.has_profile:
            return Due(last, state, taken_inbox(terms, request), masks=masks)
        if request.round == PROFILE_ROUND:
            if request.inbox.data or request.relay:
                raise MessageError("Round 0 counts columns, so its request must be empty.")
            return Due(masks=masks)
        if state:  # the counts were taken with the first round of training, and stay
            return Due(last, state[1:], taken_inbox(terms, request), state[0], masks)
        counts, rest = take_counts(terms, request)
        return Due(inbox=taken_inbox(terms, rest), counts=counts, masks=masks)

    def unfinished(self) -> list[Agreement]:
        """Return the runs that were joined and wait for a further answer of this silo."""
        return [each for each in self.store.agreements(are_joined=True) if self.due_rounds(each)]

    def due_rounds(self, agreement: Agreement) -> list[int]:
        """Return the rounds of a run that this silo has still to answer; none where one of them has ended it."""
        last, state = self.store.last(agreement.digest)
        if last is not None and state is None:
            return []
        mine = agreed_run(agreement).rounds_of(agreement.agent(self.policy.name))
        return [k for k in mine if last is None or k > last]

    def close_runs(self, runs: Sequence[Agreement], reason: str) -> None:
        """End these runs here for good: nothing of them is answered any more, by this process or any later one."""
        with self.store.transaction():
            for each in runs:
                self.store.close(each.digest, reason)
                self.store.note("closed", f"run {each.run!r}, digest {each.digest}: {reason}")

    def _answer_round(
        self, terms: AgreedRun, agent: int, records: Records, secret: int, request: Step, asked: str, due: Due
    ) -> tuple[State | None, bytes, tuple[str, str]]:
        """Compute and draw; return the state, the answer and a line for the log.

        A failure is an answer, without a state, so that it cannot be tried again.
        """
        try:
            state, vector = self._compute(terms, agent, records, secret, request.round, due)
            reply = self.key.seal(answer_of(terms, agent, request.round, vector, due.masks).encode())
        except (OSError, MemoryError):
            raise  # the machine's failure, not the step's
        except Exception as failure:  # noqa: BLE001 - whatever it is, it may depend on the records
            note = f"round {request.round} ended the run here: {reason_of(failure)}"
            return None, self.key.seal(Refused(asked, ENDED).encode()), ("refused", note)
        cost = f"epsilon {terms.epsilon(agent, request.round):.4g} so far"
        note = f"round {request.round} of {terms.agreement.rounds}, run {terms.agreement.run!r}; {cost}"
        return state, reply, ("answered", note)

    def _checked(self, agreement: Agreement) -> int:
        """Check terms against the policy and this silo's own facts; return its number."""
        self.policy.check_terms(agreement)
        self.store.check_peers(agreement, self.policy.name)
        agent, records = agreement.agent(self.policy.name), self._records()
        me = agreement.participants[agent]
        if me.key != self.public_key:
            raise Refusal(f"The terms name a different key for {me.name}.")
        records.check_facts(agreement, agent)
        return agent

    def _admitted(self, agreement: Agreement) -> tuple[AgreedRun, int]:
        """Check terms against the rules, this silo's own facts and its budget; return them with its number."""
        agent = self._checked(agreement)  # before the noise is computed, which may take long
        terms = agreed_run(agreement)
        self.policy.check_observers(terms, self.ledger.protection)
        self.policy.check_noise(terms, agent)
        if releases := terms.all_releases(agent):
            self.ledger.confirm([self._records().table]).check_budget(releases, **paid_labels(agreement))
        return terms, agent

    def _joined(self, digest: str) -> tuple[AgreedRun, int]:
        agreement, secret = self.store.joined(digest)
        self.policy.check_terms(agreement)  # the owner may have changed the rules since
        self.store.check_peers(agreement, self.policy.name)
        terms = agreed_run(agreement)
        self.policy.check_trust(terms)
        return terms, secret

    def _check_order(self, terms: AgreedRun, agent: int, last: int | None, state: State | None, k: int) -> None:
        """The silo answers its rounds one after the other, each once, until one of them cannot be released."""
        self.store.check_open(terms.agreement.digest)
        if last is not None and state is None:
            raise Refusal(ENDED)
        mine = terms.rounds_of(agent)
        due = next((j for j in mine if last is None or j > last), None)
        if k != due:
            note = "all rounds are answered" if due is None else f"round {due} is due"
            raise Refusal(f"Round {k} was requested, but {note}.")

    def _compute(
        self, terms: AgreedRun, agent: int, records: Records, secret: int, k: int, due: Due
    ) -> tuple[State, Floats]:
        """Count or make the step, from the very records that the ledger has confirmed."""
        if terms.has_profile and k == PROFILE_ROUND:
            return (), counts_to_send(terms, agent, records.counts())
        taken = () if due.counts is None else (due.counts,)
        key = terms.agreement.digest, id(records), b"".join(counts.tobytes() for counts in taken)
        if key not in self._agents:
            self._agents[key] = agents_of_silo(terms, agent, records, encoding_of(terms, records.schema, due.counts))
        state, vector = make_step(terms, self._agents[key], secret, k, due.last, due.state, due.inbox)
        return (*taken, *state), vector

    def _records(self) -> Records:
        """Read the table, again whenever its files have changed."""
        data, schema = Path(self.policy.data), self.files.schema
        stamp = sqlite_file.stamp(data), sqlite_file.stamp(schema)
        if not all(stamp):
            raise Refusal(f"The table of {self.policy.name} cannot be read.")
        if self._held is None or self._held[0] != stamp:
            self._held = stamp, self._read(self.policy, schema)
            self._agents.clear()
        return self._held[1]
