"""Comparing certificates with attacks on the same classifier: its true robustness lies between them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from sparsecert.errors import InputError
from sparsecert.procedures.exact import PATCHES, PIXELS
from sparsecert.records import AttackRecords, Records, is_exact
from sparsecert.reports.attacks import accuracy_under_attack, median_magnitude
from sparsecert.reports.classification import SAME_CLASSIFIER, Settings, check_belongs, first_difference
from sparsecert.reports.medians import certified_accuracy, median_certified_robustness
from sparsecert.reports.summary import Summary, recertify
from sparsecert.schemes import Scheme
from sparsecert.schemes import from_config as scheme_from_config

SAME_IMAGES: Settings = (("data", "split"), *SAME_CLASSIFIER)


@dataclass(frozen=True)
class Pair:
    """One image: its certified class and radius, and what the attack found.

    `proved` is None if the certifier abstained, `distance` if nothing was found, `answer` if the attacked classifier
    abstains.
    """

    example: int
    true: int
    label: int | None
    proved: int | None
    distance: int | None
    answer: int | None

    @property
    def radius(self) -> int | None:
        """The certified radius; None if not certified for the true class."""
        return self.proved if self.label == self.true else None

    @property
    def abstained(self) -> bool:
        """Whether the attack made the classifier abstain."""
        return self.distance is not None and self.answer is None

    @property
    def within(self) -> bool:
        """Whether the attack succeeded within the certified radius, be it for a wrong class."""
        return self.proved is not None and self.distance is not None and self.distance <= self.proved

    @property
    def broken(self) -> bool:
        """Whether the attack changed the certified answer within the radius, which the certificate rules out.

        It does not rule out an abstention.
        """
        return self.within and not self.abstained and self.answer != self.label


@dataclass(frozen=True)
class Gap:
    """Certificates compared with an attack, on the images of both runs.

    At each rho, the accuracy under the worst perturbation of rho pixels lies between `certified_accuracy` and
    `accuracy_under_attack`, where abstentions count as successes of the attack, unless its goal was to misclassify.
    `exact`: the certificates are deterministic, so a single broken one is an error. `computed` says where and in which
    precision the certificates and the attack were: rounding may make two classifiers of one model.
    """

    certificates: Path
    attack: Path
    pairs: tuple[Pair, ...]
    exact: bool = False
    computed: tuple[str, str] = ("", "")

    @property
    def certified_accuracy(self) -> tuple[float, ...]:
        return certified_accuracy([pair.radius for pair in self.pairs])

    @property
    def accuracy_under_attack(self) -> tuple[float, ...]:
        return accuracy_under_attack([pair.distance for pair in self.pairs])

    @property
    def median_certified(self) -> int | None:
        return median_certified_robustness([pair.radius for pair in self.pairs])

    @property
    def median_attacked(self) -> float:
        return median_magnitude([pair.distance for pair in self.pairs])

    @property
    def certified(self) -> int:
        """The number of images with a certificate, for any class."""
        return sum(pair.proved is not None for pair in self.pairs)

    @property
    def broken(self) -> tuple[int, ...]:
        """The images whose certified answer was changed within the radius: there must be none."""
        return tuple(pair.example for pair in self.pairs if pair.broken)

    @property
    def abstained_within(self) -> int:
        """The number of images on which the attack forced an abstention within the radius."""
        return sum(pair.within and pair.abstained for pair in self.pairs)

    @property
    def beyond(self) -> tuple[int, ...]:
        """For each image certified for its true class and then misclassified, how many more pixels that took than its
        radius. Never below 1, or the certificate is broken.
        """
        wrong = [(pair.distance, pair.radius) for pair in self.pairs if not pair.abstained]
        return tuple(distance - radius for distance, radius in wrong if distance is not None and radius is not None)

    def to_dict(self) -> dict[str, Any]:
        """JSON values; an infinite median is null."""
        attacked = self.median_attacked
        return {
            "certificates": str(self.certificates),
            "attack": str(self.attack),
            "exact": self.exact,
            "images": len(self.pairs),
            "certified": self.certified,
            "attacks_within_certified_radius": len(self.broken),
            "broken_certificates": list(self.broken),
            "abstentions_within_certified_radius": self.abstained_within,
            "misclassifications": len(self.beyond),
            "least_pixels_beyond_radius": min(self.beyond, default=None),
            "median_pixels_beyond_radius": median(self.beyond) if self.beyond else None,
            "median_certified_robustness": self.median_certified,
            "median_adversarial_attack_magnitude": None if attacked == float("inf") else attacked,
            "certified_accuracy": list(self.certified_accuracy),
            "accuracy_under_attack": list(self.accuracy_under_attack),
        }


def compute_gap(records: Records, attack: AttackRecords, summary: Summary) -> Gap:
    """Compares an attack with certificates recomputed as in `summary` (by its alpha and bound, or its rule).

    Refuses runs with different models, data, splits or votes, and runs without a common image.
    """
    check_belongs(records, attack, SAME_IMAGES, "name certificates and attacks of the same model, data and split")
    mismatch = _mismatch(records, attack, summary)
    if mismatch is not None:
        raise InputError(mismatch)
    found = {line.example: line for line in attack.lines if line.failed is None}
    per_pixel = units_per_pixel(attack.header.run, scheme_from_config(summary.scheme))
    pairs = []
    for line, certificate in recertify(records, summary):
        against = found.get(line.example)
        if against is not None:
            proved = None if certificate.radius is None else certificate.radius // per_pixel
            pairs.append(Pair(line.example, line.true, certificate.label, proved, against.distance, against.answer))
    if not pairs:
        raise InputError(f"{records.path} and {attack.path} have no input in common; attack inputs that are certified")
    return Gap(records.path, attack.path, tuple(pairs), summary.exact, (_computed(records), _computed(attack)))


def _computed(records: Records | AttackRecords) -> str:
    run = records.header.run
    return f"{run.get('device', 'an unknown device')} in {run.get('precision', 'an unknown precision')}"


def units_per_pixel(run: dict[str, Any], scheme: Scheme) -> int:
    """The most units that one perturbed pixel changes: several if its channels are separate units, as `RandomValues`
    and `Grouped` allow. Of a row or a text, attacks perturb units.
    """
    groups = np.asarray((run.get("encoding") or {}).get("groups", 0))
    if groups.ndim == 3:
        return max(len(np.unique(groups[:, y, x])) for y, x in np.ndindex(*groups.shape[1:]))
    shape = run["data"]["shape"]
    return 1 if len(shape) == 1 or scheme.is_open else max(1, scheme.units // prod(shape[1:]))


def _mismatch(records: Records, attack: AttackRecords, summary: Summary) -> str | None:
    """Why a certificate and an attack on the same model and data cannot be compared; None if they can.

    Random masks and a fixed set of masks are different classifiers, as are two election rules; and the side of a patch
    is not a number of pixels.
    """
    certified, attacked = str(records.path), str(attack.path)
    votes = {True: "the vote of a fixed set of masks", False: "a vote of random masks"}
    here, there = summary.exact, is_exact(attack.header)
    if here != there:
        return (
            f"{certified} certifies {votes[here]}, but {attacked} attacks {votes[there]}: they cannot be compared; "
            "report them separately, or attack and certify the same"
        )
    rule = attack.header.run.get("rule", "plurality")
    if rule != summary.rule:
        remedy = f"--rule {rule}" if here else f"--bound {'two-sided' if rule == 'plurality' else rule}"
        return (
            f"{certified} is certified by {summary.rule}, but {attacked} attacks the vote by {rule}: they cannot be "
            f"compared; add {remedy}, or report them separately"
        )
    if here and summary.against == PATCHES:
        return (
            f"{certified} is certified against patches, whose radius is the side of a square, but {attacked} perturbs "
            f"pixels anywhere: they cannot be compared; add --against {PIXELS}, or report them separately"
        )
    return None


def compute_gaps(certified: list[tuple[Records, Summary]], attacks: list[AttackRecords]) -> list[Gap]:
    """Compares each attack with the certificates of the classifier it attacked; refuses an attack without any.

    Of certificates by several rules, or both sampled and exact, those of the attacked vote are taken.
    """
    gaps = []
    for attack in attacks:
        fitting = [pair for pair in certified if first_difference(pair[0], attack, SAME_IMAGES) is None]
        same = [(records, summary) for records, summary in fitting if _mismatch(records, attack, summary) is None]
        compared = same or fitting[:1] or certified[:1]  # without the same vote, `compute_gap` refuses and says why
        gaps += [compute_gap(records, attack, summary) for records, summary in compared]
    return gaps
