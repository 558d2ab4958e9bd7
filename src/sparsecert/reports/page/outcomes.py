"""Each input of a run by itself: what it is answered, what is certified of it, and how far its votes are apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sparsecert.counts import Tally
from sparsecert.records import Record, Records
from sparsecert.reports.classification import answers
from sparsecert.reports.exact import elected, exactly_of
from sparsecert.reports.summary import Summary, certificates_of
from sparsecert.schemes import from_config as scheme_from_config


@dataclass(frozen=True)
class Run:
    """The records of a run, what a report made of them, and the predictions that its accuracy was taken from."""

    records: Records
    summary: Summary
    predictions: Records | None = None

    @property
    def certifies(self) -> bool:
        """Whether it has certificates."""
        return self.summary.kind == "certify"


@dataclass(frozen=True)
class Outcome:
    """One input as the report sees it.

    `label` is the certified class, or the answer where the run only predicts; None where it abstains. `radius` is None
    where nothing is certified. `rankings` are those of a fixed set of masks.
    """

    example: int
    true: int
    label: int | None
    radius: int | None
    votes: Tally
    rankings: str | None = None

    @property
    def right(self) -> bool:
        """Whether it is answered, and with the true class."""
        return self.label == self.true

    @property
    def wrong(self) -> bool:
        """Whether it is answered, but with another class."""
        return self.label is not None and self.label != self.true

    @property
    def robustness(self) -> int | None:
        """The certified radius; None where it is not certified for the true class."""
        return self.radius if self.right else None

    @property
    def lead(self) -> float:
        """By which share of the votes the first class leads the second."""
        first, second, *_ = [*sorted(self.votes.votes, reverse=True), 0]
        return (first - second) / self.votes.total

    @property
    def certainty(self) -> tuple[bool, int, float]:
        """What inputs are ordered by, from least to most certain: abstained or not, the radius, the lead."""
        return self.label is not None, -1 if self.radius is None else self.radius, self.lead


def outcomes(run: Run) -> Iterator[Outcome]:
    """All inputs, certified again as the summary was: its numbers are sums over these."""
    records, summary = run.records, run.summary
    scheme = scheme_from_config(summary.scheme)
    if summary.exact:
        rule, against = summary.bound, summary.against
        for line, found in elected(records, scheme, exactly_of(records, scheme, rule, against)):
            yield _outcome(line, found.label, found.radius if run.certifies else None)
        return
    assert summary.alpha is not None
    if run.certifies and summary.bound is not None:
        for line, certificate in certificates_of(records, scheme, summary.alpha, summary.bound):
            yield _outcome(line, certificate.label, certificate.radius)
        return
    for line, answer in answers(records, scheme, summary.alpha):
        yield _outcome(line, answer, None)


def _outcome(line: Record, label: int | None, radius: int | None) -> Outcome:
    return Outcome(line.example, line.true, label, radius, line.votes, line.rankings)


@dataclass
class OfClass:
    """The inputs of one true class; `answered` of them by the votes that the accuracy comes from."""

    answered: int = 0
    right: int = 0
    abstained: int = 0
    robustness: list[int | None] = field(default_factory=list)

    @property
    def accuracy(self) -> float | None:
        """The share that is answered rightly; None where the class has no inputs."""
        return self.right / self.answered if self.answered else None


def by_class(run: Run, every: list[Outcome]) -> list[OfClass]:
    """One for each class of the run; `every` are its outcomes."""
    found = [OfClass() for _ in range(run.records.header.run["classes"])]
    for true, answer in _answered(run, every):
        found[true].answered += 1
        found[true].right += answer == true
        found[true].abstained += answer is None
    for outcome in every:
        found[outcome.true].robustness.append(outcome.robustness)
    return found


def _answered(run: Run, every: list[Outcome]) -> Iterator[tuple[int, int | None]]:
    """The true class of each input and the answer, from the votes that the summary's accuracy comes from."""
    summary = run.summary
    if summary.alpha is None:
        yield from ((outcome.true, outcome.label) for outcome in every)
        return
    scheme = scheme_from_config(summary.scheme)
    for line, answer in answers(run.predictions or run.records, scheme, summary.alpha):
        yield line.true, answer
