"""Makes every mutant of the core formulas, runs the tests that have to notice, and prints those that nothing noticed.

    python -m benchmarks.mutants [files or folders] [--jobs 2] [--again FILE]

Without arguments, all of bounds/, certificates/ and schemes/. `--again` takes what an earlier run printed and tries
only the survivors named there. The exit status is 0 if nothing survived but the reviewed equivalents.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.mutants.equivalents import EQUIVALENTS
from benchmarks.mutants.mutations import Mutant, mutants_of
from benchmarks.mutants.tests_of import LEFT_OUT, tests_of
from benchmarks.mutants.trial import Outcome, outcomes_of

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "sparsecert"
CORE = "bounds", "certificates", "schemes"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, default=[PACKAGE / folder for folder in CORE])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", type=Path)
    options = parser.parse_args()
    os.chdir(ROOT)
    began, named = time.monotonic(), options.again.read_text().splitlines() if options.again else None
    files = [file for path in options.paths for file in _files(path.resolve())]
    mutants = [mutant for file in files for mutant in mutants_of(file, _shown(file), _module(_shown(file)))]
    stale = [name for name in EQUIVALENTS if _file_of(name) in map(_shown, files) and name not in map(_key, mutants)]
    if named is not None:
        mutants = [mutant for mutant in mutants if any(line.endswith(_key(mutant)) for line in named)]
    print(f"{len(mutants)} mutants of {len(files)} files, {options.jobs} at a time", flush=True)
    outcomes: list[tuple[Mutant, Outcome]] = []
    for tests in dict.fromkeys(tests_of(mutant.path) for mutant in mutants):
        these = [mutant for mutant in mutants if tests_of(mutant.path) == tests]
        print(f"\n{len(these)} by {' '.join(tests)}", file=sys.stderr, flush=True)
        outcomes += outcomes_of(these, tests, options.jobs, _report)
    alive = {_key(mutant) for mutant, outcome in outcomes if outcome is Outcome.SURVIVED}
    stale += [name for name in EQUIVALENTS if name in set(map(_key, mutants)) - alive]
    return _reported(outcomes, stale, time.monotonic() - began)


def _reported(outcomes: Sequence[tuple[Mutant, Outcome]], stale: Sequence[str], seconds: float) -> int:
    for name in stale:
        print(f"stale      {name}: named as an equivalent, and it is killed or not there")
    counts: Counter[tuple[str, str]] = Counter()
    for mutant, outcome in outcomes:
        kind = outcome.value
        if outcome is Outcome.SURVIVED and _key(mutant) in EQUIVALENTS:
            kind = "the same"
            print(f"the same   {_line(mutant)}: {EQUIVALENTS[_key(mutant)]}")
        for folder in (mutant.path.split("/")[0], "all"):
            for column in ("tried", kind):
                counts[folder, column] += 1
    columns = "tried", "killed", "timed out", "the same", "survived"
    print("\nfolder      " + "".join(f"{column:>11}" for column in columns))
    for folder in (*dict.fromkeys(mutant.path.split("/")[0] for mutant, _ in outcomes), "all"):
        print(f"{folder:<12}" + "".join(f"{counts[folder, column]:>11}" for column in columns))
    print(f"{seconds:.0f} s. Left out, as it cannot run without a GPU: {', '.join(sorted(LEFT_OUT))}")
    return int(bool(counts["all", "survived"] or stale))


def _report(mutant: Mutant, outcome: Outcome) -> None:
    print(".", end="", file=sys.stderr, flush=True)
    if outcome is Outcome.TIMED_OUT or (outcome is Outcome.SURVIVED and _key(mutant) not in EQUIVALENTS):
        print(f"{outcome.value:<10} {_line(mutant)}", flush=True)


def _files(path: Path) -> list[Path]:
    found = sorted(path.glob("*.py")) if path.is_dir() else [path]
    return [file for file in found if _shown(file) not in LEFT_OUT]


def _shown(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


def _key(mutant: Mutant) -> str:
    return f"{mutant.path}  {mutant.name}"


def _line(mutant: Mutant) -> str:
    return f"line {mutant.line:>3} of {_key(mutant)}"


def _file_of(name: str) -> str:
    return name.split("  ")[0]


def _module(path: str) -> str:
    return "sparsecert." + path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


if __name__ == "__main__":
    sys.exit(main())
