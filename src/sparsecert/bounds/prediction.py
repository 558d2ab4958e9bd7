"""Prediction with abstention: an exact test of the top class against the runner-up."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from sparsecert.bounds.binomial import tail_at_most
from sparsecert.counts import Tally


def predicted(tally: Tally, alpha: Fraction) -> int | None:
    """The class g(x), or None to abstain; a class other than g(x) is returned with probability at most alpha.

    PREDICT of Cohen, Rosenfeld & Kolter (2019), as the paper uses it: the top count n_A against the runner-up's n_B by
    the two-sided binomial test of n_A successes in n_A + n_B trials at 1/2. Choosing the two classes by the
    counts is covered by Hung & Fithian, "Rank verification for exponential families" (2019). Invalid votes
    count for the runner-up; if they overtake the leader, it abstains.
    """
    label = tally.leader()
    return label if _beats(tally.votes[label], tally.rival(label), alpha) else None


@lru_cache(maxsize=1 << 16)
def _beats(leader: int, rival: int, alpha: Fraction) -> bool:
    """Whether the two-sided test rejects a tie in favour of the leader: 2 P(Binomial(m, 1/2) >= leader) <= alpha.

    A leader with no more votes than the rival never passes: its tail is 1/2 or more.
    """
    return tail_at_most(leader, leader + rival, Fraction(1, 2), alpha / 2)
