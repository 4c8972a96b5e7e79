"""dpadmm with the planner's defaults: a schema, epsilon and delta, and whom to trust."""

import sys
import warnings
from functools import lru_cache, partial
from pathlib import Path

from protocol import Job, Probabilities, answer, jobs_of

sys.path.insert(0, str(Path(__file__).parents[2]))

from peers.sets import Loaded, load

from dpadmm import Privacy, PrivateLogisticRegression
from dpadmm.core import train


def nominal(records: int) -> int:
    """Return a round number that is not smaller, as one would guess it: two digits."""
    unit = 10 ** max(len(str(records)) - 2, 0)
    return -(-records // unit) * unit


def fit(job: Job, data: Loaded) -> Probabilities:
    """Fit as a user would who types nothing but the schema and the budget."""
    wanted, train = job.settings, data.train[job.split]
    texts = dict(wanted["words"])
    if texts.get("neighbours") == "add-remove":
        texts["nominal_records"] = nominal(len(train))
    view, privacy = texts.pop("view", None), Privacy(**texts)
    model = PrivateLogisticRegression(
        job.epsilon, job.delta, schema=data.schema, random_state=job.seed, view=view, privacy=privacy
    )
    labels = data.table[data.schema.label.name].iloc[train]
    model.fit(data.table.iloc[train], labels, groups=data.silo[train] if wanted["has_silos"] else None)
    return model.predict_proba(data.table)[:, 1]


def main() -> None:
    """Do all jobs on a data set by name."""
    warnings.simplefilter("ignore")  # noise is simulated, and the planner warns at the smallest budgets
    name, jobs, answers = sys.argv[1:4]
    # A plan is a function of public facts alone, so runs that differ in their noise share it; the first one pays.
    train.make_plan = lru_cache(maxsize=None)(train.make_plan)
    data = load(name)
    for job in jobs_of(jobs):
        answer(job, Path(answers), partial(fit, job, data))


if __name__ == "__main__":
    main()
