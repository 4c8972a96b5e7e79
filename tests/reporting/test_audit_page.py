"""The audit page and its plots: what they say, and that a browser shows them without asking anyone else."""

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from dpadmm.audit.audit import audit_all
from dpadmm.audit.tradeoff import certified_tradeoff
from dpadmm.errors import InputError
from dpadmm.reporting.audit_page import audit_page, summaries
from dpadmm.reporting.evidence_plots import save
from dpadmm.reporting.trade_off_plot import small_trade_off, trade_off_plot


@pytest.fixture(scope="module")
def results():
    return list(audit_all(runs=400, names=["p-admm", "dvp", "fp-coordinator"]))


@pytest.fixture(scope="module")
def page(results):
    return audit_page(results, confidence=0.95)


class Outline(HTMLParser):
    """Tags opened and closed, addresses asked for, texts shown."""

    VOID = frozenset({"meta", "link", "br", "rect", "line", "circle", "polyline", "polygon"})

    def __init__(self):
        super().__init__()
        self.open, self.addresses, self.texts = [], [], []

    def handle_starttag(self, tag, attributes):
        self.addresses += [value for name, value in attributes if name in ("src", "href", "action", "data")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.addresses += [value for name, value in attributes if name in ("src", "href")]

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_the_page_is_whole_and_asks_for_nothing(page):
    outline = Outline()
    outline.feed(page)
    assert outline.open == []
    assert set(outline.addresses) == {"data:,"}
    assert "<script" not in page
    assert "default-src 'none'" in page


def test_every_result_is_on_the_page(page, results):
    outline = Outline()
    outline.feed(page)
    text = " ".join(" ".join(outline.texts).split())
    for result in results:
        assert result.method in text
        assert result.pair in text
        assert f"{result.estimate.epsilon_lower:.3g}" in text
    assert "No attack refuted a certificate." in text
    assert "400 runs each" in text
    assert "95 % confidence" in text


def test_a_violation_is_shouted(results):
    broken = [replace(results[0], is_violation=True), *results[1:]]
    page = audit_page(broken, confidence=0.95)
    assert "1 of" in page
    assert "refuted a certificate" in page
    assert 'class="verdict alarm"' in page
    assert "No attack refuted" not in page


def test_a_method_is_represented_by_its_strongest_attack(results):
    for summary in summaries(results):
        mine = [result for result in results if result.method == summary.name]
        assert summary.results == tuple(mine)
        assert summary.strongest.tightness == max(result.tightness for result in mine)


def test_an_empty_audit_is_refused():
    with pytest.raises(InputError, match="nothing to show"):
        audit_page([], confidence=0.95)


def test_the_plot_shows_the_certificate_and_the_attacker(results, tmp_path):
    result = results[0]
    figure = trade_off_plot(result)
    certified, _, attacker, chosen = figure.axes[0].get_lines()
    np.testing.assert_allclose(certified.get_ydata(), certified_tradeoff(result.curve, certified.get_xdata()))
    np.testing.assert_array_equal(attacker.get_xdata(), result.fpr)
    np.testing.assert_array_equal(attacker.get_ydata(), result.fnr)
    assert float(np.asarray(chosen.get_xdata()).item()) == result.estimate.fpr
    svg, png = save(figure, tmp_path / "plots", "one")
    first = svg.read_bytes(), png.read_bytes()
    assert first[0].startswith(b"<?xml")
    assert first[1].startswith(b"\x89PNG")
    save(trade_off_plot(result), tmp_path / "plots", "one")
    assert (svg.read_bytes(), png.read_bytes()) == first


def test_the_small_plot_keeps_inside_its_frame(results):
    for result in results:
        text = str(small_trade_off(result))
        points = [pair for part in text.split('points="')[1:] for pair in part.split('"')[0].split()]
        values = np.array([[float(number) for number in pair.split(",")] for pair in points])
        assert values[:, 0].min() >= 26
        assert values[:, 0].max() <= 246
        assert values[:, 1].min() >= 6
        assert values[:, 1].max() <= 226


@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_shows_it_without_complaint(browser, opened, page, tmp_path, width):
    path = tmp_path / "audit.html"
    path.write_text(page, encoding="utf-8")
    tab, heard = opened(browser, path, width)
    assert heard == []
    assert tab.locator("h1").inner_text().startswith("Lower bounds on the attacker")
    assert tab.locator("figure svg").count() == 3
    size = tab.locator("figure svg").first.bounding_box()
    assert size["width"] > 120
    assert size["height"] > 120
    assert tab.evaluate("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
    tab.close()
