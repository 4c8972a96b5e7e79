"""What an owner sees of terms before approving them, and the comparison of fingerprints."""

from typing import TYPE_CHECKING

import typer

from dpadmm.cli.terminal import print_line

if TYPE_CHECKING:
    from dpadmm.engines.federation.agreement import Agreement
    from dpadmm.engines.federation.silo import Silo
    from dpadmm.engines.federation.terms import AgreedRun


def show_terms(silo: "Silo", agreement: "Agreement") -> None:
    """Show who takes part, what runs, who sees what, what it costs a record here, and what is left of the budget."""
    from dpadmm.engines.federation.terms import agreed_run

    agent, terms = agreement.agent(silo.policy.name), agreed_run(agreement)
    typer.echo(
        f"Run {agreement.run!r}: {agreement.method}, {agreement.rounds} rounds, "
        f"{len(agreement.participants)} silos, {agreement.noise.value} noise\n"
        f"Settings {agreement.numbers()}, loss {agreement.loss}, mu {agreement.mu:g}, "
        f"{len(agreement.edges)} edges; missing silos: {agreement.missing.value}\n"
        f"Coordinator {agreement.coordinator}\n"
        f"{_sight_words(terms)}\n{_people_words(silo, agreement)}"
        f"{_encoding_words(terms, agent)}\n"
        f"Certified cost to a record here: epsilon {terms.epsilon_with_earlier(agent, agreement.rounds):.6g} "
        f"at delta {agreement.delta:.3g}\n{_left_words(silo)}\nDigest {agreement.digest}"
    )


def ask_fingerprints(silo: "Silo", agreement: "Agreement") -> None:
    """Ask for the fingerprint of everybody who is not confirmed yet, where messages leave under masks."""
    from dpadmm.errors import InputError

    if not agreement.is_masked:
        return
    for name in silo.unconfirmed(agreement):
        while name in silo.unconfirmed(agreement):
            told = typer.prompt(f"Fingerprint of {name}, as its owner reads it to you")
            try:
                confirm(silo, agreement, f"{name}={told}")
            except InputError as problem:
                print_line(str(problem))


def confirm(silo: "Silo", agreement: "Agreement", told: str) -> None:
    """Keep a fingerprint that the owner has typed; one that is not in the terms is told at once."""
    from dpadmm.errors import InputError

    name, is_pair, digits = told.rpartition("=")
    if not is_pair:
        raise InputError(f"--peer takes NAME=FINGERPRINT, got {told!r}.")
    agreement.agent(name)  # refuses a name that is not in the terms
    silo.confirm_peer(name, digits)
    if name in silo.unconfirmed(agreement):
        raise InputError(
            f"The terms name another key for {name} than the one with the fingerprint that you were told, "
            f"{digits}. Do not approve them; find out who wrote them."
        )


def _sight_words(terms: "AgreedRun") -> str:
    """Say who sees what of this silo's messages."""
    if not terms.is_masked:
        return "The coordinator sees BARE vectors of this silo." if terms.sends_bare else "All noise is drawn here."
    observer = terms.course.setting.protection.observer
    return f"Messages leave under masks, with this silo's share of the noise; the cost is against {observer}."


def _people_words(silo: "Silo", agreement: "Agreement") -> str:
    """List who takes part, by fingerprint, where that must be compared.

    Those of the terms that nobody has confirmed are not shown: typed in from here, they would confirm themselves.
    """
    from dpadmm.engines.federation.keys import fingerprint

    if not agreement.is_masked:
        told = [f"{each.name} ({each.records})" for each in agreement.participants]
        return (
            f"Participants, with their {'' if agreement.has_public_sizes else 'nominal '}records: {', '.join(told)}\n"
        )
    unknown = silo.unconfirmed(agreement)
    state = {each.name: f"{fingerprint(each.key)}  confirmed" for each in agreement.participants}
    state |= dict.fromkeys(unknown, "NOT CONFIRMED: ask its owner")
    state[silo.policy.name] = f"{fingerprint(silo.public_key)}  this silo"
    lines = [f"  {name}  {words}\n" for name, words in state.items()]
    return "Fingerprints of the participants' identity keys:\n" + "".join(lines)


def _encoding_words(terms: "AgreedRun", agent: int) -> str:
    """Say how rows are encoded, and what that costs."""
    if terms.has_profile:
        alone = f"which alone cost epsilon {terms.epsilon(agent, 0):.3g}"
        return f"Round 0 releases noisy counts of the columns, {alone}; rows are encoded by them"
    how = "public bounds and categories" if terms.agreement.reach else "bounds, plainly,"
    return f"Rows are encoded by {how} alone"


def _left_words(silo: "Silo") -> str:
    """Say what is left of the budget, which the silo checks when the run starts."""
    from dpadmm.privacy.ledger import open_for_reading

    with open_for_reading(silo.files.ledger(silo.policy.noise)) as ledger:
        stated = ledger.statement()
    return f"Left in this silo's ledger: epsilon {stated.left_epsilon:.6g} at delta {stated.budget.delta:.3g}"
