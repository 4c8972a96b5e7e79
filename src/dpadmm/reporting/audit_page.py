"""The audit of all methods on one page: self-contained HTML, no script, nothing fetched from outside."""

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dpadmm import __version__
from dpadmm.audit.audit import AuditResult
from dpadmm.audit.catalogue import described
from dpadmm.audit.estimates import How
from dpadmm.errors import InputError
from dpadmm.reporting.trade_off_plot import small_trade_off

_HOW = {How.GDP: "Gaussian fit", How.FAMILY: "fit of the noise level", How.CLOPPER_PEARSON: "Clopper-Pearson"}


@dataclass(frozen=True)
class MethodSummary:
    """One method on the page: its results, the strongest of them, and a picture of that."""

    name: str
    words: str
    certificate: str
    results: tuple[AuditResult, ...]
    strongest: AuditResult
    bars: Markup
    picture: Markup


def summaries(results: Sequence[AuditResult]) -> tuple[MethodSummary, ...]:
    """Group results by method, in the order in which they came."""
    groups: dict[str, list[AuditResult]] = {}
    for result in results:
        groups.setdefault(result.method, []).append(result)
    return tuple(_summary(name, tuple(group)) for name, group in groups.items())


def _summary(name: str, results: tuple[AuditResult, ...]) -> MethodSummary:
    strongest = max(results, key=lambda result: result.tightness)
    words, certificate = described(name)
    return MethodSummary(name, words, certificate, results, strongest, _bars(strongest), small_trade_off(strongest))


def _bars(result: AuditResult) -> Markup:
    """Return the audited part of the certified epsilon as a bar; beyond the mark is beyond the certificate."""
    share = min(result.tightness, 1.1) / 1.1
    title = f"{result.method}: audited {result.tightness:.0%} of the certified epsilon"
    kind = "over" if result.is_violation else "within"
    return Markup(
        '<svg class="bar" viewBox="0 0 220 16" preserveAspectRatio="none" role="img" aria-label="{t}">'
        "<title>{t}</title>"
        '<rect class="room" x="0" y="3" width="200" height="10"/>'
        '<rect class="{k}" x="0" y="3" width="{w:.1f}" height="10"/>'
        '<line class="mark" x1="200" x2="200" y1="0" y2="16"/></svg>'
    ).format(t=title, k=kind, w=220 * share)


def audit_page(results: Sequence[AuditResult], confidence: float) -> str:
    """Return the page. confidence: at which all bounds hold together.

    The page shows, method by method, the certified epsilon, what the strongest attack demonstrates, what the paper
    claims where it claims anything, and every attack in a table.
    """
    if not results:
        raise InputError("There is nothing to show: no audit result was given. Audit at least one method.")
    environment = Environment(
        loader=PackageLoader("dpadmm.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["how"] = lambda how: _HOW[how]
    environment.filters["number"] = _number
    return environment.get_template("audit.html").render(
        version=__version__,
        results=results,
        methods=summaries(results),
        violations=[result for result in results if result.is_violation],
        confidence=confidence,
        runs=max(result.runs for result in results),
        seconds=sum(result.seconds for result in results),
    )


def _number(value: float) -> str:
    return "infinite" if value == float("inf") else f"{value:.3g}"
