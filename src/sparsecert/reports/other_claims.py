"""Other questions that recorded votes answer: does the true class stay in the top k, does a class never become the
answer, does a class stay above a threshold? Each is certified from the votes alone; no model is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sparsecert.certificates.target import certify_averted, certify_flagged
from sparsecert.certificates.top_k import certify_top_k
from sparsecert.errors import InputError
from sparsecert.records import Record, Records, is_exact, is_sequential
from sparsecert.reports.comparison import Table, format_median, format_percent, select_rhos
from sparsecert.reports.medians import certified_accuracy, median_certified_robustness
from sparsecert.schemes import Scheme, from_config


class RadiusQuestion(Protocol):
    """What is certified for each input, and for which inputs."""

    @property
    def text(self) -> str:
        """The column header."""

    def applies_to(self, true: int) -> bool:
        """Whether the question applies to inputs of this class."""

    def radius(self, line: Record, scheme: Scheme, alpha: float) -> int | None:
        """How many units may be perturbed with the answer still yes; None if it is not yes at the input itself."""


@dataclass(frozen=True)
class InTopK:
    """Is the true class in the top k? It is known before the votes, as `certify_top_k` requires."""

    k: int

    @property
    def text(self) -> str:
        return f"true class among the {self.k} leading"

    def applies_to(self, true: int) -> bool:
        return True

    def radius(self, line: Record, scheme: Scheme, alpha: float) -> int | None:
        assert line.selection is not None
        return certify_top_k(line.selection, line.votes, scheme, alpha, self.k, line.true).radius


@dataclass(frozen=True)
class NeverTarget:
    """Is the answer never `target`, for inputs of the other classes?"""

    target: int

    @property
    def text(self) -> str:
        return f"never class {self.target}"

    def applies_to(self, true: int) -> bool:
        return true != self.target

    def radius(self, line: Record, scheme: Scheme, alpha: float) -> int | None:
        assert line.selection is not None
        return certify_averted(line.selection, line.votes, scheme, alpha, self.target).radius


@dataclass(frozen=True)
class AboveThreshold:
    """Does class `label` keep more than `threshold` of the probability, for inputs of that class?"""

    label: int
    threshold: float = 0.5

    @property
    def text(self) -> str:
        return f"class {self.label} above {self.threshold:g}"

    def applies_to(self, true: int) -> bool:
        return true == self.label

    def radius(self, line: Record, scheme: Scheme, alpha: float) -> int | None:
        return certify_flagged(line.votes, scheme, alpha, self.label, self.threshold).radius


def robustness(records: Records, question: RadiusQuestion, alpha: float | None = None) -> list[int | None]:
    """The certified radius of each input that the question applies to, at `alpha` or the run's own."""
    run = records.header.run
    if is_exact(records.header) or is_sequential(records.header) or records.header.kind != "certify":
        raise InputError(f"{records.path} does not hold certify votes of a fixed number of random masks")
    scheme, level = from_config(run["scheme"]), run["alpha"] if alpha is None else alpha
    found = [question.radius(line, scheme, level) for line in records.lines if question.applies_to(line.true)]
    if not found:
        raise InputError(f"{records.path} has no input that '{question.text}' applies to")
    return found


def questions_table(
    files: Sequence[Records], questions: Sequence[RadiusQuestion], alpha: float | None = None, *, every: bool = False
) -> Table:
    """A column per file and question: the share of inputs for which the answer stays yes, by (every) rho."""
    asked = [(records, question) for records in files for question in questions]
    radii = [robustness(records, question, alpha) for records, question in asked]
    shares = [certified_accuracy(one) for one in radii]
    largest = max(len(one) for one in shares) - 1
    rhos, notes = (list(range(largest + 1)), ()) if every else select_rhos(largest)
    several = len(files) > 1
    heads = [f"{records.path}: {one.text}" if several else one.text for records, one in asked]
    rows = [("inputs", *(str(len(one)) for one in radii))]
    rows += [("median", *(format_median(median_certified_robustness(one)) for one in radii))]
    rows += [
        (str(rho), *(format_percent(one[rho]) if rho < len(one) else format_percent(0.0) for one in shares))
        for rho in rhos
    ]
    levels = {records.header.run["alpha"] if alpha is None else alpha for records in files}
    about = "alpha = " + ", ".join(str(level) for level in sorted(levels))
    counted = "inputs: those of the classes that a question is about; alpha holds for each certificate by itself"
    return Table(
        ("rho", *heads), tuple(rows), f"Share of inputs certified to stay so under rho perturbed units, {about}",
        (counted, *notes),
    )  # fmt: skip
