"""How often the model gives each class, bounded at every moment while the votes come in. No torch here.

For one class with probability p, let s of the first n votes be for it. The mixture M_n(p), the integral of
t^s (1 - t)^(n - s) over t from 0 to 1 divided by p^s (1 - p)^(n - s), is never negative, starts at 1 and is a
martingale, so the probability that it *ever* reaches 1 / alpha is at most alpha (Ville, 1939; the uniform mixture is
Robbins's, "Statistical methods related to the law of the iterated logarithm", 1970). The p that it has not ruled out
are an interval around s / n.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sparsecert.bounds import corrected_alpha
from sparsecert.counts import Tally
from sparsecert.schemes import Scheme

Floats = npt.NDArray[np.float64]

STEPS = 50  # of bisection
ROUNDING = 1e-12  # per vote, more than the logarithms are off by


def bounds_at_every_moment(
    votes: Tally, scheme: Scheme, alpha: float | Fraction, most: int
) -> tuple[tuple[float, float], ...]:
    """For each class a lower and an upper bound on its probability.

    With probability at least 1 - alpha all of them hold, for all classes and after each of the first `most` votes.
    """
    level = corrected_alpha(alpha, scheme, most) / len(votes.votes)
    low, high = mixture_interval(np.array(votes.votes, dtype=np.float64), votes.total, float(level))
    return tuple(zip(low.tolist(), high.tolist(), strict=True))


def mixture_interval(successes: Floats, trials: int, alpha: float) -> tuple[Floats, Floats]:
    """The least and the largest p that the mixture has not ruled out, each rounded outwards."""
    if not trials:
        return np.zeros_like(successes), np.ones_like(successes)
    centre, zero, one = successes / trials, np.zeros_like(successes), np.ones_like(successes)
    low = _edge(successes, trials, alpha, zero, centre)
    return np.where(successes == 0, zero, low), np.where(
        successes == trials, one, _edge(successes, trials, alpha, one, centre)
    )


def _edge(successes: Floats, trials: int, alpha: float, outside: Floats, inside: Floats) -> Floats:
    """Where the interval ends between a p that is ruled out and the one that is seen: a p that is surely ruled out."""
    for _ in range(STEPS):
        middle = (outside + inside) / 2
        out = _log_mixture(middle, successes, trials) >= -np.log(alpha) + ROUNDING * (trials + 100)
        outside, inside = np.where(out, middle, outside), np.where(out, inside, middle)
    return outside


def _log_mixture(p: Floats, successes: Floats, trials: int) -> Floats:
    from scipy.special import betaln, xlog1py, xlogy

    failures = trials - successes
    result: Floats = betaln(successes + 1, failures + 1) - xlogy(successes, p) - xlog1py(failures, -p)
    return result
