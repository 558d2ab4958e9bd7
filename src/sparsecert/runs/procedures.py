"""What a run does with a group of inputs: PREDICT and CERTIFY, by votes drawn at random or by a fixed set of masks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from sparsecert.bounds import Interval
from sparsecert.certificates import method_named
from sparsecert.certificates.adversary import Adversary
from sparsecert.errors import InputError
from sparsecert.procedures.exact import Exact, elected, fixed, rule_named
from sparsecert.procedures.pipelining import Steps, interleave
from sparsecert.procedures.sequential import FIRST_STAGE, Sequential
from sparsecert.records import Record, first_choices, rankings
from sparsecert.results import Certifications
from sparsecert.schemes import FixedMasks, Scheme
from sparsecert.smoothed import Smoothed, check_settings
from sparsecert.votes.loop import Progress, Voting

MOST_VALUES = 1 << 24  # of the inputs in a group: 64 MiB
PASSES_AT_ONCE = 8  # forward passes of a group's first votes: enough to keep a GPU busy, little to lose in a kill


@dataclass(frozen=True)
class Group:
    """Some inputs of a data set: pixels Float[b, c, h, w], and the numbers and true labels of each."""

    pixels: torch.Tensor
    examples: list[int]
    labels: list[int]


class Procedure(Protocol):
    """Everything about a run but its model and its inputs: a handful of plain numbers that can be sent anywhere."""

    @property
    def kind(self) -> str:
        """Of the records: "certify" or "predict"."""

    @property
    def most_inputs(self) -> int:
        """The most inputs of a group."""

    @property
    def first(self) -> int:
        """Copies of an input in the first votes of a group."""

    @property
    def at_once(self) -> int:
        """Groups under way on a GPU."""

    def settings(self) -> dict[str, Any]:
        """The facts of the header that decide votes and certificates: plain JSON values."""

    def check(self, scheme: Scheme) -> None:
        """Refuses settings that cannot be used, before any work is done or file written."""

    def work(self, smoothed: Smoothed, group: Group, voting: Voting, progress: Progress) -> Steps[list[Record]]:
        """A record for each input of the group."""


def inputs_at_once(procedure: Procedure, rows: int, values: int) -> int:
    """Inputs of so many values in a group, a power of two: chunks of a larger power of two are whole groups."""
    few = min(PASSES_AT_ONCE * rows // procedure.first, MOST_VALUES // values)
    fitting = max(1, min(procedure.most_inputs, few))
    return 1 << (fitting.bit_length() - 1)


def computed(
    procedure: Procedure, smoothed: Smoothed, groups: Iterable[Group], voting: Voting, progress: Progress
) -> Iterator[list[Record]]:
    """The records of each group as they come, with the seconds that each input took.

    On a GPU several groups are under way, so that it is busy while the host certifies and records.
    """
    works = (procedure.work(smoothed, group, voting, progress) for group in groups)
    before = time.perf_counter()
    for done in interleave(works, procedure.at_once if smoothed.device.type == "cuda" else 1):
        now = time.perf_counter()
        seconds, before = (now - before) / len(done), now
        yield [replace(record, seconds=seconds) for record in done]


@dataclass(frozen=True)
class Predict:
    """The smoothed classifier's answer from n votes, or an abstention."""

    n: int
    alpha: float
    seed: int
    kind = "predict"
    most_inputs = 64
    at_once = 4

    @property
    def first(self) -> int:
        """All of them."""
        return self.n

    def settings(self) -> dict[str, Any]:
        """n, alpha, seed."""
        return {"n": int(self.n), "alpha": float(self.alpha), "seed": int(self.seed)}  # numpy's numbers are no JSON

    def check(self, scheme: Scheme) -> None:
        """Refuses settings that cannot be used."""
        check_settings(scheme, self.seed, self.alpha, n=self.n)

    def work(self, smoothed: Smoothed, group: Group, voting: Voting, progress: Progress) -> Steps[list[Record]]:
        """A record for each input of the group."""
        p = yield from smoothed.predicting(
            group.pixels, self.n, self.alpha, self.seed, examples=group.examples, progress=progress, voting=voting
        )
        each = enumerate(zip(group.examples, group.labels, strict=True))
        return [Record(example, true, p.votes[row], p.answers[row], seconds=0.0) for row, (example, true) in each]


@dataclass(frozen=True)
class Certify:
    """A certificate from n0 + n votes."""

    n0: int
    n: int
    alpha: float
    seed: int
    bound: str
    kind = "certify"
    most_inputs = 64
    at_once = 4

    @property
    def first(self) -> int:
        """All of them that estimate."""
        return self.n

    def settings(self) -> dict[str, Any]:
        """n0, n, alpha, seed, bound and the theorem behind it."""
        samples = {"n0": int(self.n0), "n": int(self.n)}
        return {**samples, **_certifying(self.alpha, self.seed, self.bound)}

    def check(self, scheme: Scheme) -> None:
        """Refuses settings that cannot be used."""
        method_named(self.bound)
        check_settings(scheme, self.seed, self.alpha, n0=self.n0, n=self.n)

    def work(self, smoothed: Smoothed, group: Group, voting: Voting, progress: Progress) -> Steps[list[Record]]:
        """A record for each input of the group."""
        certified = yield from smoothed.certifying(
            group.pixels, self.n0, self.n, self.alpha, self.seed,
            bound=self.bound, examples=group.examples, progress=progress, voting=voting,
        )  # fmt: skip
        return _certified(certified, group)


@dataclass(frozen=True)
class CertifySequentially:
    """A certificate from as many votes as the radius needs."""

    sampling: Sequential
    alpha: float
    seed: int
    bound: str
    kind = "certify"
    most_inputs = 2_048
    at_once = 3
    first = FIRST_STAGE

    def settings(self) -> dict[str, Any]:
        """As for `Certify`, n0 and n being the most there can be, and the sampling."""
        most = {"n0": int(self.sampling.n0), "n": self.sampling.most}
        sampling = {"sampling": {"kind": "sequential", **self.sampling.config()}}
        return {**most, **_certifying(self.alpha, self.seed, self.bound), **sampling}

    def check(self, scheme: Scheme) -> None:
        """Refuses settings that cannot be used."""
        method_named(self.bound)
        check_settings(scheme, self.seed)
        self.sampling.check(scheme, self.alpha)

    def work(self, smoothed: Smoothed, group: Group, voting: Voting, progress: Progress) -> Steps[list[Record]]:
        """A record for each input of the group."""
        certified = yield from smoothed.certifying_sequentially(
            group.pixels, self.sampling, self.alpha, self.seed,
            bound=self.bound, examples=group.examples, progress=progress, voting=voting,
        )  # fmt: skip
        return _certified(certified, group)


@dataclass(frozen=True)
class CertifyExactly:
    """A certificate that holds always, from the votes of all `masks` of a fixed set."""

    exactly: Exact
    masks: int
    kind = "certify"
    most_inputs = 64
    at_once = 4

    @classmethod
    def by(cls, scheme: Scheme, exactly: Exact) -> CertifyExactly:
        """With the masks of this scheme, and against what it is for unless something else was said."""
        masks = fixed(scheme)
        return cls(replace(exactly, against=exactly.damages(masks)), len(masks.table))

    @property
    def first(self) -> int:
        """All of them."""
        return self.masks

    def settings(self) -> dict[str, Any]:
        """rule, against, seconds and the number of masks."""
        seconds = float(self.exactly.seconds)
        facts = {"rule": self.exactly.rule, "against": self.exactly.against, "seconds": seconds}
        return {**facts, "masks": int(self.masks)}

    def check(self, scheme: Scheme) -> None:
        """Refuses settings that cannot be used."""
        _check_masks(scheme, self.masks)
        self.exactly.adversary(fixed(scheme))

    def work(self, smoothed: Smoothed, group: Group, voting: Voting, progress: Progress) -> Steps[list[Record]]:
        """A record for each input of the group."""
        adversary = _damage(fixed(smoothed.scheme), self.exactly)
        certified = yield from smoothed.certifying_exactly(
            group.pixels, rule=self.exactly.rule, adversary=adversary, progress=progress, voting=voting
        )
        return [
            replace(record, label=certificate.label, radius=certificate.radius)
            for record, certificate in zip(_ranked(certified.ranks, group), certified, strict=True)
        ]


@dataclass(frozen=True)
class PredictExactly:
    """The winner of the vote of all `masks` of a fixed set: nothing is estimated, and nothing abstains."""

    rule: str
    masks: int
    kind = "predict"
    most_inputs = 64
    at_once = 4

    @property
    def first(self) -> int:
        """All of them."""
        return self.masks

    def settings(self) -> dict[str, Any]:
        """rule, and the number of masks."""
        return {"rule": self.rule, "masks": int(self.masks)}

    def check(self, scheme: Scheme) -> None:
        """Refuses settings that cannot be used."""
        _check_masks(scheme, self.masks)
        rule_named(self.rule)

    def work(self, smoothed: Smoothed, group: Group, voting: Voting, progress: Progress) -> Steps[list[Record]]:
        """A record for each input of the group."""
        ranks = yield from smoothed.ranking(group.pixels, progress=progress, voting=voting)
        return [
            replace(record, label=elected(one, self.rule))
            for record, one in zip(_ranked(ranks, group), ranks, strict=True)
        ]


@lru_cache(maxsize=4)
def _damage(scheme: FixedMasks, exactly: Exact) -> Adversary:
    """Made once for all groups of a run: it remembers what it computes of the masks."""
    return exactly.adversary(scheme)


def _check_masks(scheme: Scheme, masks: int) -> None:
    found = len(fixed(scheme).table)
    if found != masks:
        raise InputError(f"masks must be those of {scheme}, which are {found}, got {masks}")


def _ranked(ranks: npt.NDArray[np.int16], group: Group) -> list[Record]:
    """The records of a group but for what the votes elect."""
    return [
        Record(example, true, first_choices(one), None, seconds=0.0, rankings=rankings.to_text(one))
        for one, example, true in zip(ranks, group.examples, group.labels, strict=True)
    ]


def _certifying(alpha: float, seed: int, bound: str) -> dict[str, Any]:
    return {
        "alpha": float(alpha),
        "seed": int(seed),
        "bound": bound,
        "certificate": method_named(bound).theorem_name,
    }


def _certified(certified: Certifications, group: Group) -> list[Record]:
    records = []
    for row, (certificate, example, true) in enumerate(
        zip(certified.certificates, group.examples, group.labels, strict=True)
    ):
        interval = certificate.interval
        fixed = isinstance(interval, Interval)
        records.append(
            Record(
                example=example,
                true=true,
                selection=certified.selection[row],
                votes=certified.estimation[row],
                label=interval.label,
                p_lower=float(interval.p_lower) if isinstance(interval, Interval) else None,
                p_upper=float(interval.p_upper) if isinstance(interval, Interval) else None,
                radius=certificate.radius,
                seconds=0.0,
                samples=None if fixed else int(certified.samples[row]),
                answer=certified.answers[row] if certified.answers else None,
            )
        )
    return records
