"""Mutants that change nothing that is promised, each with the reason; reviewed by hand, and an error once stale."""

from __future__ import annotations

SELF = "a class is never its own rival, so that the two numbers are never equal"
SHORT = "it only saves work: what is skipped could not lower the radius"
MORE = "it only looks at more rivals than it must"
NO_COUNT = "no count is below 0, so that the largest is the same"
SLOWER = "64 bits instead of 16 sort the same, only more slowly"
NO_LESS = "no cost is below 0, so that the largest and the smallest are the same"

LEAST = "certificates/adversary.py  PerturbedUnits.least_radii: "
PAID = "certificates/adversary.py  PerturbedUnits._paid: "
RUNNER_UP = "certificates/corollary_2.py  with_runner_up: others[each, labels] = -1 -> others[each, labels]"

EQUIVALENTS: dict[str, str] = {
    "schemes/philox.py  words: count + 1 -> count + 2": "it draws words that are then cut off",
    "schemes/philox.py  words: (count + 1) // 2 -> (count + 1) // 1": "it draws words that are then cut off",
    "schemes/philox.py  words: (count + 1) // 2 -> (count + 1) * 2": "it draws words that are then cut off",
    "schemes/lattice.py  Lattice._spread: across * x + down * y -> across * x - down * y": (
        "the mirror image of a part has the same distances, and x goes both ways"
    ),
    "certificates/adversary.py  PerturbedUnits.radii: self.disjoint or not self.seconds -> self.disjoint and (not "
    "self.seconds)": "it only saves work: of disjoint masks the radius is exact, and without time nothing is tried",
    "certificates/adversary.py  ClaimedUnits.radii: flat < self.claimed -> flat <= self.claimed": (
        "where they are equal it proves again what is known"
    ),
    f"{RUNNER_UP} = -0": NO_COUNT,
    f"{RUNNER_UP} = -2": NO_COUNT,
    f"{LEAST}max(1, int(costs.max(initial=0)) * self._most_masks) -> "
    "max(2, int(costs.max(initial=0)) * self._most_masks)": MORE,
    f"{LEAST}costs.max(initial=0) -> costs.max(initial=1)": MORE,
    f"{LEAST}costs.max(initial=0) -> costs.max(initial=-1)": NO_LESS,
    f"{LEAST}budgets.argmin(axis=0) -> budgets.argmax(axis=0)": MORE,
    f"{LEAST}budgets // charge < found -> budgets // charge <= found": MORE,
    f"{LEAST}unclear[first, inputs] = False -> unclear[first, inputs] = True": MORE,
    f"{PAID}costs.max(initial=0) -> costs.max(initial=1)": "16 bits suffice for 1, too",
    f"{PAID}costs.max(initial=0) -> costs.max(initial=-1)": NO_LESS,
    f"{PAID}costs.min(initial=0) -> costs.min(initial=1)": "a cost below 0 is found all the same",
    f"{PAID}1 << 15 -> 1 >> 15": SLOWER,
    f"{PAID}1 << 15 -> 0 << 15": SLOWER,
    "certificates/random_values.py  _needed: 2 * (other + there) >= total -> 2 * (other + there) > total": (
        "where they are equal this piece ends at 1/2 and the next begins there: both say own + here"
    ),
    "certificates/pairwise.py  pairwise: classes < winners -> classes <= winners": SELF,
    "certificates/pairwise.py  pairwise_standings: classes > label -> classes >= label": (
        "every class is above itself in all copies and below itself in none"
    ),
    "schemes/spread.py  Spread._table: np.zeros(self.units, dtype=np.int64) -> np.ones(self.units, dtype=np.int64)": (
        "every pixel is dealt out, which overwrites it"
    ),
    "schemes/spread.py  Spread._table: np.zeros((self.parts, self.units), dtype=np.int64) -> "
    "np.ones((self.parts, self.units), dtype=np.int64)": "all parts are closer by the same, so that none is preferred",
    "certificates/plurality.py  plurality: rivals < winners -> rivals <= winners": SELF,
    "certificates/run_off.py  _passed: rivals < leader -> rivals <= leader": SELF,
    "certificates/run_off.py  _beaten: np.arange(ranks.shape[1]) < label -> np.arange(ranks.shape[1]) <= label": (
        "only the label's own entry differs, and that is never read"
    ),
    "certificates/run_off.py  _pairs_pass: pairs > label -> pairs >= label": SELF,
    "certificates/run_off.py  _overtakes: (-counts[other], other) < (-counts[rival], rival) -> "
    "(-counts[other], other) <= (-counts[rival], rival)": SELF,
    "certificates/run_off.py  _overtakes: (-counts[other], other) < (-counts[rival], rival) -> "
    "(-counts[other], other) < (+counts[rival], rival)": "a class that is behind the rival adds a -1 to the largest",
    "certificates/run_off.py  run_off: beaten[rival] >= radius -> beaten[rival] > radius": SHORT,
    "certificates/run_off.py  _both_pass: passed[order[later]] >= most -> passed[order[later]] > most": SHORT,
}
