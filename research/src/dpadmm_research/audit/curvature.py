"""The curvature as something to attack: the sum of all records' second derivatives after the last round (C14).

So are the products of gradients: residuals beyond the clip make each record's gradient as long as it may be.

Matrices are computed, packed, planned and sent by the code that real runs use; only the noise is drawn for many runs at
once. At the origin every record bends as much as it may, and a row against one at a right angle moves the sum by
sqrt(2) times that: the certificate's bound is reached exactly.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpadmm.core.spec import ReleaseFacts
from dpadmm.methods.base import Setting
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import ONE_RECORD, NeighbouringRelation, Protection, View
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import Huber, LabelKind, Logistic, Loss
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import Silos
from dpadmm.queries.curvature import (
    CURVATURE,
    PRODUCTS,
    curvature_messages,
    plan_curvature,
    plan_products,
    product_messages,
)
from dpadmm_research.audit.attacks import Attack, LikelihoodRatio, Worlds
from dpadmm_research.audit.insider import SILOS, Insider, among
from dpadmm_research.audit.subjects import Subject
from dpadmm_research.audit.transcripts import EventHook, Transcript, Wire

CURVATURE_RELEASE = "curvature"
SUMMARY, CERTIFICATE = "second derivatives of the loss, after the last round", "C14"

_ROUNDS = 1
_ANGLE = math.pi / 8  # so that rows move the matrix on its diagonal and beside it
_MINE, _INSTEAD = (math.cos(_ANGLE), math.sin(_ANGLE)), (-math.sin(_ANGLE), math.cos(_ANGLE))
_OTHERS = [(0.6, 0.8), (-0.8, 0.6)]


@dataclass(frozen=True)
class CurvatureStage:
    """The round after the last by itself, at the origin."""

    replicas: int
    has_products: bool

    def run(self, world: Problem, hook: EventHook) -> Transcript:
        """Return the silos' matrices, and the noisy sum that is released."""
        sent = matrices(world, has_products=self.has_products)
        kind = PRODUCTS if self.has_products else CURVATURE
        noisy = hook.total(kind, _ROUNDS + 1, np.repeat(sent, self.replicas, axis=2))
        return Transcript(tuple(hook.events), (noisy,) * (_ROUNDS + 1), (noisy,), noisy[0])


def matrices(world: Problem, *, has_products: bool) -> Floats:
    """Return the silos' parts of the sum at the origin, (silos, packed, 1)."""
    origin = np.zeros((world.dimension, 1))
    return product_messages(world, origin[:, 0])[:, :, None] if has_products else curvature_messages(world, origin)


@dataclass(frozen=True, kw_only=True)
class CurvatureSubject(Subject):
    """The curvature of neighbouring problems, or the products of their gradients."""

    protection: Protection = ONE_RECORD
    has_products: bool = False

    @property
    def is_pure(self) -> bool:
        """Gaussian noise is not."""
        return False

    def plan(self, target: Target, is_secure: bool = False) -> NoisePlan:
        """Return the noise of a run that releases nothing else."""
        problem, who = self.worlds[0], self.protection
        setting = Setting(problem, _ROUNDS, 0.0, protection=who)
        facts = ReleaseFacts(tuple(problem.functions.sizes.tolist()), who, is_pooled=True)
        planned = plan_products if self.has_products else plan_curvature
        return planned(setting, target, facts, _ROUNDS + 1, is_secure)

    def stage(self, plan: NoisePlan, replicas: int) -> CurvatureStage:
        """Return the round with this noise."""
        return CurvatureStage(replicas, self.has_products)


def curvature_subjects() -> tuple[CurvatureSubject, ...]:
    """Return the curvature's subjects, the headline pair first."""
    added = Protection(relation=NeighbouringRelation.ADD_OR_REMOVE)
    spread = Protection(records_per_person=2, silos_per_person=2, view=View.PUBLIC)
    return (
        _subject("one record, its row at a right angle to the one that replaces it", ONE_RECORD, 1),
        _subject("a record that is there or not", added, 1),
        _subject("two records of a person in each of two silos, behind one noise", spread, 3),
        *(
            _subject(among("one record in each of two silos", colluders), who, SILOS)
            for colluders in (1, 0)
            for who in [Protection(view=View.AGGREGATE, colluders=colluders, silos_per_person=2)]
        ),
        _subject(
            "products of gradients, one record's row at a right angle to its replacement's", ONE_RECORD, 1, Huber(2)
        ),
        _subject("products of gradients, a record that is there or not", added, 1, Huber(2)),
    )


def _subject(pair: str, who: Protection, n_silos: int, loss: Loss | None = None) -> CurvatureSubject:
    views: dict[View, Attack] = {
        View.EAVESDROPPER: LikelihoodRatio(),
        View.PUBLIC: LikelihoodRatio(Wire.BROADCASTS),
        View.AGGREGATE: Insider(who.n_colluders),
    }
    return CurvatureSubject(
        method=CURVATURE_RELEASE,
        pair=pair,
        worlds=_worlds(who, n_silos, loss or Logistic()),
        views={who.view: views[who.view]},
        protection=who,
        has_products=loss is not None,
    )


def _worlds(who: Protection, n_silos: int, loss: Loss) -> Worlds:
    """Return two problems that differ in one person, with as many records and silos as are protected."""
    is_added = not who.relation.has_public_sizes

    def world(row: tuple[float, float], number: int) -> Problem:
        rows = [[row] * number * (i < who.silos_per_person) for i in range(n_silos)]
        others = [
            _OTHERS + [_OTHERS[0]] * (who.records_per_person * (i >= who.silos_per_person)) for i in range(n_silos)
        ]
        features: list[Floats] = [np.array(own + rest) for own, rest in zip(rows, others, strict=True)]
        far = 1.0 if loss.target is LabelKind.SIGNS else 9.0
        silos = Silos.from_parts(features, [np.full(len(each), far) for each in features], 1.0)
        nominal = tuple(len(_OTHERS) + who.records_per_person for _ in range(n_silos))
        return Problem.of(EmpiricalRisk(silos.with_nominal(nominal) if is_added else silos, loss))

    return world(_MINE, who.records_per_person), world(_INSTEAD, 0 if is_added else who.records_per_person)
