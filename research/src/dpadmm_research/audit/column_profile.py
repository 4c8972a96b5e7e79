"""The column profile as something to attack: the silos' histograms before the first round (C11).

Rows are read, counted, planned and sent by the code that real runs use; only the noise is drawn for many runs at once.
The person who is exchanged falls into other bins in every column, so the certificate's bound is reached exactly, and an
attack that finds less than the certified epsilon lacks nothing but runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from dpadmm.core.dataset import Dataset
from dpadmm.core.release import noisy_values
from dpadmm.core.spec import ReleaseFacts
from dpadmm.data.columns import Categorical, Numeric, ThresholdLabel
from dpadmm.data.profile import ProfileForm
from dpadmm.data.schema import Schema
from dpadmm.data.tables import screen_cells
from dpadmm.noise.mechanisms import COORDINATOR
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import ONE_RECORD, Protection, Unit, View
from dpadmm.problems.silos import PersonRows, PersonWeights
from dpadmm.queries.column_profile import ColumnProfile
from dpadmm.settings import CellRules
from dpadmm_research.audit.attacks import LikelihoodRatio, Worlds
from dpadmm_research.audit.insider import SILOS, Insider, among
from dpadmm_research.audit.subjects import Subject
from dpadmm_research.audit.transcripts import EventHook, Transcript, Wire

COLUMN_PROFILE = "column-profile"
SUMMARY, CERTIFICATE = "histograms of the columns, before the first round", "C11"

Cell = float | str | None
Rows = list[tuple[Cell, ...]]

SCHEMA = Schema(
    (
        Numeric("age", 0, 120),
        Numeric("balance", -100, 100),
        Categorical("work", ("none", "part", "full")),
        Categorical("town", ("north", "south")),
    ),
    ThresholdLabel("pay", 0),
)
_LENIENT = CellRules(missing="fill", unlisted="zero")

_FORM = ProfileForm(SCHEMA.columns)
COUNTED = ColumnProfile(
    n_numeric=_FORM.n_numeric, n_categorical=_FORM.n_categorical, size=_FORM.size, target=Target(1.0, 1e-5)
)

_EMPTY: Rows = [(None, None, None, None)]
_FULL: Rows = [(120.0, 100.0, "full", "south")]
_AT_ANCHORS: Rows = [(0.0, 0.0, "none", "north")]
_AT_EDGES: Rows = [(12.0, -100.0, "full", "nowhere")]
_OTHERS: Rows = [(45.0, 3.0, "part", "north"), (61.0, None, None, "south")]


@dataclass(frozen=True)
class ProfileStage:
    """Round 0 by itself: rows are counted, and their counts get the planned noise."""

    plan: NoisePlan
    is_per_user: bool
    replicas: int

    def run(self, world: Dataset, hook: EventHook) -> Transcript:
        """Return what the silos send, and the pooled counts that all of them receive."""
        counts = np.repeat(world.counts(per_user=self.is_per_user)[:, :, None], self.replicas, axis=2)
        noisy = noisy_values(COUNTED, self.plan, counts, hook)
        is_pooled = any(release.agent == COORDINATOR for release in self.plan)
        received = noisy.sum(axis=0)
        return Transcript(tuple(hook.events), (counts if is_pooled else noisy,), (received[None],), received)


@dataclass(frozen=True, kw_only=True)
class ProfileSubject(Subject):
    """A profile of neighbouring tables. is_pooled: the coordinator adds one noise to the counts of all silos."""

    protection: Protection
    is_pooled: bool = False

    @property
    def is_pure(self) -> bool:
        """Gaussian noise is not."""
        return False

    def plan(self, target: Target, is_secure: bool = False) -> NoisePlan:
        """Return the noise of a run that releases nothing else."""
        facts = ReleaseFacts(tuple(self.worlds[0].sizes), self.protection, self.is_pooled)
        return replace(COUNTED, target=target).noise_plan(facts, is_secure)

    def stage(self, plan: NoisePlan, replicas: int) -> ProfileStage:
        """Return round 0 with this noise."""
        return ProfileStage(plan, self.protection.unit is Unit.USER, replicas)


def profile_subjects() -> tuple[ProfileSubject, ...]:
    """Return the profile's subjects, the headline pair first."""
    spread, user = Protection(records_per_person=3, silos_per_person=2), Protection(unit=Unit.USER)
    person = Protection(unit=Unit.PERSON, silos_per_person=2)
    return (
        _subject("one record, all of its cells missing in one world and none in the other", _EMPTY, _FULL),
        _subject("one record, on the edges of its bins in both worlds", _AT_ANCHORS, _AT_EDGES),
        _subject("three records of a person in each of two silos", 3 * _EMPTY, 3 * _FULL, spread),
        _subject("the same, behind one noise", 3 * _EMPTY, 3 * _FULL, spread, is_pooled=True),
        _subject("a user with one row in one world and four in the other", _EMPTY, 4 * _FULL, user),
        _subject("a person in two silos, with one row in one world and three in the other", _EMPTY, 3 * _FULL, person),
        *_insider_subjects(),
    )


def _insider_subjects() -> tuple[ProfileSubject, ...]:
    """Return a person in two silos of several whose counts leave under masks, and a silo that looks or none."""
    return tuple(
        ProfileSubject(
            method=COLUMN_PROFILE,
            pair=among("one record in each of two silos", colluders),
            worlds=tables(_EMPTY, _FULL, who, SILOS),
            views={View.AGGREGATE: Insider(colluders)},
            protection=who,
            is_pooled=True,
        )
        for colluders in (1, 0)
        for who in [Protection(view=View.AGGREGATE, colluders=colluders, silos_per_person=2)]
    )


def _subject(
    pair: str, mine: Rows, instead: Rows, who: Protection = ONE_RECORD, is_pooled: bool = False
) -> ProfileSubject:
    ratio = LikelihoodRatio(Wire.BROADCASTS) if is_pooled else LikelihoodRatio()
    return ProfileSubject(
        method=COLUMN_PROFILE,
        pair=pair,
        worlds=tables(mine, instead, who),
        views={View.PUBLIC if is_pooled else View.EAVESDROPPER: ratio},
        protection=who,
        is_pooled=is_pooled,
    )


def tables(mine: Rows, instead: Rows, protection: Protection, n_silos: int = 2) -> Worlds:
    """Return two worlds of so many silos that differ in one person, who is in as many of them as protected.

    A record and a person have others beside them; a user has a silo for itself.
    """
    others, silos = [] if protection.unit is Unit.USER else _OTHERS, protection.silos_per_person

    def world(rows: Rows) -> Dataset:
        read = _read([rows + others if i < silos else _OTHERS for i in range(n_silos)])
        if protection.unit is not Unit.PERSON:
            return read
        own = [len(rows) if i < silos else 1 for i in range(n_silos)]
        return replace(read, people=[_first_is_one(part.number, k) for part, k in zip(read.rows, own, strict=True)])

    return world(mine), world(instead)


def _first_is_one(rows: int, own: int) -> PersonWeights:
    """Return the weights of rows of which the first `own` are one person's, and every other one somebody else's."""
    return PersonRows.of(np.maximum(np.arange(rows) - own + 1, 0)).people


def _read(silos: Sequence[Rows]) -> Dataset:
    frames = [pd.DataFrame(rows, columns=list(SCHEMA.column_names), dtype=object) for rows in silos]
    return Dataset(SCHEMA, [screen_cells(SCHEMA, each, "A silo", _LENIENT, is_labelled=False) for each in frames])
