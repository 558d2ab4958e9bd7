"""What a run asks of every input, and the records of the answers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from sparsecert.bounds import Interval
from sparsecert.certificates import Certificate
from sparsecert.procedures import Procedure
from sparsecert.procedures.by_units import by_units
from sparsecert.procedures.pipelining import Steps, interleave
from sparsecert.progress import OnProgress
from sparsecert.records import CERTIFY, Record, rankings
from sparsecert.results import Certifications, Predictions
from sparsecert.schemes import FixedMasks, Scheme
from sparsecert.votes.copies import Copies
from sparsecert.votes.voter import Voter

Answers = Certifications | Predictions

MOST_VALUES = 1 << 24  # per group: 64 MiB
PASSES_AT_ONCE = 8  # forward passes of a group's first votes: keeps a GPU busy, loses little when killed


@dataclass(frozen=True)
class Group:
    """Some inputs of a data set: Float[b, c, h, w], with their indices and true labels."""

    inputs: torch.Tensor
    examples: list[int]
    labels: list[int]


@dataclass(frozen=True)
class RunSpec:
    """A run but for its model and inputs: "certify" or "predict", the procedure, alpha and seed.

    `rankings`: whether records keep how each mask of a fixed set ranks the classes. Without them a report cannot elect
    by another rule, or prove the radii again.
    """

    kind: str
    procedure: Procedure
    alpha: float | None
    seed: int
    rankings: bool = True

    def check(self, scheme: Scheme) -> None:
        """Refuses invalid settings before any work is done or file written."""
        self.procedure.check(scheme, self.alpha, self.seed)
        self.settings(scheme)

    def settings(self, scheme: Scheme) -> dict[str, Any]:
        """The settings that decide votes and certificates, for the header: plain JSON values."""
        fields = self.procedure.header_fields if self.kind == CERTIFY else self.procedure.prediction_header_fields
        left_out = not self.rankings and isinstance(scheme, FixedMasks)
        return {**fields(scheme, self.alpha, self.seed), **({"rankings": False} if left_out else {})}

    def steps(self, voter: Voter, group: Group, on_progress: OnProgress) -> Steps[tuple[Group, Answers]]:
        """The answers for the group; yields once votes are queued on the device."""
        copies = Copies(voter, group.inputs, group.examples, self.seed, on_progress)
        answers: Answers
        if self.kind == CERTIFY:
            answers = yield from by_units(self.procedure.certify_with_origin, copies, self.alpha)
        else:
            answers = yield from by_units(self.procedure.predict, copies, self.alpha)
        return group, answers if self.rankings else replace(answers, ranks=None)


def inputs_per_group(spec: RunSpec, scheme: Scheme, rows: int, values: int) -> int:
    """Inputs per group, each of `values` values: a power of two, so that chunks of a larger one are whole groups."""
    few = min(PASSES_AT_ONCE * rows // spec.procedure.first_votes(scheme), MOST_VALUES // values)
    fitting = max(1, min(spec.procedure.most_inputs, few))
    return 1 << (fitting.bit_length() - 1)


def compute_records(
    spec: RunSpec, voter: Voter, groups: Iterable[Group], on_progress: OnProgress
) -> Iterator[list[Record]]:
    """The records of each group as it is done, with the seconds per input.

    On a GPU several groups are in flight, so that it is busy while the host certifies and records.
    """
    steps = (spec.steps(voter, group, on_progress) for group in groups)
    before = time.perf_counter()
    for group, answers in interleave(steps, spec.procedure.in_flight if voter.device.type == "cuda" else 1):
        now = time.perf_counter()
        seconds, before = (now - before) / len(group.examples), now
        of = group.examples, group.labels, seconds
        if isinstance(answers, Certifications):
            yield certificate_records(answers, *of)
        else:
            yield prediction_records(answers, *of)


def prediction_records(
    predictions: Predictions, examples: Sequence[int], labels: Sequence[int], seconds: float
) -> list[Record]:
    """A record of each prediction, with the number and true label of its input."""
    votes, answers, selection = predictions.votes, predictions.answers, predictions.selection
    return [
        Record(
            example=example,
            true=true,
            votes=votes[row],
            label=answers[row],
            seconds=seconds,
            selection=None if selection is None else selection[row],
            rankings=_ranking(predictions, row),
            units=_units(predictions, row),
        )
        for row, (example, true) in enumerate(zip(examples, labels, strict=True))
    ]


def certificate_records(
    certified: Certifications, examples: Sequence[int], labels: Sequence[int], seconds: float
) -> list[Record]:
    """A record of each certificate, with the number and true label of its input."""
    selected = certified.selected.tolist()
    return [
        Record(
            example=example,
            true=true,
            votes=certified.estimation[row],
            label=selected[row],
            radius=certified[row].radius,
            seconds=seconds,
            rankings=_ranking(certified, row),
            units=_units(certified, row),
            **_estimates(certified, row),
        )
        for row, (example, true) in enumerate(zip(examples, labels, strict=True))
    ]


def _estimates(certified: Certifications, row: int) -> dict[str, Any]:
    """The fields that only certificates from random masks have: selection, and the interval or number of samples."""
    if certified.selection is None:
        return {}
    certificate, selection = certified[row], certified.selection[row]
    if isinstance(certificate, Certificate) and isinstance(certificate.interval, Interval):
        interval = certificate.interval
        return {"selection": selection, "p_lower": float(interval.p_lower), "p_upper": float(interval.p_upper)}
    return {
        "selection": selection,
        "samples": int(certified.samples[row]),
        "answer": certified.answers[row] if certified.answers else None,
    }


def _ranking(result: Predictions | Certifications, row: int) -> str | None:
    if result.ranks is None:
        return None
    ranks = result.ranks[row]
    return rankings.to_text(ranks[ranks[:, 0] >= 0])


def _units(result: Predictions | Certifications, row: int) -> int | None:
    return None if result.units is None else int(result.units[row])
