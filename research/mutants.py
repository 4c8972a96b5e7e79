"""Make the table of broken builds: `python research/mutants.py` breaks a copy of the source, one mutant at a time.

Each is run through its tests, which must fail, and through `dpadmm audit` where it is to see it, which must exit with
code 4. Before that, the sound copy must pass the same tests and audits. `--only WORDS` takes the mutants whose names
hold these words; `--write research/docs/audit.md` puts their rows into the table of that page.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- mutants: begin -->", "<!-- mutants: end -->"
VIOLATION_CODE = 4


@dataclass(frozen=True)
class Mutant:
    """One break of `mutants.toml`. audit: arguments of `dpadmm audit`, or why it cannot see the mutant."""

    area: str
    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]
    audit: tuple[str, ...] | str


def read_mutants() -> tuple[Mutant, ...]:
    """Return the list, in its order."""
    found = tomllib.loads((ROOT / "research" / "mutants.toml").read_text(encoding="utf-8"))
    mutants = []
    for area, entries in found["mutants"].items():
        for entry in entries:
            tests, reason = tuple(shlex.split(entry.pop("tests"))), entry.pop("not_audited", "")
            audit = found["reasons"].get(reason, reason) or tuple(shlex.split(entry.pop("audit")))
            mutants.append(Mutant(area, tests=tests, audit=audit, **entry))
    return tuple(mutants)


MUTANTS = read_mutants()


def test_file(name: str) -> Path:
    """Return where a test of the list is: below tests/, unless it is one of research."""
    return Path(name) if name.startswith("research/") else Path("tests") / name


@dataclass(frozen=True)
class Caught:
    """What caught a mutant: the first test that failed, and what the audit said; None where nothing did."""

    mutant: Mutant
    test: str | None
    audit: str | None
    seconds: float

    @property
    def is_complete(self) -> bool:
        return self.test is not None and (self.audit is not None or isinstance(self.mutant.audit, str))

    def row(self) -> str:
        audit = self.mutant.audit if isinstance(self.mutant.audit, str) else self.audit or "**missed**"
        test = "**missed**" if self.test is None else f"`{self.test}`"
        return f"| {self.mutant.area} | {self.mutant.name} | {test} | {audit} | {self.seconds:.0f} |"


class Copy:
    """A copy of the tree in which sources may be broken."""

    def __init__(self, place: Path) -> None:
        self.place = place
        for name in ("src", "tests", "research"):  # with compiled kernels, whose cache looks at the times of files
            shutil.copytree(ROOT / name, place / name)
        for name in ("pyproject.toml", "README.md", "docs", "examples", "mkdocs.yml", "CHANGELOG.md"):
            (place / name).symlink_to(ROOT / name)
        self.environment = {
            **os.environ,
            "PYTHONPATH": f"{place / 'src'}:{place / 'research' / 'src'}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.place,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def failing_test(self, tests: tuple[str, ...]) -> str | None:
        """Return the first test that fails, None if all pass."""
        found = [str(test_file(each)) if each.endswith(".py") else each for each in tests]
        done = self.run("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *found)
        if done.returncode == 0:
            return None
        named = re.search(r"^(?:FAILED|ERROR) (?:research/)?tests/(\S+)", done.stdout, re.MULTILINE)
        if named is None:
            raise RuntimeError(f"The tests did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return named.group(1).split("[")[0]

    def verdict(self, arguments: tuple[str, ...]) -> str | None:
        """Return what the audit finds, None if nothing."""
        done = self.run("-m", "dpadmm", "audit", *arguments)
        if done.returncode not in (0, VIOLATION_CODE):
            raise RuntimeError(f"The audit did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        if done.returncode == 0:
            return None
        texts = {"attack": "REFUTED", "sensitivity": "values before noise move", "scale": "every release has the noise"}
        texts |= {"independence": "noise is independent across", "sampling": "every record is in every batch"}
        texts["rounding"] = "rounded to the grid"
        said = " ".join(done.stdout.split())
        return ", ".join(name for name, sign in texts.items() if sign in said)

    def with_mutant(self, mutant: Mutant) -> Caught:
        path = self.place / "src" / "dpadmm" / mutant.path
        source, times = path.read_text(encoding="utf-8"), path.stat()
        if source.count(mutant.old) != 1:
            raise RuntimeError(f"{mutant.name}: the text to replace occurs {source.count(mutant.old)} times.")
        path.write_text(source.replace(mutant.old, mutant.new), encoding="utf-8")
        begin = time.perf_counter()
        try:
            test = self.failing_test(mutant.tests)
            audit = None if isinstance(mutant.audit, str) else self.verdict(mutant.audit)
        finally:
            path.write_text(source, encoding="utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        return Caught(mutant, test, audit, time.perf_counter() - begin)

    def check_sound(self, mutants: list[Mutant]) -> None:
        """Refuse to go on if the unbroken copy fails anything that mutants are to fail."""
        for tests in sorted({mutant.tests for mutant in mutants}):
            failing = self.failing_test(tests)
            if failing is not None:
                raise RuntimeError(f"{failing} fails without any mutant.")
        for arguments in sorted({mutant.audit for mutant in mutants if isinstance(mutant.audit, tuple)}):
            if self.verdict(arguments) is not None:
                raise RuntimeError(f"dpadmm audit {' '.join(arguments)} finds something without any mutant.")


def rows_of(page: str) -> dict[str, str]:
    """Return the rows of a page's table, by the names of their mutants."""
    lines = page.split(BEGIN)[1].split(END)[0].splitlines()
    return {line.split(" | ")[1]: line for line in lines if line.startswith("| ") and "what is broken" not in line}


def table(rows: dict[str, str]) -> str:
    """Return the table as Markdown, in the order of the list."""
    known = [rows[mutant.name] for mutant in MUTANTS if mutant.name in rows]
    cells = [row.strip("| ").split(" | ") for row in known]
    seconds = sum(float(cell[4]) for cell in cells)
    caught = sum(not isinstance(mutant.audit, str) for mutant in MUTANTS if mutant.name in rows)
    lines = ["| part | what is broken | first test that fails | audit | seconds |", "|---|---|---|---|---|", *known]
    lines += [
        "",
        f"{len(known)} broken builds, made and run in {seconds / 60:.0f} minutes on a busy machine with two cores;",
    ]
    lines += [f"{caught} of them are for the audit to see, and all for the tests."]
    return "\n".join(lines)


def say(line: str) -> None:
    """Show how far it is."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def write(path: Path, caught: Caught) -> None:
    """Put a row into the page's table; the others stay."""
    page = path.read_text(encoding="utf-8")
    text = table(rows_of(page) | {caught.mutant.name: caught.row()})
    path.write_text(f"{page.split(BEGIN)[0]}{BEGIN}\n{text}\n{END}{page.split(END)[1]}", encoding="utf-8")


def main() -> int:
    """Run all mutants, or some; 1 if one gets through."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="words in the name of a mutant")
    parser.add_argument("--write", type=Path, help="a page with marks for the table")
    parser.add_argument("--trust", action="store_true", help="do not try the sound copy first")
    parser.add_argument("--from", dest="first", type=int, default=0, help="leave out so many of the first mutants")
    asked = parser.parse_args()
    mutants = [mutant for mutant in MUTANTS if asked.only in mutant.name][asked.first :]
    with tempfile.TemporaryDirectory() as place:
        copy = Copy(Path(place))
        if not asked.trust:
            copy.check_sound(mutants)
            say("The sound copy passes.")
        found = []
        for mutant in mutants:
            found.append(copy.with_mutant(mutant))
            say(found[-1].row())
            if asked.write is not None:
                write(asked.write, found[-1])
    return 0 if all(caught.is_complete for caught in found) else 1


if __name__ == "__main__":
    sys.exit(main())
