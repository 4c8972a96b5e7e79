"""Charts are well-formed SVG with a title, drawn where the numbers say, whatever the numbers and names are."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.report.columns import percent
from dpadmm.report.figures import forest_plot, line_chart
from dpadmm.report.page import Mark, RoundCurve, environment

NASTY = "<script>alert(1)</script> & \"quotes\" 'x'"
positive = st.floats(1e-12, 1e12)
draw = environment().get_template("charts.html").make_module({"percent": percent})


def parsed(svg: str) -> ET.Element:
    root = ET.fromstring(svg)
    assert root.tag == "svg"
    assert root.find("title") is not None
    assert not list(root.iter("script"))
    return root


@settings(max_examples=20, deadline=None, derandomize=True)
@given(values=st.lists(positive, min_size=1, max_size=60))
def test_lines_stay_inside_and_keep_the_order(values):
    rounds = tuple(range(1, len(values) + 1))
    root = parsed(line_chart(NASTY, [RoundCurve(name="a", meaning="b", rounds=rounds, values=tuple(values))]))
    drawn = [each for each in root.iter("path") if "stroke: var(--accent)" in each.get("style", "")]
    (line,) = (each for each in drawn if "id" not in each.attrib)  # the others are what dots are made from
    heights = [float(y) for y in re.findall(r"[ML] \S+ (\S+)", line.get("d"))]
    _, _, _, bottom = (float(side) for side in root.get("viewBox").split())
    assert len(heights) <= len(values)  # points in a row may be put together
    assert all(0 <= y <= bottom for y in heights)
    if len(heights) == len(values):
        assert np.all(np.diff(np.array(heights)[np.argsort(values)]) <= 0.11)  # larger is higher, up to rounding


def test_a_chart_names_no_colour_that_the_style_does_not_decide():
    curves = [RoundCurve(name=name, meaning="b", rounds=(1, 2), values=(1.0, 2.0)) for name in "abc"]
    for drawn in (line_chart("t", curves), forest_plot("t", [("a", -1.0, 0.0, 1.0), (NASTY, 1.0, 2.0, 3.0)])):
        parsed(drawn)
        assert not re.search("#[0-9a-f]{6}", drawn)
        assert "http:" not in drawn


@pytest.mark.parametrize(("spent", "whole", "share"), [(0.0, 2.0, 0.0), (1.0, 2.0, 0.5), (5.0, 2.0, 1.0)])
def test_the_bar_shows_the_share(spent, whole, share):
    bar = next(each for each in parsed(draw.share_bar(spent, whole)).iter("rect") if each.get("class") == "bar-spent")
    assert float(bar.get("width")) == pytest.approx(398 * share, abs=0.1)


def test_marks_stand_in_the_order_of_their_values():
    marks = [Mark(NASTY, 0.6, 0.6, 0.6), Mark("b", 0.85, 0.95, 0.9)]
    root = parsed(draw.strip(NASTY, marks, 0.5, 1.0))
    first, second = (float(each.get("cx")) for each in root.iter("circle"))
    assert first < second
