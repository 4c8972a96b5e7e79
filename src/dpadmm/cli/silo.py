"""`dpadmm silo`: make a silo, show it, approve a federation, serve."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpadmm.cli import operations, options
from dpadmm.cli.terminal import clear_federation_failures, log_to_terminal, print_notes

if TYPE_CHECKING:
    from dpadmm.engines.federation.agreement import Agreement
    from dpadmm.engines.federation.silo import Silo
    from dpadmm.engines.federation.terms import AgreedRun

app = typer.Typer(help="Take part in a federation with data that stay here.", no_args_is_help=True)

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The silo's directory.")]


@app.command()
def init(
    directory: Directory,
    data: Annotated[Path, typer.Option(help="The private table: CSV or Parquet.")],
    schema: Annotated[Path, typer.Option(help="The public schema (JSON) that all silos share.")],
    budget_epsilon: Annotated[float, typer.Option(help="Most epsilon that may ever be spent on these data, > 0.")],
    delta: Annotated[float, typer.Option(help="The delta of the budget, in [0, 1).")],
    name: Annotated[str | None, typer.Option(help="Name in federations; by default the directory's.")] = None,
    allow: Annotated[list[str] | None, typer.Option(help="A method that may run; may be given several times.")] = None,
    coordinator: Annotated[
        list[str] | None, typer.Option(help="Public key of a coordinator that may ask; by default the approved ones.")
    ] = None,
    least_noise: Annotated[float, typer.Option(help="Least noise/sensitivity of any single release.")] = 0.0,
    trust_coordinator: Annotated[
        bool, typer.Option("--trust-coordinator", help="Let bare messages go to the coordinator, who adds the noise.")
    ] = False,
    header: options.Header = True,
    missing: options.MissingWord = "error",
    unlisted: options.UnlistedWord = "error",
    out_of_range: options.OutOfRangeWord = "clip",
    records_per_person: Annotated[int, typer.Option(help="Most records of one person here.")] = 1,
    view: Annotated[
        str, typer.Option(help="Whom the budget is against: eavesdropper, or aggregate for sums under masks (C12).")
    ] = "eavesdropper",
    colluders: Annotated[
        int | None, typer.Option(help="Least number of silos that may look with the coordinator, for --view aggregate.")
    ] = None,
    neighbours: Annotated[
        Literal["replace-one", "add-remove"],
        typer.Option(help="What the budget counts: a record replaced, or one more or less (its size stays secret)."),
    ] = "replace-one",
) -> None:
    """Make a silo: policy, keys, ledger and state in a new directory."""
    with clear_federation_failures():
        from dpadmm.datasets.schema import Screening
        from dpadmm.engines.federation.policy import FULLY_CERTIFIED, SUMMED, Policy
        from dpadmm.engines.federation.silo_files import SiloFiles
        from dpadmm.estimators.wishes import relation_of

        is_summed = _is_summed(view, colluders)
        policy = Policy(
            name=name or directory.resolve().name,
            data=str(data.resolve()),
            schema=str(schema.resolve()),
            methods=tuple(allow or (FULLY_CERTIFIED + SUMMED * is_summed)),
            coordinators=tuple(coordinator or ()),
            least_noise=least_noise,
            trusts_coordinator=trust_coordinator,
            screening=Screening.of(missing, unlisted, out_of_range),
            records_per_person=records_per_person,
            relation=relation_of(neighbours),
            has_header=header,
            colluders=1 if colluders is None else colluders,
        )
        files = SiloFiles(directory)
        records = files.create(policy, budget_epsilon, delta, is_summed=is_summed)
        print_notes(records.notes)
        entry = _write_entry(directory)
        typer.echo(
            f"Made {directory}. Edit policy.toml to change its rules. Send {entry} to whoever drafts the terms "
            "(`dpadmm federate draft`), or this for a federation file by hand:"
        )
        _print_participant(directory)


@app.command()
def show(
    directory: Directory, log: Annotated[bool, typer.Option("--log", help="Show the silo's log.")] = False
) -> None:
    """Show what the coordinator needs to know of this silo, its ledger, and on demand its log."""
    with clear_federation_failures():
        from dpadmm.engines.federation.silo import Silo
        from dpadmm.privacy.ledger import open_for_reading

        _print_participant(directory)
        silo = Silo(directory)
        with open_for_reading(silo.files.ledger(silo.policy.noise)) as ledger:
            typer.echo(f"\n{ledger.statement()}")
        if log:
            for entry in silo.log():
                typer.echo(f"{entry.time}  {entry.event}: {entry.detail}")
        silo.close()


@app.command()
def approve(
    directory: Directory,
    federation: Annotated[Path, typer.Argument(metavar="FEDERATION.toml", help="The terms, as all parties have them.")],
    peer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FINGERPRINT",
            help="The fingerprint of a participant, as its owner told it past the coordinator; once for each.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Show the terms of a federation and what they cost this silo, and let them be run."""
    with clear_federation_failures():
        from dpadmm.engines.federation.agreement import read_federation
        from dpadmm.engines.federation.silo import Silo
        from dpadmm.engines.federation.terms import agreed_run

        silo, agreement = Silo(directory), read_federation(federation)
        agent = agreement.agent(silo.policy.name)
        for told in peer or ():
            _confirm(silo, agreement, told)
        terms = agreed_run(agreement)
        typer.echo(
            f"Run {agreement.run!r}: {agreement.method}, {agreement.rounds} rounds, "
            f"{len(agreement.participants)} silos, {agreement.noise.value} noise\n"
            f"Settings {agreement.numbers()}, loss {agreement.loss}, mu {agreement.mu:g}, "
            f"{len(agreement.edges)} edges; missing silos: {agreement.missing.value}\n"
            f"Coordinator {agreement.coordinator}\n"
            f"{_sight_words(terms)}\n{_identity_words(silo, agreement)}"
            f"{_encoding_words(terms, agent)}\n"
            f"Certified cost to a record here: epsilon {terms.epsilon_with_earlier(agent, agreement.rounds):.6g} "
            f"at delta {agreement.delta:.3g}\n{_left_words(silo)}\nDigest {agreement.digest}"
        )
        if not yes:
            typer.confirm("Approve these terms?", abort=True)
        silo.approve(agreement)
        silo.close()
        typer.echo("Approved.")


@app.command()
def run(
    directory: Directory,
    coordinator: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the coordinator listens.")],
    log: options.LogFile = None,
) -> None:
    """Serve this silo until interrupted: dial the coordinator, answer approved, signed requests and nothing else.

    Example: dpadmm silo run clinic --coordinator federation.example.org:9092
    """
    with clear_federation_failures():
        from dpadmm.engines.https.line import run_silo

        log_to_terminal(log)
        run_silo(directory, coordinator, log=log)


def _left_words(silo: "Silo") -> str:
    """Say what is left of the budget, which the silo checks when the run starts."""
    from dpadmm.privacy.ledger import open_for_reading

    with open_for_reading(silo.files.ledger(silo.policy.noise)) as ledger:
        stated = ledger.statement()
    return f"Left in this silo's ledger: epsilon {stated.left_epsilon:.6g} at delta {stated.budget.delta:.3g}"


def _is_summed(view: str, colluders: int | None) -> bool:
    from dpadmm.errors import InputError
    from dpadmm.privacy.protection import View

    if view not in (View.EAVESDROPPER.value, View.AGGREGATE.value):
        raise InputError(f"--view must be eavesdropper or aggregate, got {view!r}.")
    if colluders is not None and view != View.AGGREGATE.value:
        raise InputError("--colluders is for --view aggregate, in which silos see nothing but sums.")
    return view == View.AGGREGATE.value


def _confirm(silo: "Silo", agreement: "Agreement", told: str) -> None:
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


def _identity_words(silo: "Silo", agreement: "Agreement") -> str:
    """List who takes part, by fingerprint, where that must be compared.

    Those of the terms that nobody has confirmed are not shown: typed in from here, they would confirm themselves.
    """
    from dpadmm.engines.federation.keys import fingerprint

    if not agreement.is_masked:
        return ""
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


def _write_entry(directory: Path) -> Path:
    """Write what this silo tells whoever drafts terms; return where it is."""
    from dpadmm.engines.federation.entry import SiloEntry
    from dpadmm.engines.federation.silo import Silo

    silo, place = Silo(directory), directory / "silo.entry"
    SiloEntry.of(silo).save(place)
    silo.close()
    return place


def _print_participant(directory: Path) -> None:
    from dpadmm.datasets.schema import Schema
    from dpadmm.engines.federation.columns import profile_terms
    from dpadmm.engines.federation.keys import fingerprint
    from dpadmm.engines.federation.silo import Silo

    silo = Silo(directory)
    is_public = silo.policy.relation.has_public_sizes
    records = f"records = {silo.records}" if is_public else "# records = its part of the agreed nominal number"
    typer.echo(
        f"\n[[participants]]\nname = {json.dumps(silo.policy.name, ensure_ascii=False)}\n"
        f'{records}\nkey = "{silo.public_key}"'
    )
    schema = Schema.load(silo.files.schema)
    typer.echo(f'# schema = "{schema.digest}"')
    numbers = ", ".join(f"{name} = {number}" for name, number in profile_terms(schema).items())
    typer.echo(f"# dimension = {schema.dimension}; with a profile_share also: {numbers}")
    typer.echo(f"\nFingerprint, for the other owners and past the coordinator: {fingerprint(silo.public_key)}")
    silo.close()


operations.add_to_silo(app)
