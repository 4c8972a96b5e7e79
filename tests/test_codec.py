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


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"number": "17"}, ".number must be a number, got str."),
        ({"number": True}, ".number must be a number, got bool."),
        ({"number": math.nan}, ".number must be a number, got NaN."),
        ({"number": math.inf}, ".number must be a finite number."),
        ({"whole": 17.0}, ".whole must be a whole number, got float."),
        ({"whole": None}, ".whole must be a whole number, got NoneType."),
        ({"is_on": 1}, ".is_on must be true or false, got int."),
        ({"term": "17"}, ".term must be one of 'a', 'b'."),
        ({"colour": ["17"]}, ".colour must be one of 'red', 'green'."),
        ({"data": 17}, ".data must be a text, got int."),
        ({"data": "é"}, ".data must be base64."),
        ({"pair": ["17"]}, ".pair must have 2 entries, got 1."),
        ({"pair": "17"}, ".pair must be a list, got str."),
        ({"pair": [17, 1.0]}, ".pair[0] must be a text, got int."),
        ({"names": ["17", "17"]}, ".names must not have anything twice."),
        ({"names": {"17": 1}}, ".names must be a list, got dict."),
        ({"weights": [17]}, ".weights must be an object, got list."),
        ({"weights": {"w": "17"}}, ".weights['w'] must be a number, got str."),
        ({"inner": {"radius": "17"}}, ".inner.radius must be a number, got str."),
        ({"inner": {"kind": "Circle", "radius": 1.0}}, ".inner has unknown fields: 'kind'."),
        ({"inner": 17}, ".inner must be Circle or NoneType, got int."),
        ({"either": {"radius": 17.0}}, ".either must have one of the kinds Circle, Box, got None."),
        ({"either": {"kind": "Box", "radius": 17.0}}, ".either has unknown fields: 'radius'."),
        ({"either": {"kind": "Circle"}}, ".either.radius is missing."),
        ({"either": {"kind": "Circle", "radius": -17.0}}, ".either: radius must be at least 0."),
        ({"cell": [17]}, ".cell must be bool or int or str or NoneType or float, got list."),
        ({"shapes": [{"kind": "Box"}, {"kind": ["17"]}]}, ".shapes[1] must have one of the kinds Circle, Box, got"),
        ({"name": 17}, ".name: A name must be a text."),
        ({"made": 0}, " has unknown fields: 'made'."),
        ({"more": "17"}, " has unknown fields: 'more'."),
    ],
)
def test_what_does_not_fit_is_refused_by_its_place_and_without_its_value(changed: dict[str, Any], found: str) -> None:
    plain = encode(Record()) | changed
    with pytest.raises(InputError) as refused:
        decode(Record, plain, "The file")
    assert str(refused.value).startswith(f"The file{found}")
    assert "17" not in str(refused.value)
    assert refused.value.__context__ is None


@pytest.mark.parametrize("value", [None, 17, "17", [17], [["number", 17]]])
def test_only_an_object_is_a_record(value: Any) -> None:
    with pytest.raises(InputError, match=r"^Record"):
        decode(Record, value)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (Record(number=math.nan), r"^Record\.number must be a number, got NaN"),
        (Record(number="17"), r"^Record\.number must be a number, got str"),  # type: ignore[arg-type]
        (Record(shapes=(Box(), Box((1.0, None)))), r"^Record\.shapes\[1\]\.sides\[1\] must be a number"),  # type: ignore[arg-type]
        (Record(cell=math.inf), r"^Record\.cell"),
        (Record(shapes=("17",)), r"^Record\.shapes\[0\] must be Circle or Box, got str"),  # type: ignore[arg-type]
    ],
)
def test_what_could_not_be_read_back_is_not_written(record: Record, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        encode(record)
    assert "17" not in str(refused.value)


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
