"""PS-ADMM's Theorems 3 and 4: where they say nothing, what they say, and that the corrected one holds."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.data.examples import logistic_table
from dpadmm.data.partition import by_sizes
from dpadmm.methods.batches import Batches
from dpadmm.methods.ps_admm import CORRECTION, FULL, PSADMM, Averaging, Output
from dpadmm.noise.mechanisms import MessageKind
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.accounting import Target
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.testing import LocalEngine, Recording, Stopping, run_private
from dpadmm_research.claims.bounds import Bound, NotApplicable, Version
from dpadmm_research.papers.ps_admm.theory import (
    Facts,
    criterion,
    least_inner_steps,
    least_inner_steps_printed,
    theorem_3_corrected,
    theorem_3_printed,
    theorem_4_corrected,
    theorem_4_printed,
)

PAPER = {"epsilon": 0.5, "delta": 1e-3, "records": 6331, "lipschitz": 1.0}


def facts(**changes):
    return Facts(
        **{
            "rounds": 100,
            "inner_steps": 50,
            "step": 0.1,
            "rho": 0.5,
            "agents": 5,
            "dimension": 105,
            "strong_convexity": 2e-4,
            "smoothness": 0.2502,
            "record_curvature": 0.25,
            "start_distance": 2.0,
            **changes,
        }
    )


class TestPrinted:
    def test_says_nothing_about_the_papers_experiment(self):
        answer = theorem_3_printed(facts(), **PAPER)
        assert isinstance(answer, NotApplicable)
        assert "a shorter step" in answer.why
        shorter = facts(step=2e-5)
        assert least_inner_steps_printed(shorter) > 1e8
        assert isinstance(theorem_3_printed(shorter, **PAPER), NotApplicable)

    @given(st.floats(1e-4, 1.0), st.floats(1.0, 100.0), st.floats(1e-3, 10.0), st.floats(1e-3, 0.999))
    @settings(deadline=None, derandomize=True, max_examples=100)
    def test_needs_about_64_times_the_squared_condition_number(self, mu, ratio, rho, part):
        v = mu * ratio + rho
        step = part * mu / (8 * v**2 + 2 * mu * v)
        chosen = facts(strong_convexity=mu, smoothness=mu * ratio, rho=rho, step=step)
        assert least_inner_steps_printed(chosen) >= 0.9 * 48 * (v / mu) ** 2 * (1 - 2 * step * v)
        beyond = facts(strong_convexity=mu, smoothness=mu * ratio, rho=rho, step=step / part * 1.001)
        assert math.isinf(least_inner_steps_printed(beyond))

    def test_theorem_4_contradicts_the_conditions_of_theorem_3(self):
        answer = theorem_4_printed(facts(strong_convexity=0.1, smoothness=0.35, step=0.01), **PAPER)
        assert isinstance(answer, NotApplicable)
        assert "O(v_f/mu_f), 4 here" in answer.why

    def test_value_by_hand(self):
        chosen = facts(
            strong_convexity=1.0, smoothness=1.2, rho=0.1, step=0.03, inner_steps=200, rounds=10, agents=2, dimension=3
        )
        v_l, log = 1.3, math.log(1e3)
        noise = 2 * 0.03 / (1 - 0.06 * v_l) * 3 * 10 * 200 * log / (6331 * 0.5) ** 2
        start = 2 / 10 * (1.0 / 4 * 4 + 0.1 / 2 * 4 + 1 / 0.2)
        answer = theorem_3_printed(chosen, **PAPER)
        assert isinstance(answer, Bound)
        assert answer.version is Version.PRINTED
        assert answer.value == pytest.approx(start + noise, rel=1e-12)


class TestCorrected:
    def test_conditions_by_hand(self):
        chosen = facts(strong_convexity=0.5, smoothness=0.75, rho=0.1, step=0.5, inner_steps=19)
        gain = 0.125 - 2 * 0.5 * 0.0625
        assert least_inner_steps(chosen) == pytest.approx((1 - 0.05 - 0.125) / (2 * 0.5 * gain))
        assert isinstance(theorem_3_corrected(replace(chosen, inner_steps=13), noise_std=1.0), NotApplicable)
        assert isinstance(theorem_3_corrected(replace(chosen, inner_steps=14), noise_std=1.0), Bound)
        assert math.isinf(least_inner_steps(replace(chosen, step=1.2)))
        assert math.isinf(least_inner_steps(replace(chosen, strong_convexity=0.1)))

    def test_value_by_hand(self):
        chosen = facts(
            strong_convexity=0.5, smoothness=0.75, rho=0.1, step=0.5, rounds=4, dimension=3, start_dual=2.0, tau=0.5
        )
        start = 5 / 4 * (0.5 / 4 * 4 + 0.1 / 2 * 4 + 2.5**2 / 0.2)
        answer = theorem_3_corrected(chosen, noise_std=0.1)
        assert isinstance(answer, Bound)
        assert answer.version is Version.CORRECTED
        assert answer.value == pytest.approx(start + 5 * 0.5 * 3 * 0.01, rel=1e-12)

    def test_larger_batches_need_fewer_steps(self):
        needs = [least_inner_steps(facts(strong_convexity=0.1, smoothness=0.35, batch_size=b)) for b in (1, 4, 100)]
        assert needs[0] > needs[1] > needs[2]

    def test_best_number_of_rounds(self):
        chosen = facts(strong_convexity=0.5, smoothness=0.75, rho=0.1, step=0.5)
        best = theorem_4_corrected(chosen, noise_std_one_round=0.01)

        def value(k):
            return theorem_3_corrected(replace(chosen, rounds=k), noise_std=0.01 * math.sqrt(k)).value

        assert best.bound.value == pytest.approx(value(best.rounds))
        assert best.bound.value <= min(value(k) for k in range(1, 3 * best.rounds)) * (1 + 1e-12)
        short = replace(chosen, inner_steps=2)
        assert isinstance(theorem_4_corrected(short, noise_std_one_round=0.01), NotApplicable)

    def test_holds_for_private_runs(self):
        """Mean of criterion (9) over replicas plus six standard errors against the bound."""
        mu, rho, step, steps, tau, replicas = 0.5, 0.2, 0.5, 40, 0.5, 40
        table = logistic_table(400, 4, rng=np.random.default_rng(1)).data
        silos = table.silos(by_sizes(400, [200, 200], np.random.default_rng(2)))
        problem = Problem.of(EmpiricalRisk(silos, Logistic(), mu=mu), Weighting.EQUAL)
        method = PSADMM(rho, step, steps, Batches(4, seed=0), Averaging.PLAIN, output=Output.AVERAGE)
        engine = LocalEngine(progress=False, threads=1, recording=Recording(every=0), replicas=replicas)
        done = run_private(method, problem, 6, Target(4.0, 1e-5), SimulatedSampler(7), engine=engine)
        silent = replace(engine, replicas=1).run(replace(method, output=Output.LAST), problem, Stopping(rounds=150))
        optimum = silent.estimate
        values = criterion(problem, done.run.models, done.run.estimate, float(problem.objective(optimum)[0]), tau)
        stds = [done.plan.of(MessageKind(name), 1, np.array([0]))[0].noise_std for name in (FULL, CORRECTION)]
        bound = theorem_3_corrected(
            facts(
                rounds=6,
                inner_steps=steps,
                step=step,
                rho=rho,
                agents=2,
                dimension=4,
                strong_convexity=mu,
                smoothness=0.25 + mu,
                batch_size=4,
                start_distance=float(np.linalg.norm(optimum)),
                tau=tau,
            ),
            noise_std=math.hypot(*stds),
        )
        assert isinstance(bound, Bound)
        assert values.mean() + 6 * values.std() / math.sqrt(replicas) <= bound.value
        assert values.mean() > 0
