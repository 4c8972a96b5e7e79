"""The insider: the coordinator together with t silos, who look at sums under masks with all that they know (C12).

They see every masked message. They know their own values, shares of the noise and secret keys, so they take the masks
that they share with honest silos off the honest silos' messages, and their own parts off the sum. What is left is the
honest silos' sum with the honest silos' noise, whose likelihood ratio is known. A message that can be read by itself
once these masks are off is worth more: it is hidden by one share alone.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dpadmm.errors import InputError
from dpadmm.noise.masks import PairwiseMasks, Uint64s, from_uint64, sum_uint64
from dpadmm.privacy.protection import Protection, View
from dpadmm.privacy.releases import SummedGaussianRelease
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Weighting
from dpadmm_research.audit.attacks import Evidence, Scores, leaked
from dpadmm_research.audit.likelihood import gaussian_gap
from dpadmm_research.audit.neighbours import saturated
from dpadmm_research.audit.subjects import MethodSubject
from dpadmm_research.audit.transcripts import Event, MaskedMessages, Transcript, Wire, replay
from dpadmm_research.audit.worst_cases import WorstCase

SILOS = 5
"""How many there are in the pairs that insiders attack."""

_PLAUSIBLE = 50.0  # standard deviations of a share; masked words lie as near as that with probability 1e-9


@dataclass(frozen=True)
class Insider:
    """Scores by the likelihood ratio of what the coordinator and the last `colluders` silos cannot take off."""

    title: ClassVar[str] = "insider"

    colluders: int

    def scores(self, evidence: Evidence) -> Scores:
        """Positive speaks for P: the threshold is 0."""
        both = [self._ratio(evidence, own) for own in (0, 1)]
        return Scores(both[0], both[1], 0.0)

    def _ratio(self, evidence: Evidence, own: int) -> Floats:
        run = evidence.runs[own]
        other = replay(evidence.stage, evidence.worlds[1 - own], run, evidence.worlds[own])
        in_p, in_q = (run, other) if own == 0 else (other, run)
        total = (1.0 if own == 0 else -1.0) * leaked(run, other, Wire.BROADCASTS)
        for first, second in zip(in_p.events, in_q.events, strict=True):
            (release,) = evidence.plan.releases[first.kind, first.round].values()
            if not isinstance(release, SummedGaussianRelease):
                raise InputError("Insiders attack sums under masks only; these releases are not such sums.")
            total += self._event(release, run, first, second)
        return total

    def _event(self, release: SummedGaussianRelease, run: Transcript, first: Event, second: Event) -> Floats:
        """Return the log ratio of one sum: of messages that can be read one by one, and of the sum of the others."""
        envelopes, grid = run.masked[first.kind, first.round], release.certificate.grid
        assert grid is not None and first.silos is not None and second.silos is not None  # noqa: PT018 - masked sums
        clean, std = (first.silos, second.silos), release.share_std
        honest = len(envelopes.sent) - self.colluders
        total, left, rest = np.zeros(clean[0].shape[-1]), sum_uint64(envelopes.sent), list(range(honest))
        for own in envelopes.own[honest:]:
            left = left - own
        for i in range(honest):
            bare = self._stripped(envelopes, i, first)
            values = clean[0][i], clean[1][i]
            if _is_plausible(from_uint64(bare, grid), values, std):
                total += gaussian_gap(from_uint64(bare, grid), values, std)
                left = left - bare
                rest.remove(i)
        if rest:
            hidden = clean[0][rest].sum(axis=0), clean[1][rest].sum(axis=0)
            total += gaussian_gap(from_uint64(left, grid), hidden, std * np.sqrt(len(rest)))
        return total

    def _stripped(self, envelopes: MaskedMessages, silo: int, event: Event) -> Uint64s:
        """Return a silo's message without the masks that it shares with the colluders."""
        sent = envelopes.sent[silo]
        shared = [
            _with(masks, silo).values(event.kind.name, event.round, sent.size).reshape(sent.shape)
            for masks in envelopes.masks[len(envelopes.sent) - self.colluders :]
        ]
        return sum_uint64([sent, *shared])  # what one of a pair adds, the other subtracts


def _with(masks: PairwiseMasks, silo: int) -> PairwiseMasks:
    """Return the masks that a silo shares with this one alone."""
    return replace(masks, secrets=tuple(secret if i == silo else None for i, secret in enumerate(masks.secrets)))


def _is_plausible(read: Floats, clean: tuple[Floats, Floats], std: float) -> bool:
    """Return whether most runs' messages look like values with a share of the noise, in either world."""
    far = np.minimum(np.abs(read - clean[0]), np.abs(read - clean[1])).max(axis=0)
    return bool(np.median(far) < _PLAUSIBLE * std)


def insider_subjects(name: str, case: WorstCase) -> tuple[MethodSubject, ...]:
    """Return a method that reads sums alone, among five silos: against one that colludes, and against none."""
    problems = saturated(SILOS, records=2, weighting=Weighting.AVERAGE)
    return tuple(
        MethodSubject(
            method=name,
            pair=among(case.pair, colluders),
            worlds=problems,
            views={View.AGGREGATE: Insider(colluders)},
            algorithm=case.algorithm.with_noise_in_sum(),
            rounds=case.rounds,
            protection=Protection(view=View.AGGREGATE, colluders=colluders),
        )
        for colluders in (1, 0)
    )


def among(pair: str, colluders: int) -> str:
    """Say how many silos there are, and how many of them look."""
    looks = "one looks with the coordinator" if colluders else "none looks but the coordinator"
    return f"{pair}, masked among {SILOS} silos of which {looks}"
