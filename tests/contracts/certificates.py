"""Certificates that differ in what a test is about."""

from collections import Counter
from dataclasses import fields, replace
from typing import Any

from dpadmm.privacy.accounting import compose
from dpadmm.privacy.protection import Certificate, Protection


def changed(certificate: Certificate, **changes: Any) -> Certificate:
    """Return a certificate with other fields, those of its protection included."""
    about = {each.name: changes.pop(each.name) for each in fields(Protection) if each.name in changes}
    return replace(certificate, protection=replace(certificate.protection, **about), **changes)


def by_agent(releases):
    """Return what the records of each agent's silo pay: its own releases, and those that reach everybody."""
    listed, known, found = list(releases), {}, {}
    everyone = [release for release in listed if release.agent < 0]
    for agent in dict.fromkeys(release.agent for release in listed):
        own = [release for release in listed if release.agent == agent and agent >= 0]
        costs = frozenset(Counter(release.cost for release in own for _ in range(release.count)).items())
        if costs not in known:  # composing random samples takes a while
            known[costs] = compose([*own, *everyone])
        found[agent] = known[costs]
    return found
