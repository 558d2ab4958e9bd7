"""The mutants of one tiny function: killed by a test that asks something, alive under one that does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.mutants.equivalents import EQUIVALENTS
from benchmarks.mutants.mutations import mutants_of
from benchmarks.mutants.tests_of import LEFT_OUT, TESTS

pytestmark = pytest.mark.check

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "sparsecert"

TINY = '''
LIMIT = 1 << 4

def larger(a: int, b: int = 0) -> int:
    """Not a formula: 1 + 1 < 3."""
    if not a > b:
        return -b
    return max(a, b)
'''


def _names(folder: Path, source: str) -> list[str]:
    (folder / "tiny.py").write_text(source)
    return [mutant.name for mutant in mutants_of(folder / "tiny.py", "tiny.py", "tiny")]


def test_each_place_of_a_function_is_changed_by_itself(tmp_path: Path) -> None:
    assert _names(tmp_path, TINY) == [
        "larger: if not a > b: -> if not not a > b:",
        "larger: a > b -> a >= b",
        "larger: a > b -> a <= b",
        "larger: return -b -> return +b",
        "larger: max(a, b) -> min(a, b)",
    ]


def test_the_same_change_made_twice_has_two_names(tmp_path: Path) -> None:
    names = _names(tmp_path, "def f(a, b):\n    a = a + b\n    return a + b\n")
    assert names == ["f: a + b -> a - b", "f: a + b -> a - b (number 2)"]


TRIALS = """
import sys
from pathlib import Path

import pytest
from benchmarks.mutants.mutations import mutants_of
from benchmarks.mutants import trial
root = Path(sys.argv[1])
trial.allowed = lambda seconds: 2
for test in ("test_real.py", "test_vacuous.py"):
    mutants = mutants_of(root / "tiny.py", "tiny.py", "tiny")
    found = trial.outcomes_of(mutants, [str(root / test)], 2, lambda mutant, outcome: None)
    for mutant, outcome in found:
        print("reported", test, mutant.name, "is", outcome.value)
"""


def test_a_mutant_is_killed_by_a_test_and_survives_a_vacuous_one(tmp_path: Path) -> None:
    """One of them never ends, and is stopped at its limit."""
    (tmp_path / "tiny.py").write_text("def count(n):\n    i = 5\n    while i > n:\n        i -= 3\n    return i\n")
    (tmp_path / "test_real.py").write_text("import tiny\ndef test(): assert (tiny.count(2), tiny.count(3)) == (2, 2)\n")
    (tmp_path / "test_vacuous.py").write_text("import tiny\ndef test(): assert tiny.count(9) is not None\n")
    done = subprocess.run(
        [sys.executable, "-c", TRIALS, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
    )
    lines = {line.removeprefix("reported ") for line in done.stdout.splitlines() if line.startswith("reported ")}
    assert lines == {
        "test_real.py count: i > n -> i >= n is killed",
        "test_real.py count: i > n -> i <= n is killed",
        "test_real.py count: i -= 3 -> i += 3 is timed out",
        "test_vacuous.py count: i > n -> i >= n is survived",
        "test_vacuous.py count: i > n -> i <= n is timed out",
        "test_vacuous.py count: i -= 3 -> i += 3 is survived",
    }


def test_every_file_of_the_core_has_its_tests_and_every_equivalent_is_there() -> None:
    """A new file is named in `tests_of.py` or left out on purpose; an entry of the reviewed table names a mutant."""
    files = {
        path.relative_to(PACKAGE).as_posix(): path
        for folder in ("bounds", "certificates", "schemes")
        for path in sorted((PACKAGE / folder).glob("*.py"))
    }
    assert {*files} == {*TESTS} | LEFT_OUT
    assert all((ROOT / "tests" / test).is_file() for tests in TESTS.values() for test in tests)
    named = {name.split("  ")[0] for name in EQUIVALENTS}
    there = {f"{mutant.path}  {mutant.name}" for shown in named for mutant in mutants_of(files[shown], shown, "")}
    assert {*EQUIVALENTS} <= there
