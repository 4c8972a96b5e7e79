"""The site builds without a warning, shows the code of the examples, and needs nothing from elsewhere."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("site")

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(ROOT.glob("examples/*.py"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


def build(folder: Path, *more: str) -> Path:
    """Build a site as `make docs` does; a warning aborts it."""
    arguments = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder), *more]
    done = subprocess.run(
        arguments, cwd=ROOT, capture_output=True, text=True, timeout=600, env=os.environ | {"CI": "1"}
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def research_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("research"), "--config-file", "research/mkdocs.yml")


def text_of(html: str) -> str:
    """Return what a reader sees: the colours of code are tags between its words."""
    return unescape(re.sub(r"<[^>]+>", "", html)).strip()


def code_of(page: Path) -> list[str]:
    """Return the code blocks of a page as text."""
    blocks = re.findall(r"<pre>.*?<code>(.*?)</code></pre>", page.read_text(), flags=re.DOTALL)
    return [text_of(block) for block in blocks]


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_the_gallery_shows_the_code_of_every_example(site, script):
    shown = [block for page in site.glob("gallery/*.html") for block in code_of(page)]
    # Blank lines are the renderer's own; every other character is the script's.
    wanted = [line for line in script.read_text().splitlines() if line.strip()]
    assert wanted in [[line for line in block.splitlines() if line.strip()] for block in shown]


def test_no_page_shows_an_include_that_was_not_made(site):
    pages = list(site.glob("**/*.html"))
    assert len(pages) > 30
    assert [page.name for page in pages if "--8" in text_of(page.read_text())] == []


def test_the_api_page_has_every_name_that_a_package_lists(site):
    page = (site / "api.html").read_text()
    listed = runpy.run_path(str(ROOT / "docs" / "api.py"))["listing"]()
    names = [line.removeprefix("::: ") for line in listed if line.startswith("::: ")]
    assert len(names) > 250
    assert [name for name in names if f'id="{name}"' not in page] == []


def test_doctests_are_code_and_parameters_a_list(site):
    page = (site / "api.html").read_text()
    assert "<blockquote>" not in page
    assert "<li><code>epsilon</code>: float" in page
    assert any("[25.0, 50.0, 100.0]" in block and ">>> " in block for block in code_of(site / "api.html"))


def test_docstrings_become_markdown():
    markdown = runpy.run_path(str(ROOT / "docs" / "docstrings.py"))["markdown"]
    assert markdown("Words: few.\n\n>>> f(\n...     1\n... )\n[3]\n\nMore.\n\n>>> 2\n2") == (
        "Words: few.\n\n```pycon\n>>> f(\n...     1\n... )\n[3]\n```\n\nMore.\n\n```pycon\n>>> 2\n2\n```"
    )
    assert markdown("Words.\n\nParameters\n----------\neta, mu: both\n    > 0.\nrho: one\n\nEnd.") == (
        "Words.\n\n**Parameters**\n\n- `eta, mu`: both\n    > 0.\n- `rho`: one\n\nEnd."
    )
    assert markdown("Parameters\n----------\neta : float\n    > 0.\nmu, nu\n    As there.") == (
        "**Parameters**\n\n- `eta`: float\n    > 0.\n- `mu, nu`: \n    As there."
    )


def test_pages_load_nothing_from_elsewhere(site, research_site):
    loads = r"<(?:script|img|iframe)[^>]*\ssrc=\"([^\"]*)\"|<link[^>]*\srel=\"(?:stylesheet|icon|preconnect)\"[^>]*>"
    for page in [*site.glob("**/*.html"), *research_site.glob("**/*.html")]:
        remote = [found.group() for found in re.finditer(loads, page.read_text()) if "//" in found.group()]
        assert remote == [], page
    for sheet in site.glob("**/*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//|@import", sheet.read_text()), sheet


@pytest.fixture(scope="module")
def tab(site):
    """Return a page of a browser, and what it complains of or asks from outside."""
    api = pytest.importorskip("playwright.sync_api", reason="the site is tested with playwright: not installed")
    if CHROMIUM is None:
        pytest.skip("the site is tested in Chromium, which is not installed")
    heard: list[str] = []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("console", lambda said: heard.append(said.text) if said.type == "error" else None)
        own = ("file:", "data:", "blob:")
        page.on("request", lambda asked: None if asked.url.startswith(own) else heard.append(asked.url))
        yield page, heard
        browser.close()


def test_the_start_leads_somewhere_and_the_search_works_as_files(site, tab):
    page, heard = tab
    page.goto((site / "index.html").as_uri())
    links = page.locator("article table").get_by_role("link")
    assert links.count() >= 15
    for name in ("quickstart", "setting up", "proofs", "architecture"):
        links.get_by_text(name, exact=True).click()
        assert page.locator("h1").inner_text() != "dpadmm"
        page.get_by_role("link", name="Start", exact=True).first.click()
        assert page.locator("h1").inner_text() == "dpadmm"
    page.locator("input.md-search__input").fill("eavesdropper")
    page.locator(".md-search-result__item a").first.wait_for(timeout=60_000)
    assert heard == []


WIDER = """() => [...document.querySelectorAll(".md-typeset__scrollwrap")]
  .filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.innerText.slice(0, 60))"""


def test_pages_and_their_tables_fit_the_screen(site, research_site, tab):
    page, heard = tab
    both = [site / "index.html", site / "notebooks" / "researcher.html"]
    wide = [site / "notation.html", *(research_site / f"{name}.html" for name in ("scoreboard", "peers", "errata"))]
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for name in both + wide if width == 1280 else both:
            page.goto(name.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
            if width == 1280:
                assert page.evaluate(WIDER) == [], name
    assert heard == []


def test_all_pictures_have_texts(site, research_site):
    for page in [*site.glob("**/*.html"), *research_site.glob("**/*.html")]:
        for picture in re.findall(r"<img\b[^>]*>", page.read_text()):
            assert re.search(r'alt="[^"]+"', picture), (page, picture[:80])
