"""The one codec: what is written is read back, and nothing else is read."""

import json
import math
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpadmm.codec import canonical, decode, digest, encode, register_form, register_union
from dpadmm.errors import InputError


class Colour(Enum):
    RED = "red"
    GREEN = "green"


class Named:
    """A class with a form of its own."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


def named(plain: Any) -> Named:
    if not isinstance(plain, str):
        raise InputError("A name must be a text.")
    return Named(plain)


class Shape:
    """Declared where any of its kinds may come."""


@dataclass(frozen=True)
class Circle(Shape):
    radius: float

    def __post_init__(self) -> None:
        if self.radius < 0:
            raise InputError("radius must be at least 0.")


@dataclass(frozen=True)
class Box(Shape):
    sides: tuple[float, ...] = ()


register_union(Shape, (Circle, Box))
register_form(Named, lambda value: value.name, named)


@dataclass(frozen=True, kw_only=True)
class Record:
    number: float = 0.0
    whole: int = 0
    is_on: bool = False
    term: Literal["a", "b"] = "a"
    colour: Colour = Colour.RED
    data: bytes = b""
    pair: tuple[str, float] = ("", 0.0)
    names: frozenset[str] = frozenset()
    weights: Mapping[str, float] = field(default_factory=dict)
    inner: Circle | None = None
    either: Circle | Box | None = None
    cell: bool | int | float | str | None = None
    shapes: tuple[Shape, ...] = ()
    name: Named = field(default_factory=lambda: Named(""))
    made: int = field(default=0, init=False)


numbers = st.floats(allow_nan=False)
texts = st.text(max_size=5)
circles = st.builds(Circle, numbers.map(abs))
shapes = circles | st.builds(Box, st.lists(numbers, max_size=3).map(tuple))
records = st.builds(
    Record,
    number=numbers,
    whole=st.integers(),
    is_on=st.booleans(),
    term=st.sampled_from(["a", "b"]),
    colour=st.sampled_from(Colour),
    data=st.binary(max_size=9),
    pair=st.tuples(texts, numbers),
    names=st.frozensets(texts, max_size=3),
    weights=st.dictionaries(texts, numbers, max_size=3),
    inner=st.none() | circles,
    either=st.none() | shapes,
    cell=st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    shapes=st.lists(shapes, max_size=3).map(tuple),
    name=st.builds(Named, texts),
)


@given(records)
def test_a_record_is_read_back_as_it_was_and_its_text_is_the_only_one(record: Record) -> None:
    text = canonical(encode(record))
    again = decode(Record, json.loads(text))
    assert again == record
    assert type(again.cell) is type(record.cell)
    assert canonical(encode(again)) == text


def test_equal_records_have_equal_digests() -> None:
    made_by_numpy = Record(number=np.float64(-0.0), whole=np.int64(3), names=frozenset("ab"))  # type: ignore[arg-type]
    plain = Record(number=0, whole=3, names=frozenset("ba"))
    assert digest(encode(made_by_numpy)) == digest(encode(plain)) == digest(encode(replace(plain)))
    assert digest(encode(plain)) != digest(encode(replace(plain, whole=4)))


def test_a_record_has_its_kind_only_where_there_are_several() -> None:
    box = Box((1.0,))
    assert encode(box) == {"sides": [1.0]}
    assert encode(box, Shape) == {"kind": "Box", "sides": [1.0]} == encode(box, Circle | Box)
    assert encode(Record(inner=Circle(1)))["inner"] == {"radius": 1.0}
    assert encode(Circle(math.inf)) == {"radius": "infinite"}


def test_a_class_that_may_change_is_no_record() -> None:
    @dataclass
    class Changing:
        number: float

    with pytest.raises(TypeError, match="not frozen"):
        encode(Changing(1.0))


def test_it_is_loaded_without_the_library_that_it_stands_on() -> None:
    code = "import sys, dpadmm, dpadmm.codec; sys.exit('cattrs' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@dataclass(frozen=True)
class Perhaps:
    names: tuple[str, ...] | None = None
    chosen: frozenset[str] | None = None
    shares: Mapping[str, float] | None = None


def test_what_may_be_missing_is_null():
    for made in (Perhaps(), Perhaps(("a",), frozenset({"b"}), {"c": 1.0})):
        assert decode(Perhaps, encode(made)) == made
    assert encode(Perhaps()) == {"names": None, "chosen": None, "shares": None}
