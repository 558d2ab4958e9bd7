"""Anytime-valid versions of Corollaries 1 and 2 and of the pairwise theorem: certificates at any stopping time."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from functools import lru_cache

from sparsecert.bounds import corrected_alpha
from sparsecert.bounds.betting import Growth, best_stake, growth, log2_below, reaches
from sparsecert.bounds.interval import Lead
from sparsecert.certificates.certificate import Certificate
from sparsecert.counts import Counts, Int64, Tally
from sparsecert.registry import CERTIFICATES
from sparsecert.schemes import DELTA_BITS, Scheme

HORIZON = 5  # stakes are optimised for most / HORIZON votes


def certify_anytime(
    selection: Tally, votes: Tally, scheme: Scheme, alpha: float | Fraction, bound: str, most: int
) -> Certificate:
    """With probability at least 1 - alpha, g(x') = label for every x' at most `radius` units away, whatever rule
    stopped the sampling at `votes`, within the first `most` votes.

    Let A be the leader of the selection votes, B = argmax_{j != A} p_j the true runner-up, and r* the least radius that
    Corollary 2 does not give, p_A - p_B <= 2 delta(r*). The certificate is wrong only if it says r >= r*. Then the
    wealth (see `bounds.betting`) against the largest rival count with gap 2 delta(r) reached 1 / alpha. Wealth falls as
    votes go from the others to the rival, and n_B is at most the largest rival count (invalid votes included); it falls
    as the gap grows, and delta(r) >= delta(r*). So the wealth against B with gap 2 delta(r*) reached 1 / alpha, which
    has probability at most alpha over all times together. B and r* are fixed, though unknown, so there is no union
    bound over classes, radii or stages. The stake depends on the selection votes alone. One-sided (Corollary 1): the
    rival is everything that is not A, p_A - (1 - p_A) <= 2 delta(r*).

    Pairwise: B = argmin_{j != A} q_j, q_j being the probability that a copy ranks A above j, and q_B - (1 - q_B) <= 2
    delta(r*). The bet is on the smallest count min_j n_j, against all other copies. With one stake for all rivals the
    wealth falls as the count falls, and n_B is at least the smallest count, at every time. So if the wealth on the
    smallest count with gap 2 delta(r) reached 1 / alpha, so had that on n_B, with gap 2 delta(r*).
    """
    (found,) = certify_all_anytime(Counts.of(selection), Counts.of(votes), scheme, alpha, bound, most)
    return found


def certify_all_anytime(
    selection: Counts, votes: Counts, scheme: Scheme, alpha: float | Fraction, bound: str, most: int
) -> tuple[Certificate, ...]:
    """`certify_anytime` for each input of a batch."""
    labels, level = selection.labels, corrected_alpha(alpha, scheme, most)
    stakes, split = stakes_of(selection, bound, most, level), split_votes(votes, labels, bound)
    each = zip(labels.tolist(), stakes, split, strict=True)
    return tuple(_certify(label, stake, of, scheme, -log2_below(level)) for label, stake, of in each)


def _certify(label: int, stake: int, votes: tuple[int, int, int], scheme: Scheme, enough: int) -> Certificate:
    def falls_short(delta: int) -> bool:
        return not reaches(*votes, _growth_at(delta, stake), enough)

    proved = bisect_left(scheme.deltas[:-1], True, key=falls_short)  # delta is 1/2 or more at the last
    if not proved:
        return Certificate(Lead(label, Fraction(-1)), None)
    return Certificate(Lead(label, gap_at(scheme, proved - 1)), proved - 1)


def gap_at(scheme: Scheme, rho: int) -> Fraction:
    """2 delta(rho), rounded up: a larger lead survives any perturbation of rho units."""
    return Fraction(2 * scheme.deltas[rho], 1 << DELTA_BITS)


@lru_cache(maxsize=1 << 16)
def _growth_at(delta: int, stake: int) -> Growth:
    """`growth` for the gap 2 delta, given as an entry of `scheme.deltas`."""
    return growth(stake, Fraction(2 * delta, 1 << DELTA_BITS))


def split_votes(votes: Counts, labels: Int64, bound: str) -> list[tuple[int, int, int]]:
    """For each input the votes for its label, for the rival that it is compared with, and for neither."""
    leaders, rivals = CERTIFICATES[bound].compared_anytime()(votes, labels)
    return list(zip(leaders.tolist(), rivals.tolist(), (votes.total - leaders - rivals).tolist(), strict=True))


def stakes_of(selection: Counts, bound: str, most: int, alpha: Fraction) -> list[int]:
    """The stake for each input, from the variance of its selection votes.

    Where these were not counted against each class (too many classes), the stake is that of Corollary 1. Any stake that
    the selection fixes is sound.
    """
    if CERTIFICATES[bound].by_pairs and selection.above is None:
        bound = "one-sided"
    stakes = []
    for leader, rival, others in split_votes(selection, selection.labels, bound):
        total = leader + rival + others + 2
        variance = ((leader + rival + 2) * total - (leader - rival) ** 2) / total**2
        stakes.append(best_stake(variance, max(1, most // HORIZON), alpha))
    return stakes
