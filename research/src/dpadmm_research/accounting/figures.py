"""Certified and claimed figures of a method at some noise: as one JSON object, and as a table side by side."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from dpadmm.checks import plural
from dpadmm.cli.terminal import json_number
from dpadmm.codec import encode
from dpadmm.errors import DpadmmError
from dpadmm.methods.base import Method
from dpadmm.noise.mechanisms import Family
from dpadmm.privacy.accounting import Account, dynamic_zcdp
from dpadmm.privacy.protection import Certificate, Unit
from dpadmm.problems.arrays import Floats
from dpadmm_research.accounting.one_agent import OneAgent
from dpadmm_research.accounting.options import plain
from dpadmm_research.accounting.public_facts import claimed_agent
from dpadmm_research.claims.base import ClaimedEpsilon, ClaimedFigure, ClaimedSensitivity
from dpadmm_research.claims.registry import NO_PAPER, OUT_OF_RANGE, ClaimedAgent

CLAIMED = "CLAIMED figures evaluate a paper's formula as printed. No certified figure depends on them."
_STD = "standard deviation of Gaussian noise"
_RATE = "rate of noise with density proportional to exp(-rate ||v||)"
_MEASURES = {
    Family.GAUSSIAN: _STD,
    Family.SAMPLED: _STD,
    Family.SPHERICAL: _RATE,
    Family.OBJECTIVE: _RATE,
    Family.COORDINATE: "rate of Laplace noise on every coordinate",
}


@dataclass(frozen=True)
class Described:
    """An agent with its paper's claims, and the options that describe it."""

    on_paper: ClaimedAgent
    settings: dict[str, Any]

    @classmethod
    def by(cls, method: type[Method], names: dict[str, str], chosen: dict[str, Any]) -> "Described":
        """Return the agent of the chosen numbers; `names` joins the options to them."""
        return cls(claimed_agent(method, **chosen), {option: plain(chosen[name]) for option, name in names.items()})

    @property
    def agent(self) -> OneAgent:
        """The agent as the certificates see it."""
        return self.on_paper.agent

    @property
    def noised(self) -> str:
        """What the noise is added to."""
        return self.agent.algorithm.about.noised

    @property
    def name(self) -> str:
        """The method's name."""
        return self.agent.algorithm.about.name


@dataclass(frozen=True)
class Sensitivity:
    """The bounds of the releases under one theorem, in order of rounds."""

    theorem: str
    bounds: tuple[float, ...]
    log_jacobians: tuple[float, ...]


@dataclass(frozen=True)
class Figures:
    """All that is said about a method at some noise."""

    described: Described
    noise: Floats
    delta: float
    account: Account
    epsilon: float
    dynamic_zcdp: tuple[float, ...]
    sensitivities: tuple[Sensitivity, ...]
    claims: tuple[ClaimedEpsilon, ...]
    claimed_sensitivity: ClaimedSensitivity | None
    no_claim: str | None


def figures(described: Described, noise: Floats, delta: float) -> Figures:
    """Return what is certified and what is claimed at this noise."""
    agent = described.agent
    said = agent.account(noise)
    claims, bound, reason = _claimed(described.on_paper, noise, delta)
    return Figures(
        described=described,
        noise=noise,
        delta=delta,
        account=said,
        epsilon=said.curve.epsilon(delta),
        dynamic_zcdp=tuple(next(iter(dynamic_zcdp(agent.releases(noise)).values())).tolist()),
        sensitivities=_sensitivities(agent.certificates),
        claims=claims,
        claimed_sensitivity=bound,
        no_claim=reason,
    )


def _claimed(
    on_paper: ClaimedAgent, noise: Floats, delta: float
) -> tuple[tuple[ClaimedEpsilon, ...], ClaimedSensitivity | None, str | None]:
    try:
        claims, bound = on_paper.epsilon(noise, delta), on_paper.sensitivity()
    except DpadmmError as error:
        return (), None, str(error)
    except ArithmeticError:
        return (), None, OUT_OF_RANGE
    return (claims, bound, None) if claims else ((), None, NO_PAPER)


def _sensitivities(certificates: Iterable[Certificate]) -> tuple[Sensitivity, ...]:
    found: dict[str, list[Certificate]] = {}
    for certificate in certificates:
        found.setdefault(certificate.theorem, []).append(certificate)
    return tuple(
        Sensitivity(theorem, tuple(c.bound for c in group), tuple(c.log_jacobian for c in group))
        for theorem, group in found.items()
    )


def shown(value: float) -> str:
    """Return a number as the tables print it: six digits."""
    return f"{value:.6g}" if math.isfinite(value) else "infinite"


def as_json(shown_figures: Figures) -> dict[str, Any]:
    """Return the figures as plain values."""
    f, said = shown_figures, shown_figures.account
    return {
        "method": f.described.name,
        "settings": f.described.settings,
        "noise": {
            "measures": _MEASURES[f.described.agent.family],
            "on": f.described.noised,
            "rounds": list(f.described.agent.private_rounds),
            "levels": f.noise.tolist(),
        },
        "certified": {
            "epsilon": json_number(f.epsilon),
            "delta": f.delta,
            "dynamic_zcdp": [json_number(rho) for rho in f.dynamic_zcdp],
            **encode(said.protection),
            "strength": said.strength.value,
            "standing": said.standing,
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
    figure = {claim.symbol: json_number(claim.value)}
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
    console.print(noise_text(f), soft_wrap=True)
    console.print(_table(f))
    said = f.account
    hidden = said.protection
    people = f"; a person has {hidden.people}" if hidden.unit is Unit.RECORD else ""
    console.print(f"Protects {hidden} from {hidden.observer}{people}.", soft_wrap=True)
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


def noise_text(f: Figures) -> str:
    """Say the noise in a line."""
    rounds, first, last = len(f.noise), float(f.noise[0]), float(f.noise[-1])
    run_curve = shown(first) if first == last else f"{shown(first)} in the first, {shown(last)} in the last"
    measure, on = _MEASURES[f.described.agent.family], f.described.noised
    return f"{f.described.name}: {measure} on {on}: {run_curve} ({plural(rounds, 'private round')})"


def _table(f: Figures) -> Table:
    table = Table(title=f"{f.described.name}: certified and claimed", title_justify="left")
    table.add_column("")
    table.add_column("CERTIFIED", style="bold")
    for _ in f.claims:
        table.add_column("CLAIMED", style="yellow")
    table.add_row("epsilon", shown(f.epsilon), *(shown(claim.value) for claim in f.claims))
    table.add_row("delta", shown(f.delta), *(shown(claim.delta) for claim in f.claims))
    table.add_row("by", ", ".join(f.account.theorems), *(f"{c.paper.value}, {c.theorem}" for c in f.claims))
    table.add_row("status", f.account.standing, *(_status(claim) for claim in f.claims))
    table.add_row("rho (zCDP)", f"{shown(f.dynamic_zcdp[0])} round 1\n{shown(f.dynamic_zcdp[-1])} all rounds")
    for each in f.sensitivities:
        claimed = [] if f.claimed_sensitivity is None else [_claimed_sensitivity(f.claimed_sensitivity)]
        table.add_row(f"sensitivity, {each.theorem}", _curve(each.bounds), *claimed)
        if any(each.log_jacobians):
            table.add_row("log Jacobian", _curve(each.log_jacobians))
    return table


def _status(claim: ClaimedFigure) -> str:
    texts = "printed conditions hold" if claim.conditions_hold else "outside its printed conditions"
    return texts if claim.provenance.value == "printed" else f"{texts}; {claim.provenance.value}"


def _claimed_sensitivity(claim: ClaimedSensitivity) -> str:
    return f"{shown(claim.value)} ({claim.theorem})"


def _curve(values: tuple[float, ...]) -> str:
    first, last = shown(values[0]), shown(values[-1])
    return first if first == last else f"{first} first\n{last} last"
