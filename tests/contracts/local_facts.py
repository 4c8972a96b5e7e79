"""Certificates from facts by name: what belongs to the agent's function goes into a `LocalFunction`."""

import math
from dataclasses import fields

from dpadmm.privacy.certificates.local import LocalFunction
from dpadmm.privacy.protection import Protection

_PEOPLE = {"unit", "relation", "records_per_person", "silos_per_person"}
_LOCAL = {each.name for each in fields(LocalFunction)} | _PEOPLE


def local_function(**facts):
    """Return the public side of an agent's function; who is protected may be said by name."""
    people = {name: facts.pop(name) for name in _PEOPLE & facts.keys()}
    return LocalFunction(protection=Protection(**people), **facts)


def of(certify, **facts):
    """Return `certify` of these facts; a bound and a number of records that no formula reads may be left out."""
    own = {name: value for name, value in facts.items() if name in _LOCAL}
    local = local_function(**{"gradient_bound": math.inf, "n_records": 1000} | own)
    return certify(local, **{name: value for name, value in facts.items() if name not in _LOCAL})
