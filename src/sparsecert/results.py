"""What `Smoothed` returns for a batch: arrays beside the votes they were derived from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sparsecert.certificates import Certificate
from sparsecert.certificates.plurality import ExactCertificate
from sparsecert.certificates.target import Averted, Flagged, certify_averted, certify_flagged
from sparsecert.certificates.top_k import TopK, certify_top_k
from sparsecert.counts import Bool, Counts, Float64, Int16, Int64, Tally
from sparsecert.errors import InputError
from sparsecert.schemes import Scheme

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    import torch

    from sparsecert.encodings import Encoding
    from sparsecert.inputs import Inputs
    from sparsecert.procedures import Procedure
    from sparsecert.reports.summary import Summary

ABSTAINED = -1  # in integer arrays only; `abstained` says it as a boolean


@dataclass(frozen=True, eq=False)
class Predictions:
    """For each input the class g(x), wrong with probability at most alpha, or an abstention.

    Where all masks of a fixed set voted, alpha and seed are None, nothing abstains, and `ranks` are as in
    `Certifications`. By the pairwise bound, `selection` are the votes that chose the class and `votes` those that
    tested it, n together.
    """

    votes: Counts
    answers: tuple[int | None, ...]
    n: int
    alpha: float | None
    seed: int | None
    ranks: Int16 | None = None
    selection: Counts | None = None
    units: Int64 | None = None  # int64[b], where the scheme is open: the number of each input's units

    def __repr__(self) -> str:
        return f"Predictions(labels={self.labels}, n={self.n}, alpha={self.alpha})"

    @property
    def labels(self) -> Int64:
        """int64[b]: the class, -1 where abstained."""
        return np.array([ABSTAINED if answer is None else answer for answer in self.answers], dtype=np.int64)

    @property
    def abstained(self) -> Bool:
        """bool[b]: the two leading classes could not be told apart."""
        return np.array([answer is None for answer in self.answers], dtype=np.bool_)

    @property
    def counts(self) -> Int64:
        """int64[b, classes]: votes of the n ablated copies."""
        return self.votes.votes + (0 if self.selection is None else self.selection.votes)

    @property
    def invalid(self) -> Int64:
        """int64[b]: copies whose scores were not finite; they voted for nobody."""
        return self.votes.invalid + (0 if self.selection is None else self.selection.invalid)


@dataclass(frozen=True)
class Origin:
    """What records say of certifications beside the certificates: the classifier, its inputs and the time."""

    scheme: Scheme
    encoding: Encoding
    precision: str
    device: torch.device
    rows: int  # copies per forward pass
    shape: tuple[int, ...]  # of an input
    examples: tuple[int, ...]  # the numbers of the inputs, which decide their masks
    seconds: float  # for all of them


@dataclass(frozen=True, eq=False)
class Certifications:
    """For each input a certificate, and the votes behind it.

    It holds with probability at least 1 - alpha, or always, with alpha None, where all masks of a fixed set voted
    (`Exact`). Iterating gives the certificate of each input. `estimation` are the votes it was drawn from, `selection`
    those that chose the class (None for `Exact`), `samples` how many copies each input took. `answers` says "yes", "no"
    or "undecided" where `Sequential(at_least=...)` asked. ranks: int16[b, masks, classes], for `Exact`, how each copy
    ranks the classes, 0 being the first; all 0 for a copy whose scores were not finite. Where the scheme is open, units
    has the number of each input's units, and `ranks` end with -1 for an input of fewer masks than others.
    """

    certificates: tuple[Certificate | ExactCertificate, ...]
    procedure: Procedure
    alpha: float | None
    seed: int | None
    estimation: Counts
    samples: Int64
    selection: Counts | None = None
    answers: tuple[str | None, ...] = ()
    ranks: Int16 | None = None
    scheme: Scheme | None = None
    classes: npt.NDArray[Any] | None = None  # what the labels stand for, where they are more than numbers
    truth: Int64 | None = None  # the true classes, where a loader gave them
    origin: Origin | None = None
    units: Int64 | None = None

    def __len__(self) -> int:
        return len(self.certificates)

    def __repr__(self) -> str:
        return f"Certifications(labels={self.labels}, radii={self.radii}, {self.procedure}, alpha={self.alpha})"

    def __getitem__(self, row: int) -> Certificate | ExactCertificate:
        return self.certificates[row]

    def __iter__(self) -> Iterator[Certificate | ExactCertificate]:
        return iter(self.certificates)

    def take(self, rows: Int64) -> Certifications:
        """The certifications of these inputs; `origin` and `truth` stay those of all."""
        return replace(
            self,
            certificates=tuple(self.certificates[row] for row in rows),
            estimation=self.estimation.take(rows),
            samples=self.samples[rows],
            selection=None if self.selection is None else self.selection.take(rows),
            answers=tuple(self.answers[row] for row in rows) if self.answers else (),
            ranks=None if self.ranks is None else self.ranks[rows],
            units=None if self.units is None else self.units[rows],
        )

    @property
    def labels(self) -> Int64:
        """int64[b]: the certified class, -1 where nothing is certified."""
        return np.array([ABSTAINED if c.label is None else c.label for c in self.certificates], dtype=np.int64)

    @property
    def radii(self) -> Int64:
        """int64[b]: perturbing this many units cannot change the answer; -1 where nothing is certified."""
        return np.array([ABSTAINED if c.radius is None else c.radius for c in self.certificates], dtype=np.int64)

    @property
    def abstained(self) -> Bool:
        """bool[b]: nothing could be certified."""
        return np.array([c.radius is None for c in self.certificates], dtype=np.bool_)

    @property
    def exact(self) -> bool:
        """Whether the certificates hold always."""
        return self.alpha is None

    @property
    def names(self) -> npt.NDArray[Any]:
        """object[b]: the certified class by its name (its number, where it has none); None: nothing is certified."""
        classes = np.arange(self.counts.shape[1]) if self.classes is None else self.classes
        return named(classes, self.labels)

    def certified(self, truth: Any, radius: int) -> Bool:
        """bool[b]: whether the answer is the true class, and certified against changes of so many units."""
        right = self.names == np.asarray(truth, dtype=object)
        return np.asarray(right & (self.radii >= radius), dtype=np.bool_)

    def summary(self, labels: Any = None) -> Summary:
        """Accuracy, abstentions, median and certified accuracy at every radius, as `sparsecert report` states them.

        `labels` are the true classes (default: `truth`). A `reports.Summary`: `accuracy`, `abstained` (shares),
        `median` (None: N/A), `certified_accuracy[r]`.
        """
        from sparsecert.reports import summarise
        from sparsecert.runs.from_python import as_records

        return summarise(as_records(self, labels))

    def to_frame(self) -> pd.DataFrame:
        """A pandas table, one row per input: label and radius (missing: nothing is certified), bounds and samples."""
        try:
            import pandas as pd
        except ImportError as error:
            raise InputError('to_frame needs pandas; install it with pip install "sparsecert[tables]"') from error
        labels = pd.array([c.label for c in self], dtype="Int64") if self.classes is None else self.names
        columns = {
            "label": labels,
            "radius": pd.array([c.radius for c in self], dtype="Int64"),
            "abstained": self.abstained,
            "selected": self.selected if self.classes is None else named(self.classes, self.selected),
            **({} if self.exact else {"p_lower": self.p_lower, "p_upper": self.p_upper}),
            "samples": self.samples,
            **({"answer": self.answers} if any(self.answers) else {}),
        }
        return pd.DataFrame(columns)

    def save(
        self,
        path: str | Path,
        labels: Any = None,
        *,
        model: str | Path | None = None,
        data: str | Inputs = "inputs",
    ) -> None:
        """Writes records, with the true classes `labels` (default: `truth`), to a new file, for `sparsecert report`.

        `model` is the file that the classifier was saved to or loaded from: records name it by its hash. `data` is what
        to call the inputs, or the `Dataset` that holds them at their numbers (`examples`): records then name it by its
        fingerprint, and an HTML report shows its images.
        """
        from sparsecert.runs.from_python import save

        save(self, path, labels, model, data)

    @property
    def selected(self) -> Int64:
        """int64[b]: the class the selection votes chose, certified or not."""
        return np.array([_chosen(c) for c in self.certificates], dtype=np.int64)

    @property
    def p_lower(self) -> Float64:
        """float64[b]: the selected class has at least this probability (pairwise: of being ranked above each other
        one); NaN where only the lead is bounded.
        """
        return np.array([_side(c, "p_lower") for c in self.certificates], dtype=np.float64)

    @property
    def p_upper(self) -> Float64:
        """float64[b]: every other class has at most this probability (pairwise: of being ranked above the selected
        one); NaN where only the lead is bounded.
        """
        return np.array([_side(c, "p_upper") for c in self.certificates], dtype=np.float64)

    def top(self, k: int, labels: Sequence[int] | None = None) -> tuple[TopK, ...]:
        """From the same votes: how many units may be perturbed with the label of each input among its k leading ones.

        The label is the selected class, or of `labels`: one for each input, known before the votes.
        """
        asked = self._each("labels", labels)
        return tuple(
            certify_top_k(selection, estimation, scheme, alpha, k, label)
            for label, (selection, estimation, scheme, alpha) in zip(asked, self._sampled(), strict=True)
        )

    def averted(self, target: int) -> tuple[Averted, ...]:
        """From the same votes: how many units may be perturbed without the answer becoming `target`."""
        return tuple(certify_averted(*sampled, target) for sampled in self._sampled())

    def flagged(self, label: int, threshold: float = 0.5) -> tuple[Flagged, ...]:
        """From the same votes: how many units may be perturbed with p_label above the threshold (asymmetric use)."""
        return tuple(
            certify_flagged(estimation, scheme, alpha, label, threshold)
            for _, estimation, scheme, alpha in self._sampled()
        )

    def _sampled(self) -> list[tuple[Tally, Tally, Scheme, float]]:
        """Selection, estimation, scheme and alpha of each input, where their number was fixed beforehand."""
        if self.scheme is None or self.selection is None or self.alpha is None:
            raise InputError("only a fixed number of random votes can be certified in another way; use Fixed(n0, n)")
        units = [self.scheme.units] * len(self) if self.units is None else self.units.tolist()
        each = zip(range(len(self)), map(self.scheme.for_units, units), strict=True)
        return [(self.selection[row], self.estimation[row], scheme, self.alpha) for row, scheme in each]

    def _each(self, name: str, values: Sequence[int] | None) -> Sequence[int | None]:
        """The values, or None for each input where none are given; refuses another number than of inputs."""
        if values is not None and len(values) != len(self):
            raise InputError(f"{name} must be one for each of the {len(self)} inputs, got {len(values)}")
        return [None] * len(self) if values is None else [int(value) for value in values]

    @property
    def counts(self) -> Int64:
        """int64[b, classes]: the estimation votes; for `Exact`, the votes of the first round."""
        return self.estimation.votes

    @property
    def invalid(self) -> Int64:
        """int64[b]: copies, of selection and estimation, whose scores were not finite; they voted for nobody."""
        chosen = 0 if self.selection is None else self.selection.invalid
        return chosen + self.estimation.invalid


def named(classes: npt.NDArray[Any], labels: Int64) -> npt.NDArray[Any]:
    """object[b]: the classes of these numbers, None for -1."""
    found = classes.astype(object)[np.maximum(labels, 0)]
    found[labels == ABSTAINED] = None
    return found


def concatenate(parts: Sequence[Certifications]) -> Certifications:
    """The certifications of several batches by one procedure as one."""
    first, selections = parts[0], [part.selection for part in parts if part.selection is not None]
    truths = [part.truth for part in parts if part.truth is not None]
    return replace(
        first,
        certificates=tuple(certificate for part in parts for certificate in part.certificates),
        estimation=Counts.joined([part.estimation for part in parts]),
        samples=np.concatenate([part.samples for part in parts]),
        selection=Counts.joined(selections) if selections else None,
        answers=tuple(answer for part in parts for answer in part.answers),
        ranks=stack_ranks([part.ranks for part in parts]),
        units=None if first.units is None else np.concatenate([part.units for part in parts if part.units is not None]),
        truth=np.concatenate(truths) if len(truths) == len(parts) else None,
        origin=_joined([part.origin for part in parts if part.origin is not None]),
    )


def stack_ranks(parts: Sequence[Int16 | None]) -> Int16 | None:
    """The ranks of several batches, with -1 at the end of those of fewer masks; None if they have none."""
    known = [part for part in parts if part is not None]
    most = max((part.shape[1] for part in known), default=0)
    padded = [np.pad(part, ((0, 0), (0, most - part.shape[1]), (0, 0)), constant_values=-1) for part in known]
    return np.concatenate(padded) if known else None


def _joined(origins: Sequence[Origin]) -> Origin | None:
    """The origin of several batches."""
    if not origins:
        return None
    examples = tuple(example for origin in origins for example in origin.examples)
    return replace(origins[0], examples=examples, seconds=sum(origin.seconds for origin in origins))


def _chosen(certificate: Certificate | ExactCertificate) -> int:
    return certificate.interval.label if isinstance(certificate, Certificate) else certificate.label


def _side(certificate: Certificate | ExactCertificate, name: str) -> float:
    """One side of the interval; NaN where votes taken sequentially bound the lead alone, or nothing is estimated."""
    return float(getattr(getattr(certificate, "interval", None), name, float("nan")))
