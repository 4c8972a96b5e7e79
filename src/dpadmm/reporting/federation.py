"""The report of a federation: the same page as for any private model, with one section per silo."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from dpadmm import __version__
from dpadmm.algorithms.registry import by_name
from dpadmm.datasets.schema import Schema
from dpadmm.engines.federation.outcome import FederationOutcome, SiloOutcome
from dpadmm.privacy.records import Origin
from dpadmm.reporting.model import Custody, Guarantee, MethodChoice, ReleasedModel, RoundCurve, SiloFacts, Wiring
from dpadmm.reporting.outcome import now
from dpadmm.reporting.page import report_page

_LOSS_WORDS = {
    "logistic": "logistic regression",
    "smoothed-hinge": "linear support vector machine (smoothed hinge)",
    "huber": "linear regression (Huber loss)",
}


def federation_page(outcome: FederationOutcome, schema: Schema, custody: Custody = Custody.FEDERATED) -> str:
    """Return the page as HTML text: every figure is public, an agreed term or a function of messages.

    A rehearsal has all tables on one machine: its `custody` is `Custody.ONE_PLACE`.
    """
    html = report_page(federation_model(outcome, schema, custody), place="federation.json")
    head, end, tail = html.rpartition("</main>")
    return f"{head}{_sections(outcome.silos, custody)}{end}{tail}"


def federation_model(outcome: FederationOutcome, schema: Schema, custody: Custody = Custody.FEDERATED) -> ReleasedModel:
    """Return the facts about a federation's model in the form the report takes."""
    terms, silos = outcome.agreement, outcome.silos
    worst = max(silos, key=lambda silo: silo.epsilon)
    ks = tuple(range(1, outcome.rounds + 1))
    return ReleasedModel(
        title=f"Federation {terms.run}",
        created=now(),
        package=f"dpadmm {__version__}",
        run=terms.run,
        loss=_LOSS_WORDS.get(terms.loss, terms.loss),
        coefficients=tuple(outcome.tail_average.tolist()),
        schema=schema,
        silos=tuple(SiloFacts(name=silo.name, records=silo.records) for silo in silos),
        wiring=_wiring(outcome),
        guarantee=Guarantee(
            epsilon=worst.epsilon,
            delta=terms.delta,
            unit="record",
            relation="replace-one",
            view=worst.view,
            strength=worst.strength,
            certificates=(worst.certificate,),
            assumptions=outcome.assumptions,
            records_per_person=terms.records_per_person,
            silos_per_person=terms.silos_per_person,
            origin=Origin.SECURE if outcome.is_private_release else Origin.SIMULATED,
            no_claim="figures of papers are not part of a federation's terms",
        ),
        choice=MethodChoice(
            method=terms.method,
            summary=by_name()[terms.method].about.summary,
            rounds=outcome.rounds,
            settings=(
                *((name, f"{value:.6g}") for name, value in terms.settings),
                ("ridge", f"{terms.mu:.3g}"),
                ("released", "mean of the estimates of the second half of the rounds"),
                ("digest of the terms", terms.digest),
            ),
            reasons=("The terms were fixed and approved by every silo before the run.",),
            warnings=tuple(f"{name} left during the run; the rest went on without it." for name in terms.left),
            is_hopeless=False,
        ),
        noise=(),
        history=_history(outcome, ks),
        custody=custody,
    )


def _wiring(outcome: FederationOutcome) -> Wiring:
    terms = outcome.agreement
    if outcome.is_graph:
        return Wiring(words=f"{len(terms.edges)} pairs of silos talk, through a relay", edges=terms.edges)
    return Wiring(words="every silo with a coordinator", has_coordinator=True)


def _history(outcome: FederationOutcome, ks: tuple[int, ...]) -> tuple[RoundCurve, ...]:
    if len(ks) < 2:
        return ()
    steps = outcome.estimates[1:] - outcome.estimates[:-1]
    moved = tuple(math.sqrt(float(step @ step)) for step in steps)
    meaning = "how far the public estimate moved since the round before"
    return (RoundCurve(name="movement", meaning=meaning, rounds=ks[1:], values=moved),)


def _sections(silos: Sequence[SiloOutcome], custody: Custody) -> str:
    kept = "its process kept them" if custody is Custody.FEDERATED else "rehearsed on one machine"
    return "".join(_section(silo, kept) for silo in silos)


def _section(silo: SiloOutcome, kept: str) -> Markup:
    rows = (
        ("Records", f"{silo.records} (a public number; {kept})"),
        ("Releases", f"{silo.releases}"),
        ("Cost to a record", f"ε = {silo.epsilon:.6g} at δ = {silo.delta:.3g}, against the {silo.view}"),
        ("Proof", f"{silo.certificate}; {silo.strength}"),
        ("Sensitivity", f"{silo.sensitivity:.6g} in its first release"),
        ("Noise", f"{silo.noise_level:.6g} there; at least {silo.least_noise:.6g} times the sensitivity throughout"),
    )
    listed = Markup("").join(Markup("<dt>{}</dt><dd>{}</dd>").format(*row) for row in rows)
    return Markup('<section class="silo"><h2>Silo {}</h2><dl>{}</dl></section>\n').format(silo.name, listed)
