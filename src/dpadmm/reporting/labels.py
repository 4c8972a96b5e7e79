"""What code names are called where people read: methods and labels in words."""

from dpadmm.datasets.columns import BinaryLabel, Label, ThresholdLabel

_SHORT = {"admm", "ps", "dp", "gd", "sgd", "dgd", "cd", "dvp", "fp"}


def method_words(name: str) -> str:
    """Return a method's name as papers write it.

    >>> method_words("p-admm"), method_words("noisy-gradients"), method_words("dp-sgd")
    ('P-ADMM', 'noisy gradients', 'DP-SGD')
    """
    parts = name.split("-")
    if not any(part in _SHORT for part in parts):
        return " ".join(parts)
    return "-".join(part.upper() if part in _SHORT or len(part) == 1 else part for part in parts)


def label_words(label: Label) -> str:
    """Return what is predicted.

    >>> label_words(BinaryLabel("sick", positive=("yes",), negative=("no", "never")))
    'sick: yes, or no / never'
    """
    match label:
        case BinaryLabel():
            sides = (" / ".join(map(str, values)) for values in (label.positive, label.negative))
            return f"{label.name}: {', or '.join(sides)}"
        case ThresholdLabel():
            return f"{label.name}: whether it is above {label.threshold:g}"
    return label.describe()
