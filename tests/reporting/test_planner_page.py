"""The planner's page holds what the planner says, everything it needs, and nothing that a name could smuggle in."""

import base64
import hashlib
import json
import re

import pytest

from dpadmm.errors import InputError
from dpadmm.planning.planner import plan
from dpadmm.planning.task import Task
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.protection import Protection, View
from dpadmm.problems.losses import Huber, Logistic
from dpadmm.problems.softmax import Softmax
from dpadmm.reporting.planner_page import Axes, Planner, planner_page, settings


def data_of(page: str) -> dict:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, flags=re.DOTALL)
    return json.loads(found)


def test_the_figures_are_the_planners(planned):
    data = data_of(planned)
    assert (data["epsilons"], data["silos"], data["records"]) == ([0.3, 1.0, 30.0], [2, 4], [250, 2000])
    assert data["own"] == [1, 0, 0]
    for silos, records, sizes in ((2, 250, (300, 200)), (4, 2000, (2000,) * 4)):
        setting = data["settings"][f"{silos} {records}"]
        for epsilon, cell in zip(data["epsilons"], setting["cells"], strict=True):
            made = plan(sizes=sizes, dimension=4, loss=Logistic(), epsilon=epsilon, delta=1e-5, method=cell["method"])
            assert cell["mean"] == pytest.approx(made.world_means.mean, abs=1e-4)
            assert cell["rounds"] == made.rounds
            assert cell["is_hopeless"] == made.is_hopeless
        assert setting["without"] == pytest.approx(made.world_means.non_private, abs=1e-4)
        assert setting["simplest"] == pytest.approx(made.world_means.trivial, abs=1e-4)
    assert data["methods"] == {"output-perturbation": ["output perturbation", "each silo's noisy optimum, averaged"]}


def test_the_page_needs_nothing_and_lets_nothing_in(planned):
    assert not re.search(r"https?:(?!//www\.w3\.org/2000/svg)|url\(|@import|\ssrc=|\son\w+=", planned)
    script = re.findall(r"<script>(.*?)</script>", planned, flags=re.DOTALL)
    assert len(script) == 1
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in planned
    assert "<b>A plan" not in planned
    assert planned.count("</script>") == 2


def test_what_cannot_be_planned_is_left_out():
    hidden = Protection(view=View.AGGREGATE, colluders=1)

    def task_of(sizes):
        return Task(sizes=sizes, dimension=3, loss=Logistic(), target=Target(1.0, 1e-5), protection=hidden)

    axes = Axes(sizes=(200,) * 3, epsilon=1.0, epsilons=(1.0,), silos=(1, 3), records=(200,))
    ticks = []
    found = tuple(settings(axes, Planner(task_of, "noisy-gradients"), lambda: ticks.append(1)))
    assert [(each.silos, each.records) for each in found] == [(3, 200)]
    assert len(ticks) == axes.number == 2
    assert data_of(planner_page(axes, found, task_of(axes.sizes), "t"))["own"] == [0, 0, 0]
    with pytest.raises(InputError, match="nothing to show"):
        planner_page(axes, (), task_of(axes.sizes), "t")


@pytest.mark.parametrize(
    ("loss", "method", "words"),
    [
        (Huber(0.5), "output-perturbation", ("R²", "always the mean")),
        (Softmax(3), "noisy-gradients", ("accuracy", "always the majority class")),
    ],
)
def test_a_number_is_scored_by_r2_and_classes_by_accuracy(loss, method, words):
    hidden = Protection(view=View.PUBLIC)

    def task_of(sizes):
        return Task(sizes=sizes, dimension=3, loss=loss, target=Target(1.0, 1e-5), protection=hidden)

    axes = Axes(sizes=(900,), epsilon=1.0, epsilons=(1.0,), silos=(1,), records=(900,))
    found = tuple(settings(axes, Planner(task_of, method), lambda: None))
    data = data_of(planner_page(axes, found, task_of(axes.sizes), "t"))
    assert (data["score"], data["simplest"]) == words
