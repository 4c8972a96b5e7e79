"""Settings are listed once: functions, estimators and options have the names and defaults of the table."""

import inspect
import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

import dpadmm
from dpadmm.checks import use_option_names
from dpadmm.errors import InputError
from dpadmm.settings import (
    RECORDS,
    CellRules,
    EvaluationSettings,
    FitSettings,
    OutputFiles,
    Privacy,
    TrainingOptions,
    by_name,
)

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


BUDGET = {"epsilon": 1, "delta": 1e-5}
PUBLIC = {"public": "a register", "declare": "held-out"}
REFUSALS = [
    (Privacy, {"unit": "persn"}, "unit", "value"),
    (Privacy, {"keep": 0}, "keep", "value"),
    (CellRules, {"missing": None}, "missing", "value"),
    (TrainingOptions, {"l1_ratio": 2}, "l1_ratio", "value"),
    (TrainingOptions, {"fit_intercept": "yes"}, "fit_intercept", "value"),
    (TrainingOptions, {"expected_auc": 0.5}, "expected_auc", "value"),
    (FitSettings, BUDGET | {"epsilon": 0}, "epsilon", "value"),
    (FitSettings, BUDGET | {"epsilon": float("nan")}, "epsilon", "value"),
    (FitSettings, BUDGET | {"delta": 1}, "delta", "value"),
    (FitSettings, BUDGET | {"alpha": -1}, "alpha", "value"),
    (TrainingOptions, {"expected_auc": float("nan")}, "expected_auc", "value"),
    *((TrainingOptions, {"expected_auc": wrong}, "expected_auc", "value") for wrong in (1.0, -0.8, "high", True)),
    *((TrainingOptions, {"expected_r2": wrong}, "expected_r2", "value") for wrong in (0, 1, -0.1, "high")),
    *((TrainingOptions, {"prevalence": wrong}, "prevalence", "value") for wrong in (0, 1.5, -0.2, "half")),
    (FitSettings, BUDGET | {"privacy": {}}, "privacy", "value"),
    (FitSettings, BUDGET | {"class_weight": {0: 0.0}}, "every weight of a class", "value"),
    (EvaluationSettings, {}, "epsilon", "missing"),
    (EvaluationSettings, {"epsilon": 1}, "delta", "missing"),
    (EvaluationSettings, {"epsilon": 0, "delta": 1e-5}, "epsilon", "value"),
    (EvaluationSettings, BUDGET | {"declare": "held-out"}, "declare", "combination"),
    (EvaluationSettings, BUDGET | {"plot": "curves.gif"}, "plot", "value"),
    (EvaluationSettings, BUDGET | {"out": "new.txt"}, "out", "value"),
    (EvaluationSettings, PUBLIC | BUDGET, "epsilon", "combination"),
    (EvaluationSettings, PUBLIC | {"budget": 1}, "budget", "combination"),
    (EvaluationSettings, PUBLIC | {"person": "patient"}, "person", "combination"),
    (EvaluationSettings, PUBLIC | {"by": "sex"}, "by", "combination"),
    (EvaluationSettings, PUBLIC | {"public": " "}, "public", "value"),
    (EvaluationSettings, {"public": "a register"}, "declare", "missing"),
    (EvaluationSettings, PUBLIC | {"declare": "published", "ledger": "l"}, "ledger", "combination"),
    (EvaluationSettings, {"earlier": "e.json", "ledger": "l"}, "ledger", "combination"),
    (EvaluationSettings, {"earlier": "e.json", "by": "sex"}, "by", "combination"),
]


@pytest.mark.parametrize(("record", "settings", "setting", "code"), REFUSALS)
def test_what_no_data_could_make_right_is_refused_at_once(record, settings, setting, code):
    with pytest.raises(InputError) as refused:
        record(**settings)
    assert (refused.value.setting, refused.value.code) == (setting, code)
    assert setting in str(refused.value)


def test_settings_are_called_as_the_user_calls_them():
    with (
        use_option_names(lambda name, *value: f"--{name}"),
        pytest.raises(InputError, match="--keep") as refused,
    ):
        Privacy(keep=0)
    assert refused.value.setting == "keep"
    with pytest.raises(InputError, match="'person'"):
        Privacy(unit="persn")


def test_a_path_is_the_model_file():
    assert FitSettings(epsilon=1, delta=1e-5, out="m.json").out == OutputFiles(model=Path("m.json"))
