"""Mutants that change nothing that is promised, each with the reason; reviewed by hand, and an error once stale."""

from __future__ import annotations

SELF = "a class is never its own rival, so that the two numbers are never equal"
SHORT = "it only saves work: what is skipped could not lower the radius"
MORE = "it only looks at more rivals than it must"
NO_COUNT = "no count is below 0, so that the largest is the same"
SLOWER = "64 bits instead of 16 sort the same, only more slowly"
NO_LESS = "no cost is below 0, so that the largest and the smallest are the same"
UNPERTURBED = "the winner does not lose where nothing is perturbed, so that another of the numbers is 0 or more"

RUN_OFF = "certificates/run_off.py  "
ROUND_ONE = f"{RUN_OFF}_RoundOne."
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
    f"{RUN_OFF}_beaten: rival < winners -> rival <= winners": "it changes only the winner's own, which is not read",
    f"{ROUND_ONE}overtaken: rivals < leaders -> rivals <= leaders": SELF,
    f"{ROUND_ONE}both_overtake: rivals > winners -> rivals >= winners": SELF,
    f"{ROUND_ONE}none_enters_and_beats: enough < radii -> enough <= radii": SHORT,
    f"{ROUND_ONE}_enters: np.full(len(rows), -1) -> np.full(len(rows), -0)": UNPERTURBED,
    f"{ROUND_ONE}_enters: np.full(len(rows), -1) -> np.full(len(rows), -2)": UNPERTURBED,
    f"{ROUND_ONE}no_two_overtake: enough >= radii -> enough > radii": SHORT,
    f"{ROUND_ONE}no_two_overtake: enough < radii -> enough <= radii": SHORT,
}
