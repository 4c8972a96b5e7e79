"""A silo: answers a coordinator's requests about its private records, or refuses; independent of any transport.

For each request: check the signature, the terms, the order; if the round was answered before, return that answer bit
for bit. Otherwise compute and draw, then make the payment, the state and the answer durable in one commit, and only
then let the answer leave. A crash before the commit leaves nothing of the round, one after it leaves the answer to be
sent again. A step that fails ends the run here, and is paid for: if it could be asked for again, with fresh noise, each
failure would be one more look at the records.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import cast

from dpadmm.errors import DpadmmError, LedgerError
from dpadmm.federation import messages, sqlite_file
from dpadmm.federation.errors import (
    MessageError,
    NotApproved,
    Refusal,
    public_reason,
    reason_of,
    refusing_unexpected,
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
from dpadmm.federation.silo_round import RoundStart, SiloRounds, State, read_start
from dpadmm.federation.silo_store import SiloStore, paid_labels
from dpadmm.federation.terms import Terms
from dpadmm.privacy.ledger import Ledger

ENDED = "A step of this silo could not be released; the run has ended here, and the reason is in the silo's own log."
"""What others learn of a failed step: that it failed, once."""

MOST_AWAITED = 64
"""Terms without approval of which a silo remembers that it has logged them."""


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
        self._rounds = SiloRounds()
        self._awaited: set[str] = set()

    def close(self) -> None:
        """Close the file."""
        self.ledger.close()

    @property
    def public_key(self) -> str:
        """The key that its answers are signed with."""
        return self.key.public

    @property
    def records(self) -> int:
        """How many records it holds: public where the policy's neighbours have equally many."""
        return self._records().number

    def entry(self) -> SiloEntry:
        """Return what terms are drafted from."""
        return self.files.entry_of(self.policy, self.public_key, self.records)

    # --- its owner ---------------------------------------------------------------------------------------------------

    def approve(self, terms: Terms) -> None:
        """Approve these terms for the owner; refuse them now if the policy or the budget does."""
        self.check_terms(terms)
        with self.store.transaction():
            self.store.approve(terms)
            self.store.note("approved", f"run {terms.run!r}, digest {terms.digest}")

    def check_rules(self, terms: Terms) -> int:
        """Refuse terms that the owner's rules or this silo's own facts rule out; return its number.

        Nothing is computed from them, which may take long.
        """
        self._load_policy()
        self.store.check_open(terms.digest)
        self.policy.check_terms(terms)
        self.store.check_peers(terms, self.policy.name)
        agent, records = terms.agent(self.policy.name), self._records()
        if terms.participants[agent].key != self.public_key:
            raise Refusal(f"The terms name a different key for {self.policy.name}.")
        records.check_facts(terms, agent)
        return agent

    def check_terms(self, terms: Terms) -> int:
        """Refuse terms that this silo would not run now; return its number.

        Nothing is reserved for them: others may spend it first.
        """
        agent = self.check_rules(terms)
        self.policy.check_observers(terms, self.ledger.protection)
        releases = terms.all_releases(agent)
        self.policy.check_releases(releases)
        if releases:
            self.ledger.confirm([self._records().table]).check_budget(releases, **paid_labels(terms))
        return agent

    def confirm_peer(self, name: str, reported: str) -> None:
        """Keep the fingerprint of another participant's identity key, as its owner stated it over another channel."""
        with self.store.transaction():
            self.store.confirm(name, reported)
            self.store.note("confirmed", f"the identity key of {name}: {reported}")

    def unconfirmed(self, terms: Terms) -> list[str]:
        """Return the participants in these terms with identity keys that the owner has not confirmed."""
        return self.store.unconfirmed(terms, self.policy.name)

    def unfinished(self) -> list[Terms]:
        """Return the runs that were joined and wait for a further answer of this silo."""
        return [each for each in self.store.all_terms(are_joined=True) if self.due_rounds(each)]

    def due_rounds(self, terms: Terms) -> list[int]:
        """Return the rounds of a run that this silo has still to answer; none where one of them has ended it."""
        last, state = self.store.last(terms.digest)
        if last is not None and state is None:
            return []
        return [k for k in terms.rounds_of(terms.agent(self.policy.name)) if last is None or k > last]

    def close_runs(self, runs: Sequence[Terms], reason: str) -> None:
        """End these runs here for good: nothing of them is answered any more, by this process or any later one."""
        with self.store.transaction():
            for each in runs:
                self.store.close(each.digest, reason)
                self.store.note("closed", f"run {each.run!r}, digest {each.digest}: {reason}")

    # --- its coordinator ---------------------------------------------------------------------------------------------

    def answer(self, envelope: bytes) -> bytes:
        """Return the signed answer to a signed request; a refusal is an answer, and is logged.

        Whatever is sent, only a failure of the machine (`errors.MACHINE_FAILURES`) is raised, as by a full disk: ask
        again when it is healed.
        """
        try:
            with refusing_unexpected():
                self._load_policy()
                match request := messages.read(body_of(envelope)):
                    case Join():
                        return self._seal(self._join(request, envelope))
                    case Step():
                        return self._step(request, envelope)
                    case ConfirmPeers():
                        return self._seal(self._confirm_peers(request, envelope))
                    case Confirmations():
                        return self._seal(self._take_confirmations(request, envelope))
                raise MessageError(f"A silo does not accept messages of the kind {type(request).__name__}.")
        except DpadmmError as refusal:
            if sqlite_file.is_machines(refusal):
                raise OSError(str(refusal)) from refusal
            return self._seal(self._refused(refusal, envelope))

    def _join(self, request: Join, envelope: bytes) -> Joined:
        open_envelope(envelope, request.terms.coordinator)
        terms = self.store.approved(request.terms)
        agent = self.check_terms(terms)
        with self.store.transaction():
            if self.store.join(terms):
                self.store.note("joined", f"run {terms.run!r}, digest {terms.digest}")
            mask_key = self.store.mask_key(terms.digest) if terms.is_masked else None
        return Joined(terms.digest, agent, terms.plan_mark, mask_key)

    def _step(self, request: Step, envelope: bytes) -> bytes:
        terms, secret, agent = self._requested(request, envelope)
        asked, records = messages.mark(body_of(envelope)), self._records()
        confirmed = self.ledger.confirm([records.table])  # other data are refused, even for an answered round
        if (kept := self.store.find(request, asked)) is not None:
            with self.store.transaction():  # moves the anchor, if a crash left it behind this very answer
                return kept
        records.check_number(terms, agent)
        with self.store.transaction() if terms.is_masked else nullcontext():  # a roster of mask keys is taken for good
            last, state = self._check_due(terms, agent, request.round)
            masks, rest = self.store.take_masks(terms, agent, request) if terms.is_masked else (None, request)
            start = read_start(terms, rest, last, state, masks)
        if request.digest not in self.session.confirmed:
            return self._seal(self._ask_confirmation(request.digest, agent))
        labels, releases = paid_labels(terms), terms.releases(agent, request.round)
        if releases:
            self.policy.check_releases(releases)
            confirmed.check_budget(releases, **labels)
        state, reply, event = self._compute(terms, agent, records, secret, request, asked, start)
        with self.store.transaction(confirmed) as work:
            if (kept := self.store.find(request, asked)) is not None:  # by another process, meanwhile
                return kept
            self._check_due(terms, agent, request.round)
            if releases:
                work.reserve(releases, **labels)
            self.store.add_answer(request, asked, state, reply)
            if state is None or request.round == terms.rounds:
                self.store.erase_masks(request.digest)
            self.store.note(*event)
        self.session.head = self.ledger.head
        return reply

    def _compute(
        self, terms: Terms, agent: int, records: Records, secret: int, request: Step, asked: str, start: RoundStart
    ) -> tuple[State | None, bytes, tuple[str, str]]:
        """Compute and draw; return the state, the answer and a line for the log.

        A failure is an answer, without a state, so that it cannot be tried again.
        """
        k = request.round
        try:
            state, vector = self._rounds.compute(terms, agent, records, secret, k, start)
            reply = self._seal(answer_of(terms, agent, k, vector, start.masks))
        except (OSError, MemoryError):
            raise  # the machine's failure, not the step's
        except Exception as failure:  # noqa: BLE001 - whatever it is, it may depend on the records
            note = f"round {k} ended the run here: {reason_of(failure)}"
            return None, self._seal(Refused(asked, ENDED)), ("refused", note)
        cost = f"epsilon {terms.spent_epsilon(agent, k):.4g} so far"
        return state, reply, ("answered", f"round {k} of {terms.rounds}, run {terms.run!r}; {cost}")

    def _confirm_peers(self, request: ConfirmPeers, envelope: bytes) -> PeersConfirmed:
        terms, _, agent = self._requested(request, envelope)
        if len(request.relay) > len(terms.participants):
            raise MessageError("More silos ask for confirmations than take part.")
        answered = self.store.rounds()
        reported = [self._seal(make_confirmation(terms, agent, answered, each)) for each in request.relay]
        return PeersConfirmed(request.digest, agent, tuple(reported))

    def _take_confirmations(self, request: Confirmations, envelope: bytes) -> Confirmed | ConfirmationRequest:
        terms, _, agent = self._requested(request, envelope)
        nonce, relay = self.session.nonce, request.relay
        if not is_confirmed(terms, agent, nonce, lambda digest: self.store.last(digest)[0], relay):
            return self._ask_confirmation(request.digest, agent)  # perhaps they are for a process that has ended
        self.session.confirmed.add(request.digest)
        return Confirmed(request.digest, agent)

    def _ask_confirmation(self, digest: str, agent: int) -> ConfirmationRequest:
        return ConfirmationRequest(digest, agent, self.session.nonce)

    # --- checks ------------------------------------------------------------------------------------------------------

    def _requested(self, request: Step | ConfirmPeers | Confirmations, envelope: bytes) -> tuple[Terms, int, int]:
        """Return the run that a request of its coordinator is about, with its secret and this silo's number."""
        terms, secret = self.store.joined(request.digest)
        self.policy.check_terms(terms)  # the owner may have changed the rules since
        self.store.check_peers(terms, self.policy.name)
        self.policy.check_observers(terms, self.ledger.protection)
        open_envelope(envelope, terms.coordinator)
        agent = terms.agent(self.policy.name)
        if request.agent != agent:
            raise Refusal(f"The request is for silo {request.agent}; this is silo {agent}.")
        return terms, secret, agent

    def _check_due(self, terms: Terms, agent: int, k: int) -> tuple[int | None, State | None]:
        """Return the last answered round and the state after it; refuse round k if another one is due, or none.

        The silo answers its rounds one after the other, each once, until one of them cannot be released.
        """
        self.store.check_open(terms.digest)
        last, state = self.store.last(terms.digest)
        if last is not None and state is None:
            raise Refusal(ENDED)
        due = next((j for j in terms.rounds_of(agent) if last is None or j > last), None)
        if k != due:
            note = "all rounds are answered" if due is None else f"round {due} is due"
            raise Refusal(f"Round {k} was requested, but {note}.")
        return last, state

    def _load_policy(self) -> None:
        """Read the rules, which the owner may have changed; but a rehearsal stays one, with a ledger of its own."""
        policy, made = Policy.load(self.files.policy), self.policy.noise
        if policy.noise is not made:
            raise Refusal(f"{policy.name} was made for {made.value} noise. For other noise make another silo.")
        self.policy = policy

    def _records(self) -> Records:
        """Read the table, again whenever its files have changed."""
        data, schema = Path(self.policy.data), self.files.schema
        stamp = sqlite_file.stamp(data), sqlite_file.stamp(schema)
        if not all(stamp):
            raise Refusal(f"The table of {self.policy.name} cannot be read.")
        if self._held is None or self._held[0] != stamp:
            self._held = stamp, self._read(self.policy, schema)
            self._rounds = SiloRounds()
        return self._held[1]

    def _seal(self, message: Message) -> bytes:
        return self.key.seal(message.encode())

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
