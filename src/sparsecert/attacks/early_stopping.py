"""Deciding a query from the first votes, where these predict the outcome of all."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy.special import bdtr, bdtrc

from sparsecert.counts import Bool, Int64


def votes_needed(most: int, level: Fraction) -> Int64:
    """int64[most + 1]: of m votes for two classes, how many the leader needs to be answered; m + 1 where m are too few.

    The leader is answered (see `bounds.predicted`) where 2 P(Binomial(m, 1/2) >= leader) <= level. One more vote raises
    the number by 0 or 1: P(Binomial(m + 1, 1/2) >= a) lies between P(Binomial(m, 1/2) >= a) and the same with a - 1.
    """
    needs = np.empty(most + 1, dtype=np.int64)
    need, half = 1, float(level) / 2
    for votes in range(most + 1):
        need += bool(need <= votes and bdtrc(need - 1, votes, 0.5) > half)
        need = votes + 1 if need > votes else need
        needs[votes] = need
    return needs


def early_decision(
    own: Int64, rival: Int64, copies: int, needs: Int64, error: float, rivals: int = 1
) -> tuple[Bool, Bool]:
    """(decided, answered): whether the first copies decide if all n will answer a class, and if so, whether they do.

    own, rival: its votes and those of its strongest rival among the first `copies` of n = len(needs) - 1. Extrapolated
    to n copies, the class needs a certain share of the two classes' votes to be answered. Two exact binomial tests of
    the hypothesis that its share is just that: the class is answered where so many votes, or more, have probability at
    most `error`; it is not where so few, or fewer, have at most error / rivals. At n copies everything is decided.

    Which of several `rivals` is the strongest so far may be chance, hence the union bound over them. The upper test
    needs none: a class that beats the strongest rival so far also beats the one that is strongest in the end.
    """
    n, both = len(needs) - 1, own + rival
    if copies == n:
        return np.ones(len(own), dtype=bool), own >= needs[both]
    total = np.minimum(both * n // copies, n)
    threshold = np.minimum((needs[total] - 0.5) / np.maximum(total, 1), 1.0)
    answered = (own > 0) & (bdtrc(own - 1, both, threshold) <= error)
    rejected = bdtr(own, both, threshold) <= error / rivals
    return answered | rejected, answered
