"""Who is compared: what runs, where, with which settings, and what it guarantees."""

from dataclasses import dataclass, field
from enum import Enum
from itertools import product
from typing import Any


class View(Enum):
    """From whom records are hidden, and in which relation of neighbours; one table each."""

    TRUSTED = "trusted"
    ADD_REMOVE = "trusted, add-remove"
    AGGREGATE = "aggregate"
    EAVESDROPPER = "eavesdropper"


class Scaling(Enum):
    """How a contender's rows are encoded."""

    OWN = "own"
    BOUNDS = "bounds"
    PROFILE = "profile"


class Kind(Enum):
    """Whether settings were stated before, or chosen with the data (which no private user can do)."""

    OURS = "ours"
    DEFAULT = "default"
    TUNED = "tuned"
    NON_PRIVATE = "not private"


@dataclass(frozen=True)
class Contender:
    """A row of the tables.

    worker: the file in workers/ that fits. environment: its requirements file, None for dpadmm's own environment.
    halves: neighbours are add-remove where it runs, so that replace-one costs two steps (group privacy).
    grid: what is tried with the data, beside the settings.
    """

    name: str
    title: str
    worker: str
    view: View
    kind: Kind
    guarantee: str
    settings: dict[str, Any]
    scaling: Scaling = Scaling.BOUNDS
    environment: str | None = None
    halves: bool = False
    grid: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def choices(self) -> list[dict[str, Any]]:
        """Return every combination that is tried; the settings alone without a grid."""
        return [self.settings | dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]

    def is_at_edge(self, chosen: dict[str, Any]) -> bool:
        """Return whether a choice is the first or last value of a scale that was tried."""
        scales = {name: values for name, values in self.grid.items() if len(values) > 2}
        return any(chosen[name] in (values[0], values[-1]) for name, values in scales.items())


APPROXIMATE = "(eps, delta), replace-one"
PURE = "pure eps, replace-one"
PURE_PROFILE = "(eps, delta) by the profile, replace-one"
GROUP = "(eps, delta), replace-one (its add-remove accounting, twice)"
ADDED = "(eps, delta), add-remove"


def _ours(name: str, table: View, guarantee: str, *, has_silos: bool, **options: Any) -> Contender:
    settings = {"words": options, "has_silos": has_silos}
    return Contender(name, "**dpadmm**", "dpadmm_defaults", table, Kind.OURS, guarantee, settings, Scaling.OWN)


OURS = (
    _ours("dpadmm", View.TRUSTED, APPROXIMATE, has_silos=False),
    _ours("dpadmm-add-remove", View.ADD_REMOVE, ADDED, has_silos=False, neighbours="add-remove"),
    _ours("dpadmm-aggregate", View.AGGREGATE, APPROXIMATE, has_silos=True, view="aggregate", colluders=1),
    _ours("dpadmm-eavesdropper", View.EAVESDROPPER, APPROXIMATE, has_silos=True),
)


def _pair(
    name: str, title: str, worker: str, view: View, scaling: Scaling, settings: dict[str, Any],
    grid: dict[str, tuple[Any, ...]], guarantee: str, *, environment: str | None = None, halves: bool = False,
) -> tuple[Contender, Contender]:  # fmt: skip
    """Return a peer with stated settings, and with settings chosen by its held-out loss."""
    suffix = "-profile" if scaling is Scaling.PROFILE else ""
    shared = {"scaling": scaling, "environment": environment, "halves": halves}
    return (
        Contender(f"{name}{suffix}", title, worker, view, Kind.DEFAULT, guarantee, settings, **shared),
        Contender(
            f"{name}-tuned{suffix}", f"{title}, tuned †", worker, view, Kind.TUNED, guarantee, settings, grid=grid,
            **shared,
        ),
    )  # fmt: skip


DIFFPRIVLIB = {"C": 1.0, "norm": 1.0, "max_iter": 100}
DIFFPRIVLIB_GRID = {"C": (1e-4, 1e-3, 0.01, 0.1, 1.0), "norm": (0.3, 1.0), "max_iter": (300,)}
OPACUS = {"lr": 0.5, "epochs": 10, "batch": 256, "clip": 1.0}
OPACUS_GRID = {"lr": (0.1, 0.5, 2.0, 8.0), "epochs": (4, 16, 64), "batch": (4096,)}
DP_GD_GRID = {"rounds": (10, 40, 160, 640), "step": (0.3, 1.0, 3.0, 10.0, 30.0), "clip": (0.1, 0.3, 1.0)}
OBJECTIVE_GRID = {"share": (0.001, 0.005, 0.02, 0.08, 0.3, 0.6), "norm": (0.25, 0.5, 1.0)}
ADMM = {"method": "admm", "rounds": 10, "penalty": 100.0, "clip": 1.0, "noise": "laplace"}
ADMM_GRID = {
    "rounds": (3, 12, 48, 192),
    "penalty": (0.02, 0.1, 0.5, 2.5, 12.0),
    "clip": (0.5, 1.5),
    "noise": ("laplace", "gaussian"),
}


def _pooled_peers(scaling: Scaling) -> tuple[Contender, ...]:
    view = View.TRUSTED
    constant = {"constant": 0.3 if scaling is Scaling.PROFILE else 0.5}
    pure = PURE_PROFILE if scaling is Scaling.PROFILE else PURE
    objective = {"method": "objective", "share": 0.5, "norm": 1.0} | constant
    descent = {"method": "dp-gd", "rounds": 40, "step": 3.0, "clip": 1.0} | constant
    return (
        *_pair("diffprivlib", "diffprivlib LogisticRegression", "diffprivlib_logistic", view, scaling, DIFFPRIVLIB,
               DIFFPRIVLIB_GRID, pure, environment="diffprivlib"),
        *_pair("opacus", "Opacus DP-SGD", "opacus_sgd", view, scaling, OPACUS, OPACUS_GRID, GROUP,
               environment="opacus", halves=True),
        *_pair("objective", "objective perturbation, Gaussian", "own_methods", view, scaling, objective,
               OBJECTIVE_GRID, APPROXIMATE),
        _pair("dp-gd", "DP-GD", "own_methods", view, scaling, descent, DP_GD_GRID, APPROXIMATE)[1],
    )  # fmt: skip


def _silo_peers(scaling: Scaling) -> tuple[Contender, ...]:
    constant = {"constant": 0.3 if scaling is Scaling.PROFILE else 0.5}
    each = {"method": "silo-objectives", "share": 0.5, "norm": 1.0} | constant
    return (
        *_pair("admm", "inexact ADMM of APPFL's authors", "own_methods", View.EAVESDROPPER, scaling, ADMM | constant,
               ADMM_GRID, APPROXIMATE),
        *_pair("silo-objectives", "objective perturbation in every silo, averaged", "own_methods", View.EAVESDROPPER,
               scaling, each, OBJECTIVE_GRID, APPROXIMATE),
    )  # fmt: skip


POOLED = Contender(
    "pooled", "scikit-learn, pooled", "pooled", View.TRUSTED, Kind.NON_PRIVATE, "none: not private", {}
)  # fmt: skip

CONTENDERS = (
    POOLED,
    *OURS,
    *_pooled_peers(Scaling.BOUNDS),
    *_silo_peers(Scaling.BOUNDS),
    *_pair("opacus-add-remove", "Opacus DP-SGD", "opacus_sgd", View.ADD_REMOVE, Scaling.BOUNDS, OPACUS, OPACUS_GRID,
           ADDED, environment="opacus"),
    *_pooled_peers(Scaling.PROFILE),
    *_silo_peers(Scaling.PROFILE),
)  # fmt: skip
