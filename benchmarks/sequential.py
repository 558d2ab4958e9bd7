"""The savings of sequential sampling, on simulated votes: samples per image and certified accuracy, against a fixed n.

Votes are drawn from the class shares in a records file: no model is needed. Two methods, at the same alpha and budget:

  wealth         the package's betting e-process (`certificates.anytime`), valid at any stopping time;
  spent alpha    alpha spending: Clopper-Pearson bounds at stages (looks) fixed in advance, half of alpha for the last
                 one, the rest for the others in proportion to their votes.

Both take the class that the package selects, keep the largest radius certified, and continue while some later stage is
expected to gain enough radius for its votes: at the same tolerance, and then, since their estimates differ, at the one
that makes the second method take as many samples as the first. Prints, for each bound, the mean number of samples, the
median certified robustness and the certified accuracy by rho, with the largest difference from a fixed number of
samples in points; then how the question "is the radius at least so much?" is answered.

The pairwise bound needs records of `certify --bound pairwise` (see `benchmarks.simulated_votes`).
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.special import betaincinv, ndtr
from scipy.stats import norm

from benchmarks.simulated_votes import Floats, Simulation
from sparsecert import records
from sparsecert.bounds import corrected_alpha
from sparsecert.certificates import CERTIFICATES
from sparsecert.counts import Counts, Int64
from sparsecert.procedures import Fixed, Sequential
from sparsecert.procedures.sequential import strongest_rivals
from sparsecert.reports.medians import certified_accuracy, median_certified_robustness
from sparsecert.results import Certifications

RECORDS = Path("results/mnist/k45/certify-pairwise.jsonl.xz")
N0, N, ALPHA = 1_000, 10_000, 0.05
FIRST, GROWTH = 128, 1.5  # votes in the first stage of alpha spending, and their growth
LAST_STAGE = 0.5  # its part of alpha


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="?", type=Path, default=RECORDS, help=f"default: {RECORDS}")
    parser.add_argument("--alpha", type=float, default=ALPHA)
    parser.add_argument("--max-samples", type=int, help="default: 17000, or 6000 for the question")
    parser.add_argument("--tolerance", type=float, default=0.01, help="radius per 1,000 samples")
    parser.add_argument("--at-least", type=int, default=8, metavar="R", help="radius that the question asks for")
    parser.add_argument("--repeats", type=int, default=3, help="simulations of the fixed number, to be averaged")
    parser.add_argument("--limit", type=int, help="only so many inputs")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    simulation = Simulation.of(options.records, options.alpha, options.seed, options.limit)
    print(
        f"{options.records}: {len(simulation.true):,} inputs, {simulation.scheme}, their shares taken for the truth; "
        f"alpha {options.alpha}, seed {options.seed}",
        flush=True,
    )
    settled = Sequential(max_samples=options.max_samples, n0=N0, tolerance=options.tolerance)
    asking = Sequential(max_samples=options.max_samples, n0=N0, at_least=options.at_least)
    for bound, method in CERTIFICATES.items():
        if method.by_pairs and simulation.behind is None:
            print(f"\n{bound}: these copies did not rank the classes; name records of certify --bound {bound}")
            continue
        compare(simulation, replace(settled, bound=bound), options.repeats)
        ask(simulation, replace(asking, bound=bound))


@dataclass(frozen=True)
class Outcome:
    """For each input the class, the radius (-1: none), the samples taken, and the answer where one was asked."""

    selected: Int64
    radii: Int64
    samples: Int64
    answers: tuple[str | None, ...]


def by_alpha_spending(simulation: Simulation, sampling: Sequential, selection: Counts | None) -> Outcome:
    """Clopper-Pearson bounds at every stage, each at its part of alpha."""
    assert selection is not None
    label, second = selection.labels, strongest_rivals(selection)
    method, gaps, stages = sampling.method, simulation.gaps, stage_sizes(sampling.most)
    assert method.compared is not None
    two_sided = method.name == "two-sided"
    levels = alpha_parts(stages) * float(corrected_alpha(simulation.alpha, simulation.scheme, sampling.most))
    voter, rows = simulation.voter(2), np.arange(len(label))
    none, taken = np.zeros((len(label), voter.classes), dtype=np.int64), np.zeros(len(label), dtype=np.int64)
    votes = Counts(none.copy(), taken.copy(), none.copy() if method.by_pairs else None)
    best, refuted = np.full(len(label), -1), np.zeros(len(label), dtype=np.bool_)
    for stage, total in enumerate(stages):
        more = total - (stages[stage - 1] if stage else 0)
        for known, fresh in zip(votes.arrays, voter.votes(rows, more, method.by_pairs)().arrays, strict=True):
            known[rows] += fresh
        taken[rows] = total
        leader, rival = method.compared(votes.take(rows), label[rows])
        lead = lead_proved(leader, rival, total, levels[stage], two_sided)
        best[rows] = np.maximum(best[rows], np.searchsorted(gaps, lead, side="left") - 1)
        if sampling.at_least is None:
            gained = gain(leader, rival, stage, stages, levels, best[rows], gaps, two_sided)
            going = (best[rows] < len(gaps) - 2) & (gained > sampling.tolerance / 1e3)
        else:
            own, runner_up = method.compared(votes.take(rows), label[rows], second[rows])  # a fixed class
            most = -lead_proved(runner_up, own, total, levels[stage], two_sided)
            refuted[rows] = (best[rows] < sampling.at_least) & (most <= gaps[sampling.at_least])
            going = (best[rows] < sampling.at_least) & ~refuted[rows]
        rows = rows[going]
        if not len(rows):
            break
    answers = tuple(
        None if sampling.at_least is None else "yes" if radius >= sampling.at_least else "no" if no else "undecided"
        for radius, no in zip(best.tolist(), refuted.tolist(), strict=True)
    )
    return Outcome(label, best, selection.votes.sum(axis=1) + selection.invalid + taken, answers)


def stage_sizes(most: int) -> list[int]:
    """Looks that grow geometrically and end with `most`."""
    stages = [most]
    while stages[0] / GROWTH >= FIRST:
        stages.insert(0, round(stages[0] / GROWTH))
    return stages


def alpha_parts(stages: Sequence[int]) -> Floats:
    """The part of alpha spent at each stage."""
    votes = np.array(stages, dtype=np.float64)
    before = (1 - LAST_STAGE) * votes[:-1] / votes[:-1].sum() if len(stages) > 1 else votes[:-1]
    return np.append(before, 1 - before.sum())


def gain(
    leader: Int64,
    rival: Int64,
    stage: int,
    stages: Sequence[int],
    levels: Floats,
    best: Int64,
    gaps: Floats,
    two_sided: bool,
) -> Floats:
    """The most radius a vote that some later stage is expected to gain.

    The lead at a later stage is taken to be normal around the present one, the width of its bound to be the normal
    approximation's with the first correction for skewness.
    """
    n, result = stages[stage], np.zeros(len(leader))
    p, q = (leader + 0.5) / (n + 1), (rival + 0.5) / (n + 1)
    deviation = np.sqrt(np.maximum(p + q - (p - q) ** 2, 1e-6))
    ahead = np.arange(len(gaps) - 1)[None, :] > best[:, None]
    for later, level in zip(stages[stage + 1 :], levels[stage + 1 :], strict=True):
        z = float(norm.isf(level / 2 if two_sided else level))
        skew = (z * z - 1) / later * (np.abs(1 - 2 * p) + np.abs(1 - 2 * q)) / 6
        width = z * (np.sqrt(p * (1 - p)) + np.sqrt(q * (1 - q))) / np.sqrt(later) + skew
        spread = deviation * np.sqrt(1 / n - 1 / later)
        generator = ndtr(((p - q - width)[:, None] - gaps[None, :-1]) / spread[:, None])
        result = np.maximum(result, np.where(ahead, generator, 0.0).sum(axis=1) / (later - n))
    return result


def lead_proved(leader: Int64, rival: Int64, total: int, level: float, two_sided: bool) -> Floats:
    """A lower bound on the lead, too large with probability at most `level`."""
    if not two_sided:
        return 2 * lower(leader, total, level) - 1
    return lower(leader, total, level / 2) + lower(total - rival, total, level / 2) - 1


def lower(votes: Int64, total: int, level: float) -> Floats:
    """Clopper-Pearson, in floating point."""
    result: Floats = np.where(votes > 0, betaincinv(np.maximum(votes, 1), total - votes + 1, level), 0.0)
    return result


def compare(simulation: Simulation, sampling: Sequential, repeats: int) -> None:
    """Samples, median and certified accuracy of the two methods beside the fixed number."""
    began = time.perf_counter()
    fixed = [simulation.certify(Fixed(N0, N, sampling.bound), 10 + repeat) for repeat in range(repeats)]
    curves = [curve(simulation, found) for found in fixed]
    base = np.mean(curves, axis=0)
    noise = max(float(np.abs(single - base).max()) for single in curves)
    budget = f"at most {sampling.max_samples:,} samples, tolerance {sampling.tolerance} per 1,000"
    print(f"\n{sampling.bound}, {budget}, {len(stage_sizes(sampling.most))} looks where alpha is spent", flush=True)
    print(f"{'':<36}{'samples':>8}{'median':>8}  certified accuracy at rho = 0, 1, ...")
    row(f"fixed {N0:,} + {N:,}, mean of {repeats}", simulation, fixed[0], base)
    betting = simulation.certify(sampling)
    alike = with_samples(simulation, sampling, betting)
    for name, found in (
        ("wealth", betting),
        ("spent alpha, the same tolerance", by_alpha_spending(simulation, sampling, betting.selection)),
        (f"spent alpha, tolerance {alike.tolerance:.4f}", by_alpha_spending(simulation, alike, betting.selection)),
    ):
        points = curve(simulation, found) - base
        at = int(np.abs(points).argmax())
        row(name, simulation, found, base + points)
        largest = f"largest difference {points[at]:+.2f} points at rho = {at}"
        print(f"{'':<36}{largest}, mean radius {points.sum() / 100:+.3f}", flush=True)
    print(f"one fixed simulation is up to {noise:.2f} points from their mean; {time.perf_counter() - began:.0f} s")


def with_samples(simulation: Simulation, sampling: Sequential, betting: Certifications) -> Sequential:
    """The tolerance at which spending takes as many samples as betting on average, by bisection."""
    low, high = math.log(1e-4), math.log(10.0)
    for _ in range(12):
        middle = replace(sampling, tolerance=math.exp((low + high) / 2))
        more = by_alpha_spending(simulation, middle, betting.selection).samples.mean() > betting.samples.mean()
        low, high = ((low + high) / 2, high) if more else (low, (low + high) / 2)
    return replace(sampling, tolerance=math.exp((low + high) / 2))


def ask(simulation: Simulation, sampling: Sequential) -> None:
    """Samples and answers of the two methods to the question."""
    began, asked, budget = time.perf_counter(), sampling.at_least or 0, sampling.max_samples
    truly = float((simulation.lead(sampling.method) > simulation.gaps[asked]).mean())
    print(f"\n{sampling.bound}, is the radius at least {asked}? at most {budget:,} samples", flush=True)
    print(f"{'':<36}{'samples':>8}{'yes':>9}{'no':>9}{'undecided':>11}")
    print(f"{'by the shares themselves':<36}{'':>8}{truly:>9.2%}{1 - truly:>9.2%}")
    betting = simulation.certify(sampling)
    spending = by_alpha_spending(simulation, sampling, betting.selection)
    for name, found in (("wealth", betting), (f"spent alpha, {len(stage_sizes(sampling.most))} looks", spending)):
        yes, no, undecided = (found.answers.count(answer) / len(found.answers) for answer in records.ANSWERS)
        print(f"{name:<36}{found.samples.mean():>8,.0f}{yes:>9.2%}{no:>9.2%}{undecided:>11.2%}", flush=True)
    print(f"{time.perf_counter() - began:.0f} s")


def robustness(simulation: Simulation, found: Certifications | Outcome) -> list[int | None]:
    right = (found.selected == simulation.true) & (found.radii >= 0)
    return [radius if ok else None for radius, ok in zip(found.radii.tolist(), right.tolist(), strict=True)]


def curve(simulation: Simulation, found: Certifications | Outcome) -> Floats:
    """Certified accuracy in points, for every radius of the scheme."""
    shares = certified_accuracy(robustness(simulation, found))
    return 100 * np.pad(np.array(shares), (0, len(simulation.gaps) - 1 - len(shares)))


def row(name: str, simulation: Simulation, found: Certifications | Outcome, points: Floats) -> None:
    """Prints one line of the table."""
    median = median_certified_robustness(robustness(simulation, found))
    shown = " ".join(f"{share:5.2f}" for share in points)
    print(f"{name:<36}{found.samples.mean():>8,.0f}{'N/A' if median is None else median:>8}  {shown}", flush=True)


if __name__ == "__main__":
    main()
