"""Files that earlier versions wrote are read as they were then: `tests/kept/` holds one of each kind."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

import sparsecert as sc
from sparsecert import datasets, modelfile
from sparsecert.cli import cli
from sparsecert.procedures.exact import Exact, elect
from sparsecert.records import ATTACK, FORMAT, Records, is_exact, kind_of, rankings, read, read_attack
from sparsecert.reports.summary import certificates_of
from sparsecert.schemes import FixedMasks
from sparsecert.schemes import from_config as scheme_from_config

KEPT = Path(__file__).parent / "kept"
RECORDS = sorted(KEPT.glob("*.jsonl"), key=lambda path: path.stem)
SUMMARIES: dict[str, Any] = json.loads((KEPT / "summaries.json").read_text())


def test_one_file_of_each_kind_is_kept() -> None:
    kinds = {path.stem: kind_of(path) for path in RECORDS}
    assert kinds == {
        "certify": "certify", "sequential": "certify", "at-least": "certify", "exact": "certify",
        "patches": "certify", "random-values": "certify", "table": "certify", "predict": "predict", "attack": "attack",
    }  # fmt: skip
    assert SUMMARIES.keys() == kinds.keys()


def _holds(found: Any, kept: Any) -> bool:
    """Whether everything kept is there still; a later version may say more."""
    if isinstance(kept, dict):
        return all(key in found and _holds(found[key], value) for key, value in kept.items())
    if isinstance(kept, list):
        return len(found) == len(kept) and all(map(_holds, found, kept))
    return bool(found == (pytest.approx(kept) if isinstance(kept, float) else kept))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_report_says_what_it_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(KEPT)
    result = CliRunner().invoke(cli, ["report", path.name, "--format", "json"])
    assert result.exit_code == 0, result.output
    assert _holds(json.loads(result.stdout), SUMMARIES[path.stem])


def _again(records: Records) -> list[tuple[int, int | None]]:
    """Label and radius of each input, from its votes alone."""
    run = records.header.run
    scheme = scheme_from_config(run["scheme"])
    if is_exact(records.header):
        assert isinstance(scheme, FixedMasks)
        adversary = Exact(run["rule"], run["against"], run["seconds"]).adversary(scheme)
        ranks = np.stack([rankings.from_text(line.rankings or "", run["classes"]) for line in records.lines])
        return [*zip(*(found.tolist() for found in elect(ranks, run["rule"], adversary)), strict=True)]
    found = certificates_of(records, scheme, run["alpha"], run["bound"])
    return [(certificate.interval.label, certificate.radius) for _, certificate in found]


@pytest.mark.parametrize("name", ["certify", "sequential", "at-least", "exact", "patches", "random-values", "table"])
def test_votes_give_the_certificates_that_they_gave(name: str) -> None:
    records = read(KEPT / f"{name}.jsonl")
    assert len(records.lines) == 6
    assert _again(records) == [(line.label, line.radius) for line in records.lines]


def test_findings_are_whole() -> None:
    attack_records = read_attack(KEPT / "attack.jsonl")
    assert attack_records.header.kind == ATTACK
    assert len(attack_records.lines) == 3


def test_the_model_file_gives_the_scores_that_it_gave() -> None:
    g = sc.Smoothed.load(KEPT / "uniform.safetensors")
    assert (g.scheme, g.classes, g.requested_precision) == (sc.Uniform(units=64, keep=16), 10, "auto")
    images = torch.from_numpy(datasets.load("digits", "test").images.batch([0, 1, 2])).float() / 255
    with torch.no_grad():
        scores = g.model(g.encoding(images, g.scheme.masks(0, 3, 1)[:, 0]))
    torch.testing.assert_close(scores, torch.tensor(json.loads((KEPT / "scores.json").read_text())), rtol=0, atol=1e-3)
    for name in ("certify", "sequential", "at-least", "predict"):
        assert read(KEPT / f"{name}.jsonl").header.run["model"]["sha256"] == modelfile.fingerprint(
            KEPT / "uniform.safetensors"
        )


def test_the_file_of_a_module_of_ones_own_is_read() -> None:
    own = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3))
    g = sc.Smoothed.load(KEPT / "own.safetensors", model=own)
    assert g.scheme == sc.Partition(units=4, parts=2, rounds=2, seed=3)
    assert g.encoding.config() == sc.Grouped(sc.MeanFill([0.25, 0.5, 0.75]), sc.blocks_of(2, 2, 1)).config()
    assert g.metadata == {"made for": "tests"}
    assert own[1].weight.flatten().tolist() == pytest.approx([place / 36 - 0.5 for place in range(36)])
    found = g.certify(torch.rand(2, 3, 2, 2, generator=torch.Generator().manual_seed(0)))
    assert found.counts.sum(axis=1).tolist() == [4, 4]


def test_a_file_with_random_values_is_read() -> None:
    own = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    g = sc.Smoothed.load(KEPT / "own-random-values.safetensors", model=own)
    assert g.scheme == sc.RandomValues(units=4, kappa=0.5, values=16)
    assert own[1].weight.flatten().tolist() == [place / 8 - 0.5 for place in range(8)]
    assert g.certify(torch.rand(1, 1, 2, 2), n0=10, n=50).counts.sum() == 50


def test_the_model_of_a_table_gives_the_votes_that_it_gave(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the tables extra is not installed")
    pytest.importorskip("pandas", reason="the tables extra is not installed")
    command = ["certify", str(KEPT / "table.safetensors"), "--data", str(KEPT / "table.csv"), "--limit", "6"]
    result = CliRunner().invoke(cli, [*command, "--rankings", "--out", str(tmp_path / "again.jsonl")])
    assert result.exit_code == 0, result.output
    kept, again = read(KEPT / "table.jsonl"), read(tmp_path / "again.jsonl")
    run = {**kept.header.run, "against": "features"}  # it said pixels once
    run["data"] = {**run["data"], "unit": "features"}
    assert again.header.run == run
    assert [replace(line, seconds=0.0) for line in again.lines] == [replace(line, seconds=0.0) for line in kept.lines]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_records_of_a_newer_format_are_refused_by_name(path: Path, tmp_path: Path) -> None:
    newer = tmp_path / path.name
    newer.write_text(path.read_text().replace(f'"format": {FORMAT}', f'"format": {FORMAT + 1}', 1))
    result = CliRunner().invoke(cli, ["report", str(newer)])
    assert isinstance(result.exception, sc.InputError)
    assert str(result.exception) == f"{newer} has format 2, this version reads 1; update sparsecert"


def test_a_model_file_of_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    newer = tmp_path / "newer.safetensors"
    header = {**modelfile.read_header(KEPT / "own.safetensors"), "format": modelfile.FORMAT + 1}
    save_file(load_file(KEPT / "own.safetensors"), newer, metadata={modelfile.KEY: json.dumps(header)})
    with pytest.raises(sc.InputError, match="has format 3, this version reads 1 and 2; update sparsecert"):
        sc.Smoothed.load(newer, model=torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3)))


def test_a_kept_run_is_known_as_finished(tmp_path: Path) -> None:
    """The command that wrote it, given again, finds nothing left to do and changes nothing."""
    shutil.copy(KEPT / "predict.jsonl", tmp_path)
    command = f"predict {KEPT / 'uniform.safetensors'} --data digits --limit 6 --n 200 --device cpu"
    result = CliRunner().invoke(cli, [*command.split(), "--out", str(tmp_path / "predict.jsonl")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "predict.jsonl").read_bytes() == (KEPT / "predict.jsonl").read_bytes()
