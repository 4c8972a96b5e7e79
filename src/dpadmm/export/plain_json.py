"""A released model as plain JSON: columns with their weights, the radius, the link. Documented in `docs/export.md`."""

import json
from typing import Any

from dpadmm.core.model import ReleasedModel
from dpadmm.data.columns import Categorical, RealLabel
from dpadmm.export.pipeline import check_no_counts
from dpadmm.models.predict import clips_numbers

FORMAT, VERSION = "dpadmm-plain-model", 1


def model_as_json(model: ReleasedModel) -> str:
    """Return the model as JSON text; numbers are written so that they are read back exactly."""
    check_no_counts(model)
    encoding, guarantee = model.encoding, model.guarantee
    constant = 0.0 if encoding.constant is None else encoding.constant
    document = {
        "format": FORMAT,
        "version": VERSION,
        "title": model.title,
        "created": model.created,
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "is_private_release": guarantee.is_private_release,
        "columns": _columns(model),
        "radius": encoding.reach[0],
        "factor": encoding.reach[1],
        "intercept": (constant * model.weights[:, -1]).tolist(),
        "link": _link(model),
        "label": _label(model),
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)


def _columns(model: ReleasedModel) -> list[dict[str, Any]]:
    """Return every column with its public numbers and one list of weights per vector of coefficients."""
    encoding, start, found = model.encoding, 0, []
    for column in model.schema.columns:
        span = slice(start, start + len(column.feature_names))
        start = span.stop
        weights = model.weights[:, span].tolist()
        if isinstance(column, Categorical):
            part = {"categories": list(column.categories), "centre": list(encoding.centre[span]), "weights": weights}
        else:
            sides = (
                {}
                if encoding.lower is None or encoding.upper is None
                else {"lower": encoding.lower[span.start], "upper": encoding.upper[span.start]}
            )
            part = sides | {
                "centre": encoding.centre[span.start],
                "scale": encoding.scale[span.start],
                "empty": encoding.empty[span.start],
                "weights": [each[0] for each in weights],
            }
        kind = "categorical" if isinstance(column, Categorical) else "numeric"
        found.append({"name": column.name, "kind": kind} | part)
    return found


def _link(model: ReleasedModel) -> dict[str, Any]:
    """Return how scores become probabilities: not at all, by the logistic function, or by a capped one."""
    if model.softmax is not None:
        cap = model.softmax.cap
        return {"kind": "softmax"} if cap == 1 else {"kind": "capped softmax", "cap": cap}
    if model.linked is None:
        return {"kind": "none"}
    cap = model.linked.cap
    return {"kind": "logistic"} if cap == 1 else {"kind": "capped logistic", "cap": cap}


def _label(model: ReleasedModel) -> dict[str, Any]:
    """Return the classes, or how a score becomes a number: `middle + half_width score`, within bounds if stated."""
    label = model.schema.label
    if not isinstance(label, RealLabel):
        return {"name": label.name, "kind": "class", "classes": list(label.classes)}
    sides = {"lower": label.lower, "upper": label.upper} if clips_numbers(model) else {}
    return {"name": label.name, "kind": "number", "middle": label.middle, "half_width": label.half_width} | sides
