"""Settings of a fit that a test says flat, in the records that hold them."""

from typing import Any

from dpadmm.settings import RECORDS, FitSettings, by_name


def grouped(**options: Any) -> dict[str, Any]:
    """Return arguments for an estimator, `dpadmm.fit` or `dpadmm.plan`.

    >>> grouped(epsilon=1.0, l1_ratio=0.5)
    {'epsilon': 1.0, 'training': TrainingOptions(l1_ratio=0.5, ...)}
    """
    found = {name: value for name, value in options.items() if name in by_name(FitSettings)}
    others = {name: value for name, value in options.items() if name not in found}
    for name, record in RECORDS.items():
        own = {each: others.pop(each) for each in by_name(record) if each in others}
        if own:
            if name == "out" and "out" in found:
                own["model"] = found["out"]
            found[name] = record(**own)
    return found | others
