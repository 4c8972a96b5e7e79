"""The private part of a round: one silo, alone with its records, counts or makes the same step as in-process."""

from dataclasses import dataclass, field, replace

import numpy as np

from dpadmm.data.columns import weights_by_class
from dpadmm.data.encoding import RowEncoding
from dpadmm.federation.errors import MessageError
from dpadmm.federation.inbox import checked, counts_to_send, encoding_of, take_counts, taken_inbox
from dpadmm.federation.messages import Step
from dpadmm.federation.silo_directory import Records
from dpadmm.federation.terms import Terms
from dpadmm.methods.base import Agents
from dpadmm.noise.masks import Masks
from dpadmm.privacy.ledger.spending import PROFILE_ROUND
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import risk_of
from dpadmm.problems.silos import Silos
from dpadmm.solvers import batch_kernels, column_kernel, kernels  # noqa: F401 - before a round is paid for, not in it
from dpadmm.solvers.solver import available_threads, one_blas_thread, prepare_release

State = tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class RoundStart:
    """What a round starts from: the last answered round of training, the state after it, and the checked inbox.

    counts: what all silos' columns amount to, after round 0. masks: under which the answer leaves; None for plain ones.
    """

    last: int | None = None
    state: State | None = field(default=None, repr=False)
    inbox: Floats | None = field(default=None, repr=False)
    counts: Floats | None = field(default=None, repr=False)
    masks: Masks | None = field(default=None, repr=False)


def read_start(terms: Terms, request: Step, last: int | None, state: State | None, masks: Masks | None) -> RoundStart:
    """Return what the round starts from; refuse what is not as agreed. last, state: of this silo's last answer."""
    if terms.profile is None:
        return RoundStart(last, state, taken_inbox(terms, request), masks=masks)
    if request.round == PROFILE_ROUND:
        if request.inbox.data or request.relay:
            raise MessageError("Round 0 counts columns, so its request must be empty.")
        return RoundStart(masks=masks)
    if state:  # the counts were taken with the first round of training, and stay
        return RoundStart(last, state[1:], taken_inbox(terms, request), state[0], masks)
    counts, rest = take_counts(terms, request)
    return RoundStart(inbox=taken_inbox(terms, rest), counts=counts, masks=masks)


@dataclass
class SiloRounds:
    """Computes a silo's rounds on one table; rows are encoded once for each run and its counts."""

    _agents: dict[tuple[str, bytes], Agents] = field(default_factory=dict)

    def compute(
        self, terms: Terms, agent: int, records: Records, secret: int, k: int, start: RoundStart
    ) -> tuple[State, Floats]:
        """Count or make the step, from the very records that the ledger has confirmed; return the state, what leaves.

        Where messages leave under masks it is still bare: `masked_sums.answer_of` adds this silo's share of the noise.
        secret: seed of the silo's batches in a release.
        """
        if terms.profile is not None and k == PROFILE_ROUND:
            return (), counts_to_send(terms, agent, records.counts())
        taken = () if start.counts is None else (start.counts,)
        key = terms.digest, b"".join(counts.tobytes() for counts in taken)
        if key not in self._agents:
            encoding = encoding_of(terms, records.schema, start.counts)
            self._agents[key] = agents_of_silo(terms, agent, records, encoding)
        state, vector = make_step(terms, self._agents[key], secret, k, start)
        if not terms.is_masked:  # else how long it is shows in the sum alone
            vector = checked(vector, terms, k, "this silo's own step")
        return (*taken, *state), vector


def agents_of_silo(terms: Terms, agent: int, records: Records, encoding: RowEncoding) -> Agents:
    """Return one silo alone: its own functions and solver, and public facts about the rest."""
    me = terms.participants[agent]
    features, nominal = records.cells.rows(encoding), None if terms.has_public_sizes else [me.records]
    silos = Silos.from_parts([features], [records.cells.labels], records.schema.row_norm, [me.name], nominal)
    if terms.class_weights:
        silos = replace(silos, row_weights=weights_by_class(silos.labels, terms.class_weights))
    functions, weights = risk_of(silos, terms.loss, terms.mu), terms.problem.weights[[agent]]
    return Agents(
        functions=functions,
        weights=weights,
        regulariser=terms.problem.regulariser,
        solver=prepare_release(functions, weights, terms.tolerance, available_threads()),
        index=np.array([agent]),
        degrees=np.zeros(1, dtype=np.int64) if terms.network is None else terms.network.degrees[[agent]],
        number=len(terms.participants),
        threads=available_threads(),
    )


def make_step(terms: Terms, agents: Agents, secret: int, k: int, start: RoundStart) -> tuple[State, Floats]:
    """Finish the last round, if it was the one before, and make round k; return the state and what leaves (d,).

    Methods in which silos skip rounds have nothing to finish (`update` returns the state).
    """
    algorithm = terms.algorithm
    if terms.is_secure:
        algorithm = algorithm.with_secret(secret)
    with one_blas_thread():
        state, first = algorithm.start(agents, 1)
        here = first if start.inbox is None else start.inbox
        if start.state is not None:
            state = type(state)(*start.state)
        if start.last is not None and start.last == k - 1:
            state = algorithm.update(start.last, agents, state, here)
        noise = terms.planned_noise()
        state, message = algorithm.local_step(k, agents, state, here, noise)
        if not terms.is_masked:
            noise.check_drawn(k, int(agents.index[0]))
    return tuple(state), np.ascontiguousarray(message[0, :, 0])
