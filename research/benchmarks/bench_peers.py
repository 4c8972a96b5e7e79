"""`make bench-peers`: dpadmm's defaults beside what a user would pick instead, on the same rows and budgets.

Makes an environment for every peer, fits, and writes docs/peers.md and the table in README.md, both below research/.
Scores of single fits are kept under `.bench/`, so a run that was interrupted goes on where it stopped; what has
changed runs anew.
"""

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from peers import environments, numbers, sets
from peers.contenders import CONTENDERS, Contender
from peers.effort import counted
from peers.measuring import Bench
from peers.pages import write_pages
from peers.results import Results

from dpadmm.errors import InputError

ROOT = Path(__file__).parents[1]
EPSILONS = (0.1, 0.5, 1.0, 5.0)
RUNS = 10
REAL = ("adult", "heart", "breast", "nist", "heavy")


def arguments(texts: Sequence[str] | None) -> argparse.Namespace:
    """Return what was asked for."""
    names = [each.name for each in CONTENDERS]
    parser = argparse.ArgumentParser(description="dpadmm's defaults beside its peers.")
    parser.add_argument("--sets", nargs="+", choices=sets.ALL, default=list(REAL), help="all real ones if left out")
    parser.add_argument("--contenders", nargs="+", choices=names, default=names, help="all if left out")
    parser.add_argument(
        "--numbers", nargs="*", choices=numbers.SETS, default=list(numbers.SETS), help="sets with a number"
    )
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--runs", type=int, default=RUNS, help="per set and budget; a multiple of 5 suits the splits")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    parser.add_argument(
        "--folder", type=Path, default=ROOT.parent / ".bench", help="environments and scores of single fits"
    )
    parser.add_argument("--smoke", action="store_true", help="one small set, one run, environments that are there")
    parser.add_argument("--report", action="store_true", help="write the pages from what is known, measure nothing")
    parser.add_argument("--pages", type=Path, default=ROOT, help="folder with README.md and docs/ to write into")
    asked = parser.parse_args(texts)
    if asked.smoke:
        asked.sets, asked.epsilons, asked.runs, asked.numbers = ["toy"], [1.0], 1, []
    return asked


def at_hand(names: Sequence[str]) -> list[str]:
    """Return the sets whose files are there, and say which are not."""
    found = []
    for name in names:
        try:
            sets.load(name)
            found.append(name)
        except InputError as problem:
            print(f"{sets.ALL[name].title} is left out. {problem}")
    return found


def wanted_environments(chosen: Sequence[Contender]) -> list[str]:
    """Return the environments beside our own, each once."""
    return list(dict.fromkeys(each.environment for each in chosen if each.environment is not None))


def main(texts: Sequence[str] | None = None) -> None:
    """Measure what is not known yet, and write the pages."""
    asked, begin = arguments(texts), time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begin:6.0f} s  {text}", flush=True)

    chosen = [each for each in CONTENDERS if each.name in asked.contenders]
    asked.folder.mkdir(parents=True, exist_ok=True)
    results, choices = Results(asked.folder), 2 if asked.smoke else None
    bench = Bench(tuple(asked.epsilons), asked.runs, asked.folder, results, say, choices)
    names = at_hand(asked.sets)
    if not asked.report:
        with counted(asked.folder):
            for wanted in wanted_environments(chosen) if not asked.smoke else ():
                environments.make(asked.folder, wanted, say)
            pairs = [(each, name) for name in names for each in chosen]
            with ThreadPoolExecutor(asked.workers) as pool:
                list(pool.map(bench.measure, *zip(*pairs, strict=True)))
            if asked.numbers:
                numbers.measure(asked.folder, asked.numbers, asked.epsilons, asked.runs, say)
    write_pages(bench, names, chosen, asked.pages)
    say(f"done; scores of single fits: {bench.results.path.name}")


if __name__ == "__main__":
    main()
