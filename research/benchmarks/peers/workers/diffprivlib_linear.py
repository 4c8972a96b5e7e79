"""diffprivlib's LinearRegression, pure epsilon: `python worker.py rows.npz epsilon seed answers.npy`."""

import sys
import warnings

import numpy as np
from diffprivlib.models import LinearRegression


def main() -> None:
    """Fit on rows and targets within -1..1, and write the predictions."""
    warnings.filterwarnings("ignore")
    place, epsilon, seed, answers = sys.argv[1:5]
    rows = np.load(place)
    model = LinearRegression(epsilon=float(epsilon), bounds_X=(-1.0, 1.0), bounds_y=(-1.0, 1.0), random_state=int(seed))
    np.save(answers, model.fit(rows["train"], rows["y"]).predict(rows["test"]))


if __name__ == "__main__":
    main()
