"""Mutants that change nothing that is promised, each with the reason; reviewed by hand, and an error once stale."""

from __future__ import annotations

SELF = "a class is never its own rival, so that the two numbers are never equal"
PROPOSED = "a price is only a proposal, and a millionth more or less of it proves the same"
SHORT = "it only saves work: what is passed over could not lower the radius"

MORE = "it makes the rest larger, and what doubles then do not prove, the integers do"

EQUIVALENTS: dict[str, str] = {
    "bounds/binomial.py  _lower_sum_reaches: up < down -> up <= down": (
        "from where they are equal the terms fall: what it leaves out is within the 2**-60 that is stated"
    ),
    "bounds/binomial.py  proved_in_floats: successes + reach < trials -> successes + reach <= trials": (
        "where they are equal the ratio is 0, and so is the rest"
    ),
    "bounds/binomial.py  proved_in_floats: successes + reach + 1 -> successes + reach - 1": MORE,
    "bounds/binomial.py  proved_in_floats: successes + reach + 1 -> successes + reach + 0": MORE,
    "bounds/binomial.py  proved_in_floats: ratio > 1 - 2.0 ** (-20) -> ratio >= 1 - 2.0 ** (-20)": (
        "where to leave it to the integers is a choice"
    ),
    "bounds/binomial.py  proved_in_floats: reach + 16 -> reach - 16": (
        "the slack is four times what the rounding needs: sixteen terms more or less are within it"
    ),
    "bounds/binomial.py  proved_in_floats: (upper + rest) * remainder * (1 + slack) <= share *"
    " lower * (1 - slack) -> (upper + rest) * remainder * (1 + slack) < share * lower * (1 - sl"
    "ack)": ("where the two doubles are equal, the integers prove it"),
    "bounds/binomial.py  _upper_sum_from: -term * up // (down - up) -> -term * up * (down - up)": (
        "it only ends later: all terms are then added one by one"
    ),
    "bounds/binomial.py  _upper_sum_from: rest <= total >> NEGLIGIBLE -> rest < total >> NEGLIGIBLE": (
        "it only ends one term later"
    ),
    "bounds/binomial.py  _lower_sum_reaches: term, total = (SCALE, 0) -> term, total = (SCALE, -1)": (
        "less by 2**-192: what is not proved for that is within the 2**-60 that is stated"
    ),
    "bounds/binomial.py  _lower_sum_reaches: range(successes, 0, -1) -> range(successes, -1, -1)": (
        "the term for 0 is 0"
    ),
    "bounds/binomial.py  _lower_sum_reaches: total >= needed or (up < down and term <= total >>"
    " NEGLIGIBLE) -> total >= needed and (up < down and term <= total >> NEGLIGIBLE)": (
        "it only ends later, and the sum can only grow"
    ),
    "bounds/binomial.py  _lower_sum_reaches: total >= needed -> total > needed": (
        "it only ends later, and the sum can only grow"
    ),
    "certificates/damage.py  AlteredUnits._tightened: 0 <= radius < self.units -> 0 < radius < self.units": (
        "what one altered unit costs is exact already: from 0 there is nothing to gain"
    ),
    "schemes/philox.py  words: count + 1 -> count + 2": "it draws words that are then cut off",
    "schemes/philox.py  words: (count + 1) // 2 -> (count + 1) // 1": "it draws words that are then cut off",
    "schemes/philox.py  words: (count + 1) // 2 -> (count + 1) * 2": "it draws words that are then cut off",
    "schemes/lattice.py  Lattice._spread: across * x + down * y -> across * x - down * y": (
        "the mirror image of a part has the same distances, and x goes both ways"
    ),
    "certificates/damage.py  AlteredUnits.radii: self.disjoint or not self.seconds -> self.disjoint and (not "
    "self.seconds)": "it only saves work: of disjoint masks the radius is exact, and without time nothing is tried",
    "certificates/prices.py  proposed_prices: np.zeros(units) -> np.ones(units)": (
        "the relaxed attack alters rho units in all in any case, so that a gain from each is a constant"
    ),
    "certificates/prices.py  proposed_prices: np.clip(np.rint(-SCALE * solved.ineqlin.marginals[:count]), 0, SCALE * "
    "costs) -> np.clip(np.rint(-SCALE * solved.ineqlin.marginals[:count]), 1, SCALE * costs)": PROPOSED,
    "certificates/prices.py  proposed_prices: np.clip(np.rint(-SCALE * solved.ineqlin.marginals[:count]), 0, SCALE * "
    "costs) -> np.clip(np.rint(-SCALE * solved.ineqlin.marginals[:count]), -1, SCALE * costs)": PROPOSED,
    "certificates/plurality.py  plurality: rivals < label -> rivals <= label": SELF,
    "certificates/run_off.py  _passed: rivals < leader -> rivals <= leader": SELF,
    "certificates/run_off.py  _beaten: np.arange(ranks.shape[1]) < label -> np.arange(ranks.shape[1]) <= label": (
        "only the label's own entry differs, and that is never read"
    ),
    "certificates/run_off.py  _pairs_pass: pairs > label -> pairs >= label": SELF,
    "certificates/run_off.py  _enters: (-counts[other], other) < (-counts[rival], rival) -> "
    "(-counts[other], other) <= (-counts[rival], rival)": SELF,
    "certificates/run_off.py  _enters: (-counts[other], other) < (-counts[rival], rival) -> "
    "(-counts[other], other) < (+counts[rival], rival)": "a class that is behind the rival adds a -1 to the largest",
    "certificates/run_off.py  _enters: max((int(_passed(labels, counts, other, np.array([rival]), damage).item()) for "
    "other in ahead), default=-1) -> max((int(_passed(labels, counts, other, np.array([rival]), damage).item()) for "
    "other in ahead), default=-0)": "with nobody ahead the rival is in round two and lost it, so that `beaten` is 0 up",
    "certificates/run_off.py  _enters: max((int(_passed(labels, counts, other, np.array([rival]), damage).item()) for "
    "other in ahead), default=-1) -> max((int(_passed(labels, counts, other, np.array([rival]), damage).item()) for "
    "other in ahead), default=-2)": "with nobody ahead the rival is in round two and lost it, so that `beaten` is 0 up",
    "certificates/run_off.py  _both_pass: range(1, len(order)) -> range(0, len(order))": (
        "the first class has none before it to make a pair with"
    ),
    "certificates/run_off.py  _both_pass: passed[order[later]] >= most -> passed[order[later]] > most": SHORT,
}
