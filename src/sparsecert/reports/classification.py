"""Classification accuracy: how often the prediction procedure returns the true label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sparsecert.bounds import corrected_alpha, predicted
from sparsecert.certificates import certify_anytime
from sparsecert.errors import InputError
from sparsecert.records import Record, Records, is_exact, is_sequential
from sparsecert.schemes import Scheme

FROM_ESTIMATION, FROM_ALL_MASKS = "estimation votes", "votes of all masks"
SAME_CLASSIFIER = ("model", "sha256"), ("scheme",), ("encoding",), ("precision",), ("data", "fingerprint")


@dataclass(frozen=True)
class Classification:
    """The answers of the exact binomial test at the report's alpha, compared with the true labels.

    `accuracy` and `abstained` are shares of `inputs`; what is left was answered wrongly. `source` names the votes. Of a
    fixed set of masks, all `n` of which vote, the answer is the winner of that vote: no test, no seed, no abstention.
    """

    source: str
    accuracy: float
    abstained: float
    inputs: int
    expected: int
    n: int
    seed: int | None


def classify(records: Records, scheme: Scheme, alpha: float, source: str) -> Classification:
    """Predicts every input again from its votes; the recorded answers are not looked at."""
    run, inputs = records.header.run, len(records.lines)
    right = abstained = 0
    for line, answer in answers(records, scheme, alpha):
        right, abstained = right + (answer == line.true), abstained + (answer is None)
    return Classification(
        source=source,
        accuracy=right / inputs,
        abstained=abstained / inputs,
        inputs=inputs,
        expected=run["shard"]["inputs"] if "shard" in run else run["data"]["inputs"],
        n=run["n"],
        seed=run["seed"],
    )


def answers(records: Records, scheme: Scheme, alpha: float) -> Iterator[tuple[Record, int | None]]:
    """Each input with the class that its votes prove to lead; None where the procedure abstains.

    Votes that were stopped by looking at them allow no test for a fixed number of votes: there the answer is the class
    whose lead over every other is proved at the stopping time.
    """
    run, sequential = records.header.run, is_sequential(records.header)
    for line in records.lines:
        if sequential and line.selection is not None:
            yield line, certify_anytime(line.selection, line.votes, scheme, alpha, "two-sided", run["n"]).label
        else:
            yield line, predicted(line.votes, corrected_alpha(alpha, scheme, line.votes.total))


def check_predictions(records: Records, predictions: Records) -> None:
    """Refuses predictions that are not of the classifier and the data that `records` certify."""
    if predictions.header.kind != "predict":
        raise InputError(
            f"{predictions.path} holds {predictions.header.kind} records; name one of `sparsecert predict`"
        )
    if is_exact(predictions.header):
        raise InputError(
            f"{predictions.path} holds votes by all masks of a fixed set, {records.path} by masks drawn at random; "
            "name predictions by masks drawn at random"
        )
    for keys in SAME_CLASSIFIER:
        here, there = fact(records.header.run, keys), fact(predictions.header.run, keys)
        if here != there:
            name = " ".join(keys)
            raise InputError(
                f"{predictions.path} does not belong to {records.path}: its {name} is {there}, not {here}; "
                "name predictions of the same model and data"
            )


def fact(run: dict[str, Any], keys: tuple[str, ...]) -> object:
    """A fact of a header, None where it has none of that name."""
    value: object = run
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
