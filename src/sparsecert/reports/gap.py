"""Certificates and attacks of one classifier compared: between them lies its true robustness."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from sparsecert.certificates import Certificate
from sparsecert.certificates.plurality import ExactCertificate
from sparsecert.errors import InputError
from sparsecert.procedures.exact import PATCHES, PIXELS, Exact
from sparsecert.records import AttackRecords, Record, Records, is_exact
from sparsecert.reports.attacks import accuracy_under_attack, median_magnitude
from sparsecert.reports.classification import SAME_CLASSIFIER, fact
from sparsecert.reports.exact import elected
from sparsecert.reports.medians import certified_accuracy, median_certified_robustness
from sparsecert.reports.summary import Summary, certificates_of
from sparsecert.schemes import Scheme
from sparsecert.schemes import from_config as scheme_from_config

SAME_IMAGES = (("data", "split"), *SAME_CLASSIFIER)


@dataclass(frozen=True)
class Pair:
    """One image: the class that it is certified for and up to which radius, and what the attack found.

    `proved` is None where the certifier abstained; `distance` None where nothing was found, `said` None where the
    classifier abstains.
    """

    example: int
    true: int
    label: int | None
    proved: int | None
    distance: int | None
    said: int | None

    @property
    def radius(self) -> int | None:
        """The certified radius, None where it is not certified for the true class."""
        return self.proved if self.label == self.true else None

    @property
    def abstained(self) -> bool:
        """Whether the attack brought the classifier to abstain."""
        return self.distance is not None and self.said is None

    @property
    def within(self) -> bool:
        """Whether what the attack found lies within the radius of the image's certificate, be it for a wrong class."""
        return self.proved is not None and self.distance is not None and self.distance <= self.proved

    @property
    def broken(self) -> bool:
        """Whether the classifier then answers another class than the certified one, which the certificate rules out.

        It does not rule out an abstention.
        """
        return self.within and not self.abstained and self.said != self.label


@dataclass(frozen=True)
class Gap:
    """Certificates against an attack, over the images that both runs have.

    At each rho the accuracy of the classifier under the worst change of rho pixels lies between `certified_accuracy`
    and `accuracy_under_attack`, but that an abstention counts as a success of the attack. `exact`: the certificates
    hold always, so that even one that is broken is an error.
    """

    certificates: Path
    attack: Path
    pairs: tuple[Pair, ...]
    exact: bool = False

    @property
    def certified_accuracy(self) -> tuple[float, ...]:
        """See `certified_accuracy`."""
        return certified_accuracy([pair.radius for pair in self.pairs])

    @property
    def accuracy_under_attack(self) -> tuple[float, ...]:
        """See `accuracy_under_attack`."""
        return accuracy_under_attack([pair.distance for pair in self.pairs])

    @property
    def median_certified(self) -> int | None:
        """The median certified robustness."""
        return median_certified_robustness([pair.radius for pair in self.pairs])

    @property
    def median_attacked(self) -> float:
        """The median adversarial attack magnitude."""
        return median_magnitude([pair.distance for pair in self.pairs])

    @property
    def certified(self) -> int:
        """The images with a certificate, for whichever class."""
        return sum(pair.proved is not None for pair in self.pairs)

    @property
    def broken(self) -> tuple[int, ...]:
        """The images given another class than the certified one within their certified radius: there must be none."""
        return tuple(pair.example for pair in self.pairs if pair.broken)

    @property
    def abstained_within(self) -> int:
        """The images brought to an abstention within their certified radius."""
        return sum(pair.within and pair.abstained for pair in self.pairs)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; an infinite median is null."""
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
            "median_certified_robustness": self.median_certified,
            "median_adversarial_attack_magnitude": None if attacked == float("inf") else attacked,
            "certified_accuracy": list(self.certified_accuracy),
            "accuracy_under_attack": list(self.accuracy_under_attack),
        }


def gap_of(records: Records, findings: AttackRecords, summary: Summary) -> Gap:
    """Certificates, drawn again from the votes as `summary` did (by its alpha and bound, or its rule), against what
    was found.

    Refuses runs of different models, data or splits, of different votes, and runs that have no image in common.
    """
    check_same_images(records, findings)
    check_same_vote(records, findings, summary)
    scheme = scheme_from_config(summary.scheme)
    found = {line.example: line for line in findings.lines if line.failed is None}
    per_pixel = units_of_a_pixel(findings.header.run, scheme)
    pairs = []
    for line, certificate in _certificates(records, scheme, summary):
        against = found.get(line.example)
        if against is not None:
            found_at = against.distance, against.answer
            proved = None if certificate.radius is None else certificate.radius // per_pixel
            pairs.append(Pair(line.example, line.true, certificate.label, proved, *found_at))
    if not pairs:
        raise InputError(
            f"{records.path} and {findings.path} have no image in common; attack images that are certified"
        )
    return Gap(records.path, findings.path, tuple(pairs), summary.exact)


def units_of_a_pixel(run: dict[str, Any], scheme: Scheme) -> int:
    """How many units one changed pixel alters at most: several where its channels are apart, as `RandomValues` and
    `Grouped` may have them.
    """
    groups = np.asarray((run.get("encoding") or {}).get("groups", 0))
    if groups.ndim == 3:
        return max(len(np.unique(groups[:, y, x])) for y, x in np.ndindex(*groups.shape[1:]))
    pixels: int = prod(run["data"]["shape"][1:])
    return max(1, scheme.units // pixels)


def _certificates(
    records: Records, scheme: Scheme, summary: Summary
) -> Iterator[tuple[Record, Certificate | ExactCertificate]]:
    """Each input with its certificate, of either kind."""
    if summary.exact:
        assert summary.bound is not None
        return elected(records, scheme, Exact(summary.bound, summary.against, summary.seconds or 0.0))
    assert summary.alpha is not None
    assert summary.bound is not None
    return certificates_of(records, scheme, summary.alpha, summary.bound)


def check_same_images(records: Records, findings: AttackRecords) -> None:
    """Refuses an attack on another classifier than the one certified, or on other data."""
    differing = difference(records, findings)
    if differing is not None:
        name, there, here = differing
        raise InputError(
            f"{findings.path} does not belong to {records.path}: its {name} is {there}, not {here}; "
            "name certificates and attacks of the same model, data and split"
        )


def difference(records: Records, findings: AttackRecords) -> tuple[str, object, object] | None:
    """The first fact in which the two are of different classifiers or data: its name, the attack's, the other's."""
    for keys in SAME_IMAGES:
        there, here = fact(findings.header.run, keys), fact(records.header.run, keys)
        if there != here:
            return " ".join(keys), there, here
    return None


def check_same_vote(records: Records, findings: AttackRecords, summary: Summary) -> None:
    """Refuses an attack on another vote than the one certified, though of the same model: see `_apart`."""
    why = _apart(records, findings, summary)
    if why is not None:
        raise InputError(why)


def _apart(records: Records, findings: AttackRecords, summary: Summary) -> str | None:
    """Why a certificate and an attack of the same model and data say nothing of each other; None where they do.

    A vote by masks drawn at random is another classifier than that of all masks of a fixed set, as is one by another
    rule; and a radius that is the side of a patch is not of pixels anywhere.
    """
    certified, attacked = str(records.path), str(findings.path)
    votes = {True: "the vote of all masks of a fixed set", False: "a vote by masks drawn at random"}
    here, there = summary.exact, is_exact(findings.header)
    if here != there:
        return (
            f"{certified} certifies {votes[here]}, and {attacked} attacks {votes[there]}: they say nothing of each "
            "other; report them apart, or attack and certify the same"
        )
    rule = findings.header.run.get("rule")
    if here and rule != summary.bound:
        return (
            f"{certified} is certified by {summary.bound}, and {attacked} attacks the vote by {rule}: they say nothing "
            f"of each other; add --rule {rule}, or report them apart"
        )
    if here and summary.against == PATCHES:
        return (
            f"{certified} is certified against patches, whose radius is the side of a square, and {attacked} changes "
            f"pixels anywhere: they say nothing of each other; add --against {PIXELS}, or report them apart"
        )
    return None


def gaps_of(certified: list[tuple[Records, Summary]], attacks: list[AttackRecords]) -> list[Gap]:
    """Each attack against the certificates of the classifier it attacked; refuses one that has none among these.

    Of certificates by both rules, or both sampled and exact, those of the vote that was attacked are taken.
    """
    gaps = []
    for findings in attacks:
        fitting = [pair for pair in certified if difference(pair[0], findings) is None]
        if certified and not fitting:
            check_same_images(certified[0][0], findings)
        same = [(records, summary) for records, summary in fitting if _apart(records, findings, summary) is None]
        if fitting and not same:
            check_same_vote(fitting[0][0], findings, fitting[0][1])
        gaps += [gap_of(records, findings, summary) for records, summary in same]
    return gaps
