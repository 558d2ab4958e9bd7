"""Summarising a run, recomputed from its votes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from sparsecert.certificates import CERTIFICATES, Certificate, certify_anytime
from sparsecert.certificates.plurality import ExactCertificate
from sparsecert.errors import InputError
from sparsecert.procedures.exact import FEATURES, WORDS, Exact
from sparsecert.records import ANSWERS, Record, Records, is_exact, is_sequential
from sparsecert.reports.classification import (
    FROM_ALL_MASKS,
    FROM_ESTIMATION,
    Classification,
    check_predictions,
    classify,
    count_answers,
)
from sparsecert.reports.exact import exact_certificates, exact_procedure
from sparsecert.reports.medians import certified_accuracy, median_certified_robustness
from sparsecert.reports.run_info import RunInfo, VotesInfo, read_exact_run_info, read_run_info
from sparsecert.schemes import Scheme
from sparsecert.schemes import from_config as scheme_from_config


@dataclass(frozen=True, kw_only=True)
class Summary(VotesInfo):
    """A run's settings, and the results of its recorded inputs at `alpha` by `bound`.

    `certified_accuracy[rho]` is the share of inputs certified for the true class at rho or more. The three medians
    differ in which inputs count: all; only those certified for the true class; all, with "true class selected but
    nothing certified" as 0, as the paper's own code records it. `median_share`, where inputs differ in their number of
    units: the median of the certified share of these. None is N/A. For predictions everything certified is None or
    empty.

    Inputs are `uncertified` (the votes prove nothing), have `wrong_certificates` (not for the true class) or are
    `certified`, of which `certified_at_zero` have radius 0. `abstained` is another thing: the share of inputs on which
    the prediction procedure abstains. `answers` counts the answers to `at_least`; these cannot be recomputed from the
    votes, so it is None at another alpha or bound than the run's. `most_frequent`, for tables and texts: the true class
    of most inputs and its share, which a constant answer would get right whatever is perturbed.
    """

    classification: Classification
    certified_accuracy: tuple[float, ...] = ()
    median: int | None = None
    median_share: Fraction | None = None
    median_among_certified: int | None = None
    median_reference: int | None = None
    uncertified: int | None = None
    wrong_certificates: int | None = None
    certified: int | None = None
    certified_at_zero: int | None = None
    mean_seconds: float
    mean_samples: float
    answers: dict[str, int] | None = None
    invalid_votes: int
    most_frequent: tuple[str, float] | None = None

    json_names: ClassVar[str] = """
        records label kind inputs expected_inputs accuracy abstained
        classified_from classified_inputs classified_n classified_seed
        median_certified_robustness median_certified_share median_among_certified median_reference_convention
        certified certified_at_zero wrong_certificates abstained_certificates
        data split model model_sha256 scheme units keep encoding rule bound certificate masks against
        n0 n sampling shard chosen answers alpha seed run_alpha run_bound run_against
        precision device device_name mean_seconds mean_samples invalid_votes most_frequent certified_accuracy
    """
    json_attributes: ClassVar[dict[str, str]] = {
        **RunInfo.json_attributes,
        **{f"classified_{name}": f"classification.{name}" for name in ("inputs", "n", "seed")},
        "median_certified_robustness": "median",
        "median_certified_share": "median_share",
        "median_reference_convention": "median_reference",
        "abstained_certificates": "uncertified",  # its name since the first reports
    }

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

    def certified_accuracy_at(self, rho: int) -> float | None:
        """Certified accuracy at rho, 0 beyond the largest radius; None for predictions."""
        if not self.certifies:
            return None
        return self.certified_accuracy[rho] if rho < len(self.certified_accuracy) else 0.0


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
        scheme = scheme_from_config(records.header.run.get("scheme", {}))
        info = read_exact_run_info(records, exact_procedure(records, scheme, rule, against))
        _check_not_empty(records)
        certified = _certified(records, info)
        source = FROM_ALL_MASKS if info.certifies else str(records.path)
        classification = count_answers(records, source, right=certified["certified"])
    else:
        _refuse(records, {"rule": rule, "against": against}, "votes of random masks, which have none")
        info = read_run_info(records, alpha, bound)
        _check_lines(records)
        classification = _classification(records, info, predictions)
        certified = _certified(records, info) if info.certifies else {}
    return Summary(
        **vars(info),
        classification=classification,
        **(certified if info.certifies else {}),
        **_totals(records, info),
    )


def _refuse(records: Records, given: Mapping[str, object], why: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise InputError(f"{name} {value} was given for {records.path}, which holds {why}; leave it out")


def _totals(records: Records, info: VotesInfo) -> dict[str, Any]:
    """The fields of `Summary` that are totals over all inputs."""
    seconds = copies = 0.0
    invalid, given, true = 0, Counter[str | None](), Counter[int]()
    for line in records.lines:
        seconds, copies = seconds + line.seconds, copies + line.copies
        invalid += line.votes.invalid + (line.selection.invalid if line.selection else 0)
        given[line.answer] += 1
        true[line.true] += 1
    asked = (info.sampling or {}).get("at_least") is not None and not info.recertified
    return {
        "mean_seconds": seconds / info.inputs,
        "mean_samples": copies / info.inputs,
        "answers": {answer: given[answer] for answer in ANSWERS} if asked else None,
        "invalid_votes": invalid,
        "most_frequent": _most_frequent(records, true),
    }


def _most_frequent(records: Records, true: Counter[int]) -> tuple[str, float] | None:
    """The name and share of the most frequent class of rows or texts; None for images."""
    data = records.header.run["data"]
    if data.get("unit") not in (FEATURES, WORDS) or "class_names" not in data:
        return None
    label, count = true.most_common(1)[0]
    return str(data["class_names"][label]), count / true.total()


def _check_not_empty(records: Records) -> None:
    if not len(records.lines):
        raise InputError(f"{records.path} holds no inputs yet; wait for the run that writes it, or start it again")


def _check_lines(records: Records) -> None:
    _check_not_empty(records)
    selects = records.header.certifies or "bound" in records.header.run  # predictions by pairs
    stray = next((line.example for line in records.lines if (line.selection is None) == selects), None)
    if stray is not None:
        raise InputError(f"{records.path}, input {stray} is not a {records.header.kind} record; name another file")


def _classification(records: Records, info: VotesInfo, predictions: Records | None) -> Classification:
    assert info.alpha is not None
    scheme = scheme_from_config(info.scheme)
    if predictions is None:
        source = FROM_ESTIMATION if info.certifies else str(records.path)
        return classify(records, scheme, info.alpha, source, info.bound)
    if not info.certifies:
        raise InputError(
            f"predictions {predictions.path} were given for {records.path}, which holds predictions itself"
        )
    assert info.bound is not None
    check_predictions(records, predictions, info.bound)
    _check_lines(predictions)
    return classify(predictions, scheme, info.alpha, str(predictions.path))


def _certified(records: Records, info: VotesInfo) -> dict[str, Any]:
    """The fields of `Summary` that depend on certificates."""
    robustness: list[int | None] = []
    by_reference: list[int | None] = []
    shares: list[Fraction | None] = []
    uncertified = 0
    for line, c in recertify(records, info):
        selected = c.label if isinstance(c, ExactCertificate) else c.interval.label
        robustness.append(c.radius if c.label == line.true else None)
        if line.units is not None:
            shares.append(Fraction(c.radius, line.units) if c.radius is not None and c.label == line.true else None)
        by_reference.append((c.radius or 0) if selected == line.true else None)
        uncertified += c.radius is None
    right = [rho for rho in robustness if rho is not None]
    return {
        "certified_accuracy": certified_accuracy(robustness),
        "median": median_certified_robustness(robustness),
        "median_share": median_certified_robustness(shares) if shares else None,
        "median_among_certified": median_certified_robustness(right),
        "median_reference": median_certified_robustness(by_reference),
        "uncertified": uncertified,
        "wrong_certificates": len(robustness) - len(right) - uncertified,
        "certified": len(right),
        "certified_at_zero": right.count(0),
    }


def recertify(records: Records, info: VotesInfo) -> Iterator[tuple[Record, Certificate | ExactCertificate]]:
    """Each input with its certificate, recomputed from its votes by the settings of the report.

    Predictions of a fixed set of masks have radius 0.
    """
    scheme = scheme_from_config(info.scheme)
    assert info.bound is not None
    if info.exact:
        return exact_certificates(records, scheme, Exact(info.bound, info.against, info.seconds or 0.0))
    assert info.alpha is not None
    return certificates_of(records, scheme, info.alpha, info.bound)


def certificates_of(records: Records, scheme: Scheme, alpha: float, bound: str) -> Iterator[tuple[Record, Certificate]]:
    """Each input with its certificate, recomputed from its votes; anytime-valid for a sequential run."""
    method, most = CERTIFICATES[bound], records.header.run["n"]
    sequential = is_sequential(records.header)
    for line in records.lines:
        if line.selection is None:
            continue
        if sequential:
            yield line, certify_anytime(line.selection, line.votes, line.scheme_of(scheme), alpha, bound, most)
        else:
            yield line, method.certify(line.selection, line.votes, line.scheme_of(scheme), alpha)
