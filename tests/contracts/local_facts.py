"""Certificates from facts by name: what belongs to the agent's function goes into a `LocalFunction`."""

import math
from dataclasses import fields

from dpadmm.privacy.certificates.local import LocalFunction

_LOCAL = {each.name for each in fields(LocalFunction)}


def of(certify, **facts):
    """Return `certify` of these facts; a bound and a number of records that no formula reads may be left out."""
    own = {name: value for name, value in facts.items() if name in _LOCAL}
    local = LocalFunction(**{"gradient_bound": math.inf, "n_records": 1000} | own)
    return certify(local, **{name: value for name, value in facts.items() if name not in _LOCAL})
