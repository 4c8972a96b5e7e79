"""`dpadmm audit`: attack the library's own code and show the epsilon an attacker demonstrably gets."""

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpadmm.cli.terminal import report_failures
from dpadmm.errors import InputError

if TYPE_CHECKING:
    from dpadmm.privacy.protection import View
    from dpadmm_research.audit.audit import AuditResult
    from dpadmm_research.audit.findings import CheckOutcome
    from dpadmm_research.audit.subjects import Subject

VIOLATION_CODE = 4
"""Exit code if an attack refutes a certificate."""

app = typer.Typer(add_completion=False)


@app.command()
def audit(
    algorithm: Annotated[
        str | None,
        typer.Argument(
            help="What to attack: a method (`dpadmm methods` lists them), column-profile, curvature or own-costs."
        ),
    ] = None,
    all_methods: Annotated[
        bool, typer.Option("--all", help="Attack every private method and write the plots (takes a few minutes).")
    ] = False,
    product: Annotated[
        bool,
        typer.Option(
            "--product", help="Attack the estimators as black boxes: real fits with secure noise (takes minutes)."
        ),
    ] = False,
    view: Annotated[
        str | None,
        typer.Option(help="Who attacks: eavesdropper, coordinator, peer, public or aggregate. Default: all."),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            help="Number of runs, at least 200, half with each data set. Default: 20000 (with --product: 1000)."
        ),
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="Confidence at which all bounds hold together, in [0.76, 1).")
    ] = 0.95,
    epsilon: Annotated[float, typer.Option(help="Privacy budget that the noise is calibrated to, > 0.")] = 1.0,
    delta: Annotated[
        float, typer.Option(help="Delta of that budget, in (0, 1); methods with pure epsilon ignore it.")
    ] = 1e-5,
    seed: Annotated[int, typer.Option(help="Seed of noise, batches and participation.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for trade-off plots (SVG, PNG).")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Attack a method on worst-case neighbouring data, and compare what the attacker learns with the certified epsilon.

    The result is a lower bound on the attacker's epsilon. Every single release is checked as well: its sensitivity, the
    scale of its noise, and whether the noise is independent of all other noise. Exit code 4 means that a certificate
    was refuted (at a confidence of 1 - 1e-6) or that a check failed (probability at most 1e-7 in a correct build).

    Examples: dpadmm audit p-admm --out plots; dpadmm audit --all; dpadmm audit --product --epsilon 8
    """
    with report_failures():
        from dpadmm.privacy.accounting import Target

        target = Target(epsilon, delta)
        folder = Path("audit") if out is None and all_methods and not json else out
        _check_folder(folder)
        if product:
            _check_alone(algorithm, all_methods, view)
            results, findings = _attack_products(target, runs, confidence, is_quiet=json)
        else:
            chosen = _chosen(algorithm, all_methods, view, seed)
            results, findings = _attack(chosen, target, runs or 20_000, confidence, seed, is_quiet=json)
        written = _write(results, folder)
    if json:
        _print_json(results, findings, confidence)
    else:
        _print_table(results, findings, confidence, written)
    if any(result.is_violation for result in results) or any(finding.is_broken for finding in findings):
        raise typer.Exit(VIOLATION_CODE)


def _check_alone(algorithm: str | None, all_methods: bool, view: str | None) -> None:
    if algorithm is not None or all_methods or view is not None:
        raise InputError("--product attacks the estimators. Leave out the method, --view and --all.", setting="product")


def _chosen(
    algorithm: str | None, all_methods: bool, term: str | None, seed: int
) -> "list[tuple[Subject, tuple[View, ...]]]":
    """Return what is attacked, with the views of each; everything wrong is refused before anything runs."""
    from dpadmm.checks import nearest
    from dpadmm.privacy.protection import View
    from dpadmm_research.audit.catalogue import all_subjects, subjects_of

    if (algorithm is None) == (not all_methods):
        raise InputError("Name one method to attack (dpadmm audit p-admm) or use --all, not both.", setting="method")
    subjects = all_subjects(seed) if algorithm is None else subjects_of(algorithm, seed)
    if term is None:
        return [(subject, tuple(subject.views)) for subject in subjects]
    texts = {view.value: view for view in View}
    if term not in texts:
        raise InputError(
            f"--view must be one of {', '.join(texts)}, got {term!r}.{nearest(term, texts)}", setting="view"
        )
    seen: list[tuple[Subject, tuple[View, ...]]] = [
        (subject, (texts[term],)) for subject in subjects if texts[term] in subject.views
    ]
    if not seen:
        known = ", ".join(dict.fromkeys(view.value for subject in subjects for view in subject.views))
        raise InputError(
            f"{algorithm} has no attack for the view {term!r}; it can be attacked by {known}.", setting="view"
        )
    return seen


def _check_folder(folder: Path | None) -> None:
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InputError(f"--out must be a folder, but {folder} is a file. Give another name.", setting="out")


def _attack(
    chosen: "list[tuple[Subject, tuple[View, ...]]]",
    target: Any,
    runs: int,
    confidence: float,
    seed: int,
    is_quiet: bool,
) -> "tuple[list[AuditResult], list[CheckOutcome]]":
    from dpadmm.core.loop import progress_bar
    from dpadmm_research.audit.audit import examine
    from dpadmm_research.audit.estimates import checked_confidence
    from dpadmm_research.audit.inspection import inspect

    # All bounds hold together: each gets its part of the error probability.
    each = 1 - (1 - checked_confidence(confidence)) / sum(len(views) for _, views in chosen)
    results: list[AuditResult] = []
    findings: list[CheckOutcome] = []
    with progress_bar("attacking", len(chosen), is_wanted=not is_quiet) as tick:
        for subject, views in chosen:
            results.extend(examine(subject, target, views, runs, each, seed))
            findings.extend(inspect(subject, target, seed=seed))
            tick()
    return results, findings


def _attack_products(
    target: Any, fits: int | None, confidence: float, is_quiet: bool
) -> "tuple[list[AuditResult], list[CheckOutcome]]":
    from dpadmm.core.loop import progress_bar
    from dpadmm_research.audit.estimators import DEFAULT_FITS, PRODUCTS, audit_products
    from dpadmm_research.audit.sampler_checks import check_rounding, check_sampler

    number = fits if fits is not None else DEFAULT_FITS
    with progress_bar("fitting", number // 2 * 2 * len(PRODUCTS), is_wanted=not is_quiet) as tick:
        found = list(audit_products(target, number, confidence, tick))
    findings = [finding for each in found for finding in each.findings]
    return [each.result for each in found], [*findings, *check_sampler(), check_rounding()]


def _write(results: "list[AuditResult]", folder: Path | None) -> list[Path]:
    """Write a plot for the strongest attack on each method; return what was written."""
    if folder is None:
        return []
    from dpadmm_research.audit.trade_off_plot import trade_off_plot
    from dpadmm_research.figures import save

    written: list[Path] = []
    for name in dict.fromkeys(result.method for result in results):
        strongest = max((each for each in results if each.method == name), key=lambda each: each.tightness)
        written.extend(save(trade_off_plot(strongest), folder, f"{name}-trade-off"))
    return written


def _print_json(results: "list[AuditResult]", findings: "list[CheckOutcome]", confidence: float) -> None:
    from dpadmm.cli.terminal import print_json

    print_json(
        {
            "command": "audit",
            "confidence": confidence,
            "results": [_as_json(result) for result in results],
            "checks": [{**vars(finding), "check": finding.check.name.lower()} for finding in findings],
        }
    )


def _as_json(result: "AuditResult") -> dict[str, Any]:
    at = result.estimate
    return {
        "method": result.method,
        "view": result.view.value,
        "pair": result.pair,
        "delta": result.delta,
        "certified_epsilon": result.certified_epsilon,
        "audited_epsilon": at.epsilon_lower,
        "is_violation": result.is_violation,
        "estimate": at.how.name.lower(),
        "confidence_each": at.confidence,
        "false_positive_rate": at.fpr,
        "false_negative_rate": 1 - at.tpr,
        "runs": result.runs,
        "seconds": round(result.seconds, 3),
    }


def _print_table(
    results: "list[AuditResult]", findings: "list[CheckOutcome]", confidence: float, written: list[Path]
) -> None:
    from rich.console import Console
    from rich.table import Table

    from dpadmm.checks import plural
    from dpadmm.cli.terminal import cell

    console = Console()
    console.print(f"[bold]Lower bounds on the attacker's epsilon[/bold], together at {100 * confidence:g} % confidence")
    for (method, pair), group in groupby(results, key=lambda result: (result.method, result.pair)):
        console.print(f"\n[bold]{method}[/bold]  {pair}", highlight=False)
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for name in ("  who attacks", "certified", "audited, at least"):
            table.add_column(name, justify="left" if "who" in name else "right", header_style="dim", min_width=9)
        for result in group:
            audited = f"{result.estimate.epsilon_lower:.3g}"
            shown = f"[bold red]{audited} REFUTED[/bold red]" if result.is_violation else audited
            table.add_row(f"  {result.view.value}", f"{result.certified_epsilon:.3g}", shown)
        console.print(table)
    console.print()
    broken = sum(result.is_violation for result in results)
    console.print(
        f"{broken} of {len(results)} attacks refuted a certificate."
        if broken
        else f"None of {plural(len(results), 'attack')} refuted a certificate. This is evidence, not proof."
    )
    failed = [finding for finding in findings if finding.is_broken]
    for finding in failed:
        console.print(f"[bold red]BROKEN[/bold red] {cell(_text(finding))}", soft_wrap=True)
    console.print(
        f"{len(failed)} of {len(findings)} checks of single releases failed."
        if failed
        else f"All {len(findings)} checks of single releases passed."
    )
    for path in written:
        if path.suffix != ".png":
            console.print(cell(f"wrote {path}"), soft_wrap=True)


def _text(finding: "CheckOutcome") -> str:
    measure = {"SENSITIVITY": "distance over bound", "MODEL": "distance"}.get(finding.check.name, "p-value")
    return (
        f"{finding.method}, {finding.pair}: it is not true that {finding.check.value} "
        f"({measure} {finding.worst:.3g}, {finding.where})."
    )
