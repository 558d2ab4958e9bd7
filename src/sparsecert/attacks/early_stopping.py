"""When some of the votes are enough to know what all of them will say."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, bdtrc

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]


def least_leads(most: int, level: Fraction) -> Int64:
    """int64[most + 1]: of m votes for two classes, how many the leader needs to be answered; m + 1 where none suffice.

    It is answered (see `bounds.predicted`) where 2 P(Binomial(m, 1/2) >= leader) <= level. One more vote raises that
    number by 0 or 1: P(Binomial(m + 1, 1/2) >= a) lies between P(Binomial(m, 1/2) >= a) and the same with a - 1.
    """
    needs = np.empty(most + 1, dtype=np.int64)
    need, half = 1, float(level) / 2
    for votes in range(most + 1):
        need += bool(need <= votes and bdtrc(need - 1, votes, 0.5) > half)
        need = votes + 1 if need > votes else need
        needs[votes] = need
    return needs


def settled(own: Int64, rival: Int64, copies: int, needs: Int64, error: float, rivals: int = 1) -> tuple[Bool, Bool]:
    """Whether it is settled what all copies will say of a class, and if so, whether they answer it.

    own, rival: its votes and those of its strongest rival among the first `copies` of n = len(needs) - 1. Of as many
    votes for the two as n copies would give at this pace, the class needs a certain share to be answered. That its
    share is at the brink of that is tested exactly: settled is where a binomial with that share gives so many votes, or
    more, with probability at most `error`, or so few, or fewer, with at most error / rivals. At n copies nothing is
    left open.

    The strongest of several `rivals` so far may owe that to chance, each as often: hence their number. That the class
    beats even that one needs no more than `error`, as it then beats the one who is the strongest in the end.
    """
    n, both = len(needs) - 1, own + rival
    if copies == n:
        return np.ones(len(own), dtype=bool), own >= needs[both]
    ahead = np.minimum(both * n // copies, n)
    brink = (needs[ahead] - 0.5) / np.maximum(ahead, 1)
    brink = np.minimum(brink, 1.0)
    answered = (own > 0) & (bdtrc(own - 1, both, brink) <= error)
    refused = bdtr(own, both, brink) <= error / rivals
    return answered | refused, answered
