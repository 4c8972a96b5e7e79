"""After a fit, everything that can be reached from the estimator follows from public facts and the releases."""

import dataclasses
import enum
import pickle
from collections.abc import Mapping

import numpy as np
import pytest

from dpadmm.core import release
from dpadmm.noise.sampler import SecureSampler
from dpadmm.problems.silos import Silos

NAMED = ("model.released_.run", "model.released_.created", "model.released_.profile.run")


def walk(value, place="model", seen=None):
    """Yield (place, plain value) for everything reachable through attributes, fields and containers."""
    seen = {} if seen is None else seen
    if id(value) in seen:
        return
    if isinstance(value, str | bytes | int | float | bool | complex | type | enum.Enum) or value is None:
        yield place, value
        return
    seen[id(value)] = value
    if isinstance(value, np.ndarray | np.generic):
        yield place, (np.asarray(value).dtype.str, np.shape(value), np.asarray(value).tolist())
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from walk(part, f"{place}[{key!r}]", seen)
    elif isinstance(value, tuple | list | set | frozenset):
        parts = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        yield f"{place}.len", len(value)
        for i, part in enumerate(parts):
            yield from walk(part, f"{place}[{i}]", seen)
    else:
        yield f"{place}.type", type(value).__name__
        parts = dict(getattr(value, "__dict__", {}))
        if dataclasses.is_dataclass(value):
            parts |= {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        for name in getattr(type(value), "__slots__", ()):
            parts[name] = getattr(value, name, None)
        for name in sorted(parts):
            yield from walk(parts[name], f"{place}.{name}", seen)


@pytest.fixture
def fixed_releases(monkeypatch):
    """Let every release be the same numbers whatever the data: a function of message kind, round and shape only."""

    def perturb(self, values, releases, draw):
        return np.sin(np.arange(values.size) + 7.0 * draw.round).reshape(values.shape) / 4

    monkeypatch.setattr(SecureSampler, "perturb", perturb)
    # Noise is added to a part of each sum, and the rest to that: here no rest is left.
    monkeypatch.setattr(release, "sum_on_grid", lambda messages, grid: (0.0, messages.sum(axis=0, keepdims=True)))


@pytest.mark.parametrize("is_grouped", [False, True])
@pytest.mark.parametrize("options", [{}, {"alpha": 0.05, "view": "public"}])
def test_equal_releases_leave_equal_estimators(make, table, fixed_releases, is_grouped, options):
    build, X, y = make
    groups = table[3] if is_grouped else None
    order = np.random.default_rng(1).permutation(len(X))
    one = build(epsilon=20.0, **options).fit(X, y, groups=groups)
    other = build(epsilon=20.0, **options).fit(np.cos(9 * X), y[order], groups=groups)
    # What follows from the releases alone must agree in full, the model included; but for its random name and the time.
    reached = [[each for each in walk(model) if each[0] not in NAMED] for model in (one, other)]
    assert reached[0] == reached[1]
    assert len(reached[0]) > 100


@pytest.mark.parametrize("is_grouped", [False, True])
def test_no_record_can_be_reached(make, table, is_grouped):
    build, X, y = make
    model = build(epsilon=20.0).fit(X, y, groups=table[3] if is_grouped else None)
    stored = pickle.dumps(model)
    encoded = model.released_.encoding.encode(X)
    for numbers in (X, encoded[:, :-1], y if y.dtype.kind == "f" else X):
        for number in np.asarray(numbers, dtype=np.float64).ravel():
            assert np.float64(number).tobytes() not in stored
            assert np.float64(number).byteswap().tobytes() not in stored
    for place, value in walk(model):
        if isinstance(value, tuple) and len(value) == 3 and isinstance(value[1], tuple):
            assert len(X) not in value[1], f"{place} has one entry per record"
        assert value != Silos.__name__


def test_the_walk_sees_what_is_kept():
    class Leaky:
        def __init__(self):
            self.plan = {"rows": (np.arange(3.0),)}

    assert ("model.plan['rows'][0]", ("<f8", (3,), [0.0, 1.0, 2.0])) in list(walk(Leaky()))
