"""Other questions that recorded votes answer: is the true class among the k leading, does one answer never appear, does
one never vanish? Each is certified from the votes alone; no model is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sparsecert.certificates.target import certify_averted, certify_flagged
from sparsecert.certificates.top_k import certify_top_k
from sparsecert.errors import InputError
from sparsecert.records import Record, Records, is_exact, is_sequential
from sparsecert.reports.comparison import Table, median, percent, shown_rhos
from sparsecert.reports.medians import certified_accuracy, median_certified_robustness
from sparsecert.schemes import Scheme, from_config


class Question(Protocol):
    """What is asked of each input, and of which inputs."""

    @property
    def text(self) -> str:
        """In words, as a column is headed."""

    def concerns(self, true: int) -> bool:
        """Whether an input of this class is asked about."""

    def radius(self, line: Record, scheme: Scheme, alpha: float) -> int | None:
        """How many units may be altered with the answer still yes; None where it is not even yes at the input."""


@dataclass(frozen=True)
class AmongTop:
    """Is the true class among the k leading ones? It is known before the votes, as `certify_top_k` asks."""

    k: int

    @property
    def text(self) -> str:
        """In words."""
        return f"true class among the {self.k} leading"

    def concerns(self, true: int) -> bool:
        """All are."""
        return True

    def radius(self, line: Record, scheme: Scheme, alpha: float) -> int | None:
        """By `certify_top_k`."""
        assert line.selection is not None
        return certify_top_k(line.selection, line.votes, scheme, alpha, self.k, line.true).radius


@dataclass(frozen=True)
class Averts:
    """Is the answer another than `target`, for inputs of the other classes?"""

    target: int

    @property
    def text(self) -> str:
        """In words."""
        return f"never class {self.target}"

    def concerns(self, true: int) -> bool:
        """Those of which the target would be a wrong answer."""
        return true != self.target

    def radius(self, line: Record, scheme: Scheme, alpha: float) -> int | None:
        """By `certify_averted`."""
        assert line.selection is not None
        return certify_averted(line.selection, line.votes, scheme, alpha, self.target).radius


@dataclass(frozen=True)
class Flags:
    """Does class `label` keep more than `threshold` of the probability, for inputs of that class?"""

    label: int
    threshold: float = 0.5

    @property
    def text(self) -> str:
        """In words."""
        return f"class {self.label} above {self.threshold:g}"

    def concerns(self, true: int) -> bool:
        """Those that should be flagged."""
        return true == self.label

    def radius(self, line: Record, scheme: Scheme, alpha: float) -> int | None:
        """By `certify_flagged`."""
        return certify_flagged(line.votes, scheme, alpha, self.label, self.threshold).radius


def robustness(records: Records, question: Question, alpha: float | None = None) -> list[int | None]:
    """The certified radius of each input that is asked about, at `alpha` or the run's own."""
    run = records.header.run
    if is_exact(records.header) or is_sequential(records.header) or records.header.kind != "certify":
        raise InputError(f"{records.path} holds no votes of a fixed number of masks drawn at random for certificates")
    scheme, level = from_config(run["scheme"]), run["alpha"] if alpha is None else alpha
    found = [question.radius(line, scheme, level) for line in records.lines if question.concerns(line.true)]
    if not found:
        raise InputError(f"{records.path} has no input that '{question.text}' is asked of")
    return found


def questions_table(
    files: Sequence[Records], questions: Sequence[Question], alpha: float | None = None, *, every: bool = False
) -> Table:
    """A column for each file and question: the share of inputs for which the answer stays yes, by (every) rho."""
    asked = [(records, question) for records in files for question in questions]
    radii = [robustness(records, question, alpha) for records, question in asked]
    shares = [certified_accuracy(one) for one in radii]
    largest = max(len(one) for one in shares) - 1
    rhos, notes = (list(range(largest + 1)), ()) if every else shown_rhos(largest)
    several = len(files) > 1
    heads = [f"{records.path}: {one.text}" if several else one.text for records, one in asked]
    rows = [("inputs", *(str(len(one)) for one in radii))]
    rows += [("median", *(median(median_certified_robustness(one)) for one in radii))]
    rows += [(str(rho), *(percent(one[rho]) if rho < len(one) else percent(0.0) for one in shares)) for rho in rhos]
    levels = {records.header.run["alpha"] if alpha is None else alpha for records in files}
    about = "alpha = " + ", ".join(str(level) for level in sorted(levels))
    counted = "inputs of the classes that a question is about; each certificate by itself holds with that alpha"
    return Table(
        ("rho", *heads), tuple(rows), f"Share of inputs certified to stay so with rho altered units, {about}",
        (counted, *notes),
    )  # fmt: skip
