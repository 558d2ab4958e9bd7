"""A lower bound on how often a copy ranks the chosen class above each other one."""

from __future__ import annotations

from fractions import Fraction

from sparsecert.bounds.binomial import tail_at_most
from sparsecert.bounds.clopper_pearson import complement, lower_bound
from sparsecert.bounds.interval import Interval
from sparsecert.counts import Tally
from sparsecert.errors import InputError

NOT_RANKED = (
    "these votes do not say how often a copy ranks the class above each other one; certify again with bound pairwise"
)


def pairwise(selection: Tally, estimation: Tally, alpha: Fraction) -> Interval:
    """q_j >= p_lower for every class j != A, together, with probability at least 1 - alpha, q_j being the probability
    that a copy ranks A above j; so j is ranked above A with probability at most p_upper = 1 - p_lower.

    All of alpha goes to one bound, for any number of classes. A is chosen by the selection votes, independent of the
    estimation masks: which class they choose, and how, does not matter. Let j* = argmin_{j != A} q_j be the true worst
    rival: unknown, but one fixed class, not a choice made by the data. The number n_j of copies that rank A above j is
    binomial with probability q_j, so LCB(n_{j*}) <= q_{j*} fails with probability at most alpha. The Clopper-Pearson
    bound grows with the count, and n_{j*} is at least the smallest count, so LCB(min_j n_j) <= LCB(n_{j*}) <= q_{j*} <=
    q_j for all j. An invalid copy ranks A above nobody.
    A copy whose first choice is A ranks it above every class, so min_j n_j >= n_A: for the same A p_lower is never
    below that of Corollary 1.
    """
    p_lower = lower_bound(smallest_count(estimation), estimation.total, alpha)
    return Interval(selection.leader(), p_lower, complement(p_lower))


def predicted_by_pairs(selection: Tally, tested: Tally, alpha: Fraction) -> int | None:
    """g(x), the class that beats every other one, or None to abstain; a class other than g(x) is returned with
    probability at most alpha.

    A is chosen by the selection votes. If A is not g(x), some class has q_j <= 1/2 (see `pairwise`); let j be the first
    such class. Given A it is fixed, and the number n_j of the tested copies that rank A above j is binomial with a
    probability of at most 1/2. A is returned if P(Binomial(n, 1/2) >= min_j n_j) <= alpha; then P(Binomial(n, 1/2) >=
    n_j) <= alpha, since n_j is at least the smallest count, and that happens with probability at most alpha.

    Choosing and testing on the same copies would be unsound: where two classes are tied, q = 1/2, each of them passes
    the test with probability near alpha, so that one is returned with probability near 2 alpha.
    """
    proved = tail_at_most(smallest_count(tested), tested.total, Fraction(1, 2), alpha)
    return selection.leader() if proved else None


def smallest_count(votes: Tally) -> int:
    """The smallest number of copies that rank the chosen class above another one."""
    if votes.above is None:
        raise InputError(NOT_RANKED)
    return min(votes.above)
