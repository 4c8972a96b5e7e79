"""What can be seen of a function that a pipeline calls: some look at all rows at once, whatever they are called on."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from sklearn import preprocessing

from dpadmm.estimators.advice import BOUNDS, OTHERS, Advice, advice_for

_DOES_THE_SAME: Mapping[Callable[..., Any], type] = MappingProxyType(
    {
        preprocessing.scale: preprocessing.StandardScaler,
        preprocessing.minmax_scale: preprocessing.MinMaxScaler,
        preprocessing.maxabs_scale: preprocessing.MaxAbsScaler,
        preprocessing.robust_scale: preprocessing.RobustScaler,
        preprocessing.quantile_transform: preprocessing.QuantileTransformer,
        preprocessing.power_transform: preprocessing.PowerTransformer,
    }
)
_BY_COLUMN = Advice("it divides every column by its norm, which all rows make together", BOUNDS)


def advice_on(function: Any, options: Mapping[str, Any]) -> Advice | None:
    """Return what calling `function` on the rows gives away, None if nothing is seen.

    >>> advice_on(partial(preprocessing.scale, with_mean=False), {}).problem
    'it learns the mean and spread of every column exactly'
    >>> advice_on(preprocessing.normalize, {}) is None
    True
    """
    while isinstance(function, partial):
        function, options = function.func, {**function.keywords, **options}
    owner = getattr(function, "__self__", function)  # of a bound method; an object that is called stands for itself
    if callable(getattr(owner, "fit", None)):
        known = advice_for(type(owner))
        return Advice(f"it is or was fitted out of sight; {known.problem}", f"{OTHERS}; give the step, not its method")
    if function is preprocessing.normalize and options.get("axis", 1) != 1:
        return _BY_COLUMN
    try:
        same = _DOES_THE_SAME.get(function)
    except TypeError:  # it cannot be a key, so it is none of these
        return None
    return None if same is None else advice_for(same)
