"""The cost of tuning: settings chosen under privacy against the best ones known in advance, side by side.

    DPADMM_DATA=... python benchmarks/tuning.py --runs 20

Eight penalties, a budget for everything, one silo with all training rows (70 % of Adult, four fifths of other sets),
log-loss on the others. Each run trains, with simulated noise of its own:

* every candidate alone with the whole budget, as if its penalty had been known in advance; the best of them is the one
  with the lowest mean over all runs, which nobody could know,
* `PrivateSearchCV`, which spends the same budget on all it does, comparing as many candidates as it is told,
* the planner's own choice (`alpha=None`).

Standard errors are of means over runs; those of differences are of the paired ones. Nothing was tuned on these seeds.
"""

import argparse
import math
import statistics
import sys
import time
import warnings
from collections import Counter
from functools import lru_cache
from itertools import product

from sklearn.metrics import log_loss

from accuracy_sets import DELTA, HELD_OUT, SETS, _loaded, schema_of
from dpadmm import PrivateLogisticRegression, PrivateSearchCV
from dpadmm.core import train
from dpadmm.planner import search

FIRST_SEED = 60_000
ALPHAS = (1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 1e-1)
COMPARED = ("auto", 1, 2, 3, 8)


class Rows:
    """A data set's training rows, and rows to score on, in one of its splits."""

    def __init__(self, name: str, run: int) -> None:
        table, silos = _loaded(name)
        self.schema = schema_of(SETS[name].known)
        labels, fit = table[self.schema.label.name], SETS[name].fits(silos, run)[-1]
        held_out = fit.scored[HELD_OUT]
        self.train = table.iloc[fit.train], labels.iloc[fit.train]
        self.test = table.iloc[held_out], self.schema.label.read(labels.iloc[held_out]).values > 0

    def loss(self, model: object) -> float:
        """Return the log-loss on held-out rows."""
        return float(log_loss(self.test[1], model.predict_proba(self.test[0])[:, 1]))


def one_run(data: Rows, epsilon: float, seed: int, compared: list) -> tuple[dict[str, float], dict[str, float]]:
    """Return the losses of all ways, by their names, and what the searches chose."""
    found, chosen = {}, {}
    for alpha in (*ALPHAS, None):
        model = PrivateLogisticRegression(epsilon, DELTA, schema=data.schema, alpha=alpha, random_state=seed)
        found["planner's own" if alpha is None else f"alpha {alpha:g}"] = data.loss(model.fit(*data.train))
    for number in compared:
        tuned = PrivateSearchCV(
            PrivateLogisticRegression(epsilon, DELTA, schema=data.schema, random_state=seed),
            {"alpha": ALPHAS},
            compared=number,
        ).fit(*data.train)
        found[f"search, compared={number}"] = data.loss(tuned)
        chosen[f"search, compared={number}"] = tuned.best_params_["alpha"]
    return found, chosen


def summed(values: list[float]) -> str:
    """Return mean and standard error."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{statistics.fmean(values):+.4f} +- {error:.4f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--sets", nargs="+", default=["adult"], choices=sorted(SETS))
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0])
    parser.add_argument("--compared", nargs="+", default=list(COMPARED), type=lambda x: x if x == "auto" else int(x))
    wanted = parser.parse_args()
    warnings.simplefilter("ignore")  # every fit would say that its noise is simulated
    # A plan is a function of public facts alone, so runs that differ in their noise share it.
    train.make_plan = search.make_plan = lru_cache(maxsize=256)(train.make_plan)
    begin = time.perf_counter()
    for name, epsilon in product(wanted.sets, wanted.epsilons):
        runs = [one_run(Rows(name, i), epsilon, FIRST_SEED + i, wanted.compared) for i in range(wanted.runs)]
        names = list(runs[0][0])
        means = {way: statistics.fmean(run[way] for run, _ in runs) for way in names}
        best = min(names[: len(ALPHAS)], key=means.__getitem__)
        sys.stdout.write(f"{name}, epsilon {epsilon:g}, delta {DELTA:g}, {wanted.runs} runs; best in advance: {best}\n")
        for way in names:
            against = summed([run[way] - run[best] for run, _ in runs])
            picks = Counter(f"{took[way]:g}" for _, took in runs if way in took)
            said = f"   chose {', '.join(f'{k} ({n})' for k, n in picks.most_common())}" if picks else ""
            mean = summed([run[way] for run, _ in runs]).lstrip("+")
            sys.stdout.write(f"  {way:22} log-loss {mean}   above the best {against}{said}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{time.perf_counter() - begin:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
