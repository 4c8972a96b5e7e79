"""What scikit-learn's steps give away when they are fitted on private rows, and what to use instead."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Advice:
    """What a step gives away, and what does the same without looking at the rows."""

    problem: str
    instead: str


BOUNDS = (
    "feature_bounds= (or row_norm=) of the private estimator, which scale by public numbers; or a "
    "FunctionTransformer with public numbers"
)
OTHERS = "choose from public knowledge, or fit it on other, public data and wrap it in FrozenEstimator"
_PUBLIC_FILL = "SimpleImputer(strategy='constant', fill_value=a public number, keep_empty_features=True)"
_REPEATS = (
    "it fits its inner estimator several times, and every fit is a release of its own; it may also learn from the rows"
)

_BY_CLASS: Mapping[str, Advice] = MappingProxyType(
    {
        "StandardScaler": Advice("it learns the mean and spread of every column exactly", BOUNDS),
        "MinMaxScaler": Advice("the smallest and largest value of a column are two people's values", BOUNDS),
        "MaxAbsScaler": Advice("the largest value of a column is somebody's value", BOUNDS),
        "RobustScaler": Advice("it learns quantiles of every column, which are people's values", BOUNDS),
        "QuantileTransformer": Advice("it keeps quantiles of every column, which are people's values", BOUNDS),
        "PowerTransformer": Advice(
            "it learns an exponent for every column exactly", "a FunctionTransformer, as np.log1p"
        ),
        "KBinsDiscretizer": Advice(
            "it learns the edges of the bins from the values", "a FunctionTransformer with np.digitize and public edges"
        ),
        "OneHotEncoder": Advice(
            "it learns which categories occur, and a rare one may be one person's",
            "OneHotEncoder(categories=[a public list for each column], handle_unknown='ignore'), without min_frequency "
            "and max_categories",
        ),
        "OrdinalEncoder": Advice(
            "it learns which categories occur, and a rare one may be one person's",
            "OrdinalEncoder(categories=[a public list for each column], handle_unknown='use_encoded_value', "
            "unknown_value=-1), without min_frequency and max_categories",
        ),
        "LabelEncoder": Advice("it learns which labels occur", "classes= of the private classifier"),
        "LabelBinarizer": Advice("it learns which labels occur", "classes= of the private classifier"),
        "TargetEncoder": Advice(
            "it keeps the mean target of every category, exactly", "OneHotEncoder with public categories"
        ),
        "SimpleImputer": Advice("it learns the fill values, and which columns are empty, from the rows", _PUBLIC_FILL),
        "MissingIndicator": Advice("it learns which columns have missing values", "MissingIndicator(features='all')"),
        "SplineTransformer": Advice("it learns the knots from the values", "SplineTransformer(knots=public numbers)"),
        "CountVectorizer": Advice(
            "it keeps the words that occur, and a rare one may be one person's",
            "CountVectorizer(vocabulary=a public list), or HashingVectorizer",
        ),
        "TfidfTransformer": Advice("it learns exactly how many rows contain each word", "HashingVectorizer"),
        "RBFSampler": Advice("gamma='scale' is the variance of the rows", "RBFSampler(gamma=a public number)"),
        "BaseSearchCV": Advice(
            "it returns exact scores of private rows and keeps the setting that did best on them, and every fit is a "
            "release of its own",
            "dpadmm.PrivateSearchCV, whose epsilon covers all fits and the choice; the planner, which tunes on "
            "synthetic data (method='auto', alpha=None); or search on public data",
        ),
    }
)
_BY_MODULE: Mapping[str, Advice] = MappingProxyType(
    {
        "sklearn.impute": Advice("it learns the fill values from the rows", _PUBLIC_FILL),
        "sklearn.feature_selection": Advice("it chooses columns by looking at the rows", OTHERS),
        "sklearn.decomposition": Advice("it learns directions from the rows exactly", OTHERS),
        "sklearn.cross_decomposition": Advice("it learns directions from the rows exactly", OTHERS),
        "sklearn.manifold": Advice("it keeps the rows themselves, or something computed from them exactly", OTHERS),
        "sklearn.cluster": Advice("it learns centres, or keeps rows, exactly", OTHERS),
        "sklearn.neighbors": Advice("it keeps the rows themselves", OTHERS),
        "sklearn.model_selection": _BY_CLASS["BaseSearchCV"],
        "sklearn.ensemble": Advice(_REPEATS, "one private estimator"),
        "sklearn.multiclass": Advice(
            _REPEATS, "the private classifiers themselves, which share one budget between several classes"
        ),
        "sklearn.multioutput": Advice(_REPEATS, "one private estimator per target, with a ledger for all of them"),
        "sklearn.calibration": Advice(
            "it learns a curve from the rows exactly, and every fit is a release of its own",
            "predict_proba of PrivateLogisticRegression",
        ),
        "sklearn.linear_model": Advice(
            "it learns from the rows without noise",
            "PrivateLogisticRegression, PrivateLinearSVC or PrivateLinearRegression",
        ),
        "sklearn.svm": Advice("it keeps rows, or learns from them without noise", "PrivateLinearSVC"),
    }
)
OVERRIDDEN = Advice(
    "its class does not belong to this package, and its fit may do more than the private one",
    "the private estimator itself",
)
_UNKNOWN = Advice("it is assumed to learn from the rows when it is fitted", OTHERS)


def advice_for(kind: type) -> Advice:
    """Return the advice for a class, or for the nearest class or module it comes from that is known.

    >>> from sklearn.preprocessing import MinMaxScaler
    >>> advice_for(MinMaxScaler).problem
    "the smallest and largest value of a column are two people's values"
    """
    for each in kind.__mro__:
        if each.__module__.startswith("sklearn.") and each.__name__ in _BY_CLASS:
            return _BY_CLASS[each.__name__]
        room = ".".join(each.__module__.split(".")[:2])
        if room in _BY_MODULE:
            return _BY_MODULE[room]
    return _UNKNOWN
