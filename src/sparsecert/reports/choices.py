"""Which masks and which bound certify most inputs at a radius, from the records of several runs on the same inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsecert.errors import InputError
from sparsecert.records import Records, is_exact
from sparsecert.registry import CERTIFICATES, RULES
from sparsecert.reports.comparison import Table, format_median
from sparsecert.reports.summary import Summary, recertify, summarise
from sparsecert.schemes import from_config


@dataclass(frozen=True, eq=False)
class Choice:
    """A run, by the bound or rule that certifies most inputs at the radius; `certified` says which inputs those are."""

    name: str
    summary: Summary
    certified: NDArray[np.bool_]

    @property
    def share(self) -> float:
        """The certified accuracy at the radius."""
        return float(self.certified.mean())

    @property
    def error(self) -> float:
        """The standard error of `share`."""
        return math.sqrt(self.share * (1 - self.share) / len(self.certified))

    def close_to(self, other: Choice) -> bool:
        """Whether their difference is less than two standard errors, of the inputs that one of them alone certifies."""
        difference = self.certified.astype(np.int64) - other.certified.astype(np.int64)
        return abs(int(difference.sum())) <= 2 * math.sqrt(np.abs(difference).sum())


def choose_bound(name: str, records: Records, radius: int) -> Choice:
    """The run by the bound, or for a fixed set of masks the rule, that certifies most at the radius; first ones win."""
    if is_exact(records.header):
        summaries = [summarise(records, rule=rule) for rule in RULES]
    else:
        summaries = [summarise(records, bound=bound) for bound in CERTIFICATES]
    choices = [Choice(name, summary, _certified(records, summary, radius)) for summary in summaries]
    own = records.header.run.get("rule" if is_exact(records.header) else "bound")
    return max(choices, key=lambda choice: (choice.share, choice.summary.accuracy, choice.summary.bound == own))


def _certified(records: Records, summary: Summary, radius: int) -> NDArray[np.bool_]:
    """Whether each input, in the order of their numbers, is certified for its true class at the radius."""
    found = {
        line.example: c.label == line.true and c.radius is not None and c.radius >= radius
        for line, c in recertify(records, summary)
    }
    return np.array([found[example] for example in sorted(found)])


def best_choice(choices: Sequence[Choice]) -> Choice:
    """The one that certifies most; on a tie, the more accurate one."""
    if len({len(choice.certified) for choice in choices}) != 1:
        raise InputError("runs must be of the same inputs to be compared; complete those that are not")
    return max(choices, key=lambda choice: (choice.share, choice.summary.accuracy))


def choices_table(choices: Sequence[Choice], radius: int) -> Table:
    """One row per run."""
    best = best_choice(choices)
    headers = "masks", "retained", "bound or rule", f"certified at {radius}", "accuracy", "median", ""
    rows = [
        (
            choice.name,
            _retained(choice.summary),
            str(choice.summary.bound),
            f"{choice.share:.1%} +- {choice.error:.1%}",
            f"{choice.summary.accuracy:.1%}",
            format_median(choice.summary.median),
            "best" if choice is best else "close" if choice.close_to(best) else "",
        )
        for choice in choices
    ]
    summary = best.summary
    images = f"{summary.inputs:,} held-out training images of {summary.data}"
    sampled = next((choice.summary for choice in choices if not choice.summary.exact), None)
    votes = "" if sampled is None else f"; random masks: {sampled.n0:,} + {sampled.n:,} votes, alpha {sampled.alpha}"
    notes = ("+-: standard error. close: less than two standard errors from the best.",)
    return Table(headers, tuple(rows), f"{images}{votes}", notes)


def _retained(summary: Summary) -> str:
    scheme = from_config(summary.scheme)
    return f"{scheme.retained} of {scheme.units}"
