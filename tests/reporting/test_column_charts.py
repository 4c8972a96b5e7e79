"""Charts of a profile show the counts that were released, each with its noise, and say so in words."""

import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.page_facts import facts_of, text_of

from dpadmm.core.model import ProfileCost
from dpadmm.data.columns import Categorical, Numeric
from dpadmm.data.profile import ProfileForm, ReleasedProfile
from dpadmm.models.predict import coefficients_in_units, score_rows
from dpadmm.report.columns import category_bars, column_panel, number_bars, percent
from dpadmm.report.page import environment, largest_effects, report_page

N = 1000
NASTY = "<script>alert(1)</script> & \"quotes\" 'x'"


def numbers(values: np.ndarray, lower: float, upper: float, noise_std: float = 1.0, seed: int | None = None):
    form = ProfileForm((Numeric("x", lower, upper),))
    counts = form.counts_of_numbers(values[:, None])
    if seed is not None:
        counts = counts + np.random.default_rng(seed).normal(0, noise_std, form.size)
    return ReleasedProfile.of(form, counts, noise_std, len(values))["x"]


def categories(number: int, noise_std: float = 1.0, seed: int = 0):
    form = ProfileForm((Categorical(NASTY, tuple(f"{NASTY}{i}" for i in range(number))),))
    counts = np.random.default_rng(seed).normal(0, 30, form.size)
    return ReleasedProfile.of(form, counts, noise_std, N)[NASTY]


def parsed(column) -> ET.Element:
    """Return the chart of a column as the page draws it."""
    draw, panel = environment().get_template("charts.html").make_module({"percent": percent}), column_panel(column)
    root = ET.fromstring(draw.number_chart(panel) if panel.is_number else draw.category_chart(panel))
    assert root.find("title") is not None
    assert not list(root.iter("script"))
    return root


@pytest.mark.parametrize(
    ("values", "lower", "upper", "ends"),
    [
        (np.linspace(20, 95, N), 0, 100, [10.0 * i for i in range(11)]),
        (np.full(N, 3.0), 0, 1024, [0.0, *(2.0**k for k in range(11))]),
        (
            np.linspace(-1.5, 1.0, N), -1024, 512,
            [*(-(2.0**k) for k in range(10, -1, -1)), 0.0, *(2.0**k for k in range(-1, 10))],
        ),
        (np.linspace(30, 80, N), 20, 120, [20 + 10.0 * i for i in range(11)]),
    ],
)  # fmt: skip
def test_bars_lie_end_to_end_on_the_scale_that_shows_the_records(values, lower, upper, ends):
    bars, apart = number_bars(numbers(values, lower, upper))
    assert [bar.low for bar in bars] + [bars[-1].high] == pytest.approx(ends)
    assert sum(bar.share for bar in (*bars, *apart)) == pytest.approx(1.0)
    counted = np.histogram(values, ends)[0] / N
    assert [bar.share for bar in bars] == pytest.approx(counted.tolist(), abs=2 / N)


def test_the_noise_of_a_bar_is_that_of_the_bins_in_it():
    column = numbers(np.linspace(20, 95, N), 0, 100, noise_std=7.0)
    bars, apart = number_bars(column)
    n_bins = [
        int(np.sum((column.left >= bar.low) & (column.right <= bar.high) & (column.left < column.right)))
        for bar in bars
    ]
    assert sum(n_bins) + len(apart) == len(column.counts)
    assert [bar.error for bar in bars] == pytest.approx([7.0 / N * math.sqrt(number) for number in n_bins])
    assert {bar.error for bar in apart} == {7.0 / N}


@pytest.mark.parametrize("noise_std", [0.01, 20.0, 1e6])
@pytest.mark.parametrize("seed", range(4))
def test_every_bar_and_error_stays_inside_the_picture(noise_std, seed):
    values = np.where(np.arange(N) % 10 > 0, 0.0, np.linspace(0, 5000, N))
    root = parsed(numbers(values, 0, 1e5, noise_std, seed))
    width, height = (float(side) for side in root.get("viewBox").split()[2:])
    for rect in root.iter("rect"):
        assert 0 <= float(rect.get("x")) <= float(rect.get("x")) + float(rect.get("width")) <= width
        assert 0 <= float(rect.get("y")) <= float(rect.get("y")) + float(rect.get("height")) <= height + 0.1
    for line in root.iter("line"):
        assert all(-0.1 <= float(line.get(side)) <= height + 0.1 for side in ("y1", "y2"))


def test_a_bar_that_dwarfs_the_others_is_cut_and_says_its_share():
    values = np.where(np.arange(N) < 920, 0.0, np.linspace(1, 5000, N))
    root = parsed(numbers(values, 0, 1e4))
    assert any(path.get("class") == "cut" for path in root.iter("path"))
    assert "92 %" in [text.text for text in root.iter("text")]


def test_categories_come_by_their_counts_and_the_rest_together():
    column = categories(30)
    bars = category_bars(column)
    assert [bar.name.removeprefix(NASTY) for bar in bars[-2:]] == ["23 others", "empty"]
    assert [bar.share for bar in bars[:7]] == sorted((bar.share for bar in bars[:7]), reverse=True)
    assert sum(bar.share for bar in bars) == pytest.approx(column.counts.sum() / N)
    assert bars[-2].error == pytest.approx(bars[0].error * math.sqrt(23))
    parsed(column)
    assert len(category_bars(categories(8))) == 9


def test_captions_say_what_is_visible_and_no_more():
    form = ProfileForm((Numeric("age", 0, 100), Categorical("sex", ("F", "M"))))
    rng = np.random.default_rng(1)
    full = np.zeros(form.size)
    np.add.at(full, form.bins[0].places(rng.normal(55, 8, N), np.zeros(N, dtype=bool)), 1.0)
    found = [ReleasedProfile.of(form, full, noise, N) for noise in (1.0, 1e6)]
    clear, hidden = ([column_panel(profile[name]) for name in ("age", "sex")] for profile in found)
    assert re.fullmatch(r"mean (4|5)\d[.\d]* to (5|6)\d[.\d]*, median 50 to 60", clear[0].caption)
    assert hidden[0].caption == "nothing is visible above the noise"
    assert hidden[1].caption == ""


def test_the_mean_of_a_caption_holds_the_true_one_wherever_in_its_bin_it_lies():
    """A ward that is 7 in every record: the middle of its bin, 7.5, plus or minus the noise would leave the 7 out."""
    form = ProfileForm((Numeric("ward", 0, 10),))
    counts = form.counts_of_numbers(np.full((N, 1), 7.0))
    panel = column_panel(ReleasedProfile.of(form, counts, N / 1000, N)["ward"])
    low, high = re.fullmatch(r"mean ([.\d]+) to ([.\d]+), median 7 to 8", panel.caption).groups()
    assert float(low) < 7 < float(high)


def profiled(model, n_columns: int = 2):
    columns = (Numeric("age", 0, 120, typical=50), Categorical("sex", ("F", "M")))
    form = ProfileForm((*columns, *(Numeric(f"more {i}", 0, 1) for i in range(n_columns - 2))))
    counts = np.random.default_rng(7).normal(20, 10, form.size)
    return replace(model, profile=ReleasedProfile.of(form, counts, 5.0, 456))


def test_the_page_says_what_the_counts_cost(model):
    assert "profile-cost" not in facts_of(report_page(model))
    cost = ProfileCost(columns=3, epsilon=0.125, run_epsilon=1.0)
    own = replace(profiled(model), guarantee=replace(model.guarantee, profile=cost))
    (said,) = facts_of(report_page(own))["profile-cost"]
    assert "ε = 0.125 at δ = 1e-05" in said
    earlier = replace(own, guarantee=replace(model.guarantee, profile=replace(cost, earlier_run="first")))
    assert text_of(report_page(earlier)) != text_of(report_page(own))


def test_shares_are_shown_between_0_and_100_percent():
    """Noise makes others of them; bars, whiskers and figures stay within, and sums are made of what was released."""
    form = ProfileForm((Categorical("sex", ("F", "M", "X")),))
    column = ReleasedProfile.of(form, np.ones(form.size), 25.0, N)["sex"]
    column = replace(column, counts=np.array([1090.0, -80.0, 20.0, -30.0]))
    root = parsed(column)
    shown = [each.text for each in root.iter("text") if each.text.endswith("%")]
    assert shown == ["100 %", "2 %", "0 %", "0 %"]
    (zero,) = {float(each.get("x")) for each in root.iter("rect")}
    assert all(float(each.get("width")) >= 0 for each in root.iter("rect"))
    whiskers = [each for each in root.iter("line") if each.get("class") == "error"]
    assert min(float(each.get(end)) for each in whiskers for end in ("x1", "x2")) == zero
    assert "F: 100 %, X: 2 %, M: 0 %, empty: 0 %" in root.find("title").text
    assert [bar.share for bar in category_bars(column)] == [1.09, 0.02, -0.08, -0.03]
    values = numbers(np.linspace(20, 95, N), 0, 100)
    low = replace(values, counts=values.counts - 30.0)
    title = parsed(low).find("title").text
    assert "−" not in title
    assert min(bar.share for bar in number_bars(low)[0]) < 0


def test_many_columns_are_folded_away(model):
    before, after = report_page(profiled(model, 60)).split('<details class="more">')
    assert (before.count("<h3>"), after.count("<h3>")) == (12, 48)
    assert '<details class="more">' not in report_page(profiled(model, 12))


def test_effects_are_differences_of_scores(model):
    """What a step adds is what the model's own scores differ by, for rows short enough not to be shortened."""
    effects = {effect.name: effect for effect in largest_effects(model)}
    slopes, _ = coefficients_in_units(model)
    assert effects["age"].change == pytest.approx(slopes[0, 0] * model.encoding.scale[0])
    assert effects["age"].step == f"+{model.encoding.scale[0]:g}"
    centre = dict(zip(model.schema.feature_names, model.encoding.centre, strict=False))["age"]
    step = model.encoding.scale[0] / 1e3
    rows = pd.DataFrame({"age": [centre, centre + step], "sex": ["F", "F"]})
    wide = replace(model, encoding=replace(model.encoding, radius=1e3))
    scores = score_rows(wide, rows)[:, 0]
    wanted = {effect.name: effect.change for effect in largest_effects(wide)}["age"]
    assert 1e3 * (scores[1] - scores[0]) == pytest.approx(wanted, rel=1e-6)
    assert effects["sex=F"].step == ""
