"""A search as one run: what is reserved, what it costs by other means, and attacks on the scores and the choice."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm

from dpadmm.core.release import open_release
from dpadmm.core.spec import RunSpec, TrainingSpec
from dpadmm.core.train import Problems, run_training
from dpadmm.errors import BudgetError
from dpadmm.methods.base import Setting
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.noise.sampler import SecureSampler, SimulatedSampler
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.ledger import Budget, Ledger, SiloColumns
from dpadmm.privacy.protection import Protection, View
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import Silos
from dpadmm.queries.candidate_scores import CandidateScores, score_sums, shorten

DELTA = 1e-5
SCORE = Target(0.3, DELTA)
M = m_of(SCORE.epsilon, DELTA)
MUS = (0.1, 0.3, 1.0)


def problem_of(n_silos=1, mu=0.1):
    rng = np.random.default_rng(1)
    rows = rng.uniform(-0.5, 0.5, (60, 2))
    labels = np.sign(rows[:, 0])
    parts = np.array_split(np.arange(60), n_silos)
    return Problem.of(
        EmpiricalRisk(Silos.from_parts([rows[p] for p in parts], [labels[p] for p in parts], 1.0), Logistic(), mu)
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class GivenScores(CandidateScores):
    """Scores that a test makes of the models."""

    scorer: Any = None

    def values(self, source, released):
        models = [np.array([done.model(run.output)[:, 0] for done in released[run.name]]) for run in self.runs]
        return self.scorer(models)


class OneEach(Problems):
    """A problem for each candidate."""

    def __init__(self, search, mus=MUS):
        super().__init__([])
        n_silos = len(search.facts.sizes)
        self.by_name = {run.name: problem_of(n_silos, mu) for run, mu in zip(search.runs, mus, strict=True)}

    def problems(self, run, released):
        return [self.by_name[run.name]]

    @property
    def silos(self):
        return [next(iter(self.by_name.values())).functions.silos]


def search_of(n_silos=1, view=View.EAVESDROPPER, mus=MUS, target=SCORE, scorer=None, **people):
    runs = []
    for place, mu in enumerate(mus):
        setting = Setting(problem_of(n_silos, mu), 4, protection=Protection(view=view, **people))
        name = f"candidate {place}"
        runs.append(RunSpec(NoisyGradients(step=1.0), setting, Target(0.4, DELTA), name=name, prefix=f"{name}: "))
    zeros = scorer or (lambda models: np.zeros((n_silos, len(models))))
    scores = GivenScores(
        runs=tuple(runs), losses=(Logistic(),) * len(runs), score_bound=0.5, target=target, scorer=zeros
    )
    return TrainingSpec.of(*runs, scores)


def score_plan(search, is_secure=False):
    return search.part(search.sums[-1], is_secure)


def draw(search, exact, sampler):
    """Return the noisy scores alone."""
    plan = score_plan(search, sampler.is_secure)
    with open_release(plan, sampler, label="scores", n_agents=len(exact)) as release:
        return release.total(search.sums[-1], plan, exact)[0]


def run_search(search, sampler, ledger=None, mus=MUS):
    return run_training(search, OneEach(search, mus), sampler, ledger, label="search")


def delta_of(ratios, epsilon):
    """delta of Gaussian releases, from the law of their joint privacy loss, by integration instead of C0's formula."""
    m2 = math.fsum(ratio**2 for ratio in ratios)
    density = norm(m2 / 2, math.sqrt(m2)).pdf
    value, _ = integrate.quad(
        lambda loss: -math.expm1(epsilon - loss) * density(loss), epsilon, epsilon + 40 * math.sqrt(m2), epsabs=1e-14
    )
    return value


@pytest.mark.parametrize(
    ("n_silos", "view", "people"),
    [
        (1, View.EAVESDROPPER, {}),
        (3, View.PUBLIC, {"records_per_person": 2}),
        (4, View.AGGREGATE, {"colluders": 1, "silos_per_person": 2}),
    ],
)
def test_the_epsilon_is_that_of_an_independent_computation(n_silos, view, people):
    """Ratios of bound and noise from first principles, their privacy loss integrated numerically."""
    search = search_of(n_silos, view, **people)
    r, s = people.get("records_per_person", 1), people.get("silos_per_person", 1)
    changed = r * s
    ratios = []
    for run in search.runs:  # a gradient of norm at most 1 is replaced: the mean of 60 moves by 2/60
        for release in run.noise_plan(is_secure=False):
            ratios.append(changed * 2 / 60 / release.noise_std)
    (release,) = score_plan(search)
    ratios.append(changed * 2 * 0.5 / release.noise_std)
    said = search.noise_plan(is_secure=False).account().curve.epsilon(DELTA)
    assert delta_of(ratios, said) == pytest.approx(DELTA, rel=2e-3)
    assert search.noise_plan(is_secure=True).account().curve.epsilon(DELTA) == pytest.approx(said, rel=1e-4)


def columns(problem):
    silos = problem.functions.silos
    return (SiloColumns("all", {"X": silos.features, "y": silos.labels}),)


def test_everything_is_reserved_as_one_run_before_the_first_draw(tmp_path, monkeypatch):
    search, place = search_of(), tmp_path / "data.ledger"
    with Ledger.create(place, columns(problem_of()), Budget(epsilon=2.0, delta=DELTA)) as ledger:
        seen = []
        perturb = SecureSampler.perturb

        def watch(self, *given, **named):
            seen.append(ledger.statement().releases)
            return perturb(self, *given, **named)

        monkeypatch.setattr(SecureSampler, "perturb", watch)
        done = run_search(search, SecureSampler(), ledger.confirm(columns(problem_of())))
        said = ledger.statement()
        assert set(seen) == {3 * 4 + 1} == {said.releases}
        assert [run.run for run in ledger.runs()] == [done.name]
        assert said.spent_epsilon == pytest.approx(done.plan.account().curve.epsilon(DELTA), rel=1e-9)


def test_a_budget_that_is_too_small_for_all_of_it_is_refused_untouched(tmp_path):
    search, place = search_of(scorer=lambda models: pytest.fail("scored")), tmp_path / "data.ledger"
    with Ledger.create(place, columns(problem_of()), Budget(epsilon=0.5, delta=DELTA)) as ledger:
        with pytest.raises(BudgetError):
            run_search(search, SecureSampler(), ledger.confirm(columns(problem_of())))
        assert ledger.statement().releases == 0


@pytest.mark.parametrize("sampler", [SecureSampler(), SimulatedSampler(0)])
def test_an_interrupted_search_stays_spent_and_shows_nothing(sampler):
    """Of a release no traceback holds states without noise."""

    def scorer(models):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        run_search(search_of(scorer=scorer), sampler)
    if sampler.is_secure:
        assert "stays spent" in str(caught.value)
        assert caught.value.__context__ is None


def test_the_scores_noise_is_what_is_reserved_and_decides():
    """The sums that are drawn have the planned deviation, and the lowest of them is chosen."""
    search = search_of()
    exact = np.array([[3.0, -1.0, 1.0]])
    drawn = np.array([draw(search, exact, SimulatedSampler(seed)) for seed in range(4000)])
    (release,) = score_plan(search)
    assert release.noise_std == pytest.approx(1.0 / M, rel=1e-6)
    spread = (drawn - exact).std(axis=0)
    assert np.allclose(spread, release.noise_std, rtol=6 / math.sqrt(2 * 4000))
    found = run_search(search_of(scorer=lambda models: exact), SimulatedSampler(3)).released["scores"]
    assert found.chosen == int(np.argmin(found.scores))
    assert not np.allclose(found.scores, exact[0])
    assert np.abs(found.scores - exact[0]).max() < 6 * release.noise_std


def attack(draws=1500):
    """Return bounds on the m that an attacker sees who knows all but one record, over the certified one; 1 - 1e-6.

    Neighbours: a record on which one of two models fails badly, against its opposite, through the code that scores and
    draws. The best test is the matched filter along the difference.
    """
    search = search_of(mus=(0.1, 0.3), target=Target(8.0, DELTA))
    models = [np.array([[9.0]]), np.array([[-9.0]])]
    worlds = [Silos.from_parts([np.ones((1, 1))], [np.array([sign])], 1.0) for sign in (1.0, -1.0)]
    sums = [score_sums([Logistic()] * 2, [world], models, 0.5) for world in worlds]
    along = (sums[0] - sums[1])[0] / np.linalg.norm(sums[0] - sums[1])
    seen = []
    for number, own in enumerate(sums):
        samplers = (SimulatedSampler(2 * seed + number) for seed in range(draws))
        seen.append(np.array([draw(search, own, sampler) @ along for sampler in samplers]))
    shift = (seen[0].mean() - seen[1].mean()) / np.concatenate([each - each.mean() for each in seen]).std()
    error, certified = 5 * math.sqrt(2 / draws + shift**2 / (4 * draws)), m_of(8.0, DELTA)
    return (shift - error) / certified, (shift + error) / certified


def test_an_attack_on_the_scores_comes_near_the_bound_and_not_above():
    low, high = attack()
    assert low <= 1.0 <= high
    assert low > 0.8


def test_the_choice_alone_says_less_than_the_scores():
    """Likelihood ratios of the chosen index between worst-case neighbours stay within the score release's curve."""
    search = search_of(mus=(0.1, 0.3))
    (release,) = score_plan(search)
    gap = math.sqrt(2) * release.noise_std  # of a difference of two scores
    shift = math.sqrt(2) * 0.5  # a record adds this to the difference, or takes it off
    for public in np.linspace(-4, 4, 33):  # what all other records say
        p, q = (norm.cdf((public * gap + sign * shift) / gap) for sign in (1, -1))
        curve = score_plan(search).account().curve
        for epsilon in (0.0, 0.1, 0.3):
            beyond = max(p - math.exp(epsilon) * q, 1 - q - math.exp(epsilon) * (1 - p))
            assert beyond <= curve.delta(epsilon) * (1 + 1e-9)


def test_every_candidate_has_noise_of_its_own():
    """Two candidates with the same settings end with different models."""
    seen, same = [], (0.1, 0.1)

    def scorer(models):
        seen.extend(models)
        return np.zeros((1, 2))

    run_search(search_of(mus=same, scorer=scorer), SimulatedSampler(0), mus=same)
    assert not np.allclose(seen[0], seen[1])


@pytest.mark.parametrize("loss", [np.nan, np.inf, -np.inf, 1e308, 0.7])
@pytest.mark.parametrize("score_bound", [1e-3, 0.5, 2.0])
def test_no_record_reaches_further_than_is_certified(loss, score_bound):
    """Whatever a model makes of a record: a difference that is no number would be a whole number of any size."""
    found = shorten(np.array([[loss, 1.0, 0.0], [loss, loss, 2.0], [0.0, 3.0, 9.0]]), score_bound)
    assert np.all(np.linalg.norm(found, axis=1) <= score_bound)
