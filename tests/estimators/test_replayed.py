"""Two fits on neighbouring tables, the second of which is handed the noisy values of the first.

All that is public of the two must be the same to the last byte, since only noisy values may tell it; and what an
observer of all noisy values learns, the sum of squared changes in units of the noise, is at most what was certified.
"""

import math
import pickle
import uuid

import numpy as np
import pytest
from tests.grouped import grouped

from dpadmm import PrivateLinearRegression, PrivateLogisticRegression, PrivateSearchCV
from dpadmm.core import release
from dpadmm.models import build
from dpadmm.noise.sampler import SecureSampler, check_draw, noise_scales, sum_on_grid
from dpadmm.privacy.curves import m_of

N, DELTA = 6000, 1e-5
SILOS = np.arange(N) % 3
PERSON = (0, 1, 3, 4)  # two rows in each of two silos


class Replay:
    """Records the values that get secure noise and what leaves; later hands out what left before."""

    def __init__(self, monkeypatch):
        self.draw, self.left, self.changes, self.is_second = SecureSampler.perturb, [], [], False
        monkeypatch.setattr(SecureSampler, "perturb", lambda own, *given, **more: self.perturb(own, *given, **more))
        # Noise is added to a part of each sum, and the rest to that: here to the whole, which is exact for such sums.
        monkeypatch.setattr(release, "sum_on_grid", lambda *given: (0.0, sum(sum_on_grid(*given))))
        monkeypatch.setattr(uuid, "uuid4", lambda: "one-name")
        monkeypatch.setattr(build, "now", lambda: "one time")

    def perturb(self, sampler, values, releases, draw):
        scales = noise_scales(check_draw(values, releases, draw)[2], len(values))
        if not self.is_second:
            drawn = self.draw(sampler, values, releases, draw)
            self.left.append((draw.kind, draw.round, np.array(values), scales, +drawn))
            return drawn
        kind, when, before, noise, drawn = self.left.pop(0)
        assert (draw.kind, draw.round, scales.tolist()) == (kind, when, noise.tolist())
        self.changes.append(((values - before)[:, :, 0], noise))
        return +drawn

    def learned(self, honest=None):
        """Return m of all changes; honest: silos that hide the sum by shares, the others' shares being known."""
        if honest is None:
            squares = [((change / noise[:, None]) ** 2).sum() for change, noise in self.changes]
        else:
            squares = [(change.sum(axis=0) ** 2).sum() / (honest * noise[0] ** 2) for change, noise in self.changes]
        return math.sqrt(math.fsum(squares))


def table(rows, person):
    """Rows of two corners, told apart without a doubt, and a person who contradicts them."""
    X = np.sign(np.random.default_rng(0).normal(size=(N, 1))) * np.ones((N, 2))
    y = (X[:, 0] > 0).astype(int)
    for place in rows:
        X[place], y[place] = person
    return X, y


def inference(**options):
    return PrivateLogisticRegression(
        4.0, DELTA, **grouped(feature_bounds=(-1, 1), classes=(0, 1), profile="off", aim="inference", **options)
    )


def numbers(**options):
    known = {"feature_bounds": (-1, 1), "target_bounds": (-1, 1), "aim": "inference"}
    return PrivateLinearRegression(4.0, DELTA, **grouped(**known, **options))


def search(**options):
    model = PrivateLogisticRegression(
        4.0, DELTA, **grouped(**{"feature_bounds": (-1, 1), "classes": (0, 1), "profile": "off"} | options)
    )
    return PrivateSearchCV(model, {"alpha": [1e-4, 1.0]}, compared=2)


ADDED = {"neighbours": "add-remove", "nominal_records": N}
MANY = {"view": "public", "records_per_person": 2, "silos_per_person": 2, **ADDED}
APART = {"classes": (0, 1, 2), "multi_class": "one-vs-rest", **ADDED}  # the third has no record: it learns little
AGAINST, OTHER, AWRY = ([1, 1], 0), ([-1, -1], 0), ([1, -1], 0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "options", "rows", "replaced", "silos", "honest", "least"),
    [
        (inference, {}, (0,), OTHER, None, None, 0.1),  # long rows count less
        (inference, {}, (0,), AWRY, None, None, 0.1),
        (inference, MANY, PERSON, None, SILOS, None, 0.2),
        (inference, MANY | {"view": "aggregate"}, PERSON, None, SILOS, 2, 0.2),
        (numbers, {}, (0,), OTHER, None, None, 0.05),
        (numbers, MANY, PERSON, None, SILOS, None, 0.05),
        (search, {}, (0,), OTHER, None, None, 0.3),
        (search, ADDED, (0,), None, None, None, 0.999),
        (search, ADDED | {"class_weight": {0: 7.0}}, (0,), None, None, None, 0.999),
        (search, APART, (0,), None, None, None, 0.75),
        (search, MANY, PERSON, None, SILOS, None, 0.999),
        (search, MANY | {"view": "aggregate"}, PERSON, None, SILOS, 2, 0.999),
    ],
)
def test_noisy_values_tell_all_there_is_and_no_more_than_certified(
    monkeypatch, make, options, rows, replaced, silos, honest, least
):
    X, y = table(rows, AGAINST)
    replay = Replay(monkeypatch)
    first = make(**options).fit(X, y, groups=silos)
    replay.is_second = True
    if replaced is None:
        kept = np.delete(np.arange(N), rows)
        second = make(**options).fit(X[kept], y[kept], groups=None if silos is None else silos[kept])
    else:
        second = make(**options).fit(*table(rows, replaced), groups=silos)
    assert not replay.left
    assert pickle.dumps(first) == pickle.dumps(second)
    certified = m_of(first.privacy_.epsilon, DELTA)
    assert least * certified <= replay.learned(honest) <= certified * (1 + 1e-9)
