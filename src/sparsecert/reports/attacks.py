"""Summarising an attack run: upper bounds on robustness, where certificates are lower bounds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar

from sparsecert.errors import InputError
from sparsecert.records import AttackRecords
from sparsecert.records.attack_records import ANY
from sparsecert.reports.run_info import RunInfo, common_settings, damaged_header_refused


@dataclass(frozen=True, kw_only=True)
class AttackSummary(RunInfo):
    """The settings of an attack run, and its results on the `attacked` images.

    An image's adversarial attack magnitude is the distance to the nearest image on which the defender is wrong or
    abstains: 0 if it already is on the image itself, infinite if none was found. `accuracy_under_attack[rho]` is the
    share of images with a magnitude above rho, for rho from 0 to the largest one found. `failed` images, to which the
    model gives no answer, are in none of the shares. scheme, n, alpha, masks and error are None for an undefended
    model; error is also None if every query drew fresh masks. For a fixed set, `masks` is its size (all of them vote)
    and n, alpha and error are None. `rule` is how votes elect the answer; None means plurality for random masks. With
    the goal "misclassify", an abstention is no success of the attack.
    """

    attack: dict[str, Any]
    error: float | None
    rule: str | None
    budget: int | None
    goal: str
    group: int
    failed: int
    accuracy_under_attack: tuple[float, ...]
    median: float
    right: int
    successes: int
    abstentions: int
    mean_queries: float
    mean_evaluations: float
    mean_seconds: float

    json_names: ClassVar[str] = """
        records label kind inputs expected_inputs failed clean_accuracy median_adversarial_attack_magnitude
        successes abstentions_among_successes mean_queries mean_evaluations mean_seconds
        attack budget goal data split chosen model model_sha256 scheme n alpha masks error rule seed group
        precision device device_name accuracy_under_attack
    """
    json_attributes: ClassVar[dict[str, str]] = {
        **RunInfo.json_attributes,
        "median_adversarial_attack_magnitude": "median",
        "abstentions_among_successes": "abstained",
    }

    @property
    def attacked(self) -> int:
        """The number of images that the shares refer to."""
        return self.inputs - self.failed

    @property
    def clean_accuracy(self) -> float:
        """The share of unperturbed images that the defender classifies correctly."""
        return self.right / self.attacked

    @property
    def abstained(self) -> float | None:
        """The share of successful attacks in which the defender abstains; None without successes."""
        return self.abstentions / self.successes if self.successes else None

    def accuracy_at(self, rho: int) -> float:
        """The share of images on which the attack found nothing within rho pixels."""
        return self.accuracy_under_attack[min(rho, len(self.accuracy_under_attack) - 1)]

    def success_at(self, rho: int) -> float:
        """Of the images classified correctly without perturbation, the share fooled within rho pixels."""
        return (self.clean_accuracy - self.accuracy_at(rho)) / self.clean_accuracy if self.right else 0.0


def summarise_attack(records: AttackRecords) -> AttackSummary:
    lines = [line for line in records.lines if line.failed is None]
    if not lines and len(records.lines):
        reason = next(iter(records.lines)).failed
        raise InputError(f"{records.path} holds only inputs that could not be attacked; the first: {reason}")
    if not lines:
        raise InputError(f"{records.path} holds no attacked inputs yet; wait for the run that writes it, or start it")
    found = [line for line in lines if line.distance]
    return AttackSummary(
        **_settings(records),
        failed=len(records.lines) - len(lines),
        accuracy_under_attack=accuracy_under_attack([line.distance for line in lines]),
        median=median_magnitude([line.distance for line in lines]),
        right=sum(line.distance != 0 for line in lines),
        successes=len(found),
        abstentions=sum(line.abstained for line in found),
        mean_queries=sum(line.queries for line in lines) / len(lines),
        mean_evaluations=sum(line.evaluations for line in lines) / len(lines),
        mean_seconds=sum(line.seconds for line in lines) / len(lines),
    )


def accuracy_under_attack(distances: Sequence[int | None]) -> tuple[float, ...]:
    """The share of images with distance above rho, for rho = 0, 1, ... up to the largest; None is infinite.

    >>> accuracy_under_attack([0, 1, 3, None])
    (0.75, 0.5, 0.5, 0.25)
    """
    at, above, shares = Counter(distances), len(distances), []
    for rho in range(max((distance for distance in distances if distance is not None), default=0) + 1):
        above -= at[rho]
        shares.append(above / len(distances))
    return tuple(shares)


def median_magnitude(distances: Sequence[int | None]) -> float:
    """The median adversarial attack magnitude; None is infinite.

    >>> median_magnitude([0, 31, None]), median_magnitude([4, 5]), median_magnitude([4, None])
    (31.0, 4.5, inf)
    """
    return median(math.inf if distance is None else float(distance) for distance in distances)


def _settings(records: AttackRecords) -> dict[str, Any]:
    run = records.header.run
    with damaged_header_refused(records.path):
        return {
            **common_settings(records),
            "attack": dict(run["attack"]),
            "goal": run.get("goal", ANY),
            **{name: run.get(name) for name in ("n", "alpha", "masks", "error", "rule")},
            **{name: run[name] for name in ("budget", "seed", "group")},
        }
