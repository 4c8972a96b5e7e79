"""What `dpadmm federate --local` rehearses: tables dealt to silos, P-ADMM on a ring, test noise."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpadmm import checks
from dpadmm.data.schema import Screening
from dpadmm.data.table_format import TableFormat
from dpadmm.errors import InputError
from dpadmm.federation.agreement import Agreement, NoiseOrigin, Participant, named_edges
from dpadmm.federation.columns import profile_terms
from dpadmm.federation.policy import Policy
from dpadmm.federation.terms import SOFTMAX
from dpadmm.methods.p_admm import PADMM

if TYPE_CHECKING:
    import pandas as pd

    from dpadmm.data.schema import Schema

DELTA = 1e-5
"""The delta of every rehearsal."""

_DEAL_SEED = 20_241

_ANY, _STRICT = TableFormat(), Screening()
_AS_DEALT = TableFormat(sep=",", decimal=".", encoding="utf-8", has_header=True)


def rehearsal_tables(
    silos: int,
    data: Path | None,
    schema: Path | None,
    by: str | None,
    *,
    written: TableFormat = _ANY,
    screening: Screening = _STRICT,
) -> "tuple[dict[str, pd.DataFrame], Schema]":
    """Return one table per silo: the user's, dealt by a column or at random; or breast cancer, from scikit-learn.

    Cells that `screening` refuses are refused here, where file and row are still those of the user.
    """
    from dpadmm.data.schema import Schema
    from dpadmm.data.tables import encode_table, read_table, split_table

    checks.count("silos", silos, least=2)
    if data is None:
        from sklearn import datasets

        from dpadmm.data.breast_cancer import SCHEMA

        frame, public = datasets.load_breast_cancer(as_frame=True).frame, SCHEMA
    else:
        if schema is None:
            raise InputError("A table needs its public schema: give --schema FILE.")
        frame, public = read_table(data, written), Schema.load(schema)
        encode_table(public, frame, str(data), screening)
    if by is not None:
        tables = split_table(frame, by, "The table", has_header=written.is_headed)
    else:
        order = np.random.default_rng(_DEAL_SEED).permutation(len(frame))
        tables = {f"silo-{i}": frame.iloc[rows] for i, rows in enumerate(np.array_split(order, silos))}
    if len(tables) != silos:
        raise InputError(f"The column {by!r} names {len(tables)} silos, not {silos}.")
    return tables, public


def p_admm_terms(
    schema: "Schema",
    rounds: int,
    epsilon: float,
    run: str = "rehearsal",
    mu: float = 0.01,
    eta: float = 0.01,
    reach: float = 0.0,
    profile_share: float = 0.0,
    class_weights: Sequence[float] = (),
) -> Callable[[Sequence[Participant], str, str], Agreement]:
    """Return the builder of the terms: P-ADMM on a ring (a path for two) at delta 1e-5 with test noise.

    reach, profile_share: how rows are encoded, class_weights: what those of each class count, see `Agreement`.
    """

    classes = len(schema.label.classes) if len(schema.label.classes) > 2 else 0

    def build(people: Sequence[Participant], coordinator: str, digest: str) -> Agreement:
        return Agreement(
            run=run,
            method=PADMM.about.name,
            settings=(("eta", eta),),
            rounds=rounds,
            epsilon=epsilon,
            delta=DELTA,
            participants=tuple(people),
            coordinator=coordinator,
            schema=digest,
            dimension=max(classes, 1) * schema.dimension,
            row_norm=schema.row_norm,
            edges=tuple(named_edges("ring", len(people))),
            mu=mu,
            noise=NoiseOrigin.TEST,
            seed=7,
            reach=reach,
            profile_share=profile_share,
            classes=classes,
            class_weights=tuple(class_weights),
            loss=SOFTMAX if classes else "logistic",
            **(profile_terms(schema) if profile_share else {}),
        )

    return build


def rehearsal_policy(name: str, data: Path, schema: Path, screening: Screening = _STRICT) -> Policy:
    """Return a policy for a rehearsal's silo; awkward cells are refused unless `screening` says otherwise."""
    return Policy(
        name=name,
        data=str(data),
        schema=str(schema),
        noise=NoiseOrigin.TEST,
        screening=screening,
        written=_AS_DEALT,
    )
