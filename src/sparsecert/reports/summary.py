"""Summarising a run, recomputed from its votes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparsecert.certificates import METHODS, Certificate, certify_anytime
from sparsecert.errors import InputError
from sparsecert.records import ANSWERS, Record, Records, is_exact, is_sequential
from sparsecert.reports.classification import FROM_ESTIMATION, Classification, check_predictions, classify
from sparsecert.reports.exact import exact_procedure, exact_results
from sparsecert.reports.medians import certified_accuracy, median_certified_robustness
from sparsecert.reports.run_info import RunInfo, read_exact_run_info, read_run_info
from sparsecert.schemes import Scheme
from sparsecert.schemes import from_config as scheme_from_config


@dataclass(frozen=True, kw_only=True)
class Summary(RunInfo):
    """A run's settings, and the results of its `inputs` recorded inputs at `alpha` by `bound`.

    `certified_accuracy[rho]` is the share of inputs certified for the true class at rho or more. The three medians
    differ in which inputs count: all; only those certified for the true class; all, with "true class selected but
    nothing certified" as 0, as the paper's own code records it. None is N/A. For predictions everything certified is
    None or empty.

    Certificates are `abstained_certificates`, `wrong_certificates` (not for the true class) or `certified`, of which
    `certified_at_zero` have radius 0. `answers` counts the answers to `at_least`; these cannot be recomputed from the
    votes, so it is None at another alpha or bound than the run's.
    """

    inputs: int
    classification: Classification
    certified_accuracy: tuple[float, ...] = ()
    median: int | None = None
    median_among_certified: int | None = None
    median_reference: int | None = None
    abstained_certificates: int | None = None
    wrong_certificates: int | None = None
    certified: int | None = None
    certified_at_zero: int | None = None
    mean_seconds: float
    mean_samples: float
    answers: dict[str, int] | None = None
    invalid_votes: int

    @property
    def accuracy(self) -> float:
        return self.classification.accuracy

    @property
    def abstained(self) -> float:
        """The share of inputs on which the prediction procedure abstains."""
        return self.classification.abstained

    @property
    def classified_from(self) -> str:
        """The votes behind the accuracy: "estimation votes", or the path of prediction records."""
        return self.classification.source

    @property
    def incomplete(self) -> bool:
        """Whether some of the run's inputs are not recorded yet."""
        return self.inputs < self.expected_inputs

    def certified_accuracy_at(self, rho: int) -> float | None:
        """Certified accuracy at rho, 0 beyond the largest radius; None for predictions."""
        if self.kind != "certify":
            return None
        return self.certified_accuracy[rho] if rho < len(self.certified_accuracy) else 0.0

    def to_dict(self) -> dict[str, Any]:
        """JSON values, unrounded."""
        return {
            "records": str(self.path),
            "kind": self.kind,
            "inputs": self.inputs,
            "expected_inputs": self.expected_inputs,
            "accuracy": self.accuracy,
            "abstained": self.abstained,
            "classified_from": self.classified_from,
            "classified_inputs": self.classification.inputs,
            "classified_n": self.classification.n,
            "classified_seed": self.classification.seed,
            "median_certified_robustness": self.median,
            "median_among_certified": self.median_among_certified,
            "median_reference_convention": self.median_reference,
            "certified": self.certified,
            "certified_at_zero": self.certified_at_zero,
            "wrong_certificates": self.wrong_certificates,
            "abstained_certificates": self.abstained_certificates,
            "data": self.data,
            "split": self.split,
            "model": self.model_file,
            "model_sha256": self.model_sha256,
            "scheme": self.scheme,
            "units": self.scheme.get("units"),
            "keep": self.scheme.get("keep"),
            "encoding": self.encoding,
            "bound": self.bound,
            "certificate": self.certificate,
            "masks": self.masks,
            "against": self.against,
            "n0": self.n0,
            "n": self.n,
            "sampling": self.sampling,
            "shard": self.shard,
            "chosen": self.chosen,
            "answers": self.answers,
            "alpha": self.alpha,
            "seed": self.seed,
            "run_alpha": self.run_alpha,
            "run_bound": self.run_bound,
            "run_against": self.run_against,
            "precision": self.precision,
            "device": self.device,
            "device_name": self.device_name,
            "mean_seconds": self.mean_seconds,
            "mean_samples": self.mean_samples,
            "invalid_votes": self.invalid_votes,
            "certified_accuracy": list(self.certified_accuracy),
        }


def summarise(
    records: Records,
    *,
    alpha: float | None = None,
    bound: str | None = None,
    predictions: Records | None = None,
    rule: str | None = None,
    against: str | None = None,
) -> Summary:
    """Summarises a run from its votes alone, ignoring the recorded labels, intervals and radii.

    `alpha` and `bound` replace the run's own, so another level or theorem needs no model. The classification accuracy
    is that of `predictions` if given, otherwise of the estimation votes; both at the same alpha.

    For a fixed set of masks, `rule` and `against` replace the run's own; see `reports.exact.exact_certificates`.
    """
    if is_exact(records.header):
        given = {"alpha": alpha, "bound": bound, "predictions": predictions and predictions.path}
        _refuse(records, given, "votes of a fixed set of masks, which have none")
        return _summarise_exact(records, rule, against)
    _refuse(records, {"rule": rule, "against": against}, "votes of random masks, which have none")
    info = read_run_info(records, alpha, bound)
    scheme = scheme_from_config(info["scheme"])
    _check_lines(records)
    return Summary(
        **info,
        inputs=len(records.lines),
        classification=_classification(records, scheme, info["alpha"], predictions),
        **(_certified(records, scheme, info) if info["kind"] == "certify" else {}),
        **_totals(records, info),
    )


def _refuse(records: Records, given: Mapping[str, object], why: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise InputError(f"{name} {value} was given for {records.path}, which holds {why}; leave it out")


def _summarise_exact(records: Records, rule: str | None, against: str | None) -> Summary:
    scheme = scheme_from_config(records.header.run.get("scheme", {}))
    procedure = exact_procedure(records, scheme, rule, against)
    info = read_exact_run_info(records, procedure)
    _check_not_empty(records)
    return Summary(
        **info,
        inputs=len(records.lines),
        **exact_results(records, scheme, procedure),
        **_totals(records, info),
    )


def _totals(records: Records, info: dict[str, Any]) -> dict[str, Any]:
    """The fields of `Summary` that are totals over all inputs."""
    seconds = copies = 0.0
    invalid, given = 0, Counter[str | None]()
    for line in records.lines:
        seconds, copies = seconds + line.seconds, copies + line.copies
        invalid += line.votes.invalid + (line.selection.invalid if line.selection else 0)
        given[line.answer] += 1
    asked = (info["sampling"] or {}).get("at_least") is not None
    asked = asked and (info["alpha"], info["bound"]) == (info["run_alpha"], info["run_bound"])
    return {
        "mean_seconds": seconds / len(records.lines),
        "mean_samples": copies / len(records.lines),
        "answers": {answer: given[answer] for answer in ANSWERS} if asked else None,
        "invalid_votes": invalid,
    }


def _check_not_empty(records: Records) -> None:
    if not len(records.lines):
        raise InputError(f"{records.path} holds no inputs yet; wait for the run that writes it, or start it again")


def _check_lines(records: Records) -> None:
    _check_not_empty(records)
    predicts = records.header.kind == "predict"
    stray = next((line.example for line in records.lines if (line.selection is None) != predicts), None)
    if stray is not None:
        raise InputError(f"{records.path}, input {stray} is not a {records.header.kind} record; name another file")


def _classification(records: Records, scheme: Scheme, alpha: float, predictions: Records | None) -> Classification:
    if predictions is None:
        source = FROM_ESTIMATION if records.header.kind == "certify" else str(records.path)
        return classify(records, scheme, alpha, source)
    if records.header.kind != "certify":
        raise InputError(
            f"predictions {predictions.path} were given for {records.path}, which holds predictions itself"
        )
    check_predictions(records, predictions)
    _check_lines(predictions)
    return classify(predictions, scheme, alpha, str(predictions.path))


def _certified(records: Records, scheme: Scheme, info: dict[str, Any]) -> dict[str, Any]:
    """The fields of `Summary` that depend on certificates."""
    robustness: list[int | None] = []
    by_reference: list[int | None] = []
    abstained = 0
    for line, c in certificates_of(records, scheme, info["alpha"], info["bound"]):
        robustness.append(c.radius if c.label == line.true else None)
        by_reference.append((c.radius or 0) if c.interval.label == line.true else None)
        abstained += c.radius is None
    right = [rho for rho in robustness if rho is not None]
    return {
        "certified_accuracy": certified_accuracy(robustness),
        "median": median_certified_robustness(robustness),
        "median_among_certified": median_certified_robustness(right),
        "median_reference": median_certified_robustness(by_reference),
        "abstained_certificates": abstained,
        "wrong_certificates": len(robustness) - len(right) - abstained,
        "certified": len(right),
        "certified_at_zero": right.count(0),
    }


def certificates_of(records: Records, scheme: Scheme, alpha: float, bound: str) -> Iterator[tuple[Record, Certificate]]:
    """Each input with its certificate, recomputed from its votes; anytime-valid for a sequential run."""
    method, most = METHODS[bound], records.header.run["n"]
    sequential = is_sequential(records.header)
    for line in records.lines:
        if line.selection is None:
            continue
        if sequential:
            yield line, certify_anytime(line.selection, line.votes, scheme, alpha, bound, most)
        else:
            yield line, method.certify(line.selection, line.votes, scheme, alpha)
