"""The look of all figures: colours, settings, and an empty figure that touches no global state of pyplot."""

from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

# Okabe-Ito: distinguishable for most people with colour-vision deficiencies.
BLUE, ORANGE, GREEN, GREY, BLACK = "#0072B2", "#D55E00", "#009E73", "#8a8a8a", "#222222"
SETTINGS = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "dpadmm",
    "svg.fonttype": "path",
}


def blank(columns: int, width: float, height: float, rows: int = 1) -> tuple[Figure, Any]:
    """Return an empty figure and its axes as a flat array."""
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
    return figure, axes
