"""diffprivlib's LogisticRegression: objective perturbation, pure epsilon, replace-one."""

import warnings

from diffprivlib.models import LogisticRegression
from protocol import Job, Probabilities, Rows, serve


def fit(job: Job, rows: Rows) -> Probabilities:
    """Fit with a public norm of the rows; `norm`: its part of the largest conceivable one, longer rows are cut."""
    warnings.filterwarnings("ignore")  # lbfgs says that it stopped at the last iteration; that is its default
    model = LogisticRegression(
        epsilon=job.epsilon,
        data_norm=rows.norm * job.settings["norm"],
        C=job.settings["C"],
        max_iter=job.settings["max_iter"],
        random_state=job.seed,
    )
    return model.fit(rows.train, rows.labels).predict_proba(rows.everything)[:, 1]


if __name__ == "__main__":
    serve(fit)
