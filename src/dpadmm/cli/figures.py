"""Certified and claimed figures of a method at some noise: as one JSON object, and as a table side by side."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from rich.console import Console
from rich.table import Table

from dpadmm.cli.methods import plain
from dpadmm.errors import DpadmmError
from dpadmm.privacy.accounting import Statement
from dpadmm.privacy.claims import ClaimedEpsilon, ClaimedFigure, ClaimedSensitivity
from dpadmm.privacy.methods import Family, Levels, Method
from dpadmm.privacy.protection import Certificate, Unit

CLAIMED = "CLAIMED figures are what a paper prints, evaluated as printed. Nothing certified is computed from them."
_MEASURES = {
    Family.GAUSSIAN: "standard deviation of Gaussian noise",
    Family.LAPLACE: "rate of noise with density proportional to exp(-rate ||v||)",
}


@dataclass(frozen=True)
class Sensitivity:
    """The bounds of the releases under one theorem, in order of rounds."""

    theorem: str
    bounds: tuple[float, ...]
    log_jacobians: tuple[float, ...]


@dataclass(frozen=True)
class Figures:
    """All that is said about a method at some noise."""

    method: Method
    noise: Levels
    delta: float
    statement: Statement
    epsilon: float
    sensitivities: tuple[Sensitivity, ...]
    claims: tuple[ClaimedEpsilon, ...]
    claimed_sensitivity: ClaimedSensitivity | None
    no_claim: str | None


def figures(method: Method, noise: Levels, delta: float) -> Figures:
    """Return what is certified and what is claimed at this noise."""
    said = method.statement(noise)
    claims, bound, reason = _claimed(method, noise, delta)
    return Figures(
        method=method,
        noise=noise,
        delta=delta,
        statement=said,
        epsilon=said.curve.epsilon(delta),
        sensitivities=_sensitivities(method.certificates()),
        claims=claims,
        claimed_sensitivity=bound,
        no_claim=reason,
    )


def _claimed(
    method: Method, noise: Levels, delta: float
) -> tuple[tuple[ClaimedEpsilon, ...], ClaimedSensitivity | None, str | None]:
    try:
        claims, bound = method.claimed_epsilon(noise, delta), method.claimed_sensitivity()
    except DpadmmError as error:
        return (), None, str(error)
    except ArithmeticError:
        return (), None, "its formula leaves the range of floating-point numbers here"
    return (claims, bound, None) if claims else ((), None, "no paper studied here claims a figure for this")


def _sensitivities(certificates: Iterable[Certificate]) -> tuple[Sensitivity, ...]:
    found: dict[str, list[Certificate]] = {}
    for certificate in certificates:
        found.setdefault(certificate.theorem, []).append(certificate)
    return tuple(
        Sensitivity(theorem, tuple(c.bound for c in group), tuple(c.log_jacobian for c in group))
        for theorem, group in found.items()
    )


def number(value: float) -> float | str:
    """Return a number as strict JSON knows it; an infinite one in words."""
    return value if math.isfinite(value) else "infinite"


def shown(value: float) -> str:
    """Return a number as the tables print it: six digits."""
    return f"{value:.6g}" if math.isfinite(value) else "infinite"


def as_json(shown_figures: Figures) -> dict[str, Any]:
    """Return the figures as plain values."""
    f, said = shown_figures, shown_figures.statement
    return {
        "method": f.method.name,
        "settings": {each.name: plain(getattr(f.method, each.name)) for each in fields(f.method)},
        "noise": {
            "measures": _MEASURES[f.method.family],
            "on": f.method.noised,
            "rounds": list(f.method.private_rounds()),
            "levels": f.noise.tolist(),
        },
        "certified": {
            "epsilon": number(f.epsilon),
            "delta": f.delta,
            **said.protection.content(),
            "strength": said.strength.value,
            "certificates": list(said.theorems),
            "assumptions": list(said.assumptions),
            "sensitivities": [
                {"certificate": s.theorem, "bounds": list(s.bounds), "log_jacobians": list(s.log_jacobians)}
                for s in f.sensitivities
            ],
        },
        "claimed": [claim_json(claim) for claim in f.claims],
        "claimed_sensitivity": None if f.claimed_sensitivity is None else claim_json(f.claimed_sensitivity),
        "no_claim": f.no_claim,
    }


def claim_json(claim: ClaimedEpsilon | ClaimedSensitivity) -> dict[str, Any]:
    """Return a claimed figure with all that must stand beside it."""
    figure = {claim.symbol: number(claim.value)}
    delta = {"delta": claim.delta} if isinstance(claim, ClaimedEpsilon) else {}
    return figure | delta | label_json(claim)


def label_json(claim: ClaimedFigure) -> dict[str, Any]:
    """Return the label of a claim as plain values."""
    return {
        "label": claim.label,
        "paper": claim.paper.value,
        "theorem": claim.theorem,
        "provenance": claim.provenance.value,
        "conditions_hold": claim.conditions_hold,
        "conditions": [{"text": each.text, "holds": each.holds} for each in claim.conditions],
    }


def print_figures(f: Figures) -> None:
    """Print the table and what belongs to it."""
    console = Console(highlight=False)
    console.print(noise_words(f), soft_wrap=True)
    console.print(_table(f))
    said = f.statement
    hidden = said.protection
    people = f"; a person has {hidden.people}" if hidden.unit is Unit.RECORD else ""
    console.print(f"Protects {hidden} from the {hidden.view.value}{people}.", soft_wrap=True)
    console.print("Assumptions of the certified figure:")
    for assumption in said.assumptions:
        console.print(f"  - {assumption}", soft_wrap=True, markup=False)
    if f.no_claim is not None:
        console.print(f"CLAIMED: none ({f.no_claim}).", soft_wrap=True, markup=False)
        return
    for claim in f.claims:
        for condition in claim.failed_conditions:
            console.print(f"CLAIMED, {claim.theorem}: not met: {condition.text}", soft_wrap=True, markup=False)
    console.print(CLAIMED, soft_wrap=True)


def noise_words(f: Figures) -> str:
    """Say the noise in a line."""
    rounds, first, last = len(f.noise), float(f.noise[0]), float(f.noise[-1])
    course = shown(first) if first == last else f"{shown(first)} in the first, {shown(last)} in the last"
    return f"{f.method.title}: {_MEASURES[f.method.family]} on {f.method.noised}: {course} ({rounds} private round(s))"


def _table(f: Figures) -> Table:
    table = Table(title=f"{f.method.title}: certified and claimed", title_justify="left")
    table.add_column("")
    table.add_column("CERTIFIED", style="bold")
    for _ in f.claims:
        table.add_column("CLAIMED", style="yellow")
    table.add_row("epsilon", shown(f.epsilon), *(shown(claim.value) for claim in f.claims))
    table.add_row("delta", shown(f.delta), *(shown(claim.delta) for claim in f.claims))
    table.add_row("by", ", ".join(f.statement.theorems), *(f"{c.paper.value}, {c.theorem}" for c in f.claims))
    table.add_row("status", f.statement.strength.value, *(_status(claim) for claim in f.claims))
    for each in f.sensitivities:
        claimed = [] if f.claimed_sensitivity is None else [_claimed_sensitivity(f.claimed_sensitivity)]
        table.add_row(f"sensitivity, {each.theorem}", _course(each.bounds), *claimed)
        if any(each.log_jacobians):
            table.add_row("log Jacobian", _course(each.log_jacobians))
    return table


def _status(claim: ClaimedFigure) -> str:
    words = "printed conditions hold" if claim.conditions_hold else "outside its printed conditions"
    return words if claim.provenance.value == "printed" else f"{words}; {claim.provenance.value}"


def _claimed_sensitivity(claim: ClaimedSensitivity) -> str:
    return f"{shown(claim.value)} ({claim.theorem})"


def _course(values: tuple[float, ...]) -> str:
    first, last = shown(values[0]), shown(values[-1])
    return first if first == last else f"{first} first\n{last} last"
