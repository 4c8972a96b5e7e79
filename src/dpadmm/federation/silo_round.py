"""The private part of a round: one silo, alone with its records, makes the same step as in-process."""

from dataclasses import replace

import numpy as np

from dpadmm.data.columns import weights_by_class
from dpadmm.data.encoding import RowEncoding
from dpadmm.federation.inbox import checked_vector
from dpadmm.federation.silo_directory import Records
from dpadmm.federation.terms import AgreedRun
from dpadmm.methods.base import Agents
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import risk_of
from dpadmm.problems.silos import Silos
from dpadmm.solvers import batch_kernels, column_kernel, kernels  # noqa: F401 - before a round is paid for, not in it
from dpadmm.solvers.solver import available_threads, one_blas_thread, prepare_release

State = tuple[Floats, ...]


def agents_of_silo(terms: AgreedRun, agent: int, records: Records, encoding: RowEncoding) -> Agents:
    """Return one silo alone: its own functions and solver, and public facts about the rest."""
    agreement = terms.agreement
    name = agreement.participants[agent].name
    features = records.cells.rows(encoding)
    nominal = None if agreement.has_public_sizes else [agreement.participants[agent].records]
    silos = Silos.from_parts([features], [records.cells.labels], records.schema.row_norm, [name], nominal)
    if agreement.class_weights:
        silos = replace(silos, class_weights=weights_by_class(silos.labels, agreement.class_weights))
    functions, weights = risk_of(silos, agreement.loss, agreement.mu), terms.problem.weights[[agent]]
    return Agents(
        functions=functions,
        weights=weights,
        regulariser=terms.problem.regulariser,
        solver=prepare_release(functions, weights, agreement.tolerance, available_threads()),
        index=np.array([agent]),
        degrees=np.zeros(1, dtype=np.int64) if terms.network is None else terms.network.degrees[[agent]],
        number=len(agreement.participants),
        threads=available_threads(),
    )


def make_step(
    terms: AgreedRun, agents: Agents, secret: int, k: int, last: int | None, saved: State | None, inbox: Floats | None
) -> tuple[State, Floats]:
    """Finish round `last`, if it was the one before, and make round k; return the state and what leaves (d,).

    Where messages leave under masks it is still bare: `masked_sums.summand` adds this silo's share of the noise.

    secret: seed of the silo's batches in a release. inbox: None for the method's own public first one. Methods in which
    silos skip rounds have nothing to finish (`update` returns the state).
    """
    agreement, algorithm = terms.agreement, terms.algorithm
    if terms.is_secure:
        algorithm = algorithm.with_secret(secret)
    with one_blas_thread():
        state, first = algorithm.start(agents, 1)
        here = first if inbox is None else inbox
        if saved is not None:
            state = type(state)(*saved)
        if last is not None and last == k - 1:
            state = algorithm.update(last, agents, state, here)
        noise = terms.noise()
        state, message = algorithm.local_step(k, agents, state, here, noise)
        if not terms.is_masked:
            noise.check_drawn(k, int(agents.index[0]))
    vector = np.ascontiguousarray(message[0, :, 0])
    if terms.is_masked:  # how long it is shows in the sum alone
        return tuple(state), vector
    return tuple(state), checked_vector(vector, agreement, "this silo's own step")
