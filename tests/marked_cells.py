"""Tables full of marked cells: every cell of them, text or number, carries a mark that can be searched for."""

import json
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

TEXT, NUMBER, LARGE = "SECRET17", 1234567.0017, 8.170017e17
MARKS = (
    TEXT,
    *("1234567", "1.23456", "1.2346e", "1.23e+06"),
    *("8.170017", "8.17002", "8.17e+17", "81700170"),
    *("2017-08-1", "17.08.2017"),
)
CELL = f"{TEXT}a"  # a cell of text
NAMES = ("patient", "age", "dose", "sex", "sick")
SCHEMA = {
    "format": "dpadmm-schema",
    "version": 1,
    "row_norm": 1.0,
    "constant": None,
    "label": {"kind": "binary", "name": "sick", "positive": ["yes"], "negative": ["no"]},
    "columns": [
        {"kind": "numeric", "name": "age", "lower": 0, "upper": 2e6, "typical": 1e6},
        {"kind": "numeric", "name": "dose", "lower": 0, "upper": 1e18},
        {"kind": "categorical", "name": "sex", "categories": ["F", "M"]},
    ],
}


def marks_in(text: str) -> list[str]:
    """Return the marks in a text; case and spaces do not hide one."""
    plain = text.replace(" ", "").replace(",", "").lower()
    return [mark for mark in MARKS if mark.lower() in plain]


def text_of(error: BaseException | None) -> str:
    """Return all that an error says to whoever prints or reports it: the causes that tracebacks hide, too."""
    parts: list[str] = []
    seen: set[int] = set()
    queue = [error]
    while queue:
        one = queue.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        notes = getattr(one, "__notes__", ())
        parts += [str(one), repr(one), repr(one.args), repr(vars(one)), *map(str, notes)]
        queue += [one.__cause__, one.__context__]
    if error is not None:
        parts += traceback.format_exception(error)
    return "\n".join(parts)


def output_of(call: Callable[[], Any]) -> str:
    """Return what a call warns and raises."""
    raised = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is searched
            raised = error
    return "\n".join([text_of(raised), *(str(each.message) for each in caught)])


# --- files ----------------------------------------------------------------------------------------------------------


def good_rows(n: int = 30) -> list[list[str]]:
    """Rows that the schema takes; every patient has two."""
    return [
        [f"{TEXT}-{i // 2}", f"{NUMBER + i:.4f}", f"{LARGE + i:.6e}", "FM"[i % 2], ("yes", "no")[i % 3 == 0]]
        for i in range(n)
    ]


def csv_of(rows: list[list[str]], names: tuple[str, ...] | None = NAMES) -> bytes:
    lines = [*([",".join(names)] if names else []), *(",".join(row) for row in rows)]
    return ("\n".join(lines) + "\n").encode()


def with_cell(place: int, cell: str) -> bytes:
    rows = good_rows(12)
    rows[3][place] = cell
    return csv_of(rows)


ROWS = good_rows(12)
BROKEN = b"PAR1" + csv_of(ROWS) + b"PAR1"
CSV_TABLES = {
    "headerless": csv_of(ROWS, None),
    "headerless text": csv_of([[f"{TEXT}{column}{row % 3}" for column in "abcde"] for row in range(12)], None),
    "headerless text without repetition": csv_of([[f"{TEXT}{i}{j}" for j in range(5)] for i in range(9)], None),
    "headerless equal cells": csv_of([[CELL, CELL, str(NUMBER), "F", "yes"]] * 9, None),
    "headerless with the target": csv_of([["sick", str(NUMBER), str(LARGE), "F", CELL], *ROWS], None),
    "headerless dates": csv_of([["2017-08-17", CELL, "17.08.2017", "F", "yes"]] * 9, None),
    "one record": csv_of(ROWS[:1], None),
    "header alone": csv_of([]),
    "repeated names": csv_of(ROWS, ("age", "age", "dose", "sex", "sick")),
    "a name is missing": csv_of(ROWS, ("", "age", "dose", "sex", "sick")),
    "marked name": csv_of(ROWS, (CELL, "age", "dose", "sex", "sick")),
    "marked names": csv_of(ROWS, (CELL, f"{CELL}2", str(NUMBER), "sex", "sick")),
    "long row": csv_of([*ROWS, [*ROWS[0], CELL, str(NUMBER)]]),
    "all rows long": csv_of([[*row, CELL] for row in ROWS]),
    "short row": csv_of([*ROWS, [CELL, str(NUMBER)]]),
    "open quote": csv_of([*ROWS[:3], [f'"{CELL}', *ROWS[0][1:]], *ROWS[4:]]),
    "stray quotes": csv_of([*ROWS[:3], [f'{CELL}"x"y', *ROWS[0][1:]], *ROWS[4:]]),
    "open quote in the first line": f'"{CELL},{NUMBER}\n'.encode() + csv_of(ROWS),
    "semicolons": csv_of(ROWS).replace(b",", b";"),
    "headerless semicolons": csv_of(ROWS, None).replace(b",", b";"),
    "decimal commas": csv_of(ROWS).replace(b",", b";").replace(b".", b","),
    "two ways": csv_of(ROWS, None).replace(b",", b";").replace(b".", b","),
    "tabs": csv_of(ROWS).replace(b",", b"\t"),
    "latin-1": csv_of(ROWS).replace(b"-1,", "\u00e9,".encode("latin-1")),
    "utf-16": csv_of(ROWS).decode().encode("utf-16"),
    "null bytes": csv_of(ROWS).replace(b"-2", b"\x00\x00"),
    "json": json.dumps([{CELL: NUMBER}]).encode(),
    "text for a number": with_cell(1, CELL),
    "infinite": with_cell(1, "inf"),
    "overflow": with_cell(2, "8.170017e917"),
    "negative": with_cell(2, f"-{LARGE}"),
    "complex": with_cell(1, f"{NUMBER}+{NUMBER}j"),
    "unlisted": with_cell(3, CELL),
    "number for a category": with_cell(3, str(NUMBER)),
    "unlisted label": with_cell(4, CELL),
    "number for a label": with_cell(4, str(LARGE)),
    "empty cell": with_cell(1, ""),
    "empty label": with_cell(4, ""),
    "date": with_cell(1, "2017-08-17T12:34:56"),
    "good": csv_of(ROWS),
}


def parquet_tables() -> dict[str, pd.DataFrame]:
    frame = pd.DataFrame(ROWS, columns=list(NAMES)).astype({"age": float, "dose": float})
    stamps = pd.to_datetime(["2017-08-17 12:34:56.700170017"] * len(frame))
    return {
        "parquet": frame,
        "record as names": frame.set_axis([CELL, str(NUMBER), str(LARGE), "F", "yes"], axis=1),
        "lists": frame.assign(age=[[NUMBER, len(CELL)]] * len(frame)),
        "structs": frame.assign(age=[{"a": CELL}] * len(frame)),
        "stamps": frame.assign(age=stamps, sick=stamps),
        "zones": frame.assign(dose=stamps.tz_localize("Europe/Vienna")),
        "durations": frame.assign(age=pd.to_timedelta([NUMBER] * len(frame), unit="s")),
        "bytes": frame.assign(sex=[CELL.encode()] * len(frame)),
        "categories": frame.assign(sex=pd.Categorical([CELL] * len(frame))),
        "integers": frame.assign(sick=np.int64(LARGE), age=np.int64(NUMBER)),
        "missing": frame.assign(age=pd.array([None, *[int(NUMBER)] * (len(frame) - 1)], dtype="Int64")),
        "mixed text": frame.assign(age=[CELL, *["1"] * (len(frame) - 1)]),
        "large": frame.assign(dose=np.float64(1e308), age=-np.inf),
    }


# --- values in Python -----------------------------------------------------------------------------------------------

N = 24
X = np.column_stack([NUMBER + np.arange(N), np.full(N, LARGE)])
Y = np.arange(N) % 2
T = NUMBER + np.arange(N)


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"age": X[:, 0], "dose": X[:, 1], **columns})


def tables() -> dict[str, Any]:
    spoilt, endless = X.copy(), X.copy()
    spoilt[3, 1], endless[3, 0] = np.nan, np.inf
    dates = pd.Series(pd.to_datetime(["2017-08-17 12:34:56.700170017"] * N))
    return {
        "numbers": X,
        "float32": X.astype(np.float32),
        "vector": X[:, 0],
        "scalar": np.float64(LARGE),
        "cube": X.reshape(2, N // 2, 2),
        "short": X[:-1],
        "wide": np.hstack([X, X]),
        "none": None,
        "text alone": CELL,
        "complex": X * (1 + 1j),
        "complex objects": (X * 1j).astype(object),
        "sparse": sparse.csr_array(X),
        "sparse coo": sparse.coo_array(X),
        "sparse complex": sparse.csr_array(X * 1j),
        "nan": spoilt,
        "inf": endless,
        "huge": X * 1e280,
        "texts": [[CELL, str(NUMBER)]] * N,
        "number texts": [[str(NUMBER), str(LARGE)]] * N,
        "bytes": np.full((N, 2), CELL.encode()),
        "objects": np.array([[NUMBER, CELL]] * N, dtype=object),
        "dicts": [[{CELL: NUMBER}, NUMBER]] * N,
        "ragged": [[NUMBER, LARGE]] * (N - 1) + [[NUMBER]],
        "nested": [[[NUMBER], [LARGE]]] * N,
        "mapping": {CELL: X[:, 0]},
        "record": np.array([(NUMBER, CELL)] * N, dtype=[("a", float), ("b", "U20")]),
        "frame": frame(),
        "frame with text": frame().assign(dose=CELL),
        "frame with dates": frame().assign(dose=dates),
        "frame with categories": frame().assign(dose=pd.Categorical([CELL] * N)),
        "frame with NA": frame().assign(age=pd.array([pd.NA, *[int(NUMBER)] * (N - 1)], dtype="Int64")),
        "frame without header": frame().set_axis([str(NUMBER), CELL], axis=1),
        "frame of other names": frame().set_axis([CELL, "dose"], axis=1),
        "frame of mixed names": frame().set_axis([CELL, 7], axis=1),
        "frame of equal names": frame().set_axis([CELL, CELL], axis=1),
        "series": pd.Series(X[:, 0], name=CELL),
    }


def targets() -> dict[str, Any]:
    return {
        "labels": Y,
        "numbers": T,
        "texts": np.array([f"{TEXT}{i % 2}" for i in range(N)]),
        "one text": [CELL] * N,
        "many texts": [f"{TEXT}{i}" for i in range(N)],
        "mixed": [CELL, NUMBER] * (N // 2),
        "bytes": [CELL.encode(), b"x"] * (N // 2),
        "objects": np.array([CELL, None] * (N // 2), dtype=object),
        "complex": T * 1j,
        "nan": np.where(Y > 0, np.nan, T),
        "inf": np.where(Y > 0, np.inf, T),
        "column": T.reshape(-1, 1),
        "two columns": np.column_stack([T, T]),
        "short": T[:-1],
        "scalar": LARGE,
        "text": CELL,
        "none": None,
        "lists": [[NUMBER, LARGE]] * (N - 1) + [[NUMBER]],
        "series": pd.Series(T, name=CELL),
        "categories": pd.Series(pd.Categorical([f"{TEXT}{i % 2}" for i in range(N)])),
        "dates": pd.Series(pd.to_datetime(["2017-08-17", "2017-08-18"] * (N // 2))),
        "sparse": sparse.csr_array(T.reshape(-1, 1)),
        "dicts": [{CELL: 1}] * N,
    }


def groupings() -> dict[str, Any]:
    return {
        "none": None,
        "texts": [f"{TEXT}{i % 3}" for i in range(N)],
        "numbers": NUMBER + np.arange(N) % 2,
        "mixed": [CELL, NUMBER] * (N // 2),
        "short": [CELL] * (N - 1),
        "missing": [CELL, None] * (N // 2),
        "NA": pd.array([CELL, pd.NA] * (N // 2), dtype="string"),
        "ragged": [[CELL], [CELL, CELL]] * (N // 2),
        "table": [[CELL, NUMBER]] * N,
        "text": CELL,
        "mapping": {CELL: NUMBER},
        "complex": T * 1j,
        "lists": np.array([[CELL], None] * (N // 2), dtype=object),
    }


class Talkative:
    """An object that quotes a cell whatever it is asked."""

    def _quote(self, *_args: Any, **_options: Any) -> Any:
        raise RuntimeError(CELL)

    __array__ = __iter__ = __len__ = _quote

    def __repr__(self) -> str:
        return CELL


def misplaced() -> dict[str, Any]:
    """Data of every form that may be given where a setting belongs."""
    return {
        **{name: table for name, table in tables().items() if name not in ("scalar", "text alone", "none")},
        "vector of texts": np.array([CELL] * N),
        "two rows": X[::-1][:2],
        "ragged texts": [[CELL], [CELL, CELL]],
        "large number": [10**400, int(LARGE)],
        "object": Talkative(),
        "long text": CELL * 9,
        "array of no dimension": np.array(CELL),
    }
