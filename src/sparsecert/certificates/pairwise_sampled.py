"""Pairwise comparison by random masks: the class that beats every other one. For fixed masks, see `pairwise`.

Nothing published was found that certifies this for ablation or smoothing.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sparsecert.bounds.interval import Interval
from sparsecert.bounds.pairwise import NOT_RANKED, pairwise
from sparsecert.certificates.certificate import Method, largest_rho
from sparsecert.counts import Counts, Int64
from sparsecert.errors import InputError
from sparsecert.registry import CERTIFICATES
from sparsecert.schemes import Scheme


def beats_all(interval: Interval, scheme: Scheme) -> int | None:
    """If p_lower - delta(rho) > 1/2 then g(x') = A whenever x' differs from x in at most rho units.

    Each copy ranks the classes by its scores: of equal scores the lower-numbered class comes first, and a copy with a
    score that is not finite ranks no class above another one. Let q_j(x) be the probability that a copy ranks A above
    j. A beats j if q_j > 1/2, and g(x) is the class that beats every other one. There is at most one: q_j > 1/2 means
    that j is ranked above A with probability below 1/2. Where there is none, as in a cycle, g has no answer.

    Whether a copy ranks A above j depends on the copy alone, so by the argument of Theorem 1 q_j changes by at most
    delta(rho), and q_j(x') >= q_j(x) - delta >= p_lower - delta > 1/2 for every j: A beats every class at x' too.
    """
    return largest_rho(scheme, Fraction(interval.p_lower) - Fraction(1, 2))


def with_every_class(votes: Counts, labels: Int64, rivals: Int64 | None = None) -> tuple[Int64, Int64]:
    """The copies that rank the label above the class that does best against it, or that is named; and all others."""
    if votes.above is None:
        raise InputError(NOT_RANKED)
    own: Int64 = votes.above.min(axis=1) if rivals is None else votes.above[np.arange(len(votes)), rivals]
    return own, votes.total - own


CERTIFICATES.register("pairwise")(
    Method("pairwise", pairwise, beats_all, "pairwise", by_pairs=True, compared=with_every_class)
)
