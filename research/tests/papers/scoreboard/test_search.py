"""The search for settings, on losses whose least is known."""

import math

import pytest

from dpadmm_research.scoreboard.search import Knob, search

STEP = Knob("step", 1.0, (-2, 0, 2))


def rounds(**limits):
    return Knob("rounds", 8, (0, 2), limits=("one round", "too dear"), is_work=True, **limits)


class Bowl:
    """A loss with one least point for every budget, which remembers what was asked."""

    def __init__(self, least):
        self.least = least
        self.asked = []

    def __call__(self, values, budgets):
        self.asked += [(values, budget) for budget in budgets]
        return {
            budget: sum(math.log2(value / best) ** 2 for value, best in zip(values, self.least[budget], strict=True))
            for budget in budgets
        }


def test_the_search_leaves_its_first_points_until_the_winner_is_inside():
    """Both winners lie far outside the first points, on opposite sides."""
    bowl = Bowl({0.1: (2.0**-7, 1024.0), 10.0: (2.0**6, 1.0)})
    assert search((STEP, rounds(least=1, most=4096)), (0.1, 10.0), bowl, 0.0) == bowl.least
    for budget, (step, count) in bowl.least.items():
        tried = {values for values, who in bowl.asked if who == budget}
        assert {(step / 2, count), (step * 2, count), (step, count * 2)} <= tried  # the winner is at no edge of these
    assert len(bowl.asked) == len(set(bowl.asked))  # nothing is paid for twice


def test_numbers_end_at_their_limits_which_are_named():
    bowl = Bowl({1.0: (1.0, 2.0**20)})
    knob = rounds(least=1, most=64)
    ((step, count),) = search((STEP, knob), (1.0,), bowl, 0.0).values()
    assert (step, count) == (1.0, 64)
    assert max(values[1] for values, _ in bowl.asked) == 64
    assert [knob.limit_at(value) for value in (1, 2, 32, 64)] == [-1, 0, 0, 1]
    assert (knob.limit_text(-1), knob.limit_text(1)) == ("one round", "too dear")
    assert Knob("rounds", 1, least=1, most=1).limit_at(1) == 0  # there was nothing to choose
    assert STEP.limit_at(1e-9) == STEP.limit_at(1e9) == 0


@pytest.mark.parametrize(("price", "chosen"), [(0.0, 64.0), (0.011, 32.0), (1.0, 1.0)])
def test_twice_the_work_must_gain_its_price(price, chosen):
    """Each doubling gains 0.01 less than the one before; the last before 64 gains 0.01."""
    gains = [0.06, 0.05, 0.04, 0.03, 0.02, 0.01]

    def loss(values, budgets):
        place = round(math.log2(values[0]))
        return dict.fromkeys(budgets, -sum(gains[:place]))

    knob = Knob("rounds", 8, (0,), 1, 64, ("", ""), is_work=True)
    assert search((knob,), (1.0,), loss, price) == {1.0: (chosen,)}


def test_points_without_noise_that_suffices_never_win():
    def loss(values, budgets):
        return {budget: values[0] for budget in budgets if values[0] >= 4 and budget > 1}

    assert search((STEP,), (1.0, 5.0), loss, 0.0) == {5.0: (4.0,)}
    assert search((STEP,), (1.0,), lambda values, budgets: dict.fromkeys(budgets, math.nan), 0.0) == {}
