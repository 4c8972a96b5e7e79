"""Settings are listed once: functions, estimators and options have the names and defaults of the table."""

import inspect
import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from tests.refusals import check_refusals

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


def test_what_no_data_could_make_right_is_refused_at_once(snapshot):
    check_refusals(snapshot, "settings", globals())


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
