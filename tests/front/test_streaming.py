"""Fits of streamed tables: the models, statements and records of the same tables in memory."""

import json
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.contracts.parquet_groups import write_groups
from tests.grouped import grouped

import dpadmm
from dpadmm.data import encoded, parquet, sources
from dpadmm.errors import InputError, LedgerError
from dpadmm.privacy.ledger import open_for_reading

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "'click", DeprecationWarning)
    from typer.testing import CliRunner

    from dpadmm.cli.main import app

KNOWN = {"age": (0, 120), "dose": (0, 10), "ward": ["01", "02", "03"], "sick": ("yes", "no")}
COST = {"epsilon": 3.0, "delta": 1e-5}


def table(n: int, seed: int) -> pd.DataFrame:
    drawn = np.random.default_rng(seed)
    age = drawn.uniform(20, 100, n).round(1)
    return pd.DataFrame(
        {
            "sick": np.where(age > 60, "yes", "no"),
            "note": drawn.integers(0, 9, n),
            "age": age,
            "ward": drawn.choice(["01", "02", "03"], n),
            "dose": np.where(drawn.random(n) < 0.1, np.nan, drawn.uniform(0, 10, n).round(2)),
            "stage": drawn.choice(["i", "ii", "iii"], n),
        }
    )


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two hospitals as files, and a folder that holds the first of them in pieces."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(parquet, "_PART_ROWS", 150)
    monkeypatch.setattr(parquet, "_CELLS", 1200)
    north, south = table(300, 0), table(200, 1)
    write_groups(Path("north.parquet"), north, [100, 0, 1, 80])
    write_groups(Path("south.parquet"), south, [])
    Path("big").mkdir()
    write_groups(Path("big", "1.parquet"), north.iloc[:120].reset_index(drop=True), [30])
    write_groups(Path("big", "2.parquet"), north.iloc[120:].reset_index(drop=True), [50])
    return tmp_path


def fitted(data, target: str = "sick", known=KNOWN, **settings_given):
    settings_given = {**COST, "missing": "fill", "anyway": True, **settings_given}
    if settings_given.get("method") != "p-admm":
        settings_given |= {"view": "public"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dpadmm.fit(data, target, **grouped(schema=known, **settings_given))


FILES = ["north.parquet", "south.parquet"]


@pytest.mark.parametrize(
    "settings_given",
    [
        {"method": "noisy-gradients"},
        {"method": "noisy-gradients-preconditioned", "profile": "off", "class_weight": {"yes": 2.0}},
        {"method": "p-admm"},
        {"method": "noisy-gradients", "neighbours": "add-remove", "nominal_records": 480},
        {"method": "noisy-gradients", "profile": "off", "class_weight": {"yes": 2.0}},
        {"method": "output-perturbation", "profile": "off"},
    ],
    ids=lambda settings_given: " ".join(map(str, settings_given.values())),
)
def test_a_streamed_fit_is_the_fit_in_memory(settings_given):
    held = fitted(FILES, seed=1, stream=False, **settings_given)
    flowing = fitted(FILES, seed=1, stream=True, **settings_given)
    again = fitted(FILES, seed=1, stream=True, scratch="off", **settings_given)
    np.testing.assert_array_equal(flowing.weights, held.weights)
    # Without a copy, local solves take other steps: they differ by their tolerance, which certificates count.
    apart = 0.0 if settings_given["method"].startswith("noisy-gradients") else 1e-5
    np.testing.assert_allclose(again.weights, held.weights, rtol=0.0, atol=apart)
    assert flowing.guarantee == held.guarantee
    assert str(flowing) == str(held)
    assert flowing.schema == held.schema
    assert flowing.encoding == held.encoding


@pytest.mark.parametrize("multi_class", ["softmax", pytest.param("one-vs-rest", marks=pytest.mark.slow)])
def test_more_than_two_classes_stream_as_well(multi_class):
    known = {name: KNOWN[name] for name in ("age", "dose")} | {"stage": ["i", "ii", "iii"]}
    settings_given = {
        "target": "stage",
        "known": known,
        "multi_class": multi_class,
        "seed": 2,
        "method": "noisy-gradients",
    }
    ways = ({"stream": False}, {"stream": True}, {"stream": True, "scratch": "off"})
    held, *flowing = (fitted(FILES, **way, **settings_given).weights for way in ways)
    for each in flowing:
        np.testing.assert_array_equal(each, held)


def test_the_same_table_in_memory_and_streamed_is_the_same_data_to_a_ledger():
    settings_given = {"ledger": "data.ledger", "budget": 20.0, "method": "noisy-gradients"}
    fitted(FILES, stream=False, **settings_given)
    fitted(FILES, stream=True, **settings_given)
    frames = {Path(name).stem: pd.read_parquet(name) for name in FILES}
    fitted(frames, **settings_given)
    with open_for_reading("data.ledger") as opened:
        assert len(opened.runs()) == 3
        assert opened.statement().profiles == 1  # released once, and known again
    write_groups(Path("south.parquet"), table(200, 2), [])
    with pytest.raises(LedgerError, match="other data"):
        fitted(FILES, stream=True, **settings_given)


def test_a_folder_is_the_silo_that_its_rows_are_in_one_file():
    settings_given = {"ledger": "one.ledger", "budget": 20.0, "method": "noisy-gradients"}
    fitted("big", **settings_given)
    fitted({"big": "north.parquet"}, **settings_given)
    with open_for_reading("one.ledger") as opened:
        assert len(opened.runs()) == 2
    held, flowing = (fitted(data, seed=3, method="noisy-gradients") for data in ("north.parquet", "big"))
    np.testing.assert_allclose(flowing.weights, held.weights, rtol=1e-6, atol=1e-8)
    assert dpadmm.plan("big", "sick", **grouped(schema=KNOWN, **COST)).task.sizes == (300,)


def test_size_decides_where_nothing_is_said(monkeypatch):
    def is_streamed(stream: bool | None = None, **settings_given) -> bool:
        options, paths = sources.TableOptions(stream=stream), [Path(name) for name in FILES]
        return bool(sources.in_files(sources.read_tables(paths, options, sources.Protection(), **settings_given)))

    assert not is_streamed()
    assert is_streamed(True)
    monkeypatch.setattr(sources, "MOST_IN_MEMORY", 500 * 6 * 8 - 1)
    assert is_streamed()
    assert not is_streamed(False)
    assert not is_streamed(person="note")
    monkeypatch.setattr(sources, "MOST_IN_MEMORY", 500 * 6 * 8)
    assert not is_streamed()


def test_a_file_that_changes_during_a_run_ends_it_and_what_was_reserved_stays_spent(monkeypatch):
    plain, calls = encoded.RowBlock.__call__, []

    def changing(block):
        calls.append(block)
        if len(calls) == 20:
            os.utime("north.parquet", (1, 1))
        return plain(block)

    monkeypatch.setattr(encoded.RowBlock, "__call__", changing)
    with pytest.raises(InputError, match="has changed"):
        fitted(FILES, stream=True, scratch="off", ledger="data.ledger", budget=9.0, method="noisy-gradients")
    with open_for_reading("data.ledger") as opened:
        assert opened.statement().spent_epsilon == pytest.approx(3.0, rel=1e-3)


def test_an_interrupted_run_keeps_what_was_reserved(monkeypatch):
    plain, calls = encoded.ParquetStream.totals, []

    def interrupted(stream, tasks, dimension):
        calls.append(tasks)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return plain(stream, tasks, dimension)

    monkeypatch.setattr(encoded.ParquetStream, "totals", interrupted)
    with pytest.raises(KeyboardInterrupt, match="stays spent"):
        fitted(FILES, stream=True, scratch="off", ledger="data.ledger", budget=9.0, method="noisy-gradients")
    with open_for_reading("data.ledger") as opened:
        assert opened.statement().spent_epsilon == pytest.approx(3.0, rel=1e-3)


def test_the_command_says_that_it_streams_and_plans_from_footers(monkeypatch):
    dpadmm.data.sources.public_schema(KNOWN, "sick", is_real=False).save("schema.json")
    common = ["--schema", "schema.json", "--epsilon", "3", "--delta", "1e-5"]
    trained = [*common, "--missing", "fill", "--anyway", "--view", "public", "--simulate", "4"]
    models = []
    for out, data, more in (("a.json", FILES, ["--stream"]), ("b.json", FILES, []), ("c.json", ["big"], [])):
        done = CliRunner().invoke(app, ["fit", *data, *trained, *more, "--out", out])
        assert done.exit_code == 0, done.output
        assert ("is streamed: " in done.stderr) is (out != "b.json")
        models.append(dpadmm.load(out))
    np.testing.assert_allclose(models[0].weights, models[1].weights, rtol=1e-6, atol=1e-8)
    monkeypatch.setattr(parquet.TablePart, "frames", None)  # not a row is read
    planned = CliRunner().invoke(app, ["plan", "big", *common, "--json", "--no-curve"])
    assert planned.exit_code == 0, planned.output
    assert json.loads(planned.stdout)["task"]["sizes"] == [300]
