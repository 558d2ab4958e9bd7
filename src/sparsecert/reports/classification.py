"""Classification accuracy of the prediction procedure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sparsecert.bounds import corrected_alpha, predicted, predicted_by_pairs
from sparsecert.certificates import CERTIFICATES, ELECTED, certify_anytime
from sparsecert.errors import InputError
from sparsecert.records import PREDICT, AttackRecords, Record, Records, election_rule, is_exact, is_sequential
from sparsecert.schemes import Scheme

FROM_ESTIMATION, FROM_ALL_MASKS = "estimation votes", "votes of all masks"
Settings = Sequence[tuple[str, ...]]  # nested keys of headers
SAME_CLASSIFIER: Settings = ("model", "sha256"), ("scheme",), ("encoding",), ("precision",), ("data", "fingerprint")


@dataclass(frozen=True)
class Classification:
    """Predictions by the exact binomial test at the report's alpha, compared with the true labels.

    `accuracy` and `abstained` are shares of `inputs`; the rest is misclassified. `source` names the votes. With a fixed
    set of `n` masks the prediction is the winner of their vote: no test, no seed, no abstention.
    """

    source: str
    accuracy: float
    abstained: float
    inputs: int
    expected: int
    n: int
    seed: int | None


def classify(records: Records, scheme: Scheme, alpha: float, source: str, bound: str | None = None) -> Classification:
    """Predicts every input again from its votes, ignoring the recorded labels."""
    right = abstained = 0
    for line, answer in predicted_labels(records, scheme, alpha, bound):
        right, abstained = right + (answer == line.true), abstained + (answer is None)
    return count_answers(records, source, right, abstained)


def count_answers(records: Records, source: str, right: int, abstained: int = 0) -> Classification:
    run, inputs = records.header.run, len(records.lines)
    return Classification(
        source=source,
        accuracy=right / inputs,
        abstained=abstained / inputs,
        inputs=inputs,
        expected=records.header.expected_inputs,
        n=run["masks"] if is_exact(records.header) else run["n"],
        seed=run.get("seed"),
    )


def predicted_labels(
    records: Records, scheme: Scheme, alpha: float, bound: str | None = None
) -> Iterator[tuple[Record, int | None]]:
    """Each input with the class that its votes prove to be g's answer; None if the procedure abstains.

    g is the class with most votes, unless `bound`, by default that of the run, is by pairs. Sequential votes do not
    allow a test for a fixed sample size: there it is the class whose lead over every other is proved at the stopping
    time.
    """
    run, sequential = records.header.run, is_sequential(records.header)
    bound = bound or run.get("bound")
    by_pairs = _by_pairs(bound)
    for line in records.lines:
        own = line.scheme_of(scheme)
        if sequential and line.selection is not None:
            lead = bound if bound and by_pairs else "two-sided"
            yield line, certify_anytime(line.selection, line.votes, own, alpha, lead, run["n"]).label
            continue
        level = corrected_alpha(alpha, own, line.votes.total)
        if by_pairs and line.selection is not None:
            yield line, predicted_by_pairs(line.selection, line.votes, level)
        else:
            yield line, predicted(line.votes, level)


def _by_pairs(bound: str | None) -> bool:
    return bound is not None and bound in CERTIFICATES and CERTIFICATES[bound].by_pairs


def check_predictions(records: Records, predictions: Records, bound: str) -> None:
    """Refuses predictions of another classifier than `records` certified by `bound`, or on other data."""
    if predictions.header.kind != PREDICT:
        raise InputError(
            f"{predictions.path} holds {predictions.header.kind} records; name one of `sparsecert predict`"
        )
    if is_exact(predictions.header):
        raise InputError(
            f"{predictions.path} holds votes of a fixed set of masks, {records.path} of random masks; "
            "name predictions with random masks"
        )
    check_belongs(records, predictions, SAME_CLASSIFIER, "name predictions of the same model and data")
    ours, theirs = CERTIFICATES[bound].rule, election_rule(predictions.header)
    if ours != theirs:
        raise InputError(
            f"{predictions.path} predicts {ELECTED.get(theirs, theirs)}, bound {bound} certifies {ELECTED[ours]}; "
            "name other predictions or another bound"
        )


def check_belongs(records: Records, other: Records | AttackRecords, settings: Settings, remedy: str) -> None:
    """Refuses another run that differs in one of these settings."""
    differing = first_difference(records, other, settings)
    if differing is not None:
        name, there, here = differing
        raise InputError(f"{other.path} does not belong to {records.path}: its {name} is {there}, not {here}; {remedy}")


def first_difference(
    records: Records, other: Records | AttackRecords, settings: Settings
) -> tuple[str, object, object] | None:
    """The first of these settings in which two runs differ: its name, its value in the other run, and in this one."""
    for keys in settings:
        there, here = (_header_value(run, keys) for run in (other.header.run, records.header.run))
        if there != here:
            return " ".join(keys), there, here
    return None


def _header_value(run: dict[str, Any], keys: tuple[str, ...]) -> object:
    """The value under nested keys; None if there is none."""
    value: object = run
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
