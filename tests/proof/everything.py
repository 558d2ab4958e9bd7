"""All schemes, bounds and certificates of the package, listed once: every proof runs over these lists.

`test_the_list.py` fails when something public is not in them. What is added here is proved by brute force, by coverage,
by metamorphic properties and against `slow.py` without another line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sparsecert.bounds import corrected_alpha
from sparsecert.certificates import certify_anytime
from sparsecert.certificates.adversary import Adversary, ClaimedUnits, PerturbedUnits
from sparsecert.certificates.enumerated import EnumeratedUnits
from sparsecert.certificates.patches import PerturbedPatch
from sparsecert.certificates.target import certify_averted, certify_flagged
from sparsecert.certificates.top_k import certify_top_k
from sparsecert.counts import Tally
from sparsecert.registry import CERTIFICATES
from sparsecert.registry import RULES as ELECTIONS
from sparsecert.schemes import (
    AllSubsets,
    Bands,
    Blocks,
    FixedMasks,
    Grid,
    Lattice,
    Partition,
    RandomValues,
    Scheme,
    Share,
    Spread,
    Uniform,
)
from tests.proof import slow

MOST = 400  # votes that a stopped certificate might have had


@dataclass(frozen=True)
class Listed:
    """A scheme, its masks and random bits by `slow`, and the sizes of its random choices."""

    scheme: Scheme
    masks: tuple[slow.Mask, ...]
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        return str(self.scheme)

    def delta(self, rho: int) -> Fraction:
        """What the scheme has to say: the share of masks that rho units meet, or the stated bound on it."""
        if isinstance(self.scheme, FixedMasks) and not self.scheme.few_units:
            return slow.share_charged(self.masks, rho)
        return slow.share_met(self.masks, rho)

    @property
    def deltas(self) -> list[Fraction]:
        return [self.delta(rho) for rho in range(self.scheme.units + 1)]

    @property
    def fixed(self) -> bool:
        return isinstance(self.scheme, FixedMasks)


def _uniform(units: int, keep: int) -> Listed:
    drawn = min(keep, units - keep)
    sizes = tuple(range(units - drawn + 1, units + 1))
    return Listed(Uniform(units, keep), tuple(slow.uniform_masks(units, keep)), sizes)


def _share(share: str, units: int, keep: int) -> Listed:
    drawn = min(keep, units - keep)
    sizes = tuple(range(units - drawn + 1, units + 1))
    scheme = Share(share).for_units(units)
    return Listed(scheme, tuple(slow.uniform_masks(units, keep)), sizes)


def _all_subsets(units: int, keep: int) -> Listed:
    masks = tuple(slow.uniform_masks(units, keep))
    return Listed(AllSubsets(units, keep), masks, (len(masks),))


def _partition(units: int, parts: int, rounds: int = 1, seed: int = 0) -> Listed:
    masks = tuple(slow.partition_masks(units, parts, rounds, seed))
    return Listed(Partition(units, parts, rounds, seed), masks, (len(masks),))


def _runs(units: int, parts: int, masks: int | None = None) -> Listed:
    """Of an open scheme, bound to so many units: fewer masks where there are fewer units."""
    listed = tuple(slow.run_masks(units, masks or parts))
    return Listed(Partition(None, parts, contiguous=True).for_units(units), listed, (len(listed),))


def _lattice(height: int, width: int, parts: int, rounds: int = 1) -> Listed:
    masks = slow.lattice_masks(height, width, parts, rounds)
    assert masks is not None
    return Listed(Lattice(height, width, parts, rounds), tuple(masks), (len(masks),))


def _spread(height: int, width: int, parts: int) -> Listed:
    masks = tuple(slow.spread_masks(height, width, parts))
    return Listed(Spread(height, width, parts), masks, (len(masks),))


def _grid(height: int, width: int, spacing: int) -> Listed:
    masks = tuple(slow.grid_masks(height, width, spacing))
    return Listed(Grid(height, width, spacing), masks, (len(masks),))


def _blocks(height: int, width: int, size: int) -> Listed:
    masks = tuple(slow.block_masks(height, width, size, size, height, width))
    return Listed(Blocks(height, width, size), masks, (len(masks),))


def _bands(height: int, width: int, size: int, rows: bool = False) -> Listed:
    wide = (size, width, height, 1) if rows else (height, size, 1, width)
    masks = tuple(slow.block_masks(height, width, *wide))
    return Listed(Bands(height, width, size, rows), masks, (len(masks),))


SCHEMES = [
    _uniform(1, 1), _uniform(4, 2), _uniform(5, 2), _uniform(6, 1), _uniform(6, 4), _uniform(5, 5), _uniform(7, 3),
    _share("0.5", 5, 3), _share("0.1", 6, 1), _share("1/3", 4, 1), _share("1", 3, 3), _share("0.01", 1, 1),
    _all_subsets(4, 2), _all_subsets(5, 2), _all_subsets(3, 3), _all_subsets(6, 1), _all_subsets(6, 3),
    _partition(6, 3), _partition(7, 3, 2, 5), _partition(5, 5), _partition(4, 1),
    _runs(6, 3), _runs(5, 2), _runs(4, 3), _runs(3, 9, 3), _runs(1, 2, 1),
    _lattice(2, 3, 3), _lattice(3, 3, 3, 4), _lattice(3, 4, 5), _lattice(1, 7, 3), _lattice(4, 3, 6), _lattice(3, 2, 6),
    _spread(2, 3, 3), _spread(3, 2, 2), _spread(3, 4, 5), _spread(1, 5, 5), _spread(3, 3, 4),
    _grid(2, 3, 2), _grid(3, 3, 2), _grid(2, 2, 1), _grid(3, 4, 2), _grid(3, 3, 3),
    _blocks(3, 3, 2), _blocks(2, 4, 1), _blocks(4, 2, 2), _blocks(3, 3, 3),
    _bands(2, 3, 1), _bands(3, 4, 3), _bands(3, 2, 2, True), _bands(4, 2, 1, True),
]  # fmt: skip
TINY = [one for one in SCHEMES if one.scheme.units <= 6]
FIXED = [one for one in TINY if one.fixed and len(one.masks) <= 9]


Answer = tuple[int, int | None]  # label and radius


@dataclass(frozen=True)
class Statistical:
    """A certificate from votes, and what it has to be by `slow`, given the level that is left of alpha."""

    name: str
    certify: Callable[[Tally, Tally, Scheme, Fraction], Answer]
    slowly: Callable[[slow.Votes, slow.Votes, Sequence[Fraction], Fraction], Answer]
    k: int = 1
    draws: int | None = None  # how many votes alpha is corrected for, if not the number taken

    def __str__(self) -> str:
        return self.name


def ranked(name: str, votes: Tally, label: int) -> Tally:
    """The votes as the bound needs them: by pairs, whoever votes for another class has the label second."""
    if not CERTIFICATES[name].by_pairs:
        return votes
    return replace(votes, above=slow.above_by_second_choice(label, (*votes.votes, votes.invalid)))


def _method(name: str) -> Statistical:
    def certify(selection: Tally, estimation: Tally, scheme: Scheme, alpha: Fraction) -> Answer:
        found = CERTIFICATES[name].certify(selection, ranked(name, estimation, selection.leader()), scheme, alpha)
        assert found.label == (None if found.radius is None else found.interval.label)
        return found.interval.label, found.radius

    def slowly(selection: slow.Votes, votes: slow.Votes, deltas: Sequence[Fraction], level: Fraction) -> Answer:
        label = slow.leader(selection)
        return label, slow.largest(deltas, slow.margin(name, *slow.interval(name, label, votes, level)))

    return Statistical(name, certify, slowly)


def _stopped(name: str) -> Statistical:
    def certify(selection: Tally, estimation: Tally, scheme: Scheme, alpha: Fraction) -> Answer:
        selection, estimation = (ranked(name, votes, selection.leader()) for votes in (selection, estimation))
        found = certify_anytime(selection, estimation, scheme, alpha, name, MOST)
        return found.interval.label, found.radius

    def slowly(selection: slow.Votes, votes: slow.Votes, deltas: Sequence[Fraction], level: Fraction) -> Answer:
        return slow.leader(selection), slow.stopped(selection, votes, deltas, level, name, MOST)

    return Statistical(f"stopped, {name}", certify, slowly, draws=MOST)


def _top(k: int) -> Statistical:
    def certify(selection: Tally, estimation: Tally, scheme: Scheme, alpha: Fraction) -> Answer:
        found = certify_top_k(selection, estimation, scheme, alpha, k)
        assert found.k == k
        return found.label, found.radius

    def slowly(selection: slow.Votes, votes: slow.Votes, deltas: Sequence[Fraction], level: Fraction) -> Answer:
        label = slow.leader(selection)
        if k == len(votes) - 1:
            return label, len(deltas) - 1
        return label, slow.top_k(selection, votes, deltas, level, k, label)

    return Statistical(f"top {k}", certify, slowly, k=k)


STATISTICAL = [
    *(_method(name) for name in CERTIFICATES),
    *(_stopped(name) for name in CERTIFICATES if CERTIFICATES[name].compared),
    _top(1), _top(2), _top(3),
]  # fmt: skip


def _averted(target: int) -> Statistical:
    def certify(selection: Tally, estimation: Tally, scheme: Scheme, alpha: Fraction) -> Answer:
        found = certify_averted(selection, estimation, scheme, alpha, target)
        assert found.target == target
        return found.label, found.radius

    def slowly(selection: slow.Votes, votes: slow.Votes, deltas: Sequence[Fraction], level: Fraction) -> Answer:
        return slow.averted(selection, votes, deltas, level, target)

    return Statistical(f"averted {target}", certify, slowly)


def _flagged(label: int, threshold: Fraction) -> Statistical:
    def certify(selection: Tally, estimation: Tally, scheme: Scheme, alpha: Fraction) -> Answer:
        found = certify_flagged(estimation, scheme, alpha, label, threshold)
        assert found.threshold == threshold
        return found.label, found.radius

    def slowly(selection: slow.Votes, votes: slow.Votes, deltas: Sequence[Fraction], level: Fraction) -> Answer:
        low = slow.clopper_pearson(votes[label], sum(votes), level)
        return label, slow.largest(deltas, low - threshold)

    return Statistical(f"flagged {label} above {threshold}", certify, slowly)


# Certificates of a class that is given, not elected: what is elected does not matter to them.
TARGETED = [
    _averted(1), _flagged(0, Fraction(1, 2)), _flagged(0, Fraction(1, 10)), _flagged(1, Fraction(0)),
]  # fmt: skip


def level_of(certificate: Statistical, scheme: Scheme, alpha: Fraction, votes: int) -> Fraction:
    return corrected_alpha(alpha, scheme, certificate.draws or votes)


def tally(votes: slow.Votes) -> Tally:
    return Tally(votes[:-1], votes[-1])


@dataclass(frozen=True)
class Attacker:
    """A kind of damage to a fixed set of masks, and the same by `slow`; None where a scheme is not an image's."""

    name: str
    adversary: Callable[[FixedMasks], Adversary | None]
    slowly: Callable[[FixedMasks, Sequence[slow.Mask]], slow.Attack]
    tight: bool = False  # says at least what `slowly` says, and never too much

    def __str__(self) -> str:
        return self.name


def _charged(masks: Sequence[slow.Mask]) -> bool:
    return any(sum(column) > 1 for column in zip(*masks, strict=True))


def _patch(scheme: FixedMasks) -> PerturbedPatch | None:
    return None if scheme.sides is None else PerturbedPatch(scheme.table, *scheme.sides)


def _slow_patch(scheme: FixedMasks, masks: Sequence[slow.Mask]) -> slow.Attack:
    assert scheme.sides is not None
    return slow.patch_attack(masks, *scheme.sides)


ATTACKERS = [
    Attacker("units", lambda one: PerturbedUnits(one.table), lambda _, masks: slow.unit_attack(masks, _charged(masks))),
    Attacker("priced units", lambda one: PerturbedUnits(one.table, seconds=10.0),
             lambda _, masks: slow.unit_attack(masks, _charged(masks)), tight=True),
    Attacker("claimed units", lambda one: ClaimedUnits(one.table, claimed=2, seconds=10.0),
             lambda _, masks: slow.unit_attack(masks, _charged(masks)), tight=True),
    Attacker("enumerated units", lambda one: EnumeratedUnits(one.table),
             lambda _, masks: slow.unit_attack(masks, False)),
    Attacker("patch", _patch, _slow_patch),
]  # fmt: skip
RULES = [*ELECTIONS]


def elected(rule: str, ranks: Sequence[slow.Rank], adversary: Adversary) -> tuple[int, int]:
    """Among other elections, whose order must not matter."""
    each = np.array(ranks, dtype=np.int16)
    labels, radii = ELECTIONS[rule].certify(np.stack((each[::-1], each, each[:, ::-1])), adversary)
    return int(labels[1]), int(radii[1])


UNITS = 9  # of inputs of random values
NOISES = [
    RandomValues(UNITS, kappa, values)
    for kappa, values in (("0.8", 2), ("0.5", 3), ("0.3", 4), (Fraction(9, 10), 3), (0.95, 4), (1, 2))
]
