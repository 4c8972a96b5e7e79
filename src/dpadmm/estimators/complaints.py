"""What other packages say about data, told again in our words, without any of the data.

Their complaints may hold a cell ("could not convert string to float: 'Meier'"), a whole table ("Complex data not
supported [[...]]") or names of columns, which are a record where a file has no header. So a text passes only if all of
it matches a pattern whose open places hold counts, types and class names; the rest is told in fixed words.
"""

import re

_CLASS = r"[A-Za-z_]\w*"
_SHAPE = r"\((?:\d+,?\s?)*\)"
_SAFE = tuple(
    re.compile(pattern)
    for pattern in (
        rf"Found array with \d+ (?:sample|feature)\(s\) \(shape={_SHAPE}\) while a minimum of \d+ is required"
        rf"(?: by {_CLASS})?\.",
        rf"Found array with dim \d+, while dim <= 2 is required(?: by {_CLASS})?\.",
        rf"X has \d+ features, but {_CLASS} is expecting \d+ features as input\.?",
        rf"y should be a 1d array, got an array of shape {_SHAPE} instead\.",
        r"y must be real numbers, got values of type [a-z0-9<>U]+\.",
        r"predict must return one value per record, \d+ in all, got \((?:\d+,?\s?)*\)\.",
        rf"(?:This )?{_CLASS}(?: estimator)? requires y to be passed, but the target y is None\.?",
        rf"This {_CLASS} instance is not fitted yet\. Call 'fit' with appropriate arguments before using this "
        r"estimator\.",
        r"Unknown label type: [a-z-]+\. Maybe you are trying to fit a classifier, which expects discrete classes on a "
        r"regression target with continuous values\.",
        rf"float\(\) argument must be a string or a real number, not '{_CLASS}'",
        r"Expected sequence or array-like, got <class '[\w.]+'>",
        r"Support for labels represented as bytes is not supported\. Convert the labels to a string or integer "
        r"format\.",
    )
)
_TEXT = (
    "a cell is text and not a number. Encode text by publicly listed categories, or give a DataFrame and its schema= "
    "(draft one with `dpadmm schema init`)."
)
_TOLD = (
    ("could not convert string", _TEXT),
    ("Unable to convert array of bytes", _TEXT),
    (
        "not compatible with arrays of bytes",
        _TEXT,
    ),
    ("Complex data not supported", "Complex data not supported: X and y must hold real numbers."),
    ("can't convert complex", "Complex data not supported: X and y must hold real numbers."),
    (
        "Expected 2D",
        "X must be a table with two dimensions, (records, features). Reshape your data: array.reshape(-1, 1) if it has "
        "one feature, array.reshape(1, -1) if it is one record.",
    ),
    (
        "Expected a 2-dimensional container",
        "X must be a table with two dimensions, (records, features). Reshape your data, or pass a DataFrame.",
    ),
    ("Input should have at least 1 dimension", "X and y must be arrays, got a single value."),
    ("inconsistent numbers of samples", "X, y and all other arrays must have the same number of rows."),
    ("Singleton array", "X and y must be arrays, got a single value."),
    (
        "The feature names should match those that were passed during fit",
        "The feature names should match those that were passed during fit, in number, name and order; these do not. "
        "Give the columns of the training table, in its order.",
    ),
    (
        "Feature names are only supported if all input features have string names",
        "the names of the columns must be all text or none of them.",
    ),
    ("inhomogeneous shape", "the rows do not all have the same length, or a cell holds a list."),
    ("setting an array element with a sequence", "the rows do not all have the same length, or a cell holds a list."),
    ("Unknown label type", "Unknown label type: y must contain labels of one kind, all numbers or all text."),
    ("Sparse data was passed", "sparse data were passed where dense ones are needed. Use .toarray()."),
)
_FOUND = {
    # Leaving such rows out would publish how many there are.
    "NaN": ("NaN", "Fill empty cells with a public constant"),
    "infinity": ("infinity or a value too large for float64", "Replace such cells with a public constant"),
}
_NOT_FINITE = re.compile(r"Input (?:(X|y) )?contains (NaN|infinity)")


def complaint(problem: BaseException) -> str:
    """Return what was wrong with the data.

    >>> complaint(ValueError("could not convert string to float: 'Meier'")).split(".")[0]
    'a cell is text and not a number'
    >>> complaint(ValueError("X has 3 features, but PrivateLinearSVC is expecting 2 features as input"))
    'X has 3 features, but PrivateLinearSVC is expecting 2 features as input'
    >>> complaint(ValueError("Input X contains NaN.\\nPrivateLinearSVC does not accept missing values"))
    'Input X contains NaN. Fill empty cells with a public constant.'
    """
    text = str(problem)
    if any(pattern.fullmatch(text) for pattern in _SAFE):
        return text
    bad = _NOT_FINITE.match(text)
    if bad is not None:
        found, remedy = _FOUND[bad[2]]
        return f"Input {bad[1] or 'y'} contains {found}. {remedy}."
    for known, told in _TOLD:
        if known in text:
            return told
    return (
        f"their form is not supported ({type(problem).__name__}). X must be a table of real numbers, (records, "
        "features), and y one value per record."
    )
