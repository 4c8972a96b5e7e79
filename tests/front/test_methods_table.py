"""docs/methods-table.md is true: what it says runs is run with secure noise, and all else is refused with a reason."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpadmm
from dpadmm.errors import InputError
from dpadmm.methods.base import by_name
from dpadmm.methods.fixed_point.general import Constraint
from dpadmm.privacy.protection import Unit
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.problems.silos import Silos

_UNITS = (Unit.RECORD, Unit.PERSON, Unit.USER, Unit.FUNCTION)
_METHODS = {name: method.about for name, method in by_name().items() if method.about.is_private}
_RNG = np.random.default_rng(0)
_SILOS = [(X, np.sign(X[:, 0])) for X in _RNG.uniform(-0.5, 0.5, (3, 40, 3))]
_PEOPLE = [
    (np.vstack([X, X[::-1]]), np.concatenate([y, y[::-1]]), 40 * i + np.concatenate([np.arange(40), np.arange(40)]))
    for i, (X, y) in enumerate(_SILOS)
]
_POOLED = [(np.vstack([X for X, _ in _SILOS]), np.concatenate([y for _, y in _SILOS]))]
_USERS = Silos.one_record_each(_POOLED[0][0], _POOLED[0][0][:, 1], row_norm=1.0)
_STATED: dict[str, dict[str, Any]] = {
    "p-admm": {"eta": 0.5, "mu": 0.1, "schedule": "geometric:0.9"},
    "p-admm-recycled": {"eta": 0.5},
    "dvp": {"eta": 0.5, "mu": 0.1},
    "m-admm": {"eta": 0.5, "mu": 0.1},
    "r-admm": {"eta": 0.5, "mu": 0.1},
    "fp-centralised": {"gamma": 0.5, "participation": 2},
    "fp-federated": {"gamma": 0.5, "sampled": 2},
    "fp-walk": {"gamma": 0.5},
    "fp-coordinator": {"gamma": 0.5},
    "fp-general": {"gamma": 0.5, "constraint": Constraint(2 * np.eye(3), -np.eye(3), np.zeros(3))},
    "fp-lasso": {"gamma": 0.5, "clip": 0.1},
    "dp-cd": {"step": 0.5},
    "consensus": {"rho": 0.5, "mu": 0.1, "schedule": "cao:0.5"},
    "consensus-gaussian": {"rho": 0.5, "mu": 0.1},
    "ps-admm": {"rho": 0.5, "step": 0.2, "inner_steps": 2, "batch": 5},
    "dp-sgd": {"step": 0.5, "batches": 5},
    "dp-prox-sgd": {"step": 0.5, "batch": 5, "clip": 0.5},
    "dp-gd": {"step": 0.5},
    "noisy-gradients": {"step": 0.5},
    "noisy-gradients-preconditioned": {"share": 0.2},
    "dp-gd-preconditioned": {"momentum": 0.5},
    "dp-dgd": {"step": 0.5, "decay": 0.9},
    "linearised-admm": {"rho": 0.5},
    "output-perturbation": {"rounds": 1, "mu": 0.1},
}
_PAGE = Path(__file__).parents[2] / "docs" / "methods-table.md"
_OWN = {"fp-lasso": {"loss": "squared", "regulariser": ElasticNet(l1=0.01)}}


def runs(name: str, unit: Unit, *, is_planned: bool) -> bool:
    """Return whether the page says so."""
    return unit in _METHODS[name].units and not (is_planned and unit is Unit.FUNCTION)


def page() -> str:
    """Return the page with the rows that it must have."""
    lines = []
    for name, about in _METHODS.items():
        proof = f"[{about.certificate}](proofs/{about.certificate.lower()}.md)"
        cells = [f"`{name}`", "pure" if about.is_pure else ""]
        for unit in _UNITS:
            forms = [form for form in ("planned", "stated") if runs(name, unit, is_planned=form == "planned")]
            cells.append(" and ".join(forms) or f"no ({proof})")
        lines.append(f"| {' | '.join(cells)} |\n")
    head, rows, rest = re.split(r"(?<=\|---\|\n)((?:\|.*\n)+)", _PAGE.read_text(encoding="utf-8"))
    assert rows
    return f"{head}{''.join(lines)}{rest}"


def test_the_page_is_what_the_methods_say(snapshot):
    assert _METHODS.keys() == _STATED.keys()
    snapshot("../../docs/methods-table.md", page())


@pytest.mark.parametrize("name", _METHODS)
def test_what_the_table_says_runs_is_run_with_secure_noise_and_all_else_refused(name):
    about = _METHODS[name]
    for unit in _UNITS:
        silos: Any = _USERS if name == "fp-lasso" else _PEOPLE if unit is Unit.PERSON else _SILOS
        if name == "fp-general":
            silos = [tuple(np.concatenate(parts) for parts in zip(*silos, strict=True))]
        asked = {"epsilon": 2.0, "delta": None if about.is_pure else 1e-5, "unit": unit.value} | _OWN.get(name, {})
        if unit is Unit.FUNCTION:
            asked["gradient_distance"] = 0.1
        for numbers in ({}, {"rounds": 3} | _STATED[name]):
            if not runs(name, unit, is_planned=not numbers):
                with pytest.raises(InputError, match=r"unit|function") as refused:
                    dpadmm.run(name, silos, **asked, **numbers)
                assert refused.value.setting == "unit"
                continue
            done = dpadmm.run(name, silos, **asked, **numbers)
            assert done.is_private_release
            assert done.account.protection.unit is unit
            assert 1.99 < done.epsilon <= 2.0
            assert done.model.shape == (3,)
            assert np.isfinite(done.model).all()
