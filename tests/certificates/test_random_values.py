"""The certificates for random values against every copy there is, and the figures of the paper's discussion."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import prod
from threading import Event, Thread

import pytest

from sparsecert.bounds import Interval
from sparsecert.certificates import CERTIFICATES, corollary_1, corollary_2, lead, majority, random_values
from sparsecert.certificates.random_values import WorstCase, WorstCases, needed, thresholds, worst_cases
from sparsecert.counts import Tally
from sparsecert.errors import InputError
from sparsecert.schemes import DELTA_BITS, RandomValues, Uniform

IMAGENET = 3 * 224 * 224
HAIR = Fraction(1, 1 << 110)
KAPPAS = [(2, "0.8"), (3, "0.5"), (3, "0.9"), (4, "0.3"), (5, "1/3")]

Input = tuple[int, ...]


def _likely(scheme: RandomValues, copy: Input, source: Input) -> Fraction:
    """How likely a copy of the source is, unit by unit."""
    return prod(
        (scheme.kappa if shown == true else scheme.beta for shown, true in zip(copy, source, strict=True)),
        start=Fraction(1),
    )


def _inputs(scheme: RandomValues) -> list[Input]:
    return list(product(range(scheme.values), repeat=scheme.units))


def _least(scheme: RandomValues, rho: int, p: Fraction) -> Fraction:
    """The least probability under x' of a (random) set of copies with probability p under x: copy by copy."""
    one, other = (0,) * scheme.units, (1,) * rho + (0,) * (scheme.units - rho)
    copies = [(_likely(scheme, copy, one), _likely(scheme, copy, other)) for copy in _inputs(scheme)]
    copies.sort(key=lambda pair: pair[0] / pair[1], reverse=True)
    left, least = p, Fraction(0)
    for own, others in copies:
        taken = min(left, own)
        left, least = left - taken, least + others * taken / own
    return least


@pytest.mark.parametrize(("values", "kappa"), KAPPAS)
@pytest.mark.parametrize(("units", "rho"), [(1, 1), (2, 1), (3, 2), (3, 3)])
def test_what_is_needed_is_tight(values: int, kappa: str, units: int, rho: int) -> None:
    """With exactly what is needed the worst case is 1/2, with more it is above: of all copies, one by one."""
    scheme = RandomValues(units, kappa, values)
    threshold = needed(scheme, rho)
    assert _least(scheme, rho, threshold) == Fraction(1, 2)
    assert _least(scheme, rho, (threshold + 1) / 2) > Fraction(1, 2)
    assert _least(scheme, rho, threshold * Fraction(99, 100)) < Fraction(1, 2)


@pytest.mark.parametrize(("values", "kappa"), KAPPAS)
def test_the_worst_case_is_that_of_all_copies_and_never_above_it(values: int, kappa: str) -> None:
    scheme = RandomValues(3, kappa, values)
    for rho, worst in enumerate(worst_cases(scheme)):
        for part in range(41):
            p = Fraction(part, 40)
            found, true = Fraction(worst.least(p), 1 << DELTA_BITS), _least(scheme, rho, p)
            assert true - HAIR < found <= true
            for place in range(len(worst.ends)):  # whichever line is taken
                line = (worst.slopes[place] * int(p * (1 << DELTA_BITS)) >> DELTA_BITS) + worst.intercepts[place]
                assert Fraction(line, 1 << DELTA_BITS) <= true


@pytest.mark.parametrize(("values", "kappa"), KAPPAS)
def test_the_radii_are_those_of_the_worst_case(values: int, kappa: str) -> None:
    """Both theorems as they are stated, with the worst case computed copy by copy."""
    scheme = RandomValues(3, kappa, values)
    chances = [Fraction(part, 20) for part in range(1, 20)]
    least = {(rho, p): _least(scheme, rho, p) for rho in range(4) for p in chances}
    for p in chances:
        alone = [rho for rho in range(4) if least[rho, p] > Fraction(1, 2)]
        assert majority(Interval(0, p, 1 - p), scheme) == max(alone, default=None)
        for rival in (q for q in chances if q <= 1 - p):
            both = [rho for rho in range(4) if least[rho, p] > 1 - least[rho, 1 - rival]]
            assert lead(Interval(0, p, rival), scheme) == max(both, default=None)
        assert lead(Interval(0, p, 1 - p), scheme) == majority(Interval(0, p, 1 - p), scheme)


def test_the_tight_theorems_are_never_below_the_corollaries() -> None:
    better = 0
    for values, kappa in ((2, "0.7"), (256, "0.1"), (256, "0.02"), (17, "0.3")):
        scheme = RandomValues(784, kappa, values)
        for part in range(1, 100):
            p = Fraction(part, 100)
            for interval in (Interval(0, p, 1 - p), Interval(0, p, (1 - p) / 3)):
                pairs = (majority, corollary_1), (lead, corollary_2)
                for tight, generic in pairs:
                    one, other = (-1 if r is None else r for r in (tight(interval, scheme), generic(interval, scheme)))
                    assert one >= other
                    better += one > other
    assert better > 100


def _smoothed(scheme: RandomValues, labels: dict[Input, int], x: Input) -> list[Fraction]:
    """The true probability of each of three classes at x."""
    chances = [Fraction(0)] * 3
    for copy, label in labels.items():
        chances[label] += _likely(scheme, copy, x)
    return chances


@pytest.mark.parametrize(("values", "kappa"), [(2, "0.75"), (3, "0.6"), (3, "0.85")])
def test_no_perturbation_of_certified_size_changes_the_answer(values: int, kappa: str) -> None:
    """Base classifiers made by hand and at random, all inputs, all changes of certified size; probabilities exact."""
    scheme = RandomValues(3, kappa, values)
    inputs, generator = _inputs(scheme), random.Random(0)
    tables = [
        {copy: min(2, max(map(copy.count, copy)) - 1) for copy in inputs},
        {copy: int(copy[0] > 0) for copy in inputs},
    ]
    tables += [{copy: generator.choice((0, 0, 1, 2)) for copy in inputs} for _ in range(6)]
    proved = 0
    for labels in tables:
        chances = {x: _smoothed(scheme, labels, x) for x in inputs}
        for x, own in chances.items():
            label = max(range(3), key=own.__getitem__)
            rival = max(own[j] for j in range(3) if j != label)
            radii = {majority(Interval(label, own[label], 1 - own[label]), scheme)}
            radii.add(lead(Interval(label, own[label], rival), scheme))
            radius = max((r for r in radii if r is not None), default=-1)
            for other, there in chances.items():
                if sum(a != b for a, b in zip(x, other, strict=True)) <= radius:
                    assert all(there[label] > there[j] for j in range(3) if j != label)
                    proved += other != x
    assert proved


@pytest.mark.parametrize("rho", [0, 1, 2, 5, 9])
def test_the_law_of_agreement_is_all_there_is(rho: int) -> None:
    scheme = RandomValues(784, "0.37", 256)
    laws = scheme.laws()
    law = [next(laws) for _ in range(rho + 1)][-1]
    assert len(law) == 2 * rho + 1
    assert sum(law) == scheme.size**rho
    for m, (own, other) in zip(range(rho, -rho - 1, -1), zip(law, reversed(law), strict=True), strict=True):
        assert Fraction(own, other) == (scheme.kappa / scheme.beta) ** m


def test_the_radius_grows_with_what_is_known() -> None:
    scheme = RandomValues(784, "0.2")
    found = list(thresholds(scheme))
    assert found == sorted(set(found))
    assert found[0] == Fraction(1, 2)
    assert majority(Interval(0, Fraction(1, 2), Fraction(1, 2)), scheme) is None
    for rho, threshold in enumerate(found[:5]):
        assert threshold == needed(scheme, rho)
        assert majority(Interval(0, threshold + Fraction(1, 10**9), 0), scheme) == rho
        assert majority(Interval(0, threshold, 0), scheme) == (rho - 1 if rho else None)


def test_the_figures_of_the_discussion() -> None:
    """ImageNet by channels, 256 values, kappa = 0.1: Levine & Feizi, in comparison with Lee et al."""
    scheme = RandomValues(IMAGENET, "0.1")
    p = needed(scheme, 1)
    assert round(float(p), 3) == 0.596
    ours = [keep for keep in (14_521, 14_522) if Uniform(IMAGENET, keep).delta(1) + Fraction(1, 2) <= p]
    assert ours == [14_521]
    assert 14_521 * 8 == 116_168
    assert round(scheme.mutual_information(), 1) == 50_590.4


def test_a_method_takes_the_theorem_of_its_scheme() -> None:
    votes, scheme = Tally((990, 6, 4), 0, (1_000, 994, 996)), RandomValues(784, "0.1")
    for name, sharper in (
        ("one-sided", (majority, "random-values-majority")),
        ("two-sided", (lead, "random-values-lead")),
        ("pairwise", (majority, "random-values-pairwise")),
    ):
        method = CERTIFICATES[name]
        found = method.certify(votes, votes, scheme, 0.05)
        assert isinstance(found.interval, Interval)
        assert found.radius == sharper[0](found.interval, scheme)
        assert method.theorem_for(scheme) == sharper
        assert method.theorem_for(Uniform(784, 45)) == (method.theorem, method.theorem_name)
    with pytest.raises(InputError, match="this theorem is for random values, not Uniform"):
        majority(Interval(0, 0.9, 0.1), Uniform(784, 45))


def test_all_or_nothing() -> None:
    """What is kept always holds every bit, and nothing survives a change; what is certain survives every change."""
    always = RandomValues(10, 1, 2)
    assert always.mutual_information() == 10
    assert majority(Interval(0, Fraction(1), 0), always) == 0
    assert lead(Interval(0, Fraction(1), Fraction(0)), RandomValues(10, "0.9", 2)) == 10
    assert needed(always, 1) == 1


@pytest.mark.parametrize("units", [1, 2, 7])
def test_thresholds_are_listed_for_as_many_units_as_there_are(units: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or as many as are exact, where that is fewer; for no other is it known what is needed."""
    scheme = RandomValues(units, "0.4", 3)
    assert list(thresholds(scheme)) == [needed(scheme, rho) for rho in range(units + 1)]
    with monkeypatch.context() as patched:  # one that is as close to 1 as the limit is not listed, nor any after it
        patched.setattr(random_values, "CLOSE_TO_ONE", needed(scheme, 1))
        assert list(thresholds(scheme)) == [Fraction(1, 2)]
    monkeypatch.setattr(random_values, "MOST_EXACT", 3)
    assert list(thresholds(scheme)) == [needed(scheme, rho) for rho in range(min(units, 3) + 1)]
    for wrong in (-1, 4):
        with pytest.raises(InputError, match="rho must be a whole number between 0 and 3"):
            needed(scheme, wrong)


class Pausing:
    """Cases one by one; whoever takes the first is held up before it is handed over, and others go on meanwhile."""

    def __init__(self, cases: Iterator[WorstCase]) -> None:
        self.cases, self.taken = cases, Event()

    def __iter__(self) -> Iterator[WorstCase]:
        return self

    def __next__(self) -> WorstCase:
        case, first = next(self.cases), not self.taken.is_set()
        self.taken.set()
        if first:
            Event().wait(0.2)
        return case


def test_threads_that_ask_at_once_get_the_case_of_each_rho() -> None:
    scheme = RandomValues(6, "0.3", 4)
    alone, shared = list(WorstCases(scheme)), WorstCases(scheme)
    shared._more = pausing = Pausing(shared._more)
    found: dict[str, list[WorstCase]] = {}
    threads = [Thread(target=lambda name=name: found.update({name: list(shared)})) for name in ("first", "second")]
    threads[0].start()
    pausing.taken.wait()
    threads[1].start()
    for thread in threads:
        thread.join()
    assert found == {"first": alone, "second": alone}
    assert list(shared) == alone
