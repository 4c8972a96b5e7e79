"""Reserve, draw, account: nothing is drawn but what was reserved, once, and all of it."""

import pickle
from contextlib import nullcontext
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np
import pytest
from tests.builders import Bare

from dpadmm.core.release import PlannedNoise, open_release
from dpadmm.core.spec import ReleaseFacts, RunSpec, TrainingSpec, plan_sum
from dpadmm.core.train import Problems, run_training
from dpadmm.errors import InputError, ResumeError
from dpadmm.methods.base import Setting
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.noise.mechanisms import COORDINATOR, MessageKind
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import SecureSampler, SimulatedSampler
from dpadmm.planner.simulations import scale_noise
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.certificates.sums import column_profile, profile_on_grid
from dpadmm.privacy.ledger import Budget, Ledger, SiloColumns
from dpadmm.privacy.protection import ONE_RECORD, Protection, View
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import Silos
from dpadmm.queries.column_profile import ColumnProfile

DELTA, N = 1e-5, 50
TARGET = Target(1.0, DELTA)
FACTS = ReleaseFacts((N,), ONE_RECORD, is_pooled=True)
PUBLIC = Protection(view=View.PUBLIC)
DATA = (SiloColumns("all", {"x": np.arange(float(N))}),)


COUNT = MessageKind("count")


@dataclass(frozen=True)
class Count:
    """A sum of one histogram; `growing`: its noise shrinks from plan to plan, as if it read what was released."""

    name: str = "count"
    kind: MessageKind = COUNT
    round: int = 7
    reads: tuple = ()
    growing: Any = None

    def noise_plan(self, facts, is_secure):
        certify = partial(
            column_profile, n_numeric=0, n_categorical=1, protection=facts.protection, is_noise_shared=True
        )
        on_grid = partial(profile_on_grid, n_bins=2, shares=facts.shares)
        target = TARGET
        if self.growing is not None:
            self.growing.append(None)
            target = Target(float(len(self.growing)), DELTA)
        facts = replace(facts, is_pooled=True)
        return plan_sum(self.kind, self.round, target, facts, certify, on_grid, is_secure=is_secure)

    def values(self, source, released):
        return np.array([[30.0, 20.0]])

    def read(self, noisy, noise_std, released):
        return noisy


def planned(query=None, is_secure=True):
    return (query or Count()).noise_plan(FACTS, is_secure)


def opened(plan, sampler=None, ledger=None, run=None):
    return open_release(plan, sampler or SecureSampler(), ledger, label="x", n_agents=1, run=run)


def draw(release, part, times=1):
    values = np.array([[[30.0], [20.0]]])
    return [release.noise(part).total(COUNT, 7, values) for _ in range(times)]


@pytest.fixture
def held(tmp_path):
    with Ledger.create(tmp_path / "a.ledger", DATA, Budget(epsilon=5.0, delta=DELTA), protection=PUBLIC) as ledger:
        yield ledger.confirm(DATA)


class Adding(Bare):
    """Noise that is always the same."""

    def __init__(self, noise):
        self.noise = noise

    def perturb(self, values, releases, draw):
        return values + self.noise


class TestSumsOnAGrid:
    """Messages are rounded, then added as whole numbers: rounding costs what C8 counts, whatever the others send."""

    def test_neighbours_are_no_further_apart_than_certified(self):
        plan = planned()
        ((place, row),) = plan.releases.items()
        grid = row[COORDINATOR].certificate.grid
        far = np.full((1, 2, 1), 2.0**55 * grid)  # beside it floats are 8 grids apart

        def total(own):
            return PlannedNoise(plan, Bare()).total(*place, np.concatenate([np.full((1, 2, 1), own), far, -far]))

        for first, second in np.random.default_rng(0).uniform(-8, 8, (50, 2)) * grid:
            assert (np.abs(total(first) - total(second)) <= abs(first - second) + grid).all()

    def test_the_sum_is_exact(self):
        plan = planned()
        ((place, row),) = plan.releases.items()
        grid = row[COORDINATOR].certificate.grid
        whole = np.array([2**60, 1, 2**40 + 3, -(2**60)])
        messages = np.repeat(whole[:, None, None], 2, axis=1) * grid
        assert (PlannedNoise(plan, Bare()).total(*place, messages) / grid).ravel().tolist() == [2**40 + 4] * 2

    @pytest.mark.parametrize("total", [2**40 - 1, 2**41 + 7, 2**53 - 1, 2**60 - 1, -(2**60)])
    def test_what_leaves_depends_on_the_sum_with_its_noise_alone(self, total):
        """A sum that is one grid larger, with noise that is one smaller, is the same release, to its last digit."""
        plan = planned()
        ((place, row),) = plan.releases.items()
        grid = row[COORDINATOR].certificate.grid

        def released(whole, noise):
            messages = np.repeat(np.array([whole // 2**30 * 2**30, whole % 2**30])[:, None, None], 2, axis=1) * grid
            return PlannedNoise(plan, Adding(noise * grid)).total(*place, messages).tolist()

        for noise in (0, 1, 129, 12345, -(2**27)):
            assert released(total, noise) == released(total + 1, noise - 1)

    def test_a_sum_beyond_64_bits_is_refused(self):
        plan = planned()
        ((place, row),) = plan.releases.items()
        grid = row[COORDINATOR].certificate.grid
        with pytest.raises(InputError, match="2\\^62"):
            PlannedNoise(plan, SecureSampler()).total(*place, np.full((4, 2, 1), 2.0**61 * grid))

    @pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
    def test_what_does_not_fit_is_refused(self, value):
        plan = planned()
        with pytest.raises(InputError, match="2\\^62"):
            PlannedNoise(plan, SecureSampler()).total(COUNT, 7, np.full((2, 2, 1), value))


@pytest.mark.parametrize("sampler", [SecureSampler(), SimulatedSampler(1)])
class TestNothingButWhatWasReserved:
    def test_it_is_lent_once(self, sampler):
        plan = planned(is_secure=sampler.is_secure)
        with pytest.raises(InputError, match="lent before"), opened(plan, sampler) as release:
            draw(release, plan, times=2)

    def test_another_place_another_agent_less_noise_and_more_than_was_reserved_are_refused(self, sampler):
        plan = planned(is_secure=sampler.is_secure)
        ((kind, k), row), *_ = plan.releases.items()
        others = [NoisePlan({place: row}) for place in ((MessageKind("other"), k), (kind, k + 1))]
        others += [NoisePlan({(kind, k): {0: replace(row[COORDINATOR], agent=0)}}), scale_noise(plan, 0.999)]
        for other in (*others, plan.repeat(2)):
            with pytest.raises(InputError, match="not reserved"), opened(plan, sampler) as release:
                release.noise(other)

    def test_what_was_reserved_several_times_is_lent_as_often(self, sampler):
        plan = planned(is_secure=sampler.is_secure)
        with opened(plan.repeat(2), sampler) as release:
            first, second = draw(release, plan, times=2)
        assert sampler.is_secure is not np.array_equal(first, second)
        with pytest.raises(InputError, match="lent before"), opened(plan.repeat(2), sampler) as release:
            draw(release, plan, times=3)

    def test_a_prefix_is_part_of_the_place(self, sampler):
        plan = planned(is_secure=sampler.is_secure)
        with opened(plan.with_prefix("a: "), sampler) as release:
            with pytest.raises(InputError, match="not reserved"):
                release.noise(plan)
            release.noise(plan, prefix="a: ").total(MessageKind("count"), 7, np.zeros((1, 2, 1)))

    def test_what_was_not_drawn_ends_it(self, sampler):
        plan = planned(is_secure=sampler.is_secure)
        with pytest.raises(InputError, match="never drawn"), opened(plan, sampler):
            pass
        with pytest.raises(InputError, match="for 0"), opened(plan, sampler) as release:
            release.noise(plan)
        with pytest.raises(InputError, match="for 0"), opened(plan.repeat(2), sampler) as release:
            _ = draw(release, plan), release.noise(plan)
        with pytest.raises(InputError, match="for 1"), opened(plan.repeat(2), sampler) as release:
            draw(release, plan.repeat(2))


class TestTheLedger:
    def test_it_is_charged_before_anything_is_drawn_and_stays_charged(self, held):
        spent = []

        def fail():
            spent.append(held.ledger.statement().spent_epsilon)
            raise RuntimeError

        with pytest.raises(RuntimeError), opened(planned(), ledger=held):
            fail()
        assert spent == [pytest.approx(1.0, rel=1e-6)]
        assert held.ledger.statement().releases == 1

    def test_simulated_noise_is_not_recorded(self, held):
        with pytest.raises(InputError, match="be recorded"), opened(planned(), SimulatedSampler(0), held):
            pytest.fail("opened")
        assert held.ledger.statement().releases == 0

    def test_a_name_serves_one_run(self, held):
        with opened(planned(), ledger=held, run="one") as release:
            draw(release, planned())
        with pytest.raises(ResumeError, match="already recorded"), opened(planned(), ledger=held, run="one"):
            pytest.fail("opened")

    def test_a_name_serves_one_of_two_processes(self, held, monkeypatch):
        """Both find it free, then both reserve the same: the second is given the receipt of the first, at no cost."""
        monkeypatch.setattr(Ledger, "newest_round", lambda *_: None)
        with opened(planned(), ledger=held, run="one") as release:
            draw(release, planned())
        with pytest.raises(ResumeError, match="already recorded"), opened(planned(), ledger=held, run="one"):
            pytest.fail("opened")

    def test_an_interrupt_keeps_the_reservation_and_shows_no_state(self, held):
        with pytest.raises(KeyboardInterrupt, match="stays spent") as caught, opened(planned(), ledger=held):
            raise KeyboardInterrupt
        assert caught.value.__context__ is None
        assert held.ledger.statement().releases == 1

    def test_no_way_leads_from_an_interrupt_to_a_state(self):
        """Not through the frames of its traceback either: those of a context manager hold what they were given."""

        def train():
            state = "bare"
            try:
                raise RuntimeError(state)
            except RuntimeError:
                again(state)

        def again(state):
            raise KeyboardInterrupt(state)

        with pytest.raises(KeyboardInterrupt, match="stays spent") as caught, opened(planned()):
            train()
        shown, queue, seen = [], [caught.value], set()
        while queue:
            found = queue.pop()
            if id(found) in seen:
                continue
            seen.add(id(found))
            if isinstance(found, BaseException):
                queue += [found.__traceback__, found.__context__, found.__cause__]
            elif isinstance(found, TracebackType):
                shown.append((found.tb_frame.f_code.co_name, dict(found.tb_frame.f_locals)))
                queue += [found.tb_next, *found.tb_frame.f_locals.values()]
        assert "open_release" in {name for name, _ in shown}
        assert [held for name, held in shown if name in ("train", "again") and held] == []


@pytest.mark.parametrize("copied", [copy, deepcopy, pickle.dumps])
def test_no_copy_draws_what_is_paid_for_once(copied):
    with opened(planned()) as release:
        noise = release.noise(planned())
        for one in (release, noise):
            with pytest.raises(InputError, match="not copied"):
                copied(one)
        noise.total(COUNT, 7, np.zeros((1, 2, 1)))
    copied(PlannedNoise(planned(), SimulatedSampler(0)))


def problem_of(dimension=2, sizes=(N,)):
    tables = [np.random.default_rng(n).uniform(-0.5, 0.5, (n, dimension)) for n in sizes]
    labels = [np.sign(rows[:, 0]) for rows in tables]
    return Problem.of(EmpiricalRisk(Silos.from_parts(tables, labels, 1.0), Logistic()))


class TestWhatDoesNotFitIsRefusedBeforeItIsPaidFor:
    def run(self):
        return RunSpec(NoisyGradients(step=0.5), Setting(problem_of(), 2, protection=PUBLIC), TARGET)

    @pytest.mark.parametrize("found", [[problem_of(3)], [problem_of()] * 2, InputError("not the one: no such column")])
    def test_rows_that_are_encoded_by_nothing_released(self, held, found):
        class Rows:
            def problems(self, run, released):
                if isinstance(found, Exception):
                    raise found
                return found

        with pytest.raises(InputError, match=r"not the|1 problem"):
            run_training(TrainingSpec.of(self.run()), Rows(), SecureSampler(), held, label="x")
        assert held.ledger.statement().releases == 0

    @pytest.mark.parametrize("sizes", [(N - 10,), (N - 10, 20)])
    def test_a_ledger_of_other_rows(self, held, sizes):
        problem = problem_of(sizes=sizes)
        run = RunSpec(NoisyGradients(step=0.5), Setting(problem, 2, protection=PUBLIC), TARGET)
        with pytest.raises(InputError, match="confirmed with"):
            run_training(TrainingSpec.of(run), Problems([problem]), SecureSampler(), held, label="x")
        assert held.ledger.statement().releases == 0

    def test_a_person_who_is_spread_over_agents(self, tmp_path):
        """The ledger knows one silo, the run splits it in two: a person's two records may be one with each."""
        people, problem = replace(PUBLIC, records_per_person=2), problem_of(sizes=(N // 2, N // 2))
        budget, other = Budget(epsilon=5.0, delta=DELTA), replace(people, silos_per_person=2)
        with Ledger.create(tmp_path / "b.ledger", DATA, budget, protection=people) as ledger:
            for who, releases in ((people, 0), (other, 2)):
                run = RunSpec(NoisyGradients(step=0.5), Setting(problem, 2, protection=who), TARGET)
                given = TrainingSpec.of(run), Problems([problem]), SecureSampler(), ledger.confirm(DATA)
                with pytest.raises(InputError, match="different agent") if releases == 0 else nullcontext():
                    run_training(*given, label="x")
                assert ledger.statement().releases == releases

    def test_a_prefix_gives_steps_places_of_their_own(self):
        other = replace(self.run(), name="other", prefix="other: ")
        assert len(list(TrainingSpec.of(self.run(), other).noise_plan())) == 4

    def test_a_profile_of_rows_that_came_encoded(self, held):
        profile = ColumnProfile(n_numeric=2, n_categorical=0, size=42, target=TARGET)
        spec = TrainingSpec.of(profile, self.run())
        with pytest.raises(InputError, match="already encoded"):
            run_training(spec, Problems([problem_of()]), SecureSampler(), held, label="x")
        assert held.ledger.statement().releases == 0


def test_a_step_that_plans_anew_gets_the_noise_of_its_first_plan():
    """A query is asked for its noise once, before anything is released: what it would say later counts for nothing."""
    problem = problem_of()
    run = RunSpec(NoisyGradients(step=0.5), Setting(problem, 2), TARGET)
    query = Count(growing=[])
    spec = TrainingSpec.of(run, query)
    done = run_training(spec, Problems([problem]), SimulatedSampler(0), label="x")
    assert len(query.growing) == 1
    (release,) = done.spec.part(query, is_secure=False)
    assert release.noise_std == pytest.approx(next(iter(planned(is_secure=False))).noise_std)


def test_the_sums_that_are_kept_are_the_noisy_ones():
    """A curvature's gradient is made of them, and leaves."""
    problem = problem_of()
    run = RunSpec(NoisyGradients(step=0.5), Setting(problem, 3), TARGET)
    done = run_training(TrainingSpec.of(run, Count()), Problems([problem]), SecureSampler(), label="x")
    (found,) = done.runs(run)
    kept = [float(np.linalg.norm(each)) for each in found.sums]
    assert kept == [row.norms[0] for row in found.history]
    assert len(kept) == 3
    assert min(kept) > 0
