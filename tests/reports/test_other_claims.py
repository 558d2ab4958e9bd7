"""Other claims, proved from recorded votes."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from sparsecert import records
from sparsecert.certificates.target import certify_averted, certify_flagged
from sparsecert.certificates.top_k import certify_top_k
from sparsecert.errors import InputError
from sparsecert.reports import certified_accuracy, median_certified_robustness, summarise
from sparsecert.reports.other_claims import above_threshold, claim_radii, claims_table, in_top_k, never_target
from sparsecert.schemes import from_config
from tests.commands import exit_code

RECORDS = Path(__file__).parents[2] / "results" / "mnist-sample" / "k45" / "certify.jsonl.xz"


@pytest.fixture(scope="module")
def found() -> records.Records:
    return records.read(RECORDS)


def test_each_input_is_certified_as_the_function_says(found: records.Records) -> None:
    scheme, alpha = from_config(found.header.run["scheme"]), found.header.run["alpha"]
    lines: list[Any] = list(found.lines)
    assert claim_radii(found, in_top_k(3)) == [
        certify_top_k(line.selection, line.votes, scheme, alpha, 3, line.true).radius for line in lines
    ]
    assert claim_radii(found, never_target(8)) == [
        certify_averted(line.selection, line.votes, scheme, alpha, 8).radius for line in lines if line.true != 8
    ]
    assert claim_radii(found, above_threshold(1, 0.2), 0.01) == [
        certify_flagged(line.votes, scheme, 0.01, 1, 0.2).radius for line in lines if line.true == 1
    ]


def test_the_leading_class_is_the_usual_question(found: records.Records) -> None:
    usual = summarise(found, bound="two-sided")
    assert certified_accuracy(claim_radii(found, in_top_k(1))) == pytest.approx(usual.certified_accuracy, abs=0.02)
    radii = [[-1 if rho is None else rho for rho in claim_radii(found, in_top_k(k))] for k in (1, 2, 4)]
    assert all(a <= b + 1 for a, b in zip(radii[0], radii[1], strict=True))
    assert median_certified_robustness(radii[0]) < median_certified_robustness(radii[2])  # type: ignore[operator]


def test_the_table_holds_shares_by_rho(found: records.Records) -> None:
    table = claims_table([found], [in_top_k(2), never_target(0)], every=True)
    assert table.headers == ("rho", "true class among the 2 leading", "never class 0")
    shares = certified_accuracy(claim_radii(found, never_target(0)))
    by_rho = {row[0]: row for row in table.rows}
    assert by_rho["0"][2] == f"{100 * shares[0]:.2f}%"
    assert by_rho[str(len(shares) - 1)][2] == f"{100 * shares[-1]:.2f}%"
    assert by_rho["inputs"][1:] == (str(len(found.lines)), str(sum(line.true != 0 for line in found.lines)))
    assert "alpha = 0.05" in table.caption


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("report", RECORDS, "--top", 2, "--flags", 3, "--threshold", 0.25, "--format", "csv") == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows[0] == ["rho", "true class among the 2 leading", "class 3 above 0.25"]
    assert [row[0] for row in rows[3:-1]] == [str(rho) for rho in range(len(rows) - 4)]
    assert exit_code("report", RECORDS, "--averts", 3) == 0
    assert "never class 3" in capsys.readouterr().out
    for wrong, message in (
        (("--threshold", 0.2), "--threshold is for --flags"),
        (("--top", 2, "--bound", "one-sided"), "--bound does not go with --top"),
        (("--top", 11), "k must be"),
        (("--averts", 10), "target must be"),
        (("--flags", 1, "--threshold", 1), "threshold must be"),
    ):
        assert exit_code("report", RECORDS, *wrong) == 2
        assert message in capsys.readouterr().err


def test_votes_that_were_not_drawn_for_certificates_are_refused(found: records.Records) -> None:
    sequential = RECORDS.parents[2] / "mnist" / "k45" / "certify-sequential.jsonl.xz"
    with pytest.raises(InputError, match="does not hold certify votes of a fixed number"):
        claim_radii(records.read(sequential), in_top_k(2))
    with pytest.raises(InputError, match=r"no input that 'class 12 above 0\.5' applies to"):
        claim_radii(found, above_threshold(12))
