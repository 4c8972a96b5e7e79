"""The curvature as something to attack: the sum of all records' second derivatives after the last round (C14).

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
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import Silos
from dpadmm.queries.curvature import CURVATURE, curvature_messages, plan_curvature
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

    def run(self, world: Problem, hook: EventHook) -> Transcript:
        """Return the silos' matrices, and the noisy sum that is released."""
        sent = np.repeat(curvature_messages(world, np.zeros((world.dimension, 1))), self.replicas, axis=2)
        noisy = hook.total(CURVATURE, _ROUNDS + 1, sent)
        return Transcript(tuple(hook.events), (noisy,) * (_ROUNDS + 1), (noisy,), noisy[0])


@dataclass(frozen=True, kw_only=True)
class CurvatureSubject(Subject):
    """The curvature of neighbouring problems."""

    protection: Protection = ONE_RECORD

    @property
    def is_pure(self) -> bool:
        """Gaussian noise is not."""
        return False

    def plan(self, target: Target, is_secure: bool = False) -> NoisePlan:
        """Return the noise of a run that releases nothing else."""
        problem, who = self.worlds[0], self.protection
        setting = Setting(problem, _ROUNDS, 0.0, protection=who)
        facts = ReleaseFacts(tuple(problem.functions.sizes.tolist()), who, is_pooled=True)
        return plan_curvature(setting, target, facts, _ROUNDS + 1, is_secure)

    def stage(self, plan: NoisePlan, replicas: int) -> CurvatureStage:
        """Return the round with this noise."""
        return CurvatureStage(replicas)


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
    )


def _subject(pair: str, who: Protection, n_silos: int) -> CurvatureSubject:
    views: dict[View, Attack] = {
        View.EAVESDROPPER: LikelihoodRatio(),
        View.PUBLIC: LikelihoodRatio(Wire.BROADCASTS),
        View.AGGREGATE: Insider(who.n_colluders),
    }
    return CurvatureSubject(
        method=CURVATURE_RELEASE,
        pair=pair,
        worlds=_worlds(who, n_silos),
        views={who.view: views[who.view]},
        protection=who,
    )


def _worlds(who: Protection, n_silos: int) -> Worlds:
    """Return two problems that differ in one person, with as many records and silos as are protected."""
    is_added = not who.relation.has_public_sizes

    def world(row: tuple[float, float], number: int) -> Problem:
        rows = [[row] * number * (i < who.silos_per_person) for i in range(n_silos)]
        others = [
            _OTHERS + [_OTHERS[0]] * (who.records_per_person * (i >= who.silos_per_person)) for i in range(n_silos)
        ]
        features: list[Floats] = [np.array(own + rest) for own, rest in zip(rows, others, strict=True)]
        silos = Silos.from_parts(features, [np.ones(len(each)) for each in features], 1.0)
        nominal = tuple(len(_OTHERS) + who.records_per_person for _ in range(n_silos))
        return Problem.of(EmpiricalRisk(silos.with_nominal(nominal) if is_added else silos, Logistic()))

    return world(_MINE, who.records_per_person), world(_INSTEAD, 0 if is_added else who.records_per_person)
