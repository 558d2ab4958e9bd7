"""Anytime-valid bounds on the probability of each class while the votes come in. Needs no torch.

For one class with probability p, let s of the first n votes be for it. The mixture M_n(p), the integral of
t^s (1 - t)^(n - s) over t from 0 to 1 divided by p^s (1 - p)^(n - s), is never negative, starts at 1 and is a
martingale, so the probability that it *ever* reaches 1 / alpha is at most alpha (Ville, 1939; the uniform mixture is
Robbins's, "Statistical methods related to the law of the iterated logarithm", 1970). The p not yet
ruled out form an interval around s / n.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sparsecert.bounds import corrected_alpha
from sparsecert.counts import Float64, Tally
from sparsecert.schemes import Scheme

STEPS = 50  # bisection steps
ROUNDING = 1e-12  # per vote; exceeds the error of the logarithms


def anytime_bounds(votes: Tally, scheme: Scheme, alpha: float | Fraction, most: int) -> tuple[tuple[float, float], ...]:
    """A lower and an upper bound on the probability of each class.

    With probability at least 1 - alpha they hold for all classes simultaneously, after each of the first `most` votes.
    """
    level = corrected_alpha(alpha, scheme, most) / len(votes.votes)
    low, high = mixture_interval(np.array(votes.votes, dtype=np.float64), votes.total, float(level))
    return tuple(zip(low.tolist(), high.tolist(), strict=True))


def mixture_interval(successes: Float64, trials: int, alpha: float) -> tuple[Float64, Float64]:
    """The smallest and the largest p that the mixture has not ruled out, rounded outwards."""
    if not trials:
        return np.zeros_like(successes), np.ones_like(successes)
    centre, zero, one = successes / trials, np.zeros_like(successes), np.ones_like(successes)
    low = _edge(successes, trials, alpha, zero, centre)
    return np.where(successes == 0, zero, low), np.where(
        successes == trials, one, _edge(successes, trials, alpha, one, centre)
    )


def _edge(successes: Float64, trials: int, alpha: float, outside: Float64, inside: Float64) -> Float64:
    """The end of the interval between `outside`, a p ruled out, and `inside`, rounded to the outside."""
    for _ in range(STEPS):
        middle = (outside + inside) / 2
        out = _log_mixture(middle, successes, trials) >= -np.log(alpha) + ROUNDING * (trials + 100)
        outside, inside = np.where(out, middle, outside), np.where(out, inside, middle)
    return outside


def _log_mixture(p: Float64, successes: Float64, trials: int) -> Float64:
    from scipy.special import betaln, xlog1py, xlogy

    failures = trials - successes
    result: Float64 = betaln(successes + 1, failures + 1) - xlogy(successes, p) - xlog1py(failures, -p)
    return result
