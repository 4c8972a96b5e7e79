"""A durable record of what was released from a data set, with a hard stop at its privacy budget.

`Ledger.reserve` is called before noise is drawn and returns once the spending is on disk, so that whatever happens
afterwards, what is recorded is never less than what was released. See `docs/ledger.md`.
"""

from dpadmm.privacy.ledger.ledger import Ledger, Origin
from dpadmm.privacy.ledger.meter import Budget, Composed, Composer
from dpadmm.privacy.ledger.statement import AgentSpending, Receipt, Statement
from dpadmm.privacy.ledger.tally import Holding, Terms

__all__ = [
    "AgentSpending",
    "Budget",
    "Composed",
    "Composer",
    "Holding",
    "Ledger",
    "Origin",
    "Receipt",
    "Statement",
    "Terms",
]
