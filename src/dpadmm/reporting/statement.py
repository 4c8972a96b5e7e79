"""What is told about a release: one guarantee for models, estimators and figures, and the facts beside it.

Every one is public: sizes and bounds, the plan, accounted figures, or what follows from noisy releases alone.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from typing import Any

from dpadmm.checks import plural
from dpadmm.codec import encode
from dpadmm.errors import InputError
from dpadmm.methods.base import Topology
from dpadmm.noise.sampler import family_of
from dpadmm.planner.forecast import Forecast
from dpadmm.privacy.accounting import Account
from dpadmm.privacy.protection import Protection, Strength, covers, standing
from dpadmm.privacy.releases import NoisyRelease, Origin, Release, SummedGaussianRelease


def _condition(declared: Sequence[str]) -> str:
    """Say on what a certified figure depends, before it; nothing if on nothing.

    >>> _condition(["loss Mine"])
    'if your declared constants hold (loss Mine): '
    """
    return standing(Strength.FULL, tuple(declared)).removeprefix(Strength.FULL.value).strip() + ": " * bool(declared)


_SMALL = re.compile(r"\d+(?:\.\d+)?e-\d+")


def merged(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the assumptions with those that differ in a tiny number only put together.

    >>> merged(("rounded to 1.25e-08", "rounded to 2.5e-08", "convex"))
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


@dataclass(frozen=True, kw_only=True)
class Collusion:
    """What is *not* certified where only sums are seen (C12): the epsilon, at the same delta, if more silos look.

    if_all: of all silos but a person's own. if_one: of one, where the certified figure counts none; else None.
    """

    if_all: float
    if_one: float | None = None

    @classmethod
    def of(cls, account: Account, delta: float) -> "Collusion | None":
        """Return what an account says about it; None where no sums of shares were released."""
        if account.if_all_collude is None:
            return None
        one = account.if_one_looks
        return cls(if_all=account.if_all_collude.epsilon(delta), if_one=None if one is None else one.epsilon(delta))

    def lines(self, protection: Protection, *, in_one_process: bool) -> list[tuple[str, str]]:
        """Say it, with what the number of colluders counts, as details of a statement."""
        t = protection.n_colluders
        counted = f"up to {t}: every curious silo counts, alone or together with the coordinator"
        if self.if_one is not None:
            counted = (
                "none: the epsilon holds only against the coordinator and outsiders; a curious silo knows its "
                f"own share of the noise, and against it epsilon would be {self.if_one:.3g}"
            )
        return [
            ("Colluders", counted),
            (
                "All collude",
                "not certified: against all other silos and the coordinator together, epsilon would be "
                f"{self.if_all:.3g}",
            ),
            *([("Masks", IN_ONE_PROCESS)] if in_one_process else []),
        ]


@dataclass(frozen=True, kw_only=True)
class ProfileCost:
    """What the column profile behind a model costs, all of it a part of the model's certified figure.

    columns: how many were counted. epsilon: by themselves. earlier_run: the one that released and paid for them, None
    if it was the model's own. run_epsilon: what the model's own run has spent.

    >>> print(ProfileCost(columns=14, epsilon=0.1049, run_epsilon=1.0))
    noisy counts of 14 columns (C11), which alone cost epsilon 0.105 of it
    """

    columns: int
    epsilon: float
    run_epsilon: float
    earlier_run: str | None = None

    def __str__(self) -> str:
        """Say it in one line."""
        said = f"noisy counts of {self.columns} columns (C11), which alone cost epsilon {self.epsilon:.3g} of it"
        if self.earlier_run is None:
            return said
        own = f"this run spent epsilon {self.run_epsilon:.6g}"
        return f"{said}; run {self.earlier_run!r} released and paid for them, {own}"


@dataclass(frozen=True, kw_only=True)
class SearchCost:
    """How settings were chosen among candidates, and what that costs, all of it a part of the certified figure.

    candidates: in words, all of them public. trained: how many of them were, each with its share of the budget.
    chosen: the one that was kept. epsilon: of the noisy scores by themselves; None where simulations alone decided.

    >>> print(SearchCost(candidates=("alpha=0.1", "alpha=1"), trained=1, chosen="alpha=1", epsilon=None))
    alpha=1 of 2 candidates (alpha=0.1; alpha=1): chosen in simulations on synthetic data, which cost nothing
    """

    candidates: tuple[str, ...]
    trained: int
    chosen: str
    epsilon: float | None

    @property
    def subject(self) -> str:
        """What a statement covers: with the model also the choice, where records decided it."""
        return "the model" if self.epsilon is None else "the model and the choice of its settings"

    def __str__(self) -> str:
        """Say it in one line."""
        said = f"{self.chosen} of {len(self.candidates)} candidates ({'; '.join(self.candidates)}): "
        if self.epsilon is None:
            return f"{said}chosen in simulations on synthetic data, which cost nothing"
        return (
            f"{said}{self.trained} were trained and compared by noisy scores (C15), which alone cost epsilon "
            f"{self.epsilon:.3g}; the epsilon covers all of it"
        )


@dataclass(frozen=True, kw_only=True)
class NoiseSummary:
    """The noise of all releases together: its family, the least and greatest scale, and how many values got it.

    silos: how many add a share each, where values are sums (C12); the scales are those of the sum. None elsewhere.
    """

    family: str
    least_scale: float
    greatest_scale: float
    releases: int
    silos: int | None = None

    @classmethod
    def of(cls, releases: Iterable[Release]) -> "NoiseSummary":
        """Return the summary of what releases promise."""
        families, levels, number = set[str](), list[float](), 0
        sums = list[SummedGaussianRelease]()
        for release in releases:
            families.add(family_of(release).value)
            number += release.count
            if isinstance(release, SummedGaussianRelease):
                sums.append(release)
            if isinstance(release, NoisyRelease):
                levels.append(release.level)
        scales = [each.total_std for each in sums] or levels
        return cls(
            family=" and ".join(sorted(families)),
            least_scale=min(scales),
            greatest_scale=max(scales),
            releases=number,
            silos=sums[0].silos if sums else None,
        )

    def __str__(self) -> str:
        """Return the summary in words."""
        if self.silos is None:
            return f"{self.family}, scale {self._span(1.0)}, on {plural(self.releases, 'release')}"
        share, total = self._span(math.sqrt(self.silos)), self._span(1.0)
        return (
            f"{self.family}, a share of scale {share} from each of {self.silos} silos, which add up to {total} in the "
            f"sum, on {plural(self.releases, 'release')}"
        )

    def _span(self, parts: float) -> str:
        least, greatest = self.least_scale / parts, self.greatest_scale / parts
        return f"{least:.4g}" + (f" to {greatest:.4g}" if greatest > least * (1 + 1e-9) else "")


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """A certified figure with everything it must name: for whom, against whom, under what, how far.

    epsilon: at `delta`, of all releases together. theorems: of the certificates it follows from.
    problems: how many models share it (one per class where each is trained against the rest, else 1).
    origin: where the noise came from; the figures are about a release only if that was secure.
    profile: what the column profile behind a model costs, a part of epsilon; None without one.
    collusion: where only sums are seen, what is seen if more silos look than `protection` counts (C12).
    search: how settings were chosen among candidates, a part of epsilon; None where there was no choice.
    declared: the user's own parts on whose declared constants the figure rests: it is certified if these hold.
    """

    epsilon: float
    delta: float
    protection: Protection
    strength: Strength
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...]
    noise: NoiseSummary
    origin: Origin
    problems: int = 1
    subject: str = "the model"
    profile: ProfileCost | None = None
    collusion: Collusion | None = None
    search: SearchCost | None = None
    declared: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what nobody could be promised."""
        if not (self.epsilon >= 0 and 0 <= self.delta < 1):
            raise InputError("The guarantee is damaged: its epsilon or its delta is impossible.")

    @classmethod
    def of(
        cls,
        account: Account,
        releases: Iterable[Release],
        *,
        delta: float,
        origin: Origin,
        assumptions: Sequence[str] = (),
        **others: Any,
    ) -> "Guarantee":
        """Return what an account says at one delta; `assumptions` are made beyond its own."""
        return cls(
            epsilon=account.curve.epsilon(delta),
            delta=delta,
            protection=account.protection,
            strength=account.strength,
            theorems=tuple(account.theorems),
            assumptions=(*account.assumptions, *assumptions),
            noise=NoiseSummary.of(releases),
            origin=origin,
            collusion=Collusion.of(account, delta),
            declared=tuple(account.declared),
            **others,
        )

    @property
    def standing(self) -> str:
        """Whether the figure is certified, up to what, and whether only if declared constants hold."""
        return standing(self.strength, self.declared)

    @property
    def is_private_release(self) -> bool:
        """Whether the result may leave under this guarantee: seeded noise protects nobody."""
        return self.origin is Origin.SECURE

    @property
    def covers(self) -> str:
        """What the figure is about, and what it cannot know: an estimator does not see what was done to its rows."""
        return covers(self.subject)

    def text(self, *details: tuple[str, str], in_one_process: bool = True) -> str:
        """Return the guarantee as a few lines, with further ones: a heading of at most 11 letters, and its words."""
        certified = f"{_condition(self.declared)}epsilon {self.epsilon:.6g} at delta {self.delta:.3g}"
        lines = [
            ("Covers", self.covers),
            ("Certified", f"{certified} for {self.subject}"),
            ("Protects", f"{self.protection} from {self.protection.observer}"),
            ("Persons", self.protection.people),
            ("Certificate", f"{'; '.join(self.theorems)}; {self.standing}"),
            ("Noise", f"{self.noise}; from: {self.origin.source}"),
            *self.collusion_lines(in_one_process=in_one_process),
            *([] if self.profile is None else [("Profile", str(self.profile))]),
            *([] if self.search is None else [("Chosen", str(self.search))]),
            *details,
        ]
        if self.problems > 1:
            lines.append(("Shared by", f"{self.problems} one-vs-rest models: the epsilon covers all of them together"))
        alarm = "NOT a private release: simulated noise. Keep the result to yourself"
        return "\n".join(
            [
                *([] if self.is_private_release else [alarm]),
                *(f"{heading:<11} {words}" for heading, words in lines),
                "Assumes",
                *(f"  - {text}" for text in merged(self.assumptions)),
            ]
        )

    def collusion_lines(self, *, in_one_process: bool) -> list[tuple[str, str]]:
        """Say which silos that look are counted, and what more of them would see; nothing unless only sums are seen."""
        if self.collusion is None:
            return []
        return self.collusion.lines(self.protection, in_one_process=in_one_process)

    def __str__(self) -> str:
        """Return the guarantee as a few lines of text."""
        return self.text()

    def as_json(self) -> dict[str, Any]:
        """Return the guarantee as plain values."""
        said = {"covers": self.covers, "protects": str(self.protection), "observer": self.protection.observer}
        stands = {"standing": self.standing, "is_private_release": self.is_private_release}
        return said | encode(self) | stands


class Custody(Enum):
    """Who held the tables: one machine that read them all and simulated the silos, or each silo its own."""

    ONE_PLACE = "simulated in one place"
    FEDERATED = "federated"

    def words(self, n_silos: int) -> str:
        """Say where the records were.

        >>> Custody.ONE_PLACE.words(3)
        'simulated in one place: all tables were on one machine'
        """
        if self is Custody.FEDERATED:
            return "federated: every silo's own process kept its records"
        return "read in one place" if n_silos == 1 else f"{self.value}: all tables were on one machine"


@dataclass(frozen=True, kw_only=True)
class SiloCost:
    """What a run cost the records of one silo that accounts for itself, in its own ledger.

    epsilon: certified, at `delta`. least_noise: least ratio of noise to sensitivity. noise_level, sensitivity: of its
    first release.
    """

    releases: int
    epsilon: float
    delta: float
    least_noise: float
    noise_level: float
    sensitivity: float
    certificate: str
    strength: str
    view: str


@dataclass(frozen=True, kw_only=True)
class SiloFacts:
    """One holder of records; their number is public where neighbouring data sets have equally many, else nominal.

    cost: what the silo's own ledger was charged, where every silo keeps one (a federation).
    """

    name: str
    records: int
    cost: SiloCost | None = None


@dataclass(frozen=True, kw_only=True)
class MethodChoice:
    """Which method ran, how it was set and why, and what simulations on synthetic data showed before.

    topology: who talks to whom, on a graph the pairs in `edges`. settings: with their names, for readers.
    """

    method: str
    rounds: int
    topology: Topology
    edges: tuple[tuple[int, int], ...]
    settings: tuple[tuple[str, str], ...]
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    is_hopeless: bool
    expected: Forecast | None = None


@dataclass(frozen=True, kw_only=True)
class Accountability:
    """Who answers for the processing and why it was done, in the words of whoever trained or reports."""

    purpose: str = ""
    controller: str = ""
    contact: str = ""

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """The three with their headings; what is empty, or blank, was not stated."""
        said = (("Purpose", self.purpose), ("Controller", self.controller), ("Contact", self.contact))
        return tuple((heading, " ".join(words.split())) for heading, words in said)


NOT_STATED = Accountability()


@dataclass(frozen=True, kw_only=True)
class RoundFacts:
    """What can be computed from the released messages of a round; of several kinds of messages, from the first.

    movement: how far the mean message is from that of the round before. average_movement: how far the mean of all
    messages so far moved. messages: how many there are. size: their mean norm, noise included; noise: the expected norm
    of the noise in one; bound: how far one unit can move it. These are None where only estimates are public.
    """

    round: int
    movement: float
    average_movement: float
    messages: int = 1
    size: float | None = None
    noise: float | None = None
    bound: float | None = None


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What the ledger said: the budget, what is spent and left, and the head that pins its history.

    data_version, data_since: which version of the data it is about now; what was spent on earlier ones is counted.
    """

    ledger: str
    budget_epsilon: float
    budget_delta: float
    spent_epsilon: float
    left_epsilon: float
    releases: int
    head: str
    runs: tuple[tuple[str, float], ...]
    time: str
    data_version: int = 1
    data_since: str = ""
