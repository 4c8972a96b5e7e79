"""Coverage of the confidence intervals for coefficients (C14), through the code that fits take.

    python benchmarks/intervals.py --fits 400 --cells 0 1 2 --keep fits.jsonl

Every fit draws new records from a population, plans, pays for a column profile, descends and pays for the curvature
(and for products of gradients, where a number is predicted) with noise from its own seed, and prints intervals or none.
Populations are synthetic designs, or the rows of a public table drawn with replacement (Adult and ACS, if DPADMM_DATA
names their folder). The truth is what summaries say intervals are for: the optimum of the loss in the population, with
the weights and the scale of that fit's own encoding; where the model is right, its coefficients, whatever rows count.
`plan` is the share of coefficients that the plan expects to get intervals, `fits` the share of fits that printed any
interval, `given` that of coefficients that got one. Coverage counts all of these; standard errors are over fits. Fits
that are in the file `--keep` are not done again. Seeds from 70,000 on are reserved for this table: nothing is tuned on
them.
"""

import argparse
import json
import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from dpadmm.core.dataset import Dataset
from dpadmm.core.task import INFERENCE_LOSS, Aim, TableShape, Task
from dpadmm.data.columns import BinaryLabel, Categorical, Column, Label, Numeric, RealLabel, ThresholdLabel
from dpadmm.data.encoding import RowEncoding
from dpadmm.data.profile import ProfileForm
from dpadmm.data.schema import Schema
from dpadmm.data.tables import screen_cells
from dpadmm.inference.intervals import Contrasts, contrasts, estimate, interval_rows
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.planner.planner import plan
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import NeighbouringRelation, Protection, View
from dpadmm.problems.losses import Logistic
from dpadmm.queries.curvature import CurvatureFacts
from dpadmm.settings import CellRules
from dpadmm.testing import run_plan

DELTA, FIRST_SEED, POPULATION = 1e-5, 70_000, 1_000_000
PART = 100_000
Floats = NDArray[np.float64]
Part = tuple[Floats, Floats]
"""Numbers (n, columns) and labels, -1/+1 or numbers; a category is its number in the list."""


@dataclass(frozen=True)
class Design:
    """A synthetic population.

    relation: of the columns. shape: of each. category: share of the rarest category of one more column, none of these
    if 0. r2: of a number to predict; 0 for two classes. skew: whether residuals are skewed, and vary more with x0.
    """

    d: int
    relation: str = "unrelated"
    shape: str = "normal"
    category: float = 0.0
    r2: float = 0.0
    skew: bool = False
    intercept: float = -0.4

    @property
    def name(self) -> str:
        group = f", a category of {100 * self.category:g} %" if self.category else ""
        kind = f"R2 {self.r2:g}{', skewed and uneven residuals' if self.skew else ''}" if self.r2 else "two classes"
        return f"{kind}, {self.shape}, {self.relation}{group}"

    @cached_property
    def mixing(self) -> Floats:
        place = np.arange(self.d)
        relations = {
            "unrelated": np.eye(self.d),
            "chain of .6": 0.6 ** np.abs(place[:, None] - place),
            "equal, .5": 0.5 + 0.5 * np.eye(self.d),
            "pairs of .8": np.eye(self.d) + 0.8 * (np.eye(self.d)[place ^ 1 if self.d % 2 == 0 else place] > 0),
        }
        cov = relations[self.relation]
        return np.linalg.cholesky(cov / np.sqrt(np.outer(np.diag(cov), np.diag(cov))))

    @cached_property
    def slopes(self) -> Floats:
        slopes = np.random.default_rng(31).normal(0, 1, self.d)
        return 1.2 * slopes / np.linalg.norm(self.mixing.T @ slopes)

    @property
    def columns(self) -> tuple[Column, ...]:
        bounds = {"normal": (-8, 8), "t3": (-25, 25), "lognormal": (0, 40)}
        numbers = tuple(Numeric(f"x{j}", *bounds[self.shape]) for j in range(self.d))
        return (*numbers, Categorical("group", ("A", "B", "C"))) if self.category else numbers

    @property
    def label(self) -> Label:
        return RealLabel("y", -30, 30) if self.r2 else ThresholdLabel("y", 0)

    @property
    def coefficients(self) -> Floats | None:
        """Of every feature, and the intercept, whatever rows count; None where residuals make weights matter."""
        centre, scale = {"normal": (0.0, 1.0), "t3": (0.0, 1.7), "lognormal": (1.5, 1.7)}[self.shape]
        slopes = self.slopes / scale
        found = [*slopes, *([0.5, 0.0, -0.6] if self.category else []), self.intercept - centre * slopes.sum()]
        return None if self.skew else np.array(found)

    def draw(self, rng: np.random.Generator, n: int) -> Part:
        normal, numbers = rng.standard_normal((n, self.d)) @ self.mixing.T, 0.0
        if self.shape == "t3":
            numbers = normal * np.sqrt(3 / rng.chisquare(3, n))[:, None]
        else:
            numbers = np.exp(0.9 * normal) if self.shape == "lognormal" else normal
        low, high = self.columns[0].lower, self.columns[0].upper  # type: ignore[attr-defined]
        cells = numbers = np.clip(numbers, low, high)
        if self.category:
            group = rng.choice(3, n, p=(0.38 - self.category, 0.62, self.category))
            numbers, cells = np.column_stack([numbers, np.eye(3)[group]]), np.column_stack([cells, group])
        known = replace(self, skew=False).coefficients
        score = known[-1] + numbers @ known[:-1]
        if not self.r2:
            return cells, np.where(rng.random(n) < expit(score), 1.0, -1.0)
        noise = rng.gamma(2.0, 1.0, n) / np.sqrt(2) - np.sqrt(2) if self.skew else rng.standard_normal(n)
        noise = noise * np.sqrt(0.5 + 0.5 * np.minimum(normal[:, 0] ** 2, 9)) if self.skew else noise
        return cells, score + 1.2 * np.sqrt(1 / self.r2 - 1) * noise

    def population(self) -> Iterator[Part]:
        for number in range(POPULATION // PART):
            yield self.draw(np.random.default_rng([7, number]), PART)


@dataclass(frozen=True)
class Table:
    """The rows of a public table as a population."""

    name: str
    columns: tuple[Column, ...]
    label: Label
    numbers: Floats
    labels: Floats
    r2: float = 0.0
    coefficients: None = None

    def draw(self, rng: np.random.Generator, n: int) -> Part:
        chosen = rng.integers(0, len(self.labels), n)
        return self.numbers[chosen], self.labels[chosen]

    def population(self) -> Iterator[Part]:
        yield self.numbers, self.labels


def adult(label: Label | None = None) -> Table:
    from dpadmm_research.datasets.adult import SEXES, read_adult

    columns = (
        Numeric("age", 17, 90),
        Numeric("education-num", 1, 16),
        Categorical("sex", SEXES),
        *(() if label else (Numeric("hours-per-week", 1, 99),)),
    )
    return _table("Adult", columns, label or BinaryLabel("income", (">50K",), ("<=50K",)), read_adult())


def acs(label: Label | None = None) -> Table:
    from dpadmm_research.datasets.nist_acs import INCOME, read_nist_acs

    columns = (
        Numeric("AGEP", 18, 99),
        Categorical("SEX", ("1", "2")),
        Numeric("NOC", 0, 5),
        Numeric("EDU", 1, 12),
        Categorical("DPHY", ("1", "2")),
    )
    return _table("ACS", columns, label or ThresholdLabel(INCOME, 50_000), read_nist_acs())


def _table(name: str, columns: tuple[Column, ...], label: Label, frame: pd.DataFrame) -> Table:
    found = screen_cells(Schema(columns, label), frame, name, CellRules(missing="fill", unlisted="zero"))
    numbers = np.column_stack([each.codes if each.is_category else each.values for each in found.cells])
    labels = label.decode(found.labels) if isinstance(label, RealLabel) else found.labels
    title = f"{name}, {label.name}" if isinstance(label, RealLabel) else name
    return Table(title, columns, label, numbers.astype(float), labels, float(isinstance(label, RealLabel)))


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

    @property
    def title(self) -> str:
        return (
            f"{self.population.name} | {len(self.population.columns)} | {self.n:,} | {self.epsilon:g} | {self.watched}"
        )


class Truth:
    """The coefficients of a population with the weights and the scale of a fit's encoding.

    Those of a design whose model is right are known. Else the optimum is found once for the whole population, as the
    first fit encodes it; for every other fit, what its encoding changes is found in the population's first part.
    """

    def __init__(self, population: Design | Table, encoding: RowEncoding) -> None:
        """Find the optimum of the whole population, and n times the variances of the one of n records."""
        self.columns, self.label = population.columns, population.label
        known = population.coefficients
        half, middle = (self.label.half_width, self.label.middle) if isinstance(self.label, RealLabel) else (1, 0)
        self.known = None if known is None else np.append(known[:-1], known[-1] - middle) / half
        self.parts = [*population.population()] if self.known is None else [next(population.population())]
        start = _in_units(encoding, self._optimum(encoding, self.parts[:1], self.known)[0])
        self.whole = _in_units(encoding, self._optimum(encoding, self.parts, start)[0])
        w, covariance = self._optimum(encoding, self.parts[:1], start)
        self.of_part, rows = _in_units(encoding, w), contrasts(self.columns, encoding, self.label).rows
        self.variances = np.einsum("ij,jk,ik->i", rows, covariance, rows)

    def of(self, encoding: RowEncoding, reported: Contrasts) -> Floats:
        """Return the coefficients of a fit."""
        if self.known is not None:
            return reported.of(_encoded(encoding, self.known))
        w, _ = self._optimum(encoding, self.parts[:1], self.of_part)
        return reported.of(_encoded(encoding, self.whole + _in_units(encoding, w) - self.of_part))

    def _optimum(self, encoding: RowEncoding, parts: list[Part], start: Floats | None) -> tuple[Floats, Floats]:
        """Return the optimum by Newton's method, and n times the covariance of the one of n records (sandwich)."""
        basis = contrasts(self.columns, encoding).basis
        x = basis.T @ (encoding.target_centre_weights if start is None else _encoded(encoding, start))
        centre, scale = basis.T @ encoding.target_centre_weights, encoding.target_scale
        x = (x - centre) / scale
        k = len(x)
        for _ in range(30):
            gradient, hessian, products, number = np.zeros(k), np.zeros((k, k)), np.zeros((k, k)), 0
            for numbers, labels in parts:
                e = np.asarray(encoding.encode(indicators(self.columns, numbers)))
                weights, z = 1 / np.maximum(1.0, (e**2).sum(axis=1)), e @ basis
                if isinstance(self.label, RealLabel):
                    off = z @ x - (self.label.encode(labels) - encoding.target_centre) / scale
                    pull, bend = INFERENCE_LOSS.slope(off), INFERENCE_LOSS.curvature(off)
                else:
                    margin = labels * (z @ x)
                    pull, bend = -labels * expit(-margin), expit(margin) * expit(-margin)
                gradient += z.T @ (weights * pull)
                hessian += (z * (weights * bend)[:, None]).T @ z
                products += (z * ((weights * pull) ** 2)[:, None]).T @ z
                number += len(z)
            step = np.linalg.solve(hessian, gradient)
            x = x - step
            if np.abs(step).max() < 1e-6 * (1 + np.abs(x).max()):
                break
        inverse = scale * number * np.linalg.inv(hessian)
        return basis @ (centre + scale * x), basis @ (inverse @ products @ inverse.T / number) @ basis.T


def _in_units(encoding: RowEncoding, weights: Floats) -> Floats:
    """Return the coefficient of every feature in the units of the table, and the intercept."""
    return np.append(*encoding.decode(weights))


def _encoded(encoding: RowEncoding, found: Floats) -> Floats:
    """Return the weights that `_in_units` makes these coefficients of."""
    assert encoding.constant is not None
    slopes = found[:-1] * np.array(encoding.scale) * encoding.radius / encoding.share
    return np.append(slopes, (found[-1] + found[:-1] @ np.array(encoding.centre)) / encoding.constant)


@dataclass(frozen=True)
class Fit:
    """What one fit printed: of every coefficient whether its interval covered the truth, None without an interval.

    lengths: against those without privacy. planned: the share of coefficients for which the plan expects intervals.
    """

    number: int
    covered: list[float | None]
    lengths: list[float]
    ratio: float
    planned: float


def fits(cell: Cell, numbers: list[int], seed: int) -> Iterator[Fit]:
    """Fit once for every number."""
    population = cell.population
    schema = Schema(population.columns, population.label, constant=0.3)
    sizes = tuple(cell.n // cell.silos + (i < cell.n % cell.silos) for i in range(cell.silos))
    form = ProfileForm((*schema.columns, *schema.target_columns))
    made = plan(
        Task(
            sizes=sizes,
            dimension=schema.dimension,
            loss=INFERENCE_LOSS if population.r2 else Logistic(),
            target=Target(cell.epsilon, DELTA),
            protection=cell.who,
            table=TableShape.of(form, n_targets=len(schema.target_columns)),
            aim=Aim.INFERENCE,
        )
    )
    truth = None
    for number in numbers if not made.lacks_intervals else ():
        rng = np.random.default_rng([seed, number])
        cells, labels = population.draw(rng, cell.n)
        coded, cuts = schema.label.encode(labels) if population.r2 else labels, np.cumsum(sizes)[:-1]
        parts = zip(np.split(cells, cuts), np.split(coded, cuts), strict=True)
        raw = Dataset(
            schema,
            [CodedRows(schema.columns, *part) for part in parts],
            nominal=None if cell.relation.has_public_sizes else sizes,
            for_coefficients=True,
            scales_target=bool(population.r2),
        )
        done = run_plan(made, raw, SimulatedSampler(int(rng.integers(2**62))), progress=False)
        assert done.encoding is not None
        reported = contrasts(schema.columns, done.encoding, schema.label)
        target = done.encoding.target_centre_weights, done.encoding.target_scale
        products = done.released.get("score products")
        found = estimate(CurvatureFacts.of(done.released["curvature"], 0.0, products, target=target), reported)
        truth = truth or Truth(population, done.encoding)
        values, errors = truth.of(done.encoding, reported), np.sqrt(truth.variances / cell.n)
        rows = interval_rows(found, reported, 0.95)
        covered = [
            None if row.low is None or row.high is None else float(row.low <= value <= row.high)
            for row, value in zip(rows, values, strict=True)
        ]
        lengths = [row.std_err / error for row, error in zip(rows, errors, strict=True) if row.std_err is not None]
        yield Fit(number, covered, lengths, found.ratio, made.expected_intervals / len(rows))


def cells() -> list[Cell]:
    """Return the cells of the table; none of these designs served to choose a number."""
    found = []
    for n, epsilon in ((5_000, 3.0), (50_000, 1.0), (50_000, 0.5), (50_000, 3.0), (5_000, 1.0)):
        for r2 in (0.0, 0.5):
            found += [
                Cell(Design(5, "chain of .6", r2=r2), n, epsilon),
                Cell(Design(5, "unrelated", "t3", r2=r2), n, epsilon),
                Cell(Design(5, "unrelated", category=0.02, r2=r2), n, epsilon),
                Cell(Design(12, "chain of .6", r2=r2), n, epsilon),
                Cell(Design(12, "unrelated", "lognormal", category=0.02, r2=r2), n, epsilon),
                Cell(Design(25, "unrelated", r2=r2), n, epsilon),
                Cell(Design(25, "equal, .5", r2=r2), n, epsilon),
            ]
    masked = {"silos": 5, "view": View.AGGREGATE}
    found += [
        Cell(Design(5, "pairs of .8" if k % 2 else "chain of .6", r2=r2, skew=True), n, epsilon, **more)
        for k, (r2, n, epsilon, more) in enumerate([(0.9, 20_000, 1.0, {}), (0.1, 20_000, 3.0, masked)])
    ]
    if os.environ.get("DPADMM_DATA"):
        hours, income = RealLabel("hours-per-week", 1, 99), RealLabel("PINCP", 0, 200_000)
        for population in (adult(), acs(), adult(hours), acs(income)):
            found += [Cell(population, 20_000, 1.0), Cell(population, 20_000, 3.0, **masked)]
    return found


def line(cell: Cell, found: list[Fit]) -> str:
    """Return a row of the table."""
    if not found:
        return f"| {cell.title} | declined by the plan | | | | | | |"
    covered = np.array([[np.nan if each is None else each for each in fit.covered] for fit in found])
    counts = (~np.isnan(covered)).sum(axis=1)
    given = f"| {cell.title} | {len(found)} | {100 * found[0].planned:.0f} % | {100 * (counts > 0).mean():.0f} % "
    given += f"| {100 * counts.mean() / covered.shape[1]:.0f} % "
    if (counts > 0).sum() < 20:
        return given + "| | | |"
    share = np.nanmean(covered)
    error = np.sqrt(np.sum((np.nansum(covered, axis=1) - share * counts) ** 2)) / counts.sum()
    least = np.nanmin(np.nanmean(covered[:, (~np.isnan(covered)).sum(axis=0) >= 20], axis=0))
    length = np.median([each for fit in found for each in fit.lengths])
    return given + f"| {100 * share:.1f} ({100 * error:.1f}) | {100 * least:.0f} | {length:.2f} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=400)
    parser.add_argument("--cells", type=int, nargs="*", help="numbers of the cells to run; all if left out")
    parser.add_argument("--seed", type=int, default=FIRST_SEED)
    parser.add_argument("--keep", type=Path, help="file of finished fits, which are not done again")
    wanted = parser.parse_args()
    warnings.simplefilter("ignore")
    heads = ("population", "columns", "records", "epsilon", "observer", "number", "plan", "fits", "given")
    heads = (*heads, "cover % (s.e.)", "least %", "length")
    sys.stdout.write(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n")
    stored = wanted.keep.read_text().splitlines() if wanted.keep and wanted.keep.exists() else []
    kept = [json.loads(each) for each in stored]
    for number, cell in enumerate(cells()):
        if wanted.cells is None or number in wanted.cells:
            name = f"{cell.title} | seed {wanted.seed}"
            done = [Fit(**each["fit"]) for each in kept if each["cell"] == name and each["fit"]["number"] < wanted.fits]
            missing = sorted(set(range(wanted.fits)) - {each.number for each in done})
            for fit in fits(cell, missing, wanted.seed + number):
                done.append(fit)
                if wanted.keep:
                    with wanted.keep.open("a") as file:
                        file.write(json.dumps({"cell": name, "fit": vars(fit)}) + "\n")
            sys.stdout.write(line(cell, done) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
