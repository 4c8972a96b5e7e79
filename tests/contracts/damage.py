"""Damaged copies of files: bytes, JSON and TOML values, cells and pages of SQLite, members of archives."""

import io
import json
import random
import re
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from dpadmm.errors import DpadmmError

Damage = Callable[[random.Random, bytes], bytes]

VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        5,
        1.5,
        -0.0,
        1e-320,
        1e308,
        2**63,
        10**400,
        -(10**30),
        float("nan"),
        float("inf"),
    ),
    *("", "x", "5", "NaN", "true", "\0", "\ud800", "é" * 60, "x" * 5000, "2020-01-01", "a/b", "\x1b[2J"),
    *([], {}, [[]], [None], [0, 0], [1, "x"], {"a": 1}, {"": []}, [float("nan")], [-1, 10**25], ["x", "x"]),
)
ARGUMENTS = (
    *("5", "-1", "0", "1.5", "nan", "inf", "-inf", "1e999", "true", '""', '"x"', "[]", "{}", "[5]", "[[]]", '["x", 5]'),
    *(
        "2020-01-01",
        "12:00:00",
        '"\\u0000"',
        '"\\ud800"',
        "9" * 5000,
        "9" * 400,
        "[" * 3000 + "]" * 3000,
        "{a = 5}",
        "[",
    ),
)
"""What stands for a value in TOML, not all of which is TOML."""

NESTED = b"[" * 100_000
DIGITS = b"9" * 5000


def of_bytes(chance: random.Random, content: bytes) -> bytes:
    """Return bytes with some of them changed, lost, doubled or foreign."""
    copy, place = bytearray(content), chance.randrange(len(content) + 1)
    match chance.randrange(8):
        case 0:
            return content[:place]
        case 1:
            return content[place:]
        case 2:
            copy[place : place + chance.randrange(1, 40)] = b""
        case 3:
            copy[place:place] = chance.choice(
                [NESTED, DIGITS, b"\xff\xfe", b"\0", b'"', b"NaN", b"\xc3", b"}\n{", b"1e999"]
            )
        case 4:
            copy[place:place] = copy[place : place + chance.randrange(1, 200)]
        case _:
            for _ in range(chance.choice([1, 1, 2, 5, 50])):
                if copy:
                    copy[chance.randrange(len(copy))] = chance.randrange(256)
    return bytes(copy)


def of_json(chance: random.Random, content: bytes) -> bytes:
    """Return JSON in which one value is another, is gone, or has come."""
    whole = json.loads(content)
    change(chance, whole)
    return json.dumps(whole).encode()


def change(chance: random.Random, whole: Any) -> None:
    """Change one value of a list or a table, or take it away."""
    inner = [part for part in _parts(whole) if part]
    if not inner:
        return
    part = chance.choice(inner)
    place = chance.choice(list(part) if isinstance(part, dict) else range(len(part)))
    match chance.randrange(6):
        case 0:
            del part[place]
        case 1 if isinstance(part, dict):
            part[chance.choice(["", "x", f"{place}x"])] = part.pop(place)
        case 1:
            part.append(part[place])
        case _:
            part[place] = chance.choice(VALUES)


def _parts(whole: Any) -> Iterator[Any]:
    if isinstance(whole, dict | list):
        yield whole
        for each in list(whole.values() if isinstance(whole, dict) else whole):
            yield from _parts(each)


def of_toml(chance: random.Random, content: bytes) -> bytes:
    """Return TOML in which one value is another, or one line is gone, doubled or elsewhere."""
    lines = content.decode().splitlines()
    place = chance.choice([k for k, line in enumerate(lines) if line.strip()])
    match chance.randrange(6):
        case 0:
            del lines[place]
        case 1:
            lines.insert(chance.randrange(len(lines)), lines[place])
        case 2:
            lines[place] = re.sub(r"^\w+", chance.choice(["x", "a.b", "", "'é'", ".".join("a" * 2000)]), lines[place])
        case _:
            lines[place] = re.sub(r"=.*", lambda _: f"= {chance.choice(ARGUMENTS)}", lines[place])
    return "\n".join(lines).encode() + b"\n"


def of_cells(chance: random.Random, content: bytes) -> bytes:
    """Return an SQLite file in which one cell is another, or a table or a row is gone."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.deserialize(content)
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = chance.choice(tables)
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        column = chance.choice(columns)
        cells = [cell for (cell,) in connection.execute(f"SELECT {column} FROM {table}").fetchall()]
        with suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
            match chance.randrange(8):
                case 0:
                    connection.execute(f"DROP TABLE {table}")
                case 1:
                    connection.execute(f"DELETE FROM {table}")
                case 2:
                    connection.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO other")
                case 3 if cells:
                    connection.execute(f"UPDATE {table} SET {column} = CAST(x'ff41' AS TEXT)")
                case _ if cells:
                    old = chance.choice(cells)
                    connection.execute(
                        f"UPDATE {table} SET {column} = ? WHERE {column} IS ?", (_cell(chance, old), old)
                    )
        return connection.serialize()


def _cell(chance: random.Random, old: Any) -> Any:
    if isinstance(old, str) and old.startswith(("{", "[")) and chance.random() < 0.8:
        return of_json(chance, old.encode()).decode()
    if isinstance(old, bytes) and chance.random() < 0.8:
        return of_bytes(chance, old)
    return chance.choice([None, 0, -1, 2**62, 1.5, "", "x", "9" * 5000, "[" * 100_000, b"", b"\xff", "\x1b[2J"])


def of_members(chance: random.Random, content: bytes) -> bytes:
    """Return an archive in which one member is damaged, gone or foreign."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = chance.choice(list(members))
    match chance.randrange(5):
        case 0:
            del members[name]
        case 1:  # a header of an array that is too large, of objects, or no header
            shape = chance.choice(["(10000000000000,)", "(-1,)", "()", "(2, 2)", "(0,)", "x", "(" * 300])
            kind = chance.choice(["<f8", "|O", "|u1", "<U9", "<c16", "<m8", "?", "|V8", "zz"])
            text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
            members[name] = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + members[name][128:]
        case _:
            members[name] = of_bytes(chance, members[name])
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", chance.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        for each, inner in members.items():
            archive.writestr(each, inner)
    return target.getvalue()


def attempts(seed: int, number: int, content: bytes, *kinds: Damage) -> Iterator[bytes]:
    """Return so many damaged copies."""
    chance = random.Random(seed)
    for _ in range(number):
        yield chance.choice(kinds)(chance, content)


def written(path: Path, content: bytes) -> Path:
    """Write a damaged copy for its owner only."""
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def check(load: Callable[[Path], object], path: Path, copies: Iterator[bytes], *, secret: str = "\0") -> int:
    """Load damaged copies: each is taken, or refused by an error of ours that does not tell the secret; count these."""
    refusals = []
    for number, content in enumerate(copies):
        written(path, content)
        try:
            load(path)
        except DpadmmError as error:
            refusals.append(str(error))
        except Exception as fault:
            raise AssertionError(f"copy {number} of {path.name} ends in {type(fault).__name__}: {fault}") from fault
    assert not [reported for reported in refusals if secret in reported]
    return len(refusals)
