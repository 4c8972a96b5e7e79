"""Certificates that differ in what a test is about."""

from dataclasses import fields, replace
from typing import Any

from dpadmm.privacy.protection import Certificate, Protection


def changed(certificate: Certificate, **changes: Any) -> Certificate:
    """Return a certificate with other fields, those of its protection included."""
    about = {each.name: changes.pop(each.name) for each in fields(Protection) if each.name in changes}
    return replace(certificate, protection=replace(certificate.protection, **about), **changes)
