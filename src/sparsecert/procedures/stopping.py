"""The stopping rule of sequential sampling. No torch here, and nothing that a certificate rests on.

The certificate (`certificates.anytime`) is valid at any stopping time, so the rules here may guess, round and be wrong:
that costs samples or radius, never soundness. Only the answer "no" is decided here, with a margin that exceeds any
floating-point error.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sparsecert.bounds import corrected_alpha
from sparsecert.bounds.betting import STAKES, needed
from sparsecert.certificates.anytime import stakes_of
from sparsecert.counts import Bool, Counts, Float64, Int64
from sparsecert.schemes import DELTA_BITS, Scheme

if TYPE_CHECKING:
    from sparsecert.procedures.sequential import Sequential

FIRST_STAGE, GROWTH = 96, 1.1  # votes in the first stage, and their growth per stage
FIRST_SELECTION, CLEAR = 32, 3.0  # selection votes in the first stage; standard deviations of a clear lead
RADII_AHEAD, HORIZONS = 3, 6  # how far the rule looks ahead, in radii and in stopping times
Pair = tuple[Int64, Int64]  # for each input, votes for its class and for a rival (see `certificates.Compared`)
ROUNDING = 1e-14  # per vote: bounds the error of the log wealth behind a "no", whose factors are 1/2 or more


def selection_stages(most: int) -> list[int]:
    """The number of selection votes at each stage: twice as many as before."""
    stages = [min(FIRST_SELECTION, most)]
    while stages[-1] < most:
        stages.append(min(2 * stages[-1], most))
    return stages


def clear(selection: Counts, rows: Int64) -> Bool:
    """The inputs for which more selection votes are unlikely to change the class."""
    if selection.above is not None:
        leader = selection.above[rows].min(axis=1)
        rival = selection.total[rows] - leader
    else:
        first_two = np.sort(selection.votes[rows], axis=1)[:, -2:]
        leader, rival = first_two[:, 1], first_two[:, 0] + selection.invalid[rows]
    result: Bool = (leader > rival) & ((leader - rival) ** 2 >= CLEAR**2 * (leader + rival))
    return result


def estimation_stages(most: int) -> list[int]:
    """The number of estimation votes at each stage: a tenth more than before."""
    stages = [min(FIRST_STAGE, most)]
    while stages[-1] < most:
        stages.append(min(int(np.ceil(GROWTH * stages[-1])), most))
    return stages


class StoppingRule:
    """Decides after each stage which inputs of a group need more votes.

    `best` is the largest radius of each so far, in floating point, -1 for none; `at` the number of votes at that stage.
    """

    def __init__(self, sampling: Sequential, selection: Counts, scheme: Scheme, alpha: float | Fraction) -> None:
        level = corrected_alpha(alpha, scheme, sampling.most)
        self.sampling, self.enough = sampling, needed(level)
        stakes = stakes_of(selection, sampling.method.name, sampling.most, level)
        self.stakes = np.array(stakes, dtype=np.float64) / STAKES
        self.gaps = np.array([2 * delta / (1 << DELTA_BITS) for delta in scheme.deltas[:-1]])
        self.best: Int64 = np.full(len(selection), -1, dtype=np.int64)
        self.at: Int64 = np.zeros(len(selection), dtype=np.int64)
        self.refuted: Bool = np.zeros(len(selection), dtype=np.bool_)

    def update(self, rows: Int64, strongest: Pair, fixed: Pair, total: int) -> Bool:
        """Which of the inputs `rows` need more votes, given their votes among `total`.

        `strongest`: for the selected class and for the strongest rival; `fixed`: the same for a rival that the
        selection fixed, so that a small lead over it can be tested.
        """
        leader, rival = strongest
        found = self._radii(rows, leader, rival, total)
        improved = (found > self.best[rows]) | (self.at[rows] == 0) | ((self.best[rows] < 0) & (found < 0))
        self.best[rows[improved]], self.at[rows[improved]] = found[improved], total
        wanted = self.best[rows] + 1 if self.sampling.at_least is None else np.full(len(rows), self.sampling.at_least)
        reached = (self.best[rows] >= wanted) | (wanted >= len(self.gaps))
        asked = np.minimum(wanted, len(self.gaps) - 1)
        self.refuted[rows] |= ~reached & self._refutes(rows, fixed, total, asked)
        going = ~reached & ~self.refuted[rows] & (total < self.sampling.most)
        if self.sampling.at_least is None and going.any():
            going[going] = self._pays(rows[going], leader[going], rival[going], total)
        return going

    def answer(self, row: int, radius: int | None) -> str | None:
        """The answer to `at_least`, given the certified radius; None without `at_least`.

        "No" too where so few units have no such radius: with delta >= 1/2 no lead is large enough.
        """
        asked = self.sampling.at_least
        if asked is None:
            return None
        if radius is not None and radius >= asked:
            return "yes"
        return "no" if self.refuted[row] or asked >= len(self.gaps) else "undecided"

    def _radii(self, rows: Int64, leader: Int64, rival: Int64, total: int) -> Int64:
        """The largest radius at which the wealth reaches 1 / alpha, by bisection; -1 for none."""
        low, high = np.full(len(rows), -1), np.full(len(rows), len(self.gaps))
        while (high - low > 1).any():
            middle = (low + high) // 2
            gap = self.gaps[np.clip(middle, 0, len(self.gaps) - 1)]
            proved = _log_wealth(self.stakes[rows], gap, leader, rival, total) >= self.enough
            proved &= high - low > 1
            low = np.where(proved, middle, low)
            high = np.where(proved | (high - low <= 1), high, middle)
        return low

    def _refutes(self, rows: Int64, fixed: Pair, total: int, radius: Int64) -> Bool:
        """Whether the opposite bet, that the lead over one fixed class is below the gap, has reached 1 / alpha."""
        leader, second = fixed
        wealth = _log_wealth(self.stakes[rows], -self.gaps[radius], second, leader, total)
        return wealth >= self.enough + ROUNDING * (total + 100)

    def _pays(self, rows: Int64, leader: Int64, rival: Int64, total: int) -> Bool:
        """Whether some later stopping time is expected to gain enough radius for its votes.

        The log wealth after more votes is taken to be normal, with drift and variance estimated from the votes so far;
        the variance is widened for the error of these estimates.
        """
        seen = np.stack((leader, rival, total - leader - rival)) + 0.5
        shares = seen / seen.sum(axis=0)
        radii = self.best[rows][:, None] + np.arange(1, RADII_AHEAD + 1)
        there = radii < len(self.gaps)
        gap, stake = self.gaps[np.minimum(radii, len(self.gaps) - 1)], self.stakes[rows][:, None]
        logs = _factors(stake, gap)
        drift = sum(share[:, None] * log for share, log in zip(shares, logs, strict=True))
        variance = sum(share[:, None] * (log - drift) ** 2 for share, log in zip(shares, logs, strict=True))
        wealth = _log_wealth(stake, gap, leader[:, None], rival[:, None], total)
        price, pays = self.sampling.tolerance / 1_000, np.zeros(len(rows), dtype=np.bool_)
        for moment in np.geomspace(total * GROWTH, self.sampling.most, HORIZONS):
            more = max(moment, total + 1) - total
            spread = np.sqrt(variance * more * (total + more) / total)
            chance = _normal((wealth + more * drift - self.enough) / np.maximum(spread, 1e-12))
            pays |= np.where(there, chance, 0.0).sum(axis=1) > price * more
        return pays


def _factors(stake: Float64, gap: Float64) -> tuple[Float64, Float64, Float64]:
    """The logarithms of the factors by which a vote for leader, rival or another class multiplies the wealth."""
    return np.log1p(stake * (1 - gap)), np.log1p(-stake * (1 + gap)), np.log1p(-stake * gap)


def _log_wealth(stake: Float64, gap: Float64, leader: Int64, rival: Int64, total: int) -> Float64:
    won, lost, neither = _factors(stake, gap)
    result: Float64 = leader * won + rival * lost + (total - leader - rival) * neither
    return result


def _normal(z: Float64) -> Float64:
    from scipy.special import ndtr

    result: Float64 = ndtr(z)
    return result
