"""Tabular data: accuracy compared with the plain estimator, certified accuracy, and the success of a greedy attack.

The source of `docs/tables.md`. One line per data set and number of retained features; a random quarter of the rows is
held out, of which evenly spaced ones are certified and some of those attacked.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import sklearn
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.parallel import Parallel, delayed

from benchmarks.uci import SOURCES, UciTable, load_table
from sparsecert.results import Certifications
from sparsecert.tabular import AblatedClassifier, GreedyResult, greedy_attack
from sparsecert.tabular.tables import held_out

KEEPS = {"spambase": (5, 10, 20), "adult": (3, 5, 7), "credit-default": (3, 8), "phishing": (3, 10)}
RADII = range(6)
DONORS = 8
CERTIFIED = (
    "data set", "features", "k", "certificate", "most frequent class", "plain", "ablated (abstained)",
    *(f"certified {r}" for r in RADII), "seconds",
)  # fmt: skip
ATTACKED = "data set", "k", "defender", *(f"{r} perturbed" for r in RADII)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(SOURCES), choices=list(SOURCES))
    parser.add_argument("--rows", type=int, default=1_000, help="held-out rows to certify")
    parser.add_argument("--attacked", type=int, default=100, help="of those, rows to attack")
    parser.add_argument("--n0", type=int, default=100)
    parser.add_argument("--n", type=int, default=1_000)
    parser.add_argument("--alpha", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    print(
        f"{platform.machine()}, {options.jobs} processes, scikit-learn {sklearn.__version__}; "
        f"HistGradientBoostingClassifier, 8 ablated copies of a row, seed {options.seed}, {options.rows:,} held-out "
        f"rows certified, {options.attacked} of them attacked ({DONORS} donors); where masks are drawn: "
        f"n0 {options.n0}, n {options.n:,}, alpha {options.alpha}\n"
    )
    heading(CERTIFIED)
    attacked = [line for name in options.tables for line in study(load_table(name), options)]
    print(f"\nright under the greedy attack, of {options.attacked} rows\n")
    heading(ATTACKED)
    for line in attacked:
        print(line)


def heading(headers: Sequence[str]) -> None:
    print(row_of(headers))
    print("|" + " --- |" + " ---: |" * (len(headers) - 1), flush=True)


def row_of(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def study(table: UciTable, options: argparse.Namespace) -> list[str]:
    """Prints what is certified, and returns what the attack achieved."""
    outside = held_out(len(table.rows), 0.25, options.seed)
    rows, labels = table.rows[~outside], table.labels[~outside]
    held = np.flatnonzero(outside)
    held = held[np.linspace(0, len(held) - 1, min(options.rows, len(held))).astype(int)]
    x, y = table.rows[held], table.labels[held]
    few = np.linspace(0, len(held) - 1, min(options.attacked, len(held))).astype(int)
    plain = HistGradientBoostingClassifier(random_state=options.seed).fit(rows, labels)
    lines = [standing(table, "-", "plain", attack(plain, x[few], y[few], rows, labels, options))]
    for keep in KEEPS[table.name]:
        began = time.perf_counter()
        g = AblatedClassifier(
            HistGradientBoostingClassifier(), keep=keep, n0=options.n0, n=options.n, alpha=options.alpha,
            n_jobs=options.jobs, random_state=options.seed,
        ).fit(rows, labels)  # fmt: skip
        certificates = g.certify(x)
        answers = certificates.names if certificates.exact else g.predict_or_abstain(x)
        taken = time.perf_counter() - began
        alone = g.set_params(n_jobs=None)
        attacked = attack(alone, x[few], y[few], rows, labels, options)
        frequent = float(np.bincount(y).max() / len(y))
        print(certified(table, keep, [frequent, plain.score(x, y)], answers, certificates, y, taken), flush=True)
        lines.append(standing(table, str(keep), "ablated", attacked))
        check(attacked, certificates, few, y)
    return lines


def attack(classifier: Any, x: Any, y: Any, rows: Any, labels: Any, options: argparse.Namespace) -> list[GreedyResult]:
    """Each row with donors of the other classes."""
    generator = np.random.default_rng(options.seed)
    donors = [rows[generator.choice(np.flatnonzero(labels != label), DONORS, replace=False)] for label in y]
    found: list[GreedyResult] = Parallel(n_jobs=options.jobs)(
        delayed(greedy_attack)(classifier, row, label, given, most=RADII[-1], random_state=options.seed)
        for row, label, given in zip(x, y, donors, strict=True)
    )
    return found


def certified(
    table: UciTable, keep: int, others: list[float], answers: Any, certificates: Certifications, y: Any, taken: float
) -> str:
    abstained = float(np.mean([answer is None for answer in answers]))
    cells = [
        table.name, str(table.rows.shape[1]), str(keep), "exact" if certificates.exact else "two-sided",
        *(f"{share:.1%}" for share in others), f"{np.mean(answers == y):.1%} ({abstained:.1%})",
        *(f"{certificates.certified(y, radius).mean():.1%}" for radius in RADII), f"{taken:.0f}",
    ]  # fmt: skip
    return row_of(cells)


def standing(table: UciTable, keep: str, defender: str, attacked: Sequence[GreedyResult]) -> str:
    """For each radius, the share of rows that stay right: the attack finds no such change of that many features."""
    shares = [np.mean([one.fooled_at is None or one.fooled_at > radius for one in attacked]) for radius in RADII]
    return row_of([table.name, keep, defender, *(f"{share:.0%}" for share in shares)])


def check(attacked: Sequence[GreedyResult], certificates: Certifications, few: Any, y: Any) -> None:
    """Says where an attack succeeded within a certified radius: never where exact, with a small probability else."""
    for one, place in zip(attacked, few, strict=True):
        certified = certificates.certified(y, one.fooled_at)[place] if one.fooled_at is not None else False
        if certified:
            print(
                f"row {place}: fooled by {one.fooled_at} perturbed features, certified for {certificates.radii[place]}"
            )


if __name__ == "__main__":
    main()
