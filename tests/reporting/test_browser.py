"""The report in a real browser: no complaint, no request outside, readable on a phone, in the dark, printed."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpadmm.core.model import SiloFacts
from dpadmm.core.task import Aim
from dpadmm.data.columns import Categorical, Numeric
from dpadmm.data.profile import ProfileForm, ReleasedProfile
from dpadmm.queries.curvature import CurvatureFacts, ReleasedCurvature
from dpadmm.report.page import report_page

LEAST_CONTRAST = """() => {
          const light = (colour) => { const c = colour.match(/[\\d.]+/g).slice(0, 3).map((v) => { v /= 255;
            return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
            return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]; };
          const behind = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
            if (!c.startsWith("rgba(0, 0, 0, 0")) return c; } return "rgb(255, 255, 255)"; };
          const texts = [...document.querySelectorAll("p, dd, dt, th, td, span, h1, h2, li, code, figcaption")];
          return Math.min(...texts.map((e) => {
            const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
            return (a + 0.05) / (b + 0.05); }));
        }"""


@pytest.fixture
def page_file(model, tmp_path) -> Path:
    """The page of a model with long names, which must not push the page wider than the screen."""
    long = "a-hospital-with-a-very-long-name-and-no-blank-in-it-at-all" * 2
    silos = (*model.silos, SiloFacts(name=long, records=9))
    choice = replace(model.choice, settings=(("algorithm", "PADMM(eta=" + "9" * 80 + ")"),))
    spending = replace(model.spending, runs=((long, 1.0),))
    form = ProfileForm((Categorical(long, (long, "b")), *(Numeric(f"column {i}", 0, 10**i) for i in range(14))))
    profile = ReleasedProfile.of(form, np.random.default_rng(0).normal(20, 20, form.size), 10.0, model.records)
    d = model.schema.dimension
    released = ReleasedCurvature(np.linspace(-1, 2, d), np.zeros(d), 1e4 * np.eye(d), 10.0, 10.0)
    intervals = {"aim": Aim.INFERENCE, "curvature": CurvatureFacts.of(released, 0.3)}
    shown = replace(model, title=long, silos=silos, choice=choice, spending=spending, profile=profile, **intervals)
    file = tmp_path / "report.html"
    file.write_text(report_page(shown))
    return file


@pytest.mark.parametrize("width", [390, 768, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_renders_without_complaints_and_without_sideways_scrolling(browser, opened, page_file, width, scheme):
    page, heard = opened(browser, page_file, width, color_scheme=scheme)
    assert heard == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = page.evaluate(
        "[...document.querySelectorAll('main *:not(svg *)')].filter("
        "e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.className || e.tagName)"
    )
    assert wide == []
    assert page.locator("h2").count() >= 9
    assert page.locator("table.coefficients tr").count() > 2
    assert page.locator("svg[role=img] > title").count() == page.locator("svg").count() >= 4
    page.close()


def test_text_can_be_read_on_a_phone(browser, opened, page_file):
    page, _ = opened(browser, page_file, 390)
    smallest = page.evaluate(
        "Math.min(...[...document.querySelectorAll('main p, main li, main td, main th, main dd, main dt')]"
        ".map(e => parseFloat(getComputedStyle(e).fontSize)))"
    )
    in_charts = page.evaluate(
        "Math.min(...[...document.querySelectorAll('svg text')].map(e => parseFloat(getComputedStyle(e).fontSize)"
        " * e.ownerSVGElement.getBoundingClientRect().width / e.ownerSVGElement.viewBox.baseVal.width))"
    )
    assert smallest >= 12
    assert in_charts >= 9
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_background(browser, opened, page_file, scheme):
    """Contrast of the page's text colours at least 4.5 : 1, the accessibility guidelines' figure for body text."""
    page, _ = opened(browser, page_file, 1280, color_scheme=scheme)
    assert page.evaluate(LEAST_CONTRAST) >= 4.5
    page.close()


def test_the_page_prints_on_a_few_sheets(browser, opened, page_file):
    page, _ = opened(browser, page_file, 1280)
    paper = page.pdf(prefer_css_page_size=True)
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b(?!s)", paper)) <= 5
    page.close()
