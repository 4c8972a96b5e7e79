"""Intervals follow from the releases by plain algebra, in the units of the table; and none is told without ground."""

import json
import math
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dpadmm import PrivateLogisticRegression
from dpadmm.core.model import ReleasedModel
from dpadmm.core.task import Aim
from dpadmm.data.columns import BinaryLabel, Categorical, Numeric
from dpadmm.data.encoding import RowEncoding
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError
from dpadmm.inference.intervals import INTERCEPT, Contrasts, contrasts, estimate, interval_rows
from dpadmm.queries.curvature import CurvatureFacts, ReleasedCurvature, pack

N = 6000
SCHEMA = Schema(
    (Numeric("age", 0, 100), Categorical("town", ("A", "B", "C")), Numeric("dose", 0, 10)),
    BinaryLabel("sick", positive=("yes",), negative=("no",)),
    constant=0.3,
)


def table_of(seed=0, n=N):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.normal(50, 12, n).clip(0, 100),
            "town": rng.choice(["A", "B", "C"], n, p=[0.5, 0.3, 0.2]),
            "dose": rng.uniform(0, 10, n),
        }
    )
    score = -2.5 + 0.04 * table["age"] + 0.8 * (table["town"] == "C") - 0.1 * table["dose"]
    return table, np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no")


@pytest.fixture(scope="module")
def fitted():
    """Hardly any noise, simulated."""
    table, sick = table_of()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PrivateLogisticRegression(50.0, 1e-6, aim="inference", schema=SCHEMA, random_state=1)
        return model.fit(table, sick)


def facts(d=4, tau=0.5, gradient_std=2.0, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((d, d))
    return CurvatureFacts.of(
        ReleasedCurvature(
            point=rng.standard_normal(d),
            gradient=rng.standard_normal(d),
            matrix=root @ root.T + 20 * np.eye(d),
            gradient_std=gradient_std,
            matrix_std=tau,
        ),
        0.1,
    )


def numbers(d):
    """Coefficients as they are, of d columns of numbers."""
    names = tuple(f"x{j}" for j in range(d))
    return Contrasts(names, (None,) * d, np.eye(d), np.eye(d), tuple(range(d)), np.zeros(d), np.zeros(d))


def newton(rows, labels, weights):
    """The optimum of the weighted logistic loss and its curvature there."""
    x = np.zeros(rows.shape[1])
    for _ in range(40):
        pull = 1 / (1 + np.exp(labels * (rows @ x)))
        curvature = (rows * (weights * pull * (1 - pull))[:, None]).T @ rows
        x = x + np.linalg.solve(curvature, rows.T @ (weights * labels * pull))
    return x, curvature


class TestStatistic:
    def test_without_noise_it_is_a_newton_step_and_the_inverse_curvature(self):
        given = facts(tau=1e-9, gradient_std=1e-9)
        found, matrix = estimate(given, numbers(4)), np.array(facts().matrix)
        whole = _square(matrix)
        np.testing.assert_allclose(found.centre, np.array(given.point) - np.linalg.solve(whole, given.gradient))
        np.testing.assert_allclose(found.covariance, np.linalg.inv(whole), rtol=1e-6)

    @pytest.mark.parametrize("ratio", [1.0, 1.3, 2.0, 8.0])
    def test_with_noise_it_is_the_formula(self, ratio):
        """Near the rule and far from it: lowered by 5 tau at first, to a quarter at most, by nothing at last."""
        h, ones, edges = _square(np.array(facts().matrix)), np.eye(4), math.sqrt(2 * 5)
        values, vectors = np.linalg.eigh(h)
        tau = values[0] / edges / (ratio + 1e-12)
        given = replace(facts(), matrix_std=tau)
        low = np.array([max(x - 5 * tau * math.exp(-(x / tau - edges) / 0.8), x / 4) for x in values])
        assert (low[0] < values[0] / 3.9) == (ratio == 1.0)
        assert (low[0] > 0.999 * values[0]) == (ratio == 8.0)
        v = np.linalg.solve(h, given.gradient)
        lowered = vectors @ np.diag(1 / low) @ vectors.T
        own = given.gradient_std**2 * ones + vectors @ np.diag(low) @ vectors.T
        step = lowered @ np.array(given.gradient)
        b = np.outer(step, step) + lowered @ own @ lowered
        wanted = lowered @ (own + tau**2 / 2 * (np.trace(b) * ones + b)) @ lowered
        found = estimate(given, numbers(4))
        np.testing.assert_allclose(found.covariance, wanted, rtol=1e-8)
        np.testing.assert_allclose(found.centre, np.array(given.point) - v, rtol=1e-10)

    def test_a_curvature_without_noise_is_not_lowered(self):
        found = estimate(replace(facts(gradient_std=0.0), matrix_std=0.0), numbers(4))
        np.testing.assert_allclose(found.covariance, np.linalg.inv(_square(np.array(facts().matrix))), rtol=1e-9)

    def test_the_rule(self):
        given = facts()
        least = np.linalg.eigvalsh(_square(np.array(given.matrix)))[0]
        for ratio, has_intervals in ((1.001, True), (0.999, False)):
            tau = least / ratio / math.sqrt(2 * 5)
            found = estimate(replace(given, matrix_std=tau), numbers(4))
            assert found.ratio == pytest.approx(ratio)
            assert (not found.removed) is has_intervals
        negative = replace(given, matrix=tuple(-x for x in given.matrix))
        assert estimate(negative, numbers(4)).ratio < 0

    def test_more_noise_makes_longer_intervals(self):
        base = np.diag(estimate(facts(), numbers(4)).covariance)
        for more in (facts(tau=1.0), facts(gradient_std=3.0)):
            assert np.all(np.diag(estimate(more, numbers(4)).covariance) > base)

    def test_what_the_noise_of_the_curvature_does_is_counted(self):
        """By simulation: the Newton step with a noisy curvature spreads as much as is said, and not half of it."""
        rng, d, tau = np.random.default_rng(5), 3, 1.0
        h = np.diag([12.0, 20.0, 40.0])
        off = np.array([3.0, -2.0, 4.0])  # how far p is from the optimum
        steps, said = [], []
        for _ in range(4000):
            noise = rng.normal(0, tau, (d, d))
            noise = np.triu(noise, 1) / math.sqrt(2)
            noise = noise + noise.T + np.diag(rng.normal(0, tau, d))
            released = ReleasedCurvature(off, h @ off, h + noise, 1e-9, tau)
            found = estimate(CurvatureFacts.of(released, 0.1), numbers(d))
            steps.append(found.centre)
            said.append(np.diag(found.covariance - np.linalg.inv(h + noise)))
        spread = np.var(steps, axis=0)
        assert np.all(spread < np.median(said, axis=0) * 1.15)
        assert np.all(spread > np.median(said, axis=0) * 0.4)

    @pytest.mark.parametrize("least", [1.6, 2.3])
    def test_fits_that_pass_by_luck_cover_as_well(self, least):
        """By simulation: where the least eigenvalue is too small and noise lifts it, intervals of its direction cover.

        With eigenvalues lowered by tau/2 alone, 56 and 83 % of them do.
        """
        rng, d, tau, sigma = np.random.default_rng(8), 4, 1.0, 2.4
        h, off = np.diag([least, 9.0, 17.0, 27.0]), np.array([3.5, 1.0, 1.0, 1.0])
        noise = np.triu(rng.normal(0, tau, (40_000, d, d)), 1) / math.sqrt(2)
        noise = noise + noise.transpose(0, 2, 1) + np.einsum("ni,ij->nij", rng.normal(0, tau, (40_000, d)), np.eye(d))
        passed = noise[np.linalg.eigvalsh(h + noise)[:, 0] >= math.sqrt(2 * (d + 1))][:1000]
        assert len(passed) == 1000
        covered = []
        for each in passed:
            best = rng.normal(0, 1 / np.sqrt(np.diag(h)))  # the optimum of the records; that of the population is 0
            point = best + rng.normal(0, off * sigma / np.diag(h))  # a ridge, and stopping early
            released = ReleasedCurvature(point, h @ (point - best) + rng.normal(0, sigma, d), h + each, sigma, tau)
            found = estimate(CurvatureFacts.of(released, 0.1), numbers(d))
            covered.append(abs(found.centre[0]) <= 1.96 * math.sqrt(found.covariance[0, 0]))
        assert 0.9 < np.mean(covered) < 0.98


def _square(vector):
    d = int((math.sqrt(8 * len(vector) + 1) - 1) / 2)
    matrix = np.diag(vector[:d]).astype(float)
    matrix[np.triu_indices(d, 1)] = vector[d:] / math.sqrt(2)
    return matrix + np.triu(matrix, 1).T


class TestUnits:
    ENCODING = SCHEMA.encoding(2.0)

    def test_scores_are_those_of_the_table(self):
        """For rows that are not shortened: coefficients times numbers, plus the category's, plus the intercept."""
        reported = contrasts(SCHEMA.columns, self.ENCODING)
        rng = np.random.default_rng(2)
        w = rng.standard_normal(self.ENCODING.dimension)
        coefs = dict(zip(reported.names, reported.rows @ w, strict=True))
        assert list(coefs) == ["age", "town=B", "town=C", "dose", "(intercept)"]
        assert reported.against == (None, "A", "A", None, None)
        slopes, intercept = self.ENCODING.decode(w)
        for town, place in (("A", 1), ("B", 2), ("C", 3)):
            raw = np.array([40.0, 0, 0, 0, 3.0])
            raw[place] = 1.0
            said = coefs["(intercept)"] + 40 * coefs["age"] + 3 * coefs["dose"] + coefs.get(f"town={town}", 0.0)
            assert said == pytest.approx(raw @ slopes + intercept)

    def test_directions_that_no_row_has_are_left_out(self):
        reported = contrasts(SCHEMA.columns, self.ENCODING)
        assert reported.basis.shape == (6, 5)
        rows = encoded_rows(self.ENCODING)
        np.testing.assert_allclose(rows - rows @ reported.basis @ reported.basis.T, 0, atol=1e-12)
        np.testing.assert_allclose(reported.rows - reported.rows @ reported.basis @ reported.basis.T, 0, atol=1e-12)

    def test_categories_are_compared_with_the_commonest(self):
        """Of the profile, which the encoding is centred at; scores of rows stay those of the table."""
        encoding = replace(self.ENCODING, centre=(30.0, 0.2, 0.7, 0.1, 3.0))
        units = contrasts(SCHEMA.columns, encoding)
        assert units.names == ("age", "town=A", "town=C", "dose", INTERCEPT)
        assert units.against == (None, "B", "B", None, None)
        np.testing.assert_allclose(units.shares, [0, 0.2, 0.1, 0, 0])
        w = np.random.default_rng(2).standard_normal(encoding.dimension)
        coefs = dict(zip(units.names, units.rows @ w, strict=True))
        slopes, intercept = encoding.decode(w)
        for town, place in (("A", 1), ("B", 2), ("C", 3)):
            reported = coefs[INTERCEPT] + 40 * coefs["age"] + coefs.get(f"town={town}", 0.0)
            assert reported == pytest.approx(40 * slopes[0] + slopes[place] + intercept)

    def test_without_an_intercept_or_categories(self):
        plain = RowEncoding.of_numbers(2, row_norm=3.0, has_intercept=False)
        reported = contrasts((Numeric("a", -1, 1), Numeric("b", -1, 1)), plain)
        assert reported.names == ("a", "b")
        np.testing.assert_array_equal(reported.basis, np.eye(2))


def encoded_rows(encoding):
    table, _ = table_of(n=50)
    raw = np.column_stack([table["age"], *(table["town"] == t for t in "ABC"), table["dose"]]).astype(float)
    return np.asarray(encoding.encode(raw))


def noisy_matrix(rng, d, tau):
    noise = np.triu(rng.normal(0, tau / math.sqrt(2), (d, d)), 1)
    return noise + noise.T + np.diag(rng.normal(0, tau, d))


class TestPartial:
    """A town of few records, two numbers that say the same: the rest keeps its intervals."""

    ENCODING = replace(SCHEMA.encoding(2.0), centre=(30.0, 0.6, 0.39, 0.01, 3.0))
    UNITS = contrasts(SCHEMA.columns, ENCODING)
    RARE = UNITS.basis[3] / np.linalg.norm(UNITS.basis[3])  # where records of the last town alone would show

    def curvature(self, least=0.3, tau=1.0, seed=3):
        """The last town has this curvature; the rest has much more."""
        rng, units = np.random.default_rng(seed), self.UNITS
        d = units.basis.shape[1]
        inside = 60 * np.eye(d) + (least - 60) * np.outer(self.RARE, self.RARE)
        return CurvatureFacts.of(
            ReleasedCurvature(
                point=units.basis @ rng.standard_normal(d),
                gradient=units.basis @ rng.standard_normal(d),
                matrix=units.basis @ inside @ units.basis.T + noisy_matrix(rng, d + 1, tau / 10),
                gradient_std=2.0,
                matrix_std=tau,
            ),
            0.1,
        )

    def test_a_rare_category_costs_its_own_interval_alone(self):
        given = self.curvature()
        found = estimate(given, self.UNITS)
        place = self.UNITS.names.index("town=C")
        assert list(found.removed) == [place]
        rows = {row.name: row for row in interval_rows(found, self.UNITS, 0.95)}
        assert rows["town=C"].low is rows["town=C"].std_err is rows["town=C"].ratio is None
        assert rows["town=C"].undetermined == "too few records of town=C"
        assert rows["age"].low < rows["age"].coef < rows["age"].high
        held = self.UNITS.rows[place]
        assert held @ found.centre == pytest.approx(held @ np.array(given.point))
        assert held @ found.covariance @ held == pytest.approx(0, abs=1e-12)

    def test_standard_errors_count_that_a_category_is_held(self):
        found = estimate(self.curvature(), self.UNITS)
        wanted = (0.01 / 0.61) ** 2  # its share of the records that now stand for town=A, at a log-odds of 1
        by_name = dict(zip(self.UNITS.names, found.added, strict=True))
        assert by_name["town=B"] == by_name[INTERCEPT] == pytest.approx(wanted)
        assert by_name["age"] == by_name["dose"] == 0
        rows = {row.name: row for row in interval_rows(found, self.UNITS, 0.95)}
        c = self.UNITS.rows[self.UNITS.names.index("town=B")]
        assert rows["town=B"].std_err == pytest.approx(math.sqrt(c @ found.covariance @ c + wanted))

    def test_where_all_stands_out_nothing_is_removed_and_it_is_the_formula(self):
        given = self.curvature(least=40.0)
        found = estimate(given, self.UNITS)
        assert (found.removed, found.linked) == ({}, {})
        assert found.is_determined.all()
        assert not found.added.any()
        lone = replace(self.UNITS, rows=self.UNITS.basis.T, names=tuple("abcde"), against=(None,) * 5)
        np.testing.assert_array_equal(estimate(given, lone).covariance, found.covariance)
        np.testing.assert_array_equal(estimate(given, lone).centre, found.centre)

    @pytest.mark.parametrize("seed", range(20))
    def test_removed_and_linked_contrasts_never_get_an_interval(self, seed):
        rng, d = np.random.default_rng([17, seed]), 6
        root = rng.standard_normal((d, 4))
        matrix = 8 * root @ root.T + noisy_matrix(rng, d, 1.0)
        released = ReleasedCurvature(rng.standard_normal(d), rng.standard_normal(d), matrix, 1.0, 1.0)
        found = estimate(CurvatureFacts.of(released, 0.1), numbers(d))
        assert found.removed
        for j, row in enumerate(interval_rows(found, numbers(d), 0.95)):
            is_silent = j in found.removed or j in found.linked or not found.has_intervals
            assert (row.low is None) == (row.p_value is None) == is_silent
            assert bool(row.undetermined) == is_silent

    def test_what_says_the_same_is_named(self):
        twins = np.diag([40.0, 40.0, 90.0])
        twins[0, 1] = twins[1, 0] = 39.9
        released = ReleasedCurvature(np.ones(3), np.zeros(3), twins, 1.0, 1.0)
        found = estimate(CurvatureFacts.of(released, 0.1), numbers(3))
        texts = [row.undetermined for row in interval_rows(found, numbers(3), 0.95)]
        removed, other = sorted([0, 1], key=lambda j: j not in found.removed)
        assert texts[removed] == f"cannot be told from x{other} at this noise"
        assert texts[other] == f"bound up with x{removed}"
        assert not texts[2]

    def test_an_intercept_alone_tells_nothing(self):
        """Of the two others, which say the same, one is removed and the other linked to it."""
        twins = np.diag([40.0, 40.0, 90.0])
        twins[0, 1] = twins[1, 0] = 39.9
        given = CurvatureFacts.of(ReleasedCurvature(np.ones(3), np.zeros(3), twins, 1.0, 1.0), 0.1)
        assert estimate(given, numbers(3)).is_determined.tolist() == [False, False, True]
        found = estimate(given, replace(numbers(3), columns=(0, 1, None)))
        assert (len(found.removed), len(found.linked)) == (1, 1)
        assert not found.has_intervals
        assert not found.is_determined.any()

    @pytest.mark.parametrize(("hidden", "has_intervals"), [(2, True), (3, False)])
    def test_no_more_than_half_is_removed(self, hidden, has_intervals):
        """By simulation, intervals beside more coefficients that are held cover 86 % of the time."""
        matrix = np.diag([0.1] * hidden + [50.0] * (5 - hidden))
        released = ReleasedCurvature(np.ones(5), np.zeros(5), matrix, 1.0, 1.0)
        found = estimate(CurvatureFacts.of(released, 0.1), numbers(5))
        assert found.has_intervals is has_intervals
        assert found.is_determined.tolist() == [has_intervals and j >= hidden for j in range(5)]

    def test_a_dependence_is_linked_only_beyond_the_noise(self):
        """A dependence of 2.4 standard deviations of its noise is taken for noise, one of 2.6 is not."""
        for times, is_linked in ((2.4, False), (2.6, True)):
            moves = times * 1.0 / math.sqrt(2) / 50.0
            matrix = np.array([[0.1, -50 * moves], [-50 * moves, 50.0]])
            released = ReleasedCurvature(np.ones(2), np.zeros(2), matrix, 1.0, 1.0)
            assert (1 in estimate(CurvatureFacts.of(released, 0.1), numbers(2)).linked) is is_linked

    def test_partial_intervals_cover(self):
        """By simulation: 95 % of what is printed covers, with one direction that noise hides."""
        rng, units, covered = np.random.default_rng(21), self.UNITS, []
        d, tau, sigma = units.basis.shape[1], 1.0, 2.0
        h = 70 * np.eye(d) - 69.6 * np.outer(self.RARE, self.RARE)
        for _ in range(1500):
            best = rng.normal(0, 1, d) @ np.linalg.cholesky(np.linalg.inv(h)).T
            point = best + 0.3 * rng.standard_normal(d)
            gradient = h @ (point - best) + rng.normal(0, sigma, d)
            noisy = units.basis @ h @ units.basis.T + noisy_matrix(rng, d + 1, tau)
            released = ReleasedCurvature(units.basis @ point, units.basis @ gradient, noisy, sigma, tau)
            found = estimate(CurvatureFacts.of(released, 0.1), units)
            covered += [row.low <= 0 <= row.high for row in interval_rows(found, units, 0.95) if row.low is not None]
        assert len(covered) > 1500
        assert 0.93 < np.mean(covered) < 0.99


class TestModel:
    def test_with_hardly_any_noise_it_is_a_logistic_regression_with_weights(self, fitted):
        """Rows keep their length; one that is twice as long as the norm counts a quarter."""
        table, sick = table_of()
        towns = [table["town"] == town for town in "ABC"]
        encoded = fitted.released_.encoding.encode(np.column_stack([table["age"], *towns, table["dose"]]).astype(float))
        weights = 1 / np.maximum(1.0, (encoded**2).sum(axis=1))
        assert 0.1 < weights.min() < 0.8 < weights.mean() < 0.95
        rows = np.column_stack([table["age"], table["town"] == "B", table["town"] == "C", table["dose"], np.ones(N)])
        best, curvature = newton(rows.astype(float), np.where(sick == "yes", 1.0, -1.0), weights)
        errors = np.sqrt(np.diag(np.linalg.inv(curvature)))
        found = fitted.summary()
        assert found.has_intervals
        for row, value, error in zip(found.rows, best, errors, strict=True):
            assert abs(row.coef - value) < 0.25 * error
            assert row.std_err == pytest.approx(error, rel=0.1)
            assert (row.low + row.high) / 2 == pytest.approx(row.coef)
            assert (row.high - row.low) / row.std_err == pytest.approx(2 * 1.959964, rel=1e-5)
            assert row.z == pytest.approx(row.coef / row.std_err)
            assert row.p_value == pytest.approx(math.erfc(abs(row.z) / math.sqrt(2)), rel=1e-6)

    def test_its_coefficients_are_the_centres(self, fitted):
        named = {row.name: row.coef for row in fitted.summary().rows}
        assert fitted.coef_[0, 0] == pytest.approx(named["age"])
        assert fitted.coef_[0, 2] - fitted.coef_[0, 1] == pytest.approx(named["town=B"])

    def test_the_figure_counts_all_of_it(self, fitted):
        model = fitted.released_
        assert model.guarantee.epsilon == pytest.approx(50.0, rel=1e-6)
        assert any(texts.startswith("C14") for texts in model.guarantee.theorems)
        assert 0 < model.curvature.epsilon < 50
        assert f"epsilon {model.curvature.epsilon:.3g}" in model.statement

    def test_text_frame_and_levels(self, fitted):
        found = fitted.summary()
        text = str(found)
        for texts in (
            "coef",
            "std err",
            "P>|z|",
            "[0.025",
            "0.975]",
            "town=C (against A)",
            "ordinary logistic",
            "counts less",
        ):
            assert texts in text
        assert max(map(len, text.splitlines())) <= 110
        frame = found.frame()
        odds = ["odds ratio", "odds [0.025", "odds 0.975]"]
        assert list(frame.columns) == ["coef", "std err", "z", "P>|z|", "[0.025", "0.975]", *odds, "undetermined"]
        assert list(frame.loc["age", odds]) == pytest.approx(np.exp(list(frame.iloc[0, [0, 4, 5]])))
        assert frame.loc[INTERCEPT, odds].isna().all()
        assert not any(frame["undetermined"])
        assert frame.loc["age", "std err"] == found.rows[0].std_err
        assert found.records()[1]["against"] == "A"
        assert found.records()[1]["odds_ratio"] == pytest.approx(np.exp(list(frame.iloc[1, [0, 4, 5]])))
        assert found.records()[-1]["odds_ratio"] is None  # the odds of a row of zeros are no ratio
        wider = fitted.summary(level=0.99)
        assert all(b.low < a.low and a.high < b.high for a, b in zip(found.rows, wider.rows, strict=True))

    @pytest.mark.parametrize("name", ["m.json", "m.npz"])
    def test_files_keep_them(self, fitted, tmp_path, name):
        again = ReleasedModel.load(fitted.save(tmp_path / name))
        assert again.aim is Aim.INFERENCE
        assert again.curvature == fitted.released_.curvature
        assert again.summary().rows == fitted.summary().rows
        again.verify(digest=fitted.released_.digest)

    def test_a_changed_interval_is_noticed(self, fitted, tmp_path):
        place = fitted.save(tmp_path / "m.json")
        whole = json.loads(place.read_text())
        whole["model"]["curvature"]["gradient_std"] /= 2
        place.write_text(json.dumps(whole))
        with pytest.raises(InputError):
            ReleasedModel.load(place)

    def test_the_page_draws_them(self, fitted):
        page = fitted.report()
        assert "Coefficients and their intervals" in page
        (drawn,) = re.findall(r"<title>Coefficients with 95 % intervals</title>.*?</svg>", page, flags=re.DOTALL)
        assert drawn.count("<use") >= 4
        assert "town=C (against A)" in page
        assert "Most rows are shortened" not in page


class TestNone:
    def test_a_model_that_predicts_says_how_to_have_them(self, model):
        """The fixture is a model of an earlier kind: nothing is known about its aim."""
        found = model.summary()
        assert not found.has_intervals
        assert "aim='inference'" in found.why_not
        assert found.rows[0].low is None
        assert "No intervals" in str(found)
        assert found.frame()["std err"].isna().all()

    def test_a_curvature_that_drowns_in_noise_tells_nothing(self, fitted):
        kept = fitted.released_
        drowned = replace(kept, curvature=replace(kept.curvature, matrix_std=1e3 * kept.curvature.matrix_std))
        found = drowned.summary()
        assert not found.has_intervals
        assert "stand out" in found.why_not
        assert not any(row.undetermined for row in found.rows)
        assert "not report" in found.estimand
        assert "without a penalty" in fitted.summary().estimand
        assert all(row.std_err is None for row in found.rows)
        assert "No intervals" in drowned.report()

    def test_a_part_of_the_table_is_printed_drawn_and_read_again(self, fitted, tmp_path):
        """A saved model whose curvature hides one town: nothing else is needed."""
        kept = fitted.released_
        units = contrasts(SCHEMA.columns, kept.encoding)
        place = units.names.index("town=C")
        direction = units.rows[place] / np.linalg.norm(units.rows[place])
        matrix = _square(np.array(kept.curvature.matrix))
        dark = np.eye(len(matrix)) - np.outer(direction, direction)
        partial = replace(kept, curvature=replace(kept.curvature, matrix=tuple(pack(dark @ matrix @ dark))))
        found = ReleasedModel.load(partial.save(tmp_path / "m.json")).summary()
        assert found.rows == partial.summary().rows
        assert found.has_intervals
        rows = {row.name: row for row in found.rows}
        assert rows["town=C"].low is None
        assert rows["dose"].low < rows["dose"].high
        text = " ".join(str(found).split())
        assert "Undetermined: " in text
        assert "town=C: too few records of town=C" in text
        assert "town=C held" in text
        frame = found.frame()
        assert frame.loc["town=C (against A)", "undetermined"].startswith("too few")
        assert np.isnan(frame.loc["town=C (against A)", "odds ratio"])
        page = partial.report()
        assert "undetermined: too few records of town=C" in page
        (drawn,) = re.findall(r"<title>Coefficients with 95 % intervals</title>.*?</svg>", page, flags=re.DOTALL)
        assert "town=C" not in drawn

    def test_more_classes_have_coefficients_for_each_and_the_theorem_that_is_missing(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (400, 2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = PrivateLogisticRegression(3.0, 1e-5, feature_bounds=(-1, 1), random_state=0)
            model.fit(X, np.where(X[:, 0] > 0.3, "c", np.where(X[:, 1] > 0, "b", "a")))
        found = model.summary()
        assert not found.has_intervals
        assert "C13" in found.why_not
        assert [row.name for row in found.rows[:4]] == ["a: column1", "a: column2", "a: (intercept)", "b: column1"]
        given = np.column_stack([model.coef_, model.intercept_]).ravel()
        np.testing.assert_allclose([row.coef for row in found.rows], given)


def test_rows_are_shown_in_order():
    found = estimate(facts(d=6), contrasts(SCHEMA.columns, TestUnits.ENCODING))
    rows = interval_rows(found, contrasts(SCHEMA.columns, TestUnits.ENCODING), 0.95)
    assert [row.title for row in rows][1] == "town=B (against A)"
