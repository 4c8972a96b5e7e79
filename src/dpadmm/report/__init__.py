"""The report of a model: one self-contained HTML page, and figures."""

from dpadmm import _offer

_HOMES = {"report_page": "page"}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
