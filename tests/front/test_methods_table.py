"""docs/methods-table.md is true: what it says runs is run with secure noise, and all else is refused with a reason."""

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
_OWN = {"fp-lasso": {"loss": "squared", "regulariser": ElasticNet(l1=0.01)}}


def runs(name: str, unit: Unit, *, is_planned: bool) -> bool:
    """Return whether the page says so."""
    return unit in _METHODS[name].units and not (is_planned and unit is Unit.FUNCTION)


def page() -> str:
    """Return the page."""
    lines = []
    for name, about in _METHODS.items():
        proof = f"[{about.certificate}](proofs/{about.certificate.lower()}.md)"
        cells = [f"`{name}`", "pure" if about.is_pure else ""]
        for unit in _UNITS:
            forms = [form for form in ("planned", "stated") if runs(name, unit, is_planned=form == "planned")]
            cells.append(" and ".join(forms) or f"no ({proof})")
        lines.append(f"| {' | '.join(cells)} |")
    return _PAGE.format("\n".join(lines))


_PAGE = """# What runs for whom

Every private method by name with `dpadmm.run`, with secure noise: *planned* (without rounds and numbers) or *stated*
(with your own). A test makes this table and runs all of it; what is not in it is refused before anything is computed
or spent.

| method | epsilon | record | person | user | function |
|---|---|---|---|---|---|
{}

A cell with *no* names the theorem that is missing there:

* **person** (all rows of a person, `(X, y, persons)` for every silo): C2 is about an objective that one record changes,
  so that its Hessian changes by a matrix of rank one. Batches (C4, C9) draw single rows, and each agent of `fp-lasso`
  has one (C5).
* **user** (a whole silo): C1, C2, C4 and most of C9 bound what one record of n moves. Of a silo all of whose records
  change the bound would be the whole gradient; C5, C6 and the sum of gradients (C9) are proved for it.
* **function** (any function of an agent within `gradient_distance`): C3 alone is. Nothing public says how far apart
  functions are, so the numbers are yours.
* `fp-general` takes all records in one silo, `fp-lasso` one record in each; graph methods take at least two silos.
  The view is the strongest that the method is certified against, unless you name one.

```python
import numpy as np
import dpadmm

X = np.random.default_rng(0).uniform(-0.5, 0.5, (300, 3))
silos = [(X[part::3], np.sign(X[part::3, 0])) for part in range(3)]
planned = dpadmm.run("ps-admm", silos, epsilon=1.0, delta=1e-5)
own = {{"rounds": 20, "eta": 0.1, "mu": 0.01}}
falling = dpadmm.run("p-admm", silos, epsilon=1.0, delta=1e-5, schedule="geometric:0.95", **own)
pure = dpadmm.run("dp-dgd", silos, epsilon=1.0, rounds=10, step=0.5, decay=0.9)
own = {{"rounds": 5, "rho": 0.5, "mu": 0.1}}
whole = dpadmm.run("consensus", silos, epsilon=1.0, unit="function", gradient_distance=0.1, **own)
falling.plot_privacy("spent.svg")  # dynamic zCDP: rho of every silo, round by round
print(planned, falling, pure, whole, sep="\\n")
```
"""


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
