"""The whole mathematics once more, slowly: rationals, plain loops and enumeration, nothing of the package's own.

Written from the definitions, for the tests alone. Only the objects that say what is asked (a scheme's numbers, a tally)
are taken from the package.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from math import comb

import mpmath

Votes = tuple[int, ...]  # of the classes, and last the invalid ones
Mask = tuple[bool, ...]
Rank = tuple[int, ...]
HALF = Fraction(1, 2)


# Binomial tails and the bound of Clopper & Pearson


@cache
def tail(successes: int, trials: int, p: Fraction) -> Fraction:
    """P(Binomial(trials, p) >= successes)."""
    yes, no = p.numerator, p.denominator - p.numerator
    ways = sum(comb(trials, i) * yes**i * no ** (trials - i) for i in range(successes, trials + 1))
    return Fraction(ways, p.denominator**trials)


@cache
def clopper_pearson(successes: int, trials: int, level: Fraction) -> Fraction:
    """The largest p with tail <= level, to within 2**-40 below; 0 for no successes."""
    low, high = Fraction(0), Fraction(1)
    for _ in range(40 if successes else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(successes, trials, middle) <= level else (low, middle)
    return low


# Schemes: their masks, and how often one meets perturbed units


def uniform_masks(units: int, keep: int) -> list[Mask]:
    return [tuple(unit in kept for unit in range(units)) for kept in combinations(range(units), keep)]


def partition_masks(units: int, parts: int, rounds: int, seed: int) -> list[Mask]:
    masks = []
    for turn in range(rounds):
        order = sorted(range(units), key=lambda unit: hashlib.sha256(f"{seed}/{turn}/{unit}".encode()).digest())
        masks += [tuple(order.index(unit) % parts == part for unit in range(units)) for part in range(parts)]
    return masks


def run_masks(units: int, parts: int) -> list[Mask]:
    """Runs of neighbours that end where part + 1 of the parts have had their share, rounded up."""
    ends = [0, *(-(-units * (part + 1) // parts) for part in range(parts))]
    return [tuple(ends[part] <= unit < ends[part + 1] for unit in range(units)) for part in range(parts)]


def lattice_masks(height: int, width: int, parts: int, rounds: int) -> list[Mask] | None:
    """None where there are not as many partitions."""
    pixels = [(y, x) for y in range(height) for x in range(width)]
    offers = []
    for across, down in product(range(parts), repeat=2):
        numbers = [(across * x + down * y) % parts for y, x in pixels]
        apart = [
            (a - c) ** 2 + (b - d) ** 2
            for (i, (a, b)), (j, (c, d)) in combinations(enumerate(pixels), 2)
            if numbers[i] == numbers[j]
        ]
        sizes = [numbers.count(part) for part in range(parts)]
        if max(sizes) - min(sizes) <= 1:
            offers.append((-min(apart, default=height**2 + width**2), (across, down), numbers))
    found: list[list[int]] = []
    for _, _, numbers in sorted(offers):
        groups = {frozenset(i for i, n in enumerate(numbers) if n == part) for part in range(parts)}
        others = [{frozenset(i for i, n in enumerate(one) if n == part) for part in range(parts)} for one in found]
        if groups not in others:
            found.append(numbers)
    if len(found) < rounds:
        return None
    return [tuple(n == part for n in numbers) for numbers in found[:rounds] for part in range(parts)]


def spread_masks(height: int, width: int, parts: int) -> list[Mask]:
    """Dealt out from the centre; each pixel goes where the pixels that are there already are least close to it."""
    pixels = [(y, x) for y in range(height) for x in range(width)]
    outwards = sorted(pixels, key=lambda p: ((2 * p[0] - height + 1) ** 2 + (2 * p[1] - width + 1) ** 2, p))
    dealt: list[list[tuple[int, int]]] = [[] for _ in range(parts)]
    for place, (y, x) in enumerate(outwards):
        waiting = [part for part in range(parts) if len(dealt[part]) == place // parts]
        close = {part: sum(2**40 // (9 + (y - a) ** 2 + (x - b) ** 2) ** 2 for a, b in dealt[part]) for part in waiting}
        dealt[min(waiting, key=lambda part: (close[part], part))].append((y, x))
    return [tuple(pixel in part for pixel in pixels) for part in dealt]


def grid_masks(height: int, width: int, spacing: int) -> list[Mask]:
    """Every spacing-th pixel of every spacing-th row, from each of the first ones on."""
    masks = []
    for top, left in product(range(spacing), repeat=2):
        retained = set(product(range(top, height, spacing), range(left, width, spacing)))
        masks.append(tuple((y, x) in retained for y in range(height) for x in range(width)))
    return masks


def block_masks(height: int, width: int, rows: int, columns: int, tops: int, lefts: int) -> list[Mask]:
    """Blocks of rows x columns at the first tops x lefts positions, going on at the opposite edge."""
    masks = []
    for top, left in product(range(tops), range(lefts)):
        inside = {((top + a) % height, (left + b) % width) for a in range(rows) for b in range(columns)}
        masks.append(tuple((y, x) in inside for y in range(height) for x in range(width)))
    return masks


def meets(mask: Mask, units: Sequence[int]) -> bool:
    return any(mask[unit] for unit in units)


def share_met(masks: Sequence[Mask], rho: int) -> Fraction:
    """The largest share of the masks that any rho units meet."""
    units = range(len(masks[0]))
    most = max(sum(meets(mask, chosen) for mask in masks) for chosen in combinations(units, min(rho, len(units))))
    return Fraction(most, len(masks))


def share_charged(masks: Sequence[Mask], rho: int) -> Fraction:
    """The same, with a mask that several of the units are in counted for each, and never more than all."""
    loads = sorted((sum(column) for column in zip(*masks, strict=True)), reverse=True)
    return Fraction(min(sum(loads[:rho]), len(masks)), len(masks))


# Chance: Philox4x32-10 and Floyd's algorithm, on Python's integers


def philox(key: tuple[int, int], counter: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    k0, k1 = key
    c0, c1, c2, c3 = counter
    for _ in range(10):
        one, two = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (two >> 32) ^ c1 ^ k0, two % 2**32, (one >> 32) ^ c3 ^ k1, one % 2**32
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c0, c1, c2, c3


def random_words(seed: int, example: int, draw: int, count: int) -> list[int]:
    """64-bit numbers, two from each block of four words."""
    words: list[int] = []
    for block in range(-(-count // 2)):
        a, b, c, d = philox((seed % 2**32, seed >> 32), (block, draw % 2**32, example, draw >> 32))
        words += [(a << 32) + b, (c << 32) + d]
    return words[:count]


def uniform_mask(units: int, keep: int, seed: int, example: int, draw: int) -> Mask:
    """Of retained and ablated units the fewer are drawn."""
    size = keep if 2 * keep <= units else units - keep
    taken: set[int] = set()
    for word, last in zip(random_words(seed, example, draw, size), range(units - size, units), strict=True):
        choice = word * (last + 1) >> 64
        taken.add(last if choice in taken else choice)
    return tuple((unit in taken) == (size == keep or 2 * keep <= units) for unit in range(units))


def nonuniformity(sizes: Sequence[int]) -> Fraction:
    """2**64 words dealt out to each of these numbers of values, the distance from even at most: values / 2**65 each."""
    return sum((Fraction(size, 2**65) for size in sizes), Fraction(0))


# Certificates that hold with probability 1 - alpha


def leader(votes: Votes) -> int:
    return max(range(len(votes) - 1), key=lambda label: (votes[label], -label))


def largest(deltas: Sequence[Fraction], margin: Fraction) -> int | None:
    """The last rho with delta(rho) < margin."""
    below = [rho for rho, delta in enumerate(deltas) if delta < margin]
    return max(below, default=None)


def above_by_second_choice(label: int, votes: Votes) -> tuple[int, ...]:
    """How often the label is above each class, where whoever votes for another one has it second: all valid copies but
    the class's own votes."""
    valid = sum(votes[:-1])
    return tuple(valid if other == label else valid - count for other, count in enumerate(votes[:-1]))


def interval(name: str, label: int, votes: Votes, level: Fraction) -> tuple[Fraction, Fraction]:
    total, invalid = sum(votes), votes[-1]
    if name in ("one-sided", "pairwise"):
        own = votes[label] if name == "one-sided" else min(above_by_second_choice(label, votes))
        low = clopper_pearson(own, total, level)
        return low, 1 - low
    rival = max(count for other, count in enumerate(votes[:-1]) if other != label) + invalid
    return clopper_pearson(votes[label], total, level / 2), 1 - clopper_pearson(total - rival, total, level / 2)


def margin(name: str, low: Fraction, high: Fraction) -> Fraction:
    return low - HALF if name in ("one-sided", "pairwise") else (low - high) / 2


def compared(name: str, label: int, votes: Votes) -> tuple[int, int]:
    """The votes for the label and for its rival."""
    if name == "two-sided":
        return votes[label], votes[-1] + max(count for other, count in enumerate(votes[:-1]) if other != label)
    own = votes[label] if name == "one-sided" else min(above_by_second_choice(label, votes))
    return own, sum(votes) - own


def stake(selection: Votes, name: str, most: int, level: Fraction) -> int:
    """In 1 / 1024: sqrt(2 log(1 / alpha) / (n variance)) for a fifth of the most votes, between 1 and half."""
    label, total = leader(selection), sum(selection)
    one, other = compared(name, label, selection)
    seen = total + 2
    variance = Fraction(one + other + 2, seen) - Fraction(one - other, seen) ** 2
    with mpmath.workdps(40):
        log = mpmath.log(mpmath.mpf(level.denominator) / level.numerator)
        best = mpmath.sqrt(2 * log / (max(1, most // 5) * mpmath.mpf(variance.numerator) / variance.denominator))
        return int(max(1, min(512, mpmath.floor(best * 1024))))


def stopped(
    selection: Votes, votes: Votes, deltas: Sequence[Fraction], level: Fraction, name: str, most: int
) -> int | None:
    """Every radius tried, the wealth multiplied out."""
    label, total = leader(selection), sum(votes)
    share = Fraction(stake(selection, name, most, level), 1024)
    one, rival = compared(name, label, votes)
    radius = None
    for rho, delta in enumerate(deltas):
        gap = 2 * delta
        if gap >= 1:
            break
        wealth = (1 + share * (1 - gap)) ** one * (1 - share * (1 + gap)) ** rival
        if wealth * (1 - share * gap) ** (total - one - rival) >= 1 / level:
            radius = rho
    return radius


def top_k(
    selection: Votes, votes: Votes, deltas: Sequence[Fraction], level: Fraction, k: int, label: int
) -> int | None:
    def others(counts: Votes) -> list[int]:
        return sorted((count for other, count in enumerate(counts[:-1]) if other != label), reverse=True)

    def together(counts: Votes) -> int:
        return sum(others(counts)[:k]) + counts[-1]

    def last(counts: Votes) -> int:
        return others(counts)[k - 1] + counts[-1]

    n0, n = max(1, sum(selection)), sum(votes)
    low = clopper_pearson(votes[label], n, level / 2)
    by_all = Fraction(k * selection[label] - together(selection), (k + 1) * n0)
    by_last = Fraction(selection[label] - last(selection), 2 * n0)
    if by_all >= by_last:
        high = 1 - clopper_pearson(n - together(votes), n, level / 2)
        return largest(deltas, (k * low - high) / (k + 1))
    high = 1 - clopper_pearson(n - last(votes), n, level / (2 * k))
    return largest(deltas, (low - high) / 2)


def averted(
    selection: Votes, votes: Votes, deltas: Sequence[Fraction], level: Fraction, target: int
) -> tuple[int, int | None]:
    """The first of the classes with most votes but the target, and how long it keeps ahead of it."""
    label = max((count, -other) for other, count in enumerate(selection[:-1]) if other != target)[1] * -1
    n = sum(votes)
    if len(votes) == 3:
        low = clopper_pearson(votes[label], n, level)
        return label, largest(deltas, low - HALF)
    low = clopper_pearson(votes[label], n, level / 2)
    high = 1 - clopper_pearson(n - votes[target] - votes[-1], n, level / 2)
    return label, largest(deltas, (low - high) / 2)


def predicted(votes: Votes, level: Fraction) -> int | None:
    label = leader(votes)
    one, other = votes[label], votes[-1] + max(count for rival, count in enumerate(votes[:-1]) if rival != label)
    return label if one > other and 2 * tail(one, one + other, HALF) <= level else None


# Certificates of a fixed set of masks: elections. `favoured` lists the classes, those whom ties favour first.


def first_choice(rank: Rank) -> int | None:
    return None if min(rank) == max(rank) else rank.index(min(rank))


def plurality_winner(ranks: Sequence[Rank], favoured: Sequence[int]) -> int:
    votes = [first_choice(rank) for rank in ranks]
    return max(favoured, key=lambda label: (votes.count(label), -favoured.index(label)))


def run_off_winner(ranks: Sequence[Rank], favoured: Sequence[int]) -> int:
    votes = [first_choice(rank) for rank in ranks]
    one, other = sorted(favoured, key=lambda label: (-votes.count(label), favoured.index(label)))[:2]
    lead = sum((rank[one] < rank[other]) - (rank[one] > rank[other]) for rank in ranks)
    if lead == 0:
        return min(one, other, key=favoured.index)
    return one if lead > 0 else other


def beats(ranks: Sequence[Rank], one: int, other: int, favoured: Sequence[int]) -> bool:
    above, below = (sum(rank[a] < rank[b] for rank in ranks) for a, b in ((one, other), (other, one)))
    return above > below or (above == below and favoured.index(one) < favoured.index(other))


def pairwise_winner(ranks: Sequence[Rank], favoured: Sequence[int]) -> int:
    """The class that beats every other one; where there is none, the winner of the run-off."""
    best = [one for one in favoured if all(one == other or beats(ranks, one, other, favoured) for other in favoured)]
    assert len(best) <= 1
    return best[0] if best else run_off_winner(ranks, favoured)


WINNERS = {"plurality": plurality_winner, "run-off": run_off_winner, "pairwise": pairwise_winner}


class Attack:
    """What an attack meets. `damages` is the most that the masks met cost together; with `charged`, the bound that
    counts a mask once for each perturbed unit in it."""

    def __init__(self, masks: Sequence[Mask], met: Sequence[Sequence[frozenset[int]]], charged: bool) -> None:
        self.columns, self.met, self.charged = list(zip(*masks, strict=True)), met, charged

    def damages(self, costs: Sequence[int]) -> list[int]:
        """The most that an attack of each size does."""
        if not self.charged:
            return [max(sum(costs[mask] for mask in met) for met in places) for places in self.met]
        loads = [sum(c for c, inside in zip(costs, column, strict=True) if inside) for column in self.columns]
        loads.sort(reverse=True)
        return [min(sum(costs), sum(loads[:size])) for size in range(len(self.met))]

    def radius(self, costs: Sequence[int], budget: int) -> int:
        """The largest size up to which the damage stays within the budget; -1 where it is below 0."""
        return max((size for size, adversary in enumerate(self.damages(costs)) if adversary <= budget), default=-1)


def unit_attack(masks: Sequence[Mask], charged: bool) -> Attack:
    units = range(len(masks[0]))
    if charged:
        return Attack(masks, [[] for _ in range(len(units) + 1)], charged)
    met = [
        [frozenset(i for i, mask in enumerate(masks) if meets(mask, chosen)) for chosen in combinations(units, rho)]
        for rho in range(len(units) + 1)
    ]
    return Attack(masks, met, charged)


def patch_attack(masks: Sequence[Mask], height: int, width: int) -> Attack:
    met = [[frozenset[int]()]]
    for side in range(1, min(height, width) + 1):
        places = []
        for top, left in product(range(height - side + 1), range(width - side + 1)):
            pixels = [y * width + x for y in range(top, top + side) for x in range(left, left + side)]
            places.append(frozenset(i for i, mask in enumerate(masks) if meets(mask, pixels)))
        met.append(places)
    return Attack(masks, met, charged=False)


def lead_costs(ranks: Sequence[Rank], one: int, other: int) -> list[int]:
    """By how much a mask can bring the lead of `one` over `other` in first choices down."""
    return [{one: 2, other: 0}.get(first_choice(rank), 1) for rank in ranks]  # type: ignore[arg-type]


def plurality(ranks: Sequence[Rank], attack: Attack, favoured: Sequence[int]) -> tuple[int, int]:
    label = plurality_winner(ranks, favoured)
    votes = [first_choice(rank) for rank in ranks]
    radii = []
    for rival in favoured:
        if rival != label:
            need = votes.count(label) - votes.count(rival) + (favoured.index(rival) > favoured.index(label))
            radii.append(attack.radius(lead_costs(ranks, label, rival), need - 1))
    return label, min(radii)


def run_off(ranks: Sequence[Rank], attack: Attack, favoured: Sequence[int]) -> tuple[int, int]:
    """The two ways to lose, each pair of classes by itself."""
    label, votes = run_off_winner(ranks, favoured), [first_choice(rank) for rank in ranks]

    def need(one: int, other: int) -> int:
        """By how much the lead of one over the other has to fall for the other to pass."""
        return votes.count(one) - votes.count(other) + (favoured.index(other) > favoured.index(one))

    def passed(one: int, other: int) -> int:
        return attack.radius(lead_costs(ranks, one, other), need(one, other) - 1)

    rivals, radii = [rival for rival in favoured if rival != label], []
    for rival in rivals:
        lead = sum((rank[label] < rank[rival]) - (rank[label] > rank[rival]) for rank in ranks)
        costs = [1 + (rank[label] < rank[rival]) - (rank[label] > rank[rival]) for rank in ranks]
        beaten = attack.radius(costs, lead - (favoured.index(rival) < favoured.index(label)))
        enters = [passed(third, rival) for third in rivals if third != rival]
        radii.append(max([beaten, *enters]))
    for one, other in combinations(rivals, 2):
        costs = [{label: 3, one: 0, other: 0}.get(first_choice(rank), 1) for rank in ranks]  # type: ignore[arg-type]
        together = attack.radius(costs, need(label, one) + need(label, other) - 1)
        radii.append(max(passed(label, one), passed(label, other), together))
    return label, min(radii)


def pairwise(ranks: Sequence[Rank], attack: Attack, favoured: Sequence[int]) -> tuple[int, int]:
    """Each pair by itself; in a cycle nothing but the answer."""
    label, radii = pairwise_winner(ranks, favoured), []
    for rival in favoured:
        if rival != label:
            if not beats(ranks, label, rival, favoured):
                return label, 0
            lead = sum((rank[label] < rank[rival]) - (rank[label] > rank[rival]) for rank in ranks)
            costs = [1 + (rank[label] < rank[rival]) - (rank[label] > rank[rival]) for rank in ranks]
            radii.append(attack.radius(costs, lead - (favoured.index(rival) < favoured.index(label))))
    return label, min(radii)


RULES = {"plurality": plurality, "run-off": run_off, "pairwise": pairwise}


def survives(name: str, ranks: Sequence[Rank], met: frozenset[int], orders: Sequence[Rank]) -> bool:
    """Whether the winner stays whatever the masks that are met are made to say."""
    favoured = range(len(ranks[0]))
    label, places = WINNERS[name](ranks, favoured), sorted(met)
    for said in product(orders, repeat=len(places)):
        changed = list(ranks)
        for place, rank in zip(places, said, strict=True):
            changed[place] = rank
        if WINNERS[name](changed, favoured) != label:
            return False
    return True


# Units replaced by random other values


def needed(values: int, kappa: Fraction, rho: int) -> Fraction:
    """Copy by copy: the p under x at which the likeliest copies first, p of them, have 1/2 under x'."""
    beta = (1 - kappa) / (values - 1)
    copies = []
    for copy in product(range(values), repeat=rho):  # x is all 0, x' all 1
        own = other = Fraction(1)
        for shown in copy:
            own *= kappa if shown == 0 else beta
            other *= kappa if shown == 1 else beta
        copies.append((own, other))
    copies.sort(key=lambda pair: (pair[1] == 0, pair[0] / pair[1] if pair[1] else 0), reverse=True)
    own_sum = other_sum = Fraction(0)
    for own, other in copies:
        if other and other_sum + other >= HALF:
            return own_sum + (HALF - other_sum) * own / other
        own_sum, other_sum = own_sum + own, other_sum + other
    raise AssertionError("all copies together have probability 1")


def multinomials(total: int, classes: int) -> Iterator[Votes]:
    """Every way to share out so many votes."""
    if classes == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in multinomials(total - first, classes - 1):
            yield first, *rest


def chance_of(votes: Votes, shares: Sequence[Fraction]) -> Fraction:
    chance, left = Fraction(1), sum(votes)
    for count, share in zip(votes, shares, strict=True):
        chance *= comb(left, count) * share**count
        left -= count
    return chance
