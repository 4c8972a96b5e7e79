"""What the estimators share: parameters, the order of a fit, and what is kept afterwards."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dpadmm.datasets.encoding import RowEncoding
from dpadmm.engines.history import PublicRound
from dpadmm.errors import InputError
from dpadmm.estimators.bookkeeping import check_ledger, opened, protection_of
from dpadmm.estimators.notices import (
    AssumedBoundsWarning,
    HopelessPlanWarning,
    LargeDeltaWarning,
    NoLedgerWarning,
    PipelineWarning,
    SimulatedNoiseWarning,
    no_ledger_words,
    warn_once,
)
from dpadmm.estimators.statement import PrivacyStatement
from dpadmm.estimators.training import Wishes
from dpadmm.estimators.validation import Layout, boolean, new_data
from dpadmm.planning.plan import Outcome, Plan, carry_out
from dpadmm.planning.words import hopeless_words, large_delta_words
from dpadmm.privacy.ledger import Ledger
from dpadmm.privacy.protection import Unit
from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.losses import Loss
from dpadmm.problems.silos import Silos


class PrivateLinearModel(BaseEstimator):  # type: ignore[misc]
    """A linear model of encoded rows, released under differential privacy."""

    coef_: Floats
    intercept_: Any
    privacy_: PrivacyStatement
    plan_: Plan
    history_: tuple[tuple[PublicRound, ...], ...]
    encoding_: RowEncoding
    n_features_in_: int

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        alpha: float | None = None,
        l1_ratio: float = 0.0,
        fit_intercept: bool = True,
        feature_bounds: Any = None,
        row_norm: float | None = None,
        unit: str | None = None,
        view: str | None = None,
        algorithm: str = "auto",
        topology: Any = None,
        max_records_per_person: int | None = None,
        max_silos_per_person: int | None = None,
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.feature_bounds = feature_bounds
        self.row_norm = row_norm
        self.unit = unit
        self.view = view
        self.algorithm = algorithm
        self.topology = topology
        self.max_records_per_person = max_records_per_person
        self.max_silos_per_person = max_silos_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _wishes(self) -> Wishes:
        """Return the parameters as types; bad ones are refused here, before the data are looked at."""
        check_ledger(self.ledger)
        if self.random_state is not None and self.ledger is not None:
            raise InputError(
                "random_state makes the noise reproducible, so the result is no release and cannot be recorded in a "
                "ledger. Leave random_state out to release, or ledger out to simulate."
            )
        boolean("fit_intercept", self.fit_intercept)
        return Wishes.of(self.get_params(deep=False), protection_of(self.ledger))

    def _train(
        self, wishes: Wishes, loss: Loss, X: Matrix, y: Any, targets: Sequence[Floats], groups: Any, notes: list[str]
    ) -> tuple[Outcome, RowEncoding]:
        """Fit one problem per vector of targets and keep what is public; returns the released models.

        Warnings come before anything is spent, so that whoever turns them into errors loses nothing.
        """
        encoding = RowEncoding.of(X.shape[1], self.feature_bounds, self.row_norm, bool(self.fit_intercept))
        notes = [f"before training, {encoding.describe()}; this map is public", *notes]
        if wishes.protection.unit is Unit.USER:
            notes.append("every group holds all records of one user")
        layout = Layout.of(groups, X.shape[0])
        with opened(self.ledger, X, y, groups) as ledger:
            if ledger is not None:
                ledger.check_protection(wishes.protection)
            plan = wishes.plan(loss, layout.sizes, encoding.dimension, row_norm=1.0, problems=len(targets))
            self._warn(wishes, encoding, plan, X.shape[0], has_groups=groups is not None)
            rows = encoding.encode(X)
            parts = [rows[part] for part in layout.rows]
            silos = [Silos.from_parts(parts, [y[part] for part in layout.rows], row_norm=1.0) for y in targets]
            done = carry_out(plan, silos, wishes.sampler, ledger, progress=False)
        from dpadmm.algorithms.claimed import claimed_of_plan  # the papers' theorems are needed for display only

        claimed = claimed_of_plan(plan.algorithm, plan.setting, done.noise_plan, plan.task.target.delta)[0]
        self.encoding_ = encoding
        self.plan_ = plan
        self.history_ = done.histories
        self.privacy_ = PrivacyStatement.of(
            done.statement,
            tuple(done.noise_plan.by(range(plan.task.n_silos))),
            delta=wishes.target.delta,
            origin=done.origin,
            assumptions=notes,
            claimed=claimed if plan.times == 1 else (),  # papers speak of one problem
            problems=plan.times,
        )
        return done, encoding

    def _warn(self, wishes: Wishes, encoding: RowEncoding, plan: Plan, n_records: int, *, has_groups: bool) -> None:
        """Say what the user should know; every word of it is public."""
        from dpadmm.estimators.surroundings import leak_around  # which knows this class

        if wishes.is_simulated:
            self._notify(
                "random_state is set, so the noise is simulated and anyone with the seed can take it off. THE RESULT "
                "IS NO PRIVATE RELEASE. Leave random_state out to release.",
                SimulatedNoiseWarning,
            )
        if encoding.is_assumed:
            self._notify(
                f"neither feature_bounds nor row_norm is given; {encoding.describe()}. State public bounds for a "
                "better model; they must not be read off the data.",
                AssumedBoundsWarning,
            )
        if plan.is_hopeless:
            self._notify(hopeless_words(plan.task, plan.expected), HopelessPlanWarning)
        if wishes.target.delta * n_records > 1:
            self._notify(large_delta_words(wishes.target.delta, n_records), LargeDeltaWarning)
        if self.ledger is None and not wishes.is_simulated:
            target = wishes.target
            words = no_ledger_words(target.epsilon, target.delta, wishes.protection, has_groups=has_groups)
            warn_once(f"{type(self).__name__}: {words}", NoLedgerWarning, depth=4)
        leak = leak_around()
        if leak is not None:
            warn_once(f"{type(self).__name__}: {leak.text}", PipelineWarning, depth=4, topic=leak.topic)

    def _notify(self, text: str, kind: type[Warning], depth: int = 5) -> None:
        """Warn the caller of fit, `depth` frames above the warning itself."""
        warnings.warn(f"{type(self).__name__}: {text}", kind, stacklevel=depth)

    def _linear(self, X: Any) -> Floats:
        """Return `X coef' + intercept` (n, problems), rows outside the public bounds brought within them first."""
        check_is_fitted(self)
        rows = self.encoding_.admit(new_data(self, X))
        coef = np.atleast_2d(self.coef_)
        return np.asarray(rows @ coef.T) + np.atleast_1d(self.intercept_)

    def __getstate__(self) -> dict[str, Any]:
        """Keep an open ledger as the path of its file: a copy opens that again for its next fit, or cannot fit.

        One with an accountant of its own is opened again when the copy is made, since a path would lose the rules.
        """
        state = dict(super().__getstate__())
        ledger = state.get("ledger")
        if isinstance(ledger, Ledger) and not ledger.has_own_accountant:
            state["ledger"] = ledger.path
        return state

    def __sklearn_tags__(self) -> Any:
        """Accepts sparse tables."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
