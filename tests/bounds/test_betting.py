"""The bettor's wealth: logarithms against mpmath, proofs against exact fractions, its error by enumeration."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterator
from fractions import Fraction
from math import isqrt

import mpmath
import numpy as np
import pytest

from sparsecert.bounds import betting as wealth
from sparsecert.bounds.betting import BITS, STAKES, best_stake, is_proved, log2_below

HAIR = Fraction(1, 1 << 36)  # far above what rounding loses on a few hundred votes, far below anything that matters
STAKES_TRIED = [1, 37, 200, STAKES // 2]
GAPS_TRIED = [Fraction(0), Fraction(2 * 45, 784), Fraction(1, 3), Fraction(9, 10), 1 - Fraction(1, 1 << 40)]


def _rationals() -> Iterator[Fraction]:
    chance = random.Random(1)
    yield from (Fraction(2) ** power for power in (-200, -1, 0, 1, 77))
    yield from (Fraction(isqrt(2 << 2 * bits), 1 << bits) for bits in (130, 200, 400))  # 1/2, but for the last digits
    yield from (1 + sign * Fraction(1, 1 << bits) for bits in (1, 20, 47, 48, 49, 60, 128) for sign in (-1, 1))
    for _ in range(300):
        size = chance.choice([8, 30, 64, 140])
        yield Fraction(chance.getrandbits(size) + 1, chance.getrandbits(chance.choice([8, 30, 64, 140])) + 1)


def _wealth(leader: int, rival: int, others: int, gap: Fraction, stake: int) -> Fraction:
    """The product that a bettor multiplies out, as an exact fraction."""
    s = Fraction(stake, STAKES)
    return (1 + s * (1 - gap)) ** leader * (1 - s * (1 + gap)) ** rival * (1 - s * gap) ** others


def _counts(most: int) -> Iterator[tuple[int, int, int]]:
    for total in range(most + 1):
        for leader in range(total + 1):
            for rival in range(total - leader + 1):
                yield leader, rival, total - leader - rival


def test_the_first_digits_of_a_logarithm_are_those_of_a_power(monkeypatch: pytest.MonkeyPatch) -> None:
    """2**b <= x**256 < 2**(b + 1), in exact fractions: b is the logarithm to eight binary digits."""
    monkeypatch.setattr(wealth, "BITS", 8)
    for x in _rationals():
        below = log2_below.__wrapped__(x)
        assert Fraction(2) ** below <= x**256 < Fraction(2) ** (below + 1), x


def test_logarithms_are_never_above_the_true_ones_and_within_one_unit() -> None:
    with mpmath.workprec(600):
        for x in _rationals():
            exact = mpmath.log(mpmath.mpf(x.numerator) / x.denominator, 2) * 2**BITS
            below = log2_below(x)
            assert below <= exact < below + 1, x


def test_logarithms_of_powers_of_two_are_exact() -> None:
    for power in range(-300, 300):
        assert log2_below(Fraction(2) ** power) == power << BITS


@pytest.mark.parametrize("gap", GAPS_TRIED, ids=float)
@pytest.mark.parametrize("stake", STAKES_TRIED)
def test_what_is_proved_is_what_the_exact_wealth_says(stake: int, gap: Fraction) -> None:
    """At 1 / alpha a hair below the exact wealth it is proved, at a hair above it is not: for every small count."""
    for counts in _counts(9):
        held = _wealth(*counts, gap, stake)
        assert is_proved(*counts, gap, stake, alpha=(1 + HAIR) / held)
        assert not is_proved(*counts, gap, stake, alpha=(1 - HAIR) / held)


def test_nothing_is_proved_below_one_over_alpha() -> None:
    """Also where the wealth falls short of it by less than any rounding: this is what soundness rests on."""
    chance = random.Random(2)
    for _ in range(400):
        counts = (chance.randrange(300), chance.randrange(100), chance.randrange(100))
        gap, stake = Fraction(chance.getrandbits(128), 1 << 128), chance.randint(1, STAKES // 2)
        held = _wealth(*counts, gap, stake)
        assert not is_proved(*counts, gap, stake, alpha=(1 - Fraction(1, 1 << 500)) / held)
        assert is_proved(*counts, gap, stake, alpha=(1 + HAIR) / held)


def test_a_proof_is_exact_where_logarithms_are_whole_numbers() -> None:
    """Half the wealth is lost with every vote for the rival, nothing with one for another class."""
    for rival, others in ((1, 0), (7, 30), (300, 1)):
        bet = (0, rival, others, Fraction(0), STAKES // 2)
        assert is_proved(*bet, alpha=Fraction(1 << rival))
        assert not is_proved(*bet, alpha=(1 << rival) * (1 - Fraction(1, 1 << 500)))


def _proofs(counts: list[tuple[int, int, int]], gaps: list[Fraction]) -> list[bool]:
    return [is_proved(*each, gap, 200, Fraction(1, 20)) for each in counts for gap in gaps]


def test_a_larger_gap_is_never_easier_to_prove() -> None:
    gaps = [Fraction(step, 400) for step in range(400)]
    for counts in [(100, 5, 0), (100, 40, 60), (40, 0, 10), (60, 59, 3)]:
        proved = _proofs([counts], gaps)
        assert proved == sorted(proved, reverse=True)
        assert {*proved} == ({False} if counts == (60, 59, 3) else {True, False})


@pytest.mark.parametrize("gap", [Fraction(0), Fraction(1, 5)])
def test_votes_that_go_from_the_leader_to_the_others_to_the_rival_never_help(gap: Fraction) -> None:
    for chain in (
        [(leader, 20, 80 - leader) for leader in range(80, -1, -1)],
        [(60, rival, 60 - rival) for rival in range(61)],
        [(100 - rival, rival, 5) for rival in range(101)],
        [(60, rival, 10) for rival in range(100)],
        [(leader, 10, 10) for leader in range(200, -1, -1)],
    ):
        proved = _proofs(chain, [gap])
        assert proved == sorted(proved, reverse=True)
        assert {*proved} == {True, False}


@pytest.mark.parametrize(
    ("stake", "gap"),
    [(0, Fraction(0)), (-1, Fraction(0)), (STAKES // 2 + 1, Fraction(0)), (9, Fraction(1)), (9, Fraction(-1, 9))],
)
def test_a_stake_or_gap_that_could_ruin_the_bettor_is_refused(stake: int, gap: Fraction) -> None:
    with pytest.raises(ValueError, match=r"stake must be in \(0, 1/2\] and gap in \[0, 1\)"):
        is_proved(5, 1, 1, gap, stake, Fraction(1, 20))


@pytest.mark.parametrize("x", [Fraction(0), Fraction(-1, 3)])
def test_the_logarithm_of_nothing_is_refused(x: Fraction) -> None:
    with pytest.raises(ValueError, match="x must be positive"):
        log2_below(x)


@pytest.mark.parametrize("alpha", [Fraction(1, 20), Fraction(1, 1000), Fraction(1, 10**400), 1 - Fraction(1, 1 << 30)])
@pytest.mark.parametrize("variance", [Fraction(1, 10**6), Fraction(1, 5), Fraction(1)])
@pytest.mark.parametrize("votes", [1, 3_000, 1 << 39])
def test_every_stake_chosen_can_be_used(alpha: Fraction, variance: Fraction, votes: int) -> None:
    assert 1 <= best_stake(variance, votes, alpha) <= STAKES // 2


@pytest.mark.parametrize(("share", "lead"), [(Fraction(1, 2), Fraction(1, 10)), (Fraction(9, 10), Fraction(1, 2))])
def test_the_stake_chosen_proves_about_as_large_a_gap_as_any(share: Fraction, lead: Fraction) -> None:
    """Against every stake there is, on votes in proportion to their probabilities."""
    votes, alpha = 3_000, Fraction(1, 20)
    leader, rival = int(votes * (share + lead) / 2), int(votes * (share - lead) / 2)

    def gap_proved(stake: int) -> int:
        others = votes - leader - rival
        return bisect_left(
            range(500), True, key=lambda g: not is_proved(leader, rival, others, Fraction(g, 500), stake, alpha)
        )

    chosen = best_stake(share - lead**2, votes, alpha)
    assert gap_proved(chosen) >= max(gap_proved(stake) for stake in range(1, STAKES // 2 + 1, 3)) - 1
    assert gap_proved(chosen) > 0


def _ever(votes: int, lead: float, share: float, gap: Fraction, stake: int, alpha: Fraction) -> float:
    """The probability, by enumeration, that votes with p_A - p_B = lead and p_A + p_B = share ever prove the gap.

    `chances[a, b]` is the probability of these counts without a proof so far. For a given number of votes those who
    prove it are the a that reach a least one, which does not fall as b grows.
    """
    p_leader, p_rival = (share + lead) / 2, (share - lead) / 2
    chances, ended = np.zeros((votes + 2, votes + 2)), 0.0
    chances[0, 0] = 1.0
    for total in range(1, votes + 1):
        after = chances * (1 - p_leader - p_rival)
        after[1:] += p_leader * chances[:-1]
        after[:, 1:] += p_rival * chances[:, :-1]
        least = 0
        for rival in range(total + 1):
            while least <= total - rival and not is_proved(least, rival, total - rival - least, gap, stake, alpha):
                least += 1
            if least > total - rival:
                break
            ended += after[least:, rival].sum()
            after[least:, rival] = 0
        chances = after
    assert ended + chances.sum() == pytest.approx(1)
    return float(ended)


# (votes, gap, p_A + p_B, stake, alpha); the rivals' shares from nothing to everything that the leader leaves
BETS = [
    (300, Fraction(0), 1.0, 224, Fraction(1, 20)),
    (300, Fraction(0), 0.3, 512, Fraction(1, 20)),
    (200, Fraction(1, 3), 1.0, 512, Fraction(1, 20)),
    (200, Fraction(1, 3), 0.5, 300, Fraction(1, 20)),
    (120, Fraction(9, 10), 0.95, 512, Fraction(1, 20)),
    (120, Fraction(1, 2), 0.5, 512, Fraction(1, 5)),
    (120, Fraction(1, 10), 0.8, 256, Fraction(1, 2)),
    (120, Fraction(1, 10), 0.8, 1, Fraction(1, 5)),
]


@pytest.mark.parametrize(("votes", "gap", "share", "stake", "alpha"), BETS)
def test_a_lead_that_is_not_there_is_ever_proved_with_probability_at_most_alpha(
    votes: int, gap: Fraction, share: float, stake: int, alpha: Fraction
) -> None:
    """p_A - p_B is the gap itself, the hardest case, and everybody may look after every single vote."""
    at_the_gap = _ever(votes, float(gap), share, gap, stake, alpha)
    assert at_the_gap <= float(alpha) * (1 + 1e-9)
    assert _ever(votes, float(gap) - 0.05, share, gap, stake, alpha) <= at_the_gap


def test_the_enumeration_would_notice_an_error() -> None:
    """It comes close to alpha where a claim is false, and finds far more where it is true by a little."""
    votes, gap, share, stake, alpha = BETS[0]
    assert 0.7 * float(alpha) < _ever(votes, 0.0, share, gap, stake, alpha) <= float(alpha)
    assert _ever(votes, 0.05, share, gap, stake, alpha) > 2 * float(alpha)
