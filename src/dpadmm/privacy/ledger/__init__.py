"""A durable record of what was released from a data set, with a hard stop at its privacy budget.

`ConfirmedLedger.reserve` is called before noise is drawn and returns once the spending is on disk, so that whatever
happens afterwards, what is recorded is never less than what was released. See `docs/ledger.md`.
"""

from dpadmm.privacy.ledger.fingerprints import SiloColumns
from dpadmm.privacy.ledger.ledger import ConfirmedLedger, Ledger, Transaction, open_for_reading
from dpadmm.privacy.ledger.profiles import KeptProfile, ProfiledColumns
from dpadmm.privacy.ledger.spending import Budget, LedgerStatement, Receipt, RunSpending, SiloSpending, Spending

__all__ = [
    "Budget",
    "ConfirmedLedger",
    "KeptProfile",
    "Ledger",
    "LedgerStatement",
    "ProfiledColumns",
    "Receipt",
    "RunSpending",
    "SiloColumns",
    "SiloSpending",
    "Spending",
    "Transaction",
    "open_for_reading",
]
