"""Clopper-Pearson bounds, against scipy, against mpmath, and by simulation."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from scipy.special import betaincinv
from scipy.stats import binomtest

from sparsecert.bounds import clopper_pearson
from sparsecert.bounds.clopper_pearson import complement, lower_bound, upper_bound
from sparsecert.errors import InputError

EDGES = [
    (count, n, alpha)
    for n in (1, 2, 3, 10, 1_000, 10_000, 100_000)
    for count in sorted({0, 1, n // 2, n - 1, n})
    for alpha in (0.05, 0.025, 0.001, 0.5, 0.9)
]


def _tail(count: int, n: int, p: float | mpmath.mpf) -> mpmath.mpf:
    """P(Binomial(n, p) >= count) summed term by term, to far more digits than a double has."""
    with mpmath.workdps(60):
        p = mpmath.mpf(p)
        if p == 1:
            return mpmath.mpf(1)
        log_term = mpmath.loggamma(n + 1) - mpmath.loggamma(count + 1) - mpmath.loggamma(n - count + 1)
        term = mpmath.exp(log_term + count * mpmath.log(p) + (n - count) * mpmath.log1p(-p))
        total, odds = mpmath.mpf(0), p / (1 - p)
        for i in range(count, n + 1):
            total += term
            term *= odds * (n - i) / (i + 1)
            if term < total * mpmath.mpf(10) ** -50 and (n - i) * odds < i + 1:
                break
        return total


@pytest.mark.parametrize(("count", "n", "alpha"), EDGES)
def test_the_bound_is_never_above_the_exact_one_and_close_to_it(count: int, n: int, alpha: float) -> None:
    """The tail grows with p, so a tail of at most alpha at our float proves that it is not above the exact bound."""
    ours = lower_bound(count, n, Fraction(alpha))
    if count == 0:
        assert ours == 0.0
        return
    assert _tail(count, n, ours) <= mpmath.mpf(alpha)
    assert _tail(count, n, min(1.0, ours * (1 + 1e-12))) > mpmath.mpf(alpha)


@pytest.mark.parametrize(("count", "n", "alpha"), EDGES)
def test_the_upper_bound_mirrors_the_lower_one(count: int, n: int, alpha: float) -> None:
    ours = upper_bound(count, n, Fraction(alpha))
    if count == n:
        assert ours == 1.0
        return
    # P(Binomial(n, p) <= count) = P(Binomial(n, 1 - p) >= n - count) has to be at most alpha at the bound
    with mpmath.workdps(60):
        assert _tail(n - count, n, 1 - mpmath.mpf(ours)) <= mpmath.mpf(alpha)


@pytest.mark.parametrize(("count", "n", "alpha"), EDGES)
def test_the_bound_agrees_with_scipy(count: int, n: int, alpha: float) -> None:
    scipys = binomtest(count, n, alternative="greater").proportion_ci(1 - alpha, method="exact").low
    assert lower_bound(count, n, Fraction(alpha)) == pytest.approx(scipys, rel=1e-9, abs=1e-9)


def test_no_proposal_of_a_library_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever scipy returns, the bound is proved or found by bisection."""
    import scipy.special

    level = Fraction(1, 20)
    right = lower_bound(70, 100, level)
    for wrong in (0.99, 1.0, 2.0, float("nan"), right * (1 + 1e-12), 0.0, -0.1):
        monkeypatch.setattr(scipy.special, "betaincinv", lambda *_, wrong=wrong: wrong)
        clopper_pearson.lower_bound.cache_clear()
        ours = lower_bound(70, 100, level)
        assert _tail(70, 100, ours) <= mpmath.mpf(0.05)
        assert ours == pytest.approx(right, rel=1e-10)
    clopper_pearson.lower_bound.cache_clear()


def test_bounds_grow_with_the_count() -> None:
    """The two-sided bound without a union over classes rests on this."""
    level = Fraction(1, 40)
    lowers, uppers = ([bound(c, 200, level) for c in range(201)] for bound in (lower_bound, upper_bound))
    assert lowers == sorted(lowers)
    assert uppers == sorted(uppers)


def test_complement_rounds_up() -> None:
    """To the next float, and not beyond."""
    for p in (0.0, 1e-300, 1e-17, 0.1, 0.25, 0.3, 1 / 3, 0.7, 0.9999999999999999, 1.0):
        exact = 1 - Fraction(p)
        assert Fraction(math.nextafter(complement(p), -1)) < exact <= Fraction(complement(p))


@pytest.mark.parametrize(
    ("count", "n", "alpha"), [(-1, 10, 0.05), (11, 10, 0.05), (0, 0, 0.05), (5, 10, 0), (5, 10, 1)]
)
def test_refusals(count: int, n: int, alpha: float) -> None:
    with pytest.raises(InputError, match="must be between"):
        lower_bound(count, n, Fraction(alpha))


@pytest.mark.parametrize("n", [1_500_000, 40_000_000, 10**10])
def test_many_trials_are_settled_in_doubles(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where scipy errs by more than the first step: no proof in integers is needed, and the bound is close to it."""

    def never(*_: object) -> bool:
        raise AssertionError("a proof in integers of so many trials takes minutes")

    monkeypatch.setattr(clopper_pearson, "tail_at_most", never)
    alpha = Fraction(1, 40) - Fraction(1, 10**10)
    for part in range(1, 15):
        successes = part * n // 15 + 1
        found = lower_bound(successes, n, alpha)
        value = float(betaincinv(successes, n - successes + 1, float(alpha)))
        assert value * (1 - 2.0**-27) < found < value * (1 + 1e-9)
        if n < 10**7:
            assert _tail(successes, n, found) <= mpmath.mpf(alpha.numerator) / alpha.denominator


def test_few_trials_are_proved_in_integers_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to FEW_TRIALS what doubles do not prove is tried in integers at once; beyond, all steps in doubles first."""
    asked: list[str] = []
    monkeypatch.setattr(clopper_pearson, "proved_in_floats", lambda *_: bool(asked.append("doubles")))
    monkeypatch.setattr(clopper_pearson, "tail_at_most", lambda *_: not asked.append("either"))
    monkeypatch.setattr(clopper_pearson, "FEW_TRIALS", 50)
    for trials, expected in ((50, ["either"]), (51, ["doubles"] * len(clopper_pearson.STEPS_DOWN) + ["either"])):
        clopper_pearson.lower_bound.cache_clear()
        lower_bound(30, trials, Fraction(1, 20))
        assert asked == expected
        asked.clear()
    clopper_pearson.lower_bound.cache_clear()
