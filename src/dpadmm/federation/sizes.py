"""How large messages can be, by the terms alone: nobody has to read more than that of anybody."""

from dpadmm.federation.agreement import Agreement
from dpadmm.federation.keys import SIGNATURE_BYTES
from dpadmm.federation.messages import LARGEST_BODY

_WORDS, _CONFIRMATION = 4096, 8192
_TEXT_PER_BYTE = 1.4  # base64, with some room
_MOST_ROWS = 4  # vectors of a broadcast


def largest_answer(agreement: Agreement) -> int:
    """Return how many bytes an envelope of a silo can have: a vector, counts, or confirmations for all others."""
    vector = 8 * _TEXT_PER_BYTE * max(agreement.dimension, agreement.n_counts)
    confirmations = _CONFIRMATION * len(agreement.participants)
    return SIGNATURE_BYTES + min(LARGEST_BODY, int(_WORDS + max(vector, confirmations)))


def largest_request(agreement: Agreement) -> int:
    """Return how many bytes an envelope of the coordinator can have: terms, broadcasts, relayed envelopes of silos."""
    relayed = len(agreement.participants) * largest_answer(agreement)
    own = 8 * _MOST_ROWS * max(agreement.dimension, agreement.n_counts)
    body = 2 * len(agreement.as_json().encode()) + _TEXT_PER_BYTE * (own + relayed)
    return SIGNATURE_BYTES + min(LARGEST_BODY, int(_WORDS + body))
