"""One budget for everything that is ever learned from a data set: two models, one score, and a refusal.

The holder of the data creates the ledger once, with the total that may ever be spent. Each fit is recorded before its
noise is drawn; a fit that would exceed the budget is refused, and nothing is computed.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from dpadmm.errors import BudgetError
from dpadmm.estimators import PrivateLinearSVC, PrivateLogisticRegression, ledger_data
from dpadmm.evaluation import private_score
from dpadmm.privacy.ledger import Budget, Ledger, LedgerStatement

DELTA = 1e-6


def main(n_records: int = 5_000) -> LedgerStatement:
    """Spend a budget of 1.5 step by step; returns the ledger's final statement."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n_records, 5))
    y = np.where(X @ (3, -2, 1, 0, 0) + 0.5 * rng.standard_normal(n_records) > 0, "yes", "no")
    shared = {"delta": DELTA, "feature_bounds": (-1, 1), "classes": ("no", "yes")}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "clinic.ledger"
        with Ledger.create(path, ledger_data(X, y), Budget(epsilon=1.5, delta=DELTA)) as opened:
            first = PrivateLogisticRegression(epsilon=1.0, ledger=opened, **shared).fit(X, y)
            tell("logistic regression, epsilon 1", opened)
            PrivateLinearSVC(epsilon=0.8, ledger=opened, **shared).fit(X, y)
            tell("support vector machine, epsilon 0.8", opened)
            score = private_score(first, X, y, epsilon=0.1, delta=DELTA, ledger=opened)
            tell(f"accuracy of the first is {score.value:.3f} +- {score.standard_error:.3f}, epsilon 0.1", opened)
            try:
                PrivateLogisticRegression(epsilon=1.0, ledger=opened, **shared).fit(X, y)
            except BudgetError as refusal:
                print(f"one more model, epsilon 1, is refused: {refusal}")
            return opened.statement()


def tell(what: str, opened: Ledger) -> None:
    """Print what is spent so far."""
    print(f"{what}: {opened.statement().spent_epsilon:.3f} of 1.5 spent")


if __name__ == "__main__":
    main()
