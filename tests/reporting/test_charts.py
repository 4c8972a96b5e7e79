"""Charts are well-formed SVG with a title, drawn where the numbers say, whatever the numbers and names are."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.reporting.charts import Axis, Mark, line_chart, share_bar, short, strip
from dpadmm.reporting.facts import RoundCurve

NASTY = "<script>alert(1)</script> & \"quotes\" 'x'"
positive = st.floats(1e-12, 1e12)


def parsed(svg: str) -> ET.Element:
    root = ET.fromstring(svg)
    assert root.tag == "svg"
    assert root.find("title") is not None
    assert not list(root.iter("script"))
    return root


@settings(max_examples=80, deadline=None, derandomize=True)
@given(values=st.lists(positive, min_size=1, max_size=60))
def test_lines_stay_inside_and_keep_the_order(values):
    rounds = tuple(range(1, len(values) + 1))
    root = parsed(line_chart(NASTY, [RoundCurve(name="a", meaning="b", rounds=rounds, values=tuple(values))]))
    points = root.find("polyline").get("points").split()
    heights = [float(point.split(",")[1]) for point in points]
    assert len(heights) == len(values)
    assert all(0 <= y <= 250 for y in heights)
    order = np.argsort(values)
    assert np.all(np.diff(np.array(heights)[order]) <= 0.11)  # larger is higher, up to the rounding of coordinates


@settings(max_examples=80, deadline=None, derandomize=True)
@given(low=positive, factor=st.floats(1.3, 1e9), is_log=st.booleans())
def test_ticks_are_few_and_within_the_axis(low, factor, is_log):
    axis = Axis(low, low * factor, 0.0, 100.0, is_log)
    ticks = axis.ticks()
    assert len(ticks) <= 12
    assert all(-1e-6 <= axis.place(tick) <= 100 + 1e-6 for tick in ticks)
    assert all(short(tick) for tick in ticks)


def test_ticks_in_words():
    assert [short(v) for v in (0, 1, 0.25, 20_000, 1e6, 2.5e-7)] == ["0", "1", "0.25", "2e+04", "10⁶", "2.5·10⁻⁷"]


@pytest.mark.parametrize(("spent", "whole", "share"), [(0.0, 2.0, 0.0), (1.0, 2.0, 0.5), (5.0, 2.0, 1.0)])
def test_the_bar_shows_the_share(spent, whole, share):
    bar = next(each for each in parsed(share_bar("t", spent, whole)).iter("rect") if each.get("class") == "bar-spent")
    assert float(bar.get("width")) == pytest.approx(398 * share, abs=0.1)


def test_marks_stand_in_the_order_of_their_values():
    root = parsed(strip(NASTY, [Mark(NASTY, 0.6, "plain"), Mark("b", 0.9, "measured", 0.05)]))
    first, second = (float(each.get("cx")) for each in root.iter("circle"))
    assert first < second
