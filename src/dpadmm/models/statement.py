"""The guarantee of a release and of a model as text: what terminal, page and `print` show."""

import math
import re
from collections.abc import Sequence
from itertools import zip_longest

from dpadmm.checks import plural
from dpadmm.core.model import DataLocation, Guarantee, NoiseSummary, ProfileCost, ReleasedModel, SearchCost
from dpadmm.methods.base import Topology
from dpadmm.privacy.protection import Strength, Unit, standing


def _condition(declared: Sequence[str]) -> str:
    """Say on what a certified figure depends, before it; nothing if on nothing.

    >>> _condition(["loss Mine"])
    'if your declared constants hold (loss Mine): '
    """
    return standing(Strength.FULL, tuple(declared)).removeprefix(Strength.FULL.value).strip() + ": " * bool(declared)


_SMALL = re.compile(r"\d+(?:\.\d+)?e-\d+")


def merge_numbers(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the assumptions with those that differ in a tiny number only put together.

    >>> merge_numbers(("rounded to 1.25e-08", "rounded to 2.5e-08", "convex"))
    ('rounded to 1.25e-08 ... 2.5e-08', 'convex')
    """
    groups: dict[str, list[list[str]]] = {}
    for text in texts:
        groups.setdefault(_SMALL.sub("\0", text), []).append(_SMALL.findall(text))
    spans = {form: [_span(column) for column in zip(*rows, strict=True)] for form, rows in groups.items()}
    return tuple(
        "".join(map("".join, zip_longest(form.split("\0"), span, fillvalue=""))) for form, span in spans.items()
    )


def _span(numbers: Sequence[str]) -> str:
    low, high = min(map(float, numbers)), max(map(float, numbers))
    return f"{low:.3g}" if low == high else f"{low:.3g} ... {high:.3g}"


IN_ONE_PROCESS = "all silos were simulated in one process, which had all records: masks hide nothing from that machine"
"""About masks where silos are simulated in one place."""


def guarantee_text(guarantee: Guarantee, *details: tuple[str, str], in_one_process: bool = True) -> str:
    """Return the guarantee as a few lines, with further ones: a heading of at most 11 letters, and a sentence."""
    certified = f"{_condition(guarantee.declared)}epsilon {guarantee.epsilon:.6g} at delta {guarantee.delta:.3g}"
    lines = [
        ("Covers", guarantee.covers),
        ("Certified", f"{certified} for {guarantee.subject}"),
        ("Protects", f"{guarantee.protection} from {guarantee.protection.observer}"),
        ("Persons", guarantee.protection.people),
        ("Certificate", f"{'; '.join(guarantee.theorems)}; {guarantee.standing}"),
        ("Noise", f"{noise_text(guarantee.noise)}; from: {guarantee.origin.source}"),
        *collusion_lines(guarantee, in_one_process=in_one_process),
        *([] if guarantee.profile is None else [("Profile", profile_text(guarantee.profile))]),
        *([] if guarantee.search is None else [("Chosen", search_text(guarantee.search))]),
        *details,
    ]
    if guarantee.n_models > 1:
        lines.append(("Shared by", f"{guarantee.n_models} one-vs-rest models: the epsilon covers all of them together"))
    alarm = "NOT a private release: simulated noise. Keep the result to yourself"
    return "\n".join(
        [
            *([] if guarantee.is_private_release else [alarm]),
            *(f"{heading:<11} {text}" for heading, text in lines),
            "Assumes",
            *(f"  - {text}" for text in merge_numbers(guarantee.assumptions)),
        ]
    )


def collusion_lines(guarantee: Guarantee, *, in_one_process: bool) -> list[tuple[str, str]]:
    """Say which silos that look are counted, and what more of them would see; nothing unless only sums are seen."""
    if guarantee.collusion is None:
        return []
    counted = (
        f"up to {guarantee.protection.n_colluders}: every curious silo counts, alone or together with the coordinator"
    )
    if guarantee.collusion.if_one is not None:
        counted = (
            "none: the epsilon holds only against the coordinator and outsiders; a curious silo knows its "
            f"own share of the noise, and against it epsilon would be {guarantee.collusion.if_one:.3g}"
        )
    return [
        ("Colluders", counted),
        (
            "All collude",
            "not certified: against all other silos and the coordinator together, epsilon would be "
            f"{guarantee.collusion.if_all:.3g}",
        ),
        *([("Masks", IN_ONE_PROCESS)] if in_one_process else []),
    ]


def profile_text(cost: ProfileCost) -> str:
    """Say in one line what a column profile cost.

    >>> print(profile_text(ProfileCost(columns=14, epsilon=0.1049, run_epsilon=1.0)))
    noisy counts of 14 columns (C11), which alone cost epsilon 0.105 of it
    """
    start = f"noisy counts of {cost.columns} columns (C11), which alone cost epsilon {cost.epsilon:.3g} of it"
    if cost.earlier_run is None:
        return start
    own = f"this run spent epsilon {cost.run_epsilon:.6g}"
    return f"{start}; run {cost.earlier_run!r} released and paid for them, {own}"


def search_text(cost: SearchCost) -> str:
    """Say in one line how settings were chosen.

    >>> print(search_text(SearchCost(candidates=("alpha=0.1", "alpha=1"), trained=1, chosen="alpha=1", epsilon=None)))
    alpha=1 of 2 candidates (alpha=0.1; alpha=1): chosen in simulations on synthetic data, which cost nothing
    """
    start = f"{cost.chosen} of {len(cost.candidates)} candidates ({'; '.join(cost.candidates)}): "
    if cost.epsilon is None:
        return f"{start}chosen in simulations on synthetic data, which cost nothing"
    return (
        f"{start}{cost.trained} were trained and compared by noisy scores (C15), which alone cost epsilon "
        f"{cost.epsilon:.3g}; the epsilon covers all of it"
    )


def noise_text(noise: NoiseSummary) -> str:
    """Say in one line which noise there was."""
    number = plural(noise.releases, "release")
    if noise.silos is None:
        return f"{noise.family}, scale {_scales(noise, 1.0)}, on {number}"
    return (
        f"{noise.family}, a share of scale {_scales(noise, math.sqrt(noise.silos))} from each of {noise.silos} silos, "
        f"which add up to {_scales(noise, 1.0)} in the sum, on {number}"
    )


def _scales(noise: NoiseSummary, parts: float) -> str:
    least, greatest = noise.least_scale / parts, noise.greatest_scale / parts
    return f"{least:.4g}" + (f" to {greatest:.4g}" if greatest > least * (1 + 1e-9) else "")


def records_text(model: ReleasedModel) -> str:
    """Say how many records, or persons, there are, as far as that is public."""
    protection = model.guarantee.protection
    if protection.relation.has_public_sizes:
        return f"{model.records} {protection.counted}{protection.counting_note}"
    return f"a secret number of {protection.counted} (nominally {model.records})"


def connections_text(model: ReleasedModel) -> str:
    """Say who talks to whom."""
    choice, silos = model.choice, len(model.silos)
    if choice.topology is Topology.STAR:
        return "every silo with a coordinator"
    if choice.topology is Topology.ALONE:
        return "each silo speaks once" if choice.rounds == 1 else "one silo releases on its own"
    pairs = f"{len(choice.edges)} pairs of silos exchange messages"
    if model.location is DataLocation.FEDERATED:
        return f"{pairs}, through a relay"
    return "every silo with every other" if 2 * len(choice.edges) == silos * (silos - 1) else pairs


def location_text(model: ReleasedModel) -> str:
    """Say where the records were."""
    if model.location is DataLocation.FEDERATED:
        return "federated: every silo's own process kept its records"
    if len(model.silos) == 1:
        return "read in one place"
    return "simulated in one place: all tables were on one machine"


def model_text(model: ReleasedModel) -> str:
    """Say who is protected from whom, and by how much."""
    choice = model.choice
    details = [
        ("Trained on", f"{records_text(model)} in {plural(len(model.silos), 'silo')}; {location_text(model)}"),
        ("Method", f"{choice.method}, {choice.rounds} rounds, {connections_text(model)}"),
    ]
    if model.encoding.constant is None:
        details.append(("Intercept", "none, as its owner stated: the model cannot follow every base rate"))
    if model.curvature is not None:
        alone = f"epsilon {model.curvature.epsilon:.3g}"
        details.append(("Intervals", f"from the curvature of the loss (C14), which alone costs {alone} of it"))
    if model.softmax is not None:
        details.append(("Classes", f"{model.n_scores} in one model (softmax)"))
    details += [
        ("Silo", f"{silo.name}: epsilon {silo.cost.epsilon:.6g} at delta {silo.cost.delta:.3g}, in its own ledger")
        for silo in model.silos
        if silo.cost is not None
    ]
    return guarantee_text(model.guarantee, *details, in_one_process=model.location is DataLocation.ONE_PLACE)


def best_guess(epsilon: float, delta: float) -> float:
    """Return the most often anybody can be right about one record between two even choices.

    An (epsilon, delta) guarantee bounds the total variation by `(e^eps - 1 + 2 delta)/(e^eps + 1)`, so the best guess
    is right with probability at most `(e^eps + delta)/(e^eps + 1)`.

    >>> round(best_guess(1.0, 0.0), 3), best_guess(0.0, 0.0)
    (0.731, 0.5)
    """
    return min(1.0, (1.0 + delta * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon)))


def guess_text(guarantee: Guarantee) -> str:
    """Return how often the best guess about a record is right."""
    return f"{100 * best_guess(guarantee.epsilon, guarantee.delta):.1f} %"


def factor_text(guarantee: Guarantee) -> str:
    """Return by how much a change of the protected records changes the probability of any conclusion."""
    return f"a factor of at most {math.exp(min(guarantee.epsilon, 700.0)):.3g}"


def meaning_text(guarantee: Guarantee) -> str:
    """Say what the figures mean for the unit that is protected."""
    protection, delta = guarantee.protection, guarantee.delta
    it = "them" if protection.unit is Unit.PERSON else "it"
    if protection.relation.has_public_sizes:
        alone = f"replacing {it} by any other"
        change = alone if protection.is_single else "replacing all of them together by any others"
        unit = f"{protection.unit.value}s" if protection.is_single else "sets of such records"
        coin = f"between two possible {unit}"
    else:
        change = f"adding or removing {it if protection.is_single else 'all of them together'}"
        coin = f"whether {'it is' if protection.is_single and it == 'it' else 'they are'} there"
    rest = "" if delta == 0 else f", up to a remaining probability of 1 in {1 / delta:,.0f}"
    return (
        f"Whatever such an observer may conclude, {change} changes its probability by {factor_text(guarantee)}{rest}. "
        f"Someone who knows everything else and could otherwise only toss a coin {coin} is right at most "
        f"{guess_text(guarantee)} of the time."
    )
