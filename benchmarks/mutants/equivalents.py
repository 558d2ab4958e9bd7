"""Mutants that change nothing that is promised, each with the reason; reviewed by hand, and an error once stale."""

from __future__ import annotations

SELF = "a class is never its own rival, so that the two numbers are never equal"
SHORT = "it only saves work: what is passed over could not lower the radius"

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
    "certificates/random_values.py  _needed: 2 * (other + there) >= total -> 2 * (other + there) > total": (
        "where they are equal this piece ends at 1/2 and the next begins there: both say own + here"
    ),
    "certificates/pairwise.py  pairwise: classes < winners -> classes <= winners": SELF,
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
