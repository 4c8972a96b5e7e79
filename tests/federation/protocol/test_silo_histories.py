"""Whatever happens to a silo's messages and files: a round has one answer, paid for once; a refusal spends nothing."""

import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from tests.contracts.in_memory import Crashed
from tests.federation.protocol.durable_steps import DurableSteps

from dpadmm.errors import LedgerError
from dpadmm.federation import messages
from dpadmm.federation.admin.maintenance import change_data, rotate_silo_key
from dpadmm.federation.keys import SIGNATURE_BYTES
from dpadmm.federation.messages import Answer, ConfirmationRequest, Confirmed, Refused
from dpadmm.federation.policy import Policy
from dpadmm.federation.silo import Silo
from dpadmm.federation.silo_store import SiloStore

ROUNDS = 3
ROUND = st.integers(1, ROUNDS)
BROADCAST = np.zeros((2, 3))


@dataclass(frozen=True)
class Backup:
    """A copy of the silo's directory: how often its ledger was written by then, what it had answered of which run."""

    place: Path
    entries: int
    digest: str
    last: int


class SiloHistory(RuleBasedStateMachine):
    """One silo under test, two others that have seen what it answers; a coordinator that may ask for anything."""

    def __init__(self, setups, template) -> None:
        super().__init__()
        self.setups, self.place = setups, Path(mkdtemp())
        self.world = setups.copied(template, self.place / "world")
        self.directory = self.world.first.files.directory
        self.left: dict[tuple[str, int], bytes] = {}
        self.backups: list[Backup] = []
        self.seen = self.last = self.runs = 0  # of the run under way: asked of the others, answered by this silo
        self.is_closed = False
        self._join(self.world.terms)

    def teardown(self) -> None:
        for silo in self.world.silos.values():
            silo.close()
        shutil.rmtree(self.place)

    def _join(self, terms) -> None:
        self.terms, self.last, self.seen, self.is_closed = terms, 0, 0, False
        self.runs += 1
        self._restart()
        for name in self.world.silos:
            assert isinstance(self.world.reply(name, self.world.invite(terms)), messages.Joined)
        self.back_up()

    def _restart(self) -> None:
        self.world.first.close()
        self.world.silos["s0"] = Silo(self.directory)

    def _request(self, k: int, agent: int = 0) -> bytes:
        return self.world.ask(k, agent, inbox=None if k == 1 else BROADCAST, terms=self.terms)

    def _ask(self, k: int):
        """Return what the silo answers to a request; what it answers to a round it answers for good."""
        reply = self.world.first.answer(self._request(k))
        reported = messages.read(reply[SIGNATURE_BYTES:])
        if isinstance(reported, Answer):
            assert self.left.setdefault((self.terms.digest, k), reply) == reply
            self.last = max(self.last, k)
        return reported

    def _confirm(self, question: bytes):
        """Let the others say what they have seen of the silo; return what it makes of that."""
        relay = self.world.seen(question, terms=self.terms)
        return self.world.reply("s0", self.world.handed(relay, self.terms))

    def _ask_confirmed(self, k: int):
        reported = self._ask(k)
        if isinstance(reported, ConfirmationRequest):
            reported = self._confirm(self.world.first.answer(self._request(k)))
            return self._ask(k) if isinstance(reported, Confirmed) else reported
        return reported

    @property
    def may_answer(self) -> bool:
        return not self.is_closed and self.last < ROUNDS

    # --- messages ----------------------------------------------------------------------------------------------------

    @rule(rounds=ROUND)
    def answer_what_is_due(self, rounds):
        """Each round as soon as the others have confirmed the silo; then they answer it too."""
        for _ in range(rounds):
            due = min(self.last + 1, ROUNDS)
            reported = self._ask_confirmed(due)
            if self.is_closed:
                assert isinstance(reported, Refused)
                return
            assert isinstance(reported, Answer), reported
            for k in range(self.seen + 1, due + 1):
                for agent in (1, 2):
                    assert isinstance(self.world.reply(f"s{agent}", self._request(k, agent)), Answer)
            self.seen = due

    @rule(k=ROUND)
    def ask_for_any_round(self, k):
        """Repeated, early, or for a run that has ended: the stored answer, or none."""
        before = self.last
        reported = self._ask(k)
        if self.is_closed or k > before + 1:
            assert isinstance(reported, Refused)
        elif k <= before:
            assert isinstance(reported, Answer)

    @rule(k=ROUND)
    def ask_otherwise_for_an_answered_round(self, k):
        """With another broadcast, which would show another step for the same noise, or another noise."""
        if k <= self.last:
            other = self.world.ask(k, 0, inbox=np.ones((2, 3)), terms=self.terms)
            assert isinstance(self.world.reply("s0", other), Refused)

    # --- processes ---------------------------------------------------------------------------------------------------

    @rule()
    def restart(self):
        self._restart()

    @rule(number=st.integers(1, 4), when=st.sampled_from(["before", "after"]))
    def crash(self, number, when):
        steps = DurableSteps(("", number, when))
        with steps.watched(), suppress(Crashed):
            self._ask(min(self.last + 1, ROUNDS))
        self._restart()
        self.last = self.world.first.store.last(self.terms.digest)[0] or 0

    @precondition(lambda self: self.may_answer)
    @rule()
    def fill_the_disk(self):
        """The machine fails while an answer is stored: nothing is spent, and the silo answers later."""

        def full(*_):
            raise OSError("no space left")

        before = self.world.statement("s0").releases
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SiloStore, "add_answer", full)
            with suppress(OSError):
                assert not isinstance(self._ask_confirmed(self.last + 1), Answer)
        assert self.world.statement("s0").releases == before

    # --- files -------------------------------------------------------------------------------------------------------

    def _copy(self, name: str) -> Path:
        self.world.first.close()
        shutil.copytree(self.directory, self.place / name)
        self._restart()
        return self.place / name

    @rule()
    def back_up(self):
        entries = self.world.statement("s0").entries
        self.backups.append(Backup(self._copy(f"backup{len(self.backups)}"), entries, self.terms.digest, self.last))

    def _put(self, source: Path) -> None:
        self.world.first.close()
        shutil.rmtree(self.directory)
        shutil.copytree(source, self.directory)

    def _put_file(self, backup: Backup) -> None:
        """Beside the newest anchor an older file does not even open."""
        self.world.first.close()
        shutil.copy(backup.place / "silo.db", self.directory)
        with pytest.raises(LedgerError):
            Silo(self.directory)

    def _put_directory(self, backup: Backup) -> None:
        """What others have seen of it is more than its files know: it draws nothing. The last round nobody has seen."""
        if backup.digest != self.terms.digest or backup.last >= self.seen - 1 or self.is_closed:
            return
        self._put(backup.place)
        self.world.silos["s0"] = Silo(self.directory)
        reported = self.world.first.answer(self._request(backup.last + 1))
        assert isinstance(messages.read(reported[SIGNATURE_BYTES:]), ConfirmationRequest)
        assert isinstance(self._confirm(reported), Refused)

    def _put_under_the_process(self, backup: Backup) -> None:
        """It is confirmed already; but its ledger is not the one that it has read."""
        for file in backup.place.iterdir():
            (self.directory / file.name).write_bytes(file.read_bytes())
        with pytest.raises(OSError, match="while it was open"):
            self.world.first.answer(self._request(ROUNDS))

    @rule(how=st.sampled_from([_put_file, _put_directory, _put_under_the_process]), data=st.data())
    def put_back(self, how, data):
        """Files that lack an entry of the ledger are put back; then the newest are."""
        entries = self.world.statement("s0").entries
        older = [each for each in self.backups if each.entries < entries]
        if older:
            backup, newest = data.draw(st.sampled_from(older)), self._copy("newest")
            how(self, backup)
            self._recover(newest)

    def _recover(self, newest: Path) -> None:
        self._put(newest)
        shutil.rmtree(newest)
        self.world.silos["s0"] = Silo(self.directory)

    # --- owners ------------------------------------------------------------------------------------------------------

    @rule()
    def tighten_the_rules_for_a_while(self):
        rules = Policy.load(self.world.first.files.policy)
        replace(rules, methods=("p-admm",)).save(self.world.first.files.policy)
        for k in range(1, ROUNDS + 1):
            assert isinstance(self._ask(k), Refused)
        rules.save(self.world.first.files.policy)

    def _close_run(self) -> None:
        self.is_closed |= self.last < ROUNDS
        self._restart()

    @precondition(lambda self: self.last > 1)
    @rule()
    def rotate_the_key(self):
        self.world.first.close()
        rotate_silo_key(self.world.first.files, is_old_kept=False, may_close=True)
        self._close_run()

    @precondition(lambda self: self.last > 1)
    @rule(table=st.sampled_from(["grown", "corrected"]))
    def bring_new_data(self, table):
        policy = Policy.load(self.world.first.files.policy)
        files, before = self.world.first.files, self.world.first.ledger.statement().version
        changed = replace(policy, data=str(getattr(self.setups, table)(self.world)))
        self.world.first.close()
        if change_data(files, changed, may_close=True).statement.version > before:
            self._close_run()
        else:
            self._restart()

    @precondition(lambda self: self.runs < 4 and (self.is_closed or self.last == ROUNDS))
    @rule()
    def begin_another_run(self):
        self._restart()
        terms = self.setups.later_terms(self.world, run=f"run {self.runs}", epsilon=0.4)
        self.world.approve(terms)
        self._join(terms)

    # --- what always holds -------------------------------------------------------------------------------------------

    @invariant()
    def every_answer_is_stored_and_paid_for_once(self):
        query = "SELECT digest, round, reply FROM answer"
        stored = {(str(digest), int(k)): bytes(reply) for digest, k, reply in self.world.first.store.rows(query)}
        assert stored.items() >= self.left.items()
        assert self.world.statement("s0").releases == len(stored)


@pytest.mark.parametrize("examples", [15, pytest.param(400, marks=pytest.mark.slow)])
def test_any_history_of_a_silo(setups, star_template, examples):
    wanted = settings(
        max_examples=examples,
        stateful_step_count=25,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(lambda: SiloHistory(setups, star_template), settings=wanted)
