"""A saved model with every kind of fact in it, made up: no planner and no noise are needed to test a page."""

import math
import shutil
from pathlib import Path

import pytest

from dpadmm.core.model import (
    Guarantee,
    MethodChoice,
    NoiseSummary,
    ReleasedModel,
    RoundFacts,
    SiloFacts,
)
from dpadmm.data.columns import BinaryLabel, Categorical, Numeric
from dpadmm.data.schema import Schema
from dpadmm.methods.base import Topology
from dpadmm.models.measurement import Basis, Measurement
from dpadmm.planner.forecast import Forecast, ScoreKind, SignalForecast
from dpadmm.privacy.ledger import Spending
from dpadmm.privacy.protection import Protection, Strength
from dpadmm.privacy.releases import Origin
from dpadmm.problems.losses import Logistic


@pytest.fixture(scope="session")
def model() -> ReleasedModel:
    schema = Schema(
        (Numeric("age", 0, 120, typical=50), Categorical("sex", ("F", "M"))),
        BinaryLabel("sick", positive=("yes",), negative=("no",)),
        constant=0.5,
    )
    return ReleasedModel(
        title="A study",
        created="2026-01-02 03:04 UTC",
        package="dpadmm 0",
        run="p-admm-1",
        loss=Logistic(),
        coefficients=(0.1, -0.2, 1 / 3, 5e-324),
        schema=schema,
        encoding=schema.encoding(0.6),
        silos=tuple(SiloFacts(name=name, records=n) for name, n in (("north", 228), ("south", 171), ("west", 57))),
        guarantee=Guarantee(
            epsilon=1.0,
            delta=1e-5,
            protection=Protection(),
            strength=Strength.FULL,
            theorems=("C1 + C8",),
            assumptions=("rows have norm at most 1", "rounded to 1.25e-08", "rounded to 2.5e-08"),
            noise=NoiseSummary(family="Gaussian", least_scale=1.0, greatest_scale=2.0, releases=60),
            origin=Origin.SECURE,
        ),
        choice=MethodChoice(
            method="p-admm",
            rounds=20,
            topology=Topology.GRAPH,
            edges=((0, 1), (0, 2), (1, 2)),
            settings=(("ridge", "0.001"),),
            reasons=("peers need no coordinator",),
            warnings=(),
            is_hopeless=False,
            expected=Forecast(
                score=ScoreKind.AUC,
                signals=(
                    SignalForecast(signal="stated", non_private=0.9, simulated=0.9, low=0.75, high=0.88, learned=0.7),
                ),
                runs=24,
            ),
        ),
        history=tuple(
            RoundFacts(
                round=k + 1, movement=math.exp(-k), average_movement=math.exp(-k), messages=3, size=1 + k / 5, noise=1.5
            )
            for k in range(20)
        ),
        spending=Spending(
            ledger="study.ledger",
            budget_epsilon=3.0,
            budget_delta=1e-5,
            spent_epsilon=1.25,
            left_epsilon=1.75,
            releases=60,
            head="ab" * 32,
            runs=(("p-admm-1", 1.0), ("pilot", 0.5)),
            time="2026-01-02 03:04 UTC",
        ),
        measurements=(
            Measurement(
                score="accuracy",
                value=0.8125,
                records=300,
                on="a published register",
                basis=Basis.PUBLIC,
                epsilon=0.0,
                delta=0.0,
                time="2026-01-02 03:04 UTC",
                baseline=0.625,
            ),
        ),
    )


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip(
        "playwright.sync_api", reason="the page is tested with playwright, which is not installed"
    )
    if CHROMIUM is None:
        pytest.skip("the page is tested in Chromium, which is not installed")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def opened():
    """Return a function that opens a page, with all that its console said and all that it asked from outside."""

    def open_page(browser, file: Path, width: int, **more):
        page = browser.new_page(viewport={"width": width, "height": 800}, **more)
        heard: list[str] = []
        own = (file.as_uri(), "data:,")
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("request", lambda request: None if request.url in own else heard.append(request.url))
        page.goto(file.as_uri())
        return page, heard

    return open_page
