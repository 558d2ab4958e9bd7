from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace

import pytest

from sparsecert.counts import Tally
from sparsecert.errors import InputError
from sparsecert.reports import FORMATS, Summary, summarise
from sparsecert.reports.comparison import run_names, select_rhos
from sparsecert.reports.tables import terminal

from .made import ABSTAINED, AT_0, AT_6, AT_12, N, certified, predicted


def one() -> Summary:
    return summarise(certified([AT_12, AT_6, AT_0, ABSTAINED], path="runs/a_b/50%.jsonl", inputs=6))


def other() -> Summary:
    """A run with smaller k and large radii."""
    scheme = {"kind": "uniform", "units": 100, "keep": 1}
    return summarise(certified([AT_12, AT_6, ABSTAINED, ABSTAINED], scheme=scheme, path="runs/k1/certify.jsonl"))


def test_the_formats() -> None:
    assert list(FORMATS) == ["terminal", "markdown", "latex", "csv", "json"]


@pytest.mark.parametrize("form", list(FORMATS))
def test_no_summary_is_refused(form: str) -> None:
    with pytest.raises(InputError, match="at least one run"):
        FORMATS[form]([])


@pytest.mark.parametrize("form", ["terminal", "markdown", "latex"])
@pytest.mark.parametrize("runs", [1, 2])
def test_human_tables_carry_results_and_facts(form: str, runs: int) -> None:
    text = " ".join(FORMATS[form]([one(), other()][:runs]).replace("\\", "").split())
    assert "75.00% (25.00%)" in text
    for name, value in {"n0": 60, "n": N, "alpha": 0.05, "seed": 7}.items():
        assert re.search(rf"\b{name} (= )?{value}\b", text)
    assert "cpu (a_small & slow one)" in text
    assert "seconds per input" in text
    assert "runs/a_b/50%.jsonl, model model.safetensors 01234567" in text
    assert "incomplete, 4 of 6 inputs are recorded" in text
    if runs == 2:
        assert "runs/k1/certify.jsonl" in text
        assert "50.00% (50.00%)" in text


def test_terminal_shows_one_run_line_by_line() -> None:
    lines = [" ".join(line.split()) for line in terminal([one()], width=140).splitlines()]
    for line in (
        "median certified robustness 6",
        "median among correctly certified 6",
        "median by the reference convention 6",
        "certificates 3 for the true class (1 of them at radius 0), 0 for a wrong class, 1 without a certificate",
        "samples per input 460",
        "inputs 4 of 6",
        "rho certified accuracy",
        "0 75.00%",
        "1 50.00%",
        "6 50.00%",
        "7 25.00%",
        "12 25.00%",
    ):
        assert line in lines
    assert "13 0.00%" not in lines


def test_terminal_wraps_and_never_cuts() -> None:
    text = terminal([one(), other()], width=60)
    assert max(map(len, text.splitlines())) <= 60
    assert "…" not in text
    assert text.isascii()
    assert "\x1b" not in text
    assert "\x1b[1m" in terminal([one()], width=60, color=True)


def test_brackets_in_a_path_are_not_taken_for_markup() -> None:
    s = summarise(certified([AT_12], path="runs/[bold]x[/bold]/c.jsonl"))
    assert "runs/[bold]x[/bold]/c.jsonl" in terminal([s], width=120)


def test_not_available_and_not_applicable_differ() -> None:
    nothing = summarise(certified([AT_12, AT_6], [1, 1]))
    only_predicted = summarise(predicted([AT_12, AT_6]))
    rows = [line.split("|")[1:-1] for line in FORMATS["markdown"]([nothing, only_predicted]).splitlines()[:4]]
    cells = [dict(zip([h.strip() for h in rows[0]], [c.strip() for c in row], strict=True)) for row in rows[2:]]
    assert [c["median certified robustness"] for c in cells] == ["N/A", "-"]
    assert [c["accuracy (abstained)"] for c in cells] == ["0.00% (0.00%)", "100.00% (0.00%)"]
    assert "median" not in FORMATS["markdown"]([only_predicted])
    assert "certified accuracy" not in FORMATS["terminal"]([only_predicted])


def test_markdown_is_a_table_with_as_many_cells_in_every_row() -> None:
    s = summarise(certified([AT_12], path="a|b*c.jsonl"))
    text = FORMATS["markdown"]([s, other()])
    assert r"a\|b\*c.jsonl" in text
    for table in text.split("\n\n"):
        rows = [line for line in table.splitlines() if line.startswith("|")]
        assert len({row.count("|") for row in rows}) <= 1
    assert "| 10 | 100.00% | 50.00% |" in text


def test_latex_is_escaped_and_regular() -> None:
    text = FORMATS["latex"]([one(), other()])
    body, notes = (
        "\n".join(line for line in text.splitlines() if line.startswith("%") == comment) for comment in (False, True)
    )
    assert "runs/a_b/50%.jsonl" in notes
    assert r"\label{tab:certified-accuracy}" in body
    assert (
        body.count(r"\toprule")
        == body.count(r"\midrule")
        == body.count(r"\bottomrule")
        == body.count(r"\caption{")
        == 2
    )
    assert r"a\_small \& slow one" in text
    assert r"75.00\% (25.00\%)" in text
    assert not re.search(r"(?<!\\)[_%#]", body.replace("$n_0$", ""))
    tabulars = re.findall(r"\\begin\{tabular\}\{(lr+)\}(.*?)\\end\{tabular\}", text, re.DOTALL)
    assert len(tabulars) == 2
    for columns, body in tabulars:
        rows = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert {row.count(" & ") + 1 for row in rows} == {len(columns)}


def test_csv_has_every_rho_and_nothing_rounded() -> None:
    third = summarise(certified([AT_12, ABSTAINED, ABSTAINED]))
    rows = list(csv.DictReader(io.StringIO(FORMATS["csv"]([third, other(), summarise(predicted([AT_12]))]))))
    largest = len(other().certified_accuracy) - 1
    assert largest > 20
    assert [float(row["accuracy"]) for row in rows] == [1 / 3, 0.5, 1.0]
    assert [row["median_certified_robustness"] for row in rows] == ["", str(other().median), ""]
    shares = [[row[f"certified_accuracy_{rho}"] for rho in range(largest + 1)] for row in rows]
    assert [float(x) for x in shares[0]] == [1 / 3] * 13 + [0.0] * (largest - 12)
    assert tuple(map(float, shares[1])) == other().certified_accuracy
    assert set(shares[2]) == {""}
    assert f"certified_accuracy_{largest + 1}" not in rows[0]
    assert [row["keep"] for row in rows] == ["5", "1", "5"]


def test_json_is_an_object_for_one_and_a_list_for_several() -> None:
    assert json.loads(FORMATS["json"]([one()])) == one().to_dict()
    assert json.loads(FORMATS["json"]([one(), other()])) == [one().to_dict(), other().to_dict()]


def test_what_was_derived_again_says_so() -> None:
    records = certified([Tally((330, 40, 0), invalid=30)])
    s = summarise(records, alpha=0.01, bound="one-sided", predictions=predicted([AT_12], path="p.jsonl", seed=3))
    text = " ".join(terminal([s], width=200).split())
    assert "recomputed from the recorded votes; the run itself used alpha = 0.05, two-sided" in text
    assert "accuracy from p.jsonl, 1 of 1 inputs, n = 400, seed = 3" in text
    assert "30 ablated copies had non-finite scores" in text
    assert "one-sided (corollary-1)" in text
    assert "derived again" not in terminal([summarise(records)], width=200)


@pytest.mark.parametrize("largest", [-1, 0, 1, 19, 20, 21, 99, 1234])
def test_of_many_radii_some_are_shown_and_the_table_says_so(largest: int) -> None:
    rhos, note = select_rhos(largest)
    assert rhos == sorted(set(rhos))
    assert (rhos[0], rhos[-1]) == (0, max(largest, 0))
    assert len(rhos) <= 20
    assert bool(note) == (len(rhos) < largest + 1)
    assert rhos[:11] == list(range(min(largest, 10) + 1)) or largest < 0


def test_a_shortened_table_shows_the_true_values() -> None:
    text = terminal([other()], width=100)
    assert "then in steps of" in text
    shown = re.findall(r"^\s*(\d+)\s+(\d+\.\d\d)%$", text, re.MULTILINE)
    assert len(shown) == len(select_rhos(len(other().certified_accuracy) - 1)[0])
    assert all(float(share) == 100 * other().certified_accuracy[int(rho)] for rho, share in shown)


def test_labels_say_where_runs_differ_and_are_never_alike() -> None:
    assert run_names([one()]) == ["k = 5"]
    assert run_names([one(), other()]) == ["k = 5, 4 of 6 inputs", "k = 1, 4 inputs"]
    assert run_names([one(), summarise(certified([AT_12], seed=8, inputs=1))]) == [
        "seed = 7, 4 of 6 inputs",
        "seed = 8, 1 inputs",
    ]
    same = certified([AT_12], path="b.jsonl")
    assert run_names([summarise(certified([AT_6])), summarise(same)]) == [
        "runs/made/certify.jsonl",
        "b.jsonl",
    ]
    assert run_names([summarise(same)] * 2) == ["certify, row 1", "certify, row 2"]
    apart = [summarise(certified([AT_6], path=f"runs/{name}/certify.jsonl")) for name in "ab"]
    assert run_names(apart) == ["a", "b"]


def test_labels_leave_out_what_runs_share_and_how_they_were_computed() -> None:
    scheme = {"kind": "random-values", "units": 100, "values": 256}
    runs = [summarise(certified([AT_6], scheme={**scheme, "kappa": kappa}, device=f"{kappa}")) for kappa in (0.1, 0.2)]
    assert run_names(runs) == ["0.1 kappa", "0.2 kappa"]
    votes = certified([AT_6])
    assert run_names([summarise(votes), summarise(votes, bound="one-sided")]) == ["two-sided", "one-sided"]
    devices = [summarise(certified([AT_6], device=device)) for device in ("cpu", "cuda")]
    assert [name.split()[0] for name in run_names(devices)] == ["fp32,", "fp32,"]


def test_a_label_names_a_run_and_rules_of_one_file_stay_apart() -> None:
    named = [replace(one(), label="ours"), other()]
    assert run_names(named) == ["ours", "k = 1"]
    twice = [replace(summarise(certified([AT_6]), alpha=alpha), label="ours") for alpha in (0.05, 0.01)]
    assert run_names(twice) == ["ours, alpha = 0.05", "ours, alpha = 0.01"]
    assert "| ours |" in FORMATS["markdown"](named)
    assert json.loads(FORMATS["json"](named))[0]["label"] == "ours"
