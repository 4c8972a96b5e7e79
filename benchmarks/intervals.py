"""Coverage of the confidence intervals for coefficients (C14), through the code that fits take.

    python benchmarks/intervals.py --fits 400 --cells 0 1 2

Every fit draws new records from a population, plans, buys a column profile, descends and buys the curvature with noise
from its own seed, and tells intervals or declines. Populations are synthetic designs, or the rows of a public table
drawn with replacement (Adult and ACS, if DPADMM_DATA names their folder). The truth is the optimum of the logistic loss
in the population: `named` as the fit's own encoding has its rows, which is what summaries say intervals are for, and
`ordinary` for rows as they are within the public bounds. `fits` is the share of fits that told any interval, `told`
that of coefficients that got one. Coverage counts all of these; standard errors are over fits. Seeds from 70,000 on are
reserved for this table: nothing is tuned on them.
"""

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from dpadmm.core.dataset import Dataset
from dpadmm.core.task import Aim, TableShape, Task
from dpadmm.data.columns import BinaryLabel, Categorical, Column, Label, Numeric, ThresholdLabel
from dpadmm.data.encoding import RowEncoding
from dpadmm.data.profile import ProfileForm
from dpadmm.data.schema import Schema
from dpadmm.data.tables import screen_cells
from dpadmm.inference.intervals import contrasts, estimate, interval_rows
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.planner.planner import plan
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import NeighbouringRelation, Protection, View
from dpadmm.problems.losses import Logistic
from dpadmm.queries.curvature import CurvatureFacts
from dpadmm.settings import CellRules
from dpadmm.testing import run_plan

DELTA, FIRST_SEED, CHUNK = 1e-5, 70_000, 250_000
Floats = NDArray[np.float64]
Part = tuple[Floats, Floats]
"""Numbers (n, columns) and labels -1/+1; a category is its number in the list."""

LINKS: dict[str, Callable[[Floats], Floats]] = {
    "logit": expit,
    "probit": lambda t: ndtr(0.6 * t),
    "cloglog": lambda t: 1 - np.exp(-np.exp(np.clip(0.7 * t, -30, 3))),
    "cauchit": lambda t: 0.5 + np.arctan(t) / np.pi,
}


@dataclass(frozen=True)
class Design:
    """A synthetic population. relation: of the columns. shape: of each. link: of the label; curve: what is omitted.

    category: share of the rarest category of one more column, none of these if 0.
    """

    d: int
    relation: str = "equal"
    shape: str = "normal"
    link: str = "logit"
    curve: float = 0.0
    intercept: float = -0.4
    category: float = 0.0

    @property
    def name(self) -> str:
        group = f", a category of {100 * self.category:g} %" if self.category else ""
        omitted = ", interaction omitted" if self.curve else ""
        rare = ", few positives" if self.intercept < -1 else ""
        return f"{self.shape}, {self.relation}, {self.link}{omitted}{rare}{group}"

    @cached_property
    def mixing(self) -> Floats:
        d, rng = self.d, np.random.default_rng(5)
        if self.relation == "factor":  # two common causes
            loads = rng.normal(0, 0.8, (d, 2))
            cov = loads @ loads.T + np.eye(d)
            cov /= np.sqrt(np.outer(np.diag(cov), np.diag(cov)))
        else:
            same = {"equal": np.ones((d, d), bool), "blocks": np.equal.outer(np.arange(d) // 4, np.arange(d) // 4)}
            cov = np.where(same[self.relation], 0.35, 0.0) if self.relation in same else np.eye(d)
            if self.relation == "twins":  # two columns that say much the same
                cov[0, 1] = cov[1, 0] = 0.9
            np.fill_diagonal(cov, 1.0)
        return np.linalg.cholesky(cov)

    @cached_property
    def slopes(self) -> Floats:
        slopes = np.random.default_rng(11).normal(0, 1, self.d)
        return 1.2 * slopes / np.linalg.norm(self.mixing.T @ slopes)

    @property
    def columns(self) -> tuple[Column, ...]:
        bounds = {"normal": (-8, 8), "t3": (-20, 20), "lognormal": (0, 40), "gamma": (0, 25), "binary": (0, 1)}
        numbers = tuple(Numeric(f"x{j}", *bounds[self.shape]) for j in range(self.d))
        return (*numbers, Categorical("group", ("A", "B", "C"))) if self.category else numbers

    def draw(self, rng: np.random.Generator, n: int) -> Part:
        normal = rng.standard_normal((n, self.d)) @ self.mixing.T
        if self.shape == "t3":
            x = normal * np.sqrt(3 / rng.chisquare(3, n))[:, None]
            centred = x / 1.7
        elif self.shape == "lognormal":
            x = np.exp(0.9 * normal)
            centred = (x - 1.5) / 1.7
        elif self.shape == "gamma":
            x = -2 * np.log(np.clip(ndtr(-normal), 1e-300, 1))
            centred = (x - 2) / 2
        elif self.shape == "binary":
            x = (normal > 0.5).astype(float)
            centred = (x - 0.31) / 0.46
        else:
            x = centred = normal
        low, high = self.columns[0].lower, self.columns[0].upper  # type: ignore[attr-defined]
        score = self.intercept + np.clip(centred, -6, 6) @ self.slopes
        if self.curve:
            score = score + self.curve * (normal[:, 0] * normal[:, 1] + 0.5 * (normal[:, 2] ** 2 - 1))
        numbers = np.clip(x, low, high)
        if self.category:
            group = rng.choice(3, n, p=(0.38 - self.category, 0.62, self.category))
            score, numbers = score + np.array([0.5, 0.0, -0.6])[group], np.column_stack([numbers, group])
        labels = np.where(rng.random(n) < LINKS[self.link](score), 1.0, -1.0)
        return numbers, labels

    def population(self, n: int) -> Iterator[Part]:
        """Yield twenty times as many rows, two millions at least, in parts."""
        for number in range(max(8, 20 * n // CHUNK)):
            yield self.draw(np.random.default_rng([7, number]), CHUNK)


@dataclass(frozen=True)
class Table:
    """The rows of a public table as a population."""

    name: str
    columns: tuple[Column, ...]
    numbers: Floats
    labels: Floats

    def draw(self, rng: np.random.Generator, n: int) -> Part:
        chosen = rng.integers(0, len(self.labels), n)
        return self.numbers[chosen], self.labels[chosen]

    def population(self, n: int) -> Iterator[Part]:
        yield self.numbers, self.labels


def adult() -> Table:
    from dpadmm_research.datasets.adult import SEXES, read_adult

    columns = (
        Numeric("age", 17, 90),
        Numeric("education-num", 1, 16),
        Numeric("hours-per-week", 1, 99),
        Categorical("sex", SEXES),
    )
    return _table("Adult", columns, BinaryLabel("income", (">50K",), ("<=50K",)), read_adult())


def acs() -> Table:
    from dpadmm_research.datasets.nist_acs import INCOME, read_nist_acs

    columns = (
        Numeric("AGEP", 18, 99),
        Categorical("SEX", ("1", "2")),
        Numeric("NOC", 0, 5),
        Numeric("EDU", 1, 12),
        Categorical("DPHY", ("1", "2")),
    )
    return _table("ACS", columns, ThresholdLabel(INCOME, 50_000), read_nist_acs())


def _table(name: str, columns: tuple[Column, ...], label: Label, frame: pd.DataFrame) -> Table:
    found = screen_cells(Schema(columns, label), frame, name, CellRules(missing="fill", unlisted="zero"))
    numbers = np.column_stack([each.codes if each.is_category else each.values for each in found.cells])
    return Table(name, columns, numbers.astype(float), found.labels)


@dataclass(frozen=True)
class CodedRows:
    """Rows of one silo, as `Dataset` takes them."""

    columns: tuple[Column, ...]
    numbers: Floats
    labels: Floats
    notes: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        return len(self.numbers)

    def counts(self, form: ProfileForm, row_weights: Floats | None = None) -> Floats:
        parts = []
        for bins, column in zip(form.bins, self.numbers.T, strict=True):
            places = column.astype(int) if hasattr(bins, "n_categories") else bins.places(column, np.isnan(column))
            parts.append(np.bincount(places, minlength=bins.number))
        return np.concatenate(parts) * form.weights

    def rows(self, encoding: RowEncoding) -> Floats:
        return np.asarray(encoding.encode(indicators(self.columns, self.numbers)))


def indicators(columns: tuple[Column, ...], numbers: Floats) -> Floats:
    """Return the features before encoding: numbers, and ones and zeros for categories."""
    parts = []
    for column, values in zip(columns, numbers.T, strict=True):
        kinds = len(column.feature_names)
        parts.append(values[:, None] if kinds == 1 else np.eye(kinds)[values.astype(int)])
    return np.hstack(parts)


def optimum(parts: Callable[[], Iterator[Part]], start: Floats, basis: Floats) -> Floats:
    """Return the minimiser of the logistic loss over a population, by Newton's method."""
    x = basis.T @ start
    for _ in range(30):
        gradient, hessian = np.zeros(len(x)), np.zeros((len(x), len(x)))
        for rows, labels in parts():
            z = rows @ basis
            pull = expit(-labels * (z @ x))
            gradient -= z.T @ (labels * pull)
            hessian += (z * (pull * (1 - pull))[:, None]).T @ z
        step = np.linalg.solve(hessian, gradient)
        x = x - step
        if np.abs(step).max() < 1e-7 * (1 + np.abs(x).max()):
            break
    return basis @ x


@dataclass(frozen=True)
class Cell:
    """A population with a budget, a number of records and an observer."""

    population: Design | Table
    n: int
    epsilon: float
    silos: int = 1
    view: View = View.EAVESDROPPER
    relation: NeighbouringRelation = NeighbouringRelation.REPLACE_ONE

    @property
    def who(self) -> Protection:
        colluders = 1 if self.view is View.AGGREGATE else None
        return Protection(view=self.view, colluders=colluders, relation=self.relation)

    @property
    def watched(self) -> str:
        where = "one silo" if self.silos == 1 else f"{self.silos} silos, {self.view.value}"
        return where if self.relation.has_public_sizes else f"{where}, add-remove"


@dataclass(frozen=True)
class Found:
    """Of every fit: how far the curvature stands out, and of every coefficient whether its interval covered.

    named, ordinary: NaN where there is no interval. length: median against those without privacy.
    """

    ratios: Floats
    named: Floats
    ordinary: Floats
    length: float
    planned: bool = True


def measure(cell: Cell, fits: int, seed: int) -> Found:
    """Fit so many times."""
    population = cell.population
    schema = Schema(population.columns, ThresholdLabel("y", 0), constant=0.3)
    sizes = tuple(cell.n // cell.silos + (i < cell.n % cell.silos) for i in range(cell.silos))
    made = plan(
        Task(
            sizes=sizes,
            dimension=schema.dimension,
            loss=Logistic(),
            target=Target(cell.epsilon, DELTA),
            protection=cell.who,
            table=TableShape.of(ProfileForm(schema.columns)),
            aim=Aim.INFERENCE,
        )
    )
    none = np.empty((0, 0))
    if made.lacks_intervals:
        return Found(none, none, none, np.nan, planned=False)
    ratios, named, ordinary, lengths, truth = [], [], [], [], None
    for number in range(fits):
        rng = np.random.default_rng([seed, number])
        numbers, labels = population.draw(rng, cell.n)
        cuts = np.cumsum(sizes)[:-1]
        parts = zip(np.split(numbers, cuts), np.split(labels, cuts), strict=True)
        raw = Dataset(
            schema,
            [CodedRows(schema.columns, *part) for part in parts],
            nominal=None if cell.relation.has_public_sizes else sizes,
        )
        done = run_plan(made, raw, SimulatedSampler(int(rng.integers(2**62))), progress=False)
        assert done.encoding is not None
        reported = contrasts(schema.columns, done.encoding)
        found = estimate(CurvatureFacts.of(done.released["curvature"], 0.0), reported)
        ratios.append(found.ratio)
        if truth is None:
            truth = Truth(population, cell.n, done.encoding)
        own, as_are, errors = truth.of(done.encoding)
        rows = interval_rows(found, reported, 0.95)
        for values, covered in ((own, named), (as_are, ordinary)):
            covered.append(
                [
                    np.nan if row.low is None or row.high is None else float(row.low <= value <= row.high)
                    for row, value in zip(rows, values, strict=True)
                ]
            )
        lengths += [row.std_err / error for row, error in zip(rows, errors, strict=True) if row.std_err is not None]
    length = float(np.median(lengths)) if lengths else np.nan
    return Found(np.array(ratios), np.array(named), np.array(ordinary), length)


class Truth:
    """The coefficients of a population: of rows as a fit's own encoding has them, and of rows as they are.

    The optimum is found once for the whole population, as the first fit encodes it. For every other fit, what its
    encoding changes is found in the population's first part and added.
    """

    def __init__(self, population: Design | Table, n: int, encoding: RowEncoding) -> None:
        """Find the optimum of the whole population."""
        self.columns, self.n = population.columns, n
        self.part = next(population.population(n))
        wide = replace(encoding, radius=1e3, **_public(population.columns))  # no row is as long
        self.named = _in_units(encoding, self._optimum(encoding, lambda: population.population(n)))
        self.ordinary = _in_units(wide, self._optimum(wide, lambda: population.population(n)))
        self.of_part = _in_units(encoding, self._optimum(encoding, lambda: iter([self.part])))

    def of(self, encoding: RowEncoding) -> tuple[Floats, Floats, Floats]:
        """Return the coefficients of encoded rows, of rows as they are, and standard errors without privacy."""
        reported = contrasts(self.columns, encoding)
        w = self._optimum(encoding, lambda: iter([self.part]))
        moved = self.named + _in_units(encoding, w) - self.of_part
        numbers, labels = self.part
        z = np.asarray(encoding.encode(indicators(self.columns, numbers))) @ reported.basis
        pull = expit(-labels * (z @ (reported.basis.T @ w)))
        hessian = (z * (pull * (1 - pull))[:, None]).T @ z * (self.n / len(z))
        inverse = reported.basis @ np.linalg.inv(hessian) @ reported.basis.T
        errors = np.sqrt(np.einsum("ij,jk,ik->i", reported.rows, inverse, reported.rows))
        named, ordinary = (reported.rows @ _encoded(encoding, each) for each in (moved, self.ordinary))
        return named, ordinary, errors

    def _optimum(self, encoding: RowEncoding, population: Callable[[], Iterator[Part]]) -> Floats:
        def parts() -> Iterator[Part]:
            for numbers, labels in population():
                yield np.asarray(encoding.encode(indicators(self.columns, numbers))), labels

        return optimum(parts, np.zeros(encoding.dimension), contrasts(self.columns, encoding).basis)


def _in_units(encoding: RowEncoding, weights: Floats) -> Floats:
    """Return the coefficient of every feature in the units of the table, and the intercept."""
    return np.append(*encoding.decode(weights))


def _encoded(encoding: RowEncoding, found: Floats) -> Floats:
    """Return the weights that `_in_units` makes these coefficients of."""
    assert encoding.constant is not None
    slopes = found[:-1] * np.array(encoding.scale) * encoding.radius / encoding.share
    return np.append(slopes, (found[-1] + found[:-1] @ np.array(encoding.centre)) / encoding.constant)


def _public(columns: tuple[Column, ...]) -> dict[str, tuple[float, ...]]:
    scales = [column.scale_by_bounds() for column in columns]
    return {side: tuple(x for each in scales for x in getattr(each, side)) for side in ("lower", "upper")}


def cells() -> list[Cell]:
    """Return the cells of the table; none of these designs served to choose the rule."""
    masked, public = {"silos": 5, "view": View.AGGREGATE}, {"silos": 4, "view": View.PUBLIC}
    added = {"relation": NeighbouringRelation.ADD_OR_REMOVE}
    found = [
        Cell(Design(3, "unrelated"), 3_000, 5.0),
        Cell(Design(3, "unrelated", link="cloglog"), 8_000, 1.0),
        Cell(Design(5), 10_000, 1.0),
        Cell(Design(5), 10_000, 5.0, **masked),
        Cell(Design(5), 30_000, 0.5),
        Cell(Design(5, intercept=-2.5), 30_000, 1.0),
        Cell(Design(5, link="probit"), 20_000, 1.0, **masked),
        Cell(Design(5, link="cauchit"), 20_000, 1.0, **public),
        Cell(Design(5, curve=0.5), 20_000, 1.0),
        Cell(Design(5, curve=0.5), 20_000, 5.0),
        Cell(Design(5), 20_000, 1.0, **added),
        Cell(Design(8, "blocks"), 30_000, 1.0),
        Cell(Design(8, "blocks", "binary", "probit"), 40_000, 1.0),
        Cell(Design(4, "equal", "t3"), 30_000, 1.0),
        Cell(Design(4, "equal", "t3", curve=0.4), 15_000, 5.0),
        Cell(Design(4, "equal", "lognormal"), 30_000, 1.0),
        Cell(Design(4, "equal", "gamma", "cloglog"), 20_000, 1.0, **masked),
        Cell(Design(10, "factor"), 60_000, 1.0),
        Cell(Design(10, "factor", curve=0.3), 50_000, 5.0),
        Cell(Design(20, "unrelated"), 100_000, 1.0),
        Cell(Design(25, "blocks", link="probit"), 200_000, 1.0),
        Cell(Design(25, "blocks"), 50_000, 5.0),
    ]
    if os.environ.get("DPADMM_DATA"):
        income, survey = adult(), acs()
        found += [
            Cell(income, 20_000, 1.0),
            Cell(income, 40_000, 0.5),
            Cell(income, 20_000, 5.0, **masked),
            Cell(survey, 20_000, 1.0),
            Cell(survey, 60_000, 1.0),
            Cell(survey, 20_000, 5.0),
        ]
    # Where few fits tell intervals, and most of those only since noise lifts the curvature: the hardest there are.
    found += [Cell(Design(3, "twins"), n, 5.0) for n in (2_500, 3_500, 5_000)]
    # Where a rare category hides one direction.
    return [*found, Cell(Design(4, category=0.01), 30_000, 1.0), Cell(Design(4, category=0.03), 20_000, 3.0)]


def line(cell: Cell, found: Found) -> str:
    """Return a row of the table."""
    pop = cell.population
    d = len(pop.columns)
    head = f"| {pop.name} | {d} | {cell.n:,} | {cell.epsilon:g} | {cell.watched} "
    if not found.planned:
        return head + "| declined by the plan | | | | | |"
    has_any = ~np.isnan(found.named).all(axis=1)
    named, ordinary = found.named[has_any], found.ordinary[has_any]
    reported = f"| {100 * has_any.mean():.0f} % | {100 * (~np.isnan(found.named)).mean():.0f} % "
    if len(named) < 20:
        return head + f"{reported}| {np.median(found.ratios):.1f} | | | | |"
    numbers = (~np.isnan(named)).sum(axis=1)
    share = np.nanmean(named)
    error = np.sqrt(np.sum((np.nansum(named, axis=1) - share * numbers) ** 2)) / numbers.sum()
    return head + (
        f"{reported}| {np.median(found.ratios):.1f} | {100 * share:.1f} ({100 * error:.1f}) "
        f"| {100 * np.nanmin(np.nanmean(named, axis=0)):.0f} | {100 * np.nanmean(ordinary):.1f} | {found.length:.2f} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=400)
    parser.add_argument("--cells", type=int, nargs="*", help="numbers of the cells to run; all if left out")
    parser.add_argument("--seed", type=int, default=FIRST_SEED)
    wanted = parser.parse_args()
    warnings.simplefilter("ignore")
    heads = ("population", "columns", "records", "epsilon", "observer", "fits", "told", "ratio")
    heads = (*heads, "named % (s.e.)", "least %", "ordinary %", "length")
    sys.stdout.write(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n")
    for number, cell in enumerate(cells()):
        if wanted.cells is None or number in wanted.cells:
            sys.stdout.write(line(cell, measure(cell, wanted.fits, wanted.seed + number)) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
