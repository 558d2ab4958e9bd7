"""The result of each input of a run: its answer, its certificate and its votes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sparsecert.counts import Tally
from sparsecert.records import Record, Records
from sparsecert.reports.classification import predicted_labels
from sparsecert.reports.summary import Summary, recertify
from sparsecert.schemes import from_config as scheme_from_config


@dataclass(frozen=True)
class ReportedRun:
    """A run's records, their summary, and the predictions behind its accuracy, if separate."""

    records: Records
    summary: Summary
    predictions: Records | None = None

    @property
    def certifies(self) -> bool:
        return self.summary.certifies


@dataclass(frozen=True)
class InputResult:
    """The result of one input.

    `label` is the certified class, or the prediction if the run only predicts; None if it abstains. `radius` is None if
    nothing is certified. `rankings` are those of a fixed set of masks.
    """

    example: int
    true: int
    label: int | None
    radius: int | None
    votes: Tally
    rankings: str | None = None

    @property
    def right(self) -> bool:
        return self.label == self.true

    @property
    def wrong(self) -> bool:
        return self.label is not None and self.label != self.true

    @property
    def robustness(self) -> int | None:
        """The certified radius; None if not certified for the true class."""
        return self.radius if self.right else None

    @property
    def lead(self) -> float:
        """The lead of the first class over the second, as a share of the votes."""
        first, second, *_ = [*sorted(self.votes.votes, reverse=True), 0]
        return (first - second) / self.votes.total

    @property
    def certainty(self) -> tuple[bool, int, float]:
        """A sort key from least to most certain: answered or not, radius, lead."""
        return self.label is not None, -1 if self.radius is None else self.radius, self.lead


def input_results(run: ReportedRun) -> Iterator[InputResult]:
    """All inputs, certified as in the summary, whose numbers are totals over these."""
    records, summary = run.records, run.summary
    if run.certifies or summary.exact:
        for line, found in recertify(records, summary):
            yield _result(line, found.label, found.radius if run.certifies else None)
        return
    assert summary.alpha is not None
    for line, answer in predicted_labels(records, scheme_from_config(summary.scheme), summary.alpha):
        yield _result(line, answer, None)


def _result(line: Record, label: int | None, radius: int | None) -> InputResult:
    return InputResult(line.example, line.true, label, radius, line.votes, line.rankings)


@dataclass
class ClassTotals:
    """Totals over the inputs of one true class; `predicted` counts those with votes for the accuracy."""

    predicted: int = 0
    right: int = 0
    abstained: int = 0
    robustness: list[int | None] = field(default_factory=list)

    @property
    def accuracy(self) -> float | None:
        """The share classified correctly; None if the class has no inputs."""
        return self.right / self.predicted if self.predicted else None


def by_class(run: ReportedRun, every: list[InputResult]) -> list[ClassTotals]:
    found = [ClassTotals() for _ in range(run.records.header.run["classes"])]
    for true, answer in _predictions(run, every):
        found[true].predicted += 1
        found[true].right += answer == true
        found[true].abstained += answer is None
    for result in every:
        found[result.true].robustness.append(result.robustness)
    return found


def _predictions(run: ReportedRun, every: list[InputResult]) -> Iterator[tuple[int, int | None]]:
    """The true class and the prediction of each input, from the votes behind the summary's accuracy."""
    summary = run.summary
    if summary.alpha is None:
        yield from ((result.true, result.label) for result in every)
        return
    scheme = scheme_from_config(summary.scheme)
    bound = summary.bound if run.predictions is None else None
    for line, answer in predicted_labels(run.predictions or run.records, scheme, summary.alpha, bound):
        yield line.true, answer
