"""Settings are listed once: functions, estimators and options have the names and defaults of the table."""

import inspect
import re
from dataclasses import MISSING, fields

import pytest

import dpadmm
from dpadmm.errors import InputError
from dpadmm.settings import RECORDS, CellRules, FitSettings, OutputFiles, Privacy, TrainingOptions, by_name

ESTIMATORS = (dpadmm.PrivateLogisticRegression, dpadmm.PrivateLinearSVC, dpadmm.PrivateLinearRegression)


def documented(text: str) -> list[str]:
    """Return the names that the section of parameters has an entry for."""
    section = inspect.cleandoc(text).split("Parameters\n----------\n")[1].split("\n\n")[0]
    entries = re.findall(r"^(\w[\w, ]*?)(?: : .*)?$", section, re.MULTILINE)
    return [name for entry in entries for name in entry.split(", ")]


@pytest.mark.parametrize("taker", [*ESTIMATORS, dpadmm.fit, dpadmm.plan])
def test_parameters_have_the_defaults_of_the_table_and_an_entry_each(taker):
    listed = inspect.signature(taker).parameters
    assert len(listed) <= (16 if taker in ESTIMATORS else 20)
    for name, field in by_name(FitSettings).items():
        if name in listed and not (taker in ESTIMATORS and name == "schema"):
            assert listed[name].default == (inspect.Parameter.empty if field.default is MISSING else field.default)
    assert sorted(documented(taker.__doc__)) == sorted(listed)


@pytest.mark.parametrize("record", RECORDS.values())
def test_a_record_has_an_entry_for_each_setting(record):
    assert documented(record.__doc__) == [each.name for each in fields(record)]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Privacy(unit="persn"), "unit must be one of .*Did you mean 'person'"),
        (lambda: Privacy(keep=0), "keep must be a whole number"),
        (lambda: CellRules(missing=None), "missing must be one of"),
        (lambda: TrainingOptions(l1_ratio=2), "l1_ratio must lie between 0"),
        (lambda: TrainingOptions(fit_intercept="yes"), "fit_intercept must be True or False"),
        (lambda: TrainingOptions(expected_auc=0.5), "expected_auc must lie strictly between 0.5 and 1"),
        (lambda: FitSettings(epsilon=0, delta=1e-5), "epsilon must be greater than 0"),
        (lambda: FitSettings(epsilon=1, delta=1e-5, privacy={}), r"privacy must be a dpadmm\.Privacy\(\.\.\.\)"),
        (lambda: FitSettings(epsilon=1, delta=1e-5, class_weight={0: 0.0}), "every weight of a class must be greater"),
    ],
)
def test_what_no_data_could_make_right_is_refused_at_once(made, message):
    with pytest.raises(InputError, match=message):
        made()


def test_a_path_is_the_model_file():
    assert FitSettings(epsilon=1, delta=1e-5, out="m.json").out == OutputFiles(model="m.json")
