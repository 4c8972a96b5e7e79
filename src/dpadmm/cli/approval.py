"""What an owner sees of terms before approving them, and the comparison of fingerprints."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from dpadmm.cli.terminal import print_line

if TYPE_CHECKING:
    from dpadmm.federation.admin.joining import InvitedSilo
    from dpadmm.federation.silo import Silo
    from dpadmm.federation.terms import Terms


def show_terms(silo: "Silo", terms: "Terms") -> None:
    """Show the terms as they are stated: what runs, and who takes part. Nothing is computed from them."""
    settings = ", ".join(f"{name} {number:.4g}" for name, number in terms.settings)
    print_line(
        f"Run {terms.run!r}: {terms.method}, {terms.rounds} rounds, {terms.noise.value} noise\n"
        f"  {settings}; loss {terms.loss}, ridge {terms.mu:.3g}\n{_weights_text(silo, terms)}"
        f"  asks for epsilon {terms.epsilon:.6g} at delta {terms.delta:.3g}\n"
        f"  if a silo is missing: {terms.missing.value}\n"
        f"Who takes part:\n{_participants_text(silo, terms)}"
        f"Coordinator {terms.coordinator}\nDigest      {terms.digest}"
    )


def show_cost(silo: "Silo", terms: "Terms") -> None:
    """Show who sees what, what the terms cost a record here, and what is left of the budget.

    To compute it may take long: terms that the owner's rules do not allow are refused before.
    """
    from dpadmm.federation.admin.maintenance import open_runs

    agent = silo.check_rules(terms)
    others = [each for each in open_runs(silo) if each.terms.digest != terms.digest]
    lines = ["None of it is reserved. Other runs that are approved and not finished, with what each would still cost:"]
    lines += [f"  {each.terms.run!r}: epsilon {each.epsilon:.6g}" for each in others]
    print_line(
        f"{_encoding_text(terms, agent)}\n"
        f"Who sees what:\n  {_view_text(terms)}\n"
        f"Certified cost to a record here: epsilon {terms.spent_epsilon(agent, terms.rounds):.6g} "
        f"at delta {terms.delta:.3g}\n" + "\n".join([remaining_budget_text(silo), *(lines if others else ())])
    )


def remaining_budget_text(silo: "Silo") -> str:
    """Say what is left of a silo's budget."""
    stated = silo.ledger.statement()
    left = f"Left in this silo's ledger: epsilon {stated.left_epsilon:.6g} at delta {stated.budget.delta:.3g}"
    # without this an approval of more than what is left looks like a fault
    return left + " (runs are composed, so their epsilons do not simply add up)" * (stated.spent_epsilon > 0)


def approve_terms(
    silo: "Silo", terms: "Terms", reported: Iterable[str], *, is_asked: bool, invited: "InvitedSilo | None" = None
) -> None:
    """Show terms and their cost, and approve them on the owner's word.

    reported: fingerprints, NAME=FINGERPRINT. invited: of a silo that was invited; it is asked for the others', and its
    terms must protect as announced.
    """
    for each in reported:
        confirm(silo, terms, each)
    if is_asked and invited is not None:
        _ask_fingerprints(silo, terms)
    show_terms(silo, terms)
    show_cost(silo, terms)
    if invited is not None:
        invited.check_protection(terms)
    silo.check_terms(terms)
    if is_asked:
        typer.confirm("Approve these terms?", abort=True)
    silo.approve(terms)
    print_line("Approved.")


def _ask_fingerprints(silo: "Silo", terms: "Terms") -> None:
    """Ask for the fingerprint of everybody who is not confirmed yet, where messages leave under masks."""
    from dpadmm.errors import InputError

    while terms.is_masked and (names := silo.unconfirmed(terms)):
        digits = typer.prompt(f"Fingerprint of {names[0]}, as its owner reads it to you")
        try:
            confirm(silo, terms, f"{names[0]}={digits}")
        except InputError as problem:
            print_line(str(problem))


def confirm(silo: "Silo", terms: "Terms", reported: str) -> None:
    """Keep a fingerprint that the owner has typed; one that is not in the terms is refused at once."""
    from dpadmm.errors import InputError
    from dpadmm.federation.keys import fingerprint, read_fingerprint

    name, is_pair, digits = reported.rpartition("=")
    if not is_pair:
        raise InputError(f"--peer takes NAME=FINGERPRINT, got {reported!r}.")
    person = terms.participants[terms.agent(name)]  # refuses a name that is not in the terms
    if read_fingerprint(name, digits) != read_fingerprint(name, fingerprint(person.key)):
        raise InputError(
            f"The key of {name} in the terms does not have the fingerprint that you were given, {digits}. Do not "
            "approve the terms; find out who wrote them."
        )
    silo.confirm_peer(name, digits)


def _view_text(terms: "Terms") -> str:
    """Say who sees what of this silo's messages."""
    if terms.is_masked:
        observer = terms.protection.observer
        return f"Messages leave masked, with this silo's share of the noise; the cost holds against {observer}."
    if terms.sends_bare:
        return "The coordinator sees vectors of this silo WITHOUT noise and adds it; the cost holds against all others."
    return "All noise is drawn here; the cost holds against anyone who sees every message, including the coordinator."


def _participants_text(silo: "Silo", terms: "Terms") -> str:
    """List who takes part; by fingerprint, where that must be compared.

    Those of the terms that nobody has confirmed are not shown: typed in from here, they would confirm themselves.
    """
    from dpadmm.federation.keys import fingerprint

    kind = "records" if terms.has_public_sizes else "nominal records"
    unknown, lines = silo.unconfirmed(terms) if terms.is_masked else [], []
    for each in terms.participants:
        text = ["this silo"] if each.name == silo.policy.name else []
        if each.name in unknown:
            text = ["NOT CONFIRMED: ask its owner"]
        elif terms.is_masked:
            text = [f"{fingerprint(each.key)}  {text[0] if text else 'confirmed'}"]
        lines.append(f"  {each.name}  {', '.join([*text, f'{each.records} {kind}'])}\n")
    return "".join(lines)


def _weights_text(silo: "Silo", terms: "Terms") -> str:
    """Say what records of each class count, where not all count the same."""
    if not terms.class_weights:
        return ""
    from dpadmm.data.columns import describe_class_weights
    from dpadmm.data.schema import Schema

    classes = Schema.load(silo.files.schema).label.classes
    text = describe_class_weights(classes, terms.class_weights)
    return f"  {text[:1].upper()}{text[1:]}\n"  # classes keep their capitals


def _encoding_text(terms: "Terms", agent: int) -> str:
    """Say how rows are encoded, and what that costs."""
    if terms.profile is not None:
        alone = f"which alone costs epsilon {terms.spent_epsilon(agent, 0):.3g}"
        return f"Round 0 releases a column profile (noisy counts), {alone}; rows are encoded by it"
    how = "public bounds and categories" if terms.clip_radius else "public bounds"
    return f"Rows are encoded by {how} alone"
