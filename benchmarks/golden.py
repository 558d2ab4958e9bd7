"""Digests of every label and radius that reports compute from the committed records, per file and question.

    python -m benchmarks.golden            writes results/golden.json
    python -m benchmarks.golden --check    compares, names what differs, and exits with 1 if anything does

Refactoring must not change any of them: certificates are recomputed from the recorded votes, by every bound and rule
that applies, at the run's alpha and at 0.001.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from sparsecert import records
from sparsecert.errors import InputError
from sparsecert.records import ATTACK, Records, is_exact, kind_of
from sparsecert.reports.classification import predicted_labels
from sparsecert.reports.exact import exact_certificates, exact_procedure
from sparsecert.reports.run_info import read_run_info
from sparsecert.reports.summary import recertify
from sparsecert.schemes import from_config

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "results" / "golden.json"
FOLDERS = "results", "studies", "tests/kept"
BOUNDS, RULES = ("one-sided", "two-sided"), ("run-off", "plurality", "pairwise")
AGAINST = "pixels", "patches"
SMALL_ALPHA = 0.001
PHOTOGRAPH = 10_000  # pixels; patches of larger images would take hours

Answer = tuple[Any, ...]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with results/golden.json and write nothing")
    check = parser.parse_args().check
    paths = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.jsonl*"))
    with ProcessPoolExecutor() as processes:
        names = [str(path.relative_to(ROOT)) for path in paths]
        found = {name: known for name, known in zip(names, processes.map(digests, paths), strict=True) if known}
    if not check:
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
        print(f"wrote {GOLDEN.relative_to(ROOT)}: {len(found)} files, {sum(map(len, found.values()))} questions")
        return 0
    expected = json.loads(GOLDEN.read_text())
    differing = [
        f"{name}, {question}: {found.get(name, {}).get(question)}, not {value}"
        for name, known in expected.items()
        for question, value in known.items()
        if found.get(name, {}).get(question) != value
    ]
    print(*differing, sep="\n", end="\n" if differing else "")
    print(f"{sum(map(len, expected.values()))} questions of {len(expected)} files, {len(differing)} differ")
    return int(bool(differing))


def digests(path: Path) -> dict[str, str]:
    """For each question that the file answers, how many answers there are and their digest, or why there are none."""
    first = json.loads(records.read_bytes(path).partition(b"\n")[0])
    if "sparsecert" not in first or first["sparsecert"] != "records":
        return {}  # a training log
    if kind_of(path) == ATTACK:
        lines = records.read_attack(path).lines
        return {"findings": digest((line.example, line.true, line.distance) for line in lines)}
    found = records.read(path)
    return {question: digest(known) for question, known in questions(found)}


def digest(known: Iterable[Answer]) -> str:
    try:
        lines = sorted(json.dumps(answer) for answer in known)
    except InputError as refusal:
        return f"refused: {type(refusal).__name__}"
    return f"{len(lines)} {hashlib.sha256(chr(10).join(lines).encode()).hexdigest()[:16]}"


def questions(found: Records) -> Iterator[tuple[str, Iterable[Answer]]]:
    if is_exact(found.header):
        units = from_config(found.header.run["scheme"]).units or 0  # an open scheme has none
        for rule in RULES:
            for against in AGAINST if units < PHOTOGRAPH else ("pixels",):
                yield f"{rule}, {against}", exact_answers(found, rule, against)
        return
    for alpha in (found.header.run["alpha"], SMALL_ALPHA):
        yield f"prediction, alpha {alpha}", predictions(found, alpha)
        if found.header.certifies:
            by_pairs = found.header.run.get("bound") == "pairwise"
            for bound in (*BOUNDS, "pairwise") if by_pairs else BOUNDS:
                yield f"{bound}, alpha {alpha}", sampled_answers(found, bound, alpha)


def exact_answers(found: Records, rule: str, against: str) -> Iterator[Answer]:
    scheme = from_config(found.header.run["scheme"])
    for line, certificate in exact_certificates(found, scheme, exact_procedure(found, scheme, rule, against)):
        yield line.example, certificate.label, certificate.radius


def sampled_answers(found: Records, bound: str, alpha: float) -> Iterator[Answer]:
    for line, certificate in recertify(found, read_run_info(found, alpha, bound)):
        yield line.example, certificate.label, certificate.radius


def predictions(found: Records, alpha: float) -> Iterator[Answer]:
    scheme = from_config(found.header.run["scheme"])
    for line, label in predicted_labels(found, scheme, alpha):
        yield line.example, label


if __name__ == "__main__":
    sys.exit(main())
