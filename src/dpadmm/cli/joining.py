"""`dpadmm coordinator invite` and `dpadmm silo join`: from a study's announcement to silos that serve its run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpadmm.cli import options
from dpadmm.cli.terminal import (
    clear_federation_failures,
    log_to_terminal,
    print_line,
    print_notes,
    print_reading,
    print_warning,
)

if TYPE_CHECKING:
    from dpadmm.data.table_format import TableFormat
    from dpadmm.federation.admin.invitations import Invitation
    from dpadmm.federation.admin.joining import Guest
    from dpadmm.federation.agreement import Agreement
    from dpadmm.federation.silo import Silo

_STUDY = "The study"


def invite(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The coordinator's directory; created if it does not exist.")
    ],
    study: Annotated[str, typer.Option(help="Name of the study, and of its run.", rich_help_panel=_STUDY)],
    silo: Annotated[list[str], typer.Option(help="Name of a silo; repeat for each silo.", rich_help_panel=_STUDY)],
    address: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where silos will reach the coordinator.")],
    schema: Annotated[Path, typer.Option(help="The public schema (JSON) that all silos share.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget of this run, > 0.")],
    delta: Annotated[float, typer.Option(help="Probability that the epsilon bound fails, in (0, 1).")],
    view: Annotated[
        Literal["eavesdropper", "aggregate", "public"],
        typer.Option(
            help="Whom records are protected from: eavesdropper sees every message, aggregate sees only sums of masked "
            "messages, public sees only the model (the coordinator is trusted with messages without noise)."
        ),
    ] = "eavesdropper",
    colluders: Annotated[
        int | None,
        typer.Option(help="With --view aggregate: how many silos may collude with the coordinator. Default: 1."),
    ] = None,
    neighbours: Annotated[
        Literal["replace-one", "add-remove"],
        typer.Option(help="Neighbouring data sets: one record replaced, or one added or removed (sizes are secret)."),
    ] = "replace-one",
    nominal_records: options.NominalRecords = None,
    records_per_person: Annotated[int, typer.Option(help="Most records that one person has in a silo.")] = 1,
    silos_per_person: Annotated[int, typer.Option(help="Most silos in which one person has records.")] = 1,
) -> None:
    """Announce a study: write an invitation for each silo, with which it registers and gets the terms.

    Example: dpadmm coordinator invite coordinator --study asthma --silo north --silo south --schema schema.json
    --epsilon 1 --delta 1e-6 --address federation.example.org:9092
    """
    with clear_federation_failures():
        from dpadmm.data.schema import Schema
        from dpadmm.federation.admin.invitations import Invitation, Studies
        from dpadmm.federation.coordinator_files import CoordinatorFiles
        from dpadmm.federation.https.line import Place
        from dpadmm.federation.keys import SigningKey
        from dpadmm.privacy.protection import relation_of

        Place.of(address)
        files = CoordinatorFiles(directory)
        is_new = not files.is_made()
        key = SigningKey.new() if is_new else files.key()
        asked = Invitation(
            study=study,
            address=address,
            coordinator=key.public,
            epsilon=epsilon,
            delta=delta,
            schema=Schema.load(schema).to_json(),
            view=view,
            colluders=colluders,
            relation=relation_of(neighbours).value,
            nominal_records=nominal_records,
            records_per_person=records_per_person,
            silos_per_person=silos_per_person,
        )
        studies = Studies(files)
        studies.check(asked, silo)
        if is_new:
            files.create(key)
        made = studies.invite(asked, silo)
        print_line("Send each owner the silo's invitation. Whoever has it can register in the silo's name:")
        for name in silo:
            print_line(f"  {made.invitation(name)}")
        print_line(
            f"They join with `dpadmm silo join NAME.invite --data TABLE`.\nHere: `dpadmm coordinator run {directory}`, "
            f"and `dpadmm federate --study {study} --coordinator {directory} --out model.json --page report.html`."
        )


@options.reads_tables
def join(
    written: "TableFormat",
    invitation: Annotated[Path, typer.Argument(metavar="INVITE", help="The invitation that the coordinator sent.")],
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="The silo's directory. Default: its name, in this folder.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="For a new silo: the private table.")] = None,
    budget_epsilon: Annotated[
        float | None, typer.Option(help="The most epsilon these data may ever spend. Default: the command asks.")
    ] = None,
    least_noise: Annotated[float, typer.Option(help="Lowest noise/sensitivity allowed in any single release.")] = 0.0,
    trust_coordinator: Annotated[
        bool, typer.Option("--trust-coordinator", help="Allow messages without noise to the coordinator, who adds it.")
    ] = False,
    missing: options.MissingWord = "error",
    unlisted: options.UnlistedWord = "error",
    out_of_range: options.OutOfRangeWord = "clip",
    peer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FINGERPRINT",
            help="Fingerprint of a participant, as its owner told you. Default: the command asks.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve the terms without being asked.")] = False,
    serve: Annotated[bool, typer.Option("--run/--no-run", help="Serve the run once it is approved.")] = True,
) -> None:
    """Join a study, step by step: make the silo, register, compare fingerprints, see the cost, approve, and serve.

    The command may be interrupted at any time; run it again to continue.

    Example: dpadmm silo join clinic.invite --data patients.csv
    """
    with clear_federation_failures():
        from dpadmm.cli.custody import left_words
        from dpadmm.data.schema import Screening
        from dpadmm.federation.admin.invitations import Invitation
        from dpadmm.federation.admin.joining import (
            Guest,
            OwnRules,
            check_silo,
            make_silo,
            until_reached,
            wait_for_terms,
        )
        from dpadmm.federation.silo import Silo
        from dpadmm.federation.silo_files import SiloFiles

        asked = Invitation.load(invitation)
        place = Path(asked.silo) if directory is None else directory
        _show_study(asked)
        if not SiloFiles(place).is_made():
            rules = OwnRules(
                data=data or Path(typer.prompt("The private table (text, Parquet, Arrow or Excel)")),
                budget_epsilon=typer.prompt(
                    "The most epsilon these data may ever spend", type=float, default=asked.epsilon
                )
                if budget_epsilon is None
                else budget_epsilon,
                screening=Screening.of(missing, unlisted, out_of_range),
                written=written,
                least_noise=least_noise,
                trusts_coordinator=trust_coordinator,
            )
            records = make_silo(asked, place, rules)
            print_notes(records.notes)
            print_reading({str(rules.data): records.written})
            print_line(f"Made {place}: keys, ledger, policy.toml with its rules, schema.json with the public bounds.")
        elif data is not None or budget_epsilon is not None:
            print_line(f"{place} exists already: its own table, budget and rules apply, not those given here.")
        silo = Silo(place)
        try:
            check_silo(asked, silo)
            print_line(left_words(silo))
            guest = Guest(asked, silo)
            until_reached(guest.register, print_line)
            _show_fingerprint(silo)
            print_line("Registered. Waiting for the terms, which are drafted when all silos have registered ...")
            terms = wait_for_terms(guest, print_line)
            _approve(guest, terms, peer or [], is_asked=not yes)
            silo.files.address.write_text(asked.address + "\n", encoding="utf-8")  # not before: it may serve another
        finally:
            silo.close()
        _serve(place, is_wanted=serve)


def _show_study(asked: "Invitation") -> None:
    """Say what is asked of the silo, before anything is made."""
    from dpadmm.federation.keys import fingerprint

    protection = asked.protection
    print_line(
        f"Study {asked.study!r} invites {asked.silo}\n"
        f"  coordinator  {asked.address}, fingerprint {fingerprint(asked.coordinator)}\n"
        f"  asks for     epsilon {asked.epsilon:g} at delta {asked.delta:g} from every record here, for one run\n"
        f"  protects     {protection}, from {protection.observer}\n"
        f"  columns      {len(asked.table.columns)} and the label {asked.table.label.name!r}, with public bounds"
    )


def _show_fingerprint(silo: "Silo") -> None:
    from dpadmm.federation.keys import fingerprint

    print_line(
        f"Fingerprint of {silo.policy.name}: {fingerprint(silo.public_key)}\n"
        "Read it to the other owners by telephone or face to face, not through the coordinator."
    )


def _approve(guest: "Guest", terms: "Agreement", told: list[str], *, is_asked: bool) -> None:
    """Compare fingerprints where that matters, show the terms and their cost, and approve them on the owner's word."""
    from dpadmm.cli.approval import ask_fingerprints, confirm, show_cost, show_terms

    silo = guest.silo
    if terms.digest in [each.digest for each in silo.agreements()]:
        print_line(f"The terms of run {terms.run!r} are approved already.")
        return
    if (terms.run, terms.coordinator) in [(each.run, each.coordinator) for each in silo.agreements()]:
        print_warning("Other terms of this study were approved here before. Whatever is run of either costs budget.")
        is_asked = True
    for each in told:
        confirm(silo, terms, each)
    if is_asked:
        ask_fingerprints(silo, terms)
    show_terms(silo, terms)
    show_cost(silo, terms)
    guest.check_protection(terms)
    silo.check_terms(terms)
    if is_asked:
        typer.confirm("Approve these terms?", abort=True)
    silo.approve(terms)
    print_line("Approved.")


def _serve(directory: Path, *, is_wanted: bool) -> None:
    from dpadmm.federation.https.line import run_silo
    from dpadmm.federation.locks import is_held
    from dpadmm.federation.silo_files import SiloFiles

    files = SiloFiles(directory)
    if is_held(files.lock):
        print_line("Another process is already serving this silo and will take up the run.")
    elif not is_wanted:
        print_line(f"Serve it with `dpadmm silo run {directory}`.")
    else:
        print_line("Serving until Ctrl-C. To serve later or as a service, use `dpadmm silo run`.")
        log_to_terminal()
        run_silo(directory, files.read_address())
