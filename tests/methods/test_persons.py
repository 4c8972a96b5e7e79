"""A person with all their rows, method by method: bounds hold for every transcript and are reached, or are refused."""

from dataclasses import replace

import numpy as np
import pytest

from dpadmm.errors import InputError
from dpadmm.methods.base import Setting, by_name
from dpadmm.methods.fixed_point.general import Constraint
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.methods.p_admm import PADMM
from dpadmm.networks import complete
from dpadmm.noise.mechanisms import Family
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import ONE_RECORD, Protection, Unit
from dpadmm.problems.losses import Huber, Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import PersonRows, Silos
from dpadmm.testing import plan_noise, run_private
from dpadmm_research.audit.catalogue import _subject
from dpadmm_research.audit.neighbours import FAR
from dpadmm_research.audit.sensitivity import check_sensitivity
from dpadmm_research.audit.worst_cases import worst_cases

PERSON = Protection(unit=Unit.PERSON)
TARGET = Target(1.0, 1e-5)
CERTIFIED = (
    *("dp-dgd", "dp-gd", "fp-centralised", "fp-coordinator", "fp-federated", "fp-walk", "linearised-admm"),
    *("noisy-gradients", "output-perturbation", "p-admm", "p-admm-recycled", "dp-cd", "fp-general"),
    *("consensus", "consensus-gaussian", "noisy-gradients-preconditioned", "dp-gd-preconditioned"),
)
REFUSED = ("dvp", "m-admm", "r-admm", "ps-admm", "dp-sgd", "dp-prox-sgd", "fp-lasso")
# A bound in the l1 norm is reached along diagonals only; the walk's own worst case is a user's.
OTHERWISE = {
    "dp-dgd": {"noise": Family.GAUSSIAN},
    "fp-walk": {"unit": Unit.PERSON},
    "dp-cd": {"blocks": None},
    "fp-general": {"constraint": Constraint(np.eye(2), -np.eye(2), np.zeros(2))},
}


def problem(first, rows_of_others, loss, n_agents, mu):
    """Agent 0's first person has the rows `first` = (features, labels); everybody else the same in every world."""
    features, labels = first
    rng = np.random.default_rng(7)
    parts, targets, people = [], [], []
    for i in range(n_agents):
        whose = np.repeat(np.arange(1, len(rows_of_others) + 1), rows_of_others)
        rows = 0.1 * rng.standard_normal((len(whose), 2))
        signs = rng.choice([-1.0, 1.0], len(whose))
        if i == 0:
            whose = np.concatenate([whose[:1], np.zeros(len(labels)), whose[1:]]).astype(np.intp)
            rows, signs = (np.concatenate([a[:1], b, a[1:]]) for a, b in ((rows, features), (signs, labels)))
        parts.append(rows)
        targets.append(signs)
        people.append(PersonRows.of(whose).people)
    silos = Silos.from_parts(parts, targets, row_norm=1.0, people=people)
    return Problem.of(EmpiricalRisk(silos, loss, mu=mu))


def opposite_worlds(n_agents, mu):
    """One row against four, all saturated and opposite: nothing moves a sum of gradients further."""
    few, many = (np.array([[1.0, 0.0]]), np.array([FAR])), (np.tile([1.0, 0.0], (4, 1)), np.full(4, -FAR))
    return tuple(problem(each, (1, 2), Huber(1.0), n_agents, mu) for each in (few, many))


def misclassified(n_agents, mu, seed):
    """Logistic rows in all directions, any number of them in either world."""
    rng = np.random.default_rng(seed)

    def person():
        angles = rng.uniform(0, 2 * np.pi, rng.integers(1, 6))
        return np.stack([np.cos(angles), np.sin(angles)], axis=1) * (1 - 1e-15), rng.choice([-1.0, 1.0], len(angles))

    return tuple(problem(person(), (1, 3), Logistic(), n_agents, mu) for _ in range(2))


def subject(name, pair):
    """The method as its own worst case runs it, on persons; at least as many silos as that has."""
    case = worst_cases(by_name()[name], 0)[0]
    mu = 0.1 if name == "output-perturbation" else 0.0
    worlds = pair(case.problems[0].n_agents, mu)
    algorithm = replace(case.algorithm, **OTHERWISE.get(name, {}))
    return _subject(name, replace(case, algorithm=algorithm, problems=worlds, protection=PERSON))


class TestBounds:
    @pytest.mark.parametrize("name", CERTIFIED)
    def test_hold_for_every_transcript_and_are_reached(self, name):
        found = check_sensitivity(subject(name, opposite_worlds), TARGET)
        assert 0.9 <= found.worst <= 1 + 1e-5, found

    @pytest.mark.parametrize("name", ["p-admm", "noisy-gradients", "fp-coordinator"])
    def test_hold_for_persons_of_any_number_of_rows(self, name):
        worst = [
            check_sensitivity(subject(name, lambda n, mu, s=seed: misclassified(n, mu, s)), TARGET).worst
            for seed in range(6)
        ]
        assert max(worst) <= 1 + 1e-5
        assert max(worst) >= 0.4

    def test_are_those_of_one_record(self):
        """No factor for the number of rows: persons take the place of records, but for the rounding of more of them."""
        worlds = opposite_worlds(3, 0.0)
        for method, network in ((PADMM(eta=0.5), complete(3)), (NoisyGradients(step=0.1), None)):
            setting = Setting(worlds[0], 4, 1e-9, network, PERSON)
            (mine,), (plain,) = (method.mechanisms(replace(setting, protection=each)) for each in (PERSON, ONE_RECORD))
            for ours, theirs in zip(mine.rows, plain.rows, strict=True):
                bounds = [[c.bound for c in each.certificates] for each in (ours, theirs)]
                np.testing.assert_allclose(*bounds, rtol=1e-9)
                assert {c.protection.unit for c in ours.certificates} == {Unit.PERSON}
                assert any("all rows of one person" in text for text in ours.certificates[0].assumptions)

    def test_statement_says_person(self):
        plan = plan_noise(PADMM(eta=0.5), opposite_worlds(3, 0.0)[0], 3, TARGET, complete(3), protection=PERSON)
        assert plan.account().protection == PERSON
        assert str(PERSON) == "every person with all their rows (replace-one)"


class TestRefusals:
    def test_every_private_method_is_certified_or_refused(self):
        private = {name: method for name, method in by_name().items() if method.about.is_private}
        of_functions = {name for name, method in private.items() if method.about.units == {Unit.FUNCTION}}
        able = {name for name, method in private.items() if Unit.PERSON in method.about.units}
        assert able == set(CERTIFIED)
        assert set(private) - able - of_functions >= set(REFUSED)

    @pytest.mark.parametrize("name", REFUSED)
    def test_comes_before_anything_is_planned(self, name):
        case = worst_cases(by_name()[name], 0)[0]
        world = case.problems[0]
        network = complete(world.n_agents) if world.n_agents > 1 else None
        with pytest.raises(InputError, match="unit person"):
            plan_noise(case.algorithm, world, case.rounds, TARGET, network, protection=PERSON)

    @pytest.mark.parametrize("has_people", [True, False])
    def test_persons_and_unit_go_together(self, has_people):
        """A run at record level over weighted rows, or at person level over rows of nobody."""
        world = opposite_worlds(3, 0.0)[0]
        if not has_people:
            world = replace(
                world, functions=replace(world.functions, silos=replace(world.functions.silos, people=None))
            )
        with pytest.raises(InputError, match="which person"):
            run_private(
                NoisyGradients(step=0.1),
                world,
                2,
                TARGET,
                SimulatedSampler(0),
                protection=ONE_RECORD if has_people else PERSON,
            )
